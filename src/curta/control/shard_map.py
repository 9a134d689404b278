"""`ShardMap`: one program for all devices of a mesh, each on its shards.

The body is a jaxpr of one device's work. Transformations map it to other bodies; what
runs is the program on whole arrays that `shard_program` makes of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.config import config
from curta.control.call import JaxprOp, JitCall
from curta.control.carries import flagged, unflagged
from curta.control.messages import delivered
from curta.control.shard_program import dims_of, whole_program
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_with_jaxpr
from curta.core.mesh import AbstractMesh, AxisType, Mesh
from curta.core.mesh_scope import scope, within
from curta.core.op import BatchDims, Batched
from curta.core.partition_spec import (
    PartitionSpec,
    entry_axes,
    entry_of,
)
from curta.core.placement import placement, space_of
from curta.core.stage import stage
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import Trace, current_trace, typeof, use_trace
from curta.primitives.collective import Psum
from curta.primitives.elementwise.arithmetic import div
from curta.primitives.placed_types import varying_over
from curta.primitives.structure import reshape
from curta.transforms.jaxprs import (
    batch_jaxpr,
    jvp_jaxpr,
    run_closed,
    transpose_jaxpr,
)
from curta.transforms.partial_eval import SplitJaxpr, split_jaxpr

Specs = tuple[PartitionSpec, ...]


class NamedAxes(Trace):
    """Puts the axes of a mesh in scope for what is staged under it."""

    def __init__(self, parent: Trace, sizes: Mapping[Any, int]):
        self.parent: Trace = parent
        self.sizes = sizes

    def axis_sizes(self) -> dict[Any, int]:
        return {**self.parent.axis_sizes(), **self.sizes}


@dataclass(frozen=True)
class ShardMap(JaxprOp):
    """`body` run by every device, on the shards that `in_specs` give it.

    `axes` are those of the mesh that are mapped over.
    """

    name: ClassVar[str] = "shard_map"
    param_names: ClassVar[Mapping[str, str | None]] = {
        "jaxpr": "body",
        "newly_manual_axes": "axes",
    }
    body: ClosedJaxpr
    mesh: Mesh | AbstractMesh
    in_specs: Specs
    out_specs: Specs
    axes: frozenset[Any]
    check_vma: bool

    def params(self) -> dict[str, Any]:
        return {**super().params(), "jaxpr": self.body.jaxpr}

    @property
    def jaxpr(self) -> ClosedJaxpr:  # type: ignore[override]
        """The program on whole arrays."""
        return whole_program(self)

    @property
    def effects(self) -> frozenset[Effect]:
        return self.body.effects

    def with_jaxpr(self, jaxpr: ClosedJaxpr) -> JitCall:
        return JitCall(jaxpr, self.name)

    def with_body(
        self, body: ClosedJaxpr, in_specs: Iterable[Any], out_specs: Iterable[Any]
    ) -> ShardMap:
        """The op on another body."""
        return dataclasses.replace(
            self, body=body, in_specs=tuple(in_specs), out_specs=tuple(out_specs)
        )

    # ---- derivatives: of what one device does

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        nonzero = tuple(type(t) is not Zero for t in tangents)
        with self.inside():
            body, out_nonzero = jvp_jaxpr(self.body, nonzero)
        op = self.with_body(
            body,
            (*self.in_specs, *itertools.compress(self.in_specs, nonzero)),
            (*self.out_specs, *itertools.compress(self.out_specs, out_nonzero)),
        )
        results = op(*primals, *[t for t in tangents if type(t) is not Zero])
        count = len(self.out_specs)
        outs, dots = results[:count], iter(results[count:])
        return outs, [
            next(dots) if n else zero_tangent(typeof(x))
            for x, n in zip(outs, out_nonzero, strict=True)
        ]

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        unknown = tuple(map(partial.is_unknown, args))
        with self.inside():
            cut = cut_body(self, unknown)
        known_args = unflagged(args, unknown)
        results = cut.known(*known_args)
        later = [*cut.residuals(known_args, results), *flagged(args, unknown)]
        return partial.joined(cut.out_unknown, results, cut.unknown, later)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        linear = tuple(map(is_linear, args))
        nonzero = tuple(type(ct) is not Zero for ct in cotangent)
        with self.inside():
            op, out_nonzero = transposed(self, linear, nonzero)
        known = [x for x in args if not is_linear(x)]
        result = iter(op(*known, *[ct for ct in cotangent if type(ct) is not Zero]))
        flags = iter(out_nonzero)
        return [next(result) if f and next(flags) else None for f in linear]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        own = axis.spmd or tuple(n for n in axis.explicit if n in self.axes)
        used = {n for s in self.in_specs for n in s.used_axes()}
        if used & {*own} and not config.jax_disable_vmap_shmap_error:
            what = "vmap spmd_axis_name" if axis.spmd else "vmapped explicit mesh axis"
            raise ValueError(
                f"{what} cannot appear in shard_map in_specs: {own} is in"
                f" {self.in_specs}"
            )
        with self.inside():
            inner = axis._replace(
                size=axis.size // self.mesh.size_of(own),
                explicit=tuple(n for n in axis.explicit if n not in own),
            )
            body, out_dims = batch_jaxpr(delivered(self.body), inner, tuple(dims))
            if own and self.check_vma:
                body = _varying_body(body, dims, out_dims, frozenset(own))
        in_specs = [_with_dim(s, d, own) for s, d in zip(self.in_specs, dims)]
        out_specs = [_with_dim(s, d, own) for s, d in zip(self.out_specs, out_dims)]
        op = dataclasses.replace(
            self, body=body, in_specs=tuple(in_specs), out_specs=tuple(out_specs)
        )
        return op(*args), out_dims

    def delivered_body(self) -> ClosedJaxpr:
        """The body where messages between devices are values that are handed on."""
        with self.inside():
            return delivered(self.body)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """What is in scope where the body is traced."""
        manual = dict.fromkeys(self.axes, AxisType.Manual)
        mesh = self.mesh.abstract_mesh.update_axis_types(manual)
        concrete = self.mesh if isinstance(self.mesh, Mesh) else scope().concrete
        sizes = {n: self.mesh.shape[n] for n in self.mesh.in_order(self.axes)}
        checks = self.check_vma
        with within(mesh, concrete=concrete, checks_varying=checks):
            with use_trace(NamedAxes(current_trace(), sizes)):
                yield

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        outs = []
        for inner, spec in zip(self.body.out_avals, self.out_specs, strict=True):
            parts = [self.mesh.size_of(axes) for axes in dims_of(spec, inner.ndim)]
            shape = tuple(n * k for n, k in zip(inner.shape, parts, strict=True))
            out = ShapedArray(shape, inner.dtype, inner.weak_type)
            outs.append(out.update(placement=self._placement(inner, spec)))
        return outs

    def _placement(self, inner: ShapedArray, spec: PartitionSpec) -> Any:
        """Where an output is: how the mesh's explicit axes split it."""
        explicit = {n for n, t in self.mesh.types.items() if t is AxisType.Explicit}
        own = inner.placement.entries if inner.placement is not None else ()
        own = own or (None,) * inner.ndim
        entries = [
            entry_of(n for n in (*axes, *entry_axes(e)) if n in explicit)
            for axes, e in zip(dims_of(spec, inner.ndim), own, strict=True)
        ]
        return placement(
            self.mesh.abstract_mesh,
            entries,
            inner.vma - self.axes,
            spec.unreduced & explicit,
            spec.reduced & explicit,
            inner.memory_space,
        )


