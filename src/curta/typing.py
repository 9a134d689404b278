"""Types for annotating functions of arrays.

>>> from curta.typing import Array, ArrayLike
>>> def double(x: ArrayLike) -> Array: ...
"""

from curta._base.on_demand import Listing, listed
from curta.core.array import (
    Array as Array,
    ArrayLike as ArrayLike,
    DTypeLike as DTypeLike,
)

__all__ = ["Array", "ArrayLike", "DTypeLike"]
__dir__: Listing = listed(__all__)
