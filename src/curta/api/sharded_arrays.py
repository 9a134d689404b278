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
from curta.core.shapes import canonicalize_shape
from curta.core.sharding import NamedSharding, Sharding
from curta.core.trace import current_trace
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
    user = "make_array_from_callback"
    where, shape = _sharding(sharding, user), canonicalize_shape(shape)
    where.shard_shape(shape)
    indices = {str(i): i for i in where.devices_indices_map(shape).values()}
    parts = [(index, to_array(data_callback(index))) for index in indices.values()]
    return _assembled(user, shape, where, parts, dtype)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Any:
    """An array whose parts are given, each on its device.

    Args:
      shape: of the whole array.
      sharding: how it is laid out.
      arrays: the part of each device, in any order, placed on its device.
      dtype: of the array; that of the parts if left out.

    Raises:
      TypeError: if `arrays` is no list or tuple of arrays.
      ValueError: for parts that do not fit the sharding.

    >>> import curta
    >>> from curta import numpy as jnp, sharding
    >>> device = curta.devices()[0]
    >>> layout = sharding.SingleDeviceSharding(device)
    >>> part = curta.device_put(jnp.arange(3), device)
    >>> curta.make_array_from_single_device_arrays((3,), layout, [part])
    Array([0, 1, 2], dtype=int32)
    """
    user = "make_array_from_single_device_arrays"
    where, shape = _sharding(sharding, user), canonicalize_shape(shape)
    where.shard_shape(shape)
    _check_arrays(user, arrays)
    if not arrays and dtype is None:
        raise ValueError(
            "If the Array has no addressable shards, `dtype` must be provided via the"
            f" `dtype` argument to `jax.{user}`."
        )
    indices = where.devices_indices_map(shape)
    held = {device: x for x in arrays for device in x.devices()}
    _check_devices([d.id for x in arrays for d in x.devices()], where)
    parts = [(index, held[device]) for device, index in indices.items()]
    return _assembled(user, shape, where, parts, dtype)


def _check_arrays(user: str, arrays: Any) -> None:
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(
            f"jax.{user} `arrays` argument must be a list or tuple, but got"
            f" {type(arrays)}."
        )
    for x in arrays:
        if not isinstance(x, ArrayImpl):
            raise TypeError(
                f"Unsupported type for elements in `arrays`: {type(x)}. Place the"
                " parts with jax.device_put."
            )
        if x.sharding.num_devices != 1:
            raise ValueError(
                "When making an array from single-device arrays the input arrays must"
                f" have one shard each. An argument array had {x.sharding.num_devices}"
                " shard(s)."
            )


def _check_devices(found: Sequence[int], sharding: Sharding) -> None:
    """Refuse parts on devices with these numbers, unless they are the sharding's."""
    if len(found) != sharding.num_devices:
        raise ValueError(
            f"Expected {sharding.num_devices} per-device arrays (this is how many"
            " devices are addressable by the sharding), but got"
            f" {len(found)}"
        )
    if len({*found}) != len(found):
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be"
            f" from distinct devices, but got device IDs {found}"
        )
    wanted = {d.id for d in sharding.devices}
    if wanted != {*found}:
        missing, other = wanted.difference(found), {*found} - wanted
        raise ValueError(
            "Addressable devices and per-device arrays devices do not match. Sharding"
            f" contains devices {missing} that are not present in per-device arrays."
            f" Per-device arrays contain devices {other} that are not present in the"
            " sharding."
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
    user: str,
    shape: tuple[int, ...],
    sharding: Sharding,
    parts: Sequence[tuple[Any, ArrayImpl]],
    dtype: Any,
) -> ArrayImpl:
    """The array of these parts at their indices; ValueError if they do not fit."""
    kind = parts[0][1].aval.dtype if parts else dtypes.dtype(dtype)
    if dtype is not None and dtypes.dtype(dtype) != kind:
        raise ValueError(
            f"If `dtype` is provided to `jax.{user}`, it must match the dtype of the"
            f" addressable shards. Got dtype={dtypes.dtype(dtype)} and shard"
            f" dtype={kind}."
        )
    size = sharding.shard_shape(shape)
    whole = ShapedArray(shape, kind)
    for _, x in parts:
        if x.aval.dtype != kind:
            raise ValueError(
                "Input buffers to `Array` must have matching dtypes. Got"
                f" {x.aval.dtype}, expected {kind} for buffer: {x}"
            )
        if x.shape != size:
            raise ValueError(
                f"Expected shard shape {size} doesn't match the single device array"
                f" shape {x.shape}. Shape of Array is {whole.str_short()} with sharding"
                f" {sharding}"
            )
    data = np.empty(shape, dtypes.physical_dtype(kind))
    for index, x in parts:
        data[index] = x._storage()
    return ArrayImpl(data, placed_aval(whole, sharding), sharding)


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
