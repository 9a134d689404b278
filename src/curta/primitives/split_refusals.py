"""Which splits of operands types refuse, and in which words.

How outputs are split follows from the factors of ops (`partitioning`); what would be a
guess there, JAX refuses, each op with a message of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from curta.core.op import Op
from curta.core.partition_spec import entry_axes, entry_of
from curta.primitives.base import Elementwise
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.cumulative import Cumulative
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.convert import (
    BitcastConvertType,
    ConvertElementType,
    Identity,
)
from curta.primitives.elementwise.select import SelectN
from curta.primitives.families import Reduction
from curta.primitives.fft import Fft
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.gather import Gather
from curta.primitives.indexing.windows import WindowUpdate
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.linalg.family import MatrixOp
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.placing import ShardAlike
from curta.primitives.random_bits.ops import FrontBatched
from curta.primitives.reduction import ArgReduction
from curta.primitives.relation import Along, Windowed
from curta.primitives.reshaping import reshape_groups
from curta.primitives.shape import Rev, Squeeze, Tile
from curta.primitives.slicing import Pad, Slice
from curta.primitives.sorting import Sort, TopK
from curta.primitives.split_query import Entries, Query
from curta.primitives.structure import AddAny, BroadcastInDim, Reshape, Transpose
from curta.primitives.windowed.reductions import WindowReduction
from curta.primitives.windowed.selection import (
    SelectAndGatherAdd,
    SelectAndScatterAdd,
)


@functools.singledispatch
def refuse_ambiguous(op: Op, query: Query) -> None:
    """Raise ShardingTypeError where the op's operands are split in conflict."""
    query.refuse(
        f"sharding rule for {op.name} is not implemented. You can work around this"
        " error by dropping that operation into full auto sharding mode via:"
        " `jax.sharding.auto_axes(fun, out_shardings=...)`."
    )


def _accept(op: Op, query: Query) -> None:
    """Any splits will do."""


for _kind in (
    ArgReduction, BroadcastInDim, Identity, Reduction, Reshape, Rev, ShardAlike,
    Squeeze, Transpose, WindowUpdate,
):  # fmt: skip
    refuse_ambiguous.register(_kind, _accept)


def _split_whole(query: Query) -> Iterable[int]:
    """The operands that are split along dims of which the op needs every element."""
    rel = query.relation
    near = {operand for a in rel.along for operand in a.operands}
    for i, (entries, dims) in enumerate(zip(query.entries, rel.operands, strict=True)):
        for d, (entry, dim) in enumerate(zip(entries, dims, strict=True)):
            if entry is not None and not rel.whole.isdisjoint(dim):
                if not isinstance(query.op, TriangularSolve) or (i, d) not in near:
                    yield i
                    break


@refuse_ambiguous.register(Elementwise)
@refuse_ambiguous.register(ConvertElementType)
@refuse_ambiguous.register(AddAny)
def _elementwise(op: Op, query: Query) -> None:
    known: dict[Any, Any] = {}
    for entries, dims in zip(query.entries, query.relation.operands, strict=True):
        for entry, dim in zip(entries, dims, strict=True):
            if entry is not None and known.setdefault(dim, entry) != entry:
                rank = query.outs[0].ndim
                full = (str(e) for e in query.entries if len(e) == rank)
                query.refuse(
                    f"{op.name} got incompatible shardings for broadcasting:"
                    f" {', '.join(full)}."
                )


@refuse_ambiguous.register
def _select(op: SelectN, query: Query) -> None:
    which, *cases = query.entries
    result = {entries for entries in cases if any(entries)}
    if len(result) > 1:
        query.refuse("select cases must have the same shardings.")
    if any(which) and result and which not in result:
        query.refuse(
            "select `which` must be scalar or have the same sharding as cases."
        )


@refuse_ambiguous.register(FrontBatched)
@refuse_ambiguous.register(BitcastConvertType)
def _in_front(op: Op, query: Query) -> None:
    for _ in _split_whole(query):
        query.refuse(f"{op.name} joins the elements of its last dim: use reshard.")


