"""Which values of a jaxpr get a buffer, and which are computed where they are used.

An op with a `lower` rule makes a *virtual* value: an expression inside its consumers.
It is materialized nevertheless if recomputing it would cost more than memory: when
several consumers use something expensive, when it is spread over a larger value, when
it grows too large; and of course when the program returns it, or its consumer needs
memory. Materialized values still share loops (fuse.py), and most of them then stay in
registers, so extra buffers here do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.folds import is_fold
from curta.compiler.loops.index_set_splitting import read_by_maps
from curta.compiler.targets import Tuning
from curta.core.dim import typical
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.core.op import Op
from curta.dtypes import physical_dtype
from curta.primitives.factors import factors
from curta.primitives.indexing.gather import Gather, Scattering
from curta.primitives.joining import Concatenate
from curta.primitives.structure import BroadcastInDim

_JOINED = "joined from large parts"
_FREE = ("broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "rev", "iota",
         "expand_dims", "copy", "tile")  # fmt: skip
_CHEAP = frozenset(
    "abs add add_any and bitcast_convert_type ceil clamp complex concatenate conj"
    " convert_element_type dynamic_slice eq floor gather ge gt imag is_finite le lt"
    " max min mul ne neg not or pad real reduce_precision select_n shift_left"
    " shift_right_arithmetic shift_right_logical sign square stack stop_gradient sub"
    " xor".split()
)
_OF_INDICES = frozenset(
    "add and clamp concatenate convert_element_type div eq ge gt le lt max min mul ne"
    " neg not or rem select_n sign sub".split()
)
_COSTS = {"threefry2x32": 120, "div": 4, "integer_pow": 4, "sqrt": 6, "rem": 8}


@dataclass(frozen=True)
class Values:
    """The materialized variables of a jaxpr that eqns define, in order."""

    materialised: dict[Var, str]
    definitions: dict[Var, Eqn]
    uses: dict[Var, list[Eqn]]
    returned: frozenset[Var]


def is_virtual(op: Op) -> bool:
    """Whether the op's elements can be computed one by one."""
    return op.has_rule("lower") and not op.effects


def decide(jaxpr: Jaxpr, tuning: Tuning, host: frozenset[Eqn] = frozenset()) -> Values:
    """The variables to materialize, with the reason for each.

    `host` are eqns that must run by their `eval` rule.
    """
    definitions = {v: e for e in jaxpr.eqns for v in e.outvars}
    uses, cut = _uses(jaxpr), frozenset[Var]()
    if any(is_joined(e, tuning) for e in jaxpr.eqns):
        cut = read_by_maps(jaxpr, host)
    returned = frozenset(v for v in jaxpr.outvars if isinstance(v, Var))
    materialised: dict[Var, str] = {}
    cost: dict[Var, int] = {}
    depth: dict[Var, int] = {}
    held = _Held(jaxpr, uses)
    indices: set[Atom] = set()
    for eqn in jaxpr.eqns:
        own = op_cost(eqn.op)
        if is_index(eqn, indices):
            indices.update(eqn.outvars)
            own = 0
        inlined = {
            v for v in eqn.invars if isinstance(v, Var) and v not in materialised
        }
        total = own + sum(cost.get(v, 0) for v in inlined)
        level = 1 + max((depth.get(v, 0) for v in inlined), default=0)
        for var in eqn.outvars:
            reason = _reason(eqn, var, uses[var], total, returned, host, tuning)
            if reason == _JOINED and var in cut:
                reason = ""
            if not reason and level > tuning.expression_depth:
                reason = "deep inside other ops"
            if not reason and held.is_less(eqn, var, materialised):
                reason = "less to hold than what it is made of"
            if reason:
                materialised[var] = reason
            cost[var] = 0 if reason else total
            depth[var] = 0 if reason else level
    return Values(materialised, definitions, uses, returned)


def parts_of_indices(eqns: Sequence[Eqn]) -> frozenset[Atom]:
    """The variables that indices of gathers and scatters depend on."""
    result = set[Atom]()
    for eqn in reversed(eqns):
        if isinstance(eqn.op, (Gather, Scattering)):
            result.add(eqn.invars[1])
        elif not result.isdisjoint(eqn.outvars):
            result.update(v for v in eqn.invars if isinstance(v, Var))
    return frozenset(result)


def is_index(eqn: Eqn, indices: Collection[Atom]) -> bool:
    """Whether it computes integers from literals and iotas, which reads no memory.

    Most are affine sums (loops/known_indices.py), parts of the addresses of loads.
    """
    moves = op_cost(eqn.op) == 0 and is_virtual(eqn.op)
    if not moves and eqn.op.name not in _OF_INDICES:
        return False
    if any(physical_dtype(v.aval.dtype).kind not in "iub" for v in eqn.outvars):
        return False
    return all(isinstance(v, Literal) or v in indices for v in eqn.invars)


