"""`x[...]`: an index becomes a static slice, a dynamic slice, or a gather.

The first of them that can express the index is taken: known integers and slices are
a static slice; scalars that are only known later, a dynamic slice; the rest, a
gather. Indices out of bounds are clamped, as compiled code cannot raise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.lazy_dataclass import dataclass
from curta.config import config
from curta.core.array import Array
from curta.core.dim import (
    is_symbolic_dim,
    max_dim,
    min_dim,
    range_length,
    slice_bounds,
    surely,
)
from curta.core.trace import Tracer
from curta.lax.index_types import fitting_dtype, fitting_indices
from curta.numpy.arguments import concrete, index_dtype
from curta.numpy.constructors import asarray
from curta.numpy.index_parsing import (
    EntryKind,
    IndexEntry,
    check_bounds,
    check_entries,
    check_slices,
    expand_ellipsis,
    expand_masks,
    expand_scalar_masks,
    parse,
)
from curta.numpy.promotion import cast, const
from curta.numpy.selection import broadcast_all

_NEVER_STATIC = (EntryKind.ARRAY, EntryKind.BOOLEAN, EntryKind.WINDOW)
_PROMISED = (None, "promise_in_bounds", lax.GatherScatterMode.PROMISE_IN_BOUNDS)
_CLIPPED = ("clip", lax.GatherScatterMode.CLIP)


def getitem(
    x: Any,
    index: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    fill_value: Any = None,
    wrap_negative: bool = True,
) -> Array:
    """The elements of `x` at `index`; the meaning of `x[index]` and `x.at[].get()`."""
    entries = parse(index, x.shape)
    fill = None if fill_value is None else _fill_value(fill_value, x.dtype)
    # A name that is no mode is an error of the gather, if there is to be one.
    promised, clipped = mode in _PROMISED, mode in _CLIPPED
    if promised:
        if config.jax_check_static_indices:
            check_bounds(entries, x.shape, wrap_negative)
        check_entries(entries, x.shape, wrap_negative)
    if promised or clipped:
        plan = _static_slice(entries, x.shape, clipped, wrap_negative)
        if plan is not None:
            return plan.apply(x)
        moving = _dynamic_slice(entries, x.shape)
        if moving is not None:
            return moving.apply(x, wrap_negative)
    entries = expand_masks(entries, x.shape)
    gather = plan_gather(entries, x.shape, wrap_negative)
    return _apply_gather(x, gather, indices_are_sorted, unique_indices, mode, fill)


def _fill_value(value: Any, dtype: Any) -> Any:
    value = concrete(value, "fill_value argument to indexed get()")
    if np.ndim(value) != 0:
        raise ValueError("fill_value argument to indexed get() must be a scalar")
    dtypes.dtype(value)  # TypeError for what is no number
    if isinstance(value, complex):
        np.asarray(value, dtype)  # TypeError for real dtypes
    return value.item() if hasattr(value, "item") else value


# ---- slices


@dataclasses.dataclass
class _Shaping:
    """What is left to do after a slice was taken."""

    reverse: list[int] = dataclasses.field(default_factory=list)
    squeeze: list[int] = dataclasses.field(default_factory=list)
    new: list[int] = dataclasses.field(default_factory=list)

    def apply(self, x: Any) -> Any:
        if self.reverse:
            x = lax.rev(x, self.reverse)
        if self.squeeze:
            x = lax.squeeze(x, self.squeeze)
        return lax.expand_dims(x, self.new) if self.new else x


@dataclasses.dataclass
class _StaticSlice:
    starts: list[int] = dataclasses.field(default_factory=list)
    limits: list[int] = dataclasses.field(default_factory=list)
    strides: list[int] = dataclasses.field(default_factory=list)
    shaping: _Shaping = dataclasses.field(default_factory=_Shaping)

    def take(self, start: int, limit: int, stride: int) -> None:
        self.starts.append(start)
        self.limits.append(limit)
        self.strides.append(stride)

    def apply(self, x: Any) -> Any:
        strides = None if all(s == 1 for s in self.strides) else self.strides
        first = all(start == 0 for start in self.starts)
        whole = first and tuple(self.limits) == x.shape
        if strides is not None or not whole:
            x = lax.slice(x, self.starts, self.limits, strides)
        return self.shaping.apply(x)


def _static_slice(
    entries: Sequence[IndexEntry], shape: tuple[int, ...], clip: bool, wrap: bool
) -> _StaticSlice | None:
    """The index as a static slice, if it is one and within bounds (or clipped)."""
    if any(entry.kind in _NEVER_STATIC for entry in entries):
        return None
    plan = _StaticSlice()
    for entry in expand_ellipsis(entries, len(shape)):
        if entry.kind is EntryKind.NEW:
            _new_dim(plan.shaping, len(plan.starts))
            continue
        (axis,) = entry.axes
        size = shape[axis]
        if entry.kind is EntryKind.INTEGER:
            i = int(entry.value)
            i += size if wrap and i < 0 else 0
            if size == 0 or not (clip or _within(i, size)):
                return None
            i = min_dim(max_dim(i, 0), size - 1)
            plan.take(i, i + 1, 1)
            plan.shaping.squeeze.append(axis)
            continue
        if _has_tracer(entry.value):
            return None
        start, limit, stride, backwards = _ascending(entry.value, size)
        plan.take(start, limit, stride)
        if backwards:
            plan.shaping.reverse.append(axis)
    return plan


def _within(i: int, size: Any) -> bool:
    return surely(lambda: 0 <= i < size)


def _new_dim(shaping: _Shaping, dims_seen: int) -> None:
    shaping.new.append(dims_seen - len(shaping.squeeze) + len(shaping.new))


def _has_tracer(part: slice) -> bool:
    return any(isinstance(x, Tracer) for x in (part.start, part.stop, part.step))


def _ascending(part: slice, size: int) -> tuple[int, int, int, bool]:
    """start, limit, positive stride, and whether the result is to be reversed."""
    start, stop, stride = slice_bounds(part, size)
    if stride > 0:
        return start, max_dim(start, stop), stride, False
    span = start - stop - 1
    span = max_dim(span, 0) if is_symbolic_dim(span) else abs(span)
    first = min_dim(size, stop + 1 + span % -stride)
    return first, max_dim(first, start + 1), -stride, True


@dataclasses.dataclass
class _DynamicSlice:
    starts: list[Any] = dataclasses.field(default_factory=list)
    sizes: list[int] = dataclasses.field(default_factory=list)
    shaping: _Shaping = dataclasses.field(default_factory=_Shaping)

    def apply(self, x: Any, wrap: bool) -> Any:
        starts = self.starts
        if len(starts) > 1:
            dtype = index_dtype(*x.shape)
            starts = [_moving_index(i, dtype) for i in starts]
        if any(isinstance(i, Tracer) for i in starts):
            # As arrays, known starts are wrapped in the jaxpr too, as users know it.
            starts = [i if isinstance(i, Tracer) else np.asarray(i) for i in starts]
        x = lax.dynamic_slice(x, starts, self.sizes, allow_negative_indices=wrap)
        return self.shaping.apply(x)


def _moving_index(i: Any, dtype: Any) -> Any:
    i = cast(i, dtype)
    return i if isinstance(i, Array) else asarray(i)


def _dynamic_slice(
    entries: Sequence[IndexEntry], shape: tuple[int, ...]
) -> _DynamicSlice | None:
    """The index as a dynamic slice, if it has only scalars and steps of one."""
    plan = _DynamicSlice()
    for entry in expand_ellipsis(entries, len(shape)):
        if entry.kind is EntryKind.NEW:
            _new_dim(plan.shaping, len(plan.starts))
            continue
        if entry.kind is EntryKind.BOOLEAN or 0 in shape:
            return None
        (axis,) = entry.axes
        if entry.kind is EntryKind.WINDOW:
            if entry.value.stride != 1:
                return None
            plan.starts.append(asarray(entry.value.start))
            plan.sizes.append(entry.value.size)
            continue
        if np.ndim(entry.value):
            return None
        if entry.kind is not EntryKind.SLICE:
            plan.starts.append(asarray(entry.value))
            plan.sizes.append(1)
            plan.shaping.squeeze.append(axis)
            continue
        part = entry.value
        if _has_tracer(part) or part.step not in (None, 1, -1):
            return None
        start, limit, _, backwards = _ascending(part, shape[axis])
        plan.starts.append(start)
        plan.sizes.append(limit - start)
        if backwards:
            plan.shaping.reverse.append(axis)
    return plan


# ---- gather


@dataclass(frozen=True)
class GatherPlan:
    """An index as a gather (or, with the same numbers, a scatter)."""

    indices: Any
    numbers: Any  # GatherDimensionNumbers
    slice_sizes: tuple[int, ...]
    slice_shape: tuple[int, ...]  # of the result, with its new dims
    reversed_dims: tuple[int, ...]
    new_dims: tuple[int, ...]
    mask_dims: tuple[int, ...]  # dims of size 1 to add to the array first
    ascending: bool  # the indices are sorted and distinct


def plan_gather(
    entries: Sequence[IndexEntry], shape: tuple[int, ...], wrap: bool
) -> GatherPlan:
    """The gather for entries without masks of rank 1 or more."""
    check_slices(entries)
    advanced = [
        i
        for i, e in enumerate(entries)
        if e.kind in (EntryKind.ARRAY, EntryKind.INTEGER)
    ]
    contiguous = all(b - a == 1 for a, b in zip(advanced, advanced[1:]))
    entries = expand_ellipsis(entries, len(shape))
    mask_dims = tuple(i for i, e in enumerate(entries) if e.kind is EntryKind.BOOLEAN)
    entries, shape = expand_scalar_masks(entries, shape)
    if wrap:
        entries = [_wrapped(entry, shape) for entry in entries]
    return _GatherPlanner(entries, shape, contiguous).plan(mask_dims)


def _wrapped(entry: IndexEntry, shape: tuple[int, ...]) -> IndexEntry:
    """The entry with negative indices counted from the end."""
    i = entry.value
    if entry.kind is EntryKind.INTEGER:
        (axis,) = entry.axes
        i = i + shape[axis] if i < 0 else i
    elif entry.kind is EntryKind.ARRAY:
        (axis,) = entry.axes
        i = i if isinstance(i, np.ndarray) else asarray(i)
        if not dtypes.issubdtype(i.dtype, np.unsignedinteger):
            i = wrap_negative(i, shape[axis])
    return dataclasses.replace(entry, value=i)


def wrap_negative(i: Any, size: int) -> Any:
    """Indices with negative ones counted from the end of a dim of `size`."""
    if isinstance(i, np.ndarray):
        canonical = dtypes.canonicalize_dtype(i.dtype)
        i = i.astype(fitting_dtype(canonical, size))
        negative = i < 0
    else:
        i = fitting_indices(i, size)
        negative = lax.lt(i, const(i, 0))
    return lax.select(negative, lax.add(i, const(i, size)), i)


class _GatherPlanner:
    """Walks over the entries and collects the parts of a gather."""

    def __init__(
        self, entries: Sequence[IndexEntry], shape: tuple[int, ...], contiguous: bool
    ):
        self.entries = entries
        self.shape = shape
        self.dtype = index_dtype(*shape)
        self.indices: list[tuple[Any, int]] = []  # with their first dim in the indices
        self.indices_shape: list[int] = []
        self.offset_dims: list[int] = []
        self.collapsed: list[int] = []
        self.index_map: list[int] = []
        self.slice_sizes: list[int] = []
        self.slice_shape: list[int] = []
        self.reversed_dims: list[int] = []
        self.new_dims: list[int] = []
        self.axis = 0  # of the array
        self.out_dim = 0  # of the result, with its new dims
        self.gathered_dim = 0  # of the result, without
        arrays = (EntryKind.ARRAY, EntryKind.INTEGER)
        fancy = any(e.kind is EntryKind.ARRAY and np.ndim(e.value) for e in entries)
        self.advanced = [i for i, e in enumerate(entries) if fancy and e.kind in arrays]
        # NumPy's rule: the dims of the indices stand where the indices do if these
        # are next to each other, and else in front.
        self.advanced_at = self.advanced[0] if fancy and contiguous else 0

    def plan(self, mask_dims: tuple[int, ...]) -> GatherPlan:
        for position, entry in enumerate(self.entries):
            if self.advanced and position == self.advanced_at:
                self._advanced_indices()
            if position in self.advanced:
                self.axis += 1
                self.slice_sizes.append(1)
            elif entry.kind is EntryKind.NEW:
                self.slice_shape.append(1)
                self.new_dims.append(self.out_dim)
                self.out_dim += 1
            elif entry.kind is EntryKind.SLICE:
                size = self.shape[self.axis]
                start, stop, step = slice_bounds(entry.value, size)
                self._slice(start, range_length(start, stop, step), step)
            elif entry.kind is EntryKind.WINDOW:
                window = entry.value
                self._slice(window.start, window.size, window.stride)
            else:
                self._scalar(entry.value)
        numbers = lax.GatherDimensionNumbers(
            offset_dims=tuple(self.offset_dims),
            collapsed_slice_dims=tuple(sorted(self.collapsed)),
            start_index_map=tuple(self.index_map),
        )
        return GatherPlan(
            self._joined_indices(),
            numbers,
            tuple(self.slice_sizes),
            tuple(self.slice_shape),
            tuple(self.reversed_dims),
            tuple(self.new_dims),
            mask_dims,
            not self.advanced,
        )

    def _advanced_indices(self) -> None:
        entries = [self.entries[i] for i in self.advanced]
        arrays = broadcast_all(*[asarray(e.value) for e in entries])
        shape = arrays[0].shape
        start = len(self.indices_shape)
        self.indices += [(cast(a, self.dtype), start) for a in arrays]
        self.indices_shape += shape
        axes = [axis for e in entries for axis in e.axes]
        self.index_map += axes
        self.collapsed += axes
        self.slice_shape += shape
        self.out_dim += len(shape)
        self.gathered_dim += len(shape)

    def _scalar(self, value: Any) -> None:
        if self.shape[self.axis] == 0:
            raise IndexError(f"index is out of bounds for axis {self.axis} with size 0")
        self.indices.append((cast(value, self.dtype), len(self.indices_shape)))
        self.collapsed.append(self.axis)
        self.index_map.append(self.axis)
        self.slice_sizes.append(1)
        self.axis += 1

    def _slice(self, start: Any, size: int, step: int) -> None:
        self.slice_shape.append(size)
        if step == 1:
            if size != self.shape[self.axis]:
                index = cast(start, self.dtype)
                self.indices.append((index, len(self.indices_shape)))
                self.index_map.append(self.axis)
            self.slice_sizes.append(size)
            self.offset_dims.append(self.gathered_dim)
        else:
            steps = lax.mul(cast(step, self.dtype), lax.iota(self.dtype, size))
            positions = lax.add(cast(start, self.dtype), steps)
            if step < 0:
                self.reversed_dims.append(self.gathered_dim)
                positions = lax.rev(positions, (0,))
            self.indices.append((positions, len(self.indices_shape)))
            self.indices_shape.append(size)
            self.index_map.append(self.axis)
            self.collapsed.append(self.axis)
            self.slice_sizes.append(1)
        self.gathered_dim += 1
        self.out_dim += 1
        self.axis += 1

    def _joined_indices(self) -> Any:
        if not self.indices:
            return np.zeros((0,), self.dtype)
        if len(self.indices) == 1:
            ((index, _),) = self.indices
            return lax.expand_dims(index, (np.ndim(index),))
        shape = (*self.indices_shape, 1)
        columns = [
            lax.broadcast_in_dim(index, shape, tuple(range(i, i + np.ndim(index))))
            for index, i in self.indices
        ]
        return lax.concatenate(columns, len(shape) - 1)


def _apply_gather(
    x: Any, plan: GatherPlan, sorted_: bool, unique: bool, mode: Any, fill: Any
) -> Any:
    if plan.mask_dims:
        x = lax.expand_dims(x, plan.mask_dims)
    if 0 in plan.slice_shape:
        return lax.full_like(x, 0, shape=plan.slice_shape)
    if 0 not in plan.indices.shape:
        x = lax.gather(
            x,
            plan.indices,
            plan.numbers,
            plan.slice_sizes,
            unique_indices=unique or plan.ascending,
            indices_are_sorted=sorted_ or plan.ascending,
            mode=mode,
            fill_value=fill,
        )
    if plan.reversed_dims:
        x = lax.rev(x, plan.reversed_dims)
    return lax.expand_dims(x, plan.new_dims) if plan.new_dims else x
