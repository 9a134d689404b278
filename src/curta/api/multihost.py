"""What the processes of a program do together.

There is one process, so that everything is where it is needed; the functions check
their arguments and give what they would give with several.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta.api.devices import device_put
from curta.api.processes import is_initialized
from curta.core.avals import ShapedArray
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values that the first process has, as NumPy arrays.

    >>> broadcast_one_to_all({"a": 1})
    {'a': array(1)}
    """
    return tree_util.tree_map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes: stacked, or for `tiled` one after the other.

    An array over several devices is given whole.

    >>> import numpy
    >>> process_allgather(numpy.arange(2))
    array([[0, 1]])
    """

    def gather(x: Any) -> Any:
        whole = np.asarray(x)
        over_devices = len(getattr(x, "devices", lambda: ())()) > 1
        return whole if tiled or over_devices else whole[None]

    return tree_util.tree_map(gather, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here.

    >>> from curta.experimental import multihost_utils
    >>> multihost_utils.sync_global_devices("saved")
    """


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError unless all processes have the same values.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import multihost_utils
    >>> multihost_utils.assert_equal({"step": jnp.int32(3)}, "steps differ")
    """


def host_local_array_to_global_array(
    local_inputs: Any, global_mesh: Mesh, pspecs: Any
) -> Any:
    """What each process has, as arrays over the devices of all.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental import multihost_utils
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> local_to_global = multihost_utils.host_local_array_to_global_array
    >>> x = local_to_global(jnp.arange(2), mesh, P("i"))
    >>> x, x.sharding.spec
    (Array([0, 1], dtype=int32), P('i',))
    """
    specs = tree_util.broadcast_prefix(pspecs, local_inputs, is_leaf=_is_none)
    leaves, tree = tree_util.tree_flatten(local_inputs)
    outs = [
        device_put(x, NamedSharding(global_mesh, s))
        for x, s in zip(leaves, specs, strict=True)
    ]
    return tree_util.tree_unflatten(tree, outs)


def _is_none(x: Any) -> bool:
    return x is None


def global_array_to_host_local_array(
    global_inputs: Any, global_mesh: Mesh, pspecs: Any
) -> Any:
    """Arrays over the devices of all, as what each process has.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental import multihost_utils
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> multihost_utils.global_array_to_host_local_array(jnp.arange(2), mesh, P("i"))
    Array([0, 1], dtype=int32)
    """
    return host_local_array_to_global_array(global_inputs, global_mesh, pspecs)


def host_local_array_to_global_array_impl(
    arr: Any, *, global_mesh: Mesh, pspec: Any
) -> Any:
    """`host_local_array_to_global_array` of one array."""
    return host_local_array_to_global_array(arr, global_mesh, pspec)


def global_array_to_host_local_array_impl(
    arr: Any, *, global_mesh: Mesh, pspec: Any
) -> Any:
    """`global_array_to_host_local_array` of one array."""
    return global_array_to_host_local_array(arr, global_mesh, pspec)


def ltg_abstract_eval(arr: Any, *, global_mesh: Mesh, pspec: Any) -> ShapedArray:
    """The type of the array over all devices of what one process has: the same."""
    NamedSharding(global_mesh, pspec).check_compatible_aval(arr.shape)
    return ShapedArray(tuple(arr.shape), arr.dtype)


gtl_abstract_eval = ltg_abstract_eval


def ltg_batcher(
    insert_axis: bool,
    axis_data: Any,
    vals_in: Sequence[Any],
    dims_in: Sequence[int | None],
    global_mesh: Mesh,
    pspec: Any,
) -> tuple[Any, int | None]:
    """`host_local_array_to_global_array` of a batch, whose dim gets its own entry."""
    (x,), (dim,) = vals_in, dims_in
    entries = list(pspec)
    if dim is not None:
        entries += [None] * (dim - len(entries))
        entries.insert(dim, axis_data.spmd_name)
    spec = PartitionSpec(*entries)
    return host_local_array_to_global_array(x, global_mesh, spec), dim


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the processes are about to be stopped and should save their state now.

    Nobody tells this process of it: False.

    >>> from curta.experimental import multihost_utils
    >>> multihost_utils.reached_preemption_sync_point(3)
    False
    """
    return False


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
    """Those of the devices whose processes run: all, as they belong to this one.

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
        raise RuntimeError("Distributed JAX not initialized.")
    if not devices:
        raise ValueError("No devices provided.")
    yield sorted({*devices}, key=lambda device: device.id)
