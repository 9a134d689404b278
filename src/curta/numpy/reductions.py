"""Reductions over axes: sums, products, extrema, and logical operations.

All take `axis` (None for all, an int, or a tuple), `keepdims` and, where it makes
sense, `where` (a mask of the elements that count) and `initial`. Sums and products of
small integers are computed in the default integer dtype, sums of float16 and bfloat16
in float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import (
    Axis,
    alias,
    ensure_arraylike,
    ensure_operand,
    is_complex,
    refuse_out,
    static_axes,
)
from curta.numpy.folds import ReductionSpec, fold_axes
from curta.numpy.promotion import cast, const


def _reduce_sum(x: Any, axes: tuple[int, ...]) -> Any:
    if x.dtype == np.bool_:
        return lax.reduce_or(x, axes)
    return lax.reduce_sum(x, axes)


def _reduce_prod(x: Any, axes: tuple[int, ...]) -> Any:
    if x.dtype == np.bool_:
        return lax.reduce_and(x, axes)
    return lax.reduce_prod(x, axes)


def _add(x: Any, y: Any) -> Any:
    return lax.bitwise_or(x, y) if y.dtype == np.bool_ else lax.add(x, y)


def _mul(x: Any, y: Any) -> Any:
    return lax.bitwise_and(x, y) if y.dtype == np.bool_ else lax.mul(x, y)


_SUM = ReductionSpec("sum", _reduce_sum, _add, 0, widens=True, over_names=lax.psum)
_PROD = ReductionSpec("prod", _reduce_prod, _mul, 1, widens=True)
MAX = ReductionSpec(
    "max", lax.reduce_max, lax.max, -math.inf, has_identity=False, over_names=lax.pmax
)
MIN = ReductionSpec(
    "min", lax.reduce_min, lax.min, math.inf, has_identity=False, over_names=lax.pmin
)
_ALL = ReductionSpec("all", lax.reduce_and, lax.bitwise_and, True)
_ANY = ReductionSpec("any", lax.reduce_or, lax.bitwise_or, False)


@inlined_jit(static_argnames=("axis", "dtype", "out", "keepdims", "promote_integers"))
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum over axes; booleans are counted.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      dtype: dtype of the computation and the result. None (default) uses the dtype of
        `a`.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. Default False.
      initial: a scalar that the sum starts with; None (default) stands for 0.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.
      promote_integers: sum booleans and narrow integers in the default integer dtype
        (int32 or uint32 without `jax_enable_x64`). Default True; False keeps their
        dtype.

    Returns:
      The sums: `a`'s shape without the reduced axes (or with size 1 there). The sum of
      no elements is `initial` or 0.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `dtype` is
        unknown; `initial` is not a number.
      ValueError: an axis is out of bounds or occurs twice; `initial` is not a scalar;
        `where` is not boolean.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.sum(jnp.array([[1, 2], [3, 4]]), axis=0)
    Array([4, 6], dtype=int32)
    """
    return fold_axes(
        _SUM,
        a,
        axis=static_axes(axis),
        dtype=dtype,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
        promote_integers=promote_integers,
    )


