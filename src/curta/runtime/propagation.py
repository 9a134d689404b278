"""Where the results of programs on arrays over several devices are.

One program runs for all devices, on the memory they share; what remains to be said is
how its results are split over them. `partitioning` has a rule for each op. Here the
rules go through a whole jaxpr, from how the arguments are split, or from the meshes
that the jaxpr itself names.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from curta.control.call import JaxprOp
from curta.control.cond import Cond
from curta.control.custom_partitioning import CustomPartitioning
from curta.control.scan import Scan
from curta.control.shard_map import ShardMap
from curta.control.stacked_terms import axes_of
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.jaxpr import (
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Literal,
    jaxprs_in_params,
)
from curta.core.mesh import AbstractMesh, Mesh, concrete_mesh, scope
from curta.core.op import Op
from curta.core.partition_spec import UNCONSTRAINED, PartitionSpec, entry_axes, entry_of
from curta.core.sharding import MemorySpace, NamedSharding, Sharding, normalised
from curta.primitives.partitioning import Entries, Query, out_entries
from curta.primitives.placing import (
    DevicePut,
    InspectSharding,
    Placing,
    ShardingConstraint,
)
from curta.runtime.devices import default_sharding

Shardings = Sequence[Sharding | None]


class Destinations:
    """Where a compiled program's inputs and outputs are to be.

    `known` if that is not for the arguments alone to say.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        in_shardings: Shardings,
        out_shardings: Shardings,
        mesh: Mesh | None = None,
    ):
        self.closed = closed
        self.in_shardings = tuple(in_shardings)
        self.out_shardings = tuple(out_shardings)
        self.around = mesh
        self.named = named_mesh(closed.jaxpr)
        wanted = _mesh_of(self.out_shardings)
        if self.named is None and wanted is not None:
            self.named = NamedMesh(wanted, "explicit output sharding")
        if self.named is None and mesh is not None:
            self.named = NamedMesh(mesh, "jit's context mesh")
        self.function = closed.jaxpr.debug_info.name
        self.arg_names = closed.jaxpr.debug_info.arg_names
        _check_sums("in_shardings", self.in_shardings, closed.in_avals)
        _check_sums("out_shardings", self.out_shardings, closed.out_avals)
        self.known = bool(
            in_shardings
            or out_shardings
            or self.named
            or _last_placing(closed.jaxpr)
            or _inspects(closed.jaxpr)
        )

    def arguments(self, placed: Shardings, avals: Sequence[ShapedArray]) -> Shardings:
        """Where the arguments are, once they are where they were said to be.

        Those that the program does not read are nowhere. Raises ValueError if one was
        placed elsewhere.
        """
        if self.in_shardings:
            given = zip(placed, self.in_shardings, avals, strict=True)
            placed = [_moved(*x) for x in given]
        return self.read_alone(placed)

    def read_alone(self, placed: Shardings) -> Shardings:
        """The same, with None for the arguments that the program does not read."""
        inputs, read = self.closed.jaxpr.invars, self._read
        return [s if v in read else None for v, s in zip(inputs, placed)]

    @functools.cached_property
    def _read(self) -> frozenset[Any]:
        """What the program reads or returns."""
        jaxpr = self.closed.jaxpr
        eqns = (v for eqn in jaxpr.eqns for v in eqn.invars)
        return frozenset(
            v for v in (*eqns, *jaxpr.outvars) if not isinstance(v, Literal)
        )

    def results(self, placed: Shardings) -> Shardings:
        """Where the results are, given where the arguments are."""
        found = program_shardings(self.closed, placed, self.around)
        if not self.out_shardings:
            return found
        mesh = chosen_mesh(self.named, placed)
        default = None if mesh is None else _named(mesh, PartitionSpec())
        results = []
        for s, wanted, aval in zip(found, self.out_shardings, self.closed.out_avals):
            if wanted is not None:
                wanted.shard_shape(aval.shape)
            results.append(wanted or s or default)
        return results


def _check_sums(what: str, shardings: Shardings, avals: Sequence[ShapedArray]) -> None:
    """Refuse to take sums, or make terms of them, on the way in or out."""
    for s, aval in zip(shardings, avals, strict=False):
        if isinstance(s, NamedSharding):
            if s.spec.unreduced != aval.sharding.spec.unreduced:
                raise NotImplementedError(
                    f"{what} of jit with other unreduced axes than the array: got"
                    f" {s.spec} for {aval.str_short()}. Call jax.sharding.reshard"
                    " within the function."
                )


