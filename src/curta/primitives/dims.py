"""Dims as values to compute with."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.core.dim import SymbolicDim
from curta.primitives.elementwise.convert import convert_element_type


def dim_value(dim: Any, dtype: Any) -> Any:
    """A dim as a scalar of `dtype`: a constant, or a traced value if it is symbolic."""
    if isinstance(dim, SymbolicDim):
        return convert_element_type(dim.as_value(), dtype)
    return np.asarray(dim, dtype)[()]
