"""Where the results of programs on arrays over several devices are.

One program runs for all devices, on the memory they share; what remains to be said is
how its results are split over them. `partitioning` has a rule for each op. Here the
rules go through a whole jaxpr, from how the arguments are split, or from the meshes
that the jaxpr itself names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta._base.once import cached_property
from curta.config import config
from curta.control.stacked_terms import axes_of
from curta.core.avals import ShapedArray
from curta.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    Var,
    jaxprs_of,
)
from curta.core.memo import kept_with_jaxpr, make_room
from curta.core.mesh import Mesh
from curta.core.mesh_scope import scope
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import (
    MemorySpace,
    NamedSharding,
    Sharding,
    default_sharding,
    in_memory,
    normalised,
    on_device,
)
from curta.partition.named_devices import (
    NamedDevices,
    NamedMesh,
    Shardings,
    check_devices,
    chosen_mesh,
    is_abstract,
    mesh_among,
    named_devices,
    named_mesh,
    needed_devices,
)
from curta.partition.propagation import Propagation, over_axes, without_single
from curta.primitives.placing import (
    INSPECTS,
    DevicePut,
    InspectSharding,
    Placing,
)
from curta.primitives.split_query import Entries
from curta.transforms.dce import read_atoms


class Placed:
    """Where the arguments of a call are to be, its results, and on which devices.

    There are no devices if nothing was placed.
    """

    __slots__ = ("__weakref__", "devices", "given", "results")

    def __init__(self, given: tuple[Sharding | None, ...], devices: tuple[Any, ...]):
        self.given = given
        self.devices = devices
        self.results: Shardings | None = None  # computed on demand


class Destinations:
    """Where a compiled program's inputs and outputs are to be.

    `known` if that is not for the arguments alone to say. `moves` if arguments are to
    be brought there from wherever they are; else those that are split otherwise are
    refused.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        in_shardings: Shardings,
        out_shardings: Shardings,
        mesh: Mesh | None = None,
        moves: bool = False,
    ):
        self.closed = closed
        self.in_shardings: tuple[Sharding | None, ...] = tuple(in_shardings)
        self.out_shardings: tuple[Sharding | None, ...] = tuple(out_shardings)
        self.around = mesh
        self.moves = moves
        self._calls: dict[Any, tuple[Placed, Shardings]] = {}
        self._placed: dict[Any, Placed] = {}
        self.named = named_mesh(closed.jaxpr)
        wanted = mesh_among(self.out_shardings)
        if self.named is None and wanted is not None:
            self.named = NamedMesh(wanted, "explicit output sharding")
        if self.named is None and mesh is not None:
            self.named = NamedMesh(mesh, "jit's context mesh")
        self._named_devices = named_devices(closed.jaxpr, self.out_shardings)
        self.function: str = closed.jaxpr.debug_info.name
        self.arg_names: tuple[str, ...] = closed.jaxpr.debug_info.arg_names
        _check_sums("in_shardings", self.in_shardings, closed.in_avals)
        _check_sums("out_shardings", self.out_shardings, closed.out_avals)
        self.known: bool = bool(
            in_shardings
            or out_shardings
            or self.named
            or self._named_devices
            or _last_placing(closed.jaxpr)
            or not _on_devices(closed)
            or _inspects(closed.jaxpr)
        )

    def arguments(self, placed: Shardings, avals: Sequence[ShapedArray]) -> Shardings:
        """The shardings of the arguments, after they are moved to the given ones.

        Those that the program does not read are nowhere. Raises ValueError if one is
        split otherwise.
        """
        if self.in_shardings:
            if self.moves:
                placed = [None] * len(placed)
            given = zip(placed, self.in_shardings, avals, strict=True)
            placed = [_moved(*x) for x in given]
        return self.read_alone(placed)

    def of_call(self, shardings: Shardings) -> Placed:
        """Where the values of a call are with arguments that were placed so.

        One object for all calls that are alike. Raises ValueError if arguments are on
        other devices than the others.
        """
        key = *map(id, shardings), config.context
        known = self._calls.get(key)
        if known is None:
            make_room(self._calls, config.tuning.plans)
            # With the shardings, as their ids are the key.
            known = self._calls[key] = self._found(shardings), shardings
        return known[0]

    def _found(self, shardings: Shardings) -> Placed:
        jaxpr, avals = self.closed.jaxpr, self.closed.in_avals
        given = tuple(self.arguments(shardings, avals))
        needed = self.needed(given)
        check_devices(self.function, avals, given, needed, self.arg_names, jaxpr)
        devices = self.devices(given)
        make_room(self._placed, config.tuning.plans)
        key = given, devices, config.context
        return self._placed.setdefault(key, Placed(given, devices))

    def results_of(self, placed: Placed) -> Shardings:
        """Where the results of a call are."""
        if placed.results is None:
            placed.results = self.results(placed.given)
        return placed.results

    def read_alone(self, placed: Shardings) -> Shardings:
        """The same, with None for the arguments that the program does not read."""
        inputs, read = self.closed.jaxpr.invars, self._read
        return [s if v in read else None for v, s in zip(inputs, placed)]

    def reads(self, number: int) -> bool:
        """Return True if the program reads or returns an argument."""
        return self.closed.jaxpr.invars[number] in self._read

    @cached_property
    def _read(self) -> frozenset[Any]:
        """What the program reads or returns."""
        return frozenset(read_atoms(self.closed.jaxpr))

    def devices(self, given: Shardings) -> tuple[Any, ...]:
        """The devices of the program, given where its arguments are to be.

        There are none if nothing was placed.
        """
        needed = self.needed(given)
        if needed:
            return needed[0].devices
        placed = (*given, *self.out_shardings)
        known = (s for s in placed if s is not None and not is_abstract(s))
        return next((s.devices for s in known), ())

    def needed(self, given: Shardings) -> tuple[NamedDevices, ...]:
        """The devices that the program names, each with what names them first."""
        return needed_devices(self.named, self._named_devices, given)

    def results(self, placed: Shardings) -> Shardings:
        """Where the results are, given where the arguments are."""
        result = program_shardings(self.closed, placed, self.around)
        if not self.out_shardings:
            return result
        mesh = chosen_mesh(self.named, placed)
        default = None if mesh is None else over_axes(mesh, PartitionSpec())
        results = []
        for s, wanted, aval in zip(result, self.out_shardings, self.closed.out_avals):
            if wanted is not None:
                wanted.shard_shape(aval.shape)
            results.append(wanted or s or default)
        return results

    def mesh(self, placed: Shardings) -> Mesh | None:
        """The mesh that the program runs over, given where its arguments are."""
        return program_mesh(self.named, placed, self.around)

    def types(self) -> dict[Var, ShapedArray]:
        """The types of values, with the splits that were found."""
        shardings = self.in_shardings or (None,) * len(self.closed.in_avals)
        mesh = chosen_mesh(self.named, shardings) or self.around
        if mesh is None:
            return {}
        propagation = Propagation(mesh, tells=False)
        propagated(propagation, self.closed, [s and (s.named or s) for s in shardings])
        return {
            v: propagation.typed(v.aval, split)
            for v, split in propagation.splits.items()
        }


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
    if sharding is not None and sharding.memory_kind != wanted.memory_kind:
        raise ValueError(
            "Memory kinds passed to jax.jit does not match memory kind on the"
            f" respective arg. Got jit memory kind: {wanted.memory_kind}, arg memory"
            f" kind: {sharding.memory_kind} for arg type: {aval.str_short()}"
        )
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


