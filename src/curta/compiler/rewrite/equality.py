"""Equality of eqns whose ops hold jaxprs: loops, branches, calls.

Tracing makes a new jaxpr for each loop of a program, so that two loops over the same
function have different ops. `OpKey` compares ops by their fields, and jaxprs among the
fields by the values that they compute. Constants are compared by identity.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from numbers import Number
from typing import Any

from curta.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, Var
from curta.core.op import Op

_JAXPRS = (Jaxpr, ClosedJaxpr)


class OpKey:
    """An op as part of a key of a table.

    The hash of an op with jaxprs has their number of eqns in it, and equality compares
    them. So most ops are told from each other without a look at all eqns.
    """

    __slots__ = ("hash", "op")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.hash = hash((type(op), *map(_shallow, fields_of(op))))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpKey) and same_op(self.op, other.op)


def compares_jaxprs(op: Op) -> bool:
    """Return True if parts of an op may be jaxprs, which `==` tells apart."""
    return op.holds_jaxprs and dataclasses.is_dataclass(op)


def fields_of(op: Op) -> list[Any]:
    """The parameters of an op that is a dataclass, in order."""
    return [getattr(op, f.name) for f in dataclasses.fields(op) if f.compare]  # type: ignore[arg-type]


def _shallow(x: Any) -> Any:
    """A value with a hash that equal fields share."""
    if isinstance(x, _JAXPRS):
        return len(x.eqns), x.in_avals, x.out_avals
    if isinstance(x, (tuple, list)):
        return (*map(_shallow, x),)
    return x


def same_op(a: Op, b: Op) -> bool:
    """Return True if two ops compute the same function of their operands."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if not compares_jaxprs(a):
        return bool(a == b)
    return _same_all(fields_of(a), fields_of(b))


def _same_all(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(_same, a, b))


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, ClosedJaxpr):
        consts = len(a.consts) == len(b.consts)
        consts = consts and all(x is y for x, y in zip(a.consts, b.consts, strict=True))
        return consts and same_jaxpr(a.jaxpr, b.jaxpr)
    if isinstance(a, Jaxpr):
        return same_jaxpr(a, b)
    if isinstance(a, (tuple, list)):
        return _same_all(a, b)
    if isinstance(a, Number):  # 0.0 and -0.0 differ
        return repr(a) == repr(b)
    return bool(a == b)


def same_jaxpr(a: Jaxpr, b: Jaxpr) -> bool:
    """Return True if two jaxprs are equal but for the names of variables.

    Jaxprs with effects are equal to none but themselves.
    """
    if a is b:
        return True
    if a.effects or b.effects or len(a.eqns) != len(b.eqns):
        return False
    names: dict[Var, Var] = {}

    def defined(mine: Sequence[Var], theirs: Sequence[Var]) -> bool:
        names.update(zip(mine, theirs, strict=False))
        return [v.aval for v in mine] == [v.aval for v in theirs]

    def read(mine: Sequence[Atom], theirs: Sequence[Atom]) -> bool:
        return len(mine) == len(theirs) and all(map(same_atom, mine, theirs))

    def same_atom(x: Atom, y: Atom) -> bool:
        if isinstance(x, Literal) or isinstance(y, Literal):
            both = isinstance(x, Literal) and isinstance(y, Literal)
            return both and literal_key(x) == literal_key(y)
        return names.get(x, x) is y

    if not (defined(a.constvars, b.constvars) and defined(a.invars, b.invars)):
        return False
    for x, y in zip(a.eqns, b.eqns, strict=True):
        if not (read(x.invars, y.invars) and same_op(x.op, y.op)):
            return False
        if not defined(x.outvars, y.outvars):
            return False
    return read(a.outvars, b.outvars)


def literal_key(x: Any) -> Any:
    """The value and the type of a literal; NaN is equal to itself, -0.0 not to 0.0."""
    return repr(x.val), x.aval
