"""How the outputs of an op are split over mesh axes, given how its operands are.

An array's split is a tuple with an entry for each dim, as in a `PartitionSpec`. The
same rules serve types (arrays split over explicit axes carry the split in their aval)
and the runtime, which records where results of arrays on several devices are. Types
are strict: where the answer is ambiguous they raise ShardingTypeError. The runtime
takes a fair guess, as a compiler may.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.core.partition_spec import entry_axes, entry_of
from curta.errors import ShardingTypeError
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
from curta.primitives.factors import factors
from curta.primitives.families import Reduction
from curta.primitives.fft import Fft
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.gather import Gather
from curta.primitives.indexing.numbers import window_dims
from curta.primitives.indexing.windows import WindowUpdate
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.linalg.family import MatrixOp
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.placing import ShardAlike
from curta.primitives.random_bits.ops import FrontBatched
from curta.primitives.reduction import ArgReduction
from curta.primitives.reshaping import reshape_groups
from curta.primitives.shape import Rev, Squeeze, Tile
from curta.primitives.slicing import Pad, Slice
from curta.primitives.sorting import Sort, TopK
from curta.primitives.structure import (
    AddAny,
    BroadcastInDim,
    Reshape,
    Transpose,
)
from curta.primitives.windowed.reductions import WindowReduction

Entries = tuple[Any, ...]
Sizes = Callable[[Sequence[Any]], int]


class Query:
    """The operands of an op, how they are split, and the avals of its outputs."""

    def __init__(
        self,
        op: Op,
        avals: Sequence[ShapedArray],
        entries: Sequence[Entries],
        outs: Sequence[ShapedArray],
        size_of: Sizes,
        strict: bool,
    ):
        self.op: Any = op
        self.avals = avals
        self.entries = entries
        self.outs = outs
        self.size_of = size_of
        self.strict = strict

    def refuse(self, problem: str, *, names_inputs: bool = False) -> None:
        """Raise ShardingTypeError, unless a guess will do."""
        if self.strict:
            inputs = "" if names_inputs else f" Got inputs: {self.inputs}."
            raise ShardingTypeError(problem + inputs)

    @property
    def inputs(self) -> str:
        """The types of the operands as an error shows them."""
        return ", ".join(map(self.shown, self.avals, self.entries))

    def shown(self, aval: ShapedArray, entries: Entries) -> str:
        """The type of an operand as an error shows it."""
        dims = ",".join(
            str(n) if e is None else f"{n}@{_axes_text(e)}"
            for n, e in zip(aval.shape, entries, strict=True)
        )
        return aval.update(shape=()).unplaced().str_short(True)[:-1] + dims + "]"

    def joined(self, found: Sequence[Any]) -> tuple[Any, bool]:
        """The entry on which operands agree, and whether they do."""
        kinds = list(dict.fromkeys(e for e in found if e is not None))
        return (kinds[0] if kinds else None), len(kinds) < 2


def _axes_text(entry: Any) -> str:
    axes = entry_axes(entry)
    return str(axes[0]) if len(axes) == 1 else f"({','.join(map(str, axes))})"


def out_entries(query: Query) -> list[Entries]:
    """How each output is split.

    Raises ShardingTypeError where that is ambiguous and the query is strict.
    """
    if not any(any(e) for e in query.entries):
        return [(None,) * a.ndim for a in query.outs]
    found = _rule(query.op, query)
    return [_possible(query, e, a) for e, a in zip(found, query.outs, strict=True)]


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


# ---- the rules, by class


@functools.singledispatch
def _rule(op: Op, query: Query) -> list[Entries]:
    query.refuse(
        f"sharding rule for {op.name} is not implemented. You can work around this"
        " error by dropping that operation into full auto sharding mode via:"
        " `jax.sharding.auto_axes(fun, out_shardings=...)`."
    )
    return _by_factors(op, query)


def _by_factors(op: Op, query: Query) -> list[Entries]:
    """Dims of results are split as the operands' dims that they are made of."""
    rel = factors(op, query.avals, query.outs)
    known: dict[Any, Any] = {}
    for i, (entries, dims) in enumerate(zip(query.entries, rel.operands, strict=True)):
        for d, (entry, dim) in enumerate(zip(entries, dims, strict=True)):
            if entry is not None:
                known[i, d] = entry
                known.setdefault(dim, entry)
    found = []
    for dims in rel.results:
        entries = [known.get(dim) for dim in dims]
        for window in rel.windowed:
            made_of = (known.get(place) for place in window.operands)
            entry = next((e for e in made_of if e is not None), None)
            entries[window.result] = entries[window.result] or entry
        found.append(tuple(entries))
    return found


