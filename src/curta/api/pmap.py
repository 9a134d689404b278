"""`pmap`: a function run by several devices, each on its slice of the arguments.

It is `jit` of `shard_map` over a mesh of one axis, with axes in the words of `vmap`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta.api.aot import Lowered
from curta.api.arguments import as_result, check_callable, leaf_names
from curta.api.device_arguments import device_grid
from curta.api.jit import jit
from curta.api.jit_options import check_hashable, indices
from curta.api.multihost import host_local_array_to_global_array, to_local
from curta.api.platforms import process_count, process_index
from curta.api.shard_map import axes_to_specs, shard_map
from curta.api.vmap import vmap
from curta.core.mesh import Mesh
from curta.core.mesh_scope import get_abstract_mesh
from curta.core.trace import current_trace, is_array_like, typeof
from curta.core.tracebacks import api_boundary
from curta.core.wrapping import wraps
from curta.dtypes import float0
from curta.primitives.shape import Squeeze
from curta.primitives.structure import BroadcastInDim, move_dim
from curta.runtime.devices import local_devices

_UNNAMED = "_internal_pmap_axis_name"


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
      backend: the platform whose devices are used, if `devices` does not say.

    Returns:
      A function of the same arguments, whose results have the slices along the axis
      that `out_axes` says.

    Raises:
      ValueError: for more slices than devices, or if no argument is mapped.

    >>> import curta, curta.numpy as jnp
    >>> curta.pmap(lambda x: 2 * x)(jnp.ones((1, 3)))
    Array([[2., 2., 2.]], dtype=float32)
    """
    check_callable(fun)
    if devices is not None and not devices:
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if not all(type(a) is int for a in tree_util.tree_leaves(axes)):
            raise TypeError(
                f"pmap {what} must be an int, None, or (nested) container with those"
                f" types as leaves, but got {axes}."
            )
    options = _Options(
        fun,
        _UNNAMED if axis_name is None else axis_name,
        in_axes,
        out_axes,
        indices(static_broadcasted_argnums),
        devices,
        backend,
        axis_size,
        indices(donate_argnums),
    )

    @api_boundary
    @wraps(fun)
    def pmap_fun(*args: Any, **kwargs: Any) -> Any:
        call, leaves = options.prepare(args, kwargs)
        return call(*leaves)

    def lower(*args: Any, **kwargs: Any) -> Lowered:
        call, leaves = options.prepare(args, kwargs)
        lowered: Lowered = call.lower(*leaves)
        argnums, dynamic = options.dynamic(args)
        names = leaf_names(fun, dynamic, kwargs, argnums)
        in_tree = tree_util.tree_structure((tuple(dynamic), kwargs))
        return lowered.with_arguments(lowered.fun_name, in_tree, names)

    pmap_fun.lower = lower  # type: ignore[attr-defined]
    return pmap_fun


