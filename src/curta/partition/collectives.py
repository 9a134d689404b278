"""Fewer and larger collectives: passes over the program of one host.

    common subexpressions  equal collectives are one
    sums of sums           psum(a) + psum(b) = psum(a + b)
    buckets                small folds and halos that do not need each other go together
    invariant code motion  collectives of what does not change come before the loop
    sums over iterations   what a loop adds up in its carry is folded after the loop

The last two are for the bodies of loops, which `rules` asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from curta.config import config
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from curta.primitives.elementwise import Add
from curta.primitives.host_collectives import (
    HostBucket,
    HostCollective,
    HostPermute,
    HostReduce,
)
from curta.primitives.shape import Squeeze
from curta.primitives.structure import AddAny, Reshape, Transpose
from curta.transforms.dce import dce_jaxpr

Names = dict[Var, Atom]


def with_fewer_collectives(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program where collectives that are equal, or are added up, are one."""
    jaxpr = closed.jaxpr
    if not any(isinstance(e.op, HostCollective) for e in jaxpr.eqns):
        return closed
    for change in (dce_jaxpr, _without_repeats, _behind_shapes, _sums_of_sums):
        jaxpr = change(jaxpr)
    return ClosedJaxpr(jaxpr, closed.consts)


def _renamed(atoms: Sequence[Atom], names: Names) -> tuple[Any, ...]:
    return tuple(v if type(v) is Literal else names.get(v, v) for v in atoms)  # type: ignore


def _without_repeats(jaxpr: Jaxpr) -> Jaxpr:
    """Collectives of the same operands are one."""
    names: Names = {}
    first: dict[Any, Eqn] = {}
    eqns = []
    for eqn in jaxpr.eqns:
        invars = _renamed(eqn.invars, names)
        if isinstance(eqn.op, HostCollective):
            key = eqn.op, invars
            if all(type(v) is Var for v in invars):
                known = first.setdefault(key, eqn)
                if known is not eqn:
                    names.update(zip(eqn.outvars, known.outvars, strict=True))
                    continue
        eqns.append(eqn.replace(invars=invars))
    return jaxpr.replace(eqns=eqns, outvars=_renamed(jaxpr.outvars, names))


def _uses(jaxpr: Jaxpr) -> Counter[Any]:
    result = Counter(v for e in jaxpr.eqns for v in e.invars if type(v) is Var)
    result.update(v for v in jaxpr.outvars if type(v) is Var)
    return result


def _is_sum(eqn: Eqn | None) -> bool:
    return eqn is not None and isinstance(eqn.op, HostReduce) and eqn.op.kind == "sum"


def _behind_shapes(jaxpr: Jaxpr) -> Jaxpr:
    """Folds go behind what gives the same elements in another shape."""
    uses = _uses(jaxpr)
    made: dict[Any, Eqn] = {}
    gone: set[Any] = set()
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, (Transpose, Reshape, Squeeze)):
            (x,), (out,) = eqn.invars, eqn.outvars
            fold = made.get(x)
            if fold is not None and uses[x] == 1:
                gone.add(x)
                term = Var(out.aval)
                eqns.append(eqn.replace(invars=fold.invars, outvars=(term,)))
                eqn = fold.replace(invars=(term,), outvars=(out,))
        if isinstance(eqn.op, HostReduce):
            made[eqn.outvars[0]] = eqn
        eqns.append(eqn)
    return jaxpr.replace(eqns=[e for e in eqns if not gone.intersection(e.outvars)])