def _reason(
    eqn: Eqn,
    var: Var,
    consumers: list[Eqn],
    cost: int,
    returned: frozenset[Var],
    host: frozenset[Eqn],
    tuning: Tuning,
) -> str:
    if eqn in host or not is_virtual(eqn.op):
        return f"{eqn.op.name} needs memory"
    if var in returned:
        return "returned"
    if is_joined(eqn, tuning):
        return _JOINED
    if any(c in host or not _reads_elements(c.op) for c in consumers):
        return "used by an op that needs memory"
    if eqn.op.renames_memory and any(_updates(c, var) for c in consumers):
        return "a view to update"
    if len(consumers) > 1 and cost > tuning.shared_cost:
        return f"costs {cost} and is used {len(consumers)} times"
    if cost > tuning.expression_cost:
        return "a large expression"
    if cost > tuning.spread_cost and any(_spreads(c, var, tuning) for c in consumers):
        return f"costs {cost} and is repeated by its consumer"
    return ""


class _Held:
    """What is held in memory between barriers, and for what.

    A virtual value is computed where it is read. If that is behind a barrier, all that
    it is made of is held until then.
    """

    def __init__(self, jaxpr: Jaxpr, uses: dict[Var, list[Eqn]]) -> None:
        self.uses = uses
        self.given: set[Atom] = {*jaxpr.invars, *jaxpr.constvars}
        self.part: dict[Eqn, int] = {}  # the number of barriers before an eqn
        self.sources: dict[
            Atom, frozenset[Var]
        ] = {}  # of virtual values, but for given
        count = 0
        for eqn in jaxpr.eqns:
            self.part[eqn] = count
            if eqn.op.is_barrier:
                count += 1
                pairs = zip(eqn.invars, eqn.outvars, strict=True)
                self.given.update(out for v, out in pairs if v in self.given)
        self.has_barriers = count > 0

    def is_less(self, eqn: Eqn, var: Var, materialised: Collection[Var]) -> bool:
        """Whether a value that would be virtual is held with fewer bytes itself."""
        if not self.has_barriers:
            return False
        inlined = (self._held(v, materialised) for v in eqn.invars)
        sources = self.sources[var] = frozenset[Var]().union(*inlined)
        later = any(self.part[c] > self.part[eqn] for c in self.uses[var])
        return later and sum(map(var_bytes, sources)) > var_bytes(var)

    def _held(self, atom: Atom, materialised: Collection[Var]) -> frozenset[Var]:
        if not isinstance(atom, Var) or atom in self.given:
            return frozenset()
        if atom in materialised:
            return frozenset((atom,))
        return self.sources.get(atom, frozenset())


def var_bytes(var: Atom) -> int:
    """The bytes of a value, if it is held in memory."""
    return typical(var.aval.size) * physical_dtype(var.aval.dtype).itemsize


def _updates(consumer: Eqn, var: Var) -> bool:
    return consumer.op.updates_first and consumer.invars[0] is var


def is_joined(eqn: Eqn, tuning: Tuning) -> bool:
    """Whether a large value is made of parts, each better copied by itself.

    A few columns are not: their elements lie apart.
    """
    if (
        not isinstance(eqn.op, Concatenate)
        or typical(eqn.outvars[0].aval.size) < tuning.large_join
    ):
        return False
    first = eqn.op.dimension
    columns = all(math.prod(v.aval.shape[first:]) == 1 for v in eqn.invars)
    return not columns or len(eqn.invars) > tuning.joined_columns


def _spreads(consumer: Eqn, var: Var, tuning: Tuning) -> bool:
    """Whether the consumer reads elements of `var` more than once, or not in order.

    What only moves elements is not asked but for broadcasts: its own consumers are.
    """
    op = consumer.op
    if is_fold(op) or is_joined(consumer, tuning) or var.aval.size < 2:
        return False
    if op_cost(op) == 0 and not isinstance(op, BroadcastInDim):
        return False
    avals, outs = (
        [v.aval for v in atoms] for atoms in (consumer.invars, consumer.outvars)
    )
    rel = factors(op, avals, outs)
    made = {f for dims in rel.results for dim in dims for f in dim if rel.sizes[f] > 1}
    for atom, dims in zip(consumer.invars, rel.operands, strict=True):
        own = {f for dim in dims for f in dim if rel.sizes[f] > 1}
        if atom is var and not (made <= own and own.isdisjoint(rel.whole)):
            return True
    return False


def _reads_elements(op: Op) -> bool:
    return is_virtual(op) or op.reads_elements


def op_cost(op: Op) -> int:
    """Roughly how many simple operations one element takes; none if it only moves.

    Factors do not show this: the factors of `neg` are those of `copy`.
    """
    if op.name in _FREE:
        return 0
    return _COSTS.get(op.name, 1 if op.name in _CHEAP else 12)


def _uses(jaxpr: Jaxpr) -> dict[Var, list[Eqn]]:
    uses: dict[Var, list[Eqn]] = {v: [] for e in jaxpr.eqns for v in e.outvars}
    for eqn in jaxpr.eqns:
        for var in _distinct(eqn.invars):
            uses.setdefault(var, []).append(eqn)
    return uses


def _distinct(atoms: Iterable[object]) -> Iterable[Var]:
    return dict.fromkeys(a for a in atoms if isinstance(a, Var))
