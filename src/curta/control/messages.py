"""Messages between devices, delivered: what is received, made of what was sent.

The devices of one process run one program on the memory they share, so that a message
is a value of that program. The first value sent from one device to another is for the
first that is received there, the second for the second, and so on, wherever in the
program they are: what is received early waits for what is sent later.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.control.call import JitCall
from curta.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Var, bound_consts, with_jaxprs
from curta.core.memo import kept_with_jaxpr
from curta.core.mesh_scope import get_abstract_mesh, scope
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.errors import JaxRuntimeError
from curta.primitives.collective import AxisIndex, Name
from curta.primitives.effects import CreateToken
from curta.primitives.elementwise import eq, or_
from curta.primitives.elementwise.select import SelectN
from curta.primitives.exchange import (
    MESSAGES,
    Message,
    Pairs,
    Ppermute,
    Precv,
    Psend,
)
from curta.primitives.structure import full

# By number of a receiving eqn: the numbers of the eqns that send to it, each with its
# (source, target) pairs.
Sources = dict[int, dict[int, list[tuple[int, int]]]]


def delivered(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with messages as values that are handed on.

    Raises JaxRuntimeError if the devices would wait for messages that never come.
    """
    return _delivered(closed) if MESSAGES in closed.effects else closed


@kept_with_jaxpr
def _delivered(closed: ClosedJaxpr) -> ClosedJaxpr:
    info, avals = closed.jaxpr.debug_info, closed.in_avals
    flat = stage(lambda *args: _inlined(closed, args), avals, info)
    sources = _sources(flat.jaxpr)
    order = _order(flat.jaxpr, sources)
    return stage(lambda *args: _run(flat, sources, order, args), avals, info)


def _inlined(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """The program applied, its calls that send or receive as parts of it."""
    env = _environment(closed, args)
    for eqn in closed.jaxpr.eqns:
        operands = [_read(env, v) for v in eqn.invars]
        if type(eqn.op) is JitCall and MESSAGES in eqn.effects:
            outs: Sequence[Any] = _inlined(eqn.op.jaxpr, operands)
        else:
            outs = _applied(eqn.op, operands)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [_read(env, v) for v in closed.jaxpr.outvars]


def _environment(closed: ClosedJaxpr, args: Sequence[Any]) -> dict[Var, Any]:
    env = bound_consts(closed.jaxpr, closed.consts)
    env.update(zip(closed.jaxpr.invars, args, strict=True))
    return env


def _read(env: dict[Var, Any], atom: Atom) -> Any:
    return env[atom] if isinstance(atom, Var) else atom.operand


def _applied(op: Any, operands: Sequence[Any]) -> Sequence[Any]:
    out = op(*operands)
    return out if op.multiple_results else [out]


# ---- which message is for whom


def _sources(jaxpr: Jaxpr) -> Sources:
    """Where what each eqn receives was sent; JaxRuntimeError if it was not."""
    sent: dict[Any, list[int]] = defaultdict(list)
    wanted: dict[Any, list[int]] = defaultdict(list)
    for i, eqn in enumerate(jaxpr.eqns):
        if isinstance(eqn.op, Message):
            _check_pairs(eqn.op)
            box = sent if isinstance(eqn.op, Psend) else wanted
            for pair in eqn.op.perm:
                box[eqn.op.axis_names, pair].append(i)
    result: Sources = defaultdict(lambda: defaultdict(list))
    for key in sent.keys() | wanted.keys():
        if len(sent[key]) != len(wanted[key]):
            raise _unmatched(key, sent, wanted)
        for target, source in zip(wanted[key], sent[key], strict=True):
            result[target][source].append(key[1])
    return result


def _check_pairs(op: Message) -> None:
    target = dict(op.perm)
    for start in target:
        reached = target[start]
        while reached in target and reached != start:
            reached = target[reached]
        if reached == start:
            raise JaxRuntimeError(
                "Expected send and recv instructions to have non-cyclical"
                f" source-target pairs, but those of {op.name} are {op.perm}: each"
                " device would wait for the next. Use two of them, or lax.ppermute."
            )


def _unmatched(key: Any, sent: dict[Any, list[int]], wanted: Any) -> JaxRuntimeError:
    names, (source, target) = key
    counts = (
        f"along {names} device {source} sends {len(sent[key])} messages to device"
        f" {target}, which receives {len(wanted[key])}, in one function or loop body"
    )
    if any(len(sent[k]) > len(wanted[k]) for k in sent):
        return JaxRuntimeError(
            f"Deadlock detected. Last checked instructions: psend, precv: {counts}."
        )
    return JaxRuntimeError(f"Expected send to match recv: {counts}.")


def _order(jaxpr: Jaxpr, sources: Sources) -> list[int]:
    """The eqns, by number, in an order in which all is sent before it is received."""
    made = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
    waits = [
        {made[v] for v in eqn.invars if isinstance(v, Var) and v in made}
        | {*sources.get(i, ())}
        for i, eqn in enumerate(jaxpr.eqns)
    ]
    order: list[int] = []
    done: set[int] = set()
    while len(order) < len(waits):
        before = len(order)
        for i, needed in enumerate(waits):
            if i not in done and needed <= done:
                done.add(i)
                order.append(i)
        if len(order) == before:
            raise JaxRuntimeError(
                "Deadlock detected. A message depends on its own receiver: a precv"
                " needs the result of a psend that comes after it."
            )
    return order


# ---- the program without messages


def _run(
    flat: ClosedJaxpr, sources: Sources, order: Sequence[int], args: Sequence[Any]
) -> list[Any]:
    env = _environment(flat, args)
    eqns = flat.jaxpr.eqns
    for i in order:
        eqn = eqns[i]
        if isinstance(eqn.op, Psend):
            outs: Sequence[Any] = [CreateToken()()]
        elif isinstance(eqn.op, Precv):
            values = [
                (_read(env, eqns[k].invars[0]), tuple(pairs))
                for k, pairs in sources[i].items()
            ]
            outs = [_received(eqn.op, values)]
        else:
            op = eqn.op
            if MESSAGES in op.effects:
                op = with_jaxprs(op, delivered)
            outs = _applied(op, [_read(env, v) for v in eqn.invars])
        env.update(zip(eqn.outvars, outs, strict=True))
    return [_read(env, v) for v in flat.jaxpr.outvars]


def _received(op: Precv, values: Sequence[tuple[Any, Pairs]]) -> Any:
    """The value that each device receives."""
    out: Any = None
    for x, pairs in values:
        aval = typeof(x)
        if (aval.shape, aval.dtype) != (op.out_shape.shape, op.out_shape.dtype):
            raise ValueError(
                f"precv expects {op.out_shape.str_short()}, but what psend sends it is"
                f" {aval.str_short()}."
            )
        part = Ppermute(op.axis_names, pairs)(x)
        out = part if out is None else _chosen(op.axis_names[0], pairs, part, out)
    return full(op.out_shape, 0) if out is None else out


def _chosen(name: Name, pairs: Pairs, part: Any, other: Any) -> Any:
    varies = scope().checks_varying and name in get_abstract_mesh().manual_axes
    me = AxisIndex(name, varies)()
    mine = functools.reduce(or_, [eq(me, np.int32(t)) for _, t in pairs])
    return SelectN()(mine, other, part)
