"""The dtypes of elements, and those that instructions compute in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from curta.dtypes import working_dtype

BOOL = np.dtype(bool)
INT32, INT64 = np.dtype("int32"), np.dtype("int64")
FLOAT16, FLOAT32, FLOAT64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = frozenset([FLOAT16, BFLOAT16])


def is_native(dtype: Any) -> bool:
    """Whether instructions compute with the dtype; others are only moved about."""
    if dtype.kind == "f":
        return bool(dtype.itemsize > 1)
    return dtype.kind in "biu" or dtype == BFLOAT16


def computed_dtype(dtype: Any) -> Any:
    """The type in which instructions compute a dtype; moves do not change types."""
    return working_dtype(dtype) if is_native(dtype) else dtype


def wide_dtype(dtype: Any) -> Any:
    """The dtype in which long sums of a dtype are added up."""
    return np.dtype("complex128") if dtype.kind == "c" else FLOAT64


def is_float(dtype: Any) -> bool:
    """Whether the dtype is of real floating-point numbers."""
    return dtype.kind == "f" or bool(dtype == BFLOAT16)


def component(dtype: Any) -> Any:
    """The dtype of the parts of a complex dtype."""
    return FLOAT32 if dtype.itemsize == 8 else FLOAT64
