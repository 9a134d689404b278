"""In which order the dims of a program's results are best stored.

Where that is left to the compiler (`Layout.AUTO`), results are stored in the order in
which they are computed: a transpose that nothing else needs is then no copy. How dims
of operands and results go together an op's factors say, and nothing here speaks of
single ops but those that fix an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.control.call import JaxprOp
from curta.core.array_layout import Layout
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eval_jaxpr
from curta.core.stage import stage
from curta.primitives.factors import factors
from curta.primitives.placing import LayoutConstraint, ShardingConstraint
from curta.primitives.relation import Dims
from curta.primitives.structure import Transpose

Order = tuple[int, ...]
"""The dims of an array, major to minor."""
Layouts = Sequence[Any]
"""For each value a `Layout`, `Layout.AUTO`, or None where nothing is said."""


def chosen_orders(
    closed: ClosedJaxpr, in_layouts: Layouts, out_layouts: Layouts
) -> tuple[list[Order], list[Order]]:
    """How arguments and results are stored: as is said, else in row-major order.

    Only layouts of arguments are chosen; results are stored as computed.
    """
    ins = _said(in_layouts, [row_major(a) for a in closed.in_avals])
    outs = [row_major(a) for a in closed.out_avals]
    if Layout.AUTO in out_layouts:
        computed = computed_orders(closed.jaxpr, ins)
        outs = [
            c if wanted is Layout.AUTO else order
            for c, wanted, order in zip(computed, out_layouts, outs, strict=True)
        ]
    return ins, _said(out_layouts, outs)


def _said(layouts: Layouts, orders: list[Order]) -> list[Order]:
    return [
        layout.order if isinstance(layout, Layout) else order
        for layout, order in zip(layouts or [None] * len(orders), orders, strict=True)
    ]


def computed_orders(jaxpr: Jaxpr, given: Sequence[Order]) -> list[Order]:
    """The order of each result, for arguments that are stored so."""
    known = {
        v: order
        for v, order in zip(jaxpr.invars, given, strict=True)
        if order != row_major(v.aval)
    }
    for eqn in jaxpr.eqns:
        for v, order in zip(eqn.outvars, _of_eqn(eqn, known), strict=True):
            if order != row_major(v.aval):
                known[v] = order
    return [_order(v, known) for v in jaxpr.outvars]


def inverse(order: Sequence[int]) -> Order:
    """The inverse permutation."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def is_sorted(order: Order) -> bool:
    """Whether the dims are in their own order."""
    return order == tuple(range(len(order)))


def stored_program(
    closed: ClosedJaxpr, ins: Sequence[Order], outs: Sequence[Order]
) -> ClosedJaxpr:
    """The program of arrays as they are stored, with transposes at both ends.

    They become the indices of its loops, so that an order costs no pass over the array.
    """

    def run(*args: Any) -> list[Any]:
        given = map(_transposed, args, map(inverse, ins))
        result = eval_jaxpr(closed.jaxpr, closed.consts, *given)
        return [*map(_transposed, result, outs)]

    avals = stage(lambda *xs: [*map(_transposed, xs, ins)], closed.in_avals)
    return stage(run, avals.out_avals, closed.jaxpr.debug_info)


def _transposed(x: Any, order: Order) -> Any:
    return x if is_sorted(order) else Transpose(order)(x)


def row_major(aval: ShapedArray) -> Order:
    """The dims in their own order."""
    return tuple(range(aval.ndim))


_CONSTRAINTS = (LayoutConstraint, ShardingConstraint)


def constrains_layouts(jaxpr: Jaxpr) -> bool:
    """Whether a program says in which order values of its own are to be stored."""
    eqns = jaxpr.eqns_of(lambda kind: issubclass(kind, _CONSTRAINTS))
    return any(_constraint(eqn) is not None for eqn in eqns)


def _constraint(eqn: Eqn) -> Order | None:
    op = eqn.op
    if isinstance(op, _CONSTRAINTS) and op.layout is not None:
        return op.layout.order
    return None


def _order(x: Var | Literal, known: dict[Var, Order]) -> Order:
    result = None if isinstance(x, Literal) else known.get(x)
    return row_major(x.aval) if result is None else result


def _of_eqn(eqn: Eqn, known: dict[Var, Order]) -> list[Order]:
    constraint = _constraint(eqn)
    if constraint is not None:
        return [constraint]
    op, orders = eqn.op, [_order(x, known) for x in eqn.invars]
    if isinstance(op, JaxprOp) and len(op.jaxpr.jaxpr.invars) == len(orders):
        return computed_orders(op.jaxpr.jaxpr, orders)
    outs = [v.aval for v in eqn.outvars]
    avals = [x.aval for x in eqn.invars]
    if not avals:
        return [*map(row_major, outs)]
    rel = factors(op, avals, outs)
    largest = max(range(len(avals)), key=lambda i: avals[i].size)
    names = rel.operands[largest]
    dim_factors = [f for d in orders[largest] for f in names[d] if f not in rel.whole]
    return [
        _along(dim_factors, dims, aval)
        for dims, aval in zip(rel.results, outs, strict=True)
    ]


def _along(dim_factors: Sequence[int], dims: Dims, aval: ShapedArray) -> Order:
    """The order of a result, whose factors come in the order `dim_factors`.

    Row-major if it has dims that do not come from there, or that are several factors
    which are not next to each other.
    """
    positions = {f: k for k, f in enumerate(dim_factors)}
    starts: list[int] = []
    for dim, size in zip(dims, aval.shape, strict=True):
        if size == 1:
            starts.append(-1)
            continue
        here = [positions[f] for f in dim if f in positions]
        if len(here) < len(dim) or here != [*range(here[0], here[0] + len(here))]:
            return row_major(aval)
        else:
            starts.append(here[0])
    return tuple(sorted(range(len(starts)), key=starts.__getitem__))
