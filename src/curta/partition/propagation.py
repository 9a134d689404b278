"""How each value of a program is split over a mesh.

The rules of ops lead from operands to results. A value that comes from nothing that is
split, random bits say, is split as what is made of it: it is made in these parts.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from curta.config import config
from curta.control.call import JaxprOp
from curta.control.cond import Cond
from curta.control.custom_partitioning import CustomPartitioning
from curta.control.scan import Scan
from curta.control.shard_map import ShardMap
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Eqn, Jaxpr, Literal, Var
from curta.core.mesh import BaseMesh, Mesh, retyped
from curta.core.partition_spec import UNCONSTRAINED, PartitionSpec, entry_axes, entry_of
from curta.core.placement import mesh_of, placement
from curta.core.sharding import NamedSharding, Sharding, normalised
from curta.partition.wishes import wished_entries
from curta.primitives.base import Elementwise
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.factors import factors
from curta.primitives.partitioning import out_entries
from curta.primitives.placing import (
    INSPECTS,
    InspectSharding,
    Placing,
    ShardingConstraint,
)
from curta.primitives.shape import Iota
from curta.primitives.split_query import Entries, Query
from curta.primitives.structure import BroadcastInDim

Shardings = Sequence[Sharding | None]


class Propagation:
    """How the values of jaxprs are split over one mesh, from those that are known.

    `splits` has those of all values, also in nested jaxprs. Those that the program
    inspects it `tells`, but not while it is `trying`: then it only looks at what
    operands say.
    """

    trying: bool

    def __init__(self, mesh: Mesh, tells: bool = True):
        self.mesh = mesh
        self.tells = tells
        self.splits: dict[Var, Entries] = {}
        self.trying = False
        self.known: dict[Any, Any] = {}

    def entries(self, sharding: Sharding | None, rank: int) -> Entries:
        """How an array is split; not at all if over another mesh."""
        if isinstance(sharding, NamedSharding):
            if sharding.mesh.axis_names == self.mesh.axis_names:
                return self.of_spec(sharding.spec, rank)
        return (None,) * rank

    def typed(self, aval: ShapedArray, entries: Entries) -> ShapedArray:
        """The type of a value that shows its split, however it was decided."""
        where = aval.placement
        if (where is not None and where.has_axes) or not any(entries):
            return aval
        split = self.possible(entries, aval.shape)
        return aval.update(placement=placement(self.mesh.abstract_mesh, split))

    def of_spec(self, spec: PartitionSpec, rank: int) -> Entries:
        """The entries of a spec; axes of other meshes are left out."""
        names = self.mesh.axis_names
        return tuple(
            entry_of(n for n in axes if n in names)
            for axes in spec.for_rank(rank).axes_of_dims()
        )

    def shardings(
        self,
        entries: Sequence[Entries],
        outs: Sequence[ShapedArray],
        asked: Sequence[Sharding | None] = (),
    ) -> Shardings:
        """The splits of outputs, as shardings.

        Those that a sharding was `asked` for are over axes of the types it says.
        """
        result = []
        asked = asked or [None] * len(outs)
        for split, aval, wanted in zip(entries, outs, asked, strict=True):
            spec = PartitionSpec(*self.possible(split, aval.shape))
            if aval.placement is not None:
                sums = aval.placement.spec(aval.ndim)
                spec = spec.update(unreduced=sums.unreduced, reduced=sums.reduced)
            mesh = self.mesh_of(aval)
            if isinstance(wanted, NamedSharding):
                mesh = retyped(mesh, wanted.mesh)
            spec = without_single(spec, mesh)
            if not mesh.explicit_axes or {*spec.used_axes()} & {*mesh.auto_axes}:
                spec = normalised(spec)
            result.append(over_axes(mesh, spec))
        return result

    def mesh_of(self, aval: ShapedArray) -> Mesh:
        """The mesh of an output: its axes are of the types that its type says."""
        said = mesh_of(aval.placement)
        return retyped(self.mesh, said) if said.explicit_axes else self.mesh

    def possible(self, entries: Sequence[Any], shape: Sequence[int]) -> Entries:
        """The split of the dims that can be split so."""
        return tuple(
            None if size % self.mesh.size_of(entry_axes(e)) else e
            for e, size in zip(entries, shape, strict=True)
        )

    def jaxpr(
        self,
        jaxpr: Jaxpr,
        split: Sequence[Entries],
        wanted: Sequence[Entries] = (),
        free: Collection[Var] = (),
    ) -> list[Entries]:
        """The splits of the outputs of a jaxpr.

        They are as `wanted` where nothing else says, and so are inputs that are `free`.
        """
        env = self.environment(jaxpr, split, wanted, free)
        return [_read(env, v) for v in jaxpr.outvars]

    def environment(
        self,
        jaxpr: Jaxpr,
        split: Sequence[Entries],
        wanted: Sequence[Entries] = (),
        free: Collection[Var] = (),
    ) -> Mapping[Var, Entries]:
        """The splits of all values of a jaxpr, as `jaxpr` finds them."""
        if self.trying:
            return self.tried(jaxpr, split)
        key = jaxpr, tuple(split), tuple(wanted), True
        inspects = INSPECTS in jaxpr.effects
        if key not in self.known or inspects:
            wishes: Mapping[Var, Entries] = {}
            if self.mesh.auto_axes:
                wishes = self.wishes(jaxpr, self.tried(jaxpr, split), wanted, free)
            env = self.forward(jaxpr, split, wishes)
            self.splits.update(env)
            self.known[key] = env
        result: Mapping[Var, Entries] = self.known[key]
        return result

    def tried(self, jaxpr: Jaxpr, split: Sequence[Entries]) -> Mapping[Var, Entries]:
        """How the values of a jaxpr are split by its inputs alone."""
        key = jaxpr, tuple(split)
        if key not in self.known:
            outer, self.trying = self.trying, True
            self.known[key] = self.forward(jaxpr, split, {})
            self.trying = outer
        env: Mapping[Var, Entries] = self.known[key]
        return env

    def forward(
        self, jaxpr: Jaxpr, split: Sequence[Entries], wishes: Mapping[Var, Entries]
    ) -> dict[Var, Entries]:
        """The splits of all values; as wished for where operands do not say."""
        given = zip(jaxpr.invars, split, strict=True)
        env = {v: wishes.get(v, entries) for v, entries in given}
        for eqn in jaxpr.eqns:
            operands = [_read(env, v) for v in eqn.invars]
            wanted = [wishes.get(v, ()) for v in eqn.outvars]
            result = self.eqn(eqn, operands, wanted)
            for v, own, wish in zip(eqn.outvars, result, wanted, strict=True):
                env[v] = own if any(own) or not wish else wish
        return env

    def eqn(
        self, eqn: Eqn, split: Sequence[Entries], wanted: Sequence[Entries]
    ) -> Sequence[Entries]:
        """The splits of the outputs of an eqn."""
        if isinstance(eqn.op, JaxprOp) and not isinstance(eqn.op, _WITH_SPECS):
            return self.jaxpr(eqn.op.jaxpr.jaxpr, split, wanted)
        avals = [v.aval for v in eqn.invars]
        return self.op(eqn.op, avals, split, [v.aval for v in eqn.outvars])

    def wishes(
        self,
        jaxpr: Jaxpr,
        env: Mapping[Var, Entries],
        wanted: Sequence[Entries],
        free: Collection[Var],
    ) -> dict[Var, Entries]:
        """How values that nothing splits are to be split, for what is made of them.

        Constants are made where they are needed, so that nothing is said of them.
        """
        result: dict[Var, Entries] = {}
        bound = {*jaxpr.constvars, *jaxpr.invars}.difference(free) | _constants(jaxpr)

        def wish(atom: Any, entries: Entries) -> None:
            if type(atom) is Literal or atom in bound or any(_read(env, atom)):
                return
            left, kept = {*self.mesh.auto_axes}, []
            for entry in entries:
                axes = {*entry_axes(entry)}
                kept.append(entry if axes <= left else None)
                left -= axes
            if any(kept) and any(split := self.possible(kept, atom.aval.shape)):
                result.setdefault(atom, split)

        for v, entries in zip(jaxpr.outvars, wanted, strict=False):
            wish(v, entries)
        for eqn in reversed(jaxpr.eqns):
            outs = [_read(env, v) for v in eqn.outvars]
            outs = [
                e if any(e) else result.get(v, e) for e, v in zip(outs, eqn.outvars)
            ]
            if outs:
                for v, entries in zip(eqn.invars, self.operands(eqn, env, outs)):
                    wish(v, entries)
        return result

    def operands(
        self, eqn: Eqn, env: Mapping[Var, Entries], outs: Sequence[Entries]
    ) -> Sequence[Entries]:
        """How the operands of an eqn are to be split so that its outputs are."""
        op: Any = eqn.op
        if isinstance(op, JaxprOp) and not isinstance(op, _WITH_SPECS):
            inner, given = op.jaxpr.jaxpr, tuple(_read(env, v) for v in eqn.invars)
            key = inner, given, tuple(outs)
            if key not in self.known:
                within = self.tried(inner, given)
                result = self.wishes(inner, within, outs, inner.invars)
                self.known[key] = [result.get(v, ()) for v in inner.invars]
            wanted: Sequence[Entries] = self.known[key]
            return wanted
        avals = [v.aval for v in eqn.invars]
        splits = [_read(env, v) for v in eqn.invars]
        relation = factors(op, avals, [v.aval for v in eqn.outvars])
        return wished_entries(relation, outs, splits, self.mesh.size_of)

    def op(
        self,
        op: Any,
        avals: Sequence[ShapedArray],
        split: Sequence[Entries],
        outs: Sequence[ShapedArray],
    ) -> Sequence[Entries]:
        """The splits of the outputs of an op."""
        if isinstance(op, ShardMap):
            return self.shard_map(op, split, outs)
        if isinstance(op, InspectSharding):
            if self.tells and not self.trying:
                op.callback(self.shardings(split, avals)[0])
            return []
        if isinstance(op, Placing):
            kept = ()
            if isinstance(op, ShardingConstraint):
                kept = self.mesh.explicit_axes
            return [self.placed(op.target, split[0], kept)]
        if isinstance(op, CustomPartitioning):
            specs = op.result_specs(self.mesh, [PartitionSpec(*e) for e in split])
            return [self.of_spec(s, a.ndim) for s, a in zip(specs, outs, strict=True)]
        if isinstance(op, JaxprOp):
            return self.jaxpr(op.jaxpr.jaxpr, split)
        if isinstance(op, Scan):
            return self.scan(op, split)
        if isinstance(op, While):
            consts, carry = split[op.cond_nconsts :], op.body_nconsts
            tested = [*split[: op.cond_nconsts], *consts[carry:]]
            self.jaxpr(op.cond_jaxpr.jaxpr, tested)
            return self.jaxpr(op.body_jaxpr.jaxpr, [*consts[:carry], *consts[carry:]])
        if isinstance(op, Cond):
            return [self.jaxpr(b.jaxpr, split[1:]) for b in op.branches][0]
        explicit = [a.placement.entries if a.placement else () for a in outs]
        if all(explicit) and not self.mesh.auto_axes:
            return explicit
        size_of = self.mesh.size_of
        inferred = out_entries(Query(op, avals, split, outs, size_of, strict=False))
        return [
            self.beside(e, f) if e else f
            for e, f in zip(explicit, inferred, strict=True)
        ]

    def beside(self, explicit: Entries, inferred: Entries) -> Entries:
        """A split over explicit axes, and over those left to the compiler besides."""
        free = {*self.mesh.auto_axes} - {n for e in explicit for n in entry_axes(e)}
        return tuple(
            entry_of((*entry_axes(e), *(n for n in entry_axes(f) if n in free)))
            for e, f in zip(explicit, inferred, strict=True)
        )

    def shard_map(
        self, op: ShardMap, split: Sequence[Entries], outs: Sequence[ShapedArray]
    ) -> Sequence[Entries]:
        """The splits of the outputs: as specs say, and inside over the other axes."""
        inner: list[Entries] = [(None,) * a.ndim for a in outs]
        if {*self.mesh.axis_names} - op.axes - {*self.mesh.explicit_axes}:
            rest = [
                tuple(entry_of(n for n in entry_axes(e) if n not in op.axes) for e in s)
                for s in split
            ]
            inner = self.jaxpr(op.body.jaxpr, rest)
        return [
            self.beside(
                (a.placement and a.placement.entries) or self.of_spec(s, a.ndim), own
            )
            for s, a, own in zip(op.out_specs, outs, inner, strict=True)
        ]

    def placed(self, target: Any, before: Entries, kept: Sequence[Any] = ()) -> Entries:
        """The split of a sharding constraint; open dims keep their split.

        Over the axes `kept` it does not say anything.
        """
        if not isinstance(target, NamedSharding):
            return (None,) * len(before)
        free = [e is UNCONSTRAINED for e in target.spec.partitions]
        wanted: list[Any] = list(self.of_spec(target.spec, len(before)))
        wanted = [
            UNCONSTRAINED if d < len(free) and free[d] else e
            for d, e in enumerate(wanted)
        ]
        used = {n for e in wanted for n in entry_axes(e)}
        return tuple(
            entry_of(n for n in entry_axes(b) if n not in used)
            if w is UNCONSTRAINED
            else entry_of((*(n for n in entry_axes(b) if n in kept), *entry_axes(w)))
            for w, b in zip(wanted, before, strict=True)
        )

    def scan(self, op: Scan, split: Sequence[Entries]) -> list[Entries]:
        """The splits of the final carry and of the stacked outputs."""
        first = op.num_consts + op.num_carry
        rows = [*split[:first], *(e[1:] for e in split[first:])]
        result = self.jaxpr(op.jaxpr.jaxpr, rows)
        ys = [(None, *e) for e in result[op.num_carry :]]
        return [*result[: op.num_carry], *ys]


_WITH_SPECS = (ShardMap, CustomPartitioning)
_CONSTANT = (BroadcastInDim, ConvertElementType, Elementwise, Iota)


def _constants(jaxpr: Jaxpr) -> set[Var]:
    """The values that are made of nothing but literals, one by one."""
    result: set[Any] = set()
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, _CONSTANT):
            if all(type(v) is Literal or v in result for v in eqn.invars):
                result.update(eqn.outvars)
    return result


def _read(env: Mapping[Var, Entries], atom: Any) -> Entries:
    known = () if type(atom) is Literal else env.get(atom)
    return known or (None,) * atom.aval.ndim


def without_single(spec: PartitionSpec, mesh: BaseMesh) -> PartitionSpec:
    """The spec without the axes of one device that nobody has asked for.

    Types tell of explicit ones, unless a setting says that they do not.
    """
    hidden = config.jax_remove_size_one_mesh_axis_from_type
    axes = mesh.axis_names if hidden else mesh.auto_axes
    gone = {n for n in axes if mesh.shape[n] == 1}
    if not gone:
        return spec
    dims = spec.axes_of_dims()
    return spec.update([entry_of(n for n in axes if n not in gone) for axes in dims])


@functools.lru_cache(4096)
def over_axes(mesh: Mesh, spec: PartitionSpec) -> NamedSharding:
    """The sharding, one object for each mesh and spec."""
    return NamedSharding(mesh, spec)
