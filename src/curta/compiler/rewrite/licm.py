"""Loop-invariant code motion.

*Invariant* code depends on constants alone; it is computed once. Products of rows of
`xs` with constants (the `x·W` of a recurrent network) are one product of matrices for
all iterations: a product with few rows reads its matrix from memory in every iteration,
and that takes most of its time. A constant matrix that lies the wrong way for a product
is transposed once.
"""

from __future__ import annotations

import math
from typing import cast

from curta.compiler.rewrite.inline import called, inline_calls
from curta.compiler.rewrite.loop import Loop, captured, copied, live_eqns
from curta.compiler.rewrite.values import (
    is_index,
    is_virtual,
    op_cost,
    parts_of_indices,
)
from curta.compiler.targets import Tuning
from curta.core.dim import typical
from curta.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    jaxprs_of,
)
from curta.primitives.dot import DotGeneral, others
from curta.primitives.host_collectives import communicates
from curta.primitives.structure import Transpose
from curta.transforms.jaxprs import batch_jaxpr
from curta.transforms.vmap import BatchAxis

CONSTANT, BY_ROW, CARRIED = range(3)
"""What a value depends on, at most."""


def hoist(loop: Loop, tuning: Tuning) -> None:
    """Move invariant code in front of the loop, and transpose its matrices there."""
    depends = _dependence(loop)
    _hoist_invariant(loop, depends, tuning)
    _transpose_matrices(loop, depends)


def _dependence(loop: Loop) -> dict[Var, int]:
    """What the variables of the body depend on; those from outside are constant."""
    depends: dict[Var, int] = {v: BY_ROW for v, _ in loop.rows}
    depends |= {c.inner: CARRIED for c in loop.carry}
    for eqn in loop.eqns:
        result = max((_of(v, depends) for v in eqn.invars), default=CONSTANT)
        if eqn.effects or communicates(eqn.op):  # collectives keep their order
            result = CARRIED
        depends.update((v, result) for v in eqn.outvars)
    return depends


def _of(atom: Atom, depends: dict[Var, int]) -> int:
    return CONSTANT if isinstance(atom, Literal) else depends.get(atom, CONSTANT)


def _level(eqn: Eqn, depends: dict[Var, int]) -> int:
    """The loop level of an eqn's results; an eqn without results is not moved."""
    return depends[eqn.outvars[0]] if eqn.outvars else CARRIED


def _hoist_invariant(loop: Loop, depends: dict[Var, int], tuning: Tuning) -> None:
    """Compute once what is constant, unless it costs next to nothing."""
    constant = [e for e in loop.eqns if _level(e, depends) == CONSTANT]
    read_at, known = parts_of_indices(loop.eqns), set[Atom]()
    for eqn in constant:  # sums of iotas are no memory, but parts of addresses
        if not read_at.isdisjoint(eqn.outvars) and is_index(eqn, known):
            known.update(eqn.outvars)
    chosen = {
        e: None
        for e in constant
        if _is_worth_keeping(e, loop, tuning) and known.isdisjoint(e.outvars)
    }
    roots = [v for e in chosen for v in e.outvars]
    needed, _ = live_eqns(constant, roots)
    names: dict[Var, Atom] = {}
    loop.before += copied(needed, names)
    loop.eqns = [e for e in loop.eqns if e not in chosen]
    loop.rename({v: names[v] for v in roots})


def _is_worth_keeping(eqn: Eqn, loop: Loop, tuning: Tuning) -> bool:
    if not loop.length:  # maybe no iteration: what raises or has no end must wait
        if eqn.op.runs_python or any(jaxprs_of(eqn.op)):
            return False
    return not is_virtual(eqn.op) or op_cost(eqn.op) >= tuning.shared_cost


def _transpose_matrices(loop: Loop, depends: dict[Var, int]) -> None:
    """Transpose constant matrices once, where products would in every iteration."""
    transposed: dict[Var, Var] = {}
    for at, eqn in enumerate(loop.eqns):
        matrix = eqn.invars[-1] if eqn.invars else None
        if not isinstance(matrix, Var) or matrix in depends:
            continue
        if (
            not _is_product(eqn, depends)
            or matrix.aval.ndim != 2
            or not matrix.aval.size
        ):
            continue
        product = cast(DotGeneral, eqn.op)
        (left, right), batch = product.dimension_numbers
        rows = eqn.invars[0].aval.size // matrix.aval.shape[1]
        if right != (1,) or rows < 2:
            continue
        if matrix not in transposed:
            fresh = Var(matrix.aval.update(shape=matrix.aval.shape[::-1]))
            loop.before.append(Eqn(Transpose((1, 0)), (matrix,), (fresh,)))
            transposed[matrix] = fresh
        op = _with_numbers(product, ((left, (0,)), batch))
        args = (eqn.invars[0], transposed[matrix])
        loop.eqns[at] = eqn.replace(op=op, invars=args)


def _with_numbers(op: DotGeneral, numbers: object) -> DotGeneral:
    return type(op)(numbers, op.precision, op.preferred_element_type)  # type: ignore[arg-type]


def _is_product(eqn: Eqn, depends: dict[Var, int]) -> bool:
    """Whether it multiplies something that changes by a constant, without batch."""
    if not isinstance(eqn.op, DotGeneral) or any(eqn.op.dimension_numbers[1]):
        return False
    return sorted(_of(v, depends) == CONSTANT for v in eqn.invars) == [False, True]


def hoist_products(loop: Loop, tuning: Tuning) -> None:
    """Multiply the rows of all iterations by constant matrices at once."""
    depends = _dependence(loop)
    early = [e for e in loop.eqns if _level(e, depends) < CARRIED]
    chosen = {
        e: None for e in early
        if _level(e, depends) == BY_ROW and _gains_by_rows(e, depends, tuning)
    }  # fmt: skip
    if not chosen:
        return
    results = [v for e in chosen for v in e.outvars]
    eqns, read = live_eqns(early, results)
    rows = {v: array for v, array in loop.rows if v in read}
    consts = captured(eqns, results, rows)
    one = ClosedJaxpr(Jaxpr((), [*consts, *rows], results, eqns))
    dims = (None,) * len(consts) + (0,) * len(rows)
    assert loop.length
    many, _ = batch_jaxpr(one, BatchAxis(loop.length), dims, True)
    flat = inline_calls(many).jaxpr
    if flat.constvars:
        return
    args = [*consts, *rows.values()]
    names: dict[Var, Atom] = dict(zip(flat.invars, args, strict=True))
    loop.before += copied(flat.eqns, names)
    loop.rows += [
        (v, called(out, names)) for v, out in zip(results, flat.outvars, strict=True)
    ]
    loop.eqns = [e for e in loop.eqns if e not in chosen]


def _gains_by_rows(eqn: Eqn, depends: dict[Var, int], tuning: Tuning) -> bool:
    if not _is_product(eqn, depends):
        return False
    (contracted, _) = cast(DotGeneral, eqn.op).dimension_numbers
    changing = int(_of(eqn.invars[0], depends) == CONSTANT)
    aval = eqn.invars[changing].aval
    rows = math.prod(aval.shape[d] for d in others(aval.ndim, contracted[changing]))
    return typical(rows) < tuning.moved_product_rows