@_rule.register(Elementwise)
@_rule.register(ConvertElementType)
@_rule.register(AddAny)
def _elementwise(op: Op, query: Query) -> list[Entries]:
    (out,) = query.outs
    pairs = zip(query.entries, query.avals)
    full = [(e, a.shape) for e, a in pairs if a.ndim == out.ndim]
    result = []
    for d, size in enumerate(out.shape):
        column = [e[d] for e, shape in full if shape[d] == size]
        entry, agree = query.joined(column)
        if not agree:
            query.refuse(
                f"{op.name} got incompatible shardings for broadcasting:"
                f" {', '.join(str(e) for e, _ in full)}."
            )
        result.append(entry)
    return [tuple(result)]


@_rule.register
def _select(op: SelectN, query: Query) -> list[Entries]:
    which, *cases = query.entries
    found = {entries for entries in cases if any(entries)}
    if len(found) > 1:
        query.refuse("select cases must have the same shardings.")
    if any(which) and found and which not in found:
        query.refuse(
            "select `which` must be scalar or have the same sharding as cases."
        )
    return _elementwise(op, query)


@_rule.register
def _broadcast(op: BroadcastInDim, query: Query) -> list[Entries]:
    result: list[Any] = [None] * len(op.shape)
    source = query.avals[0].shape
    for d, size, entry in zip(op.broadcast_dimensions, source, query.entries[0]):
        if size == op.shape[d]:
            result[d] = entry
    return [tuple(result)]


def _without(entries: Entries, dims: Sequence[int]) -> Entries:
    return tuple(e for d, e in enumerate(entries) if d not in dims)


@_rule.register(Reduction)
@_rule.register(ArgReduction)
def _reduction(op: Any, query: Query) -> list[Entries]:
    return [_without(query.entries[0], op.axes)]


@_rule.register
def _transpose(op: Transpose, query: Query) -> list[Entries]:
    return [tuple(query.entries[0][d] for d in op.permutation)]


@_rule.register
def _squeeze(op: Squeeze, query: Query) -> list[Entries]:
    rank = query.avals[0].ndim
    return [_without(query.entries[0], [d % rank for d in op.dimensions])]


@_rule.register
def _alike(op: ShardAlike, query: Query) -> list[Entries]:
    first, second = query.entries
    return [first if any(first) else second] * 2


@_rule.register(Identity)
@_rule.register(Rev)
def _same(op: Op, query: Query) -> list[Entries]:
    return [query.entries[0]]


@_rule.register(FrontBatched)
@_rule.register(BitcastConvertType)
def _in_front(op: Op, query: Query) -> list[Entries]:
    """Elements in front; behind them there may be dims for what each is made of."""
    (entries,), (out,) = query.entries, query.outs
    if any(entries[out.ndim :]):
        query.refuse(f"{op.name} joins the elements of its last dim: use reshard.")
    return [(*entries, *[None] * out.ndim)[: out.ndim]]


# Along some dims the op needs every element at hand.


@_rule.register
def _cumulative(op: Cumulative, query: Query) -> list[Entries]:
    if query.entries[0][op.axis] is not None:
        query.refuse(
            "Input should be unsharded over the axis being reduced: use reshard."
        )
    return [query.entries[0]]


@_rule.register
def _sort(op: Sort, query: Query) -> list[Entries]:
    for entries in query.entries:
        if entries[op.dimension] is not None:
            query.refuse(
                "Arguments to sort must be unsharded over the sorting dimension"
                f" {op.dimension}: use reshard."
            )
    return list(query.entries)


@_rule.register
def _greatest(op: TopK, query: Query) -> list[Entries]:
    if query.entries[0][op.axis] is not None:
        query.refuse(f"{op.name} must be unsharded over its axis: use reshard.")
    return [query.entries[0]] * 2


