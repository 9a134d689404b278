"""Making arrays over several devices, from their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta._base.on_demand import late
from curta._base.user_warnings import warn
from curta.api.device_arguments import as_sharding, device_grid
from curta.api.devices import device_put
from curta.core.array_layout import Format, concrete_layout
from curta.core.avals import ShapedArray, placed_aval
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.shapes import canonicalize_shape
from curta.core.sharding import NamedSharding, Sharding
from curta.core.trace import current_trace
from curta.errors import UnexpectedTracerError
from curta.hosts.engine import of_process
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.device_data import DeviceData, assembled
from curta.runtime.devices import Device
from curta.runtime.eager import placed_on
from curta.runtime.host_runs import spans_hosts
from curta.runtime.queue import Pending
from curta.runtime.remote_data import RemoteData
from curta.runtime.transfer import to_array

hosts_data: Any = late("curta.runtime.hosts_data")


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
    sharding = as_sharding(concrete_layout(given, f"when calling `jax.{user}`"))
    if sharding is None:
        raise TypeError(
            f"sharding should be an instance of `jax.sharding`. Got {given}, which has"
            f" none, in a call of {user}"
        )
    return sharding


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Any,
    data_callback: Callable[[Any], Any],
    dtype: Any = None,
) -> Any:
    """Create an array from a function that returns the data of each shard.

    Args:
      shape: of the whole array.
      sharding: how it is laid out.
      data_callback: takes the index of a part, a tuple of slices, to its elements;
        called once for each different part.
      dtype: of the array; by default the dtype of the parts.

    Returns:
      An array of this shape and sharding.

    Raises:
      TypeError: if the argument is not a sharding.
      ValueError: for parts of other shapes or dtypes than they should have.

    >>> import curta, numpy
    >>> sharding = curta.sharding.SingleDeviceSharding(curta.devices()[0])
    >>> rows = numpy.arange(4.0)
    >>> curta.make_array_from_callback((4,), sharding, lambda index: rows[index])
    Array([0., 1., 2., 3.], dtype=float32)
    """
    user = "make_array_from_callback"
    where, shape = _sharding(sharding, user), canonicalize_shape(shape)
    where.shard_shape(shape)
    made: dict[str, ArrayImpl] = {}
    parts = {}
    for device, index in where.addressable_devices_indices_map(shape).items():
        key = str(index)
        if key not in made:
            made[key] = to_array(data_callback(index))
        parts[device] = index, made[key]
    return _assembled(user, shape, where, parts, dtype)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
) -> Any:
    """Create an array from its shards, one array for each device.

    Args:
      shape: of the whole array.
      sharding: how it is laid out.
      arrays: the part of each device, in any order, placed on its device.
      dtype: of the array; by default the dtype of the parts.

    Returns:
      An array of this shape and sharding; the parts are not copied.

    Raises:
      TypeError: if `arrays` is not a list or tuple of arrays.
      ValueError: if parts do not fit the sharding.

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
    indices = where.addressable_devices_indices_map(shape)
    held = {device: x for x in arrays for device in x.devices()}
    _check_devices([d.id for x in arrays for d in x.devices()], where)
    parts = {device: (index, held[device]) for device, index in indices.items()}
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


