"""`fft`: discrete Fourier transforms over the last dims, by NumPy's pocketfft."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched
from curta.core.trace import typeof
from curta.primitives.elementwise import conj, mul
from curta.primitives.families import Linear
from curta.primitives.structure import BroadcastInDim, move_dim


class FftType(enum.IntEnum):
    """The kinds of transforms: forward and inverse, of complex or real numbers.

    >>> from curta import lax, numpy as jnp
    >>> lax.fft(jnp.ones(4), lax.FftType.RFFT, (4,)).real
    Array([4., 0., 0.], dtype=float32)
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_FUNCTIONS: dict[FftType, Callable[..., Any]] = {
    FftType.FFT: np.fft.fftn,
    FftType.IFFT: np.fft.ifftn,
    FftType.RFFT: np.fft.rfftn,
    FftType.IRFFT: np.fft.irfftn,
}
_COMPLEX = {"float32": np.complex64, "float64": np.complex128}


@dataclass(frozen=True)
class Fft(Linear):
    """A transform over the last dims; of those of `fft_lengths` elements.

    A real transform keeps the first half of its last dim, whose other half is the
    conjugate.
    """

    makes_nan: ClassVar[bool] = True
    compiled_above: ClassVar[str] = "compiled_transform"
    name: ClassVar[str] = "fft"
    fft_type: FftType
    fft_lengths: tuple[int, ...]

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        rank, lengths = len(self.fft_lengths), self.fft_lengths
        if rank > x.ndim:
            raise ValueError(
                f"FFT input shape {x.shape} must have at least as many input dimensions"
                f" as fft_lengths {lengths}."
            )
        outer, inner = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
        self._check_dtype(x)
        kind = "RFFT" if self.fft_type == FftType.RFFT else "FFT"
        if self.fft_type == FftType.IRFFT:
            if inner[:-1] != lengths[:-1]:
                raise ValueError(
                    f"IRFFT input shape {x.shape} minor dimensions must be equal to all"
                    f" except the last fft_length, got fft_lengths={lengths}"
                )
            if lengths and inner[-1] != lengths[-1] // 2 + 1:
                raise ValueError(
                    f"IRFFT input shape {x.shape} innermost dimension must be equal to"
                    f" fft_lengths[-1] // 2 + 1, got fft_lengths={lengths}"
                )
        elif inner != lengths:
            raise ValueError(
                f"{kind} input shape {x.shape} minor dimensions must be equal to"
                f" fft_lengths {lengths}"
            )
        if self.fft_type == FftType.RFFT:
            if 0 in lengths[-1:]:
                raise ValueError(
                    f"RFFT of no elements: fft_lengths {lengths} of input shape"
                    f" {x.shape} must end in a positive length"
                )
            shape = (*outer, *lengths[:-1], lengths[-1] // 2 + 1)
            return ShapedArray(shape, np.dtype(_COMPLEX[x.dtype.name]))
        if self.fft_type == FftType.IRFFT:
            return ShapedArray((*outer, *lengths), dtypes.finfo(x.dtype).dtype)
        return x.strip_weak_type()

    def _check_dtype(self, x: ShapedArray) -> None:
        if self.fft_type == FftType.RFFT:
            if x.dtype.name not in _COMPLEX:
                raise ValueError(
                    f"RFFT input must be float32 or float64, got {x.dtype.name}"
                )
        elif not dtypes.issubdtype(x.dtype, np.complexfloating):
            kind = "IRFFT" if self.fft_type == FftType.IRFFT else "FFT"
            raise ValueError(
                f"{kind} input must be complex64 or complex128, got {x.dtype.name}"
            )

    def eval(self, *args: Any) -> Any:
        (x,) = args
        aval = self.aval(typeof(x))
        rank = len(self.fft_lengths)
        if not aval.size or not x.size:
            return np.zeros(aval.shape, aval.dtype)
        axes = tuple(range(x.ndim - rank, x.ndim))
        out = _FUNCTIONS[self.fft_type](x, self.fft_lengths, axes)
        return out.astype(aval.dtype, copy=False)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        """A transform is symmetric; what a real one leaves out counts twice."""
        lengths, count = self.fft_lengths, math.prod(self.fft_lengths)
        even = lengths[-1] % 2 == 0 if lengths else False
        if self.fft_type == FftType.RFFT:
            each = _weights(typeof(cotangent), count / 2, count, even)
            return [Fft(FftType.IRFFT, lengths)(mul(conj(cotangent), each))]
        if self.fft_type == FftType.IRFFT:
            result = Fft(FftType.RFFT, lengths)(cotangent)
            each = _weights(typeof(result), 2 / count, 1 / count, even)
            return [conj(mul(result, each))]
        return [self(cotangent)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        return self(move_dim(x, dim, 0)), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for kind in FftType.FFT, FftType.IFFT:
            yield cls(kind, (5,)), [((2, 5), "complex")]
            yield cls(kind, (2, 3, 4)), [((2, 3, 4), "complex")]
        for n in 5, 6, 1:
            yield cls(FftType.RFFT, (n,)), [((2, n), "float32")]
            yield cls(FftType.RFFT, (2, n)), [((2, n), "float64")]
            yield cls(FftType.IRFFT, (3, n)), [((3, n // 2 + 1), "complex")]
        yield cls(FftType.FFT, (0,)), [((2, 0), "complex")]


def _weights(aval: ShapedArray, pair: float, single: float, even: bool) -> Any:
    """`pair` for the elements of a half that stand for two, `single` for the others.

    The first one stands for itself, and so does the last one of an even length.
    """
    mask = np.full(aval.shape[-1], pair)
    mask[0] = single
    if even:
        mask[-1] = single
    return BroadcastInDim(aval.shape, (aval.ndim - 1,))(mask.astype(aval.dtype))