@_rule.register
def _fft(op: Fft, query: Query) -> list[Entries]:
    (entries,) = query.entries
    batch = len(entries) - len(op.fft_lengths)
    if any(entries[batch:]):
        query.refuse("fft must be unsharded over the dims it transforms: use reshard.")
    return [entries[:batch] + (None,) * len(op.fft_lengths)]


@_rule.register
def _matrices(op: MatrixOp, query: Query) -> list[Entries]:
    batches = []
    for i, (entries, rank) in enumerate(zip(query.entries, op.ranks, strict=True)):
        batches.append(entries[: len(entries) - rank])
        if any(entries[len(entries) - rank :]):
            query.refuse(
                f"Input {i} to {op.name} must be unsharded on non-batch dimensions."
            )
    _check_batches(op, query, batches)
    batch = max(batches, key=lambda entries: sum(map(bool, entries)))
    return [batch + (None,) * (out.ndim - len(batch)) for out in query.outs]


def _check_batches(op: Op, query: Query, batches: Sequence[Entries]) -> None:
    if len({*batches}) > 1:
        query.refuse(f"All inputs to {op.name} must have the same batch sharding.")


@_rule.register
def _triangular_solve(op: TriangularSolve, query: Query) -> list[Entries]:
    a, b = query.entries
    _check_batches(op, query, [a[:-2], b[:-2]])
    flipped = op.left_side ^ op.transpose_a
    for name, entry in (("a", a[-2:][flipped]), ("b", b[-2:][not op.left_side])):
        if entry is not None:
            query.refuse(
                f"triangular solve input `{name}` must be unsharded on the contracting"
                " axis."
            )
    rows, columns = a[-2:][op.transpose_a], b[-1]
    if not op.left_side:
        rows, columns = b[-2], a[-2:][not op.transpose_a]
    return [(*b[:-2], rows, columns)]


@_rule.register
def _convolution(op: ConvGeneralDilated, query: Query) -> list[Entries]:
    lhs, rhs = query.entries
    numbers, (out,) = op.dimension_numbers, query.outs
    if any(rhs) or lhs[numbers.lhs_spec[1]] is not None:
        if not query.strict:
            return _by_factors(op, query)
        query.refuse(
            "Please specify the output sharding via `out_sharding` parameter of"
            " `conv_general_dilated`: the kernel or the features are split."
        )
    result: list[Any] = [None] * out.ndim
    for d, to in zip(numbers.lhs_spec, numbers.out_spec, strict=True):
        if d != numbers.lhs_spec[1]:
            _check_resized(query, query.avals[0].shape[d], out.shape[to], lhs[d])
            result[to] = lhs[d]
    return [tuple(result)]


@_rule.register(Slice)
@_rule.register(Pad)
@_rule.register(DynamicSlice)
@_rule.register(WindowReduction)
def _resized(op: Op, query: Query) -> list[Entries]:
    source, entries, (out,) = query.avals[0].shape, query.entries[0], query.outs
    for before, after, entry in zip(source, out.shape, entries):
        _check_resized(query, before, after, entry)
    return [entries]


_RESIZING = {"slice": "slicing", "pad": "padding"}  # in JAX's words


def _check_resized(query: Query, before: int, after: int, entry: Any) -> None:
    count = query.size_of(entry_axes(entry))
    if before != after and after % count:
        query.refuse(
            f"{_RESIZING.get(query.op.name, query.op.name)} on sharded dims where out"
            f" dim ({after}) is not divisible by mesh axes ({count}) with spec"
            f" ({entry}) is not implemented."
        )


@_rule.register
def _split(op: Split, query: Query) -> list[Entries]:
    entries = query.entries[0]
    for size in op.sizes:
        count = query.size_of(entry_axes(entries[op.axis]))
        if size % count:
            query.refuse(
                f"split on sharded dims where out dim ({size}) is not divisible by mesh"
                f" axes ({count}) with spec ({entries[op.axis]}) is not implemented."
            )
    return [entries] * len(query.outs)


