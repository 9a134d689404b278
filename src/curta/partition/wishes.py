"""How the operands of an op are to be split over mesh axes, given how results are.

A value that comes from nothing split, random bits say, may be made in the parts in
which it is needed. Which those are, the op's factors say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curta.core.partition_spec import entry_axes, entry_of
from curta.primitives.factors import Dim, Factors
from curta.primitives.partitioning import Entries, Sizes

Known = dict[int, tuple[Any, ...]]


def wished_entries(
    relation: Factors,
    results: Sequence[Entries],
    given: Sequence[Entries],
    size_of: Sizes,
) -> list[Entries]:
    """How each operand is to be split so that the results are split so.

    What is summed over is split as the operand is that is `given` so. () is for
    operands of which nothing is wanted.
    """
    known: Known = {}
    reduced = {f for f, _ in relation.reduced}
    for entries, dims in zip(results, relation.results, strict=True):
        for entry, dim in zip(entries, dims, strict=True):
            _spread(relation, dim, entry_axes(entry), known, size_of)
    for entries, dims in zip(given, relation.operands, strict=True):
        for entry, dim in zip(entries, dims, strict=True):
            if entry is not None and reduced.issuperset(dim):
                _spread(relation, dim, entry_axes(entry), known, size_of)
    found = []
    for dims in relation.operands:
        wanted = [entry_of(_axes(relation, dim, known, size_of)) for dim in dims]
        found.append(tuple(wanted) if any(wanted) else ())
    return found


def _spread(
    relation: Factors, dim: Dim, axes: Sequence[Any], known: Known, size_of: Sizes
) -> None:
    """Split the factors of a dim along axes, the outer one first."""
    left = list(axes)
    for f in dim:
        if f in relation.whole or f in known:
            return
        own: list[Any] = []
        while left and not relation.sizes[f] % size_of([*own, left[0]]):
            own.append(left.pop(0))
        if own:
            known[f] = tuple(own)
        if size_of(own) < relation.sizes[f]:
            return


def _axes(
    relation: Factors, dim: Dim, known: Mapping[int, tuple[Any, ...]], size_of: Sizes
) -> list[Any]:
    """The axes along which a dim is split, as far as its parts lie together."""
    found: list[Any] = []
    for f in dim:
        found += known.get(f, ())
        if size_of(known.get(f, ())) < relation.sizes[f]:
            break
    return found