class _Options:
    """The arguments of `pmap`, and what was made for calls so far."""

    def __init__(
        self,
        fun: Callable[..., Any],
        name: Any,
        in_axes: Any,
        out_axes: Any,
        static: tuple[int, ...],
        devices: Sequence[Any] | None,
        backend: str | None,
        axis_size: int | None,
        donated: tuple[int, ...],
    ):
        self.fun = fun
        self.name = name
        self.in_axes = in_axes
        self.out_axes = out_axes
        self.static = static
        self.devices = devices
        self.backend = backend
        self.axis_size = axis_size
        self.donated = donated
        self.made: dict[Any, Any] = {}

    def prepare(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        """The compiled function of the leaves of the arguments, and the leaves."""
        if self.static and max(self.static) >= len(args):
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={self.static} but was"
                f" called with only {len(args)} positional"
                f" argument{'s' if len(args) > 1 else ''}. All static broadcasted"
                " arguments must be passed positionally."
            )
        static = {i % len(args) for i in self.static}
        for i in static:
            check_hashable(args[i])
        _, dynamic = self.dynamic(args)
        leaves, in_tree = tree_util.tree_flatten((dynamic, kwargs))
        axes = self._flat_axes(static, dynamic, kwargs)
        size = self._size(leaves, axes)
        axes = tuple(a and a % typeof(x).ndim for x, a in zip(leaves, axes))
        donated = self._donated(static, args)
        nested = bool(get_abstract_mesh().manual_axes)
        statics = tuple((i, args[i]) for i in sorted(static))
        key = (statics, in_tree, axes, size, donated, nested, self._all_devices(size))
        made = self.made.get(key)
        if made is None:
            make = self._as_vmap if nested else self._as_shard_map
            made = self.made[key] = make(statics, in_tree, axes, size, donated)
        return made, leaves

    def dynamic(self, args: tuple[Any, ...]) -> tuple[list[int], list[Any]]:
        """The positional arguments that are not static, and their argnums."""
        static = {i % len(args) for i in self.static}
        argnums = [i for i in range(len(args)) if i not in static]
        return argnums, [args[i] for i in argnums]

    def _flat_axes(
        self, static: set[int], dynamic: Sequence[Any], kwargs: Any
    ) -> tuple[int | None, ...]:
        axes = self.in_axes
        if isinstance(axes, tuple):
            axes = tuple(a for i, a in enumerate(axes) if i not in static)
        full = (tuple(dynamic), kwargs)
        try:
            result = tree_util.broadcast_prefix((axes, 0), full, is_leaf=_is_none)
        except ValueError:
            error, *_ = tree_util.prefix_errors((axes, 0), full, is_leaf=_is_none)
            named = (
                "\n\nWhen some arguments are passed by keyword to the pmapped function,"
                " they are not included in the comparison to `in_axes`. Instead, each"
                " argument passed by keyword is mapped over its leading axis."
            )
            raise ValueError(
                f"{error('pmap in_axes')}\n\nThe 'full pytree' here is the tuple of"
                " arguments passed positionally to the pmapped function, and the value"
                " of `in_axes` must be a tree prefix of that tuple. But it was not a"
                f" prefix.{named if kwargs else ''}"
            ) from None
        return tuple(result)

    def _size(self, leaves: Sequence[Any], axes: Sequence[int | None]) -> int:
        sizes = []
        for x, axis in zip(leaves, axes, strict=True):
            if axis is None:
                continue
            if not is_array_like(x):
                raise TypeError(
                    f"Argument '{x}' of type {type(x)} is not a valid JAX type: pmap"
                    " maps over arrays."
                )
            shape = typeof(x).shape
            if not -len(shape) <= axis < len(shape):
                raise ValueError(
                    "pmap requires at least one argument with a mapped axis: it was"
                    f" requested to map its argument along axis {axis}, but the rank"
                    f" of {typeof(x).str_short()} is only {len(shape)}"
                )
            sizes.append(shape[axis])
        if not sizes:
            raise ValueError("pmap requires at least one argument with a mapped axis.")
        if len({*sizes}) > 1:
            raise ValueError(
                "pmap got inconsistent sizes for array axes to be mapped:"
                f" {sorted({*sizes})}"
            )
        if self.axis_size not in (None, sizes[0]):
            raise ValueError(
                f"Specified axis_size {self.axis_size} doesn't match received axis_size"
                f" {sizes[0]}."
            )
        return sizes[0]

    def _chosen(self, size: int) -> tuple[Any, ...]:
        """This process's devices for the slices; ValueError if there are too few."""
        given: Any = self.devices
        if given is not None:
            given = [d for d in given if d.process_index == process_index(self.backend)]
        result = local_devices(backend=self.backend) if given is None else given
        if size > len(result):
            raise ValueError(
                f"compiling computation that requires {size} logical devices, but only"
                f" {len(result)} XLA devices are available (num_replicas={size},"
                " num_partitions=1). Use vmap, or ask for more devices with"
                f" jax_num_cpu_devices={size}."
            )
        if given is not None and size != len(given):
            raise ValueError(
                "Leading axis size of input to pmapped function must equal the number"
                f" of local devices passed to pmap. Got axis_size={size},"
                f" num_local_devices={len(given)}."
            )
        return tuple(result[:size])

    def _all_devices(self, size: int) -> tuple[Any, ...]:
        """The devices of all processes that run it: the first `size` of each."""
        own = self._chosen(size)
        count = process_count(self.backend)
        # In a trace it is part of a program of this process.
        if count == 1 or not current_trace().is_evaluating():
            return own
        if self.devices is not None:
            return tuple(self.devices)
        each = [local_devices(p, self.backend)[:size] for p in range(count)]
        return tuple(d for devices in each for d in devices)

    def _donated(self, static: set[int], args: tuple[Any, ...]) -> tuple[int, ...]:
        flags: list[bool] = []
        for i, x in enumerate(args):
            if i not in static:
                flags += [i in self.donated] * len(tree_util.tree_leaves(x))
        return tuple(i for i, f in enumerate(flags) if f)

    # ---- the two ways to run

    def _as_shard_map(
        self,
        statics: Any,
        in_tree: Any,
        axes: Sequence[int | None],
        size: int,
        donated: Sequence[int],
    ) -> Any:
        devices = self._all_devices(size)
        mesh = Mesh(device_grid((len(devices),), devices), (self.name,))
        front = _counted_from_front(self.out_axes)
        call = self._call(statics, in_tree)

        @wraps(self.fun)
        def shard(*leaves: Any) -> Any:
            out = call(*map(_squeezed, leaves, axes))
            outs, tree = tree_util.tree_flatten(out)
            out_axes = _out_axes(front, out)
            return tree_util.tree_unflatten(tree, [*map(_expanded, outs, out_axes)])

        shard.__signature__ = _SIGNATURE_OF_LEAVES  # type: ignore[attr-defined]
        mapped = shard_map(
            shard,
            mesh=mesh,
            in_specs=axes_to_specs(axes, self.name),
            out_specs=axes_to_specs(front, self.name),
            check_vma=False,
        )
        if front is not self.out_axes:
            mapped = _then_moved(mapped, self.out_axes)
        compiled = jit(mapped, donate_argnums=tuple(donated))
        if not mesh.is_multi_process:
            return compiled
        specs = tuple(axes_to_specs(axes, self.name))
        return _with_local_arrays(compiled, mesh, specs, self.out_axes)

    def _as_vmap(
        self,
        statics: Any,
        in_tree: Any,
        axes: Sequence[int | None],
        size: int,
        donated: Sequence[int],
    ) -> Any:
        """Within another map of devices: as a batch in each of them."""
        call = self._call(statics, in_tree)
        return jit(
            vmap(call, tuple(axes), self.out_axes, axis_name=self.name, axis_size=size)
        )

    def _call(self, statics: Any, in_tree: Any) -> Callable[..., Any]:
        def call(*leaves: Any) -> Any:
            dynamic, kwargs = tree_util.tree_unflatten(in_tree, leaves)
            full = list(dynamic)
            for i, x in statics:
                full.insert(i, x)
            return self.fun(*full, **kwargs)

        return call


