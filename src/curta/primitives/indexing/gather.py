"""`gather` and `scatter-add`, which are each other's transposes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.dim import min_dim
from curta.core.jaxpr import Jaxpr
from curta.core.key_use import FORWARD, KeyReuseSignature
from curta.core.memo import kept_by_settings
from curta.core.op import BatchDims, Batched, Op
from curta.core.stage import stage
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.dtypes import KeyFill
from curta.primitives.base import Elementwise, check_same_dtypes
from curta.primitives.elementwise import add
from curta.primitives.indexing.numbers import (
    Dims,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    batched_both,
    batched_indices,
    batched_operand,
    check_gather_numbers,
    check_index_dtype,
    check_scatter_numbers,
    window_dims,
    window_sizes,
    windows_shape,
)
from curta.primitives.indexing.windows import (
    WindowUpdate,
    find_windows,
    single_window,
    source_index,
)
from curta.primitives.structure import batch_dim_at, instantiate, move_dim, zeros

CLIP = GatherScatterMode.CLIP
FILL_OR_DROP = GatherScatterMode.FILL_OR_DROP
PROMISE_IN_BOUNDS = GatherScatterMode.PROMISE_IN_BOUNDS


@dataclass(frozen=True)
class Gather(Op):
    """Windows of the operand, starting at the index vectors of the second operand."""

    name: ClassVar[str] = "gather"
    arity: ClassVar[int | None] = 2
    key_signature: ClassVar[KeyReuseSignature | None] = FORWARD
    dimension_numbers: GatherDimensionNumbers
    slice_sizes: Dims
    indices_are_sorted: bool = False
    unique_indices: bool = False
    mode: GatherScatterMode = PROMISE_IN_BOUNDS
    fill_value: Any = None

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        operand, indices = avals
        numbers, sizes = self.dimension_numbers, self.slice_sizes
        check_gather_numbers(numbers, operand, indices)
        if len(sizes) != operand.ndim:
            raise TypeError(
                "Gather op must have one slice size for every input dimension; got:"
                f" len(slice_sizes)={len(sizes)}, input_shape.rank={operand.ndim}"
            )
        if len(window_dims(numbers, operand.ndim)) != len(numbers.offset_dims):
            raise TypeError(
                "All components of the offset index in a gather op must either be a"
                " offset dimension or explicitly collapsed/batching; got"
                f" len(slice_sizes)={len(sizes)}, {numbers}."
            )
        for i, (size, bound) in enumerate(zip(sizes, operand.shape, strict=True)):
            if indices.size and not 0 <= size <= bound:
                raise TypeError(
                    f"Slice size at index {i} in gather op is out of range, must be"
                    f" within [0, {bound} + 1), got {size}."
                )
        for i, d in enumerate(numbers.collapsed_slice_dims):
            if sizes[d] != 1:
                raise TypeError(
                    "Gather op can only collapse slice dims with bound 1, but bound is"
                    f" {sizes[d]} for index {d} at position {i}."
                )
        for i, d in enumerate(numbers.operand_batching_dims):
            if sizes[d] > 1:
                raise TypeError(
                    "Gather op can only have operand batching dims with bound 0/1, but"
                    f" bound is {sizes[d]} for index {d} at position {i}."
                )
        check_index_dtype(self.name, indices)
        return operand.update(shape=windows_shape(numbers, indices.shape, sizes))

    def eval(self, *args: Any) -> Any:
        operand, indices = args
        numbers, sizes = self.dimension_numbers, self.slice_sizes
        fill = self.mode is FILL_OR_DROP
        if indices.ndim == 1:
            source, inside = single_window(operand.shape, indices, numbers, sizes)
            out = operand[source].reshape([sizes[d] for d in self._window(operand)])
            return out if inside or not fill else np.full_like(out, self._fill)
        windows = find_windows(operand, indices, numbers, sizes)
        out = windows.view[windows.picks]
        if fill and windows.inside is not None:
            out[~windows.inside] = self._fill
        return out.transpose(windows.layout)

    @property
    def _fill(self) -> Any:
        """The fill value as arrays store it."""
        value = self.fill_value
        return value.physical if isinstance(value, KeyFill) else value

    def _window(self, operand: Any) -> list[int]:
        return window_dims(self.dimension_numbers, operand.ndim)

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        operand, indices = operands
        source, inside = source_index(
            b, index, operand, indices, self.dimension_numbers, self.slice_sizes
        )
        if self.mode is not FILL_OR_DROP or inside is None:
            return operand.at(source)
        fill = b.const(self._fill, operand.aval.dtype)
        return b.guarded(inside, lambda: operand.at(source), fill)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        operand, indices = primals
        out = self(operand, indices)
        if type(tangents[0]) is Zero:
            return out, zero_tangent(typeof(out))
        fill = 0 if self.mode is FILL_OR_DROP else None
        op = dataclasses.replace(self, fill_value=fill)
        return out, op(tangents[0], indices)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        operand, indices = args
        op = ScatterAdd.of(
            typeof(cotangent).dtype,
            ScatterDimensionNumbers(*self.dimension_numbers),
            self.indices_are_sorted,
            self.unique_indices,
            self.mode,
        )
        start = zeros(ShapedArray(operand.aval.shape, typeof(cotangent).dtype))
        return [op(start, indices, cotangent), None]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (operand, indices), (dim, indices_dim) = args, dims
        changes: dict[str, Any] = {}
        if indices_dim is None:
            numbers = batched_operand(self.dimension_numbers)
            changes["slice_sizes"] = (axis.size, *self.slice_sizes)
        elif dim is None:
            # Different examples may read the same elements, in any order.
            numbers = batched_indices(self.dimension_numbers)
            changes.update(unique_indices=False, indices_are_sorted=False)
        else:
            numbers = batched_both(self.dimension_numbers)
            changes["slice_sizes"] = (min_dim(axis.size, 1), *self.slice_sizes)
        operand = operand if dim is None else move_dim(operand, dim, 0)
        indices = indices if indices_dim is None else move_dim(indices, indices_dim, 0)
        op = dataclasses.replace(self, dimension_numbers=numbers, **changes)
        return op(operand, indices), 0

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        operand, indices = args
        axes = self.dimension_numbers.start_index_map
        checker.starts(self, operand, indices, axes, self.slice_sizes)
        return self(operand, indices)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        rows = GatherDimensionNumbers((1,), (0,), (0,))
        for mode, fill in ((CLIP, None), (FILL_OR_DROP, 0)):
            op = cls(rows, (1, 3), mode=mode, fill_value=fill)
            yield op, [((4, 3), "any"), ((5, 1), "index")]
        inside = ("index", {"low": 0, "high": 2})
        yield cls(rows, (1, 3)), [((4, 3), "any"), ((5, 1), *inside)]
        pair = GatherDimensionNumbers((), (0, 1), (1, 0))
        yield cls(pair, (1, 1)), [((3, 4), "any"), ((2, 3, 2), *inside)]
        window = GatherDimensionNumbers((0, 2), (), (1,))
        yield cls(window, (2, 2)), [((2, 5), "any"), ((3, 1), *inside)]
        batched = GatherDimensionNumbers((1,), (), (1,), (0,), (0,))
        yield cls(batched, (1, 2)), [((3, 4), "any"), ((3, 1), *inside)]
        yield cls(rows, (1, 3)), [((4, 3), "any"), ((0, 1), "index")]
        scalar = GatherDimensionNumbers((), (0,), (0,))
        yield cls(scalar, (1,)), [((4,), "any"), ((1,), *inside)]


@dataclass(frozen=True)
class Scattering(WindowUpdate):
    """The operand with windows of it combined with updates.

    Operands: the operand, the index vectors where the windows start, the updates.
    A subclass says how elements are combined: `element_op`, None for replacing.
    `update_jaxpr`, which jaxprs show, says it again.
    """

    has_index_arrays: ClassVar[bool] = True
    arity: ClassVar[int | None] = 3
    param_names: ClassVar[Mapping[str, str | None]] = {"update_consts": None}
    sampled: ClassVar[tuple[Any, ...]] = ("number",)
    element_op: ClassVar[Elementwise | None] = None
    holds_jaxprs: ClassVar[bool] = True
    dimension_numbers: ScatterDimensionNumbers
    indices_are_sorted: bool = False
    unique_indices: bool = False
    mode: GatherScatterMode = FILL_OR_DROP
    update_jaxpr: Jaxpr | None = None

    @classmethod
    def of(cls, dtype: Any, *fields: Any, **named: Any) -> Any:
        """The op on arrays of `dtype`."""
        op = cls.element_op
        jaxpr = None if op is None else _scalar_jaxpr(op, dtype)
        return cls(*fields, **{**named, "update_jaxpr": jaxpr})

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        operand, indices, updates = avals
        numbers = self.dimension_numbers
        check_scatter_numbers(numbers, operand, indices, updates)
        gathered = self.gather_numbers()
        window = window_dims(gathered, operand.ndim)
        for dim, d in zip(numbers.update_window_dims, window, strict=True):
            if updates.shape[dim] > operand.shape[d]:
                raise TypeError(
                    "Bounds of the window dimensions of updates must not exceed the"
                    " bounds of the corresponding dimensions of operand. For dimension"
                    f" {dim}, updates bound is {updates.shape[dim]}, operand bound"
                    f" is {operand.shape[d]}."
                )
        sizes = window_sizes(gathered, updates.shape, operand.ndim)
        wanted = windows_shape(gathered, indices.shape, sizes)
        if updates.shape != wanted:
            raise TypeError(
                "Bounds of the scatter dimensions of updates must be the same as the"
                " bounds of the corresponding dimensions of scatter indices. Updates"
                f" have shape {updates.shape}, the indices ask for {wanted}."
            )
        check_index_dtype("scatter", indices)
        check_same_dtypes("scatter", [operand.dtype, updates.dtype])
        return operand

    def eval(self, *args: Any) -> Any:
        operand, indices, updates = args
        numbers = self.gather_numbers()
        sizes = window_sizes(numbers, updates.shape, operand.ndim)
        out, op = operand.copy(), self.element_op
        if not out.size:
            return out
        if indices.ndim == 1:
            source, inside = single_window(out.shape, indices, numbers, sizes)
            if inside or self.mode is CLIP:
                window = out[source]
                updates = updates.reshape(window.shape)
                if op is not None:
                    updates = op.ufunc(window, updates)
                out[source] = updates
            return out
        windows = find_windows(out, indices, numbers, sizes)
        inverse = np.argsort(windows.layout) if windows.layout else ()
        updates, picks = updates.transpose(inverse), windows.picks
        if windows.inside is not None and self.mode is not CLIP:
            shape = windows.picks[0].shape
            picks = tuple(np.broadcast_to(p, shape)[windows.inside] for p in picks)
            updates = updates[windows.inside]
        if op is None:
            windows.view[picks] = updates
        else:
            op.ufunc.at(windows.view, picks, updates)
        return out

    def update_shape(self, *avals: ShapedArray) -> Dims:
        return avals[2].shape

    def lower_update(
        self, b: Any, index: tuple[Any, ...], *operands: Any
    ) -> tuple[tuple[Any, ...], Any, Any]:
        operand, indices, updates = operands
        numbers = self.gather_numbers()
        sizes = window_sizes(numbers, updates.aval.shape, operand.aval.ndim)
        clip = self.mode is CLIP
        source, inside = source_index(b, index, operand, indices, numbers, sizes, clip)
        new = updates.at(index)
        op = self.element_op
        return (
            source,
            None if clip else inside,
            lambda old: new if op is None else self.combined(b, old, new),
        )

    def combined(self, b: Any, old: Any, new: Any) -> Any:
        """An element with an update."""
        assert self.element_op is not None
        return self.element_op.scalar(b, old, new)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (operand, indices, updates), (dim, indices_dim, updates_dim) = args, dims
        operand = batch_dim_at(operand, dim, axis.size, 0)
        updates = batch_dim_at(updates, updates_dim, axis.size, 0)
        numbers = self.gather_numbers()
        if indices_dim is None:
            numbers = batched_operand(numbers)
        else:
            numbers = batched_both(numbers)
            indices = move_dim(indices, indices_dim, 0)
        op = dataclasses.replace(
            self, dimension_numbers=ScatterDimensionNumbers(*numbers)
        )
        return op(operand, indices, updates), 0

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        operand, indices, updates = args
        numbers = self.gather_numbers()
        aval = typeof(operand)
        sizes = window_sizes(numbers, typeof(updates).shape, aval.ndim)
        checker.starts(self, operand, indices, numbers.start_index_map, sizes)
        return super().checkify(checker, args)

    def params(self) -> dict[str, Any]:
        return {**super().params(), "update_consts": ()}

    @classmethod
    def samples(cls) -> Iterator[Any]:
        # Their indices are distinct.
        dtype, kind = np.dtype("float32"), cls.sampled
        rows = ScatterDimensionNumbers((1,), (0,), (0,))
        for mode, starts in (CLIP, [2, 0]), (FILL_OR_DROP, [1, 9]):
            yield (
                cls.of(dtype, rows, unique_indices=True, mode=mode),
                [((3, 2), *kind), _fixed(starts, (2, 1)), ((2, 2), *kind)],
            )
        window = ScatterDimensionNumbers((0, 1), (), (1,))
        yield (
            cls.of(dtype, window, unique_indices=True),
            [((2, 5), *kind), _fixed([2], (1,)), ((2, 2), *kind)],
        )
        batched = ScatterDimensionNumbers((1,), (), (1,), (0,), (0,))
        yield (
            cls.of(dtype, batched, unique_indices=True),
            [((2, 4), *kind), _fixed([1, 0], (2, 1)), ((2, 2), *kind)],
        )
        scalar = ScatterDimensionNumbers((), (0,), (0,))
        yield (
            cls.of(dtype, scalar, unique_indices=True),
            [((3,), *kind), _fixed([1], (1,)), ((), *kind)],
        )
        yield (
            cls.of(dtype, rows, unique_indices=True),
            [((3, 2), *kind), _fixed([], (0, 1)), ((0, 2), *kind)],
        )

    # ---- for the derivatives

    def gather_numbers(self) -> GatherDimensionNumbers:
        """The numbers of the gather that reads what this writes."""
        return GatherDimensionNumbers(*self.dimension_numbers)

    def gathered(self, x: Any, indices: Any, updates: ShapedArray, **how: Any) -> Any:
        """What `x`, like the operand, has where updates like `updates` go."""
        numbers = self.gather_numbers()
        sizes = window_sizes(numbers, updates.shape, typeof(x).ndim)
        return Gather(numbers, sizes, **how)(x, indices)

    def cotangent_of_updates(self, ct: Any, indices: Any, updates: Any) -> Any:
        """What `ct`, like the output, has where the updates went; 0 if dropped."""
        fill = 0 if self.mode is FILL_OR_DROP else None
        return self.gathered(ct, indices, updates.aval, mode=self.mode, fill_value=fill)


class ScatterSum(Scattering):
    """What scatter-add and scatter-sub share: linear in operand and updates."""

    makes_nan: ClassVar[bool] = True

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        operand, indices, updates = primals
        out = self(operand, indices, updates)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, zero_tangent(typeof(out))
        return out, self(instantiate(tangents[0]), indices, instantiate(tangents[2]))


@dataclass(frozen=True)
class ScatterAdd(ScatterSum):
    """The updates are added; several to one element are all added."""

    name: ClassVar[str] = "scatter-add"
    element_op: ClassVar[Elementwise | None] = add

    def combined(self, b: Any, old: Any, new: Any) -> Any:
        return b.sum(old, new)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        operand, indices, updates = args
        return [
            cotangent if is_linear(operand) else None,
            None,
            self.cotangent_of_updates(cotangent, indices, updates)
            if is_linear(updates)
            else None,
        ]


@kept_by_settings(maxsize=128)
def _scalar_jaxpr(op: Op, dtype: Any) -> Jaxpr:
    """The jaxpr of `op` on two scalars of `dtype`."""
    scalar = ShapedArray((), dtype)
    return stage(lambda x, y: [op(x, y)], [scalar, scalar]).jaxpr


def _fixed(values: list[int], shape: Dims) -> Any:
    return shape, "int32", {"values": values}
