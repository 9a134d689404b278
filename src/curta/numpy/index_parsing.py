"""Parse the index between the brackets of `x[...]`, entry by entry.

An index becomes a list of entries that say which dims of the array they use up. The
rules are NumPy's; an index that is traced may be an integer array, never a mask.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.config import config
from curta.core.array import Array
from curta.core.dim import SymbolicDim, surely
from curta.core.trace import Tracer, is_array_like
from curta.errors import NonConcreteBooleanIndexError
from curta.lax.bounds import check_index
from curta.numpy.constructors import asarray
from curta.numpy.sized_slices import Slice


class EntryKind(enum.Enum):
    """The kinds of index entries."""

    NEW = "new"  # None: a new dim of size 1
    ELLIPSIS = "ellipsis"  # all dims that no other entry uses
    SLICE = "slice"
    WINDOW = "window"  # a slice by its start, which may be traced, and its size
    INTEGER = "integer"  # a known integer
    ARRAY = "array"  # integers in an array, known or traced
    BOOLEAN = "boolean"  # a mask


@dataclass(frozen=True)
class IndexEntry:
    """One entry of an index, and the dims of the array that it uses up."""

    kind: EntryKind
    value: Any
    axes: tuple[int, ...]


def is_known_integer(x: Any) -> bool:
    """Return True if x is an integer of Python or NumPy, and no boolean."""
    return isinstance(x, (int, np.integer)) and not isinstance(x, (bool, np.bool_))


def parse(index: Any, shape: tuple[int, ...]) -> list[IndexEntry]:
    """The entries of an index into an array of `shape`.

    Raises TypeError or IndexError for what cannot be an index.
    """
    items = [_as_array(x) for x in _as_tuple(index)]
    kinds = [_kind(x) for x in items]
    used = [_dims_used(kind, x) for kind, x in zip(kinds, items)]
    if kinds.count(EntryKind.ELLIPSIS) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if sum(used) > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but"
            f" {sum(used)} were indexed"
        )
    if EntryKind.ELLIPSIS in kinds:
        used[kinds.index(EntryKind.ELLIPSIS)] = len(shape) - sum(used)
    entries, axis = [], 0
    for kind, value, count in zip(kinds, items, used):
        entries.append(IndexEntry(kind, value, tuple(range(axis, axis + count))))
        axis += count
    return entries


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return index
    if isinstance(index, Sequence) and not isinstance(index, str):
        nested = any(_is_nested(x) for x in index)
        remedy = "arr[tuple(seq)]" if nested else "arr[array(seq)]"
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed;"
            f" use `{remedy}` instead of `arr[seq]`."
        )
    return (index,)


def _as_array(x: Any) -> Any:
    """Lists of integers or booleans inside an index as arrays."""
    if isinstance(x, Sequence) and not isinstance(x, str):
        return asarray(x) if x else np.zeros(0, np.int32)
    return x.as_value() if isinstance(x, SymbolicDim) else x


def _is_nested(x: Any) -> bool:
    if isinstance(x, (np.ndarray, Array)):
        return np.ndim(x) != 0
    return isinstance(x, (Sequence, slice)) or x is Ellipsis or x is None


def _kind(x: Any) -> EntryKind:
    if x is None:
        return EntryKind.NEW
    if x is Ellipsis:
        return EntryKind.ELLIPSIS
    if isinstance(x, slice):
        return EntryKind.SLICE
    if isinstance(x, Slice):
        return EntryKind.WINDOW
    if is_known_integer(x):
        return EntryKind.INTEGER
    if isinstance(x, str):
        raise TypeError(f"String indexing is not supported; got idx={x!r}")
    if is_array_like(x):
        return _kind_of_dtype(x.dtype if hasattr(x, "dtype") else type(x))
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer"
        f" or boolean arrays are valid indices. Got {x}"
    )


def _kind_of_dtype(dtype: Any) -> EntryKind:
    if dtypes.issubdtype(dtype, np.bool_):
        return EntryKind.BOOLEAN
    if dtypes.issubdtype(dtype, np.integer):
        return EntryKind.ARRAY
    name = dtype if isinstance(dtype, dtypes.ExtendedDType) else np.dtype(dtype)
    raise TypeError(
        f"Indexer must have integer or boolean type, got indexer with type {name}"
    )


def _dims_used(kind: EntryKind, x: Any) -> int:
    if kind in (EntryKind.NEW, EntryKind.ELLIPSIS):
        return 0
    return np.ndim(x) if kind is EntryKind.BOOLEAN else 1


# ---- rewriting lists of entries


def expand_ellipsis(entries: Sequence[IndexEntry], ndim: int) -> list[IndexEntry]:
    """The entries with a full slice for every dim of the ellipsis, or left over."""
    out: list[IndexEntry] = []
    for entry in entries:
        if entry.kind is EntryKind.ELLIPSIS:
            out += [
                IndexEntry(EntryKind.SLICE, slice(None), (axis,)) for axis in entry.axes
            ]
        else:
            out.append(entry)
    used = sum(len(entry.axes) for entry in entries)
    out += [
        IndexEntry(EntryKind.SLICE, slice(None), (axis,)) for axis in range(used, ndim)
    ]
    return out


def expand_masks(
    entries: Sequence[IndexEntry], shape: tuple[int, ...]
) -> list[IndexEntry]:
    """The entries with masks replaced by the integer arrays of where they hold.

    Raises NonConcreteBooleanIndexError for a traced mask: the result would have no
    shape known in advance.
    """
    out: list[IndexEntry] = []
    for position, entry in enumerate(entries):
        if entry.kind is not EntryKind.BOOLEAN:
            out.append(entry)
            continue
        mask = entry.value
        if isinstance(mask, Tracer):
            mask = mask.concrete_value()
            if mask is None:
                raise NonConcreteBooleanIndexError(entry.value.aval.str_short())
        mask = np.asarray(mask)
        if mask.ndim == 0:
            out.append(IndexEntry(EntryKind.BOOLEAN, bool(mask), ()))
            continue
        expected = [shape[axis] for axis in entry.axes]
        if not all(d in (0, e) for d, e in zip(mask.shape, expected)):
            raise IndexError(
                "boolean index did not match shape of indexed array in index"
                f" {position}: got {mask.shape}, expected {expected}"
            )
        coordinates = zip(np.nonzero(mask), entry.axes)
        out += [
            IndexEntry(EntryKind.ARRAY, coordinate, (axis,))
            for coordinate, axis in coordinates
        ]
    return out


def expand_scalar_masks(
    entries: Sequence[IndexEntry], shape: tuple[int, ...]
) -> tuple[list[IndexEntry], tuple[int, ...]]:
    """`x[True]` as an index into a new dim of size 1; also the array's new shape."""
    out: list[IndexEntry] = []
    sizes, axis = list(shape), 0
    for position, entry in enumerate(entries):
        count = len(entry.axes)
        if entry.kind is EntryKind.BOOLEAN:
            sizes.insert(position, 1)
            entry, count = (
                IndexEntry(EntryKind.ARRAY, np.arange(int(entry.value)), ()),
                1,
            )
        axes = tuple(range(axis, axis + count))
        out.append(dataclasses.replace(entry, axes=axes))
        axis += count
    return out, tuple(sizes)


