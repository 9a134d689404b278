"""A program that computes values again rather than hold more bytes than it may.

The program is run in thought, in its order, with so many bytes for its temporaries.
Where they do not suffice, a value is dropped, and computed again before what reads it
next: from what is held then, or from what is computed again before it. Which one is
dropped follows Kirisame et al., "Dynamic Tensor Rematerialization" (2021): the one that
costs least for each byte and each step for which it is not needed, where the cost takes
in those beside it that are dropped already. Theirs is for programs that unfold as they
run; this one is known, so the steps are those until the next use, not since the last.

Recomputed values are behind a barrier, as in the backward pass of `checkpoint`
(recomputation.py), so they are computed when they are needed.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Sequence

from curta._base.lazy_dataclass import dataclass
from curta.compiler.rewrite.values import Values, decide, op_cost, var_bytes
from curta.compiler.targets import Tuning
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.primitives.barrier import RecomputationBarrier

MOST_AGAIN = 2.0
"""How many times a program's cost may be computed again, at most."""

_BESIDE = 8  # maximum readers of a value that are searched for dropped results


def rematerialised(jaxpr: Jaxpr, budget: int, tuning: Tuning) -> Jaxpr | None:
    """The program rematerialized to a number of bytes of temporaries, by estimate.

    None if they do not suffice, or only with values computed again and again.
    """
    return _Execution(jaxpr, budget, tuning).run()


@dataclass(eq=False)
class _Unit:
    """An eqn whose results lie in memory, with the virtual ones that it reads.

    `needs` are the values in memory that it is computed from, arguments included.
    """

    at: int
    eqn: Eqn
    needs: tuple[Var, ...]
    cost: float


class _Program:
    """The units of a jaxpr in their order."""

    def __init__(self, jaxpr: Jaxpr, tuning: Tuning) -> None:
        self.jaxpr = jaxpr
        values = decide(jaxpr, tuning)
        self.definitions = values.definitions
        self.given: set[Atom] = {*jaxpr.invars, *jaxpr.constvars}
        self.units: list[_Unit] = []
        self.unit_of: dict[Var, _Unit] = {}
        self.sources: dict[Atom, tuple[Var, ...]] = {}  # of virtual values
        costs: dict[Atom, float] = {}
        for eqn in jaxpr.eqns:
            sources = itertools.chain(*map(self.sources_of, eqn.invars))
            needs = tuple(dict.fromkeys(sources))
            cost = _cost(eqn) + sum(costs.get(v, 0.0) for v in set(eqn.invars))
            if _is_virtual(eqn, values):
                self.sources.update((v, needs) for v in eqn.outvars)
                costs.update((v, cost) for v in eqn.outvars)
                continue
            unit = _Unit(len(self.units), eqn, needs, cost)
            self.units.append(unit)
            self.unit_of.update((v, unit) for v in eqn.outvars)
        # Results have memory of their own.
        self.held: set[Atom] = {*self.given}
        self.held.update(*map(self.sources_of, jaxpr.outvars))

    def sources_of(self, atom: Atom) -> tuple[Var, ...]:
        """The values in memory of which the elements of a value are computed."""
        if isinstance(atom, Literal):
            return ()
        return self.sources.get(atom, (atom,))


def _is_virtual(eqn: Eqn, values: Values) -> bool:
    """Whether an eqn takes no memory, being computed where it is read, or a name."""
    if eqn.effects:
        return False
    stored = [v for v in eqn.outvars if v in values.materialised]
    return not stored or (eqn.op.renames_memory and not eqn.op.is_barrier)


def _cost(eqn: Eqn) -> float:
    """Roughly how many simple operations an eqn takes; infinite if it runs once."""
    op = eqn.op
    if eqn.effects or op.runs_python or op.meets_hosts:
        return math.inf
    size = max((v.aval.size for v in eqn.outvars), default=0)
    if op.regions:
        inner = max(sum(map(_cost, part.eqns)) for part in op.regions)
        loop = op.loop
        return inner * (1 if loop is None else loop.iterations or math.inf)
    terms = op.terms(*[v.aval for v in eqn.invars])
    if terms:
        return float(size * terms)
    return float(op_cost(op) * max([size, *(v.aval.size for v in eqn.invars)]))