# Along some dims the op needs every element at hand.


@refuse_ambiguous.register
def _cumulative(op: Cumulative, query: Query) -> None:
    for _ in _split_whole(query):
        query.refuse(
            "Input should be unsharded over the axis being reduced: use reshard."
        )


@refuse_ambiguous.register
def _sort(op: Sort, query: Query) -> None:
    for _ in _split_whole(query):
        query.refuse(
            "Arguments to sort must be unsharded over the sorting dimension"
            f" {op.dimension}: use reshard."
        )


@refuse_ambiguous.register
def _greatest(op: TopK, query: Query) -> None:
    for _ in _split_whole(query):
        query.refuse(f"{op.name} must be unsharded over its axis: use reshard.")


@refuse_ambiguous.register
def _fft(op: Fft, query: Query) -> None:
    for _ in _split_whole(query):
        query.refuse("fft must be unsharded over the dims it transforms: use reshard.")


@refuse_ambiguous.register
def _matrices(op: MatrixOp, query: Query) -> None:
    for i in _split_whole(query):
        query.refuse(
            f"Input {i} to {op.name} must be unsharded on non-batch dimensions."
        )
    pairs = zip(query.entries, op.ranks, strict=True)
    _check_batches(op, query, [e[: len(e) - rank] for e, rank in pairs])


def _check_batches(op: Op, query: Query, batches: Sequence[Entries]) -> None:
    if len({*batches}) > 1:
        query.refuse(f"All inputs to {op.name} must have the same batch sharding.")


@refuse_ambiguous.register
def _tile(op: Tile, query: Query) -> None:
    pairs = zip(query.entries[0], op.reps, strict=True)
    for dim, (entry, count) in enumerate(pairs):
        if entry is not None and count != 1:
            query.refuse(
                f"Operand cannot be sharded on dimension {dim} when the tiling is"
                f" non-trivial: reps={op.reps}."
            )


@refuse_ambiguous.register
def _unstack(op: Unstack, query: Query) -> None:
    if query.entries[0][op.axis] is not None:
        query.refuse(
            f"unstack operand cannot be sharded on the unstacking axis {op.axis}. Got"
            f" operand type={query.inputs}",
            names_inputs=True,
        )


@refuse_ambiguous.register
def _triangular_solve(op: TriangularSolve, query: Query) -> None:
    a, b = query.entries
    _check_batches(op, query, [a[:-2], b[:-2]])
    for i in _split_whole(query):
        query.refuse(
            f"triangular solve input `{'ab'[i]}` must be unsharded on the contracting"
            " axis."
        )


@refuse_ambiguous.register
def _convolution(op: ConvGeneralDilated, query: Query) -> None:
    lhs, rhs = query.entries
    if any(rhs) or lhs[op.dimension_numbers.lhs_spec[1]] is not None:
        query.refuse(
            "Please specify the output sharding via `out_sharding` parameter of"
            " `conv_general_dilated`: the kernel or the features are split."
        )
    _resized(op, query)


@refuse_ambiguous.register(Slice)
@refuse_ambiguous.register(Pad)
@refuse_ambiguous.register(DynamicSlice)
@refuse_ambiguous.register(WindowReduction)
@refuse_ambiguous.register(SelectAndGatherAdd)
@refuse_ambiguous.register(SelectAndScatterAdd)
@refuse_ambiguous.register(Split)
def _resized(op: Op, query: Query) -> None:
    """A dim that gets another size must be divisible as before."""
    rel = query.relation
    changed: Sequence[Windowed | Along] = (*rel.windowed, *rel.along)
    for near in changed:
        i, d = near.operands[0]
        entry, size = query.entries[i][d], query.outs[near.number].shape[near.result]
        count = query.size_of(entry_axes(entry))
        if query.avals[i].shape[d] != size and size % count:
            query.refuse(
                f"{_RESIZING.get(op.name, op.name)} on sharded dims where out dim"
                f" ({size}) is not divisible by mesh axes ({count}) with spec"
                f" ({entry}) is not implemented."
            )


