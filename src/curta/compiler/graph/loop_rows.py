"""Arrays that only loops read, row by row: computed there, never stored.

The gradient of a mean over all outputs of a scan begins with an array of the size of
these outputs, which the backward loop reads row by row. If its rows follow from rows of
other arrays element by element, the loop computes each when it comes to it.
"""

from __future__ import annotations

from curta.compiler.graph.loop import Loop
from curta.compiler.graph.values import op_cost
from curta.config import config
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.core.op import Op
from curta.primitives.base import Elementwise
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.structure import AddAny, BroadcastInDim


def rows_inside(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr whose scans compute what only they read of cheap arrays."""
    loops = {i: loop for i, e in enumerate(jaxpr.eqns) if (loop := Loop.of(e))}
    readers: dict[Atom, set[int]] = {v: {-1} for v in jaxpr.outvars}
    for i, eqn in enumerate(jaxpr.eqns):
        for v in eqn.invars:
            readers.setdefault(v, set()).add(i)
    changed = set()
    for i, eqn in reversed(list(enumerate(jaxpr.eqns))):
        reading = readers.get(eqn.outvars[0], set()) if eqn.outvars else set()
        (at,) = reading if len(reading) == 1 else (-1,)
        loop = loops.get(at)
        if loop is None or not _compute_inside(loop, eqn):
            continue
        changed.add(at)
        for v in eqn.invars:
            readers[v] = (readers[v] - {i}) | {at}
    eqns = [loops[i].to_eqn() if i in changed else e
            for i, e in enumerate(jaxpr.eqns)]  # fmt: skip
    return jaxpr.replace(eqns=eqns)


def _compute_inside(loop: Loop, eqn: Eqn) -> bool:
    """Compute the rows of a cheap eqn's result in the loop, if it reads no more."""
    (array, *_), op = eqn.outvars, _of_rows(eqn)
    if op is None or loop.length is None or _is_fixed(loop, array):
        return False
    args = tuple(_row(loop, x, array) for x in eqn.invars)
    made = [Eqn(op, args, (v,), eqn.source_info) for v, a in loop.rows if a is array]
    loop.rows = [p for p in loop.rows if p[1] is not array]
    loop.eqns[:0] = made
    return True


def _is_fixed(loop: Loop, array: Atom) -> bool:
    """Whether the loop needs the array also as a whole."""
    return any(array is a for _, a in loop.consts) or any(
        array is c.start for c in loop.carry
    )


def _of_rows(eqn: Eqn) -> Op | None:
    """The op that makes a row of the result of a cheap op, if there is one."""
    if (
        len(eqn.outvars) > 1
        or eqn.effects
        or op_cost(eqn.op) > config.tuning.shared_cost
    ):
        return None
    op, out = eqn.op, eqn.outvars[0].aval
    shapes = [v.aval.shape for v in eqn.invars]
    if isinstance(op, (Elementwise, AddAny, ConvertElementType)):
        whole = all(s in ((), out.shape) for s in shapes) and out.shape != ()
        return op if whole else None
    if isinstance(op, BroadcastInDim) and 0 not in op.broadcast_dimensions:
        dims = tuple(d - 1 for d in op.broadcast_dimensions)
        return BroadcastInDim(op.shape[1:], dims)
    return None


def _row(loop: Loop, atom: Atom, array: Atom) -> Atom:
    """What an operand of the op is in an iteration."""
    if isinstance(atom, Literal):
        return atom
    shape = atom.aval.shape
    if shape != array.aval.shape:
        return loop.add_const(atom)
    for v, known in loop.rows:
        if known is atom:
            return v
    inner = Var(atom.aval.update(shape=shape[1:]))
    loop.rows.append((inner, atom))
    return inner
