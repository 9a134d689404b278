"""Transposition: running a linear jaxpr backwards, cotangents in place of tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.core.tangents import LinearArg, Zero, is_linear
from curta.ops.structure import add_tangents


def backward_pass(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """The cotangents of the inputs passed as `LinearArg`, None for the others.

    `cotangents` has one entry per output; entries of both lists may be `Zero`.
    Eqns that depend on no linear input are evaluated forwards first.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    for var, x in zip(jaxpr.invars, args, strict=True):
        if not is_linear(x):
            env[var] = x
    linear_eqns = _forward(jaxpr, env)
    pending: dict[Var, Any] = {}

    def accumulate(atom: Atom, ct: Any) -> None:
        if type(atom) is Var and atom not in env and ct is not None:
            pending[atom] = add_tangents(pending[atom], ct) if atom in pending else ct

    for atom, ct in zip(jaxpr.outvars, cotangents, strict=True):
        accumulate(atom, None if type(ct) is Zero else ct)
    for eqn in reversed(linear_eqns):
        if not any(v in pending for v in eqn.outvars):
            continue
        given = [
            pending.pop(v, None) if v in pending else Zero(v.aval.to_tangent_aval())
            for v in eqn.outvars
        ]
        operands = [
            x.val if type(x) is Literal else env.get(x, None) for x in eqn.invars
        ]
        operands = [
            LinearArg(v.aval) if type(v) is Var and v not in env else x
            for v, x in zip(eqn.invars, operands, strict=True)
        ]
        found = eqn.op.transpose(
            given if eqn.op.multiple_results else given[0], *operands
        )
        for atom, ct in zip(eqn.invars, found, strict=True):
            accumulate(atom, None if type(ct) is Zero else ct)
    return [
        pending.get(var, Zero(var.aval.to_tangent_aval())) if is_linear(x) else None
        for var, x in zip(jaxpr.invars, args, strict=True)
    ]


def _forward(jaxpr: Jaxpr, env: dict[Var, Any]) -> list[Eqn]:
    """Evaluate the eqns on known values into `env`; return the others."""
    linear = []
    for eqn in jaxpr.eqns:
        if any(type(v) is Var and v not in env for v in eqn.invars):
            linear.append(eqn)
            continue
        out = eqn.op(*[v.val if type(v) is Literal else env[v] for v in eqn.invars])
        if not eqn.op.multiple_results:
            out = [out]
        env.update(zip(eqn.outvars, out, strict=True))
    return linear