def program_shardings(
    closed: ClosedJaxpr, shardings: Shardings, around: Mesh | None = None
) -> Shardings:
    """Where the results of a jaxpr are, given where its arguments are.

    They are over the mesh `around` where nothing says otherwise, in the memory that
    their types say.
    """
    inferred = _program_shardings(closed, tuple(shardings), around, scope())
    if all(s is None for s in inferred) and _on_devices(closed):
        return inferred
    pairs = zip(inferred, closed.out_avals, strict=True)
    return [in_memory(s or default_sharding(), aval) for s, aval in pairs]


def _on_devices(closed: ClosedJaxpr) -> bool:
    """Whether all results are in the memory of devices."""
    return all(a.memory_space is MemorySpace.Device for a in closed.out_avals)


@kept_with_jaxpr
def _program_shardings(
    closed: ClosedJaxpr,
    shardings: tuple[Sharding | None, ...],
    around: Mesh | None,
    _scope: Any,
) -> Shardings:
    given = dict(zip(closed.jaxpr.invars, shardings, strict=True))
    shardings = tuple(s and (s.named or s) for s in shardings)
    mesh = program_mesh(named_mesh(closed.jaxpr), shardings, around)
    outs = closed.out_avals
    if mesh is None:
        named = [on_device(*n.devices) for n in named_devices(closed.jaxpr)]
        placed = [*(s for s in shardings if s is not None), *named]
        last = _last_placing(closed.jaxpr)
        if _inspects(closed.jaxpr):
            _show_all(closed.jaxpr, placed[0] if placed else default_sharding())
        return [(last or (placed[0] if placed else None))] * len(outs)
    propagation = Propagation(mesh)
    split = propagated(propagation, closed, shardings)
    result = propagation.shardings(split, outs, _asked(closed.jaxpr))
    result = _spelt_as_given(result, outs, shardings, closed.in_avals)
    handed_on = [given.get(v) for v in closed.jaxpr.outvars]
    return [
        s if s is not None and _is_over(s, mesh) else f
        for s, f in zip(handed_on, result, strict=True)
    ]