@_rule.register(Concatenate)
@_rule.register(Stack)
def _join(op: Any, query: Query) -> list[Entries]:
    found = [e for e in dict.fromkeys(query.entries) if any(e)]
    if len(found) > 1:
        query.refuse(f"All operands should have the same sharding in {op.name}.")
    entries = found[0]
    if isinstance(op, Stack):
        entries = (*entries[: op.axis], None, *entries[op.axis :])
    return [entries]


@_rule.register
def _tile(op: Tile, query: Query) -> list[Entries]:
    pairs = zip(query.entries[0], op.reps, strict=True)
    return [tuple(e if count == 1 else None for e, count in pairs)]


@_rule.register
def _unstack(op: Unstack, query: Query) -> list[Entries]:
    return [_without(query.entries[0], [op.axis])] * len(query.outs)


@_rule.register
def _dynamic_update(op: DynamicUpdateSlice, query: Query) -> list[Entries]:
    if query.entries[0] != query.entries[1]:
        query.refuse(
            "dynamic_update_slice operand sharding must be equal to update sharding."
        )
    return [query.entries[0]]


@_rule.register
def _dot(op: DotGeneral, query: Query) -> list[Entries]:
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
    batch = tuple(
        query.joined([lhs[i], rhs[j]])[0] for i, j in zip(*batched, strict=True)
    )
    free_lhs = _without(lhs, [*contracted[0], *batched[0]])
    free_rhs = _without(rhs, [*contracted[1], *batched[1]])
    return [batch + free_lhs + free_rhs]


@_rule.register
def _gather(op: Gather, query: Query) -> list[Entries]:
    numbers, (out,) = op.dimension_numbers, query.outs
    operand, indices = query.entries
    result: list[Any] = [None] * out.ndim
    source = query.avals[0]
    whole = window_dims(numbers, source.ndim)
    for out_dim, dim in zip(numbers.offset_dims, whole, strict=True):
        if op.slice_sizes[dim] == source.shape[dim]:
            result[out_dim] = operand[dim]
        elif operand[dim] is not None:
            _gather_refused(query)
    for dim in (*numbers.collapsed_slice_dims,):
        if operand[dim] is not None and source.shape[dim] != 1:
            _gather_refused(query)
    rest = [d for d in range(out.ndim) if d not in numbers.offset_dims]
    batched = numbers.start_indices_batching_dims
    if any(e is not None for d, e in enumerate(indices) if d not in batched):
        _gather_refused(query)
    for out_dim, entry in zip(rest, indices):
        result[out_dim] = entry
    pairs = zip(numbers.start_indices_batching_dims, numbers.operand_batching_dims)
    for i, d in pairs:
        result[rest[i]] = query.joined([indices[i], operand[d]])[0]
    return [tuple(result)]


def _gather_refused(query: Query) -> None:
    query.refuse(
        "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the"
        " gather indexing as out sharding could not be resolved unambiguously (or"
        " would require collectives on inputs)."
    )


@_rule.register
def _scatter(op: WindowUpdate, query: Query) -> list[Entries]:
    return [query.entries[0]]


@_rule.register
def _reshape(op: Reshape, query: Query) -> list[Entries]:
    found = reshaped(query.avals[0].shape, op.shape, query.entries[0], query.size_of)
    if found is None:
        query.refuse(
            "This reshape is not supported. Please specify the sharding of the output"
            " via the `out_sharding` argument of jax.lax.reshape."
        )
    return [(None,) * len(op.shape) if found is None else found]


def reshaped(
    before: Sequence[int], after: Sequence[int], entries: Entries, size_of: Sizes
) -> Entries | None:
    """The split after a reshape, in groups of dims that hold the same elements.

    Within a group the axes go to its new dims from the first on, as many as each can
    be split over; None if that would move elements between devices.
    """
    result: list[Any] = [None] * len(after)
    for old, new in reshape_groups(before, after):
        axes: list[Any] = []
        open_dim = False
        for d in old:
            found = entry_axes(entries[d])
            if found and open_dim:
                return None
            axes += found
            open_dim = open_dim or size_of(found) < before[d]
        for d in new:
            size, taken = after[d], []
            while axes and size > 1:
                if size % size_of(axes[:1]):
                    return None
                size //= size_of(axes[:1])
                taken.append(axes.pop(0))
            result[d] = entry_of(taken)
            if size > 1:
                break
        if axes:
            return None
    return tuple(result)
