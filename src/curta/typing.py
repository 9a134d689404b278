"""Types for annotating functions of arrays.

>>> from curta.typing import Array, ArrayLike
>>> def double(x: ArrayLike) -> Array: ...
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from curta.core.array import Array
from curta.on_demand import listed

__all__ = ["Array", "ArrayLike", "DTypeLike"]
__dir__ = listed(__all__)

# What functions of arrays accept: arrays, NumPy's arrays and scalars, Python scalars.
ArrayLike: TypeAlias = (
    Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
)

# What names a dtype: "float32", np.float32, jnp.float32, float, np.dtype("float32").
DTypeLike: TypeAlias = str | type[Any] | np.dtype