@inlined_jit(static_argnames=("axis", "dtype", "out", "keepdims", "promote_integers"))
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product over axes.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      dtype: dtype of the computation and the result. None (default) uses the dtype of
        `a`.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. Default False.
      initial: a scalar that the product starts with; None (default) stands for 1.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.
      promote_integers: multiply booleans and narrow integers in the default integer
        dtype (int32 or uint32 without `jax_enable_x64`). Default True; False keeps
        their dtype.

    Returns:
      The products: `a`'s shape without the reduced axes (or with size 1 there). The
      product of no elements is `initial` or 1.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `dtype` is
        unknown; `initial` is not a number.
      ValueError: an axis is out of bounds or occurs twice; `initial` is not a scalar;
        `where` is not boolean.
      NotImplementedError: `out` is given; `axis` is a name.

    >>> from curta import numpy as jnp
    >>> jnp.prod(jnp.array([[1, 2], [3, 4]]), axis=0)
    Array([3, 8], dtype=int32)
    """
    return fold_axes(
        _PROD,
        a,
        axis=static_axes(axis),
        dtype=dtype,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
        promote_integers=promote_integers,
    )


@inlined_jit(static_argnames=("axis", "out", "keepdims"))
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest element over axes; NaN if there is one.

    Args:
      a: an array or scalar, of any shape and dtype; complex numbers are ordered by
        real, then by imaginary part.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. Default False.
      initial: a scalar that takes part too; required for no elements and for `where`.
        None (default) for none.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.

    Returns:
      The largest elements, of `a`'s dtype: `a`'s shape without the reduced axes (or
      with size 1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `initial`
        is not a number.
      ValueError: an axis is out of bounds or occurs twice; `initial` is not a scalar;
        `where` is not boolean; there are no elements, or `where` is given, and
        `initial` is not.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.max(jnp.array([[1, 4], [3, 2]]), axis=1)
    Array([4, 3], dtype=int32)
    """
    return fold_axes(
        MAX,
        a,
        axis=static_axes(axis),
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@inlined_jit(static_argnames=("axis", "out", "keepdims"))
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest element over axes; NaN if there is one.

    Args:
      a: an array or scalar, of any shape and dtype; complex numbers are ordered by
        real, then by imaginary part.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. Default False.
      initial: a scalar that takes part too; required for no elements and for `where`.
        None (default) for none.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.

    Returns:
      The smallest elements, of `a`'s dtype: `a`'s shape without the reduced axes (or
      with size 1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `initial`
        is not a number.
      ValueError: an axis is out of bounds or occurs twice; `initial` is not a scalar;
        `where` is not boolean; there are no elements, or `where` is given, and
        `initial` is not.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.min(jnp.array([[1, 4], [3, 2]]), axis=1)
    Array([1, 2], dtype=int32)
    """
    return fold_axes(
        MIN,
        a,
        axis=static_axes(axis),
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


amax = alias("amax", max)
amin = alias("amin", min)


@inlined_jit(static_argnames=("axis", "out", "keepdims"))
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Return True if every element differs from 0.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. Default False.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.

    Returns:
      Booleans, of `a`'s shape without the reduced axes (or with size 1 there). True
      of no elements.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers.
      ValueError: an axis is out of bounds or occurs twice; `where` is not boolean.
      NotImplementedError: `out` is given; `axis` is a name.

    >>> from curta import numpy as jnp
    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    return _logical_fold(_ALL, a, axis, out, keepdims, where)


@inlined_jit(static_argnames=("axis", "out", "keepdims"))
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Return True if some element differs from 0.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. Default False.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.

    Returns:
      Booleans, of `a`'s shape without the reduced axes (or with size 1 there). False
      of no elements.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers.
      ValueError: an axis is out of bounds or occurs twice; `where` is not boolean.
      NotImplementedError: `out` is given; `axis` is a name.

    >>> from curta import numpy as jnp
    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return _logical_fold(_ANY, a, axis, out, keepdims, where)


def _logical_fold(
    fold: ReductionSpec, a: Any, axis: Axis, out: None, keepdims: bool, where: Any
) -> Any:
    refuse_out(fold.name, out)
    a = ensure_operand(fold.name, a)
    if is_complex(a):
        a = lax.real(a)
    a = cast(a, np.dtype(np.bool_))
    axis = static_axes(axis)
    return fold_axes(fold, a, axis=axis, keepdims=keepdims, where=where)


@inner_jit(static_argnames=("axis", "keepdims"))
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements differ from 0.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      keepdims: keep the reduced axes, with size 1. Default False.

    Returns:
      Counts, of the default integer dtype: `a`'s shape without the reduced axes (or
      with size 1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers.
      ValueError: an axis is out of bounds or occurs twice.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.count_nonzero(jnp.array([0, 3, 4]))
    Array(2, dtype=int32)
    """
    a = ensure_arraylike("count_nonzero", a)
    differs = lax.ne(a, const(a, 0))
    dtype = dtypes.default_int_dtype()
    return sum(differs, axis=axis, dtype=dtype, keepdims=keepdims)


def ptp(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False
) -> Array:
    """The difference between the largest and the smallest element.

    Args:
      a: an array or scalar of numbers, of any shape; not booleans.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. Default False.

    Returns:
      The differences, of `a`'s dtype: `a`'s shape without the reduced axes (or with
      size 1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `a` is
        boolean.
      ValueError: an axis is out of bounds or occurs twice; there are no elements.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.ptp(jnp.array([3, 8, 5]))
    Array(5, dtype=int32)
    """
    refuse_out("ptp", out)
    return _ptp(ensure_arraylike("ptp", a), static_axes(axis), keepdims)


@inner_jit(static_argnames=("axis", "keepdims"))
def _ptp(a: Any, axis: Axis, keepdims: bool) -> Any:
    largest = max(a, axis=axis, keepdims=keepdims)
    return lax.sub(largest, min(a, axis=axis, keepdims=keepdims))
