"""Sorting, the greatest elements, and cumulative reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from curta.core.array import Array, ArrayLike
from curta.core.shapes import canonicalize_axis, integer, operand_shape
from curta.primitives import cumulative
from curta.primitives.sorting import Sort, TopK


@overload
def sort(
    operand: ArrayLike,
    dimension: int = ...,
    is_stable: bool = ...,
    num_keys: int = ...,
) -> Array: ...
@overload
def sort(
    operand: Sequence[ArrayLike],
    dimension: int = ...,
    is_stable: bool = ...,
    num_keys: int = ...,
) -> tuple[Array, ...]: ...
def sort(
    operand: ArrayLike | Sequence[ArrayLike],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Array | tuple[Array, ...]:
    """`operand` in ascending order along `dimension`; NaN comes last.

    A sequence of arrays is sorted by its first `num_keys` arrays. A later key decides
    where earlier keys are equal.

    Args:
      operand: an array, or a sequence of arrays of one shape.
      dimension: the dim; the last by default.
      is_stable: whether equal elements keep their order.
      num_keys: 1 by default.

    Returns:
      An array, or a tuple of arrays, of the shapes and dtypes of the operands.

    Raises:
      TypeError: if shapes differ, an operand is not an array, or the sequence is empty.
      ValueError: if `dimension` or `num_keys` is out of range.

    >>> import curta
    >>> x = curta.numpy.array([3, 1, 2])
    >>> curta.lax.sort(x)
    Array([1, 2, 3], dtype=int32)
    >>> curta.lax.sort([x, curta.numpy.arange(3)])
    (Array([1, 2, 3], dtype=int32), Array([1, 2, 0], dtype=int32))
    """
    if isinstance(operand, Sequence):
        if len(operand) == 0:
            raise TypeError("Sort requires at least one operand")
        if not 1 <= num_keys <= len(operand):
            raise ValueError(
                f"num_keys={num_keys} must be between 1 and len(operand)={len(operand)}"
            )
        dimension = canonicalize_axis(dimension, len(operand_shape("sort", operand[0])))
        count = integer("sort num_keys", num_keys)
        return tuple(Sort(dimension, is_stable, count)(*operand))
    if num_keys != 1:
        raise ValueError(f"num_keys={num_keys!r} must equal 1 for a single operand.")
    dimension = canonicalize_axis(dimension, len(operand_shape("sort", operand)))
    return Sort(dimension, is_stable)(operand)[0]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """`keys` in ascending order, and `values` reordered alike.

    Args:
      keys: an array.
      values: an array of the same shape.
      dimension: the dim; the last by default.
      is_stable: whether values of equal keys keep their order.

    Returns:
      Two arrays, of the shapes and dtypes of the operands.

    Raises:
      TypeError: if shapes differ.
      ValueError: if a dim is out of range.

    >>> import curta
    >>> import curta.numpy as jnp
    >>> curta.lax.sort_key_val(jnp.array([2, 1]), jnp.array([5., 6.]))
    (Array([1, 2], dtype=int32), Array([6., 5.], dtype=float32))
    """
    dimension = canonicalize_axis(dimension, len(operand_shape("sort", keys)))
    first, second = Sort(dimension, is_stable)(keys, values)
    return first, second


def top_k(
    operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True
) -> list[Any]:
    """The `k` greatest elements along `axis`, descending, and their indices.

    Args:
      operand: an array of real numbers.
      k: a known integer.
      axis: the axis; the last by default.
      is_stable: whether equal elements keep their order; here they always do.

    Returns:
      A list of the elements, in the dtype of `operand`, and of their indices, int32.

    Raises:
      ValueError: if there are fewer than `k` elements, `k` is negative, `axis` is out
        of range, or the operand is complex.
      TypeError: if `k` is not an integer.

    >>> import curta
    >>> curta.lax.top_k(curta.numpy.array([1., 3., 2.]), 2)
    [Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    k = integer("top_k k", k)
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    rank = len(operand_shape("top_k", operand))
    return list(TopK(k, canonicalize_axis(axis, rank), is_stable)(operand))


def cumsum(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """The sums of the first elements along `axis`.

    Args:
      operand: an array of numbers.
      axis: the axis, not negative; 0 by default.
      reverse: sums of the last elements.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      ValueError: if an axis is negative or out of range.
      TypeError: if an operand is boolean.

    >>> import curta
    >>> curta.lax.cumsum(curta.numpy.arange(4))
    Array([0, 1, 3, 6], dtype=int32)
    """
    return cumulative.CumSum(int(axis), bool(reverse))(operand)


def cumprod(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """The products of the first elements along `axis`.

    Args:
      operand, axis: as for `cumsum`.
      reverse: products of the last elements.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      ValueError, TypeError: where `cumsum` does.

    >>> import curta
    >>> curta.lax.cumprod(curta.numpy.arange(1, 5))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return cumulative.CumProd(int(axis), bool(reverse))(operand)


def cummax(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """The greatest of the first elements along `axis`.

    Args:
      operand, axis: as for `cumsum`.
      reverse: the greatest of the last elements.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      ValueError, TypeError: where `cumsum` does.

    >>> import curta
    >>> curta.lax.cummax(curta.numpy.array([1, 3, 2]))
    Array([1, 3, 3], dtype=int32)
    """
    return cumulative.CumMax(int(axis), bool(reverse))(operand)


def cummin(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """The least of the first elements along `axis`.

    Args:
      operand, axis: as for `cumsum`.
      reverse: the least of the last elements.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      ValueError, TypeError: where `cumsum` does.

    >>> import curta
    >>> curta.lax.cummin(curta.numpy.array([3, 1, 2]))
    Array([3, 1, 1], dtype=int32)
    """
    return cumulative.CumMin(int(axis), bool(reverse))(operand)


def cumlogsumexp(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """log(exp(x0) + ... + exp(xi)) along `axis`.

    Args:
      operand: an array of an inexact dtype.
      axis: the axis, not negative; 0 by default.
      reverse: of the last elements.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      ValueError: if an axis is negative or out of range.
      TypeError: for integers and booleans.

    >>> import curta
    >>> curta.lax.cumlogsumexp(curta.numpy.zeros(3))
    Array([0.       , 0.6931472, 1.0986123], dtype=float32)
    """
    return cumulative.CumLogSumExp(int(axis), bool(reverse))(operand)