class _Execution:
    """A run of the program in thought: what is held, what was dropped, new eqns."""

    def __init__(self, jaxpr: Jaxpr, budget: int, tuning: Tuning) -> None:
        self.program = _Program(jaxpr, tuning)
        self.budget = budget
        self.live = 0
        self.most = 0  # maximum of `live` over the steps so far
        self.eqns: list[Eqn] = []
        self.names: dict[Atom, Atom] = {v: v for v in self.program.given}  # live
        self.virtual: dict[Atom, tuple[Atom, tuple[Atom, ...]]] = {}
        self.heap: list[tuple[float, int, Var]] = []
        self.pushed = 0
        self.locked: Counter[Atom] = Counter()
        # Cost to recompute a dropped value, and its dropped operands.
        self.lost: dict[Atom, float] = {}
        self.readers: dict[Var, list[_Unit]] = {}
        self.uses: dict[Var, list[int]] = {}  # steps, last first
        for at, unit in enumerate(self.program.units):
            for v in unit.needs:
                self.uses.setdefault(v, []).append(at)
                self.readers.setdefault(v, []).append(unit)
        for steps in self.uses.values():
            steps.reverse()
        self.now = 0
        costs = (u.cost for u in self.program.units)
        self.left = MOST_AGAIN * sum(c for c in costs if c < math.inf)

    def run(self) -> Jaxpr | None:
        """The program as it was run."""
        for unit in self.program.units:
            self.now = unit.at
            again = self._lost_ancestors(unit)
            self.left -= sum(u.cost for u in again)
            if self.left < 0:
                return None
            for v in unit.needs:
                self.uses[v].pop()
            self._burst(again, unit)
            if self.most > self.budget:
                return None
        outvars = tuple(map(self._name, self.program.jaxpr.outvars))
        return self.program.jaxpr.replace(eqns=tuple(self.eqns), outvars=outvars)

    def _lost_ancestors(self, unit: _Unit) -> list[_Unit]:
        """The units to compute again before another, in the order of the program."""
        wanted: dict[_Unit, None] = {}
        stack = [unit]
        while stack:
            for v in stack.pop().needs:
                if v not in self.names:
                    made = self.program.unit_of[v]
                    if made not in wanted:
                        wanted[made] = None
                        stack.append(made)
        return sorted(wanted, key=lambda u: u.at)

    def _burst(self, again: Sequence[_Unit], unit: _Unit) -> None:
        """Schedule a unit after a barrier and the recomputation of its operands."""
        for u in (*again, unit):
            self.locked.update(u.needs)
        made = {v for u in again for v in u.eqn.outvars}
        held = dict.fromkeys(v for u in again for v in u.needs if v not in made)
        before = {v: self.names[v] for v in held}
        if before:
            passing = tuple(dict.fromkeys(before.values()))
            outs = {v: Var(v.aval) for v in passing}
            barrier = Eqn(RecomputationBarrier(), passing, tuple(outs.values()))
            self.eqns.append(barrier)
            self.names.update((v, outs[x]) for v, x in before.items())
        for u in again:
            self._compute(u)
        self.names.update((v, x) for v, x in before.items() if v in self.names)
        self._compute(unit)

    def _compute(self, unit: _Unit) -> None:
        """Run one unit, and let go of what nothing needs any more."""
        results = [v for v in unit.eqn.outvars if v not in self.names]
        self._make_room(sum(map(self._bytes, results)))
        eqn = unit.eqn
        outs = tuple(Var(v.aval) for v in eqn.outvars)
        invars = tuple(map(self._name, eqn.invars))
        self.eqns.append(eqn.replace(invars=invars, outvars=outs))
        new = dict(zip(eqn.outvars, outs, strict=True))
        for v in results:
            self.names[v] = new[v]
            self.live += self._bytes(v)
            self.lost.pop(v, None)
        self.most = max(self.most, self.live)
        self.locked.subtract(unit.needs)
        for v in (*unit.needs, *results):
            if self.locked[v] <= 0 and v in self.names:
                self._settle(v)

    def _settle(self, var: Var) -> None:
        """Let a value go that has no use left; any other one may be dropped."""
        if var in self.program.held:
            return
        once = self.program.unit_of[var].cost == math.inf
        if self.uses.get(var):
            if not once:
                self._push(var)
        elif not once:
            self._drop(var)
        else:  # what is computed of it may be wanted again
            self.live -= self._bytes(var)
            self.program.held.add(var)

    # ---------------------------------------------------------------- dropping

    def _make_room(self, nbytes: int) -> None:
        busy: list[Var] = []
        while self.heap and self.live + nbytes > self.budget:
            score, _, var = heapq.heappop(self.heap)
            if var not in self.names or not self.uses[var]:
                continue
            if self.locked[var] > 0:
                busy.append(var)
                continue
            # Scores grow as time goes by, and as what is beside a value is dropped.
            if self._score(var) > 1.1 * score and self.heap:
                self._push(var)
            else:
                self._drop(var)
        for var in busy:
            self._push(var)

    def _push(self, var: Var) -> None:
        self.pushed += 1
        heapq.heappush(self.heap, (self._score(var), self.pushed, var))

    def _score(self, var: Var) -> float:
        """The cost of a byte that is not held for a step."""
        unit = self.program.unit_of[var]
        beside = (self.lost.get(v, 0.0) for v in unit.needs)
        readers = self.readers[var][:_BESIDE]
        after = (self.lost.get(v, 0.0) for u in readers for v in u.eqn.outvars)
        cost = unit.cost + sum(beside) + sum(after)
        steps = max(1, self.uses[var][-1] - self.now)
        return cost / (max(1, self._bytes(var)) * steps)

    def _drop(self, var: Var) -> None:
        self.live -= self._bytes(var)
        del self.names[var]
        unit = self.program.unit_of[var]
        self.lost[var] = unit.cost + sum(self.lost.get(v, 0.0) for v in unit.needs)

    def _bytes(self, var: Var) -> int:
        return 0 if var in self.program.held else var_bytes(var)

    # ------------------------------------------------------------------- names

    def _name(self, atom: Atom) -> Atom:
        """What a value is called now; a virtual one is written again if need be."""
        if isinstance(atom, Literal) or atom not in self.program.sources:
            return atom if isinstance(atom, Literal) else self.names[atom]
        current = tuple(self.names[v] for v in self.program.sources[atom])
        known = self.virtual.get(atom)
        if known is not None and known[1] == current:
            return known[0]
        eqn = self.program.definitions[atom]
        outs = tuple(Var(v.aval) for v in eqn.outvars)
        invars = tuple(map(self._name, eqn.invars))
        self.eqns.append(eqn.replace(invars=invars, outvars=outs))
        pairs = zip(eqn.outvars, outs, strict=True)
        self.virtual.update((v, (out, current)) for v, out in pairs)
        return self.virtual[atom][0]
