"""Calls inside a jaxpr, and ops made of others, replaced by what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curta.control.call import JaxprOp
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from curta.core.op import Op
from curta.core.user_lowering import lowered
from curta.core.user_op import UserOp
from curta.primitives.barrier import RecomputationBarrier
from curta.primitives.composed import Composed

Expand = Callable[[Op, Sequence[ShapedArray]], ClosedJaxpr | None]
Function = Callable[..., Sequence[Any]]
"""A function of arrays to a sequence of them."""


def inline_calls(
    closed: ClosedJaxpr, expand: Expand | None = None, barriers: bool = False
) -> ClosedJaxpr:
    """The jaxpr with the bodies of all calls instead of them.

    `expand` says which jaxprs other ops stand for. With `barriers` what is computed
    again is behind one (recomputation.py).
    """
    consts = list(closed.jaxpr.constvars), list(closed.consts)
    inliner = _Inliner(*consts, expand, barriers)
    jaxpr = closed.jaxpr
    env: dict[Var, Atom] = {}
    for eqn in jaxpr.eqns:
        inliner.add(eqn, env)
    if not inliner.has_replaced:
        return closed
    outs = [called(v, env) for v in jaxpr.outvars]
    flat = jaxpr.replace(
        constvars=tuple(inliner.constvars),
        eqns=tuple(inliner.eqns),
        outvars=tuple(outs),
    )
    return ClosedJaxpr(flat, inliner.consts)


class _Inliner:
    def __init__(
        self,
        constvars: list[Var],
        consts: list[Any],
        expand: Expand | None,
        barriers: bool,
    ) -> None:
        self.expand = expand
        self.barriers = barriers
        self.constvars = constvars
        self.consts = consts
        self.eqns: list[Eqn] = []
        self.has_replaced = False

    def add(self, eqn: Eqn, env: dict[Var, Atom]) -> None:
        """Append the eqn, or what it calls; `env` says how variables are now called."""
        invars = tuple(called(v, env) for v in eqn.invars)
        body = _stands_for(eqn.op, invars, self.expand)
        if body is None:
            self.eqns.append(
                eqn.replace(invars=invars) if invars != eqn.invars else eqn
            )
            return
        self.has_replaced = True
        if self.barriers and eqn.op.recomputes:
            invars = self._behind_barrier(invars)
        outs = self._call(body, invars)
        env.update(zip(eqn.outvars, outs, strict=True))

    def _behind_barrier(self, args: tuple[Atom, ...]) -> tuple[Atom, ...]:
        passing = {a: Var(a.aval) for a in args if isinstance(a, Var)}
        if passing:
            names = tuple(passing), tuple(passing.values())
            self.eqns.append(Eqn(RecomputationBarrier(), *names))
        return tuple(called(a, passing) for a in args)

    def _call(self, closed: ClosedJaxpr, args: tuple[Atom, ...]) -> list[Atom]:
        jaxpr = closed.jaxpr
        env: dict[Var, Atom] = dict(zip(jaxpr.invars, args, strict=True))
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            env[var] = fresh = Var(var.aval)
            self.constvars.append(fresh)
            self.consts.append(value)
        for eqn in jaxpr.eqns:
            renamed = tuple(Var(v.aval) for v in eqn.outvars)
            self.add(eqn.replace(outvars=renamed), env)
            for old, new in zip(eqn.outvars, renamed, strict=True):
                env[old] = env.get(new, new)
        return [called(v, env) for v in jaxpr.outvars]


def _stands_for(
    op: Op, invars: tuple[Atom, ...], expand: Expand | None
) -> ClosedJaxpr | None:
    """The jaxpr to put instead of an op, if there is one."""
    if isinstance(op, JaxprOp):
        return op.stands_for
    avals = [v.aval for v in invars]
    if isinstance(op, Composed):
        return op.expansion(avals)
    if isinstance(op, UserOp):
        return lowered(op, avals)
    return None if expand is None else expand(op, [a.unplaced() for a in avals])


def with_variables(jaxpr: Jaxpr, names: Mapping[Var, Var]) -> Jaxpr:
    """The jaxpr with other variables for some, where they are bound and read."""

    def named(atoms: Sequence[Atom]) -> Any:
        return tuple(called(a, names) for a in atoms)

    return jaxpr.replace(
        constvars=named(jaxpr.constvars),
        invars=named(jaxpr.invars),
        outvars=named(jaxpr.outvars),
        eqns=[
            e.replace(invars=named(e.invars), outvars=named(e.outvars))
            for e in jaxpr.eqns
        ],
    )


def called(atom: Atom, names: Mapping[Var, Atom]) -> Atom:
    """The name of an atom."""
    return names.get(atom, atom) if isinstance(atom, Var) else atom
