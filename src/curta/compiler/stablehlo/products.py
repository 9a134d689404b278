"""Products of matrices, convolutions and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.stablehlo.algorithms import way_of
from curta.compiler.stablehlo.attributes import RawAttribute, commas, enum
from curta.compiler.stablehlo.integer_convolutions import as_products
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, lower_closed, rule
from curta.compiler.stablehlo.shape import converted, full, in_bytes
from curta.compiler.stablehlo.types import element_type, tensor_type, with_element
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.stage import stage
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.fft import Fft, FftType
from curta.primitives.precision import DotAlgorithm, Precision

_GPUS = {"cuda", "rocm"}


def precisions(given: Any) -> list[str]:
    """The precision of each operand of a product."""
    if isinstance(given, tuple) and not isinstance(given, DotAlgorithm):
        return [Precision(p).name for p in given]
    known = given if isinstance(given, Precision) else Precision.DEFAULT
    return [known.name] * 2


# ------------------------------------------------------------- products of matrices


@rule(DotGeneral)
@in_bytes
def _dot_general(b: BlockBuilder, op: DotGeneral, x: HloValue, y: HloValue) -> HloValue:
    (out,) = b.outs
    contract, batch = op.dimension_numbers
    way = way_of(op.precision, [a.dtype for a in b.ins], out.dtype)
    result = b.op(
        "dot_general",
        [converted(b, v, d) for v, d in zip((x, y), way.operands, strict=True)],
        tensor_type(ShapedArray(out.shape, way.sums)),
        batch=batch,
        contract=contract,
        precision=precisions(op.precision),
        algorithm=way.algorithm,
    )
    if way.sums == out.dtype:
        return result
    wide = ShapedArray(out.shape, way.sums)
    return b.apply(ConvertElementType(out.dtype, False), [wide], result)[0]


# --------------------------------------------------------------------- convolutions


@rule(ConvGeneralDilated)
@in_bytes
def _conv_general_dilated(
    b: BlockBuilder, op: ConvGeneralDilated, x: HloValue, y: HloValue
) -> HloValue:
    (out,) = b.outs
    if not dtypes.issubdtype(out.dtype, np.inexact) and {*b.program.platforms} & _GPUS:
        return _of_integers(b, op, x, y)
    if out.dtype.kind == "c":
        x, y = (converted(b, v, out.dtype) for v in (x, y))
        return _complex_product(b, x, y, lambda x, y: _convolution(b, op, x, y))
    return _convolution(b, op, x, y)


def _of_integers(
    b: BlockBuilder, op: ConvGeneralDilated, x: HloValue, y: HloValue
) -> HloValue:
    (out,) = b.outs
    if 0 in (*b.ins[0].shape, *b.ins[1].shape, *out.shape):
        return full(b, out, 0)
    closed = stage(lambda x, y: [as_products(op, x, y, out.dtype)], b.ins)
    return lower_closed(b, closed, [x, y])[0]


def _convolution(
    b: BlockBuilder, op: ConvGeneralDilated, x: HloValue, y: HloValue
) -> HloValue:
    (out,) = b.outs
    part = dtypes.finfo(out.dtype).dtype if out.dtype.kind == "c" else out.dtype
    window = [
        ("stride", list(op.window_strides)),
        ("pad", [list(p) for p in op.padding]),
        ("lhs_dilate", list(op.lhs_dilation)),
        ("rhs_dilate", list(op.rhs_dilation)),
        ("reverse", RawAttribute(f"[{commas(['false'] * len(op.padding))}]")),
    ]
    configs = [enum("precision", p) for p in precisions(op.precision)]
    return b.op(
        "convolution",
        [x, y],
        tensor_type(ShapedArray(out.shape, part)),
        dim_numbers=_dim_numbers(op),
        window=window,
        rest={
            "batch_group_count": op.batch_group_count,
            "feature_group_count": op.feature_group_count,
            "precision_config": RawAttribute(f"[{commas(configs)}]"),
        },
    )


def _dim_numbers(op: ConvGeneralDilated) -> str:
    lhs, rhs, out = op.dimension_numbers
    letters = _labels(lhs, "bf"), _labels(rhs, "oi"), _labels(out, "bf")
    return f"{letters[0]}x{letters[1]}->{letters[2]}"


def _labels(spec: Sequence[int], letters: str) -> str:
    """What each dim is: the first two of a spec by letters, the others by numbers."""
    names = [*letters, *map(str, range(len(spec) - 2))]
    return f"[{commas([names[spec.index(d)] for d in range(len(spec))])}]"


def _complex_product(
    b: BlockBuilder,
    x: HloValue,
    y: HloValue,
    product: Callable[[HloValue, HloValue], HloValue],
) -> HloValue:
    """A product of complex arrays by three products of real ones (Gauss)."""

    element = element_type(dtypes.finfo(b.outs[0].dtype).dtype)

    def part(name: str, v: HloValue) -> HloValue:
        return b.op(name, [v], with_element(v.type, element))

    def of(name: str, v: HloValue, w: HloValue) -> HloValue:
        return b.op(name, [v, w], v.type)

    (x_re, x_im), (y_re, y_im) = (
        [part(n, v) for n in ("real", "imag")] for v in (x, y)
    )
    first = product(of("add", x_re, x_im), y_re)
    second = product(x_re, of("subtract", y_im, y_re))
    third = product(x_im, of("add", y_re, y_im))
    parts = [of("subtract", first, third), of("add", first, second)]
    return b.op("complex", parts, b.out_type)


# ----------------------------------------------------------------------- transforms

_MOST_DIMS = 3  # that compilers transform at once


@rule(Fft)
def _fft(b: BlockBuilder, op: Fft, x: HloValue) -> HloValue:
    (aval,), (out,) = b.ins, b.outs
    lengths = op.fft_lengths
    if any(map(is_symbolic_dim, lengths)):
        raise NotImplementedError(
            "Shape polymorphism for FFT with non-constant fft_length is not supported:"
            f" fft_lengths={lengths}. Export the program for sizes that are known."
        )
    if 0 in out.shape or 0 in aval.shape:
        return full(b, out, 0)
    if not lengths:
        return converted(b, x, out.dtype)
    if lengths[-1] == 1 and op.fft_type in (FftType.RFFT, FftType.IRFFT):
        return _of_one_element(b, op, x)
    if len(lengths) <= _MOST_DIMS:
        return _transformed(b, x, op.fft_type, lengths, b.out_type)
    inner, outer = lengths[-_MOST_DIMS:], len(lengths) - _MOST_DIMS
    if op.fft_type == FftType.IRFFT:
        x = _over_first(b, x, FftType.IFFT, aval, outer, len(lengths))
        return _transformed(b, x, op.fft_type, inner, b.out_type)
    result = _transformed(b, x, op.fft_type, inner, b.out_type)
    kind = FftType.IFFT if op.fft_type == FftType.IFFT else FftType.FFT
    return _over_first(b, result, kind, out, outer, len(lengths))


def _of_one_element(b: BlockBuilder, op: Fft, x: HloValue) -> HloValue:
    """A real transform whose last dim has one element: one of complex numbers.

    cuFFT leaves that dim out, and takes the one before it for the dim of which there is
    only half.
    """
    (aval,), (out,) = b.ins, b.outs
    if op.fft_type == FftType.RFFT:
        whole = Fft(FftType.FFT, op.fft_lengths)
        return b.apply(whole, [out], converted(b, x, out.dtype))[0]
    (result,) = b.apply(Fft(FftType.IFFT, op.fft_lengths), [aval], x)
    return b.op("real", [result], b.out_type)


def _transformed(
    b: BlockBuilder, x: HloValue, kind: FftType, lengths: Sequence[int], type_: str
) -> HloValue:
    return b.op("fft", [x], type_, fft_type=kind.name, fft_length=tuple(lengths))


def _over_first(
    b: BlockBuilder,
    x: HloValue,
    kind: FftType,
    aval: ShapedArray,
    count: int,
    rank: int,
) -> HloValue:
    """`x` transformed over the first `count` of its last `rank` dims."""
    first = aval.ndim - rank
    dims = list(range(first, first + count))
    while dims:
        last, dims = dims[-_MOST_DIMS:], dims[:-_MOST_DIMS]
        order = [d for d in range(aval.ndim) if d not in last] + last
        back = sorted(range(aval.ndim), key=order.__getitem__)
        lengths = [aval.shape[d] for d in last]
        moved = ShapedArray(tuple(aval.shape[d] for d in order), aval.dtype)
        x = b.op("transpose", [x], tensor_type(moved), permutation=order)
        x = _transformed(b, x, kind, lengths, x.type)
        x = b.op("transpose", [x], tensor_type(aval), permutation=back)
    return x
