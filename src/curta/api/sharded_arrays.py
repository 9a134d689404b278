"""Making arrays over several devices, from their parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.api.devices import device_put
from curta.core.array_layout import Format
from curta.core.avals import ShapedArray, placed_aval
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding
from curta.core.trace import current_trace, typeof
from curta.errors import UnexpectedTracerError
from curta.runtime.array import ArrayImpl
from curta.runtime.devices import as_sharding, device_grid
from curta.runtime.transfer import to_array


def _sharding(given: Any, user: str) -> Sharding:
    if not current_trace().is_evaluating():
        raise UnexpectedTracerError(
            f"jax.{user} cannot be called within a traced context."
        )
    if not isinstance(given, (Sharding, Format)):
        raise TypeError(
            f"sharding should be an instance of `jax.sharding`. Got {given} of type"
            f" {type(given)}, in a call of {user}"
        )
    sharding = as_sharding(given)
    return sharding


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Any,
    data_callback: Callable[[Any], Any],
    *,
    dtype: Any = None,
) -> Any:
    """An array whose parts a function gives.

    Args:
      shape: of the whole array.
      sharding: how it is laid out.
      data_callback: takes the index of a part, a tuple of slices, to its elements;
        called once for each different part.
      dtype: of the array; that of the parts if left out.

    Raises ValueError for parts of other shapes or dtypes than they should have.

    >>> import curta, numpy
    >>> sharding = curta.sharding.SingleDeviceSharding(curta.devices()[0])
    >>> rows = numpy.arange(4.0)
    >>> curta.make_array_from_callback((4,), sharding, lambda index: rows[index])
    Array([0., 1., 2., 3.], dtype=float32)
    """
    where = _sharding(sharding, "make_array_from_callback")
    size = where.shard_shape(shape)
    indices = {str(i): i for i in where.devices_indices_map(shape).values()}
    parts = []
    for index in indices.values():
        part = to_array(data_callback(index))
        if dtype is not None and part.dtype != dtypes.dtype(dtype):
            raise ValueError(
                "Callback must return the dtype passed to `make_array_from_callback`."
                f" Got: {dtype} and the callback returned: {part.dtype}"
            )
        if part.shape != size:
            raise ValueError(
                f"Expected shard shape {size} doesn't match the single device array"
                f" shape {part.shape}. Shape of Array is {tuple(shape)} with sharding"
                f" {where}"
            )
        parts.append((index, part))
    return _assembled(tuple(shape), where, parts, dtype)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Any:
    """An array whose parts are given, each on its device.

    Args:
      shape: of the whole array.
      sharding: how it is laid out.
      arrays: the part of each device, in any order, placed on its device.
      dtype: of the array; that of the parts if left out.

    Raises ValueError for parts that do not fit the sharding.
    """
    where = _sharding(sharding, "make_array_from_single_device_arrays")
    size = where.shard_shape(shape)
    indices = where.devices_indices_map(shape)
    if not arrays and dtype is None:
        raise ValueError(
            "If the Array has no addressable shards, `dtype` must be provided via the"
            " `dtype` argument to `jax.make_array_from_single_device_arrays`."
        )
    parts = {}
    for x in arrays:
        if x.sharding.num_devices != 1:
            raise ValueError(
                "When making an array from single-device arrays the input arrays must"
                f" have one shard each. An argument array had {x.sharding.num_devices}"
                " shard(s)."
            )
        if x.shape != size:
            raise ValueError(
                f"Expected shard shape {size} doesn't match the single device array"
                f" shape {x.shape}. Shape of Array is {tuple(shape)} with sharding"
                f" {where}"
            )
        (device,) = x.devices()
        parts[device] = x
    if {*parts} != {*indices}:
        raise ValueError(
            f"Some per-device buffers are placed on devices {sorted(map(str, parts))},"
            f" which is not the set of devices of the sharding {where}"
        )
    return _assembled(
        tuple(shape), where, [(indices[d], x) for d, x in parts.items()], dtype
    )


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Arrays from what this process has of them; the only process has all.

    Args:
      sharding: how the arrays are laid out; a tree that is a prefix of `local_data`.
      local_data: their elements, a pytree of NumPy arrays.
      global_shape: their shapes, a tree that is a prefix of `local_data`; those of
        `local_data` if left out.

    Raises ValueError if the shapes differ.

    >>> import curta, numpy
    >>> device = curta.devices()[0]
    >>> curta.make_array_from_process_local_data(device, {"a": numpy.ones(2)}, (2,))
    {'a': Array([1., 1.], dtype=float32)}
    """
    leaves = tree_util.tree_leaves(local_data)
    shapes = tree_util.broadcast_prefix(global_shape, local_data, is_leaf=_is_shape)
    for leaf, wanted in zip(leaves, shapes, strict=True):
        if wanted is not None and tuple(wanted) != np.shape(leaf):
            raise ValueError(
                "When calling `make_array_from_process_local_data` on a single process,"
                " global_shape should be None or equal to local_data.shape. Got"
                f" global_shape={wanted} and local_data.shape={np.shape(leaf)}."
            )
    return device_put(local_data, sharding)


