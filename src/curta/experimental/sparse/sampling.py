"""Random sparse arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import random
from curta.experimental.sparse.bcoo import BCOO
from curta.experimental.sparse.coordinates import from_linear, over_batch


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = np.float32,
    indices_dtype: Any = None,
    nse: int | float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """An array with random elements in random places.

    Args:
      key: a random key.
      shape, dtype: of the array.
      nse: how many elements, of each batch; a number below 1 is a share of all.
      n_batch, n_dense: the numbers of batch and dense dims.
      unique_indices, sorted_indices: what the indices are to be.
      generator: draws the elements: `generator(key, shape, dtype, **kwds)`.

    >>> from curta import random
    >>> from curta.experimental import sparse
    >>> sparse.random_bcoo(random.key(0), (4, 5), nse=3)
    BCOO(float32[4, 5], nse=3)
    """
    shape = tuple(shape)
    batch, rest = shape[:n_batch], shape[n_batch:]
    sizes = rest[: len(rest) - n_dense]
    dense = rest[len(rest) - n_dense :]
    size = math.prod(sizes)
    count = math.ceil(nse * size) if 0 < nse < 1 else math.ceil(nse)
    of_places, of_data = random.split(key)
    keys = random.split(of_places, math.prod(batch))
    keys = keys.reshape((*batch, *keys.shape[1:]))  # keys may be words, in one more dim

    def draw(key: Any) -> Any:
        if unique_indices:
            places = random.choice(key, size, (count,), replace=False)
        else:
            places = random.randint(key, (count,), 0, size)
        return from_linear(jnp.sort(places) if sorted_indices else places, sizes)

    indices = over_batch(draw, n_batch)(keys)
    indices = indices.astype(np.int32 if indices_dtype is None else indices_dtype)
    data = generator(of_data, (*batch, count, *dense), dtype, **kwds)
    return BCOO(
        (data, indices),
        shape=shape,
        indices_sorted=sorted_indices,
        unique_indices=unique_indices,
    )
