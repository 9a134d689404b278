"""Finding the windows of a gather or scatter: in NumPy, and as compiled indices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.primitives.indexing.numbers import Dims, GatherDimensionNumbers, window_dims


class Windows(NamedTuple):
    """Windows as NumPy indexes them: `view[picks]`.

    The view is the operand with the dims that windows span wholly put last, to be
    taken as they are. The others are picked by index arrays, which broadcast to the
    batch dims followed by the window dims picked. Dim i of the output is dim
    `layout[i]` of what is picked. `inside` marks, by batch index, the windows that
    lie inside the operand; it is None if all of them do.
    """

    view: Any
    picks: tuple[Any, ...]
    layout: Dims
    inside: Any


def find_windows(
    operand: Any, indices: Any, numbers: GatherDimensionNumbers, sizes: Dims
) -> Windows:
    """The windows of `sizes` that start at `indices`, moved inside the operand."""
    plan = _plan(operand.shape, indices.shape[:-1], numbers, sizes)
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(np.intp).max))
    starts, inside = indices.astype(np.intp, copy=False), None
    fits = (starts >= 0) & (starts <= plan.last)
    if not fits.all():
        inside = fits.all(-1)
        starts = np.minimum(np.maximum(starts, 0), plan.last)
    picks = [
        steps if k is None else starts[..., k].reshape(plan.shape) + steps
        for k, steps in plan.picks
    ]
    picks[0] = np.broadcast_to(picks[0], plan.full)
    view = operand.transpose(plan.order)
    if not plan.is_picked:  # a dim of size 1 carries the batch dims
        view = view[None]
    return Windows(view, tuple(picks), plan.layout, inside)


class _Plan(NamedTuple):
    """What of `Windows` the shapes alone decide.

    `last` is the greatest start inside the operand, by component of an index vector. A
    pick is the number of its start there, or None, and what is added to it.
    """

    order: Dims
    is_picked: bool  # some dim of the operand is
    last: Any
    picks: tuple[tuple[int | None, Any], ...]
    shape: Dims  # of starts, so that they broadcast against the window dims
    full: Dims
    layout: Dims


@functools.lru_cache(maxsize=1024)
def _plan(
    shape: Dims, batch: Dims, numbers: GatherDimensionNumbers, sizes: Dims
) -> _Plan:
    dims = window_dims(numbers, len(shape))
    whole = [d for d in dims if sizes[d] == shape[d]]
    picked = [d for d in range(len(shape)) if d not in whole]
    spread = [d for d in picked if d in dims]
    rank = len(batch) + len(spread)
    components = {d: k for k, d in enumerate(numbers.start_index_map)}
    pairs = zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    )
    together = {d: _along(shape[d], i, rank) for d, i in pairs}
    picks: list[tuple[int | None, Any]] = []
    for d in picked:
        steps = together.get(d, np.intp(0))
        if d in spread:
            steps = _along(sizes[d], len(batch) + spread.index(d), rank)
        picks.append((components.get(d), steps))
    result = [*spread, *whole]
    return _Plan(
        (*picked, *whole),
        bool(picked),
        np.array([max(shape[d] - sizes[d], 0) for d in numbers.start_index_map], int),
        tuple(picks) if picks else ((None, np.intp(0)),),
        (*batch, *[1] * len(spread)),
        (*batch, *(sizes[d] for d in spread)),
        _layout(numbers, [len(batch) + result.index(d) for d in dims], len(batch)),
    )


def _along(size: int, dim: int, rank: int) -> Any:
    """0, 1, 2 ... along `dim` of an array of `rank`."""
    shape = [1] * rank
    shape[dim] = size
    return np.arange(size).reshape(shape)


def _layout(
    numbers: GatherDimensionNumbers, window: list[int], batch_rank: int
) -> Dims:
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

    reads_elements: ClassVar[bool] = True
    updates_first: ClassVar[bool] = True
    has_index_arrays: ClassVar[bool] = False
    """Whether an array says where each of many windows lies."""
    replaces_window: ClassVar[bool] = False
    """Whether it replaces one window by the second operand, at one offset."""

    def lower_update(
        self, b: Any, index: tuple[Any, ...], *operands: Any
    ) -> tuple[tuple[Any, ...], Any, Callable[[Any], Any]]:
        """What the update at `index` does, as scalar code made by builder `b`.

        The index in the operand; the condition under which anything happens there
        (None: always); and the new element as a function of the old one. Updates
        happen in row-major order of their indices, where these are numbered so that
        windows that may overlap come one after the other.
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
    clamp: bool = True,
) -> tuple[tuple[Any, ...], Any]:
    """Where in the operand is element `index` of the windows, clamped to be inside.

    Also gives the condition that the window was inside; None if it always is. Where
    `clamp` is False, the index means something only under that condition.
    """
    offset = set(numbers.offset_dims)
    batch = [i for k, i in enumerate(index) if k not in offset]
    shape = operand.aval.shape
    source: list[Any] = [0] * len(shape)
    for d, dim_of_index in zip(
        window_dims(numbers, len(shape)), numbers.offset_dims, strict=True
    ):
        source[d] = index[dim_of_index]
    pairs = zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    )
    for d, dim_of_index in pairs:
        source[d] = batch[dim_of_index]
    inside = None
    for k, d in enumerate(numbers.start_index_map):
        start = indices.at((*batch, k))
        clamped, fits = clamp_start(b, start, shape[d] - sizes[d])
        source[d] = (clamped if clamp else start).as_index() + source[d]
        inside = fits if inside is None else b.and_(inside, fits)
    return tuple(source), inside


def clamp_start(b: Any, start: Any, last: int) -> tuple[Any, Any]:
    """`start` moved into 0 ... last, and whether it was there."""
    info = dtypes.iinfo(start.dtype)
    clamped, fits = start, b.const(True, np.dtype(bool))
    if info.min < 0:
        zero = b.const(0, start.dtype)
        clamped, fits = b.max(clamped, zero), b.compare("ge", start, zero)
    if last >= info.max:
        return clamped, fits
    clamped = b.min(clamped, b.const(last, start.dtype))
    if start.dtype.kind == "i":  # as an unsigned number, a negative one is too great
        unsigned = np.dtype(f"u{start.dtype.itemsize}")
        fits, start = b.const(True, np.dtype(bool)), b.convert(start, unsigned)
    return clamped, b.and_(fits, b.compare("le", start, b.const(last, start.dtype)))
