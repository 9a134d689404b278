"""Random sparse arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import random
from curta.experimental.sparse.bcoo import BCOO
from curta.experimental.sparse.coordinates import from_linear, require_sizes
from curta.experimental.sparse.util import over_batch


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = np.float64,
    indices_dtype: Any = None,
    nse: int | float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """An array with random elements at random indices.

    Args:
      key: a random key.
      shape: of the array.
      dtype: of the array; by default float64, or float32 where x64 is not enabled.
      indices_dtype: of the indices; by default the default integer one.
      nse: how many elements, of each batch; a number below 1 is a share of all; 0.2 by
        default.
      n_batch, n_dense: the numbers of batch and dense dims; 0 by default.
      unique_indices, sorted_indices: what the indices are to be.
      generator: draws the elements: `generator(key, shape, dtype, **kwds)`.
      **kwds: for the generator.

    Returns:
      A `BCOO` of this shape and dtype.

    Raises:
      ValueError: for numbers of dims or elements that do not fit the shape, and for
        negative sizes.
      TypeError: if an argument is not a key, a dtype or a number.

    >>> from curta import random
    >>> from curta.experimental import sparse
    >>> sparse.random_bcoo(random.key(0), (4, 5), nse=3)
    BCOO(float32[4, 5], nse=3)
    """
    shape = tuple(map(operator.index, shape))
    require_sizes("random_bcoo", shape)
    n_batch, n_dense = operator.index(n_batch), operator.index(n_dense)
    if min(n_batch, n_dense) < 0 or n_batch + n_dense > len(shape):
        raise ValueError(f"Invalid {n_batch=}, {n_dense=} for {shape=}")
    batch, rest = shape[:n_batch], shape[n_batch:]
    sizes = rest[: len(rest) - n_dense]
    dense = rest[len(rest) - n_dense :]
    size = math.prod(sizes)
    if not 0 <= nse < size:
        raise ValueError(f"got {nse=}, expected to be between 0 and {size}")
    wanted: Any = math.ceil(nse * size) if 0 < nse < 1 else nse
    count = operator.index(wanted)
    dtype_of_indices = np.dtype(np.int32 if indices_dtype is None else indices_dtype)
    if size > np.iinfo(dtype_of_indices).max:
        raise ValueError(
            f"indices_dtype={dtype_of_indices} does not have enough range to generate"
            f" sparse indices of size {size}."
        )

    def draw(key: Any) -> Any:
        replace = not unique_indices
        return from_linear(random.choice(key, size, (count,), replace=replace), sizes)

    keys = random.split(key, math.prod(batch) + 1)
    of_data, of_indices = keys[0], keys[1:]
    # Keys may be words, in one more dim.
    of_indices = of_indices.reshape((*batch, *of_indices.shape[1:]))
    indices = over_batch(draw, n_batch)(of_indices).astype(dtype_of_indices)
    data = generator(of_data, (*batch, count, *dense), dtype, **kwds)
    out = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return out.sort_indices() if sorted_indices else out