def _sums_of_sums(jaxpr: Jaxpr) -> Jaxpr:
    """Of sums over hosts that are added up, with others between, the sum is taken."""
    uses = _uses(jaxpr)
    made = {v: e for e in jaxpr.eqns for v in e.outvars}
    inner = {v for e in jaxpr.eqns if _is_add(e) for v in e.invars if uses[v] == 1}
    eqns: list[Eqn] = []
    gone: set[Any] = set()
    for eqn in jaxpr.eqns:
        eqns.append(eqn)
        if not _is_add(eqn) or eqn.outvars[0] in inner:
            continue
        adds: list[Any] = []
        folds: dict[Any, list[Eqn]] = {}
        rest: list[Atom] = []
        for v in _leaves(eqn, made, uses, adds):
            fold = made.get(v) if uses[v] == 1 else None  # type: ignore[arg-type]
            if fold is not None and _is_sum(fold):
                folds.setdefault(fold.op, []).append(fold)
            else:
                rest.append(v)
        if any(len(group) > 1 for group in folds.values()):
            gone.update(adds, (e.outvars[0] for g in folds.values() for e in g))
            eqns[-1:] = _regrouped(eqn, rest, folds)
    return jaxpr.replace(eqns=[e for e in eqns if not gone.intersection(e.outvars)])


def _is_add(eqn: Eqn) -> bool:
    return isinstance(eqn.op, (Add, AddAny)) and len(eqn.invars) == 2


def _leaves(
    eqn: Eqn, made: dict[Any, Eqn], uses: Counter[Any], adds: list[Any]
) -> Iterator[Atom]:
    """The terms of a sum; the results of the `adds` within it are read by it alone."""
    left: list[Any] = [*reversed(eqn.invars)]
    while left:
        v = left.pop()
        term = made.get(v) if type(v) is Var and uses[v] == 1 else None
        if term is not None and _is_add(term):
            adds.append(v)
            left += reversed(term.invars)
        else:
            yield v


def _regrouped(
    eqn: Eqn, rest: list[Atom], folds: dict[Any, list[Eqn]]
) -> Iterator[Eqn]:
    """The sum of the rest and of one fold of each kind."""
    (out,) = eqn.outvars
    for op, group in folds.items():
        total: Atom = group[0].invars[0]
        for fold in group[1:]:
            var = Var(out.aval)
            yield eqn.replace(invars=(total, fold.invars[0]), outvars=(var,))
            total = var
        var = out if not rest and len(folds) == 1 else Var(out.aval)
        yield group[0].replace(op=op, invars=(total,), outvars=(var,))
        rest.append(var)
    total = rest[0]
    for i, term in enumerate(rest[1:], 2):
        var = out if i == len(rest) else Var(out.aval)
        yield eqn.replace(invars=(total, term), outvars=(var,))
        total = var