def _moved(
    sharding: Sharding | None, wanted: Sharding | None, aval: ShapedArray
) -> Sharding | None:
    if wanted is None:
        return sharding
    wanted.shard_shape(aval.shape)
    if sharding is None and axes_of(aval):
        raise NotImplementedError(
            f"in_shardings of jit with unreduced axes, {wanted}, for an array that is"
            " not so. Call jax.sharding.reshard on it first."
        )
    if sharding is not None and not _split_alike(sharding, wanted, aval.ndim):
        raise ValueError(
            "Sharding passed to jit does not match the sharding on the respective arg."
            f" Got jit sharding: {wanted},\narg sharding: {sharding} for arg type:"
            f" {aval.str_short()}"
        )
    return wanted


def _split_alike(one: Sharding, other: Sharding, rank: int) -> bool:
    """Whether two shardings cut arrays alike, be it for other devices."""
    if one.is_fully_replicated and other.is_fully_replicated:
        return True
    return one.tiling(rank) == other.tiling(rank)


def op_shardings(
    op: Op,
    avals: Sequence[ShapedArray],
    shardings: Shardings,
    outs: Sequence[ShapedArray],
) -> Shardings:
    """Where the results of one op are, given where its operands are."""
    return _op_shardings(op, tuple(avals), tuple(shardings), tuple(outs), scope())


@functools.lru_cache(4096)
def _op_shardings(
    op: Op,
    avals: tuple[ShapedArray, ...],
    shardings: tuple[Sharding | None, ...],
    outs: tuple[ShapedArray, ...],
    _scope: Any,
) -> Shardings:
    shardings = tuple(s and (s.named or s) for s in shardings)
    if isinstance(op, DevicePut):
        target = op.target
        if isinstance(target, MemorySpace):
            where = shardings[0] or default_sharding(avals[0])
            target = where.with_memory_kind(target.kind)
        return [target] * len(outs)
    mesh = chosen_mesh(mesh_of_op(op), shardings)
    if mesh is None:
        return _single(op, shardings, len(outs))
    if isinstance(op, ShardMap) and len(op.axes) == len(mesh.axis_names):
        return [_named(mesh, spec) for spec in op.out_specs]
    if isinstance(op, Placing) and isinstance(op.target, NamedSharding):
        mesh = _retyped(mesh, op.target.mesh)
    walk = _Walk(mesh)
    split = [walk.entries(s, a.ndim) for s, a in zip(shardings, avals, strict=True)]
    found = walk.shardings(walk.op(op, avals, split, outs), outs)
    return _spelt_as_given(found, outs, shardings, avals)


def program_shardings(
    closed: ClosedJaxpr, shardings: Shardings, around: Mesh | None = None
) -> Shardings:
    """Where the results of a jaxpr are, given where its arguments are.

    They are over the mesh `around` where nothing says otherwise.
    """
    return _program_shardings(closed, tuple(shardings), around, scope())


@functools.lru_cache(1024)
def _program_shardings(
    closed: ClosedJaxpr,
    shardings: tuple[Sharding | None, ...],
    around: Mesh | None,
    _scope: Any,
) -> Shardings:
    given = dict(zip(closed.jaxpr.invars, shardings, strict=True))
    shardings = tuple(s and (s.named or s) for s in shardings)
    mesh = chosen_mesh(named_mesh(closed.jaxpr), shardings)
    if mesh is None and not any(shardings):
        mesh = around
    outs = closed.out_avals
    if mesh is None:
        placed = [s for s in shardings if s is not None]
        last = _last_placing(closed.jaxpr)
        if _inspects(closed.jaxpr):
            _show_all(closed.jaxpr, placed[0] if placed else default_sharding())
        return [(last or (placed[0] if placed else None))] * len(outs)
    walk = _Walk(mesh)
    pairs = zip(shardings, closed.in_avals, strict=True)
    split = walk.jaxpr(closed.jaxpr, [walk.entries(s, a.ndim) for s, a in pairs])
    found = walk.shardings(split, outs)
    found = _spelt_as_given(found, outs, shardings, closed.in_avals)
    handed_on = [given.get(v) for v in closed.jaxpr.outvars]  # type: ignore
    return [
        s if s is not None and s.named and s.devices == mesh.flat_devices else f
        for s, f in zip(handed_on, found, strict=True)
    ]