_RESIZING = {"slice": "slicing", "pad": "padding"}  # in JAX's words


@refuse_ambiguous.register(Concatenate)
@refuse_ambiguous.register(Stack)
def _join(op: Any, query: Query) -> None:
    if len({e for e in query.entries if any(e)}) > 1:
        query.refuse(f"All operands should have the same sharding in {op.name}.")


@refuse_ambiguous.register
def _dynamic_update(op: DynamicUpdateSlice, query: Query) -> None:
    if query.entries[0] != query.entries[1]:
        query.refuse(
            "dynamic_update_slice operand sharding must be equal to update sharding."
        )


@refuse_ambiguous.register
def _dot(op: DotGeneral, query: Query) -> None:
    contracted, batched = op.dimension_numbers
    lhs, rhs = query.entries
    for what, (left, right) in (("batch", batched), ("contracting", contracted)):
        for i, j in zip(left, right):
            if lhs[i] is not None and rhs[j] is not None:
                if lhs[i] != rhs[j]:
                    query.refuse(
                        f"dot_general requires {what} dimensions to have consistent"
                        f" sharding, got {lhs[i]} and {rhs[j]}."
                    )
                elif what == "contracting":
                    query.refuse(
                        "Contracting dimensions are sharded and it is ambiguous how the"
                        " output should be sharded. Please specify the output sharding"
                        " via the `out_sharding` parameter."
                    )


@refuse_ambiguous.register
def _gather(op: Gather, query: Query) -> None:
    """Neither the gathered dims nor the index dim may be sharded."""
    numbers = op.dimension_numbers
    operand, indices = query.entries
    cut = [d for d, e in enumerate(operand) if e is not None]
    whole = query.relation.whole
    rows = [d for d in cut if not whole.isdisjoint(query.relation.operands[0][d])]
    batched = numbers.start_indices_batching_dims
    listed = [d for d, e in enumerate(indices) if e is not None and d not in batched]
    if listed or any(query.avals[0].shape[d] != 1 for d in rows):
        query.refuse(
            "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the"
            " gather indexing as out sharding could not be resolved unambiguously (or"
            " would require collectives on inputs)."
        )


_RESHAPE = (
    "This reshape is not supported. Please specify the sharding of the output via the"
    " `out_sharding` argument of jax.lax.reshape."
)


def reshaped_entries(query: Query) -> Entries:
    """How a type says that a reshaped array is split.

    One dim may become several, or several one: of those only the first may be split,
    or all in front of a split one. ShardingTypeError for other reshapes.
    """
    before, after = query.avals[0].shape, query.outs[0].shape
    groups = reshape_groups(before, after)
    changed = [(old, new) for old, new in groups if len(old) + len(new) > 2]
    if len(changed) > 1 or any(len(o) > 1 and len(n) > 1 for o, n in changed):
        query.refuse(_RESHAPE)
    result: list[Any] = [None] * len(after)
    for old, new in groups:
        entries = [query.entries[0][d] for d in old]
        while entries and entries[-1] is None:
            entries.pop()
        if None in entries:
            query.refuse(_RESHAPE)
        axes = [name for entry in entries for name in entry_axes(entry)]
        if len(old) == len(new) == 1:
            result[new[0]] = entry_of(axes)
            continue
        for d in new:
            result[d] = entry_of(_taken(query, axes, after[d]))
    return tuple(result)


def _taken(query: Query, axes: list[Any], size: int) -> list[Any]:
    """The axes that split a dim of that size, taken from those that are left."""
    own = []
    while axes and size > 1:
        size, rest = divmod(size, query.size_of(axes[:1]))
        if rest:
            query.refuse(_RESHAPE)
        own.append(axes.pop(0))
    return own
