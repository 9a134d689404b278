"""Where the expression of a value changes: the seams of concatenations and pads.

Rolled, shifted or padded arrays are not copied if only maps read them. Instead, the map
is split at the seams: in each region every index is in one part, so a stencil inside
the array has contiguous loads. The factors of an op give the operand elements of each
result element. A read at `(i - 1) % n` is split where the condition between its two
sums changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.loops.index import Affine, as_index
from curta.compiler.loops.lower import loop_dims
from curta.compiler.loops.nodes import Expr, Load, walk
from curta.compiler.loops.value_bounds import decided_by
from curta.core.jaxpr import Eqn, Jaxpr, Var
from curta.primitives.factors import factors

Dims = tuple[int, ...]
Region = tuple[tuple[int, int], ...]
"""The first index, and the one after the last, of each dim."""
Cuts = list[set[int]]
"""The indices of each dim before which a map is cut."""


def read_by_maps(jaxpr: Jaxpr, host: frozenset[Eqn]) -> frozenset[Var]:
    """The variables whose elements only maps read, each at a fixed distance."""
    uses: dict[Var, list[Eqn]] = {}
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, Var):
                uses.setdefault(atom, []).append(eqn)
    returned = {v for v in jaxpr.outvars if isinstance(v, Var)}
    result: set[Var] = set()
    for eqn in reversed(jaxpr.eqns):
        for var in eqn.outvars:
            consumers = uses.get(var, [])
            if consumers and all(
                _shifts(c, var)
                and c not in host
                and (c.outvars[0] in returned or c.outvars[0] in result)
                for c in consumers
            ):
                result.add(var)
    return frozenset(result)


def _shifts(eqn: Eqn, var: Var) -> bool:
    """Whether the eqn reads elements of `var` at a fixed distance from its own."""
    read = [i for i, atom in enumerate(eqn.invars) if atom is var]
    return {*read} <= {i for i, _ in _distances(eqn)}


def _distances(eqn: Eqn) -> list[tuple[int, Dims]]:
    """The operands that lie in the output, each with the index of its first element.

    They may go beyond it, as those of a slice do.
    """
    if len(eqn.outvars) != 1 or not eqn.op.has_rule("lower"):
        return []
    avals, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
    rel = factors(eqn.op, avals, outs)
    first = {
        (*w.operands, w.result): w.low
        for w in rel.windowed
        if w.stride == w.extent == w.dilation == 1
    }
    result = []
    for i, dims in enumerate(rel.operands):
        if len(dims) == len(rel.results[0]):
            lows = [
                0 if dim == own else first.get(((i, d), d))
                for d, (dim, own) in enumerate(zip(dims, rel.results[0], strict=True))
            ]
            if None not in lows:
                result.append((i, tuple(p or 0 for p in lows)))
    return result


def index_regions(
    shape: Dims, values: Callable[[tuple[Any, ...]], Sequence[Expr]]
) -> list[tuple[Affine, ...]]:
    """The index of a map, for each of the regions between its seams.

    Seams are where the conditions change under which `values(index)` are loaded.
    """
    index = loop_dims(shape)
    loads = (e for e in walk(values(index)) if isinstance(e, Load))
    cuts = cuts_along(index, [e.where for e in loads if e.where is not None])
    result = []
    for region in regions(cuts, shape):
        index = loop_dims(tuple(high - low for low, high in region))
        starts = (low for low, _ in region)
        result.append(tuple(as_index(i) + low for i, low in zip(index, starts)))
    return result


def cuts_along(index: Sequence[Any], conditions: Sequence[Expr]) -> Cuts:
    """Where comparisons change that one of the loop variables of an index decides."""
    cuts: Cuts = [set() for _ in index]
    for condition in walk(conditions):
        variable, places = decided_by(condition)
        if variable in index:
            cuts[index.index(variable)].update(places)
    return cuts


def regions(cuts: Cuts, shape: Dims) -> list[Region]:
    """The regions of a map, at most three along a dim; one if there are no cuts."""
    return list(itertools.product(*map(intervals, cuts, shape)))


def intervals(cuts: set[int], size: int) -> list[tuple[int, int]]:
    """The parts of a dim: all, or the longest one and the parts on its sides."""
    ends = [0, *sorted(cuts), size]
    parts = list(itertools.pairwise(ends))
    if len(parts) > 3:
        low, high = max(parts, key=lambda p: p[1] - p[0])
        parts = [(0, low), (low, high), (high, size)]
    return [p for p in parts if p[0] < p[1] or size == 0]