def _check_devices(ids: Sequence[int], sharding: Sharding) -> None:
    """Refuse parts on devices with these numbers, unless they are the sharding's."""
    wanted = {d.id for d in sharding.addressable_devices}
    if len(ids) != len(wanted):
        raise ValueError(
            f"Expected {len(wanted)} per-device arrays (this is how many"
            " devices are addressable by the sharding), but got"
            f" {len(ids)}"
        )
    if len({*ids}) != len(ids):
        raise ValueError(
            "When making an array from single-device arrays, the input arrays must be"
            f" from distinct devices, but got device IDs {ids}"
        )
    if wanted != {*ids}:
        missing, other = wanted.difference(ids), {*ids} - wanted
        raise ValueError(
            "Addressable devices and per-device arrays devices do not match. Sharding"
            f" contains devices {missing} that are not present in per-device arrays."
            f" Per-device arrays contain devices {other} that are not present in the"
            " sharding."
        )


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Create arrays from the data that each process has locally.

    Along each dim a process has the parts of its devices, one after the other, or all.

    Args:
      sharding: how the arrays are laid out; a tree that is a prefix of `local_data`.
      local_data: their elements, a pytree of NumPy arrays.
      global_shape: their shapes, a tree that is a prefix of `local_data`; those of
        `local_data`, times the number of processes along a dim, if left out.

    Returns:
      A pytree of arrays like `local_data`.

    Raises:
      ValueError: if the shapes do not match, or the argument is not a sharding.

    >>> import curta, numpy
    >>> device = curta.devices()[0]
    >>> curta.make_array_from_process_local_data(device, {"a": numpy.ones(2)}, (2,))
    {'a': Array([1., 1.], dtype=float32)}
    """
    leaves, tree = tree_util.tree_flatten(local_data)
    shapes = tree_util.broadcast_prefix(global_shape, local_data, is_leaf=_is_shape)
    if of_process().count > 1:
        given = zip(leaves, tree_util.broadcast_prefix(sharding, local_data), shapes)
        return tree_util.tree_unflatten(tree, [_of_process(*x) for x in given])
    for leaf, wanted in zip(leaves, shapes, strict=True):
        if wanted is not None and tuple(wanted) != np.shape(leaf):
            raise ValueError(
                "When calling `make_array_from_process_local_data` on a single process,"
                " global_shape should be None or equal to local_data.shape. Got"
                f" global_shape={wanted} and local_data.shape={np.shape(leaf)}."
            )
    return device_put(local_data, sharding)


def _of_process(data: Any, given: Any, global_shape: Any) -> ArrayImpl:
    """One global array from the local data of each process."""
    user = "make_array_from_process_local_data"
    given = as_sharding(given) if isinstance(given, (Device, PartitionSpec)) else given
    sharding, data = _sharding(given, user), to_array(data)
    shape = _global_shape(sharding, data.shape, global_shape)
    indices = sharding.addressable_devices_indices_map(shape)
    size = sharding.shard_shape(shape)
    local_starts = []
    for d, n in enumerate(shape):
        starts = sorted({i[d].indices(n)[0] for i in indices.values()})
        if data.shape[d] == n:
            local_starts.append({start: start for start in starts})
        elif data.shape[d] == len(starts) * size[d]:
            local_starts.append({start: k * size[d] for k, start in enumerate(starts)})
        else:
            raise ValueError(
                f"local data of shape {data.shape} does not fit dim {d} of an array of"
                f" shape {shape} over {sharding}: this process has {len(starts)} parts"
                f" of size {size[d]} of it."
            )
    parts = {}
    for device, index in indices.items():
        begin = [p[i.indices(n)[0]] for p, i, n in zip(local_starts, index, shape)]
        part = data._storage()[tuple(slice(b, b + k) for b, k in zip(begin, size))]
        aval = ShapedArray(part.shape, data.aval.dtype)
        parts[device] = index, wrap(part, aval)
    return _assembled(user, shape, sharding, parts, None)


def _global_shape(
    sharding: Sharding, local: tuple[int, ...], given: Any
) -> tuple[int, ...]:
    """The shape of an array of which each process has parts of a local shape."""
    if given is not None and None not in given:
        return canonicalize_shape(given)
    rank = len(local)
    tiling, parts = sharding.tiling(rank), sharding.parts(rank)
    held: dict[int, list[set[int]]] = {}
    for device, coordinate in zip(sharding.devices, tiling.coordinates, strict=True):
        sets = held.setdefault(device.process_index, [set() for _ in range(rank)])
        for d, i in enumerate(coordinate):
            sets[d].add(i)
    own = held[of_process().index]
    shape = []
    for d in range(rank):
        whole = None if given is None else given[d]
        if whole is None:
            alike = {frozenset(sets[d]) for sets in held.values()}
            if sum(map(len, alike)) != parts[d]:
                raise ValueError(
                    f"Unable to compute global_shape due to non-uniform sharding"
                    f" {sharding} in dim {d}. Specify global shape directly."
                )
            whole = local[d] * parts[d] // len(own[d])
        shape.append(whole)
    return tuple(shape)


def _is_shape(x: Any) -> bool:
    if not isinstance(x, (tuple, list)):
        return x is None
    return all(n is None or isinstance(n, (int, np.integer)) for n in x)


def _assembled(
    user: str,
    shape: tuple[int, ...],
    sharding: Sharding,
    parts: Mapping[Any, tuple[Any, ArrayImpl]],
    dtype: Any,
) -> ArrayImpl:
    """The array of the parts on devices, at their indices.

    Raises ValueError if they do not fit.
    """
    if not parts and dtype is None:
        raise ValueError(
            "If the Array has no addressable shards, `dtype` must be provided via the"
            f" `dtype` argument to `jax.{user}`."
        )
    kind = next((x.aval.dtype for _, x in parts.values()), None) or dtypes.dtype(dtype)
    if dtype is not None and dtypes.dtype(dtype) != kind:
        raise ValueError(
            f"If `dtype` is provided to `jax.{user}`, it must match the dtype of the"
            f" addressable shards. Got dtype={dtypes.dtype(dtype)} and shard"
            f" dtype={kind}."
        )
    size = sharding.shard_shape(shape)
    whole = ShapedArray(shape, kind)
    for _, x in parts.values():
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
    aval = placed_aval(whole, sharding)
    pieces = {device: x._buffer() for device, (_, x) in parts.items()}
    if sharding.devices[0].hardware is not None or spans_hosts(sharding.devices):
        return held_in_parts(pieces, aval, sharding)
    data = np.empty(shape, dtypes.physical_dtype(kind))
    for index, x in parts.values():
        data[index] = x._storage()
    return ArrayImpl(data, aval, sharding)


def held_in_parts(
    pieces: Mapping[Any, Any], aval: ShapedArray, sharding: Sharding
) -> ArrayImpl:
    """The array of what the devices of this process hold: of plugins, or on hosts."""
    on_plugin = sharding.devices[0].hardware is not None
    result = {}
    for device, x in pieces.items():
        stays = on_plugin and type(x) is DeviceData
        away = isinstance(x, (Pending, RemoteData)) and not stays
        result[device] = x.wait() if away else x
    make = assembled if on_plugin else hosts_data.assembled
    return wrap(make(aval, sharding, result), aval, sharding)


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Any]) -> Any:
    """Stack pytrees along a new first axis, one per device.

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
    """Replicate the arrays of a pytree along a new first axis, one copy per device.

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
    return placed_on(ArrayImpl(data, ShapedArray(data.shape, part.dtype)), sharding)


def _warn_of(name: str) -> None:
    warn(
        f"jax.{name} is deprecated; use jax.device_put instead.",
        DeprecationWarning,
    )
