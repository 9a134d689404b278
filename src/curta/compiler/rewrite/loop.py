"""A loop with its parts named, as the passes over loops rewrite it.

Its body reads what lies outside under the names that this has there: there are no
constants to hand in, so that to move an eqn into a loop or out of it is to move it.
Values read from outside are found when the eqn is rebuilt.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import cast

from curta._base.lazy_dataclass import dataclass
from curta.compiler.rewrite.inline import called
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from curta.transforms.dce import read_atoms

Names = Mapping[Var, Atom]
"""What variables are called elsewhere."""


@dataclass(eq=False)
class Carried:
    """A part of the carry: inside, at first, after an iteration, and as a result."""

    inner: Var
    start: Atom
    end: Atom
    result: Var


@dataclass(eq=False)
class Loop:
    """The parts of a `scan` or `while` eqn.

    `rows` pair variables of the body with the array of all, `stacked` what the body
    gives with the array of all of them. A while loop goes on if the result of its
    `test` is true, which reads the carry as the body does. `before` and `after` are
    eqns around the loop.
    """

    source: Eqn
    carry: list[Carried]
    rows: list[tuple[Var, Atom]]
    stacked: list[tuple[Atom, Var]]
    eqns: list[Eqn]
    test: Jaxpr | None = None
    before: list[Eqn] = field(default_factory=list)
    after: list[Eqn] = field(default_factory=list)

    @classmethod
    def of(cls, eqn: Eqn, regions: Sequence[ClosedJaxpr] = ()) -> Loop | None:
        """The parts of a loop; None for any other eqn.

        `regions` take the place of those of its op. Their constants are read under the
        names that they have there.
        """
        view = eqn.op.loop
        if view is None:
            return None
        *others, body = (r.jaxpr for r in regions or eqn.op.regions)
        n, first = view.carry, view.start - view.consts
        given = [*zip(body.invars, eqn.invars[first:], strict=True)]
        pairs = zip(given[view.consts :], body.outvars[:n], eqn.outvars, strict=False)
        carry = [Carried(*start, end, result) for start, end, result in pairs]
        rows = given[view.consts + n :]
        stacked = list(zip(body.outvars[n:], eqn.outvars[n:], strict=True))
        loop = cls(eqn, carry, rows, stacked, list(body.eqns))
        loop.rename(dict(given[: view.consts]))
        for test in others:
            names = (*eqn.invars[:first], *(c.inner for c in carry))
            loop.test = with_names(test, dict(zip(test.invars, names, strict=True)))
        return loop

    @property
    def length(self) -> int | None:
        """The number of iterations, if it is known."""
        loop = self.source.op.loop
        return loop.iterations if loop else None

    @property
    def bound(self) -> set[Atom]:
        """The variables that differ from iteration to iteration, or may."""
        inner: set[Atom] = {c.inner for c in self.carry}
        inner.update(v for v, _ in self.rows)
        return inner.union(*(e.outvars for e in self.eqns))

    def all_rows(self, aval: ShapedArray) -> ShapedArray:
        """The aval of the array of what every iteration has."""
        assert self.length is not None
        return aval.update(shape=(self.length, *aval.shape))

    def all_eqns(self) -> list[Eqn]:
        """The loop's eqn with the eqns before and after it."""
        return [*self.before, self.to_eqn(), *self.after]

    def outs(self) -> list[Atom]:
        """The results of the body."""
        return [*(c.end for c in self.carry), *(atom for atom, _ in self.stacked)]

    def rewrite(self, change: Callable[[Jaxpr], Jaxpr]) -> None:
        """Put another body instead of the loop's."""
        body = change(Jaxpr((), (), self.outs(), self.eqns))
        self.eqns = list(body.eqns)
        for part, end in zip(self.carry, body.outvars, strict=False):
            part.end = end
        stacked = zip(body.outvars[len(self.carry) :], self.stacked, strict=True)
        self.stacked = [(atom, result) for atom, (_, result) in stacked]

    def rename(self, names: Names) -> None:
        """Read other variables instead of some."""
        if any(v is not x for v, x in names.items()):
            self.rewrite(lambda body: with_names(body, names))
            self.test = self.test and with_names(self.test, names)

    def hand_on(self) -> dict[Var, Atom]:
        """The results that equal an operand of the loop, or another result."""
        return self._fix_unchanged() | self._merge_carries() | self._merge_rows()

    def _fix_unchanged(self) -> dict[Var, Atom]:
        """Carry nothing that the body hands on; what such results are instead."""
        fixed = [c for c in self.carry if c.end is c.inner]
        self.carry = [c for c in self.carry if c.end is not c.inner]
        self.rename({c.inner: c.start for c in fixed})
        return {c.result: c.start for c in fixed}

    def _merge_carries(self) -> dict[Var, Atom]:
        """Carry once what begins and goes on alike."""
        known: dict[tuple[Atom, Atom], Carried] = {}
        pairs = [(c, known.setdefault((c.start, c.end), c)) for c in self.carry]
        self.carry = list(known.values())
        self.rename({c.inner: first.inner for c, first in pairs})
        return {c.result: first.result for c, first in pairs if c is not first}

    def _merge_rows(self) -> dict[Var, Atom]:
        """Read and stack the same once."""
        rows: dict[Atom, Var] = {}
        names = {v: rows.setdefault(array, v) for v, array in self.rows}
        self.rows = [(v, array) for array, v in rows.items()]
        self.rename(names)
        stacked: dict[Atom, Var] = {}
        merged: dict[Var, Atom] = {}
        for atom, result in self.stacked:
            if stacked.setdefault(atom, result) is not result:
                merged[result] = stacked[atom]
        self.stacked = list(stacked.items())
        return merged

    def remove_unused(self, wanted: Iterable[Atom]) -> None:
        """Drop results that are not `wanted`, and all that only they need."""
        used = set(wanted)
        if self.test:
            tested = read_atoms(self.test)
            used.update(c.result for c in self.carry if c.inner in tested)
        roots = [c.end for c in self.carry if c.result in used]
        roots += [atom for atom, result in self.stacked if result in used]
        ends: dict[Atom, Atom] = {c.inner: c.end for c in self.carry}
        self.eqns, read = live_eqns(self.eqns, roots, ends)
        self.carry = [c for c in self.carry if c.result in used or c.inner in read]
        self.stacked = [s for s in self.stacked if s[1] in used]
        self.rows = [p for p in self.rows if p[0] in read]

    def to_eqn(self) -> Eqn:
        """The loop as one eqn again."""
        op = self.source.op
        carried = [c.inner for c in self.carry]
        results = [*(c.result for c in self.carry), *(r for _, r in self.stacked)]
        rows = [v for v, _ in self.rows]
        consts = captured(self.eqns, self.outs(), (*carried, *rows))
        body = Jaxpr((), [*consts, *carried, *rows], self.outs(), self.eqns)
        args = [*consts, *(c.start for c in self.carry), *(x for _, x in self.rows)]
        if self.test is None:
            scan = cast(Scan, op)
            op = scan.with_body(ClosedJaxpr(body), len(consts), len(carried))
        else:
            tested = captured(self.test.eqns, self.test.outvars, carried)
            test = self.test.replace(constvars=(), invars=[*tested, *carried])
            op = dataclasses.replace(
                cast(While, op), cond_jaxpr=ClosedJaxpr(test),
                body_jaxpr=ClosedJaxpr(body), cond_nconsts=len(tested),
                body_nconsts=len(consts),
            )  # fmt: skip
            args = [*tested, *args]
        return self.source.replace(op=op, invars=tuple(args), outvars=tuple(results))


