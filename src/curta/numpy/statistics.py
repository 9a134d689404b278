"""Statistics: averages, variances, standard deviations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import (
    Axis,
    axis_of_shape,
    canonical_axes,
    check_operands,
    check_where,
    ensure_arraylike,
    ensure_operand,
    ensure_operands,
    is_complex,
    refuse_out,
    static_axes,
    user_dtype,
)
from curta.numpy.folds import listed_axes, upcast_half
from curta.numpy.promotion import (
    broadcast_to_shape,
    cast,
    const,
    promote_dtypes_inexact,
)
from curta.numpy.reductions import sum
from curta.numpy.selection import select_where
from curta.primitives.dims import dim_value


@inlined_jit(static_argnames=("axis", "dtype", "out", "keepdims"))
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The arithmetic mean over axes, in floats; NaN over no elements.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      dtype: dtype of the sum and of the result; None (default) is `a`'s, float32 for
        integers and booleans. With bool, the mean is whether any element is true.
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
    >>> jnp.mean(jnp.array([[1, 2], [3, 4]]), axis=0)
    Array([2., 3.], dtype=float32)
    """
    axis = static_axes(axis)
    a = ensure_operand("mean", a)
    where = check_where("mean", where)
    refuse_out("mean", out)
    if dtype is None:
        result = dtypes.to_inexact_dtype(a.dtype)
        computed = upcast_half(result)
    else:
        result = computed = user_dtype(dtype, "mean")
        if isinstance(computed, dtypes.ExtendedDType):
            a = cast(a, computed)  # which says that keys are no numbers
        if result == np.bool_:  # The sum is a logical or; only 0 / n is False.
            a, computed = cast(a, result), dtypes.default_float_dtype()
    count = _count(a, axis, keepdims, where, computed)
    total = sum(a, axis, dtype=computed, keepdims=keepdims, where=where)
    return cast(lax.div(total, count), result)


def _count(a: Any, axis: Axis, keepdims: bool, where: Any, dtype: Any) -> Any:
    """How many elements a reduction folds into one."""
    if where is None:
        return dim_value(_folded_size(a.shape, axis), dtype)
    where = broadcast_to_shape(where, a.shape)
    return sum(where, axis, dtype=dtype, keepdims=keepdims)


def _folded_size(shape: tuple[int, ...], axis: Any) -> int:
    """The product of the sizes of dims and of named axes."""
    if axis is None:
        return math.prod(shape)
    size = 1
    for i in listed_axes(axis):
        if isinstance(i, str):
            size *= lax.axis_size(i)
        else:
            size *= shape[axis_of_shape(i, len(shape))]
    return size


