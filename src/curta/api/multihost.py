"""Operations of all processes of a program.

With a single process they return the same as with several.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta._base.once import once
from curta.api.devices import device_put
from curta.api.processes import is_initialized
from curta.api.sharded_arrays import held_in_parts
from curta.core.avals import ShapedArray, placed_aval
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding
from curta.hosts.engine import of_process
from curta.runtime import agreement
from curta.runtime.array import ArrayImpl
from curta.runtime.device_call import gathered
from curta.runtime.device_data import DeviceData
from curta.runtime.transfer import to_array

NDArray = np.ndarray[Any, Any]


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values that one process has, as NumPy arrays.

    That is the one where `is_source` is True, or else the first. The others give values
    of the same shapes and dtypes. ValueError if no process is the source.

    >>> broadcast_one_to_all({"a": 1})
    {'a': array(1)}
    """
    here = of_process().index
    chosen = here == 0 if is_source is None else is_source
    source = agreement.greatest(here if chosen else -1)
    if source < 0:
        raise ValueError("broadcast_one_to_all: is_source is False in all processes")
    return tree_util.tree_map(
        lambda x: agreement.of_source(np.asarray(x), source), in_tree
    )


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes: stacked, or for `tiled` one after the other.

    An array over devices of several processes is given whole; ValueError if `tiled` is
    False then.

    >>> import numpy
    >>> process_allgather(numpy.arange(2))
    array([[0, 1]])
    """

    def gather(x: Any) -> Any:
        if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
            if not tiled:
                raise ValueError(
                    "Gathering global non-fully-addressable arrays only supports"
                    " tiled=True"
                )
            return _whole(x)
        result = np.asarray(x)
        over_devices = len(getattr(x, "devices", lambda: ())()) > 1
        if of_process().count == 1:
            return result if tiled or over_devices else result[None]
        rows = agreement.stacked(result)
        if not tiled or not result.ndim:
            return rows
        return rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:])

    return tree_util.tree_map(gather, in_tree)


def _whole(x: ArrayImpl) -> NDArray:
    """All elements of an array of which other processes have parts."""
    buffer = x._buffer()
    if type(buffer) is DeviceData:
        return gathered(buffer)
    result: NDArray = buffer.gathered() if hasattr(buffer, "gathered") else x._value
    return result


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here; AssertionError if they give other names.

    >>> from curta.experimental import multihost_utils
    >>> multihost_utils.sync_global_devices("saved")
    """
    text = np.frombuffer(name.encode(), np.uint8)
    if agreement.different([text]):
        raise AssertionError(f"sync_global_devices name mismatch ('{name}')")


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError unless all processes have the same values, to the bit.

    Of arrays over several processes the parts on the first devices are compared.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import multihost_utils
    >>> multihost_utils.assert_equal({"step": jnp.int32(3)}, "steps differ")
    """

    def local(x: Any) -> NDArray:
        if isinstance(x, ArrayImpl) and not x.is_fully_addressable:
            return np.asarray(x.addressable_data(0))
        return np.asarray(x)

    others = agreement.different(map(local, tree_util.tree_leaves(in_tree)))
    if others:
        raise AssertionError(
            f"{fail_message}. Processes {others} have other values than process 0; got:"
            f" {in_tree}."
        )


def host_local_array_to_global_array(
    local_inputs: Any, global_mesh: Mesh, pspecs: Any
) -> Any:
    """Global arrays made of the local arrays of each process.

    Args:
      local_inputs: a pytree of the arrays that this process has.
      global_mesh: a mesh over the devices of all processes.
      pspecs: a `PartitionSpec` for each array, or a prefix of the tree.

    Returns:
      A pytree of arrays over the mesh: dims that processes divide are that much longer.

    Raises:
      ValueError: if a spec is None or the mesh does not divide a dim.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental import multihost_utils
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> local_to_global = multihost_utils.host_local_array_to_global_array
    >>> x = local_to_global(jnp.arange(2), mesh, P("i"))
    >>> x, x.sharding.spec
    (Array([0, 1], dtype=int32), P('i',))
    """
    return _mapped(_to_global, local_inputs, global_mesh, pspecs)


def _mapped(function: Any, tree: Any, mesh: Mesh, pspecs: Any) -> Any:
    specs = tree_util.broadcast_prefix(pspecs, tree, is_leaf=_is_none)
    leaves, structure = tree_util.tree_flatten(tree)
    outs = []
    for x, spec in zip(leaves, specs, strict=True):
        if spec is None:
            raise ValueError(
                "`None` is not a valid input to the pspecs argument. Please use"
                " jax.sharding.PartitionSpec() if you wanted to replicate your input."
            )
        outs.append(function(x, NamedSharding(mesh, spec)))
    return tree_util.tree_unflatten(structure, outs)


def _is_none(x: Any) -> bool:
    return x is None


def _to_global(x: Any, sharding: NamedSharding) -> Any:
    if of_process().count == 1:
        return device_put(x, sharding)
    array = to_array(x)
    if not array.is_fully_addressable:
        return array
    local = sharding.update(mesh=_mesh(sharding).local_mesh)
    data = array._storage()
    indices = local.devices_indices_map(array.shape)
    pieces = {device: data[index] for device, index in indices.items()}
    aval = _resized(array.aval, local, sharding)
    return held_in_parts(pieces, placed_aval(aval, sharding), sharding)


def _mesh(sharding: NamedSharding) -> Mesh:
    assert isinstance(sharding.mesh, Mesh)
    return sharding.mesh


def _resized(x: Any, before: Sharding, after: Sharding) -> ShapedArray:
    """The type of an array with as many more elements as there are more parts."""
    rank = len(x.shape)
    sizes = zip(x.shape, before.parts(rank), after.parts(rank), strict=True)
    shape = tuple(n // a * b for n, a, b in sizes)
    return ShapedArray(shape, x.dtype, getattr(x, "weak_type", False))


def global_array_to_host_local_array(
    global_inputs: Any, global_mesh: Mesh, pspecs: Any
) -> Any:
    """Arrays over the devices of all, as what each process has.

    Args:
      global_inputs: a pytree of arrays over the mesh.
      global_mesh: a mesh over the devices of all processes.
      pspecs: a `PartitionSpec` for each array, or a prefix of the tree.

    Returns:
      A pytree of the parts that this process has, put together.

    Raises:
      ValueError: if a spec is None or the mesh does not divide a dim.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental import multihost_utils
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> multihost_utils.global_array_to_host_local_array(jnp.arange(2), mesh, P("i"))
    Array([0, 1], dtype=int32)
    """
    return _mapped(to_local, global_inputs, global_mesh, pspecs)


def to_local(x: Any, sharding: NamedSharding) -> Any:
    """The part of an array on the devices of this process, as a local array."""
    if of_process().count == 1:
        return device_put(x, sharding)
    if not isinstance(x, ArrayImpl) or x.is_fully_addressable:
        return x
    x = device_put(x, sharding)
    local = sharding.update(mesh=_mesh(sharding).local_mesh)
    aval = _resized(x.aval, sharding, local)
    indices = local.devices_indices_map(aval.shape)
    data = None
    for shard in x.addressable_shards:
        part = shard.data._storage()
        if data is None:
            data = np.empty(aval.shape, part.dtype)
        data[indices[shard.device]] = part
    return ArrayImpl(data, placed_aval(aval, local), local)


def host_local_array_to_global_array_impl(
    arr: Any, *, global_mesh: Mesh, pspec: Any
) -> Any:
    """`host_local_array_to_global_array` of one array.

    Args:
      arr: what this process has.
      global_mesh: a mesh over the devices of all processes.
      pspec: how the whole array is laid out.

    Returns:
      The array over the mesh.

    Raises:
      ValueError: if a spec is None or the mesh does not divide a dim.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental import multihost_utils as utils
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> utils.host_local_array_to_global_array_impl(
    ...     jnp.arange(2), global_mesh=mesh, pspec=P("i")).sharding.spec
    P('i',)
    """
    return host_local_array_to_global_array(arr, global_mesh, pspec)


def global_array_to_host_local_array_impl(
    arr: Any, *, global_mesh: Mesh, pspec: Any
) -> Any:
    """`global_array_to_host_local_array` of one array.

    Args:
      arr: an array over the mesh.
      global_mesh: a mesh over the devices of all processes.
      pspec: how the array is laid out.

    Returns:
      What this process has of it.

    Raises:
      ValueError: if a spec is None or the mesh does not divide a dim.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental import multihost_utils as utils
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> utils.global_array_to_host_local_array_impl(
    ...     jnp.arange(2), global_mesh=mesh, pspec=P("i"))
    Array([0, 1], dtype=int32)
    """
    return global_array_to_host_local_array(arr, global_mesh, pspec)


def ltg_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: Any) -> ShapedArray:
    """The type of the array over all devices of what one process has.

    Args:
      arr: the aval of what the process has.
      global_mesh: a mesh over the devices of all processes.
      pspec: how the whole array is laid out.

    Returns:
      An aval of the same dtype.

    Raises:
      ValueError: if a spec is longer than the shape or does not divide it.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental import multihost_utils as utils
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> x = curta.typeof(jnp.arange(2))
    >>> print(utils.ltg_abstract_eval(x, global_mesh=mesh, pspec=P("i")))
    int32[2]
    """
    sharding = NamedSharding(global_mesh, pspec)
    sharding.check_compatible_aval(arr.shape)
    return _resized(arr, sharding.update(mesh=global_mesh.local_mesh), sharding)


def gtl_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: Any) -> ShapedArray:
    """The type of what one process has of an array over all devices.

    Args:
      arr: the aval of the whole array.
      global_mesh: a mesh over the devices of all processes.
      pspec: how the array is laid out.

    Returns:
      An aval of the same dtype.

    Raises:
      ValueError: if a spec is longer than the shape or does not divide it.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental import multihost_utils as utils
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> x = curta.typeof(jnp.arange(2))
    >>> print(utils.gtl_abstract_eval(x, global_mesh=mesh, pspec=P("i")))
    int32[2]
    """
    sharding = NamedSharding(global_mesh, pspec)
    sharding.check_compatible_aval(arr.shape)
    return _resized(arr, sharding, sharding.update(mesh=global_mesh.local_mesh))


def ltg_batcher(
    insert_axis: bool,
    axis_data: Any,
    vals_in: Sequence[Any],
    dims_in: Sequence[int | None],
    global_mesh: Mesh,
    pspec: Any,
) -> tuple[Any, int | None]:
    """`host_local_array_to_global_array` of a batch, whose dim gets its own entry.

    Args:
      insert_axis: not needed, as in JAX.
      axis_data: of the axis that is mapped; its `spmd_name` is the new entry.
      vals_in: the one array.
      dims_in: its batch dim, or None.
      global_mesh: a mesh over the devices of all processes.
      pspec: how one example is laid out.

    Returns:
      The array and its batch dim.

    Raises:
      ValueError: if the mesh does not divide a dim.

    Example:
      >>> import curta, curta.numpy as jnp
      >>> from curta.experimental import multihost_utils
      >>> mesh = curta.make_mesh((1,), ("x",))
      >>> x, spec = jnp.ones((2, 3)), curta.P("x")
      >>> _, dim = multihost_utils.ltg_batcher(False, None, [x], [None], mesh, spec)
      >>> print(dim)
      None
    """
    (x,), (dim,) = vals_in, dims_in
    entries = list(pspec)
    if dim is not None:
        entries += [None] * (dim - len(entries))
        entries.insert(dim, axis_data.spmd_name)
    spec = PartitionSpec(*entries)
    return host_local_array_to_global_array(x, global_mesh, spec), dim


@once
def _told_to_stop() -> list[int]:
    """The signals by which this process was told that it will be stopped soon."""
    result: list[int] = []
    before = signal.getsignal(signal.SIGTERM)

    def note(number: int, frame: Any) -> None:
        result.append(number)
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGTERM, note)
    return result


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the processes are about to be stopped and should save their state now.

    From the first call on, which is made in the main thread, SIGTERM does not end the
    process: the next call tells all processes of it. All call it at every step.
    A process that was not started as one of several hears of nothing.

    >>> from curta.experimental import multihost_utils
    >>> multihost_utils.reached_preemption_sync_point(3)
    False
    """
    if not is_initialized():
        return False
    return agreement.greatest(len(_told_to_stop())) > 0


class ProcessFailureError(Exception):
    """Processes ended within a `live_devices` block; theirs are `failed_devices`.

    >>> from curta.experimental import multihost_utils
    >>> multihost_utils.ProcessFailureError({3}).failed_devices
    {3}
    """

    def __init__(self, failed_devices: set[Any]):
        self.failed_devices = failed_devices
        super().__init__(f"Devices failed: {failed_devices}")


@contextlib.contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """Those of the devices whose processes run: all, as one that ends, ends all.

    Raises RuntimeError unless `curta.distributed.initialize` was called, ValueError
    for no devices.

    >>> import curta
    >>> from curta.experimental.multihost_utils import live_devices
    >>> curta.distributed.initialize("localhost:1234", 1, 0)
    >>> with live_devices(curta.devices()) as alive:
    ...     print(alive)
    [CpuDevice(id=0)]
    >>> curta.distributed.shutdown()
    """
    if not is_initialized():
        raise RuntimeError("Distributed system not initialized.")
    if not devices:
        raise ValueError("No devices provided.")
    yield sorted({*devices}, key=lambda device: device.id)
