"""Folds of the arrays of several hosts, in the order of the hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

NDArray = np.ndarray[Any, Any]

# Products and sums of booleans are `and` and `or`, as NumPy's are.
FOLDS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def widened(kind: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which a fold is taken: float32 for sums of narrower floats."""
    if kind not in ("sum", "prod"):
        return dtype
    if "float" in dtype.name and dtype.itemsize <= 2:
        return np.dtype(np.float32)
    if dtype.name in ("complex32", "bcomplex32"):
        return np.dtype(np.complex64)
    if dtype.name in ("int2", "int4", "uint2", "uint4"):
        return np.dtype(np.int8)  # cut down to its bits at the end
    return dtype


def fold(kind: str, parts: Sequence[NDArray] | NDArray) -> NDArray:
    """The fold of arrays of one shape and dtype, always in this order."""
    dtype = parts[0].dtype
    wide = widened(kind, dtype)
    combine = FOLDS[kind]
    with np.errstate(all="ignore"):
        total = np.array(parts[0], wide)  # also of a single number
        for part in parts[1:]:
            if wide == dtype:
                combine(total, part, out=total)
            else:
                combine(total, part.astype(wide), out=total)
        return total.astype(dtype, copy=False)
