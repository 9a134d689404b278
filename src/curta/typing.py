"""Types for annotating functions of arrays.

>>> from curta.typing import Array, ArrayLike
>>> def double(x: ArrayLike) -> Array: ...
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from curta.core.array import Array

__all__ = ["Array", "ArrayLike"]

# What functions of arrays accept: arrays, NumPy's arrays and scalars, Python scalars.
ArrayLike: TypeAlias = (
    Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
)
