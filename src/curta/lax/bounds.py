"""`curta_debug_index`: indices out of range raise, in compiled programs as well.

An index that is known while tracing is checked at once. For a traced index, a `Check`
(see primitives/checks.py) records the first one out of range, and the program raises it
after it has run. The check is made at the user's index, before `vmap` and
differentiation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.config import config
from curta.core.source_info import user_frame
from curta.core.trace import concrete_or_none, typeof
from curta.primitives.checks import Error, IndexOutOfRange, check_error
from curta.primitives.indexing import DynamicSlice
from curta.primitives.reduction import ArgMax, ReduceOr
from curta.primitives.structure import reshape


def check_index(
    shape: tuple[int, ...], axis: int, index: Any, wrap: bool, window: int = 1
) -> None:
    """With `curta_debug_index`, raise for an index that is out of range.

    Args:
      shape: of the array that is indexed.
      axis: that it is indexed along.
      index: an integer or an array of them.
      wrap: whether negative ones count from the end.
      window: how many elements are taken from each on.
    """
    if not config.curta_debug_index or isinstance(index, slice):
        return
    known = concrete_or_none(index)
    source = user_frame()
    if known is not None:
        flat_indices = np.asarray(known).ravel()
        bad = _is_bad(flat_indices, shape[axis], wrap, window)
        if bad.any():
            result = flat_indices[bad.argmax()]
            raise IndexOutOfRange(source, shape, axis, window, result).to_raise()
        return
    size = typeof(index).size
    if size:
        flat = reshape(index, (size,))
        bad = _is_bad(flat, shape[axis], wrap, window)
        first_bad = ArgMax((0,), np.dtype(np.int32))(bad)
        first = reshape(DynamicSlice((1,))(flat, first_bad), ())
        exception = IndexOutOfRange(source, shape, axis, window, first)
        check_error(Error().adding(ReduceOr((0,))(bad), exception))


def check_index_vectors(operand: Any, axes: Any, indices: Any, windows: Any) -> None:
    """As `check_index`, for the index vectors of a gather or scatter."""
    if config.curta_debug_index:
        for k, axis in enumerate(axes):
            column = indices[..., k]
            check_index(typeof(operand).shape, axis, column, False, windows[axis])


def check_windows(operand: Any, starts: Any, wrap: Any, windows: Any) -> None:
    """As `check_index`, for the scalars where a window into `operand` starts."""
    if config.curta_debug_index:
        shape = typeof(operand).shape
        flags = [wrap] * len(shape) if isinstance(wrap, bool) else wrap
        for axis, (size, flag) in enumerate(zip(windows, flags)):
            check_index(shape, axis, starts[axis], flag, size)


def _is_bad(i: Any, size: int, wrap: bool, window: int) -> Any:
    """Which indices, of NumPy or traced, are out of range."""
    info = dtypes.iinfo(i.dtype)
    wrap = wrap and info.min < 0
    least = max(-size, int(info.min)) if wrap else 0
    greatest = min(size - window, int(info.max))
    bad = (i > greatest) | (i < least)
    if wrap and window > 1:  # windows at negative indices may pass the end
        bad |= (i < 0) & (i > max(-window, least))
    return bad
