"""Where the expression of a value changes: the seams of concatenations and pads.

What is rolled, shifted or padded is not copied where only maps read it. The map is cut
at the seams instead: in each region every index is known to lie in one part, so that
what is left of a stencil in the middle of an array are loads side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

from curta.core.jaxpr import Atom, Eqn, Jaxpr, Var
from curta.core.op import Op
from curta.primitives.base import Elementwise
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.elementwise.select import SelectN
from curta.primitives.joining import Concatenate
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import AddAny

Dims = tuple[int, ...]
Region = tuple[tuple[int, int], ...]
"""The first index, and the one after the last, of each dim."""

_IN_PLACE = (Elementwise, AddAny, ConvertElementType, SelectN)


def read_by_maps(jaxpr: Jaxpr, host: frozenset[Eqn]) -> frozenset[Var]:
    """The variables whose elements only maps read, each at a fixed distance."""
    uses: dict[Var, list[Eqn]] = {}
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, Var):
                uses.setdefault(atom, []).append(eqn)
    returned = {v for v in jaxpr.outvars if isinstance(v, Var)}
    found: set[Var] = set()
    for eqn in reversed(jaxpr.eqns):
        for var in eqn.outvars:
            consumers = uses.get(var, [])
            if consumers and all(
                _shifts(c, var)
                and c not in host
                and (c.outvars[0] in returned or c.outvars[0] in found)
                for c in consumers
            ):
                found.add(var)
    return frozenset(found)


def _shifts(eqn: Eqn, var: Var) -> bool:
    """Whether the eqn reads elements of `var` at a fixed distance from its own."""
    op = eqn.op
    if isinstance(op, _IN_PLACE):
        return eqn.outvars[0].aval.shape == var.aval.shape
    return isinstance(op, Concatenate) or _is_plain(op)


def _is_plain(op: Op) -> bool:
    if isinstance(op, Slice):
        return op.strides is None or all(s == 1 for s in op.strides)
    return isinstance(op, Pad) and not any(between for *_, between in op.padding_config)


def split_index_set(
    var: Var, definitions: Mapping[Var, Eqn], is_there: Callable[[Atom], bool]
) -> list[Region]:
    """The regions of a map, at most three along a dim; one if there are no seams.

    `is_there` says whether a variable lies in memory.
    """
    shape = var.aval.shape
    cuts: list[set[int]] = [set() for _ in shape]
    seen: set[tuple[Var, Dims]] = set()
    stack: list[tuple[Atom, Dims]] = [(var, (0,) * len(shape))]
    while stack:
        atom, offset = stack.pop()
        if not isinstance(atom, Var) or (atom, offset) in seen:
            continue
        seen.add((atom, offset))
        eqn = definitions.get(atom)
        if eqn is None or (atom is not var and is_there(atom)):
            continue
        for d, seam in _seams(eqn):
            if 0 < seam - offset[d] < shape[d]:
                cuts[d].add(seam - offset[d])
        stack += _operands(eqn, offset)
    return list(itertools.product(*map(_intervals, cuts, shape)))


def _seams(eqn: Eqn) -> Iterator[tuple[int, int]]:
    """The indices of an eqn's output at which another operand or padding begins."""
    op = eqn.op
    if isinstance(op, Concatenate):
        start = 0
        for part in eqn.invars:
            yield op.dimension, start
            start += part.aval.shape[op.dimension]
    elif isinstance(op, Pad) and _is_plain(op):
        shape = eqn.invars[0].aval.shape
        for d, (low, high, _) in enumerate(op.padding_config):
            if low > 0:
                yield d, low
            if high > 0:
                yield d, low + shape[d]


def _operands(eqn: Eqn, offset: Dims) -> list[tuple[Atom, Dims]]:
    """The operands, with how far their indices are from those of the map."""
    op, shape = eqn.op, eqn.outvars[0].aval.shape
    if isinstance(op, _IN_PLACE):
        return [(x, offset) for x in eqn.invars if x.aval.shape == shape]
    if isinstance(op, Concatenate):
        found, start, d = [], 0, op.dimension
        for part in eqn.invars:
            place = (*offset[:d], offset[d] - start, *offset[d + 1 :])
            found.append((part, place))
            start += part.aval.shape[d]
        return found
    if isinstance(op, Slice) and _is_plain(op):
        starts = op.start_indices
        return [(eqn.invars[0], tuple(map(sum, zip(offset, starts, strict=True))))]
    if isinstance(op, Pad) and _is_plain(op):
        lows = [-low for low, *_ in op.padding_config]
        return [(eqn.invars[0], tuple(map(sum, zip(offset, lows, strict=True))))]
    return []


def _intervals(cuts: set[int], size: int) -> list[tuple[int, int]]:
    """The parts of a dim: all, or the longest one and what lies on its sides."""
    ends = [0, *sorted(cuts), size]
    parts = list(itertools.pairwise(ends))
    if len(parts) > 3:
        low, high = max(parts, key=lambda p: p[1] - p[0])
        parts = [(0, low), (low, high), (high, size)]
    return [p for p in parts if p[0] < p[1] or size == 0]