def check_slices(entries: Sequence[IndexEntry]) -> None:
    """Raise IndexError for a slice with a traced start, stop or step."""
    for position, entry in enumerate(entries):
        if entry.kind is EntryKind.SLICE:
            part = entry.value
            if any(_is_unknown(x) for x in (part.start, part.stop, part.step)):
                raise IndexError(
                    f"Slice entries must be static integers. Got {part} at position"
                    f" {position}. Use lax.dynamic_slice for a slice of known size at"
                    " a traced start."
                )


def check_bounds(
    entries: Sequence[IndexEntry], shape: tuple[int, ...], wrap: bool
) -> None:
    """Raise IndexError for a known integer that lies outside its dim."""
    for entry in entries:
        if entry.kind is EntryKind.INTEGER:
            (axis,) = entry.axes
            i = operator.index(entry.value)
            if _outside(i, shape[axis], wrap):
                raise IndexError(
                    f"index {i} out of bounds for axis {axis} with size {shape[axis]}"
                    f" (normalize_indices={wrap})"
                )


def _outside(i: int, size: Any, wrap: bool) -> bool:
    return surely(lambda: i >= size or i < (-size if wrap else 0))


def check_entries(
    entries: Sequence[IndexEntry], shape: tuple[int, ...], wrap: bool
) -> None:
    """With `curta_debug_index`, raise for integers that lie outside their dims."""
    if config.curta_debug_index:
        for entry in entries:
            if entry.kind in (EntryKind.INTEGER, EntryKind.ARRAY):
                check_index(shape, entry.axes[0], entry.value, wrap)


def _is_unknown(x: Any) -> bool:
    return isinstance(x, Tracer) and x.concrete_value() is None
