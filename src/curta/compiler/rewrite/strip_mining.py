"""Products of many iterations at once, a block of iterations at a time.

Products of rows before the iterations and sums of products after them need room for
what goes into or comes out of every iteration. A long loop is cut into blocks of
iterations, a loop of loops, so that this room stays in the second-level cache:

    for each block: rows·W of its iterations; its iterations; its part of the sums
"""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np

from curta.compiler.rewrite.licm import hoist, hoist_products
from curta.compiler.rewrite.loop import Carried, Loop
from curta.compiler.rewrite.loop_sums import sum_after
from curta.compiler.targets import Target, Tuning
from curta.control.scan import Scan
from curta.core.dim import is_same, is_symbolic_dim, typical
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Var
from curta.primitives.structure import Reshape


def moved_out_of_loops(jaxpr: Jaxpr, target: Target) -> Jaxpr:
    """The jaxpr with what loops need not do in every iteration moved out of them."""
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        loop = Loop.of(eqn)
        if loop is None:
            eqns.append(eqn)
            continue
        hoist(loop, target.tuning)
        loop.remove_unused(eqn.outvars)
        eqns += loop.before
        once = loop.to_eqn()
        eqns += with_products_together(once, target.tuning) if loop.length else [once]
    return jaxpr.replace(eqns=eqns)


def with_products_together(eqn: Eqn, tuning: Tuning) -> list[Eqn]:
    """The eqns of a scan whose products of rows and sums of products are outside."""
    whole = Loop.of(eqn)
    assert whole is not None
    size = _move(whole, eqn, tuning)
    if not size or not whole.length:
        return [eqn]
    iterations = _block(whole.length, size, tuning)
    if is_same(iterations, whole.length):
        return whole.all_eqns()
    if iterations >= tuning.loop_block_iterations and _can_be_cut(eqn):
        return _blocked(eqn, iterations, tuning)
    return (
        whole.all_eqns() if typical(size * whole.length) <= tuning.loop_bytes else [eqn]
    )


def _move(loop: Loop, eqn: Eqn, tuning: Tuning) -> int:
    """Move products out of the loop; the bytes an iteration that this takes."""
    hoist_products(loop, tuning)
    sum_after(loop)
    after = [v for e in loop.after for v in e.invars]
    loop.remove_unused([*eqn.outvars, *after])
    return _new_row_bytes(loop, eqn) if loop.before or loop.after else 0


def _new_row_bytes(loop: Loop, eqn: Eqn) -> int:
    """The bytes of an iteration in arrays with a row for each that `eqn` has not."""
    result = Loop.of(eqn)
    assert result is not None
    there = {v for v, _ in result.rows} | {v for _, v in result.stacked}
    avals = [v.aval for v, _ in loop.rows if v not in there]
    avals += [a.aval for a, v in loop.stacked if v not in there]
    return max(1, sum(a.size * a.dtype.itemsize for a in avals))


def _block(length: int, size: int, tuning: Tuning) -> int:
    """How many iterations make a block: a divisor of the length, if there is one."""
    most = max(1, min(typical(length), tuning.loop_block_bytes // typical(size)))
    if is_symbolic_dim(length):
        return length if most == typical(length) else 1
    return next(n for n in range(most, 0, -1) if length % n == 0)


def _can_be_cut(eqn: Eqn) -> bool:
    avals = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    return all(isinstance(a.dtype, np.dtype) for a in avals)


def _blocked(eqn: Eqn, iterations: int, tuning: Tuning) -> list[Eqn]:
    """A loop over blocks around one over the iterations of a block."""
    inner = Loop.of(eqn)
    assert inner is not None and inner.length
    count = inner.length // iterations
    before, after = list[Eqn](), list[Eqn]()

    def cut(array: Atom) -> tuple[Var, Var]:
        """An array in blocks, and a block of it."""
        shape = iterations, *array.aval.shape[1:]
        blocks, block = (array.aval.update(shape=s) for s in ((count, *shape), shape))
        return Var(blocks), Var(block)

    outer = Loop(_with_length(eqn, count), [], [], [], [])
    for part in inner.carry:
        start, end = Var(part.start.aval), Var(part.result.aval)
        outer.carry.append(Carried(start, part.start, end, part.result))
        part.start, part.result = start, end
    for i, (v, array) in enumerate(inner.rows):
        blocks, block = cut(array)
        before.append(Eqn(Reshape(blocks.aval.shape), (array,), (blocks,)))
        outer.rows.append((block, blocks))
        inner.rows[i] = v, block
    for i, (atom, array) in enumerate(inner.stacked):
        blocks, block = cut(array)
        after.append(Eqn(Reshape(array.aval.shape), (blocks,), (array,)))
        outer.stacked.append((block, blocks))
        inner.stacked[i] = atom, block
    inner.source = _with_length(eqn, iterations)
    _move(inner, inner.to_eqn(), tuning)
    outer.eqns = inner.all_eqns()
    return [*before, outer.to_eqn(), *after]


def _with_length(eqn: Eqn, length: int) -> Eqn:
    op = cast(Scan, eqn.op)
    return eqn.replace(op=dataclasses.replace(op, length=length))
