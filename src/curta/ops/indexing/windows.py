"""Finding the windows of a gather or scatter: in NumPy, and as compiled indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.ops.indexing.numbers import Dims, GatherDimensionNumbers, window_dims


class Windows(NamedTuple):
    """Windows as NumPy indexes them: `view[picks]`.

    The view is the operand with the dims that windows span wholly put last, to be
    taken as they are. The others are picked by index arrays, which broadcast to the
    batch dims followed by the window dims picked. Dim i of the output is dim
    `layout[i]` of what is picked. `inside` marks, by batch place, the windows that
    lie inside the operand; it is None if all of them do.
    """

    view: Any
    picks: tuple[Any, ...]
    layout: tuple[int, ...]
    inside: Any


def find_windows(
    operand: Any, indices: Any, numbers: GatherDimensionNumbers, sizes: Dims
) -> Windows:
    """The windows of `sizes` that start at `indices`, moved inside the operand."""
    shape, batch = operand.shape, indices.shape[:-1]
    dims = window_dims(numbers, len(shape))
    whole = [d for d in dims if sizes[d] == shape[d]]
    picked = [d for d in range(len(shape)) if d not in whole]
    spread = [d for d in picked if d in dims]
    starts, inside = _starts(shape, indices, numbers, sizes)
    rank = len(batch) + len(spread)
    picks = []
    for d in picked:
        place = starts.get(d, _ORIGIN)
        place = place.reshape(place.shape + (1,) * (rank - place.ndim))
        if d in spread:
            place = place + _along(sizes[d], len(batch) + spread.index(d), rank)
        picks.append(place)
    view = operand.transpose((*picked, *whole))
    if not picked:  # something must carry the batch dims
        view, picks = view[None], [_ORIGIN]
    picks[0] = np.broadcast_to(picks[0], (*batch, *(sizes[d] for d in spread)))
    found = [*spread, *whole]
    layout = _layout(numbers, [len(batch) + found.index(d) for d in dims], len(batch))
    return Windows(view, tuple(picks), layout, inside)


_ORIGIN = np.zeros((), np.intp)


def _starts(
    shape: Dims, indices: Any, numbers: GatherDimensionNumbers, sizes: Dims
) -> tuple[dict[int, Any], Any]:
    """For each operand dim the start of every window, by batch place; the mask."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.intp).max))
    indices = indices.astype(np.intp, copy=False)
    rank = indices.ndim - 1
    starts: dict[int, Any] = {}
    inside: Any = None
    for k, d in enumerate(numbers.start_index_map):
        start, last = indices[..., k], max(shape[d] - sizes[d], 0)
        fits = (start >= 0) & (start <= last)
        if not fits.all():
            inside = fits if inside is None else inside & fits
            start = np.clip(start, 0, last)
        starts[d] = start
    pairs = zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    )
    for d, place in pairs:
        starts[d] = _along(shape[d], place, rank)
    return starts, inside


def _along(size: int, dim: int, rank: int) -> Any:
    """0, 1, 2 ... along `dim` of an array of `rank`."""
    shape = [1] * rank
    shape[dim] = size
    return np.arange(size).reshape(shape)


def _layout(
    numbers: GatherDimensionNumbers, window: list[int], batch_rank: int
) -> tuple[int, ...]:
    """The dims of the output among batch dims 0, 1 ... and the window dims given."""
    rank = batch_rank + len(window)
    inner, batch = iter(window), iter(range(batch_rank))
    offset = set(numbers.offset_dims)
    return tuple(next(inner if i in offset else batch) for i in range(rank))


def single_window(
    shape: Dims, indices: Any, numbers: GatherDimensionNumbers, sizes: Dims
) -> tuple[tuple[slice, ...], bool]:
    """The slices of the one window at index vector `indices`, and if it was inside."""
    starts, inside = [0] * len(shape), True
    for d, start in zip(numbers.start_index_map, indices.tolist(), strict=True):
        last = shape[d] - sizes[d]
        if not 0 <= start <= last:
            inside, start = False, min(max(start, 0), last)
        starts[d] = start
    pairs = zip(starts, sizes, strict=True)
    return tuple(slice(start, start + size) for start, size in pairs), inside


# ---- compiled


class WindowUpdate(Op):
    """An op that gives its first operand with some elements updated, one by one."""

    def lower_update(
        self, b: Any, index: tuple[Any, ...], *operands: Any
    ) -> tuple[tuple[Any, ...], Any, Callable[[Any], Any]]:
        """What the update at `index` does, as scalar code made by builder `b`.

        The place in the operand; the condition under which anything happens there
        (None: always); and the new element as a function of the old one. Updates
        happen in row-major order of their indices.
        """
        self._missing("lower")

    def update_shape(self, *avals: ShapedArray) -> Dims:
        """The shape over which `index` runs."""
        self._missing("lower")


def source_index(
    b: Any,
    index: tuple[Any, ...],
    operand: Any,
    indices: Any,
    numbers: GatherDimensionNumbers,
    sizes: Dims,
) -> tuple[tuple[Any, ...], Any]:
    """Where in the operand is element `index` of the windows, clamped to be inside.

    Also gives the condition that the window was inside; None if it always is.
    """
    offset = set(numbers.offset_dims)
    batch = [i for k, i in enumerate(index) if k not in offset]
    shape = operand.aval.shape
    source: list[Any] = [0] * len(shape)
    for d, place in zip(
        window_dims(numbers, len(shape)), numbers.offset_dims, strict=True
    ):
        source[d] = index[place]
    pairs = zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    )
    for d, place in pairs:
        source[d] = batch[place]
    inside = None
    for k, d in enumerate(numbers.start_index_map):
        start = indices.at((*batch, k))
        clamped, fits = clamp_start(b, start, shape[d] - sizes[d])
        source[d] = clamped.as_index() + source[d]
        inside = fits if inside is None else b.and_(inside, fits)
    return tuple(source), inside


def clamp_start(b: Any, start: Any, last: int) -> tuple[Any, Any]:
    """`start` moved into 0 ... last, and whether it was there."""
    info = dtypes.iinfo(start.dtype)
    clamped, fits = start, b.const(True, np.dtype(bool))
    if info.min < 0:
        zero = b.const(0, start.dtype)
        clamped, fits = b.max(clamped, zero), b.compare("ge", start, zero)
    if last < info.max:
        limit = b.const(last, start.dtype)
        clamped = b.min(clamped, limit)
        fits = b.and_(fits, b.compare("le", start, limit))
    return clamped, fits