def average(
    a: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The weighted mean sum(a·weights) / sum(weights) over axes.

    Args:
      a: an array or scalar, of any shape and dtype.
      axis: int or distinct ints, the axes to reduce; a name stands for the axis that an
        enclosing `vmap` or `shard_map` maps. None (default) is all axes.
      weights: an array of the shape of `a`, or of the shape of the reduced axes. None
        (default) gives all elements the same weight.
      returned: return the sums of the weights too. Default False.
      keepdims: keep the reduced axes, with size 1. Default False.

    Returns:
      The means, in floats: `a`'s shape without the reduced axes (or with size 1 there);
      with `returned` a pair of these and the sums of the weights. NaN where the weights
      add up to 0.

    Raises:
      TypeError: `a` or `weights` is a list or a string.
      ValueError: an axis is out of bounds or given twice; `weights` has another shape
        than `a` and no `axis` is given, or does not fit it.

    >>> from curta import numpy as jnp
    >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0]))
    Array(1.5, dtype=float32)
    """
    axis = static_axes(axis)
    a = ensure_operand("average", a)
    axes = canonical_axes(axis, a.ndim, "repeated axis")
    if weights is None:
        (a,) = promote_dtypes_inexact(a)
        out = mean(a, axis=axis, keepdims=keepdims)
        count = math.prod(a.shape[i] for i in axes)
        total = lax.full((), count, dtype=out.dtype)
    else:
        a, weights = promote_dtypes_inexact(*ensure_operands("average", a, weights))
        weights = _fitting_weights(a, axis, axes, weights)
        total = sum(weights, axis=axis, keepdims=keepdims)
        out = sum(lax.mul(a, weights), axis=axis, keepdims=keepdims)
        out = lax.div(out, total)
    if not returned:
        return out
    return out, broadcast_to_shape(total, out.shape)


def _fitting_weights(a: Any, axis: Axis, axes: tuple[int, ...], weights: Any) -> Any:
    if a.shape == weights.shape:
        return weights
    if axis is None:
        raise ValueError("Axis must be specified when shapes of a and weights differ.")
    if weights.shape != tuple(a.shape[i] for i in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    shape = tuple(d if i in axes else 1 for i, d in enumerate(a.shape))
    return lax.reshape(weights, shape, dimensions=tuple(np.argsort(axes)))


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: Any = None,
    correction: float | None = None,
) -> Array:
    """The mean squared distance from the mean: sum(|a - mean|²) / (count - ddof).

    NaN where the divisor is not positive. The mean is found first, then the distances,
    which loses no digits to a large mean.

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
      correction: the newer name of `ddof`; None (default) takes `ddof`.

    Returns:
      The variances, real: `a`'s shape without the reduced axes (or with size 1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `dtype` is
        unknown; `ddof` or `mean` is not a number or array.
      ValueError: an axis is out of bounds or occurs twice; `where` is not boolean; both
        `ddof` and `correction` are given; `dtype` is real and `a` complex.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.var(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    correction = _correction("var", ddof, correction)
    a = ensure_arraylike("var", a)
    refuse_out("var", out)
    return _var(
        a,
        axis=static_axes(axis),
        dtype=dtype,
        correction=correction,
        keepdims=keepdims,
        where=where,
        a_mean=mean,
    )


def _correction(name: str, ddof: Any, correction: Any) -> Any:
    if correction is None:
        check_operands(f"{name}, argument ddof,", ddof)
        return ddof
    check_operands(f"{name}, argument correction,", correction)
    if not isinstance(ddof, int) or ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def _var(
    a: Any,
    *,
    axis: Axis,
    dtype: Any,
    correction: Any,
    keepdims: bool,
    where: Any,
    a_mean: Any,
) -> Any:
    where = check_where("var", where)
    computed, dtype = variance_dtypes(a.dtype, user_dtype(dtype, "var"))
    a = cast(a, computed)
    if a_mean is None:
        a_mean = mean(a, axis, dtype=computed, keepdims=True, where=where)
    else:
        a_mean = cast(ensure_arraylike("var", a_mean), computed)
    centered = lax.sub(a, a_mean)
    if is_complex(centered):
        centered = lax.real(lax.mul(centered, lax.conj(centered)))
        computed = centered.dtype
    else:
        centered = lax.square(centered)
    count = _count(a, axis, keepdims, where, computed)
    count = lax.sub(count, cast(correction, computed))
    out = sum(centered, axis, dtype=computed, keepdims=keepdims, where=where)
    out = cast(lax.div(out, count), dtype)
    return select_where(lax.gt(count, const(count, 0)), out, np.nan)


def variance_dtypes(own: Any, wanted: Any) -> tuple[Any, Any]:
    """The dtype in which a variance is computed, and the dtype of the result."""
    if wanted is not None:
        complex_own = dtypes.issubdtype(own, np.complexfloating)
        if complex_own and not dtypes.issubdtype(wanted, np.complexfloating):
            raise ValueError(
                "jax.numpy.var does not yet support real dtype parameters when"
                " computing the variance of an array of complex values. The semantics"
                " of numpy.var seem unclear in this case. Take the variances of the"
                " real and imaginary parts instead."
            )
        return upcast_half(wanted), wanted
    if not dtypes.issubdtype(own, np.inexact):
        own = dtypes.to_inexact_dtype(own)
    return upcast_half(own), np.dtype(dtypes.finfo(own).dtype)


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: Any = None,
    correction: float | None = None,
) -> Array:
    """The standard deviation: the square root of `var`.

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
      correction: the newer name of `ddof`; None (default) takes `ddof`.

    Returns:
      The standard deviations, real: `a`'s shape without the reduced axes (or with size
      1 there).

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; `dtype` is
        unknown; `ddof` or `mean` is not a number or array.
      ValueError: an axis is out of bounds or occurs twice; `where` is not boolean; both
        `ddof` and `correction` are given; `dtype` is real and `a` complex.
      NotImplementedError: `out` is given.
      NameError: `axis` is a name that nothing maps.

    >>> from curta import numpy as jnp
    >>> jnp.std(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    correction = _correction("std", ddof, correction)
    a = ensure_arraylike("std", a)
    refuse_out("std", out)
    return _std(
        a,
        axis=static_axes(axis),
        dtype=dtype,
        correction=correction,
        keepdims=keepdims,
        where=where,
        mean=mean,
    )


@inner_jit(static_argnames=("axis", "dtype", "keepdims"))
def _std(
    a: Any,
    *,
    axis: Axis,
    dtype: Any,
    correction: Any,
    keepdims: bool,
    where: Any,
    mean: Any,
) -> Any:
    where = check_where("std", where)
    dtype = user_dtype(dtype, "std")
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"dtype argument to jnp.std must be inexact; got {dtype}")
    return lax.sqrt(
        _var(
            a,
            axis=axis,
            dtype=dtype,
            correction=correction,
            keepdims=keepdims,
            where=where,
            a_mean=mean,
        )
    )
