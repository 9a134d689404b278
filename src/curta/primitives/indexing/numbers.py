"""How dims of operand, indices and windows belong together in gather and scatter.

The last dim of the indices holds index vectors; each says where in the operand a
window of `slice_sizes` starts. The other dims of the indices are batch dims: there is
a window for every index in them.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray

Dims = tuple[int, ...]


class GatherScatterMode(enum.Enum):
    """What becomes of windows that do not lie inside the operand.

    CLIP moves them inside. FILL_OR_DROP reads a fill value and drops updates.
    PROMISE_IN_BOUNDS says there are none; reads are clipped and updates dropped.

    >>> from curta import lax, numpy as jnp
    >>> jnp.arange(3).at[5].get(mode=lax.GatherScatterMode.CLIP)
    Array(2, dtype=int32)
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(mode: Any) -> GatherScatterMode:
        """The mode of a name; None is FILL_OR_DROP. Raises ValueError."""
        if isinstance(mode, GatherScatterMode):
            return mode
        if not isinstance(mode, str | None) or mode not in _MODES:
            known = ", ".join(repr(name) for name in _MODES if name)
            raise ValueError(f'Unknown gather mode "{mode}". Modes are {known}.')
        return _MODES[mode]


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


class GatherDimensionNumbers(NamedTuple):
    """How the dims of a gather belong together.

    offset_dims: the output's dims that run over a window, in order of the operand.
    collapsed_slice_dims: operand dims whose windows are of size 1 and dropped.
    start_index_map: the operand dim that each entry of an index vector is for.
    operand_batching_dims, start_indices_batching_dims: dims of the operand and of the
        indices that go together, one to one.

    >>> from curta import lax, numpy as jnp
    >>> x, rows = 10 * jnp.arange(4), jnp.array([[3], [1]])
    >>> lax.gather(x, rows, lax.GatherDimensionNumbers((), (0,), (0,)), (1,))
    Array([30, 10], dtype=int32)
    """

    offset_dims: Dims
    collapsed_slice_dims: Dims
    start_index_map: Dims
    operand_batching_dims: Dims = ()
    start_indices_batching_dims: Dims = ()


class ScatterDimensionNumbers(NamedTuple):
    """How the dims of a scatter belong together: those of the gather it undoes.

    update_window_dims: the updates' dims that run over a window.
    inserted_window_dims: operand dims that windows lack, being of size 1 there.
    scatter_dims_to_operand_dims: the operand dim that each entry of an index vector
        is for.
    operand_batching_dims, scatter_indices_batching_dims: dims of the operand and of
        the indices that go together, one to one.

    >>> from curta import lax, numpy as jnp
    >>> x, rows = jnp.zeros(3), jnp.array([[2], [0]])
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_add(x, rows, jnp.array([5.0, 7.0]), numbers)
    Array([7., 0., 5.], dtype=float32)
    """

    update_window_dims: Dims
    inserted_window_dims: Dims
    scatter_dims_to_operand_dims: Dims
    operand_batching_dims: Dims = ()
    scatter_indices_batching_dims: Dims = ()


def window_dims(numbers: GatherDimensionNumbers, rank: int) -> list[int]:
    """The operand dims that windows have."""
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return [d for d in range(rank) if d not in gone]


def window_sizes(numbers: GatherDimensionNumbers, windows: Dims, rank: int) -> Dims:
    """The `slice_sizes` of windows laid out in shape `windows`."""
    sizes = [1] * rank
    for d, dim in zip(window_dims(numbers, rank), numbers.offset_dims, strict=True):
        sizes[d] = windows[dim]
    return tuple(sizes)


def windows_shape(numbers: GatherDimensionNumbers, indices: Dims, sizes: Dims) -> Dims:
    """The shape of all windows together: a gather's output, a scatter's updates."""
    batch = iter(indices[:-1])
    window = iter(sizes[d] for d in window_dims(numbers, len(sizes)))
    rank = len(numbers.offset_dims) + len(indices) - 1
    inner = set(numbers.offset_dims)
    return tuple(next(window if i in inner else batch) for i in range(rank))


