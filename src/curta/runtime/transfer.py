"""Values of the user as arrays, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.on_demand import late
from curta.config import config
from curta.core.avals import ShapedArray, is_string
from curta.core.buffers import empty
from curta.core.dlpack_types import HOST_MEMORY, array_from
from curta.core.stage import foreign_tracer
from curta.core.trace import Tracer, current_trace, typeof
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.device_data import DeviceData, put
from curta.runtime.guard import guard_transfer

# For arrays on devices of plugins alone.
shared_memory: Any = late("curta.runtime.shared_memory")


def to_array(x: Any) -> ArrayImpl:
    """An array, NumPy array or Python scalar as an array; NumPy's are copied.

    Raises TypeError for anything else, UnexpectedTracerError for tracers.
    """
    if type(x) is ArrayImpl:
        return x
    if isinstance(x, Tracer):
        raise foreign_tracer(x)
    aval = typeof(x)
    return ArrayImpl(to_storage(x, aval), aval)


def string_array(x: Any) -> ArrayImpl:
    """A NumPy array of strings as an array."""
    return ArrayImpl(x.copy(order="C"), ShapedArray(x.shape, x.dtype))


def refuse_strings(args: Sequence[Any], avals: Sequence[ShapedArray]) -> None:
    """Raise TypeError for arrays of strings, which no program takes."""
    for x, aval in zip(args, avals, strict=True):
        if is_string(aval.dtype):
            raise TypeError(
                f"Argument '{x}' of type {type(x)} is not a valid JAX type."
            )


def to_storage(x: Any, aval: ShapedArray) -> np.ndarray[Any, Any]:
    """A fresh C-contiguous NumPy array of the elements of a NumPy value or scalar."""
    guard_implicit_transfer(aval)
    return fresh_copy(x, dtypes.physical_dtype(aval.dtype))


def fresh_copy(x: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """A C-contiguous copy of a NumPy value or scalar.

    A large one is aligned to cache lines, from which vectors are read faster.
    """
    if np.size(x) < config.tuning.aligned_elements:
        return np.array(x, dtype, order="C", copy=True)
    fresh = empty(np.shape(x), dtype)
    np.copyto(fresh, x, casting="unsafe")
    return fresh


def guard_implicit_transfer(aval: ShapedArray) -> None:
    """Log or refuse that something becomes an array, outside of recorded programs."""
    if (
        config.jax_transfer_guard_host_to_device != "allow"
        and current_trace().is_evaluating()
    ):
        guard_transfer("host_to_device", aval)


def from_dlpack(x: Any, copy: bool | None = None) -> ArrayImpl:
    """The array behind any object with `__dlpack__`, without a copy if possible.

    `copy` asks for one, or refuses it. Raises TypeError for other objects, ValueError
    for a copy that is refused and cannot be spared. The caller must not write to
    it any more.
    """
    foreign = type(x) is not ArrayImpl
    shared = hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")
    if not shared or (not foreign and isinstance(x.dtype, dtypes.ExtendedDType)):
        raise TypeError(
            "The array passed to from_dlpack must have __dlpack__ and"
            f" __dlpack_device__ methods, got {type(x)}"
        )
    if not foreign:
        if copy:
            return x.copy()
        # A view, as another library would hold: `x` may still be donated.
        buffer = x._buffer()
        if type(buffer) is DeviceData:
            return shared_memory.view(buffer)
        return ArrayImpl(x._storage().view(), x.aval, x._sharding)
    if x.__dlpack_device__()[0] not in HOST_MEMORY:
        return _on_its_device(x, copy)
    data = array_from(x)
    aval = typeof(data)
    usable = data.flags.c_contiguous and data.flags.aligned
    if usable and data.dtype == aval.dtype and not copy:
        return ArrayImpl(data, aval)
    if copy is False:
        raise _unshared()
    return ArrayImpl(to_storage(data, aval), aval)


def _on_its_device(x: Any, copy: bool | None) -> ArrayImpl:
    """The array over the memory of a device that another library's array lies in."""
    result: ArrayImpl = shared_memory.from_dlpack(x)
    aval = result.aval.update(dtype=dtypes.canonicalize_dtype(result.dtype))
    if aval.dtype == result.dtype:
        return result.copy() if copy else result
    if copy is False:
        raise _unshared()
    data = result._storage().astype(aval.dtype)
    assert result._sharding is not None
    return wrap(put(data, aval, result._sharding), aval, result._sharding)


def _unshared() -> ValueError:
    return ValueError(
        "from_dlpack cannot share this memory: it is not contiguous, not aligned, or"
        " of a 64-bit type while jax_enable_x64 is off. Leave out copy=False."
    )