def captured(
    eqns: Iterable[Eqn], outs: Iterable[Atom], bound: Iterable[Atom]
) -> list[Var]:
    """The free variables of eqns and results, without `bound`."""
    known = set(bound).union(*(e.outvars for e in eqns))
    read = itertools.chain(*(e.invars for e in eqns), outs)
    return [v for v in dict.fromkeys(read) if isinstance(v, Var) and v not in known]


def renamed(eqn: Eqn, names: Names) -> Eqn:
    """The eqn with its operands under other names."""
    invars = tuple(called(v, names) for v in eqn.invars)
    return eqn if invars == eqn.invars else eqn.replace(invars=invars)


def with_names(jaxpr: Jaxpr, names: Names) -> Jaxpr:
    """The jaxpr that reads variables under other names."""
    names = {v: x for v, x in names.items() if v is not x}
    return (
        jaxpr
        if not names
        else jaxpr.replace(
            eqns=[renamed(e, names) for e in jaxpr.eqns],
            outvars=[called(v, names) for v in jaxpr.outvars],
        )
    )


def copied(eqns: Iterable[Eqn], names: dict[Var, Atom]) -> list[Eqn]:
    """The eqns with fresh variables; `names` has those of their operands, and gets
    those of their results."""
    done = []
    for eqn in eqns:
        fresh = tuple(Var(v.aval) for v in eqn.outvars)
        done.append(renamed(eqn, names).replace(outvars=fresh))
        names.update(zip(eqn.outvars, fresh, strict=True))
    return done


def live_eqns(
    eqns: Sequence[Eqn], roots: Iterable[Atom], ends: Mapping[Atom, Atom] = {}
) -> tuple[list[Eqn], set[Atom]]:
    """The eqns that the roots or effects need, and all that is read.

    A value read from `ends`, the carry of a loop, needs its computation in an
    iteration.
    """
    producers = {v: e for e in eqns for v in e.outvars}
    kept = {e for e in eqns if e.effects}
    read: set[Atom] = set()
    waiting = [*roots, *(v for e in kept for v in e.invars)]
    while waiting:
        atom = waiting.pop()
        if not isinstance(atom, Var) or atom in read:
            continue
        read.add(atom)
        producer = producers.get(atom)
        if atom in ends:
            waiting.append(ends[atom])
        elif producer is not None and producer not in kept:
            kept.add(producer)
            waiting += producer.invars
    return [e for e in eqns if e in kept], read
