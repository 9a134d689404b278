"""Sorting, and the permutations that sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import (
    canonical_axis,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    index_dtype,
    is_complex,
    user_dtype,
)
from curta.numpy.shapes import ravel


@inner_jit(static_argnames=("axis", "kind", "order", "stable", "descending"))
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in ascending order along an axis; None flattens. NaN comes last.

    Args:
      a: an array of one dim or more. NaN is the greatest number; complex numbers are
        ordered by real, then by imaginary part.
      axis: int, along which to sort. Default -1, the last; None flattens `a` first.
      kind: must be None (default); it is there for NumPy's callers.
      order: must be None (default); it is there for NumPy's callers.
      stable: keep the order of equal elements. Default True.
      descending: begin with the greatest. Default False.

    Returns:
      An array of the shape and dtype of `a`; flat without an axis.

    Raises:
      TypeError: `a` is a list, a string or None; `kind` or `order` is given; `axis` is
        not an integer.
      ValueError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    a, axis = _along("sort", a, axis, kind, order)
    out = lax.sort(a, dimension=axis, is_stable=stable)
    return lax.rev(out, (axis,)) if descending else out


@inner_jit(static_argnames=("axis", "kind", "order", "stable", "descending", "dtype"))
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DTypeLike | None = None,
) -> Array:
    """The indices that put the elements in ascending order along an axis.

    Args:
      a: an array of one dim or more. NaN is the greatest number; complex numbers are
        ordered by real, then by imaginary part.
      axis: int, along which to sort. Default -1, the last; None flattens `a` first.
      kind: must be None (default); it is there for NumPy's callers.
      order: must be None (default); it is there for NumPy's callers.
      stable: keep the order of equal elements. Default True.
      descending: begin with the greatest. Default False.
      dtype: dtype of the indices. None (default) is the default integer dtype.

    Returns:
      Indices, of the shape of `a`; flat without an axis.

    Raises:
      TypeError: `a` is a list, a string or None; `kind` or `order` is given; `axis` is
        not an integer; `dtype` is unknown.
      ValueError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.argsort(jnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    a, axis = _along("argsort", a, axis, kind, order)
    wanted = user_dtype(dtype, "argsort") or _default_index_dtype(a.shape[axis])
    indices = lax.broadcasted_iota(wanted, a.shape, axis)
    if descending and stable:
        a, indices = lax.rev(a, (axis,)), lax.rev(indices, (axis,))
    _, out = lax.sort_key_val(a, indices, dimension=axis, is_stable=stable)
    return lax.rev(out, (axis,)) if descending else out


def _along(
    name: str, a: Any, axis: int | None, kind: None, order: None
) -> tuple[Array, int]:
    a = ensure_arraylike(name, a)
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {name} is not supported. Use stable=True or"
            " stable=False to specify sort stability."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported.")
    if axis is None:
        return ravel(a), 0
    return a, canonical_axis(axis, a.ndim)


def _default_index_dtype(size: int) -> Any:
    dtype = index_dtype(size)
    return dtypes.default_int_dtype() if dtype == np.int32 else dtype


def lexsort(keys: Any, axis: int = -1, *, batch_size: int = 16) -> Array:
    """The indices that sort by several keys, the last one first.

    Args:
      keys: a sequence of arrays of one shape, or an array of them.
      axis: int, along which to sort. Default -1, the last.
      batch_size: a positive int, by how many keys JAX sorts at once; here all are
        sorted by at once. Default 16.

    Returns:
      Indices of the shape of a key, int32 unless the axis is longer than that holds.

    Raises:
      TypeError: there are no keys, or a key is not an array.
      ValueError: shapes differ, `axis` is out of bounds, or `batch_size` not positive.

    >>> from curta import numpy as jnp
    >>> jnp.lexsort((jnp.array([2, 1, 0]), jnp.array([1, 0, 1])))
    Array([1, 2, 0], dtype=int32)
    """
    if concrete_index(batch_size, "batch_size argument of jnp.lexsort()") < 1:
        raise ValueError(f"lexsort: batch_size must be positive, got {batch_size}")
    return _lexsort(keys, axis)


@inner_jit(static_argnames=("axis",), name="lexsort")
def _lexsort(keys: Any, axis: int) -> Array:
    if not isinstance(keys, Sequence):
        if np.ndim(keys) == 0:
            raise TypeError("iteration over a 0-d array: lexsort takes several keys")
        count = keys.shape[0]
        keys = [lax.index_in_dim(keys, i, keepdims=False) for i in range(count)]
    arrays = ensure_arraylikes("lexsort", *keys)
    if not arrays:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    shape = arrays[0].shape
    if any(key.shape != shape for key in arrays):
        raise ValueError("all keys need to be the same shape")
    if not shape:
        return lax.full((), 0, dtypes.default_int_dtype())
    axis = canonical_axis(axis, len(shape))
    indices = lax.broadcasted_iota(_default_index_dtype(shape[axis]), shape, axis)
    operands = (*arrays[::-1], indices)
    return lax.sort(operands, dimension=axis, num_keys=len(arrays))[-1]


@inner_jit
def sort_complex(a: ArrayLike) -> Array:
    """The elements sorted by real, then imaginary part, as complex numbers.

    >>> from curta import numpy as jnp
    >>> jnp.sort_complex(jnp.array([2 + 1j, 1 + 0j]))
    Array([1.+0.j, 2.+1.j], dtype=complex64)
    """
    a = lax.sort(ensure_arraylike("sort_complex", a))
    return lax.convert_element_type(a, dtypes.to_complex_dtype(a.dtype))


@inner_jit(static_argnames=("kth", "axis"))
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The elements with the k-th smallest in its place, smaller ones before it.

    Args:
      a: an array of one dim or more, of real numbers.
      kth: int, the index of the element that is put where sorting would put it; smaller
        ones are before it, in any order.
      axis: int, along which to order. Default -1, the last.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      TypeError: `a` is a list, a string or None; `kth` or `axis` is not an integer.
      ValueError: `kth` or `axis` is out of bounds.
      NotImplementedError: `a` is complex.

    >>> from curta import numpy as jnp
    >>> int(jnp.partition(jnp.array([3, 1, 2]), 1)[1])
    2
    """
    a, axis = _partitioned("partition", a, kth, axis)
    return lax.sort(a, dimension=axis)


@inner_jit(static_argnames=("kth", "axis"))
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The indices that put the k-th smallest element in its place.

    Args:
      a: an array of one dim or more, of real numbers.
      kth: int, the index of the element that is put where sorting would put it; smaller
        ones are before it, in any order.
      axis: int, along which to order. Default -1, the last.

    Returns:
      Indices, of the shape of `a` and the default integer dtype.

    Raises:
      TypeError: `a` is a list, a string or None; `kth` or `axis` is not an integer.
      ValueError: `kth` or `axis` is out of bounds.
      NotImplementedError: `a` is complex.

    >>> from curta import numpy as jnp
    >>> int(jnp.argpartition(jnp.array([3, 1, 2]), 1)[1])
    2
    """
    a, axis = _partitioned("argpartition", a, kth, axis)
    indices = lax.broadcasted_iota(_default_index_dtype(a.shape[axis]), a.shape, axis)
    return lax.sort_key_val(a, indices, dimension=axis)[1]


def _partitioned(name: str, a: Any, kth: int, axis: int) -> tuple[Array, int]:
    a = ensure_arraylike(name, a)
    if is_complex(a):
        raise NotImplementedError(f"jnp.{name} for complex dtype is not implemented.")
    axis = canonical_axis(axis, a.ndim)
    canonical_axis(kth, a.shape[axis])
    return a, axis
