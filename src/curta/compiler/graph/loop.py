"""A loop with its parts named, as the passes over loops rewrite it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import cast

from curta.compiler.graph.inline import called
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from curta.lazy_dataclass import dataclass

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
class Test:
    """The condition of a while loop, a jaxpr of its own constants and the carry."""

    consts: list[tuple[Var, Atom]]
    carry: list[Var]
    jaxpr: Jaxpr


@dataclass(eq=False)
class Loop:
    """A `scan` or `while` eqn taken apart.

    `consts` and `rows` pair variables of the body with what they are outside (rows with
    the array of all), `stacked` what the body gives with the array of all of them.
    `before` and `after` are eqns around the loop. The body has no consts of its own.
    """

    source: Eqn
    consts: list[tuple[Var, Atom]]
    carry: list[Carried]
    rows: list[tuple[Var, Atom]]
    stacked: list[tuple[Atom, Var]]
    eqns: list[Eqn]
    test: Test | None = None
    before: list[Eqn] = field(default_factory=list)
    after: list[Eqn] = field(default_factory=list)

    @classmethod
    def of(cls, eqn: Eqn) -> Loop | None:
        """The parts of a loop; None for any other eqn, and for bodies with consts."""
        view, test = eqn.op.loop, None
        if view is None:
            return None
        body, args = view.body.jaxpr, eqn.invars
        first, second = view.start, view.start + view.carry
        consts, start, xs = (
            args[first - view.consts : first],
            args[first:second],
            args[second:],
        )
        if view.iterations is None:
            jaxpr, count = eqn.op.regions[0].jaxpr, first - view.consts
            pairs = list(zip(jaxpr.invars, args[:count], strict=False))
            test = Test(pairs, list(jaxpr.invars[count:]), jaxpr)
        if body.constvars or (test and test.jaxpr.constvars):
            return None
        first, second = len(consts), len(consts) + len(start)
        carry = map(
            Carried, body.invars[first:second], start, body.outvars, eqn.outvars
        )
        n = len(start)
        return cls(
            eqn,
            list(zip(body.invars, consts, strict=False)),
            list(carry),
            list(zip(body.invars[second:], xs, strict=True)),
            list(zip(body.outvars[n:], eqn.outvars[n:], strict=True)),
            list(body.eqns),
            test,
        )

    @property
    def length(self) -> int | None:
        """The number of iterations, if it is known."""
        loop = self.source.op.loop
        return loop.iterations if loop else None

    def all_rows(self, aval: ShapedArray) -> ShapedArray:
        """The aval of the array of what every iteration has."""
        assert self.length is not None
        return aval.update(shape=(self.length, *aval.shape))

    def all_eqns(self) -> list[Eqn]:
        """The loop's eqn with the eqns before and after it."""
        return [*self.before, self.to_eqn(), *self.after]

    def outs(self) -> list[Atom]:
        """What the body returns."""
        return [*(c.end for c in self.carry), *(atom for atom, _ in self.stacked)]

    def add_const(self, outside: Atom) -> Var:
        """A new constant of the body."""
        inner = Var(outside.aval)
        self.consts.append((inner, outside))
        return inner

    def merge_operands(self) -> bool:
        """Give what is given twice once; whether there was such a constant."""
        known: dict[Var, Var] = {}
        names: dict[Var, Atom] = {}
        for inner, outside in self.consts:
            if not isinstance(outside, Var):
                continue
            if known.setdefault(outside, inner) is not inner:
                names[inner] = known[outside]
        self.consts = [p for p in self.consts if p[0] not in names]
        self.rename(names)
        return bool(names)

    def rewrite(self, change: Callable[[Jaxpr], Jaxpr]) -> None:
        """Put another body instead of the loop's."""
        body = change(Jaxpr((), (), self.outs(), self.eqns))
        self.eqns = list(body.eqns)
        for part, end in zip(self.carry, body.outvars, strict=False):
            part.end = end
        stacked = zip(body.outvars[len(self.carry) :], self.stacked, strict=True)
        self.stacked = [(atom, result) for atom, (_, result) in stacked]

    def hand_on(self) -> dict[Var, Atom]:
        """What results are that are what the loop was given, or another result."""
        return self.fix_unchanged() | self._merge_carries() | self._merge_rows()

    def fix_unchanged(self) -> dict[Var, Atom]:
        """Make constants of what the body hands on; what such results are instead."""
        fixed = {}
        for i in range(len(self.carry) - 1, -1, -1):
            part = self.carry[i]
            if part.end is not part.inner:
                continue
            self.consts.append((part.inner, part.start))
            if self.test:
                self.test.consts.append((self.test.carry.pop(i), part.start))
            del self.carry[i]
            fixed[part.result] = part.start
        return fixed

    def _merge_carries(self) -> dict[Var, Atom]:
        """Carry once what begins and goes on alike."""
        known: dict[tuple[Atom, Atom], int] = {}
        firsts = [
            known.setdefault((c.start, c.end), i) for i, c in enumerate(self.carry)
        ]
        merged = {i: first for i, first in enumerate(firsts) if first != i}
        if not merged:
            return {}
        carry = self.carry
        if self.test:
            test = self.test
            names = {test.carry[i]: test.carry[k] for i, k in merged.items()}
            test.jaxpr = with_names(test.jaxpr, names)
            test.carry = [v for i, v in enumerate(test.carry) if i not in merged]
        self.carry = [c for i, c in enumerate(carry) if i not in merged]
        self.rename({carry[i].inner: carry[k].inner for i, k in merged.items()})
        return {carry[i].result: carry[k].result for i, k in merged.items()}

    def _merge_rows(self) -> dict[Var, Atom]:
        """Read and stack the same once."""
        rows: dict[Atom, Var] = {}
        names = {
            v: rows[array]
            for v, array in self.rows
            if rows.setdefault(array, v) is not v
        }
        self.rows = [(v, array) for array, v in rows.items()]
        self.rename(names)
        stacked: dict[Atom, Var] = {}
        merged: dict[Var, Atom] = {}
        for atom, result in self.stacked:
            if stacked.setdefault(atom, result) is not result:
                merged[result] = stacked[atom]
        self.stacked = list(stacked.items())
        return merged

    def rename(self, names: Names) -> None:
        """Read other variables of the body instead of some."""
        if names:
            self.rewrite(lambda body: with_names(body, names))

    def remove_unused(self, wanted: Iterable[Atom]) -> None:
        """Drop results that are not `wanted`, and all that only they need."""
        used = set(wanted)
        needed = set[Atom]()
        if self.test:
            tested = _read(self.test.jaxpr)
            pairs = zip(self.test.carry, self.carry, strict=True)
            needed.update(c.inner for v, c in pairs if v in tested)
            self.test.consts = [p for p in self.test.consts if p[0] in tested]
        live = {c.inner for c in self.carry if c.result in used or c.inner in needed}
        roots = [c.end for c in self.carry if c.inner in live]
        roots += [atom for atom, result in self.stacked if result in used]
        ends: dict[Atom, Atom] = {c.inner: c.end for c in self.carry}
        kept, read = live_eqns(self.eqns, roots, ends)
        live.update(c.inner for c in self.carry if c.inner in read)
        self.eqns = kept
        if self.test:
            pairs = zip(self.test.carry, self.carry, strict=True)
            self.test.carry = [v for v, c in pairs if c.inner in live]
        self.carry = [c for c in self.carry if c.inner in live]
        self.stacked = [s for s in self.stacked if s[1] in used]
        self.consts = [p for p in self.consts if p[0] in read]
        self.rows = [p for p in self.rows if p[0] in read]

    def to_eqn(self) -> Eqn:
        """The loop as one eqn again."""
        op = self.source.op
        carried = [c.inner for c in self.carry]
        start = [c.start for c in self.carry]
        results = [*(c.result for c in self.carry), *(r for _, r in self.stacked)]
        inner, consts = _unzip(self.consts)
        row, xs = _unzip(self.rows)
        body = Jaxpr((), [*inner, *carried, *row], self.outs(), self.eqns)
        args = [*consts, *start, *xs]
        if self.test is None:
            scan = cast(Scan, op)
            op = scan.with_body(ClosedJaxpr(body), len(inner), len(carried))
        else:
            own, test_consts = _unzip(self.test.consts)
            test = self.test.jaxpr.replace(invars=[*own, *self.test.carry])
            op = dataclasses.replace(
                cast(While, op), cond_jaxpr=ClosedJaxpr(test),
                body_jaxpr=ClosedJaxpr(body), cond_nconsts=len(own),
                body_nconsts=len(inner),
            )  # fmt: skip
            args = [*test_consts, *args]
        return self.source.replace(op=op, invars=tuple(args), outvars=tuple(results))


def _unzip(pairs: Sequence[tuple[Var, Atom]]) -> tuple[list[Var], list[Atom]]:
    return [v for v, _ in pairs], [a for _, a in pairs]


def _read(jaxpr: Jaxpr) -> set[Atom]:
    return {v for e in jaxpr.eqns for v in e.invars} | set(jaxpr.outvars)


def renamed(eqn: Eqn, names: Names) -> Eqn:
    """The eqn with its operands under other names."""
    invars = tuple(called(v, names) for v in eqn.invars)
    return eqn if invars == eqn.invars else eqn.replace(invars=invars)


def with_names(jaxpr: Jaxpr, names: Names) -> Jaxpr:
    """The jaxpr that reads variables under other names."""
    return jaxpr.replace(
        eqns=[renamed(e, names) for e in jaxpr.eqns],
        outvars=[called(v, names) for v in jaxpr.outvars],
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

    What is read of `ends`, the carry of a loop, needs what an iteration makes of it.
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