def _spelt_as_given(
    found: Shardings,
    outs: Sequence[ShapedArray],
    given: Shardings,
    avals: Sequence[ShapedArray],
) -> Shardings:
    """The shardings of results, as the user wrote that of the first placed argument.

    P('x', None) and P('x') split an array of two dims alike.
    """
    pairs = ((s, a.ndim) for s, a in zip(given, avals, strict=True))
    named = ((s, n) for s, n in pairs if isinstance(s, NamedSharding))
    first, rank = next(named, (None, -1))
    if first is None or first.mesh.explicit_axes:
        return found
    plain = _named(first.mesh, normalised(first.spec))
    return [
        first if s == plain and out.ndim == rank else s
        for s, out in zip(found, outs, strict=True)
    ]


def _single(op: Op, shardings: Shardings, count: int) -> Shardings:
    placed = [s for s in shardings if s is not None]
    if isinstance(op, Placing) and isinstance(op.target, Sharding):
        return [op.target] * count
    return [placed[0] if placed else None] * count


def _last_placing(jaxpr: Jaxpr) -> Sharding | None:
    """The device to which a program moves values, if it does."""
    for eqn in reversed(jaxpr.eqns):
        if not isinstance(eqn.op, DevicePut):
            continue
        if isinstance(eqn.op.target, Sharding):
            return eqn.op.target
        if isinstance(eqn.op.target, MemorySpace):
            return default_sharding().with_memory_kind(eqn.op.target.kind)
    return None


def _show_all(jaxpr: Jaxpr, sharding: Sharding) -> None:
    """Show the one device on which everything is to whoever inspects."""
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, InspectSharding):
            eqn.op.callback(sharding)
        for inner in jaxprs_in_params(eqn.op.params()):
            _show_all(inner, sharding)


def _inspects(jaxpr: Jaxpr) -> bool:
    return "InspectSharding" in jaxpr.effects


def _mesh_of(shardings: Shardings) -> Mesh | None:
    for s in shardings:
        if isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh):
            return s.mesh
    return None


class NamedMesh(NamedTuple):
    """A mesh, perhaps without its devices, and what names it: an op, say."""

    mesh: Mesh | AbstractMesh
    by: str


def chosen_mesh(named: NamedMesh | None, shardings: Shardings) -> Mesh | None:
    """The mesh over which results are: that of the program, or of its arguments."""
    given = _mesh_of(shardings)
    if named is None or (given and given.shape_tuple == named.mesh.shape_tuple):
        return given
    if isinstance(named.mesh, Mesh):
        return named.mesh
    return concrete_mesh(named.mesh) or scope().concrete or given


def needed_devices(
    named: NamedMesh | None, shardings: Shardings
) -> tuple[tuple[Any, ...], str] | None:
    """The devices that a program names, with what names them."""
    if named is None:
        return None
    mesh = named.mesh if isinstance(named.mesh, Mesh) else chosen_mesh(named, shardings)
    return None if mesh is None else (mesh.flat_devices, named.by)


@functools.lru_cache(4096)
def named_mesh(jaxpr: Jaxpr) -> NamedMesh | None:
    """The mesh that a program names, if it names one."""
    for eqn in jaxpr.eqns:
        found = mesh_of_op(eqn.op)
        if found is not None:
            return found
    return None


def mesh_of_op(op: Op) -> NamedMesh | None:
    """The mesh that an op names, itself or in its jaxprs."""
    if isinstance(op, ShardMap):
        return NamedMesh(op.mesh, f"{op.name} inside jit")
    if isinstance(op, DevicePut):
        return None
    if isinstance(op, Placing) and isinstance(op.target, NamedSharding):
        return NamedMesh(op.target.mesh, f"{op.name} inside jit")
    for jaxpr in jaxprs_in_params(op.params()):
        found = named_mesh(jaxpr)
        if found is not None:
            return found
    return None


def _retyped(mesh: Mesh, like: Mesh | AbstractMesh) -> Mesh:
    """The mesh, with axes of the names and types of another of its shape."""
    if like.abstract_mesh is mesh.abstract_mesh or like.axis_sizes != mesh.axis_sizes:
        return mesh
    return mesh.update(axis_names=like.axis_names, axis_types=like.axis_types)


