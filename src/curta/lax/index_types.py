"""Integer dtypes in which indices can be computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.core.dim import is_symbolic_dim
from curta.core.trace import typeof
from curta.primitives.elementwise import convert_element_type

_MOST = np.iinfo(np.int32).max


def fitting_dtype(dtype: Any, *sizes: Any) -> Any:
    """`dtype`, or a wider integer dtype if it cannot hold these sizes of dims.

    Indices are counted from the end, clamped and flattened by sums and products with
    sizes, which wrap around in a dtype that is too narrow for these. A symbolic size
    is taken to need 32 bits.
    """
    known = [d for d in sizes if not is_symbolic_dim(d)]
    largest = max(known, default=0)
    if len(known) < len(sizes):
        largest = max(largest, _MOST)
    if largest <= dtypes.iinfo(dtype).max:
        return dtype
    return np.dtype(np.int32 if largest <= _MOST else np.int64)


def fitting_indices(indices: Any, *sizes: Any) -> Any:
    """Integer indices in a dtype that holds these sizes; see `fitting_dtype`."""
    own = typeof(indices).dtype
    dtype = fitting_dtype(own, *sizes)
    return indices if dtype == own else convert_element_type(indices, dtype)
