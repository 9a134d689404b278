"""Exchange of arrays with other libraries through DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta._base.on_demand import Listing, listed
from curta.api.device_arguments import as_sharding
from curta.core.array import DTypeLike
from curta.runtime.array import ArrayImpl
from curta.runtime.eager import placed_on
from curta.runtime.transfer import from_dlpack as _from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]
__dir__: Listing = listed(__all__)


def from_dlpack(
    external_array: Any, device: Any = None, copy: bool | None = None
) -> ArrayImpl:
    """An array over the memory of another library's array.

    Args:
      external_array: an object with `__dlpack__` and `__dlpack_device__`; it must not
        be written to afterwards.
      device: a device or `Sharding` where the array is to be. None (default) leaves it
        where it is.
      copy: True for memory of its own, False to refuse a copy. None (default) shares it
        where possible.

    Returns:
      An array of the object's shape and dtype.

    Raises:
      TypeError: `external_array` does not speak DLPack.
      ValueError: `copy` is False and the memory cannot be shared; `device` is neither a
        device nor a sharding.

    >>> import numpy
    >>> from_dlpack(numpy.arange(3, dtype="int32"))
    Array([0, 1, 2], dtype=int32)
    """
    array = _from_dlpack(external_array, copy)
    sharding = as_sharding(device)
    return array if sharding is None else placed_on(array, sharding)


def is_supported_dtype(dtype: DTypeLike) -> bool:
    """Whether every consumer of DLPack takes arrays of this dtype; TypeError for None.

    Floats of 8 bits can be shared too, with those who know DLPack 1.1.

    >>> is_supported_dtype("float32"), is_supported_dtype("O")
    (True, False)
    """
    if dtype is None:
        raise TypeError("Expected string or dtype, got None.")
    kind = np.dtype(dtype)
    return kind.kind in "biufc" or kind.name == "bfloat16"