class _Walk:
    """Goes through jaxprs with the splits of values over one mesh."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh

    def entries(self, sharding: Sharding | None, rank: int) -> Entries:
        """How an array is split; not at all if over another mesh."""
        if isinstance(sharding, NamedSharding):
            if sharding.mesh.axis_names == self.mesh.axis_names:
                return self.of_spec(sharding.spec, rank)
        return (None,) * rank

    def of_spec(self, spec: PartitionSpec, rank: int) -> Entries:
        """The entries of a spec; axes of other meshes are left out."""
        names = self.mesh.axis_names
        return tuple(
            entry_of(n for n in axes if n in names)
            for axes in spec.for_rank(rank).axes_of_dims()
        )

    def shardings(
        self, entries: Sequence[Entries], outs: Sequence[ShapedArray]
    ) -> Shardings:
        """The splits of outputs, as shardings."""
        found = []
        for split, aval in zip(entries, outs, strict=True):
            spec = PartitionSpec(*self.possible(split, aval.shape))
            if aval.placement is not None:
                sums = aval.placement.spec(aval.ndim)
                spec = spec.update(unreduced=sums.unreduced, reduced=sums.reduced)
            mesh = self.mesh_of(aval)
            if not mesh.explicit_axes or {*spec.used_axes()} & {*mesh.auto_axes}:
                spec = normalised(spec)
            found.append(_named(mesh, spec))
        return found

    def mesh_of(self, aval: ShapedArray) -> Mesh:
        """The mesh of an output: its axes are of the types that its type says."""
        if aval.placement is None:
            return self.mesh
        return _retyped(self.mesh, aval.placement.mesh)

    def possible(self, entries: Entries, shape: Sequence[int]) -> Entries:
        """The split of the dims that can be split so."""
        return tuple(
            None if size % self.mesh.size_of(entry_axes(e)) else e
            for e, size in zip(entries, shape, strict=True)
        )

    def jaxpr(self, jaxpr: Jaxpr, split: Sequence[Entries]) -> list[Entries]:
        """The splits of the outputs of a jaxpr."""
        env: dict[Any, Entries] = dict(zip(jaxpr.invars, split, strict=True))

        def read(atom: Any) -> Entries:
            if type(atom) is Literal:
                return (None,) * atom.aval.ndim
            return env.get(atom) or (None,) * atom.aval.ndim

        for eqn in jaxpr.eqns:
            found = self.eqn(eqn, [read(v) for v in eqn.invars])
            env.update(zip(eqn.outvars, found, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def eqn(self, eqn: Eqn, split: Sequence[Entries]) -> Sequence[Entries]:
        """The splits of the outputs of an eqn."""
        avals = [v.aval for v in eqn.invars]
        return self.op(eqn.op, avals, split, [v.aval for v in eqn.outvars])

    def op(
        self,
        op: Any,
        avals: Sequence[ShapedArray],
        split: Sequence[Entries],
        outs: Sequence[ShapedArray],
    ) -> Sequence[Entries]:
        """The splits of the outputs of an op."""
        if isinstance(op, ShardMap):
            pairs = zip(op.out_specs, outs, strict=True)
            return [
                (a.placement and a.placement.entries) or self.of_spec(s, a.ndim)
                for s, a in pairs
            ]
        if isinstance(op, InspectSharding):
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
            return self.jaxpr(op.body_jaxpr.jaxpr, [*consts[:carry], *consts[carry:]])
        if isinstance(op, Cond):
            return self.jaxpr(op.branches[0].jaxpr, split[1:])
        explicit = [a.placement.entries if a.placement else () for a in outs]
        if all(explicit):
            return explicit
        size_of = self.mesh.size_of
        return out_entries(Query(op, avals, split, outs, size_of, strict=False))

    def placed(self, target: Any, before: Entries, kept: Sequence[Any] = ()) -> Entries:
        """The split that a sharding asks for; as before where it leaves that open.

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
        found = self.jaxpr(op.jaxpr.jaxpr, rows)
        ys = [(None, *e) for e in found[op.num_carry :]]
        return [*found[: op.num_carry], *ys]


@functools.lru_cache(4096)
def _named(mesh: Mesh, spec: PartitionSpec) -> NamedSharding:
    """The sharding, one object for each mesh and spec."""
    return NamedSharding(mesh, spec)
