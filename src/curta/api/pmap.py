"""`pmap`: a function run once for each device, here for each slice of a batch.

On one host the slices share the processor, so that mapping over devices is mapping
over a batch: the same program as `jit` of `vmap`, whose work the thread pool divides.
Named axes and collectives are those of `vmap`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import argnums_in_range, check_callable
from curta.api.jit import jit
from curta.api.vmap import vmap
from curta.core.trace import typeof
from curta.runtime.devices import local_device_count


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """Map `fun` over an axis of its arguments, one slice per device.

    Args:
      fun: function of pytrees of arrays.
      axis_name: a name by which collectives in `fun` refer to the axis.
      in_axes, out_axes: which axes are mapped, as for `vmap`.
      static_broadcasted_argnums: positional arguments passed as they are to all
        devices; they are hashable.
      devices: the devices to use; they say how many slices there may be.
      axis_size: the number of slices, if no argument tells.
      donate_argnums: positional arguments whose memory may be reused.

    Raises:
      ValueError: for more slices than devices, or if no argument is mapped.

    >>> import curta, curta.numpy as jnp
    >>> curta.pmap(lambda x: 2 * x)(jnp.ones((1, 3)))
    Array([[2., 2., 2.]], dtype=float32)
    """
    check_callable(fun)
    places = static_broadcasted_argnums
    places = (places,) if isinstance(places, int) else tuple(places)
    name = object() if axis_name is None else axis_name
    compiled: dict[Any, Callable[..., Any]] = {}

    def mapped(count: int, statics: tuple[tuple[int, Any], ...]) -> Callable[..., Any]:
        """The compiled function of the mapped arguments alone."""
        key = (count, statics)
        if key not in compiled:
            axes = in_axes
            if isinstance(axes, (tuple, list)):
                fixed = {i for i, _ in statics}
                axes = tuple(a for i, a in enumerate(axes) if i not in fixed)
            call = _with_statics(fun, statics)
            compiled[key] = jit(
                vmap(call, axes, out_axes, axis_name=name, axis_size=axis_size)
            )
        return compiled[key]

    @functools.wraps(fun)
    def pmap_fun(*args: Any, **kwargs: Any) -> Any:
        fixed = argnums_in_range(places, len(args))
        statics = tuple((i, args[i]) for i in sorted(fixed))
        dynamic = [x for i, x in enumerate(args) if i not in fixed]
        _check_size((dynamic, kwargs), in_axes, axis_size, devices)
        return mapped(len(dynamic), statics)(*dynamic, **kwargs)

    return pmap_fun


def _with_statics(
    fun: Callable[..., Any], statics: tuple[tuple[int, Any], ...]
) -> Callable[..., Any]:
    @functools.wraps(fun)
    def call(*dynamic: Any, **kwargs: Any) -> Any:
        full = list(dynamic)
        for i, x in statics:
            full.insert(i, x)
        return fun(*full, **kwargs)

    return call


def _check_size(
    args: Any, in_axes: Any, axis_size: int | None, devices: Sequence[Any] | None
) -> None:
    """Refuse more slices than devices where the axis can be told at once."""
    available = local_device_count() if devices is None else len(devices)
    leaves = tree_util.tree_leaves(args)
    count = axis_size
    if count is None and isinstance(in_axes, int):
        shapes = [typeof(x).shape for x in leaves]
        if not shapes or not all(shapes):
            raise ValueError(
                "pmap requires at least one argument with a mapped axis, and arrays of"
                " rank 1 at least along it."
            )
        count = shapes[0][in_axes]
    if count is not None and count > available:
        raise ValueError(
            f"compiling computation that requires {count} logical devices, but only"
            f" {available} XLA devices are available (num_replicas={count},"
            " num_partitions=1). Use vmap, or ask for more devices with"
            f" jax_num_cpu_devices={count}."
        )
