"""The types of StableHLO for avals."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.dim import SymbolicDim
from curta.dtypes import KeyDType, physical_dtype

_ELEMENTS = {
    "bool": "i1",
    **{f"int{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (2, 4, 8, 16, 32, 64)},
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float4_e2m1fn": "f4E2M1FN",
    "float8_e3m4": "f8E3M4",
    "float8_e4m3": "f8E4M3",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float0": "i1",
}


@functools.lru_cache(256)
def element_type(dtype: Any) -> str:
    """The element type for a dtype; raises NotImplementedError if there is none."""
    name = "float0" if dtype.name == "void" else dtype.name
    if name not in _ELEMENTS:
        raise NotImplementedError(f"StableHLO has no element type for dtype {dtype}")
    return _ELEMENTS[name]


class Dynamic(str):
    """The type of a tensor with symbolic dims, which are `?` in its text."""

    __slots__ = ("shape",)

    shape: tuple[Any, ...]


def tensor(shape: Sequence[Any], element: str) -> str:
    """The type of a tensor."""
    for d in shape:
        if isinstance(d, SymbolicDim):
            return _dynamic(shape, element)
    return f"tensor<{''.join([f'{d}x' for d in shape])}{element}>"


def _dynamic(shape: Sequence[Any], element: str) -> Dynamic:
    dims = ["?x" if isinstance(d, SymbolicDim) else f"{d}x" for d in shape]
    result = Dynamic(f"tensor<{''.join(dims)}{element}>")
    result.shape = tuple(shape)
    return result


def physical(aval: ShapedArray) -> ShapedArray:
    """The aval of tensors for values of an aval: keys are words along a last dim."""
    if isinstance(aval.dtype, KeyDType):
        return ShapedArray((*aval.shape, aval.dtype.words), np.dtype(np.uint32))
    return ShapedArray(aval.shape, physical_dtype(aval.dtype))


@functools.lru_cache(4096)
def tensor_type(aval: ShapedArray) -> str:
    """The type of values of an aval."""
    result = physical(aval)
    return tensor(result.shape, element_type(result.dtype))


def with_element(type_: str, element: str) -> str:
    """The type of a tensor of the same shape with other elements."""
    if isinstance(type_, Dynamic):
        return _dynamic(type_.shape, element)
    return _static_with_element(type_, element)


@functools.lru_cache(4096)
def _static_with_element(type_: str, element: str) -> str:
    dims = type_.removeprefix("tensor<").removesuffix(">").split("x")
    sizes = [d + "x" for d in dims if d == "?" or d.isdigit()]
    return f"tensor<{''.join(sizes)}{element}>"


def element_of(type_: str) -> str:
    """The element type of a tensor."""
    dims = _DIMS.match(type_)
    assert dims is not None
    return type_[dims.end() : -1]


_DIMS = re.compile(r"tensor<(?:[\d?]+x)*")


TOKEN = "!stablehlo.token"
