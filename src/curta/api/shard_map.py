"""`shard_map`: a function of one device's shards, run by all devices of a mesh."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import as_result
from curta.api.shard_map_checks import (
    check_devices_known,
    check_explicit,
    check_in_specs,
    check_out_avals,
    check_sums,
    checked_axes,
)
from curta.api.shard_values import ShardTrace
from curta.config import config
from curta.control.shard_map import NamedAxes, ShardMap
from curta.core.avals import ShapedArray
from curta.core.flat import debug_info
from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import AbstractMesh, AxisType, Mesh
from curta.core.mesh_scope import get_abstract_mesh, scope, within
from curta.core.partition_spec import PartitionSpec, entry_axes, entry_of
from curta.core.placement import placement
from curta.core.stage import recording_trace, stage
from curta.core.trace import concrete_or_none, current_trace, typeof, use_trace
from curta.core.wrapping import wraps
from curta.primitives.collective import PVary
from curta.primitives.unreduced import VaryUnreducedCast
from curta.runtime.array import ArrayImpl
from curta.transforms.partial_eval import residuals_as_inputs


class Infer:
    """A placeholder for specs that are taken from the types of the arguments."""

    def __repr__(self) -> str:
        return "jax.sharding.Infer"


INFER = Infer()


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = INFER,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Map a function over the shards of its arguments.

    Args:
      f: function of shards to shards; collectives reach the other shards by the names
        of the mesh's axes. Left out, `shard_map` returns a decorator.
      out_specs: a tree of `PartitionSpec`, a prefix of the output's: how shards are
        put together. An axis that is not named promises that all shards are equal.
      in_specs: the same for the arguments: how they are cut. None passes an argument
        as it is. May be left out where the axes are explicit.
      mesh: the devices; the mesh in scope if left out (see `set_mesh`).
      axis_names: the axes to map over, all if empty.
      check_vma: keep track of the axes over which values vary, so that `out_specs` are
        checked, and derivatives taken inside `f` count every shard once.

    Returns:
      A function of whole arrays to whole arrays.

    Raises:
      ValueError: if specs do not fit the mesh or the arrays.
      TypeError: if specs are not ne.

    >>> import curta, curta.numpy as jnp
    >>> mesh = curta.make_mesh((1,), ("x",), (curta.sharding.AxisType.Auto,))
    >>> total = curta.shard_map(
    ...     lambda x: curta.lax.psum(x.sum(), "x"),
    ...     mesh=mesh, in_specs=curta.P("x"), out_specs=curta.P(),
    ... )
    >>> total(jnp.arange(4.0))
    Array(6., dtype=float32)
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    if not callable(f):
        raise TypeError(
            "shard_map requires a callable for its first argument, but got"
            f" {f} of type {type(f)}."
        )
    fun = f

    @wraps(fun)
    def mapped(*args: Any) -> Any:
        where, axes = checked_axes(mesh, axis_names, in_specs, out_specs, INFER)
        leaves, in_tree = tree_util.tree_flatten(args)
        specs = _flat_specs(fun, where, axes, in_specs, args)
        check_explicit(where, axes, leaves, specs)
        call = _MappedCall(
            fun, in_tree, leaves, specs, where, axes, out_specs, check_vma
        )
        return call.run()

    return mapped


def older_shard_map(
    f: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    in_specs: Any,
    out_specs: Any,
    check_rep: bool = True,
) -> Any:
    """`shard_map` with the arguments it had before: see there.

    Args:
      f: function of pytrees of arrays, which sees one shard of each.
      mesh: the mesh whose devices each run it.
      in_specs: a `PartitionSpec` for each argument, or a prefix of their tree.
      out_specs: the same of the results.
      check_rep: check that results are alike where `out_specs` says so.

    Returns:
      A function of whole arrays to whole arrays.

    Raises:
      TypeError: if `f` is not callable or a spec is of another type.
      ValueError: when the result is called, if specs do not fit the arrays.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> from curta.experimental.shard_map import shard_map
    >>> mesh = curta.sharding.Mesh(curta.devices()[:1], ("i",))
    >>> double = shard_map(lambda x: 2 * x, mesh, in_specs=P("i"), out_specs=P("i"))
    >>> double(jnp.arange(2))
    Array([0, 2], dtype=int32)
    """
    return shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep
    )


def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = INFER,
    out_axes: Any,
    axis_name: Any,
) -> Any:
    """`shard_map` over one axis of the mesh in scope, with axes as in `vmap`.

    Args:
      f: function of pytrees of arrays, which sees one shard of each; without it, a
        decorator is returned.
      in_axes: which axis of the arguments is split: an int, None, or trees of them; by
        default as their shardings say, for an explicit axis of the mesh.
      out_axes: the same of the results.
      axis_name: the axis of the mesh.

    Returns:
      A function of whole arrays to whole arrays.

    Raises:
      TypeError: when it is called, for several axis names, axes that are not integers,
        or `in_axes` left out where the axis is not explicit.
      ValueError: when it is called outside of `set_mesh`.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> auto = (curta.sharding.AxisType.Auto,)
    >>> @curta.smap(in_axes=0, out_axes=None, axis_name="i")
    ... def total(x):
    ...     return curta.lax.psum(x.sum(), "i")
    >>> with curta.set_mesh(curta.make_mesh((1,), ("i",), axis_types=auto)):
    ...     print(total(jnp.arange(3)))
    3
    """
    if f is None:
        return functools.partial(
            smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name
        )
    if isinstance(axis_name, (list, tuple)):
        raise TypeError(
            f"smap axis_name should be a `str` or a `Hashable`, but got {axis_name}"
        )
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        leaves = [] if axes is INFER else tree_util.tree_leaves(axes)
        if not all(isinstance(a, int) for a in leaves) or (
            what == "in_axes"
            and not (axes is None or axes is INFER or isinstance(axes, (int, tuple)))
        ):
            raise TypeError(
                f"smap {what} must be an int, None, jax.sharding.Infer, or a tuple of"
                " entries corresponding to the positional arguments passed to the"
                f" function, but got {axes}."
            )
    around = get_abstract_mesh()
    kind = around.types.get(axis_name)
    if in_axes is INFER and kind is not AxisType.Explicit:
        raise TypeError(
            f"in_axes was not specified when axis_name={axis_name!r} was of type {kind}"
        )
    return shard_map(
        f,
        in_specs=INFER if in_axes is INFER else axes_to_specs(in_axes, axis_name),
        out_specs=axes_to_specs(out_axes, axis_name),
        axis_names={axis_name},
    )


def axes_to_specs(axes: Any, name: Any) -> Any:
    """Specs that split the dims that axes of `vmap` give, over the axis `name`."""

    def spec(axis: int | None) -> PartitionSpec:
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)

    return tree_util.tree_map(spec, axes, is_leaf=lambda x: x is None)


def _flat_specs(
    fun: Any, mesh: Any, axes: frozenset[Any], in_specs: Any, args: Any
) -> list[PartitionSpec | None]:
    """A spec for each leaf of the arguments, checked against their shapes."""
    leaves = tree_util.tree_leaves(args)
    if in_specs is INFER:
        specs = [typeof(x).sharding.spec for x in leaves]
        return [
            s.update([entry_of(n for n in a if n in axes) for a in s.axes_of_dims()])
            for s in specs
        ]
    try:
        result = tree_util.broadcast_prefix(in_specs, args, is_leaf=lambda x: x is None)
    except ValueError:
        error, *_ = tree_util.prefix_errors(in_specs, args)
        raise error("shard_map in_specs") from None
    check_in_specs(fun, mesh, in_specs, args, result)
    return list(result)


class _MappedCall:
    """One call of a mapped function."""

    def __init__(
        self,
        fun: Callable[..., Any],
        in_tree: Any,
        leaves: Sequence[Any],
        specs: Sequence[PartitionSpec | None],
        mesh: Mesh | AbstractMesh,
        axes: frozenset[Any],
        out_specs: Any,
        check_vma: bool,
    ):
        self.fun = fun
        self.in_tree = in_tree
        self.leaves = leaves
        self.specs = specs
        self.mesh = mesh
        self.out_specs = out_specs
        self.check_vma = check_vma
        self.axes = axes - {*mesh.manual_axes}
        manual = dict.fromkeys(self.axes, AxisType.Manual)
        self.inner_mesh = mesh.abstract_mesh.update_axis_types(manual)

    def run(self) -> Any:
        dynamic = [x for x, s in zip(self.leaves, self.specs) if s is not None]
        in_specs = [s for s in self.specs if s is not None]
        result: list[Any] = []
        closed = self._stage(dynamic, in_specs, result)
        out_tree, out_specs = result
        self._check_captured(closed.consts)
        closed, captured = residuals_as_inputs(closed)
        op = ShardMap(
            closed,
            self.mesh,
            (*[PartitionSpec()] * len(captured), *in_specs),
            tuple(out_specs),
            self.axes,
            self.check_vma,
        )
        args = [*captured, *map(as_result, dynamic)]
        if isinstance(self.mesh, AbstractMesh) and current_trace().is_evaluating():
            check_devices_known(self.mesh, args)
        outs = op(*args)
        return tree_util.tree_unflatten(out_tree, outs)

    def _check_captured(self, consts: Sequence[Any]) -> None:
        for x in consts:
            if self.axes & _explicit_axes(x):
                raise NotImplementedError(
                    "Closing over inputs to shard_map where the input is sharded on"
                    " `Explicit` axes is not implemented. As a workaround, please pass"
                    f" it as an argument: it is of type {typeof(x)}."
                )

    def _stage(
        self, dynamic: Sequence[Any], specs: Sequence[Any], outputs: list[Any]
    ) -> ClosedJaxpr:
        info = debug_info("shard_map", self.fun)
        outside, values = scope(), [*map(concrete_or_none, dynamic)]
        known = recording_trace() is None and not any(x is None for x in values)

        def body(*shards: Any) -> list[Any]:
            given = iter(shards)
            leaves = [
                x if s is None else next(given)
                for x, s in zip(self.leaves, self.specs, strict=True)
            ]
            result = self.fun(*tree_util.tree_unflatten(self.in_tree, leaves))
            outs, tree = tree_util.tree_flatten(result)
            out_specs = self._broadcast_out_specs(result)
            outputs[:] = [tree, out_specs]
            return [self._varying(x, s) for x, s in zip(outs, out_specs, strict=True)]

        avals = [
            self._shard_aval(typeof(x), s) for x, s in zip(dynamic, specs, strict=True)
        ]
        sizes = {n: self.mesh.shape[n] for n in self.mesh.axis_names if n in self.axes}
        concrete = self.mesh if isinstance(self.mesh, Mesh) else scope().concrete
        checks = self.check_vma
        with within(self.inner_mesh, concrete=concrete, checks_varying=checks):
            with use_trace(NamedAxes(current_trace(), sizes)):
                trace = None
                if known:
                    where = (self.mesh, self.axes, checks, specs, values, outside)
                    trace = ShardTrace(info, *where)
                closed = stage(body, avals, info, trace=trace)
        tree, flat = outputs
        check_out_avals(
            self.fun, self.mesh, self.out_specs, tree, flat, closed.out_avals, checks
        )
        return closed

    def _broadcast_out_specs(self, result: Any) -> list[PartitionSpec]:
        try:
            return list(tree_util.broadcast_prefix(self.out_specs, result))
        except ValueError:
            error, *_ = tree_util.prefix_errors(self.out_specs, result)
            raise error("shard_map out_specs") from None

    def _varying(self, x: Any, spec: PartitionSpec) -> Any:
        """An output, as one that varies over all axes of its spec, or is a sum."""
        x = as_result(x)
        if not (self.check_vma and config.jax_auto_pcast):
            return x
        if missing := {*spec.used_axes()} - typeof(x).vma:
            x = PVary(self.mesh.in_order(missing))(x)
        if terms := spec.unreduced - typeof(x).mat.unreduced:
            x = VaryUnreducedCast(self.mesh.in_order(terms))(x)
        return x

    def _shard_aval(self, aval: ShapedArray, spec: PartitionSpec) -> ShapedArray:
        """The type of a shard."""
        check_sums("in", spec, aval, aval.sharding.spec)
        dims = spec.for_rank(aval.ndim).axes_of_dims()
        shape = tuple(
            n // self.mesh.size_of(axes)
            for n, axes in zip(aval.shape, dims, strict=True)
        )
        before = aval.placement.entries if aval.placement is not None else ()
        rest = [
            entry_of(n for n in entry_axes(e) if n not in self.axes) for e in before
        ]
        varying = {*aval.vma}
        sums = aval.mat.unreduced, aval.mat.reduced
        if self.check_vma:
            varying |= {n for axes in dims for n in axes}
            sums = sums[0] | spec.unreduced, sums[1] | spec.reduced
        space = aval.memory_space
        where = placement(self.inner_mesh, rest, varying, *sums, space)
        return ShapedArray(shape, aval.dtype, aval.weak_type, where)


def _explicit_axes(x: Any) -> set[Any]:
    """The explicit axes over which a value is split, or an array lies."""
    sharding = typeof(x).sharding
    lies = type(x) is ArrayImpl and not sharding.mesh.manual_axes
    return {*(sharding.mesh.explicit_axes if lies else sharding.spec.used_axes())}
