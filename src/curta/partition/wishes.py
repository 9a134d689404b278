"""How the operands of an op are to be split over mesh axes, given how results are.

A value that comes from nothing split, random bits say, may be made in the parts in
which it is needed. Which those are, the op's factors say.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta.core.partition_spec import entry_axes, entry_of
from curta.primitives.partitioning import Known, axes_of_dim, spread
from curta.primitives.relation import Factors
from curta.primitives.split_query import Entries, Sizes


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
            spread(relation, dim, entry_axes(entry), known, size_of)
    for entries, dims in zip(given, relation.operands, strict=True):
        for entry, dim in zip(entries, dims, strict=True):
            if entry is not None and reduced.issuperset(dim):
                spread(relation, dim, entry_axes(entry), known, size_of)
    result = []
    for dims in relation.operands:
        wanted = [entry_of(axes_of_dim(relation, dim, known, size_of)) for dim in dims]
        result.append(tuple(wanted) if any(wanted) else ())
    return result
