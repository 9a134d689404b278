"""Programs on unreduced arrays, as programs on the terms of their sums.

What an array holds that is unreduced over axes of a mesh are the terms of all devices,
stacked along dims in front, one for each of the axes in the order of the mesh. What is
linear maps over these dims, as `vmap` does; a `reshard` takes the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.control.call import JaxprOp
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.shard_map import ShardMap
from curta.control.shard_program import whole_program
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Var,
    bound_consts,
    jaxprs_of,
    with_jaxprs,
)
from curta.core.mesh import EMPTY_ABSTRACT_MESH
from curta.core.mesh_scope import within
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.primitives.collective import rows_in_order
from curta.primitives.placing import Reshard
from curta.primitives.structure import batch_dim_at, move_dim, reduce_sum, reshape
from curta.transforms.jaxprs import run_closed
from curta.transforms.vmap import BatchAxis, batch


def axes_of(aval: Any) -> tuple[Any, ...]:
    """The axes along which an array has the terms of a sum."""
    where = getattr(aval, "placement", None)
    if where is None or not where.unreduced:
        return ()
    result: tuple[Any, ...] = where.mesh.in_order(
        where.unreduced - {*where.mesh.manual_axes}
    )
    return result


def has_terms(jaxpr: Jaxpr) -> bool:
    """Whether there is an unreduced array in a program, or in those within it."""
    ends = (*jaxpr.constvars, *jaxpr.invars)
    if any(axes_of(v.aval) for v in ends):
        return True
    return any(map(_eqn_has_terms, jaxpr.eqns))


def _eqn_has_terms(eqn: Eqn) -> bool:
    if any(axes_of(v.aval) for v in eqn.outvars):
        return True
    inner = jaxprs_of(eqn.op)
    return not isinstance(eqn.op, ShardMap) and any(map(has_terms, inner))


def stacked(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program that takes and returns the terms of what is unreduced.

    Raises NotImplementedError where a fold or a solve takes a sum in its function.
    """
    jaxpr = closed.jaxpr
    count = len(jaxpr.constvars)
    avals = [_stacked_aval(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars)]

    def run(*args: Any) -> list[Any]:
        with within(EMPTY_ABSTRACT_MESH, checks_varying=False, guesses=True):
            return _run(jaxpr, args[:count], args[count:])

    result = stage(run, avals, jaxpr.debug_info)
    inner, invars = result.jaxpr, result.jaxpr.invars
    terms = [
        np.asarray(c._storage()) if axes_of(typeof(c)) else c for c in closed.consts
    ]
    constvars = (*inner.constvars, *invars[:count])
    return ClosedJaxpr(
        inner.replace(constvars=constvars, invars=invars[count:]),
        [*result.consts, *terms],
    )


def _stacked_aval(aval: ShapedArray) -> ShapedArray:
    axes = axes_of(aval)
    if not axes:
        return aval
    assert aval.placement is not None
    front = [aval.placement.mesh.shape[n] for n in axes]
    return ShapedArray((*front, *aval.shape), aval.dtype, aval.weak_type)


def _run(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    env = bound_consts(jaxpr, consts)
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return env[atom] if isinstance(atom, Var) else atom.operand

    for eqn in jaxpr.eqns:
        outs = _apply(eqn, [read(v) for v in eqn.invars])
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _apply(eqn: Eqn, args: Sequence[Any]) -> Sequence[Any]:
    op = eqn.op
    if isinstance(op, ShardMap):
        return run_closed(whole_program(op), args)
    if isinstance(op, Reshard):
        return [_resharded(args[0], eqn.invars[0].aval, eqn.outvars[0].aval)]
    if isinstance(op, JaxprOp) and any(map(has_terms, jaxprs_of(op))):
        return _run(op.jaxpr.jaxpr, op.jaxpr.consts, args)
    axes = [axes_of(v.aval) for v in eqn.invars]
    wanted = [axes_of(v.aval) for v in eqn.outvars]
    inner = [*jaxprs_of(op)]
    if not any(axes) and not any(wanted) and not any(map(has_terms, inner)):
        out = op(*args)
        return out if op.multiple_results else [out]
    if isinstance(op, (Cond, While)):
        result: Sequence[Any] = with_jaxprs(op, stacked)(*args)
        return result
    if isinstance(op, Scan):
        return _scanned(op, args, axes, wanted)
    if any(map(_takes_sums, inner)):
        raise NotImplementedError(
            f"{op.name} that sums unreduced arrays in its body, or makes them there, is"
            " not available: call jax.sharding.reshard before or after it"
        )
    return _mapped(eqn, args, axes, wanted)


def _takes_sums(jaxpr: Jaxpr) -> bool:
    for eqn in jaxpr.eqns:
        kinds = {axes_of(v.aval) for v in (*eqn.invars, *eqn.outvars)}
        if isinstance(eqn.op, (Reshard, ShardMap)) and any(kinds):
            return True
        if any(map(_takes_sums, jaxprs_of(eqn.op))):
            return True
    return False


def _scanned(
    op: Scan, args: Sequence[Any], axes: Sequence[Any], wanted: Sequence[Any]
) -> list[Any]:
    """A loop whose body is on terms; its steps stay in front of them."""
    carry, scanned = op.num_carry, op.num_consts + op.num_carry
    steps = [
        move_dim(x, len(a), 0) if i >= scanned else x
        for i, (x, a) in enumerate(zip(args, axes, strict=True))
    ]
    outs = with_jaxprs(op, stacked)(*steps)
    return [
        move_dim(x, 0, len(w)) if i >= carry else x
        for i, (x, w) in enumerate(zip(outs, wanted, strict=True))
    ]


def _mapped(
    eqn: Eqn, args: Sequence[Any], axes: Sequence[Any], wanted: Sequence[Any]
) -> list[Any]:
    """An op on each of the terms; on operands that are none as they are."""
    where = next(
        v.aval.placement for v in (*eqn.invars, *eqn.outvars) if axes_of(v.aval)
    )
    assert where is not None
    mesh = where.mesh
    names = mesh.in_order({n for a in (*axes, *wanted) for n in a})

    def over(level: int, args: Sequence[Any]) -> list[Any]:
        if level == len(names):
            out = eqn.op(*args)
            return list(out) if eqn.op.multiple_results else [out]
        axis = BatchAxis(mesh.shape[names[level]])
        dims = [0 if names[level] in a else None for a in axes]
        outs, out_dims = batch(lambda *xs: over(level + 1, xs), axis, args, dims)
        return [
            batch_dim_at(x, d, axis.size, 0) if names[level] in w else x
            for x, d, w in zip(outs, out_dims, wanted, strict=True)
        ]

    return over(0, args)


def _resharded(x: Any, before: ShapedArray, after: ShapedArray) -> Any:
    """The terms of a value over other axes: sums, or zeros but for the first."""
    have, want = axes_of(before), axes_of(after)
    x = reduce_sum(x, tuple(d for d, n in enumerate(have) if n not in want))
    kept = [n for n in have if n in want]
    for dim, name in enumerate(want):
        if name in kept:
            continue
        assert after.placement is not None
        size = after.placement.mesh.shape[name]
        row = reshape(x, (1, *typeof(x).shape))
        x = move_dim(rows_in_order(row, [0, *[None] * (size - 1)]), 0, dim)
    return x
