"""How products of matrices are computed: dtypes of operands and sums, algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes
from curta.compiler.stablehlo.attributes import RawAttribute, text
from curta.compiler.stablehlo.types import element_type
from curta.primitives.precision import DotAlgorithm, DotAlgorithmPreset


class Way(NamedTuple):
    """The dtypes of operands and sums, and the algorithm if one is asked for."""

    operands: Sequence[Any]
    sums: Any
    algorithm: RawAttribute | None = None


class _Preset(NamedTuple):
    """What an algorithm takes numbers for, the dtype of sums, how many products.

    It takes operands of the dtypes `takes` as they are, and makes others the first of
    them; where they are of dtype `gives`, it gives sums of it, too.
    """

    numbers: str
    sums: Any
    products: int
    takes: tuple[Any, ...]
    gives: Any = None


_F16, _F32, _F64 = map(np.dtype, (np.float16, np.float32, np.float64))
_BF16 = np.dtype(dtypes.bfloat16)
_P = DotAlgorithmPreset
_PRESETS = {
    _P.F16_F16_F16: _Preset("f16", _F16, 1, (_F16,)),
    _P.F16_F16_F32: _Preset("f16", _F32, 1, (_F16,), _F16),
    _P.BF16_BF16_BF16: _Preset("bf16", _BF16, 1, (_BF16, _F32)),
    _P.BF16_BF16_F32: _Preset("bf16", _F32, 1, (_BF16, _F32), _BF16),
    _P.BF16_BF16_F32_X3: _Preset("bf16", _F32, 3, (_F32,)),
    _P.BF16_BF16_F32_X6: _Preset("bf16", _F32, 6, (_F32,)),
    _P.BF16_BF16_F32_X9: _Preset("bf16", _F32, 9, (_F32,)),
    _P.TF32_TF32_F32: _Preset("tf32", _F32, 1, (_F32,)),
    _P.TF32_TF32_F32_X3: _Preset("tf32", _F32, 3, (_F32,)),
    _P.F32_F32_F32: _Preset("f32", _F32, 1, (_F32,)),
    _P.F64_F64_F64: _Preset("f64", _F64, 1, (_F64,)),
}
_ANY_SUM = (_P.ANY_F8_ANY_F8_ANY, _P.ANY_F8_ANY_F8_ANY_FAST_ACCUM)


def way_of(precision: Any, operands: Sequence[Any], out: Any) -> Way:
    """How a product of operands of two dtypes that is `out` is computed."""
    if isinstance(precision, DotAlgorithm):
        return _given_algorithm(precision)
    if isinstance(precision, DotAlgorithmPreset) and precision is not _P.DEFAULT:
        known = _PRESETS.get(precision)
        if known is None:
            return _of_bytes(precision, operands, out)
        return _preset(known, operands, out)
    if operands[0] == operands[1] or all(map(_is_float_of_a_byte, operands)):
        return Way(operands, out)
    return Way((out, out), out)  # few compilers have products of mixed dtypes


def _is_float_of_a_byte(dtype: Any) -> bool:
    return bool(dtype.itemsize == 1 and dtypes.issubdtype(dtype, np.floating))


def _given_algorithm(given: DotAlgorithm) -> Way:
    lhs, rhs, sums = map(np.dtype, given[:3])
    names = element_type(lhs), element_type(rhs), element_type(sums)
    return Way((lhs, rhs), sums, _algorithm(names, *given[3:]))


def _of_bytes(preset: DotAlgorithmPreset, operands: Sequence[Any], out: Any) -> Way:
    """Floats of a byte, whatever they are, as they are."""
    if not all(map(_is_float_of_a_byte, operands)):
        raise ValueError(
            f"The dot algorithm '{preset}' requires both inputs to have float8 dtypes."
            f" Got {operands[0]} and {operands[1]} instead."
        )
    sums = out if out.itemsize <= 2 or preset in _ANY_SUM else _F32
    fast = preset is _P.ANY_F8_ANY_F8_F32_FAST_ACCUM
    return Way(
        operands, sums, _algorithm((*map(element_type, operands), "f32"), loose=fast)
    )


def _preset(known: _Preset, operands: Sequence[Any], out: Any) -> Way:
    taken = [d if d in known.takes else known.takes[0] for d in operands]
    as_given = out == known.gives and all(d == out for d in taken)
    names = known.numbers, known.numbers, element_type(known.sums)
    algorithm = _algorithm(names, products=known.products)
    return Way(taken, out if as_given else known.sums, algorithm)


def _algorithm(
    names: Sequence[str],
    lhs_components: int = 1,
    rhs_components: int = 1,
    products: int = 1,
    loose: bool = False,
) -> RawAttribute:
    kinds = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
    entries = dict(zip(kinds, names, strict=True)) | {
        "lhs_component_count": str(lhs_components),
        "rhs_component_count": str(rhs_components),
        "num_primitive_operations": str(products),
        "allow_imprecise_accumulation": text(loose),
    }
    return RawAttribute(f"<{', '.join(f'{k} = {v}' for k, v in entries.items())}>")