def _is_shape(x: Any) -> bool:
    if not isinstance(x, (tuple, list)):
        return x is None
    return all(n is None or isinstance(n, (int, np.integer)) for n in x)


def _assembled(
    shape: tuple[int, ...],
    sharding: Sharding,
    parts: Sequence[tuple[Any, Any]],
    dtype: Any,
) -> ArrayImpl:
    """The array of these parts at their indices."""
    found = {typeof(x).dtype for _, x in parts}
    if len(found) > 1:
        raise ValueError(f"the parts of an array differ in dtype: {found}")
    kind = found.pop() if found else dtypes.dtype(dtype)
    data = np.empty(shape, dtypes.physical_dtype(kind))
    for index, x in parts:
        data[index] = x._storage()
    aval = placed_aval(ShapedArray(shape, kind), sharding)
    return ArrayImpl(data, aval, sharding)


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Any]) -> Any:
    """Pytrees stacked along a new first axis of their arrays, one on each device.

    The older way of `device_put` with a `NamedSharding`. Raises ValueError unless
    there are as many shards as devices, of the same shapes and dtypes.

    >>> import curta
    >>> device_put_sharded([1.0], curta.devices()[:1])
    Array([1.], dtype=float32)
    """
    _warn_of("device_put_sharded")
    if not isinstance(shards, Sequence):
        raise TypeError(
            f"device_put_sharded `shards` input must be a sequence; got {type(shards)}"
        )
    if len(shards) != len(devices):
        raise ValueError(
            f"len(shards) = {len(shards)} must equal len(devices) = {len(devices)}."
        )

    def stack(*xs: Any) -> Any:
        arrays = [to_array(x) for x in xs]
        kinds = {(a.shape, a.dtype) for a in arrays}
        if len(kinds) > 1:
            first, second, *_ = [a.aval.str_short() for a in arrays]
            raise ValueError(
                "the shards passed to device_put_sharded must have consistent shape and"
                f" dtype, but got {first} and {second}."
            )
        return _over(np.stack([a._storage() for a in arrays]), arrays[0], devices)

    return tree_util.tree_map(stack, *shards)


def device_put_replicated(x: Any, devices: Sequence[Any]) -> Any:
    """The arrays of a pytree, repeated along a new first axis, once on each device.

    The older way of `device_put` with a `NamedSharding`.

    >>> import curta
    >>> device_put_replicated(1.0, curta.devices()[:1])
    Array([1.], dtype=float32)
    """
    _warn_of("device_put_replicated")
    if not isinstance(devices, Sequence) or not devices:
        raise ValueError(
            "`devices` argument to `device_put_replicated must be a non-empty sequence."
        )

    def repeat(leaf: Any) -> Any:
        array = to_array(leaf)
        return _over(np.stack([array._storage()] * len(devices)), array, devices)

    return tree_util.tree_map(repeat, x)


def _over(data: Any, part: ArrayImpl, devices: Sequence[Any]) -> ArrayImpl:
    mesh = Mesh(device_grid((len(devices),), devices), ("_device_put_sharded",))
    sharding = NamedSharding(mesh, PartitionSpec("_device_put_sharded"))
    return ArrayImpl(data, ShapedArray(data.shape, part.dtype), sharding)


def _warn_of(name: str) -> None:
    warnings.warn(
        f"jax.{name} is deprecated; use jax.device_put instead.",
        DeprecationWarning,
        stacklevel=3,
    )
