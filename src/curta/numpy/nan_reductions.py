"""Reductions that pass over NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import (
    Axis,
    check_where,
    ensure_arraylike,
    is_complex,
    refuse_out,
    static_axes,
    user_dtype,
)
from curta.numpy.folds import start_value
from curta.numpy.promotion import cast, const
from curta.numpy.reductions import all, max, min, prod, sum
from curta.numpy.selection import select_where
from curta.numpy.statistics import mean, variance_dtypes


def _without_nan(
    name: str,
    reduction: Callable[..., Any],
    start: Any,
    a: Any,
    nan_if_all: bool = False,
    *,
    axis: Axis,
    keepdims: bool,
    where: Any,
    **settings: Any,
) -> Any:
    """`reduction` of `a` with NaN replaced by `start`."""
    a = ensure_arraylike(name, a)
    axis, where = static_axes(axis), check_where(name, where)
    settings |= {"axis": axis, "keepdims": keepdims, "where": where}
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return reduction(a, **settings)
    filled = select_where(lax.ne(a, a), start_value(start, a.dtype), a)
    out = reduction(filled, **settings)
    if not nan_if_all:
        return out
    empty = all(lax.ne(a, a), axis=axis, keepdims=keepdims)
    return select_where(empty, const(a, np.nan), out)


@inner_jit(static_argnames=("axis", "keepdims"))
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest element that is not NaN; NaN if all are.

    Args:
      a: an array or scalar, of any shape and dtype.
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
    >>> jnp.nanmin(jnp.array([jnp.nan, 2.0, 1.0]))
    Array(1., dtype=float32)
    """
    return _without_nan(
        "nanmin",
        min,
        np.inf,
        a,
        initial is None,
        axis=axis,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@inner_jit(static_argnames=("axis", "keepdims"))
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest element that is not NaN; NaN if all are.

    Args:
      a: an array or scalar, of any shape and dtype.
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
    >>> jnp.nanmax(jnp.array([jnp.nan, 2.0, 1.0]))
    Array(2., dtype=float32)
    """
    return _without_nan(
        "nanmax",
        max,
        -np.inf,
        a,
        initial is None,
        axis=axis,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum of the elements that are not NaN.

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
    >>> jnp.nansum(jnp.array([jnp.nan, 2.0, 1.0]))
    Array(3., dtype=float32)
    """
    return _without_nan(
        "nansum",
        sum,
        0,
        a,
        axis=axis,
        dtype=dtype,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product of the elements that are not NaN.

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
    >>> jnp.nanprod(jnp.array([jnp.nan, 2.0, 3.0]))
    Array(6., dtype=float32)
    """
    return _without_nan(
        "nanprod",
        prod,
        1,
        a,
        axis=axis,
        dtype=dtype,
        out=out,
        keepdims=keepdims,
        initial=initial,
        where=where,
    )


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean of the elements that are not NaN; NaN if there are none.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      dtype: dtype of the sum and of the result; None (default) is `a`'s, float32 for
        integers and booleans.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      keepdims: keep the reduced axes, with size 1. Default False.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.

    Returns:
      The means: `a`'s shape without the reduced axes (or with size 1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `dtype` is
        unknown.
      ValueError: an axis is out of bounds or occurs twice; `where` is not boolean.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.nanmean(jnp.array([jnp.nan, 2.0, 1.0]))
    Array(1.5, dtype=float32)
    """
    a = ensure_arraylike("nanmean", a)
    axis, where = static_axes(axis), check_where("nanmean", where)
    refuse_out("nanmean", out)
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return mean(a, axis, dtype, keepdims=keepdims, where=where)
    dtype = user_dtype(dtype, "nanmean") or a.dtype
    valid = lax.bitwise_not(lax.ne(a, a))
    count = sum(valid, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    total = nansum(a, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    return lax.div(total, count)


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: Any = None,
) -> Array:
    """The variance of the elements that are not NaN.

    The divisor is their count less `ddof`; NaN where it is not positive.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      dtype: dtype of the result; None (default) is `a`'s, real for complex and float32
        for integers and booleans.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      ddof: what the divisor is less than the count. Default 0.
      keepdims: keep the reduced axes, with size 1. Default False.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.
      mean: the mean, if it is known, with the reduced axes of size 1. None (default)
        computes it.

    Returns:
      The variances, real: `a`'s shape without the reduced axes (or with size 1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `dtype` is
        unknown; `ddof` or `mean` is not a number or array.
      ValueError: an axis is out of bounds or occurs twice; `where` is not boolean;
        `dtype` is real and `a` complex.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.nanvar(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1., dtype=float32)
    """
    a = ensure_arraylike("nanvar", a)
    axis, where = static_axes(axis), check_where("nanvar", where)
    refuse_out("nanvar", out)
    computed, dtype = variance_dtypes(a.dtype, user_dtype(dtype, "nanvar"))
    a = cast(a, computed)
    if mean is None:
        mean = nanmean(a, axis, dtype=computed, keepdims=True, where=where)
    else:
        mean = cast(ensure_arraylike("nanvar", mean), computed)
    missing = lax.ne(a, a)
    centered = select_where(missing, 0, lax.sub(a, mean))
    if is_complex(centered):
        centered = lax.real(lax.mul(centered, lax.conj(centered)))
    else:
        centered = lax.square(centered)
    valid = lax.bitwise_not(lax.ne(a, a))
    count = sum(valid, axis=axis, keepdims=keepdims, where=where)
    count = count - ddof
    empty = lax.le(count, const(count, 0))
    total = sum(centered, axis, keepdims=keepdims, where=where)
    total = select_where(empty, np.nan, total)
    divisor = select_where(empty, 1, count)
    return cast(lax.div(total, cast(divisor, total.dtype)), dtype)


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: Any = None,
) -> Array:
    """The standard deviation of the elements that are not NaN.

    The square root of `nanvar`; NaN where the count less `ddof` is not positive.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      dtype: dtype of the result; None (default) is `a`'s, real for complex and float32
        for integers and booleans.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      ddof: what the divisor is less than the count. Default 0.
      keepdims: keep the reduced axes, with size 1. Default False.
      where: booleans that broadcast with `a`, the elements that take part. None
        (default) for all.
      mean: the mean, if it is known, with the reduced axes of size 1. None (default)
        computes it.

    Returns:
      The standard deviations, real: `a`'s shape without the reduced axes (or with size
      1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `dtype` is
        unknown; `ddof` or `mean` is not a number or array.
      ValueError: an axis is out of bounds or occurs twice; `where` is not boolean;
        `dtype` is real and `a` complex.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.nanstd(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("nanstd", out)
    return lax.sqrt(
        nanvar(
            ensure_arraylike("nanstd", a),
            axis=axis,
            dtype=dtype,
            ddof=ddof,
            keepdims=keepdims,
            where=check_where("nanstd", where),
            mean=mean,
        )
    )