def _is_over(sharding: Sharding, mesh: Mesh) -> bool:
    """Whether a sharding is as it is told: over a mesh that types say nothing of."""
    named = sharding.named
    if named is None or sharding.devices != mesh.flat_devices:
        return False
    return named.mesh is not mesh or not mesh.explicit_axes


def _asked(jaxpr: Jaxpr) -> list[Sharding | None]:
    """The shardings that the program itself asks for, of its results."""
    made = {v: e.op for e in jaxpr.eqns for v in e.outvars if isinstance(e.op, Placing)}
    return [getattr(made.get(v), "target", None) for v in jaxpr.outvars]


def program_mesh(
    named: NamedMesh | None, shardings: Shardings, around: Mesh | None
) -> Mesh | None:
    """The mesh of a program: its own, that of its arguments, or the one `around`."""
    mesh = chosen_mesh(named, [s and (s.named or s) for s in shardings])
    return around if mesh is None and not any(shardings) else mesh


def propagated(
    propagation: Propagation, closed: ClosedJaxpr, shardings: Shardings
) -> list[Entries]:
    """The splits of the outputs, propagated through the whole program."""
    placed = list(zip(closed.jaxpr.invars, shardings, strict=True))
    split = [propagation.entries(s, v.aval.ndim) for v, s in placed]
    free = [v for v, s in placed if s is None]
    return propagation.jaxpr(closed.jaxpr, split, free=free)


def _spelt_as_given(
    chosen: Shardings,
    outs: Sequence[ShapedArray],
    given: Shardings,
    avals: Sequence[ShapedArray],
) -> Shardings:
    """The shardings of results, as the user wrote that of the first placed argument.

    P('x', None) and P('x') split an array of two dims alike.
    """
    pairs = ((s, a.ndim) for s, a in zip(given, avals, strict=True))
    over_mesh = ((s, n) for s, n in pairs if isinstance(s, NamedSharding))
    first, rank = next(over_mesh, (None, -1))
    if first is None or first.mesh.explicit_axes:
        return chosen
    plain = over_axes(first.mesh, normalised(without_single(first.spec, first.mesh)))
    return [
        first if s == plain and out.ndim == rank else s
        for s, out in zip(chosen, outs, strict=True)
    ]


def _last_placing(jaxpr: Jaxpr) -> Sharding | None:
    """The device to which a program moves values, if it does."""
    for eqn in reversed(jaxpr.eqns_of(lambda kind: issubclass(kind, DevicePut))):
        op: Any = eqn.op
        if op.sharding is not None:
            to: Sharding = op.sharding
            return to
    return None


def _show_all(jaxpr: Jaxpr, sharding: Sharding) -> None:
    """Call `inspect_array_sharding` callbacks with the single device of all values."""
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, InspectSharding):
            eqn.op.callback(sharding)
        for inner in jaxprs_of(eqn.op):
            _show_all(inner, sharding)


def _inspects(jaxpr: Jaxpr) -> bool:
    return INSPECTS in jaxpr.effects
