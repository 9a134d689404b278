"""Transposition: running a linear jaxpr backwards, cotangents in place of tangents."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NoReturn

from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, bound_consts
from curta.core.mesh_scope import guessing
from curta.core.placement import in_space, placed_as
from curta.core.sharding import MemorySpace
from curta.core.source_info import Replay, current_location
from curta.core.tangents import LinearArg, Zero, is_linear
from curta.core.trace import register_other_type, typeof
from curta.primitives.structure import sum_of

_PLAINLY = nullcontext()


def backward_pass(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """The cotangents of the inputs passed as `LinearArg`, None for the others.

    `cotangents` has one entry per output; entries of both lists may be `Zero`.
    Eqns that depend on no linear input are evaluated forwards first.
    """
    replay = Replay()
    try:
        return _backwards(jaxpr, consts, args, cotangents, replay)
    finally:
        replay.finish()


def _backwards(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    cotangents: Sequence[Any],
    replay: Replay,
) -> list[Any]:
    env = bound_consts(jaxpr, consts)
    for var, x in zip(jaxpr.invars, args, strict=True):
        if not is_linear(x):
            env[var] = x
    linear_eqns = _forward(jaxpr, env, replay)
    pending: dict[Var, Any] = {}

    def accumulate(atoms: Sequence[Atom], cts: Sequence[Any]) -> None:
        for atom, ct in zip(atoms, cts, strict=True):
            if ct is None or type(ct) is Zero or type(atom) is Literal or atom in env:
                continue
            ct = _placed_for(atom.aval.placement, ct)
            before = pending.get(atom)  # type: ignore[arg-type]
            pending[atom] = ct if before is None else sum_of(before, ct)  # type: ignore[index]

    accumulate(jaxpr.outvars, cotangents)
    for eqn in reversed(linear_eqns):
        replay.at(eqn.source_info)
        given = [pending.pop(v, None) for v in eqn.outvars]
        if all(ct is None for ct in given):
            continue
        operands = [
            x.operand if type(x) is Literal else _known_or_linear(env, x)  # type: ignore[arg-type]
            for x in eqn.invars
        ]
        cts = given[0]
        if eqn.op.multiple_results:
            cts = [
                Zero(v.aval.to_cotangent_aval()) if ct is None else ct
                for v, ct in zip(eqn.outvars, given, strict=True)
            ]
        # A cotangent is sharded as its primal, whatever the rule's ops would infer.
        placed = [v.aval.placement for v in (*eqn.invars, *eqn.outvars)]
        with guessing() if any(w and w.has_axes for w in placed) else _PLAINLY:
            result = eqn.op.transpose(cts, *operands)
        accumulate(eqn.invars, result)
    return [
        pending.get(var, Zero(var.aval.to_cotangent_aval())) if is_linear(x) else None
        for var, x in zip(jaxpr.invars, args, strict=True)
    ]


def _placed_for(primal: Any, ct: Any) -> Any:
    """The cotangent, placed as that of a primal of this placement."""
    if primal is not None:
        return placed_as(ct, typeof(ct).placement, primal.dual())
    have = typeof(ct).placement
    if have is None:
        return ct
    ct = placed_as(ct, have, in_space(have, MemorySpace.Device))
    if not (have.unreduced or have.entries):
        return ct
    have = typeof(ct).placement
    assert have is not None  # since it has axes
    return placed_as(ct, have, None if have.unreduced else have.update(entries=()))


def _refuse_linear(x: LinearArg) -> NoReturn:
    raise TypeError(
        "Only linear functions can be transposed. In an operation on line"
        f" {current_location()} two values meet that depend on the function's inputs;"
        f" one of them is {x.aval.str_short()}."
    )


register_other_type(LinearArg, _refuse_linear)


def _known_or_linear(env: dict[Var, Any], var: Var) -> Any:
    return env[var] if var in env else LinearArg(var.aval)


def _forward(jaxpr: Jaxpr, env: dict[Var, Any], replay: Replay) -> list[Eqn]:
    """Evaluate the eqns on known values into `env`; return the others."""
    linear = []
    for eqn in jaxpr.eqns:
        if any(type(v) is Var and v not in env for v in eqn.invars):
            linear.append(eqn)
            continue
        args = [v.operand if isinstance(v, Literal) else env[v] for v in eqn.invars]
        replay.at(eqn.source_info)
        out = eqn.op(*args)
        if not eqn.op.multiple_results:
            out = [out]
        env.update(zip(eqn.outvars, out, strict=True))
    return linear
