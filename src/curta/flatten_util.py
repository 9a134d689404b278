"""Conversion of a pytree of arrays to one vector, and back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, listed
from curta.tree_util import PyTreeDef, tree_flatten

__all__ = ["ravel_pytree"]
__dir__: Listing = listed(__all__)


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Lay the leaves of a tree end to end.

    Args:
        pytree: a tree of arrays and scalars.

    Returns:
        The vector, of the dtype that the leaves promote to (the default float
        without leaves), and a function from such a vector to the tree. Where all
        leaves have one dtype, that function accepts a vector of any dtype.

    Example:
        >>> from curta.flatten_util import ravel_pytree
        >>> import numpy as np
        >>> vector, unravel = ravel_pytree({"b": [3.0, 4.0], "a": np.float32(1.0)})
        >>> vector
        Array([1., 3., 4.], dtype=float32)
        >>> unravel(-vector)["b"]
        [Array(-3., dtype=float32), Array(-4., dtype=float32)]
    """
    leaves, treedef = tree_flatten(pytree)
    own = tuple(dtypes.dtype(leaf) for leaf in leaves)
    dtype = dtypes.result_type(*leaves) if leaves else dtypes.default_float_dtype()
    shapes = tuple(np.shape(leaf) for leaf in leaves)
    unravel = _Unravel(treedef, shapes, own, dtype)
    if not leaves:
        return lax.full((0,), 0, dtype), unravel
    if any(own_dtype != dtype for own_dtype in own):
        leaves = [lax.convert_element_type(leaf, dtype) for leaf in leaves]
    parts = [
        lax.reshape(leaf, (math.prod(shape),)) for leaf, shape in zip(leaves, shapes)
    ]
    return lax.concatenate(parts, 0), unravel


@dataclass(frozen=True)
class _Unravel:
    """Cuts a vector into the leaves of a tree; equal for trees that look alike."""

    treedef: PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    dtype: Any

    def __call__(self, vector: Any) -> Any:
        sizes = [math.prod(shape) for shape in self.shapes]
        expected = (sum(sizes),)
        if np.shape(vector) != expected:
            raise ValueError(
                "unravel function given array of shape "
                f"{np.shape(vector)}, but expected shape {expected}"
            )
        uniform = all(dtype == self.dtype for dtype in self.dtypes)
        result = dtypes.dtype(vector)
        if not uniform and result != self.dtype:
            raise TypeError(
                f"unravel function given array of dtype {result}, but expected dtype "
                f"{self.dtype}. Cast the vector with astype first."
            )
        ends = list(itertools.accumulate(sizes))
        leaves = []
        for shape, size, end, dtype in zip(self.shapes, sizes, ends, self.dtypes):
            piece = lax.reshape(lax.slice(vector, [end - size], [end]), shape)
            leaves.append(piece if uniform else lax.convert_element_type(piece, dtype))
        return self.treedef.unflatten(leaves)