def in_buckets(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Small collectives over the same hosts are bucketed; their readers wait."""
    jaxpr = closed.jaxpr
    if sum(_waiting_bytes(e) is not None for e in jaxpr.eqns) < 2:
        return closed
    done: list[Eqn] = []
    left = list(jaxpr.eqns)
    while left:
        left = _one_round(left, done)
    return ClosedJaxpr(jaxpr.replace(eqns=done), closed.consts)


def _one_round(eqns: Sequence[Eqn], done: list[Eqn]) -> list[Eqn]:
    """Run eqns that need no message, then these collectives; gives the rest."""
    waiting: dict[Any, list[Eqn]] = {}
    awaited: set[Any] = set()
    later: list[Eqn] = []
    nbytes, effects = 0, False
    for i, eqn in enumerate(eqns):
        size = _waiting_bytes(eqn)
        if nbytes + (size or 0) > config.tuning.bucket_bytes:
            later += eqns[i:]
            break
        if len(later) >= config.tuning.bucket_eqns:
            later += eqns[i:]
            break
        waits = not awaited.isdisjoint(v for v in eqn.invars if type(v) is Var)
        if waits or (effects and eqn.effects):
            later.append(eqn)
            awaited.update(eqn.outvars)
            effects = effects or bool(eqn.effects)
        elif size is None:
            done.append(eqn)
        else:
            waiting.setdefault((eqn.op, eqn.outvars[0].aval.dtype), []).append(eqn)
            awaited.update(eqn.outvars)
            nbytes += size
    done.extend(map(_joined, waiting.values()))
    return later


def _joined(eqns: list[Eqn]) -> Eqn:
    """One eqn for some that go the same way."""
    if len(eqns) == 1:
        return eqns[0]
    op: Any = eqns[0].op
    invars = tuple(v for e in eqns for v in e.invars)
    outvars = tuple(v for e in eqns for v in e.outvars)
    return Eqn(HostBucket(op), invars, outvars, eqns[0].source_info)


def _waiting_bytes(eqn: Eqn) -> int | None:
    """The bytes of what may wait for others; None for other eqns."""
    if (
        not isinstance(eqn.op, (HostReduce, HostPermute))
        or type(eqn.invars[0]) is not Var
    ):
        return None
    aval = eqn.outvars[0].aval
    size: int = aval.size * aval.dtype.itemsize
    return size if size <= config.tuning.bucketed_bytes else None


# ---- bodies of loops


class Hoisted(NamedTuple):
    """A body whose collectives of constants were taken out.

    `before` computes from the constants what `body` gets as further ones.
    """

    before: ClosedJaxpr
    body: ClosedJaxpr


def hoisted(closed: ClosedJaxpr, constants: int) -> Hoisted | None:
    """Invariant code motion of collectives, of a body with `constants` in front."""
    jaxpr = closed.jaxpr
    known: set[Any] = {*jaxpr.invars[:constants], *jaxpr.constvars}
    invariant: set[Any] = set()
    for eqn in jaxpr.eqns:
        if eqn.effects or eqn.op.runs_python:
            continue
        if all(type(v) is Literal or v in known for v in eqn.invars):
            known.update(eqn.outvars)
            invariant.update(eqn.outvars)
    moved: list[Eqn] = []
    needed: set[Any] = set()
    for eqn in reversed(jaxpr.eqns):
        if eqn.outvars and eqn.outvars[0] in invariant:
            if isinstance(eqn.op, HostCollective) or needed.intersection(eqn.outvars):
                moved.append(eqn)
                needed.update(v for v in eqn.invars if type(v) is Var)
    if not moved:
        return None
    moved.reverse()
    made = {v for e in moved for v in e.outvars}
    left = [e for e in jaxpr.eqns if made.isdisjoint(e.outvars)]
    read = {v for e in left for v in e.invars if v in made}
    read.update(v for v in jaxpr.outvars if v in made)
    handed = [v for e in moved for v in e.outvars if v in read]
    invars = jaxpr.invars
    before = Jaxpr(jaxpr.constvars, invars[:constants], handed, moved)
    invars = (*invars[:constants], *handed, *invars[constants:])
    body = jaxpr.replace(invars=invars, eqns=left)
    consts = closed.consts
    return Hoisted(ClosedJaxpr(before, consts), ClosedJaxpr(body, consts))


class Terms(NamedTuple):
    """A body that adds up terms of hosts in its carry.

    `folds` has for each carry the fold to be taken of it after the loop, or None.
    """

    body: ClosedJaxpr
    folds: tuple[HostReduce | None, ...]


def summed_after(closed: ClosedJaxpr, constants: int, carries: int) -> Terms | None:
    """A body whose sums over hosts that it only adds to a carry are left for later.

    Such a carry is to begin with zeros: of each host it has the terms.
    """
    jaxpr = closed.jaxpr
    uses = _uses(jaxpr)
    made = {v: e for e in jaxpr.eqns for v in e.outvars}
    names: Names = {}
    folds: list[HostReduce | None] = []
    for carry, out in zip(jaxpr.invars[constants:], jaxpr.outvars[:carries]):
        eqn = None if type(out) is Literal else made.get(out)
        fold: Any = None
        if eqn is not None and isinstance(eqn.op, (Add, AddAny)) and uses[out] == 1:
            others = [v for v in eqn.invars if v is not carry]
            term = made.get(others[0]) if len(others) == 1 else None  # type: ignore
            if term is not None and _is_sum(term):
                alike = term.invars[0].aval.shape == carry.aval.shape
                if alike and uses[carry] == 1 and uses[others[0]] == 1:
                    fold = term.op
                    names[others[0]] = term.invars[0]  # type: ignore[index]
        folds.append(fold)
    if not names:
        return None
    eqns = [
        e.replace(invars=_renamed(e.invars, names))
        for e in jaxpr.eqns
        if not names.keys() & {*e.outvars}
    ]
    return Terms(ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts), tuple(folds))
