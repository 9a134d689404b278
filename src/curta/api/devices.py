"""Moving values to and from devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes, tree_util
from curta.api.device_arguments import as_sharding
from curta.api.jit_shardings import check_layout_fits, constrained
from curta.api.signatures import T
from curta.config import config, transfer_guard_host_to_device
from curta.core.array_layout import Format, Layout, layout_of
from curta.core.avals import ShapedArray, is_string
from curta.core.mesh_scope import get_abstract_mesh, outside_meshes
from curta.core.sharding import MemorySpace, NamedSharding, Sharding
from curta.core.stage import JaxprTrace
from curta.core.trace import Trace, Tracer, current_trace, typeof
from curta.hosts.engine import of_process
from curta.primitives.placing import CopySemantics, DevicePut, Reshard
from curta.runtime.agreement import different
from curta.runtime.array import ArrayImpl
from curta.runtime.devices import Device
from curta.runtime.eager import placed_on
from curta.runtime.guard import guard_transfer
from curta.runtime.relayout import laid_out
from curta.runtime.transfer import string_array, to_array
from curta.transforms.jvp import JVPTracer
from curta.transforms.vmap import BatchTracer


def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: Any = False,
    may_alias: Any = None,
) -> Any:
    """Put the leaves of a pytree on a device or sharding, as arrays.

    Args:
      x: a pytree of arrays, NumPy arrays and scalars.
      device: a `Device`, a sharding, a `curta.memory.Space` of the devices where the
        arrays are, or a pytree of them that is a prefix of `x`; None leaves the arrays
        where they are.
      src: where the arrays were; accepted, since each knows that itself.
      donate: whether the arrays given may not be used afterwards, or a prefix of `x`
        that says so for each.
      may_alias: False for memory of its own; not True together with `donate`. A result
        that shares memory with its argument can be used as long as that can.

    Returns:
      A pytree of arrays like `x`.

    Raises:
      ValueError: for a `device` that is none.
      TypeError: if leaves are not arrays.

    >>> import curta, numpy
    >>> curta.device_put({"w": numpy.ones(2), "n": 3})
    {'n': Array(3, dtype=int32, weak_type=True), 'w': Array([1., 1.], dtype=float32)}
    """
    if may_alias is None and isinstance(donate, bool) and not _is_tree(device):
        target = _target(device)
        _check_here(tree_util.tree_leaves(x), device)
        how = How(src, donate)
        return tree_util.tree_map(lambda leaf: _put(leaf, target, how), x)
    leaves, tree = tree_util.tree_flatten(x)
    targets = _of_leaves("device", device, x, len(leaves))
    sources = _of_leaves("src", src, x, len(leaves))
    for leaf, given in zip(leaves, targets, strict=True):
        _check_here([leaf], given)
    donated = _of_leaves("donate", donate, x, len(leaves))
    aliased = _of_leaves("may_alias", may_alias, x, len(leaves))
    if any(d and a for d, a in zip(donated, aliased, strict=True)):
        raise ValueError("may_alias and donate cannot be True at the same time.")
    put = []
    ways = map(How, sources, donated, (a is False for a in aliased))
    for leaf, target, how in zip(leaves, map(_target, targets), ways, strict=True):
        placed = _put(leaf, target, how)
        put.append(_apart(leaf, placed) if how.copied else placed)
    return tree_util.tree_unflatten(tree, put)


class How(NamedTuple):
    """How a leaf is moved: from where, given up, to memory of its own."""

    source: Any = None
    donated: bool = False
    copied: bool = False

    def op(self, target: Any, source: Any = None) -> DevicePut:
        """The op that a traced program records for the move."""
        kinds = CopySemantics
        copies = kinds.ALWAYS_COPY if self.copied else kinds.REUSE_INPUT
        if self.donated:
            copies = kinds.DONATE_INPUT
        source = source if self.source is None else self.source
        return DevicePut(target, source, copies)


def _apart(x: Any, placed: Any) -> Any:
    """What was placed, in memory of its own if it is in that of the array `x`."""
    if isinstance(placed, Tracer) or type(x) is not ArrayImpl or x.is_deleted():
        return placed
    return placed.copy() if placed._buffer() is x._buffer() else placed


def _target(given: Any) -> Any:
    kept = MemorySpace, Format, Device
    return given if isinstance(given, kept) else as_sharding(given)


def _check_here(leaves: Sequence[Any], given: Any) -> None:
    """Refuse a device for arrays over several processes: each may name its own."""
    for x in leaves if isinstance(given, Device) else ():
        if type(x) is ArrayImpl and not x.is_fully_addressable:
            if x.sharding.num_devices > 1:
                raise ValueError(
                    "When the second argument to `device_put` is a Device, the first"
                    " argument must be a fully addressable array or a non-addressable"
                    " array with a single device sharding. Got value with devices"
                    f" {x.devices()}"
                )


def _of_leaves(what: str, given: Any, x: Any, count: int) -> list[Any]:
    """A setting for each leaf of `x`: one for all, or given as a prefix of the tree."""
    if not _is_tree(given):
        return [given] * count
    if errors := tree_util.prefix_errors(given, x, is_leaf=_is_none):
        raise _not_a_prefix(f"device_put {what} specification", given, x, errors)
    return tree_util.broadcast_prefix(given, x, is_leaf=_is_none)


def _is_tree(x: Any) -> bool:
    return isinstance(x, (tuple, list, dict))


def _is_none(x: Any) -> bool:
    return x is None


def _not_a_prefix(what: str, given: Any, x: Any, errors: list[Any]) -> ValueError:
    details = "\n\n".join(str(e(what)) for e in errors)
    return ValueError(
        f"{what} must be a tree prefix of the corresponding value, got specification"
        f" {given} for value tree {tree_util.tree_structure(x)}.\n\nMismatch details"
        f" ({len(errors)} found):\n{details}"
    )


def _put(x: Any, target: Any, how: How) -> Any:
    sharding = as_sharding(target) if isinstance(target, Format) else target
    layout = layout_of(target)
    if layout is not None:
        if sharding is None or not isinstance(layout, Layout):
            raise ValueError(
                "sharding and layout in `Format` should be concrete. Got"
                f" {target} for input {typeof(x).str_short()}"
            )
        check_layout_fits("device_put args", layout, typeof(x))
    placed = _moved(x, sharding, how)
    if isinstance(target, Format) and type(placed) is ArrayImpl:
        return laid_out(placed, layout or Layout(range(placed.ndim)))
    return placed


def _moved(x: Any, given: Any, how: How) -> Any:
    sharding, donate = given, how.donated
    if isinstance(given, Device):
        sharding = as_sharding(given)
    elif isinstance(given, MemorySpace):
        if isinstance(x, Tracer):
            return how.op(given)(x)
        x = x if type(x) is ArrayImpl else _explicit(x, None)
        sharding = x.sharding.with_memory_kind(sharding.kind)
    if sharding is not None and get_abstract_mesh().manual_axes:
        _check_compiled(sharding)
        sharding = None
    if isinstance(x, Tracer):
        if sharding is None:
            return x if get_abstract_mesh().manual_axes else how.op(None)(x)
        return _put_traced(x, sharding, given, how)
    array = x if type(x) is ArrayImpl else _explicit(x, sharding)
    if sharding is None or (array is x and not donate and x._sharding == sharding):
        return array
    if array is x and array.sharding.device_set != sharding.device_set:
        guard_transfer("device_to_device", array.aval, explicit=True)
    _check_fits(array.aval, sharding)
    if not sharding.is_fully_addressable and array.is_fully_addressable:
        _check_alike(array, sharding, committed=array is x and array.committed)
    if array._has_terms() or _wants_terms(sharding):
        if not isinstance(sharding, NamedSharding):
            array._refuse_terms()
        moved = Reshard(sharding)(array)
        return ArrayImpl(moved._storage(), moved.aval, sharding)
    placed = placed_on(array, sharding)
    if donate and array is x:
        array.delete()
    return placed


def _check_alike(x: ArrayImpl, sharding: Sharding, committed: bool) -> None:
    """Refuse values that other processes do not have, for devices of theirs.

    What was placed on devices of this process is its own. A process that has none of
    the devices need not be asked otherwise: it gets an array without shards.
    """
    here = of_process()
    processes = {d.process_index for d in sharding.devices}
    if committed:
        raise ValueError(
            "device_put's second argument must be a Device or a Sharding which"
            f" represents addressable devices, but got {sharding}: its devices are"
            f" those of processes {sorted(processes)}, and the array was placed on"
            f" process {here.index}. Pass np.asarray(x), or make it by"
            " jax.make_array_from_process_local_data."
        )
    if len(processes) == here.count and different([x._storage()]):
        raise AssertionError(
            f"{type(x)} passed to device_put is not the same on each process: it is"
            f" {x} on process {here.index}. To make an array of what each process has,"
            " call jax.make_array_from_process_local_data."
        )


def _wants_terms(sharding: Sharding) -> bool:
    return isinstance(sharding, NamedSharding) and bool(sharding.spec.unreduced)


def _check_compiled(sharding: Sharding) -> None:
    """Refuse to move a shard, except where `jit` decides where everything is."""
    trace: Trace | None = current_trace()
    recording = 0
    while trace is not None:
        recording += isinstance(trace, JaxprTrace)
        trace = trace.parent
    if recording < 2:  # the one trace is the shard_map's
        raise ValueError(
            "device_put with explicit device not allowed within shard_map-decorated"
            f" functions, but got device {sharding}"
        )


def _explicit(x: Any, sharding: Sharding | None) -> ArrayImpl:
    """A NumPy array or scalar as an array; the user asks for the transfer."""
    if isinstance(x, np.ndarray) and is_string(x.dtype):
        if sharding is None:
            raise TypeError(
                "String arrays can only be sharded to CPU devices. Received unsupported"
                f" device or sharding: {sharding}"
            )
        return string_array(x)
    if config.jax_transfer_guard_host_to_device != "allow":
        guard_transfer("host_to_device", typeof(x), explicit=True)
    with transfer_guard_host_to_device("allow"), outside_meshes():
        return to_array(x)


def _put_traced(x: Tracer, sharding: Sharding, given: Any, how: How) -> Any:
    explicit = isinstance(sharding, NamedSharding) and sharding.mesh.explicit_axes
    if explicit and sharding.memory_kind in (None, x.aval.memory_space.kind):
        return constrained(x, sharding)
    _check_fits(x.aval, sharding)
    value = x
    while isinstance(value, (JVPTracer, BatchTracer)):
        value = value.primal if isinstance(value, JVPTracer) else value.val
    placed = isinstance(value, ArrayImpl) and value.committed
    return how.op(given, value.sharding if placed else None)(x)


def _check_fits(aval: ShapedArray, sharding: Sharding) -> None:
    try:
        sharding.check_compatible_aval(aval.shape)
    except ValueError as error:
        raise ValueError(
            "One of device_put args is incompatible with its sharding annotation"
            f" {sharding}: {error}"
        ) from None
    sharding.shard_shape(aval.shape)


def device_get(x: Any) -> Any:
    """Return the arrays in a pytree as NumPy arrays; other leaves are unchanged.

    So do values that are being traced, which have no elements yet.

    >>> import curta, curta.numpy as jnp
    >>> curta.device_get({"a": jnp.arange(3), "b": "text"})
    {'a': array([0, 1, 2], dtype=int32), 'b': 'text'}
    """

    def get(leaf: Any) -> Any:
        traced = isinstance(leaf, Tracer)
        if traced or not hasattr(leaf, "__array__") or _holds_keys(leaf):
            return leaf
        return np.asarray(leaf)

    return tree_util.tree_map(get, x)


def _holds_keys(x: Any) -> bool:
    return dtypes.issubdtype(x.dtype, dtypes.extended) if hasattr(x, "dtype") else False


def block_until_ready(x: T) -> T:
    """Wait for the arrays in a pytree, and return it.

    >>> import curta, curta.numpy as jnp
    >>> curta.block_until_ready(jnp.arange(3) + 1)
    Array([1, 2, 3], dtype=int32)
    """

    for leaf in tree_util.tree_leaves(x):
        ready = getattr(leaf, "block_until_ready", None)
        if ready is not None:
            ready()
    return x


def copy_to_host_async(x: Any) -> Any:
    """Start copying the arrays in a pytree to the host, and return it.

    >>> import curta
    >>> x = curta.numpy.arange(3)
    >>> curta.copy_to_host_async({"x": x})
    {'x': Array([0, 1, 2], dtype=int32)}
    """

    for leaf in tree_util.tree_leaves(x):
        copy = getattr(leaf, "copy_to_host_async", None)
        if copy is not None:
            copy()
    return x
