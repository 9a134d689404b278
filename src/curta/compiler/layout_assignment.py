"""In which order the dims of a program's results are best stored.

Where that is left to the compiler (`Layout.AUTO`), results are stored in the order in
which they are computed: a transpose that nothing else needs is then no copy. How dims
of operands and results go together an op's factors say, and nothing here speaks of
single ops but those that fix an order.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta.control.call import JaxprOp
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Eqn, Jaxpr, Literal, Var
from curta.primitives.factors import factors
from curta.primitives.placing import LayoutConstraint, ShardingConstraint
from curta.primitives.relation import Dims

Order = tuple[int, ...]
"""The dims of an array, major to minor."""


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
