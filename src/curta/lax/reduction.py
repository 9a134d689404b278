"""Reductions over given axes, without NumPy's keywords."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from curta import dtypes
from curta.api.out_sharding import takes_out_sharding, terms_on_devices
from curta.config import config
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.avals import ShapedArray
from curta.core.partition_spec import entry_axes
from curta.core.shapes import integer
from curta.core.trace import typeof
from curta.errors import ShardingTypeError
from curta.primitives import reduction
from curta.primitives.structure import ReduceSum


@takes_out_sharding(sums=True)
def reduce_sum(
    operand: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """The sum over `axes`, in the operand's dtype.

    Args:
      operand: an array of numbers.
      axes: the axes, not negative.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array without these axes, of the dtype of `operand`.

    Raises:
      TypeError: if an operand is boolean or axes are not integers.
      ValueError: for axes that do not exist or are named twice, and for float16 and
        bfloat16 if the setting jax_allow_f16_reductions is off.

    >>> import curta
    >>> curta.lax.reduce_sum(curta.numpy.ones((2, 3)), (1,))
    Array([3., 3.], dtype=float32)
    """
    axes = _axes("reduce_sum", axes)
    if not config.jax_allow_f16_reductions:
        _refuse_half_precision(typeof(operand), axes)
    op = ReduceSum(axes)
    if out_sharding is None:
        return op(operand)
    split = typeof(operand).sharding.spec.for_rank(typeof(operand).ndim)
    over = {n for d in axes for n in entry_axes(split.partitions[d])} | split.unreduced
    if not out_sharding.spec.unreduced <= over:
        raise ShardingTypeError(
            "out_sharding's unreduced axes should be in operand's specs that were"
            f" summed over. Got operand={typeof(operand)}, axes={axes},"
            f" unreduced_spec={set(out_sharding.spec.unreduced)}"
        )
    return terms_on_devices(op, [operand], [axes], out_sharding)


def _axes(name: str, axes: Sequence[int]) -> tuple[int, ...]:
    """`axes` as a tuple of ints; TypeError for anything else."""
    result = tuple(axes)
    if all(type(d) is int for d in result):
        return result
    try:
        return tuple(map(operator.index, result))
    except TypeError as error:
        if type(error) is not TypeError:  # a traced value
            raise
        raise TypeError(f"{name} axes must be integers, got {result}.") from None


def _refuse_half_precision(aval: ShapedArray, axes: Sequence[int]) -> None:
    if aval.dtype.name in ("float16", "bfloat16"):
        if any(aval.shape[axis] != 1 for axis in axes):
            raise ValueError(
                f"reduce_sum on operand {aval.str_short(short_dtypes=True)} is not"
                " allowed when jax_allow_f16_reductions=False. Convert it to float32."
            )


def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The product over `axes`, in the operand's dtype.

    >>> import curta
    >>> curta.lax.reduce_prod(curta.numpy.arange(1, 4), (0,))
    Array(6, dtype=int32)
    """
    return reduction.ReduceProd(_axes("reduce_prod", axes))(operand)


@takes_out_sharding
def reduce_max(
    operand: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """The greatest element along `axes`, NaN if one is NaN.

    Over no elements it is the least value of the dtype.

    Args:
      operand: an array of real numbers or booleans.
      axes: the axes, not negative.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array without these axes, of the dtype of `operand`.

    Raises:
      TypeError: if an operand is complex or axes are not integers.
      ValueError: if axes are out of range or repeated.

    >>> import curta
    >>> curta.lax.reduce_max(curta.numpy.arange(4), (0,))
    Array(3, dtype=int32)
    """
    return reduction.ReduceMax(_axes("reduce_max", axes))(operand)


@takes_out_sharding
def reduce_min(
    operand: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """The least element along `axes`, NaN if one is NaN.

    Over no elements it is the greatest value of the dtype.

    Args:
      operand: an array of real numbers or booleans.
      axes: the axes, not negative.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array without these axes, of the dtype of `operand`.

    Raises:
      TypeError: if an operand is complex or axes are not integers.
      ValueError: if axes are out of range or repeated.

    >>> import curta
    >>> curta.lax.reduce_min(curta.numpy.arange(4), (0,))
    Array(0, dtype=int32)
    """
    return reduction.ReduceMin(_axes("reduce_min", axes))(operand)


def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise and over `axes`, of booleans or integers.

    >>> import curta
    >>> curta.lax.reduce_and(curta.numpy.array([True, False]), (0,))
    Array(False, dtype=bool)
    """
    return reduction.ReduceAnd(_axes("reduce_and", axes))(operand)


def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise or over `axes`, of booleans or integers.

    >>> import curta
    >>> curta.lax.reduce_or(curta.numpy.array([True, False]), (0,))
    Array(True, dtype=bool)
    """
    return reduction.ReduceOr(_axes("reduce_or", axes))(operand)


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise exclusive or over `axes`, of booleans or integers.

    >>> import curta
    >>> curta.lax.reduce_xor(curta.numpy.array([5, 1]), (0,))
    Array(4, dtype=int32)
    """
    return reduction.ReduceXor(_axes("reduce_xor", axes))(operand)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index of the first greatest element along `axis`, or of the first NaN.

    Args:
      operand: an array of real numbers or booleans.
      axis: the axis, not negative.
      index_dtype: the dtype of indices, of integers.

    Returns:
      An array without this axis, of dtype `index_dtype`.

    Raises:
      ValueError: if the dim is empty or not there.
      TypeError: if an operand is complex, an axis is not an integer, or `dtype` is not
          an integer dtype.

    >>> import curta
    >>> curta.lax.argmax(curta.numpy.array([1, 3, 3]), 0, "int32")
    Array(1, dtype=int32)
    """
    dtype = dtypes.check_user_dtype(index_dtype, "argmax")
    return reduction.ArgMax((integer("argmax axis", axis),), dtype)(operand)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index of the first least element along `axis`, or of the first NaN.

    Args:
      operand, axis, index_dtype: as for `argmax`.

    Returns:
      An array without this axis, of dtype `index_dtype`.

    Raises:
      ValueError, TypeError: where `argmax` does.

    >>> import curta
    >>> curta.lax.argmin(curta.numpy.array([1, 3, 1]), 0, "int32")
    Array(0, dtype=int32)
    """
    dtype = dtypes.check_user_dtype(index_dtype, "argmin")
    return reduction.ArgMin((integer("argmin axis", axis),), dtype)(operand)