class Cut(NamedTuple):
    """A `ShardMap` cut in two, as `partial_eval.SplitJaxpr` is."""

    known: ShardMap
    unknown: ShardMap
    out_unknown: tuple[bool, ...]
    sources: tuple[tuple[bool, int], ...]

    def residuals(self, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The residuals, from the known arguments and what `known` returned."""
        return [(args if given else outs)[i] for given, i in self.sources]


@kept_with_jaxpr
def cut_body(op: ShardMap, unknown: tuple[bool, ...]) -> Cut:
    """The op on known arguments, and the op on what it leaves and the others."""
    late = [s for s, u in zip(op.in_specs, unknown, strict=True) if u]
    return cut_as(op, unknown, split_jaxpr(op.body, unknown), late)


def cut_as(
    op: ShardMap, unknown: Sequence[bool], split: SplitJaxpr, late_specs: Sequence[Any]
) -> Cut:
    """The op cut as `split` says of its body.

    `late_specs` are those of the arguments of the second part, after the residuals. A
    residual that differs between devices is handed on as an array of what all have.
    """
    in_specs = [s for s, u in zip(op.in_specs, unknown, strict=True) if not u]
    late_outs = [s for s, u in zip(op.out_specs, split.out_unknown) if u]
    out_specs = [s for s, u in zip(op.out_specs, split.out_unknown) if not u]
    count = len(out_specs)
    avals = split.known.out_avals[count:]
    out_specs += [_kept_spec(op, a) for a in avals]
    # One number for each device has no dim to be split: it gets one.
    lone = [
        not a.shape and bool(s.used_axes()) for a, s in zip(avals, out_specs[count:])
    ]
    known, later = split.known, split.unknown
    if any(lone):
        sources = [
            not given and i >= count and lone[i - count]
            for given, i in split.residual_sources
        ]
        known = _with_dims_out(known, [False] * count + lone)
        later = _without_dims_in(later, sources)
    kept = [
        (in_specs if given else out_specs)[i] for given, i in split.residual_sources
    ]
    return Cut(
        op.with_body(known, in_specs, out_specs),
        op.with_body(later, (*kept, *late_specs), late_outs),
        split.out_unknown,
        split.residual_sources,
    )


def _kept_spec(op: ShardMap, aval: ShapedArray) -> PartitionSpec:
    """How the values that all devices have of a residual are put together."""
    axes = aval.vma & op.axes if op.check_vma else op.axes
    return PartitionSpec(
        *[entry_of(op.mesh.in_order(axes))] * bool(axes),
        unreduced=aval.mat.unreduced & op.axes,
        reduced=aval.mat.reduced & op.axes,
    )


def _with_dims_out(closed: ClosedJaxpr, which: Sequence[bool]) -> ClosedJaxpr:
    def run(*args: Any) -> list[Any]:
        outs = run_closed(closed, args)
        return [reshape(x, (1,)) if w else x for x, w in zip(outs, which, strict=True)]

    return stage(run, closed.in_avals, closed.jaxpr.debug_info)


def _without_dims_in(closed: ClosedJaxpr, which: Sequence[bool]) -> ClosedJaxpr:
    flags = [*which, *[False] * (len(closed.in_avals) - len(which))]

    def run(*args: Any) -> list[Any]:
        return run_closed(
            closed, [reshape(x, ()) if w else x for x, w in zip(args, flags)]
        )

    avals = [a.with_dim(0, 1) if w else a for a, w in zip(closed.in_avals, flags)]
    return stage(run, avals, closed.jaxpr.debug_info)


@kept_with_jaxpr
def transposed(
    op: ShardMap, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> tuple[ShardMap, tuple[bool, ...]]:
    """The op from known arguments and nonzero cotangents to those of the others.

    Returns it with which of the linear arguments have a nonzero cotangent.
    """
    body, out_nonzero = transpose_jaxpr(op.body, linear, nonzero)
    known = [s for s, f in zip(op.in_specs, linear, strict=True) if not f]
    given = [s.dual() for s, n in zip(op.out_specs, nonzero, strict=True) if n]
    wanted = [s.dual() for s, f in zip(op.in_specs, linear, strict=True) if f]
    result = [*itertools.compress(wanted, out_nonzero)]
    if not op.check_vma:
        body = _shared_out(op, body, [None] * len(known) + given, result)
    return op.with_body(body, (*known, *given), result), out_nonzero


def _shared_out(
    op: ShardMap, body: ClosedJaxpr, given: Sequence[Any], out_specs: Sequence[Any]
) -> ClosedJaxpr:
    """Where types do not say what is the same on all devices: sums as if it were.

    Each device gets its share of a cotangent that all are given, and what comes out
    for one argument of all devices is the sum over them.
    """

    def others(spec: PartitionSpec | None) -> tuple[Any, ...]:
        if spec is None:
            return ()
        return op.mesh.in_order(op.axes - {*spec.used_axes()} - spec.unreduced)

    def share(x: Any, spec: PartitionSpec | None) -> Any:
        count = op.mesh.size_of(others(spec))
        if count == 1 or typeof(x).dtype == dtypes.float0:
            return x
        return div(x, np.asarray(count, typeof(x).dtype)[()])

    def run(*args: Any) -> list[Any]:
        outs = run_closed(body, [*map(share, args, given)])
        axes = [others(spec) for spec in out_specs]
        return [Psum(a)(x) if a else x for x, a in zip(outs, axes, strict=True)]

    return stage(run, body.in_avals, body.jaxpr.debug_info)


def _varying_body(
    body: ClosedJaxpr,
    dims: Sequence[int | None],
    out_dims: Sequence[int | None],
    axes: frozenset[Any],
) -> ClosedJaxpr:
    """The body where what is batched varies over axes that split the batch."""

    def run(*args: Any) -> list[Any]:
        pairs = zip(run_closed(body, args), out_dims, strict=True)
        return [x if d is None else varying_over(x, axes) for x, d in pairs]

    mesh = scope().abstract
    avals = [
        a if d is None else a.update(placement=_varying_too(a.placement, mesh, axes))
        for a, d in zip(body.in_avals, dims, strict=True)
    ]
    return stage(run, avals, body.jaxpr.debug_info)


def _varying_too(where: Any, mesh: AbstractMesh, axes: frozenset[Any]) -> Any:
    if where is None or where.mesh.empty:
        return placement(mesh, (), axes, space=space_of(where))
    return where.update(varying=where.varying | axes)


def _with_dim(
    spec: PartitionSpec, dim: int | None, axes: tuple[Any, ...]
) -> PartitionSpec:
    """The spec of an array with one more dim, split over `axes`."""
    if dim is None:
        return spec
    entries = list(spec.partitions)
    entries += [None] * (dim - len(entries))
    entries.insert(dim, entry_of(axes))
    while entries and entries[-1] is None and len(entries) > len(spec):
        entries.pop()
    return spec.update(entries)