# ---- batching: the numbers of operands with a batch dim in front


def batched_operand(numbers: GatherDimensionNumbers) -> GatherDimensionNumbers:
    """All examples use the same indices: the batch dim becomes part of the window."""
    offset, collapsed, index_map, batching, indices = numbers
    return GatherDimensionNumbers(
        (0, *_raised(offset)),
        _raised(collapsed),
        _raised(index_map),
        _raised(batching),
        indices,
    )


def batched_indices(numbers: GatherDimensionNumbers) -> GatherDimensionNumbers:
    """All examples read the same operand."""
    offset, collapsed, index_map, batching, indices = numbers
    return GatherDimensionNumbers(
        _raised(offset), collapsed, index_map, batching, _raised(indices)
    )


def batched_both(numbers: GatherDimensionNumbers) -> GatherDimensionNumbers:
    """Each example has its own operand and indices."""
    offset, collapsed, index_map, batching, indices = numbers
    return GatherDimensionNumbers(
        _raised(offset),
        _raised(collapsed),
        _raised(index_map),
        (0, *_raised(batching)),
        (0, *_raised(indices)),
    )


def _raised(dims: Dims) -> Dims:
    return tuple(d + 1 for d in dims)


# ---- checks


def require_kind(op: str, kind: type[Any], numbers: Any) -> None:
    """Raise TypeError unless the dimension numbers of `op` are of that class."""
    if not isinstance(numbers, kind):
        raise TypeError(
            f"{op} dimension_numbers must be a lax.{kind.__name__}, got {numbers!r}."
        )


def _check_integers(
    op: str, numbers: GatherDimensionNumbers | ScatterDimensionNumbers
) -> None:
    for name, dims in zip(numbers._fields, numbers, strict=True):
        if not isinstance(dims, Sequence) or not all(
            isinstance(d, (int, np.integer)) for d in dims
        ):
            raise TypeError(
                f"{name} in {op} op must be a tuple of integers; got {dims!r}."
            )


def check_gather_numbers(
    numbers: GatherDimensionNumbers, operand: ShapedArray, indices: ShapedArray
) -> None:
    """Raise TypeError for numbers that do not fit the operands of a gather."""
    op = "gather"
    _check_integers(op, numbers)
    offset, collapsed = numbers.offset_dims, numbers.collapsed_slice_dims
    _check_vectors(op, indices)
    _check_distinct(op, "offset_dims", offset)
    rank = len(offset) + indices.ndim - 1
    for i, d in enumerate(offset):
        if not 0 <= d < rank:
            raise TypeError(
                f"Offset dimension {i} in gather op is out of bounds; got {d}, but"
                f" should have been in [0, {rank})"
            )
    _check_index_map(op, numbers, operand, indices)
    _check_dims(op, "collapsed_slice_dims", collapsed, operand.ndim)
    _check_batching(op, numbers, operand, indices)


def check_scatter_numbers(
    numbers: ScatterDimensionNumbers,
    operand: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
) -> None:
    """Raise TypeError for numbers that do not fit the operands of a scatter."""
    op = "scatter"
    _check_integers(op, numbers)
    window, inserted = numbers.update_window_dims, numbers.inserted_window_dims
    batching = numbers.operand_batching_dims
    _check_vectors(op, indices)
    rank = indices.ndim - 1 + len(window)
    if updates.ndim != rank:
        raise TypeError(f"Updates tensor must be of rank {rank}; got {updates.ndim}.")
    _check_dims(op, "update_window_dims", window, rank)
    _check_dims(op, "inserted_window_dims", inserted, operand.ndim)
    _check_batching(op, numbers, operand, indices)
    size = len(window) + len(inserted) + len(batching)
    if size != operand.ndim:
        raise TypeError(
            f"Scatter op has window of size {size}; doesn't match operand of rank"
            f" {operand.ndim}."
        )
    _check_index_map(op, numbers, operand, indices)