# Of what takes the leaves of another function's arguments.
_SIGNATURE_OF_LEAVES = inspect.signature(lambda *leaves: None)


def _with_local_arrays(
    fun: Callable[..., Any], mesh: Mesh, specs: Any, out_axes: Any
) -> Any:
    """`fun` of arrays over all processes, as one of what each of them has."""

    def local(x: Any, axis: int | None) -> Any:
        if x.dtype != float0:
            return to_local(x, x.sharding)
        if axis is None:  # arrays of float0 are of NumPy, and lie nowhere
            return x
        shape = [*x.shape]
        shape[axis] = mesh.local_mesh.size
        return np.zeros(shape, float0)

    @wraps(fun)
    def call(*leaves: Any) -> Any:
        out = fun(*host_local_array_to_global_array(leaves, mesh, specs))
        outs, tree = tree_util.tree_flatten(out)
        return tree.unflatten(map(local, outs, _out_axes(out_axes, out)))

    return call


def _is_none(x: Any) -> bool:
    return x is None


def _counted_from_front(axes: Any) -> Any:
    """Axes of outputs, 0 in place of those counted from the end."""
    if all(a >= 0 for a in tree_util.tree_leaves(axes)):
        return axes
    return tree_util.tree_map(lambda a: max(a, 0), axes)


def _then_moved(fun: Callable[..., Any], axes: Any) -> Callable[..., Any]:
    """`fun`, and the mapped axes moved from the front to where they are to be."""

    @wraps(fun)
    def moved(*args: Any) -> Any:
        out = fun(*args)
        leaves, tree = tree_util.tree_flatten(out)
        out_axes = _out_axes(axes, out)
        return tree_util.tree_unflatten(tree, [*map(_from_front, leaves, out_axes)])

    return moved


def _from_front(x: Any, axis: int | None) -> Any:
    if axis is None or axis >= 0:
        return x
    rank = typeof(x).ndim
    if axis < -rank:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")
    return move_dim(x, 0, axis + rank)


def _out_axes(axes: Any, out: Any) -> list[int | None]:
    try:
        return list(tree_util.broadcast_prefix(axes, out, is_leaf=_is_none))
    except ValueError:
        error, *_ = tree_util.prefix_errors(axes, out, is_leaf=_is_none)
        raise error("pmap out_axes") from None


def _squeezed(x: Any, axis: int | None) -> Any:
    return x if axis is None else Squeeze((axis % typeof(x).ndim,))(x)


def _expanded(x: Any, axis: int | None) -> Any:
    x = as_result(x)
    if axis is None:
        return x
    shape = typeof(x).shape
    if axis > len(shape):
        rank = len(shape) + 1
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")
    dims = tuple(d + (d >= axis) for d in range(len(shape)))
    return BroadcastInDim((*shape[:axis], 1, *shape[axis:]), dims)(x)
