"""From a program of whole arrays to the program of one host.

Each eqn becomes the op on the parts that a host has, between ops in which hosts meet.
How the dims of an op go together, its factors, says which parts those are
(primitives/factors.py); how values are split is found by propagation.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, bound_consts
from curta.core.mesh import EMPTY_ABSTRACT_MESH, Mesh
from curta.core.mesh_scope import within
from curta.core.op import Op
from curta.core.partition_spec import entry_of
from curta.core.sharding import Sharding
from curta.core.source_info import Replay
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.partition import (  # noqa: F401  (rules of `along_cut`)
    lookups,
    order,
    random_parts,
    sliding,
    stencils,
    transposed,
    updates,
)
from curta.partition.along import along_cut
from curta.partition.collectives import in_buckets, with_fewer_collectives
from curta.partition.fits import common_fits, fits_of, folding, windows_of, with_fits
from curta.partition.host_mesh import HostMesh, Split, host_mesh, split_of
from curta.partition.local_ops import local_iota, local_op
from curta.partition.part import (
    Fit,
    HostPart,
    fitted,
    own_slice,
    resharded,
    settled,
    windowed,
)
from curta.partition.propagation import Propagation
from curta.partition.rules import KEEP_WINDOWS, local_results
from curta.primitives.elementwise import eq
from curta.primitives.elementwise.select import select_n
from curta.primitives.factors import factors
from curta.primitives.host_collectives import (
    HostIndex,
    HostReduce,
    HostReduceScatter,
)
from curta.primitives.relation import Factors
from curta.primitives.shape import Iota
from curta.primitives.structure import BroadcastInDim, zeros

Axes = tuple[Any, ...]
Parts = Sequence[HostPart]


class LocalProgram(NamedTuple):
    """The program of one host, and how its arguments and results are split.

    The splits are along the axes of `hosts`.
    """

    closed: ClosedJaxpr
    in_splits: tuple[Split, ...]
    out_splits: tuple[Split, ...]
    hosts: HostMesh


def partition(
    closed: ClosedJaxpr,
    mesh: Mesh,
    in_shardings: Sequence[Sharding | None],
    out_shardings: Sequence[Sharding | None],
    hosts: HostMesh | None = None,
) -> LocalProgram:
    """The program that each host of a mesh runs on its parts of the arrays.

    Arguments and results whose sharding is None, or over axes of another mesh, are
    whole on each host. `hosts` are those of the mesh, if not those of its devices.
    """
    hosts = hosts or host_mesh(mesh)
    propagation = Propagation(mesh, tells=False)
    splits = []
    for shardings, avals in (
        (in_shardings, closed.in_avals),
        (out_shardings, closed.out_avals),
    ):
        pairs = zip(shardings, avals, strict=True)
        entries = [(propagation.entries(s, a.ndim), a.shape) for s, a in pairs]
        splits.append(tuple(hosts.split(e, shape) for e, shape in entries))
    ins, outs = splits
    local, _ = Partitioner(hosts, propagation).staged(closed, ins, outs)
    return LocalProgram(in_buckets(local), ins, outs, hosts)


class Partitioner:
    """Records the program of one host."""

    def __init__(self, hosts: HostMesh, propagation: Propagation):
        self.hosts = hosts
        self.propagation = propagation
        # The bodies of nested loops are asked for again and again.
        self._staged: dict[Any, tuple[ClosedJaxpr, list[Split]]] = {}

    def staged(
        self,
        closed: ClosedJaxpr,
        ins: Sequence[Split],
        outs: Sequence[Split] | None = None,
    ) -> tuple[ClosedJaxpr, list[Split]]:
        """The local jaxpr for inputs split so, and how its outputs are.

        They are split like `outs`, if that is given.
        """
        key = closed, tuple(ins), None if outs is None else tuple(outs)
        if key not in self._staged:
            self._staged[key] = self._stage(closed, ins, outs)
        return self._staged[key]

    def _stage(
        self,
        closed: ClosedJaxpr,
        ins: Sequence[Split],
        outs: Sequence[Split] | None,
    ) -> tuple[ClosedJaxpr, list[Split]]:
        result: list[Split] = []

        def run(*args: Any) -> list[Any]:
            parts = [HostPart(x, split) for x, split in zip(args, ins, strict=True)]
            results = self.jaxpr(closed, parts, outs)
            results = [settled(part, self.hosts) for part in results]
            result[:] = [part.split for part in results]
            return [part.value for part in results]

        with within(EMPTY_ABSTRACT_MESH, checks_varying=False, guesses=True):
            pairs = zip(closed.in_avals, ins, strict=True)
            avals = [self.local_aval(aval, split) for aval, split in pairs]
            local = stage(run, avals, closed.jaxpr.debug_info)
        return with_fewer_collectives(local), result

    def local_aval(self, aval: ShapedArray, split: Split) -> ShapedArray:
        """The aval of the part of one host."""
        shape = self.hosts.local_shape(aval.shape, split)
        return ShapedArray(shape, aval.dtype, aval.weak_type)

    def jaxpr(
        self,
        closed: ClosedJaxpr,
        args: Parts,
        outs: Sequence[Split] | None = None,
        hints: Sequence[Split] = (),
    ) -> list[HostPart]:
        """Apply the jaxpr's ops to the parts of one host.

        The results are split like `outs`, or, if that is None, best like `hints`.
        """
        jaxpr = closed.jaxpr
        entries = [_entries(part.split) for part in args]
        wanted = [_entries(split) for split in outs or hints]
        known = self.propagation.environment(jaxpr, entries, wanted)
        env: dict[Var, HostPart] = dict(zip(jaxpr.invars, args, strict=True))
        for v, const in bound_consts(jaxpr, closed.consts).items():
            env[v] = HostPart(const, ((),) * v.aval.ndim)
        # Values that depend on constants alone are not split by propagation.
        ends = {v: s for v, s in zip(jaxpr.outvars, outs or hints) if type(v) is Var}
        self.eqns(jaxpr, env, known, ends)
        results = [read(env, v) for v in jaxpr.outvars]
        if outs is None:
            return results
        pairs = zip(results, outs, strict=True)
        return [HostPart(resharded(x, split, self.hosts), split) for x, split in pairs]

    def eqns(
        self,
        jaxpr: Jaxpr,
        env: dict[Var, HostPart],
        known: Mapping[Var, Any],
        ends: Mapping[Var, Split],
    ) -> None:
        """Record the eqns one by one, each at the user's line.

        Values are split as is `known`, or, where that is not at all, as at the `ends`.
        """
        replay = Replay()
        try:
            for eqn in jaxpr.eqns:
                replay.at(eqn.source_info)
                parts = [read(env, v) for v in eqn.invars]
                wanted = [
                    self.hosts.split(known.get(v) or [None] * v.aval.ndim, v.aval.shape)
                    for v in eqn.outvars
                ]
                pairs = zip(eqn.outvars, wanted, strict=True)
                wanted = [s if any(s) else ends.get(v, s) for v, s in pairs]
                result = self.eqn(eqn, parts, wanted)
                for v, part in zip(eqn.outvars, result, strict=True):
                    shape = part.shape(self.hosts)
                    assert shape == v.aval.shape, (eqn.op.name, shape, v.aval)
                    env[v] = part
        finally:
            replay.finish()

    def eqn(
        self, eqn: Eqn, parts: Parts, wanted: Sequence[Split]
    ) -> Sequence[HostPart]:
        """The results of an eqn, split as `wanted` or coarser."""
        result: Sequence[HostPart] | None = None
        if eqn.outvars:
            result = updates.known_results(eqn, parts)
        if result is None:
            result = along_cut(eqn.op, self, eqn, parts, wanted)
        if result is not None:
            return result
        if local_results.dispatch(type(eqn.op)) not in KEEP_WINDOWS:
            parts = [settled(part, self.hosts) for part in parts]
        result = local_results(eqn.op, self, eqn, parts, wanted)
        return self.mapped(eqn, parts, wanted) if result is None else result

    # ---- ops on elements

    def mapped(self, eqn: Eqn, parts: Parts, wanted: Sequence[Split]) -> list[HostPart]:
        """An op by its factors: each host computes its part of them."""
        avals = [v.aval for v in eqn.invars]
        outs = [v.aval for v in eqn.outvars]
        rel = factors(eqn.op, avals, outs)
        parts, fits = common_fits(eqn.op, rel, parts, self.hosts)
        given = {f: fit.axes for f, fit in fits.items()}
        axes = self.axes_of_factors(rel, parts, wanted, given)
        axes = transposed.elsewhere(eqn.op, self, rel, parts, axes)
        values = []
        for part, dims in zip(parts, rel.operands, strict=True):
            split = split_of(dims, axes)
            value = fitted(part, split, fits_of(dims, fits), self.hosts)
            values.append(folding(value, dims, rel, fits, self.hosts))
        folded = [(f, kind) for f, kind in rel.reduced if axes.get(f)]
        if folded and rel.once:
            along = [n for f, _ in folded for n in axes[f]]
            values = self.counted_once(values, rel, along)
        splits = [split_of(dims, axes) for dims in rel.results]
        results = self.applied(eqn.op, rel, outs, values, splits, fits)
        result = [
            windowed(x, split, windows_of(dims, fits), self.hosts)
            for x, split, dims in zip(results, splits, rel.results, strict=True)
        ]
        for f, kind in folded:
            result = [
                self.folded(part, kind, axes[f], want)
                for part, want in zip(result, wanted, strict=True)
            ]
        return [self.refined(part, want) for part, want in zip(result, wanted)]

    def applied(
        self,
        op: Op,
        rel: Factors,
        outs: Sequence[ShapedArray],
        values: Sequence[Any],
        splits: Sequence[Split],
        fits: Mapping[int, Fit],
    ) -> Sequence[Any]:
        """The op on the values of one host."""
        shapes = [typeof(x).shape for x in values]
        local = [
            with_fits(self.hosts.local_shape(a.shape, split), dims, fits)
            for a, split, dims in zip(outs, splits, rel.results, strict=True)
        ]
        if isinstance(op, Iota):
            axes = splits[0][op.dimension]
            return [local_iota(op, local[0], axes, self.hosts)]
        result = local_op(op, shapes, local)(*values)
        return result if op.multiple_results else [result]

    def axes_of_factors(
        self,
        rel: Factors,
        parts: Parts,
        wanted: Sequence[Split],
        given: Mapping[int, Axes],
    ) -> dict[int, Axes]:
        """Along which axes of hosts each factor is split.

        First come those `given`, then sums over what all operands have in parts, then
        what is wanted of results, then how the larger operands are.
        """
        result: dict[int, Axes] = {**given}
        used: set[Any] = {n for axes in given.values() for n in axes}
        for f, _ in rel.reduced:
            splits = [
                part.split[d]
                for part, dims in zip(parts, rel.operands, strict=True)
                for d, dim in enumerate(dims)
                if dim[:1] == (f,)
            ]
            if splits and all(axes == splits[0] for axes in splits):
                self.assign(rel, (f,), splits[0], result, used)
        by_size = sorted(
            zip(parts, rel.operands, strict=True),
            key=lambda pair: -typeof(pair[0].value).size,
        )
        for split, dims in [
            *zip(wanted, rel.results, strict=True),
            *((part.split, dims) for part, dims in by_size),
        ]:
            for axes, dim in zip(split, dims, strict=True):
                self.assign(rel, dim, axes, result, used)
        return self._contiguous(rel, result)

    def _contiguous(self, rel: Factors, assigned: dict[int, Axes]) -> dict[int, Axes]:
        """The factors that are split, but those inside of one that is not all split."""
        inner = [
            f
            for dims in (*rel.operands, *rel.results)
            for dim in dims
            for outer, f in itertools.pairwise(dim)
            if assigned.get(f)
            and self.hosts.size_of(assigned.get(outer, ())) < rel.sizes[outer]
        ]
        if not inner:
            return assigned
        return self._contiguous(
            rel, {f: a for f, a in assigned.items() if f not in inner}
        )

    def assign(
        self,
        rel: Factors,
        dim: Sequence[int],
        axes: Axes,
        assigned: dict[int, Axes],
        used: set[Any],
    ) -> None:
        """Split the factors of a dim along axes, as far as they can be."""
        left = list(axes)
        for f in dim:
            if f in rel.whole:
                return
            if f not in assigned:
                own: list[Any] = []
                while left and left[0] not in used:
                    if rel.sizes[f] % self.hosts.size_of([*own, left[0]]):
                        break
                    used.add(left[0])
                    own.append(left.pop(0))
                if not own:
                    return
                assigned[f] = tuple(own)
            elif [*assigned[f]] == left[: len(assigned[f])]:
                left = left[len(assigned[f]) :]
            else:
                return
            if self.hosts.size_of(assigned[f]) < rel.sizes[f]:
                return  # inner factors can be split only if outer ones are split fully

    def counted_once(
        self, values: Sequence[Any], rel: Factors, axes: Sequence[Any]
    ) -> list[Any]:
        """The operands, zeros on all but the first host where they count once."""
        first = eq(HostIndex(self.hosts.group(axes))(), np.int32(0))
        result = []
        for i, x in enumerate(values):
            if i in rel.once:
                aval = typeof(x)
                mask = BroadcastInDim(aval.shape, ())(first)
                x = select_n(mask, zeros(aval), x)
            result.append(x)
        return result

    def folded(self, part: HostPart, kind: str, axes: Axes, wanted: Split) -> HostPart:
        """The fold over the parts of hosts along `axes`; of each its own, if wanted."""
        x, split, windows = part
        if len(axes) == 1:
            for d, want in enumerate(wanted):
                n = len(split[d])
                if split[d] == want[:n] and want[n : n + 1] == axes:
                    group = self.hosts.group(axes)
                    x = HostReduceScatter(group, kind, d)(x)
                    split = (*split[:d], want[: n + 1], *split[d + 1 :])
                    return HostPart(x, split, windows)
        return HostPart(HostReduce(self.hosts.group(axes), kind)(x), split, windows)

    def refined(self, part: HostPart, wanted: Split) -> HostPart:
        """The part, cut further where that is wanted and costs nothing."""
        x, split = part.value, list(part.split)
        used = {n for axes in split for n in axes}
        for d, want in enumerate(wanted):
            n = len(split[d])
            if split[d] == want[:n] and not (part.windows and part.windows[d]):
                for axis in want[n:]:
                    if axis in used:
                        break
                    x = own_slice(x, d, (axis,), self.hosts)
                    split[d] += (axis,)
                    used.add(axis)
        return HostPart(x, tuple(split), part.windows)


def read(env: Mapping[Var, HostPart], atom: Any) -> HostPart:
    """The part of a value; literals are the same everywhere."""
    if type(atom) is Literal:
        return HostPart(atom.operand, ())
    return env[atom]


def _entries(split: Split) -> tuple[Any, ...]:
    return tuple(map(entry_of, split))
