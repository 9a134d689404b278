"""Fourier transforms as transforms along one dim, which a routine of the library does.

Of n real numbers, n even, it is the transform of n/2 pairs, read as complex numbers,
and what belongs together added up (C. Van Loan, Computational Frameworks for the Fast
Fourier Transform, 1992, 4.3); of few, a product with a matrix. Where n has a prime
factor without a butterfly, it is two products of matrices, of sums and of differences
of opposite points; or if n is large a convolution with a chirp, by transforms of a
length that has none (L. Bluestein, "A linear filtering approach to the computation of
discrete Fourier transform", 1970).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.butterflies import radices
from curta.compiler.library.fourier import FourierRoutine
from curta.compiler.library.stockham import roots
from curta.compiler.rewrite.inline import Function
from curta.compiler.rewrite.library_op import LibraryOp
from curta.compiler.targets import Target
from curta.core.avals import ShapedArray
from curta.core.memo import kept_by_settings
from curta.core.trace import typeof
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import add, mul, neg, sub
from curta.primitives.elementwise.complex import complex_, conj, imag, real
from curta.primitives.elementwise.select import select_n
from curta.primitives.fft import Fft, FftType
from curta.primitives.joining import Concatenate
from curta.primitives.linalg.matrices import columns
from curta.primitives.shape import Rev
from curta.primitives.slicing import Pad
from curta.primitives.structure import BroadcastInDim, Reshape, move_dim, zeros

_INVERSE = (FftType.IFFT, FftType.IRFFT)


@dataclass(frozen=True)
class TransformAlong(LibraryOp):
    """The transform along `axis`; the second operand is the table of its routine.

    Real operands or results are pairs in the last dim, which stand for complex numbers.
    """

    name: ClassVar[str] = "transform_along"
    axis: int
    inverse: bool
    to_real: bool = False

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        x = avals[0]
        if self.to_real:
            shape = (*x.shape[:-1], 2 * x.shape[-1])
            return ShapedArray(shape, dtypes.finfo(x.dtype).dtype)
        return ShapedArray(_complex_shape(x), dtypes.to_complex_dtype(x.dtype))

    def eval(self, *args: Any) -> Any:
        x, _ = args
        function = np.fft.ifft if self.inverse else np.fft.fft
        out = function(x.view(dtypes.to_complex_dtype(x.dtype)), axis=self.axis)
        return out.view(self.aval(typeof(x)).dtype)

    def routine(self, target: Target, *avals: ShapedArray) -> FourierRoutine:
        shape, axis = _complex_shape(avals[0]), self.axis
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        kind = f"f{dtypes.finfo(avals[0].dtype).bits}"
        width = target.vector_bytes
        sizes = outer, shape[axis], inner
        return FourierRoutine(*sizes, kind, self.inverse, width, tuning=target.tuning)


def _complex_shape(aval: ShapedArray) -> tuple[int, ...]:
    if aval.dtype.kind == "c":
        return aval.shape
    return (*aval.shape[:-1], aval.shape[-1] // 2)


def transformed(
    op: Fft, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    """What an `Fft` stands for; None if there is nothing to transform."""
    (aval,) = avals
    if not aval.size or not op.aval(aval).size or not op.fft_lengths:
        return None
    axes = range(aval.ndim - len(op.fft_lengths), aval.ndim)
    inverse = op.fft_type in _INVERSE

    def run(x: Any) -> list[Any]:
        others = axes
        if op.fft_type not in (FftType.FFT, FftType.IFFT):
            others = axes[:-1]
        if op.fft_type == FftType.RFFT:
            x = _from_real(x, target)
        for axis in others:
            x = _along(x, axis, inverse, target)
        if op.fft_type == FftType.IRFFT:
            x = _to_real(x, op.fft_lengths[-1], target)
        return [x]

    return run


def _along(x: Any, axis: int, inverse: bool, target: Target) -> Any:
    """The transforms of complex numbers along one dim."""
    shape = typeof(x).shape
    size, inner, last = shape[axis], math.prod(shape[axis + 1 :]), len(shape) - 1
    if size == 1:
        return x
    few = 1 < inner < target.tuning.fourier_columns or (
        inner > 1 and size > target.tuning.fourier_block
    )
    known = radices(size) is not None
    if axis < last and (few or not known):
        rows = _along(move_dim(x, axis, last), last, inverse, target)
        return move_dim(rows, last, axis)
    if known:
        return _applied(TransformAlong(axis, inverse), x, target)
    tuning, rows = target.tuning, math.prod(shape[:-1])
    # Of few rows products take as long as to read the matrix.
    few = size > min(tuning.fourier_product, tuning.fourier_product_rows * rows)
    return _chirped(x, inverse, target) if few else _by_products(x, inverse)


def _applied(op: TransformAlong, x: Any, target: Target) -> Any:
    return op(x, _table(op.routine(target, typeof(x))))


@kept_by_settings(maxsize=64)
def _table(routine: FourierRoutine) -> Any:
    # The table depends on the length and the lanes, not on the shape.
    return routine.table()


# ------------------------------------------------------------------ real numbers


def _from_real(x: Any, target: Target) -> Any:
    """The first half of the transforms of rows of real numbers."""
    aval = typeof(x)
    size, last = aval.shape[-1], aval.ndim - 1
    if size <= target.tuning.fourier_real_product:
        return _from_real_by_product(x)
    if not _by_pairs(size):
        whole = _along(complex_(x, zeros(aval)), last, False, target)
        return columns(whole, 0, size // 2 + 1)
    pairs = _applied(TransformAlong(last, False), x, target)
    middle = columns(pairs, 1, size // 2)
    even, odd = _halves(middle)
    first = columns(pairs, 0, 1)
    ends = [_only_real(f(real(first), imag(first))) for f in (add, sub)]
    # An odd frequency is -i times half of the difference.
    rotated = mul(odd, _row(-1j * roots(np.arange(1, size // 2), size, -1), odd))
    return Concatenate(last)(ends[0], add(even, rotated), ends[1])


def _from_real_by_product(x: Any) -> Any:
    """The same by the definition, as real and imaginary parts side by side."""
    aval = typeof(x)
    size, last = aval.shape[-1], aval.ndim - 1
    j, k = np.arange(size)[:, None], np.arange(size // 2 + 1)
    matrix = roots(j * k, size, -1)
    both = np.stack([matrix.real, matrix.imag], -1).astype(aval.dtype)
    parts = DotGeneral((((last,), (0,)), ((), ())))(x, both)
    shape = (*aval.shape[:-1], k.size)
    re, im = (Reshape(shape)(columns(parts, i, i + 1)) for i in (0, 1))
    is_real = BroadcastInDim(shape, (last,))(2 * k % size == 0)  # whatever x is
    return complex_(re, select_n(is_real, im, zeros(typeof(im))))


def _to_real(x: Any, size: int, target: Target) -> Any:
    """The rows of real numbers of which `x` is the first half of the transforms."""
    last, half = typeof(x).ndim - 1, size // 2
    if not _by_pairs(size):
        rest = columns(x, 1, size - half)
        parts = [x, conj(Rev((last,))(rest))] if size > 2 else [x]
        whole = Concatenate(last)(*parts) if size > 2 else x
        return real(_along(whole, last, True, target))
    # The transform of real numbers begins and ends with a real number.
    ends = [real(columns(x, i, i + 1)) for i in (0, half)]
    scale = _half(ends[0])
    first = complex_(mul(add(*ends), scale), mul(sub(*ends), scale))
    even, odd = _halves(columns(x, 1, half))
    rotated = mul(odd, _row(1j * roots(np.arange(1, half), size, 1), odd))
    pairs = Concatenate(last)(first, add(even, rotated))
    return _applied(TransformAlong(last, True, to_real=True), pairs, target)


def _halves(x: Any) -> tuple[Any, Any]:
    """Half of the sum, and of the difference, of rows and what they mirror.

    The mirror image of a transform, conjugated, is that of the conjugate.
    """
    mirrored = Rev((typeof(x).ndim - 1,))(x)
    re, im, re_there, im_there = (f(y) for y in (x, mirrored) for f in (real, imag))
    scale = _half(re)

    def half(function: Any, x: Any, y: Any) -> Any:
        return mul(function(x, y), scale)

    return (
        complex_(half(add, re, re_there), half(sub, im, im_there)),
        complex_(half(sub, re, re_there), half(add, im, im_there)),
    )


def _half(like: Any) -> Any:
    return typeof(like).dtype.type(0.5)


def _only_real(x: Any) -> Any:
    return complex_(x, zeros(typeof(x)))


def _by_pairs(size: int) -> bool:
    return size % 2 == 0 and size > 2 and radices(size // 2) is not None


def _row(numbers: Any, like: Any) -> Any:
    """Numbers for the last dim, in the dtype and shape of another value."""
    aval = typeof(like)
    return BroadcastInDim(aval.shape, (aval.ndim - 1,))(numbers.astype(aval.dtype))


# ------------------------------------------------------------------ other lengths


def _by_products(x: Any, inverse: bool) -> Any:
    """The transforms of rows of a few points, by their definition.

    Result k and its opposite are the sum and the difference of two sums over j: cosines
    times sums of opposite points, and i times sines times differences of these.
    """
    aval = typeof(x)
    size, last = aval.shape[-1], aval.ndim - 1
    half, sign = (size + 1) // 2, 1 if inverse else -1
    low, high = columns(x, 1, half), Rev((last,))(columns(x, size - half + 1, size))
    sums = _with_ends(x, size, add(low, high))
    k = np.arange(size // 2 + 1)
    angles = roots(k[:, None] * k, size, sign) / (size if inverse else 1)
    even = _times(sums, angles.real)
    odd = _times(sub(low, high), angles.imag[1:half, 1:half])
    rotated = complex_(neg(imag(odd)), real(odd))
    middle = columns(even, 1, half)
    first = _with_ends(even, size, add(middle, rotated))
    return Concatenate(last)(first, Rev((last,))(sub(middle, rotated)))


def _with_ends(x: Any, size: int, between: Any) -> Any:
    """Point 0 of `x`, the points between, and of an even number the opposite one."""
    ends = [0, size // 2] if size % 2 == 0 else [0]
    first, *opposite = (columns(x, k, k + 1) for k in ends)
    return Concatenate(typeof(x).ndim - 1)(first, between, *opposite)


def _times(x: Any, matrix: Any) -> Any:
    """Rows of complex numbers times a real matrix."""
    last, parts = typeof(x).ndim - 1, (real(x), imag(x))
    product = DotGeneral((((last,), (0,)), ((), ())))
    return complex_(*(product(p, matrix.astype(typeof(p).dtype)) for p in parts))


def _chirped(x: Any, inverse: bool, target: Target) -> Any:
    """The transforms of rows of any length."""
    aval = typeof(x)
    size, last = aval.shape[-1], aval.ndim - 1
    chirp, kernel = _chirp(size, inverse)
    padding = (*[(0, 0, 0)] * last, (0, kernel.size - size, 0))
    padded = Pad(padding)(mul(x, _row(chirp, x)), np.zeros((), aval.dtype))
    spectrum = _along(padded, last, False, target)
    folded = _along(mul(spectrum, _row(kernel, spectrum)), last, True, target)
    scale = 1 / size if inverse else 1.0
    return mul(columns(folded, 0, size), _row(scale * chirp, x))


@functools.lru_cache(maxsize=64)
def _chirp(size: int, inverse: bool) -> tuple[Any, Any]:
    """exp(-i pi k^2 / size), or its conjugate, and the transform of the conjugate."""
    k = np.arange(size)
    chirp = roots(k * k, 2 * size, 1 if inverse else -1)
    kernel = np.zeros(_long_enough(2 * size - 1), complex)
    kernel[:size] = chirp.conj()
    kernel[len(kernel) - size + 1 :] = chirp[:0:-1].conj()
    return chirp, np.fft.fft(kernel)


def _long_enough(size: int) -> int:
    """The least length from `size` on that is a power of two, or that times 3, 5, 9."""
    powers = [(size - 1) // odd for odd in (1, 3, 5, 9)]
    lengths = [
        odd << p.bit_length() for odd, p in zip((1, 3, 5, 9), powers, strict=True)
    ]
    return min(lengths)