def check_index_dtype(op: str, indices: ShapedArray) -> None:
    """Raise ValueError unless the index vectors are integers."""
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise ValueError(
            f"indices must have an integer type, got {indices.dtype.name} in {op}"
        )


def _check_vectors(op: str, indices: ShapedArray) -> None:
    if not indices.shape:
        raise TypeError(
            f"{op.capitalize()} index leaf dimension must be within [0, rank(indices)"
            f" + 1). rank(indices) is 0 and {op} index leaf dimension is -1."
        )


def _check_batching(
    op: str,
    numbers: GatherDimensionNumbers | ScatterDimensionNumbers,
    operand: ShapedArray,
    indices: ShapedArray,
) -> None:
    _, dropped, index_map, batching, indices_batching = numbers._fields
    _check_dims(op, batching, numbers[3], operand.ndim)
    _check_disjoint(op, dropped, batching, numbers[1], numbers[3])
    _check_disjoint(op, index_map, batching, numbers[2], numbers[3])
    _check_distinct(op, indices_batching, numbers[4], ordered=False)
    _check_range(op, indices_batching, numbers[4], indices.ndim)
    if indices.ndim - 1 in numbers[4]:
        raise TypeError(
            f"{op.capitalize()} op cannot have the index vector dimension as a batching"
            f" dimension; got {numbers[4]}."
        )
    if len(numbers[3]) != len(numbers[4]):
        raise TypeError(
            f"{op.capitalize()} op requires equal numbers of {batching} and"
            f" {indices_batching}, got {numbers[3]} and {numbers[4]}."
        )
    shapes = (
        tuple(operand.shape[d] for d in numbers[3]),
        tuple(indices.shape[d] for d in numbers[4]),
    )
    if shapes[0] != shapes[1]:
        raise TypeError(
            f"{op.capitalize()} op requires operand batching dimensions and indices"
            f" batching dimensions to have the same shape, got {shapes[0]} and"
            f" {shapes[1]}."
        )


def _check_index_map(
    op: str,
    numbers: GatherDimensionNumbers | ScatterDimensionNumbers,
    operand: ShapedArray,
    indices: ShapedArray,
) -> None:
    name, dims = numbers._fields[2], numbers[2]
    if len(dims) != indices.shape[-1]:
        raise TypeError(
            f"{op.capitalize()} op has {len(dims)} elements in {name} and the bound of"
            f" dimension index_vector_dim={indices.ndim - 1} of indices is"
            f" {indices.shape[-1]}. These two numbers must be equal."
        )
    kind = " mapping" if op == "scatter" else ""
    for i, d in enumerate(dims):
        if not 0 <= d < operand.ndim:
            raise TypeError(
                f"Invalid {name}{kind}; domain is [0, {operand.ndim}), got: {i}->{d}."
            )
    _check_distinct(op, name, dims, ordered=False)


def _check_dims(op: str, name: str, dims: Sequence[int], rank: int) -> None:
    _check_distinct(op, name, dims)
    _check_range(op, name, dims, rank)


def _check_distinct(
    op: str, name: str, dims: Sequence[int], ordered: bool = True
) -> None:
    if ordered and list(dims) != sorted(dims):
        raise TypeError(f"{name} in {op} op must be sorted; got {dims}")
    if len(set(dims)) != len(dims):
        raise TypeError(f"{name} in {op} op must not repeat; got: {dims}.")


def _check_range(op: str, name: str, dims: Sequence[int], rank: int) -> None:
    for d in dims:
        if not 0 <= d < rank:
            raise TypeError(
                f"Invalid {name} set in {op} op; valid range is [0, {rank}); got: {d}."
            )


def _check_disjoint(
    op: str, first: str, second: str, dims: Sequence[int], others: Sequence[int]
) -> None:
    if set(dims) & set(others):
        raise TypeError(
            f"{first} and {second} in {op} op must be disjoint; got: {dims} and"
            f" {others}."
        )
