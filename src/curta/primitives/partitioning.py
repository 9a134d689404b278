"""How the outputs of an op are split over mesh axes, given how its operands are.

An array's split is a tuple with an entry for each dim, as in a `PartitionSpec`. Which
dims go together the op's factors say (`factors`). The same answer serves types (arrays
split over explicit axes carry the split in their aval) and the runtime, which records
where results of arrays on several devices are. Types are strict: where the answer is
ambiguous they raise ShardingTypeError (`split_refusals`). The runtime takes a fair
guess, as a compiler may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curta.core.avals import ShapedArray
from curta.core.partition_spec import entry_axes, entry_of
from curta.primitives.relation import Along, Dim, Factors, Windowed
from curta.primitives.split_query import Entries, Query, Sizes
from curta.primitives.split_refusals import refuse_ambiguous, reshaped_entries
from curta.primitives.structure import Reshape

Known = dict[int, tuple[Any, ...]]


def out_entries(query: Query) -> list[Entries]:
    """How each output is split.

    Raises ShardingTypeError where that is ambiguous and the query is strict.
    """
    if not any(any(e) for e in query.entries):
        return [(None,) * a.ndim for a in query.outs]
    if query.strict:
        refuse_ambiguous(query.op, query)
    if query.strict and isinstance(query.op, Reshape):
        result = [reshaped_entries(query)]
    else:
        result = _followed(query)
    return [_possible(query, e, a) for e, a in zip(result, query.outs, strict=True)]


def _followed(query: Query) -> list[Entries]:
    """Dims of results are split as the operands' dims that they are made of."""
    rel = query.relation
    known: Known = {}
    for entries, dims in zip(query.entries, rel.operands, strict=True):
        for entry, dim in zip(entries, dims, strict=True):
            spread(rel, dim, entry_axes(entry), known, query.size_of, uneven=True)
    result = [
        [entry_of(axes_of_dim(rel, dim, known, query.size_of)) for dim in dims]
        for dims in rel.results
    ]
    changed: Sequence[Windowed | Along] = (*rel.windowed, *rel.along)
    for near in changed:
        own = result[near.number]
        made_of = [query.entries[i][d] for i, d in near.operands]
        own[near.result], *_ = [
            *(e for e in (own[near.result], *made_of) if e is not None),
            None,
        ]
    return [tuple(entries) for entries in result]


def spread(
    rel: Factors,
    dim: Dim,
    axes: Sequence[Any],
    known: Known,
    size_of: Sizes,
    uneven: bool = False,
) -> None:
    """Split the factors of a dim along axes, the outer one first.

    A dim of one factor may be split into parts that are `uneven`.
    """
    left = list(axes)
    for f in dim:
        if f in rel.whole or f in known:
            return
        own: list[Any] = []
        if uneven and len(dim) == 1:
            own, left = left, own
        while left and not rel.sizes[f] % size_of([*own, left[0]]):
            own.append(left.pop(0))
        if own:
            known[f] = tuple(own)
        if size_of(own) < rel.sizes[f]:
            return


def axes_of_dim(
    rel: Factors, dim: Dim, known: Mapping[int, tuple[Any, ...]], size_of: Sizes
) -> list[Any]:
    """The axes along which a dim is split, as far as its parts lie together."""
    result: list[Any] = []
    for f in dim:
        result += known.get(f, ())
        if size_of(known.get(f, ())) < rel.sizes[f]:
            break
    return result


def _possible(query: Query, entries: Entries, aval: ShapedArray) -> Entries:
    """The split without axes that occur twice or do not divide their dim.

    A guess may leave parts that are not equal, as long as there is one for each.
    """
    used: set[Any] = set()
    kept = []
    for size, entry in zip(aval.shape, entries, strict=True):
        axes = entry_axes(entry)
        if used & {*axes}:
            text = query.shown(aval, entries)
            query.refuse(
                f"{query.op.name} operation with inputs: {query.inputs} produces an"
                f" illegally sharded result: {text}",
                names_inputs=True,
            )
        axes = tuple(a for a in axes if a not in used)
        count = query.size_of(axes)
        if axes and (size < count or query.strict and size % count):
            axes = ()
        used |= {*axes}
        kept.append(entry_of(axes))
    return tuple(kept)
