"""Running sums and products, differences, and what is computed from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import (
    axis_of_shape,
    canonical_axis,
    check_arraylike,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    index_tuple,
    user_dtype,
)
from curta.numpy.arithmetic import multiply, remainder
from curta.numpy.constructors import asarray
from curta.numpy.indexing import getitem
from curta.numpy.joining import concatenate
from curta.numpy.promotion import (
    broadcast_to_shape,
    cast,
    const,
    promote_dtypes,
    promote_dtypes_inexact,
)
from curta.numpy.reductions import sum, widened_integer
from curta.numpy.selection import select_where
from curta.numpy.shapes import moveaxis, ravel


def _running(
    name: str,
    op: Callable[[Any, int], Any],
    a: Any,
    axis: int | None,
    dtype: Any,
    out: None = None,
    *,
    nan_as: int | None = None,
    promote_integers: bool = False,
) -> Any:
    a = ensure_arraylike(name, a)
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported")
    if axis is None or (a.ndim == 0 and a.weak_type):  # of an array, or a number
        a, axis = lax.reshape(a, (a.size,)), axis or 0
    axis = canonical_axis(axis, a.ndim)
    if nan_as is not None:
        a = select_where(lax.ne(a, a), const(a, nan_as), a)
    if dtype is None:
        widen = promote_integers or a.dtype == np.bool_
        result = computed = widened_integer(a.dtype) if widen else a.dtype
    else:
        result = computed = user_dtype(dtype, name)
    if result == np.bool_:
        a = a if a.dtype == result else lax.ne(a, const(a, 0))
        computed = widened_integer(result)
    return cast(op(cast(a, computed), axis), result)


@inner_jit(static_argnames=("axis", "dtype"))
def cumsum(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sums of all elements up to each place; of the flattened array by default.

    >>> from curta import numpy as jnp
    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _running("cumsum", lax.cumsum, a, axis, dtype, out)


@inner_jit(static_argnames=("axis", "dtype"))
def cumprod(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The products of all elements up to each place.

    >>> from curta import numpy as jnp
    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _running("cumprod", lax.cumprod, a, axis, dtype, out)


@inner_jit(static_argnames=("axis", "dtype"))
def nancumsum(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Like `cumsum`, with NaN as 0.

    >>> from curta import numpy as jnp
    >>> jnp.nancumsum(jnp.array([1, jnp.nan, 3]))
    Array([1., 1., 4.], dtype=float32)
    """
    return _running("nancumsum", lax.cumsum, a, axis, dtype, out, nan_as=0)


@inner_jit(static_argnames=("axis", "dtype"))
def nancumprod(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Like `cumprod`, with NaN as 1.

    >>> from curta import numpy as jnp
    >>> jnp.nancumprod(jnp.array([2, jnp.nan, 3]))
    Array([2., 2., 6.], dtype=float32)
    """
    return _running("nancumprod", lax.cumprod, a, axis, dtype, out, nan_as=1)


@inner_jit(static_argnames=("axis", "dtype"))
def _cumsum_with_promotion(a: Any, axis: int, dtype: Any) -> Any:
    name = "cumulative_sum"
    return _running(name, lax.cumsum, a, axis, dtype, promote_integers=True)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Running sums along an axis, which only arrays of rank 1 may leave out.

    `include_initial` puts a 0 in front.

    >>> from curta import numpy as jnp
    >>> jnp.cumulative_sum(jnp.array([1, 2]), include_initial=True)
    Array([0, 1, 3], dtype=int32)
    """
    x, axis = _along("cumulative_sum", "a cumulative sum", x, axis)
    out = _cumsum_with_promotion(
        x, axis=axis, dtype=user_dtype(dtype, "cumulative_sum")
    )
    return _with_initial(out, axis, 0) if include_initial else out


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """Running products along an axis, which only arrays of rank 1 may leave out.

    `include_initial` puts a 1 in front.

    >>> from curta import numpy as jnp
    >>> jnp.cumulative_prod(jnp.array([2, 3]), include_initial=True)
    Array([1, 2, 6], dtype=int32)
    """
    x, axis = _along("cumulative_prod", "a cumulative product", x, axis)
    dtype = user_dtype(dtype, "cumulative_prod")
    out = _running("cumulative_prod", lax.cumprod, x, axis, dtype)
    return _with_initial(out, axis, 1) if include_initial else out


def _along(name: str, what: str, x: Any, axis: int | None) -> tuple[Any, int]:
    x = ensure_arraylike(name, x)
    if x.ndim == 0:
        raise ValueError(
            f"The input must be non-scalar to take {what}, however a scalar value or"
            " scalar array was given."
        )
    if axis is None and x.ndim > 1:
        raise ValueError(
            f"The input array has rank {x.ndim}, however axis was not set to an"
            " explicit value. The axis argument is only optional for one-dimensional"
            " arrays."
        )
    return x, canonical_axis(0 if axis is None else axis, x.ndim)


def _with_initial(x: Any, axis: int, value: int) -> Any:
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return lax.concatenate([lax.full(shape, value, x.dtype), x], axis)


# ---- differences


@inner_jit(static_argnames=("n", "axis"))
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbours along an axis, taken `n` times.

    `prepend` and `append` are joined to the array first.

    >>> from curta import numpy as jnp
    >>> jnp.diff(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a = ensure_arraylike("diff", a)
    n = concrete_index(n, "'n' argument of jnp.diff")
    axis = concrete_index(axis, "'axis' argument of jnp.diff")
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if a.ndim == 0:
        raise ValueError(
            f"diff requires input that is at least one dimensional; got {a}"
        )
    axis = canonical_axis(axis, a.ndim)
    parts = [_border(prepend, a.shape, axis), a, _border(append, a.shape, axis)]
    parts = [part for part in parts if part is not None]
    if len(parts) > 1:
        a = concatenate(parts, axis)
    whole = (slice(None),) * axis
    for _ in range(n):
        right = getitem(a, (*whole, slice(1, None)))
        left = getitem(a, (*whole, slice(None, -1)))
        a = lax.ne(right, left) if a.dtype == np.bool_ else lax.sub(right, left)
    return a


def _border(x: Any, shape: tuple[int, ...], axis: int) -> Any:
    if x is None:
        return None
    x = ensure_arraylike("diff", x)
    if x.ndim:
        return x
    return broadcast_to_shape(x, (*shape[:axis], 1, *shape[axis + 1 :]))


@inner_jit
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences of neighbours of the flattened array.

    >>> from curta import numpy as jnp
    >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_end=0)
    Array([3, 5, 0], dtype=int32)
    """
    a = ravel(ensure_arraylike("ediff1d", ary))
    out = lax.sub(getitem(a, np.s_[1:]), getitem(a, np.s_[:-1]))
    if to_begin is not None:
        before = ensure_arraylike("ediff1d", to_begin)
        out = concatenate((ravel(cast(before, a.dtype)), out))
    if to_end is not None:
        after = ensure_arraylike("ediff1d", to_end)
        out = concatenate((out, ravel(cast(after, a.dtype))))
    return out


@inner_jit(static_argnames=("axis", "edge_order"))
def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Array | list[Array]:
    """Second-order central differences, one-sided at the edges, along each axis.

    The spacing is 1, a scalar or a coordinate array for all axes, or one per axis.
    Gives a list of arrays, or the array itself for a single axis.

    >>> from curta import numpy as jnp
    >>> jnp.gradient(jnp.array([1.0, 4.0, 9.0]))
    Array([3., 4., 5.], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError(
            "The 'edge_order' argument to jnp.gradient is not supported."
        )
    check_arraylike("gradient", f, *varargs)
    a, *spacing = promote_dtypes_inexact(f, *varargs)
    a = asarray(a)
    axes = tuple(range(a.ndim)) if axis is None else index_tuple(axis)
    axes = tuple(canonical_axis(i, a.ndim) for i in axes)
    if not axes:
        return []
    if min(a.shape[i] for i in axes) < 2:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2"
            " elements are required."
        )
    if len(spacing) not in (0, 1, len(axes)):
        raise TypeError(
            f"Invalid number of spacing arguments {len(spacing)} for axis={axis!r}"
        )
    steps = spacing or [const(a, 1.0)]
    steps = steps * len(axes) if len(steps) == 1 else steps
    out = [_gradient_along(a, h, i) for h, i in zip(steps, axes)]
    return out[0] if len(axes) == 1 else out


def _gradient_along(a: Any, h: Any, axis: int) -> Any:
    def part(x: Any, start: int, stop: int | None) -> Any:
        return lax.slice_in_dim(x, start, stop, axis=axis)

    first = lax.sub(part(a, 1, 2), part(a, 0, 1))
    last = lax.sub(part(a, -1, None), part(a, -2, -1))
    if np.ndim(h) == 0:
        inner = lax.mul(lax.sub(part(a, 2, None), part(a, 0, -2)), const(a, 0.5))
        inner, last, first = (lax.div(x, h) for x in (inner, last, first))
        parts = [first, inner, last]
    elif np.ndim(h) == 1:
        if h.shape[0] != a.shape[axis]:
            raise ValueError(
                "Spacing arrays must have the same length as the dimension along which"
                " the gradient is calculated."
            )
        h = lax.expand_dims(h, [i for i in range(a.ndim) if i != axis])
        steps = lax.sub(part(h, 1, None), part(h, 0, -1))
        before, after = part(steps, 0, -1), part(steps, 1, None)
        slopes = lax.div(lax.sub(part(a, 1, None), part(a, 0, -1)), steps)
        weighted = lax.add(
            lax.mul(after, part(slopes, 0, -1)), lax.mul(before, part(slopes, 1, None))
        )
        inner = lax.div(weighted, lax.add(before, after))
        parts = [part(slopes, 0, 1), inner, part(slopes, -1, None)]
    else:
        raise ValueError("Spacing arrays must be 1D arrays or scalars.")
    return lax.concatenate(parts, axis)


@inner_jit(static_argnames=("axis",))
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral of samples by the trapezoidal rule.

    >>> from curta import numpy as jnp
    >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float32)
    """
    if x is None:
        (y,) = promote_dtypes_inexact(ensure_arraylike("trapezoid", y))
        dx = asarray(dx)
        if dx.ndim:
            dx = moveaxis(lax.expand_dims(dx, range(y.ndim - dx.ndim)), axis, -1)
    else:
        y, x = promote_dtypes_inexact(*ensure_arraylikes("trapezoid", y, x))
        dx = diff(x) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    y = moveaxis(y, axis, -1)
    half = const(y, 0.5)
    if dx.ndim == 0 or dx.shape[-1] == 1:
        dx = dx if dx.ndim == 0 else getitem(dx, (..., 0))
        total = sum(y, -1)
        ends = lax.add(getitem(y, (..., 0)), getitem(y, (..., -1)))
        return multiply(dx, lax.sub(total, lax.mul(half, ends)))
    pairs = lax.add(
        getitem(y, (..., slice(1, None))), getitem(y, (..., slice(None, -1)))
    )
    return lax.mul(half, sum(multiply(dx, pairs), -1))


def _over_steps(x: Any, shape: tuple[int, ...]) -> Any:
    """A scalar as it is, an array in the shape of the steps it is compared with."""
    return broadcast_to_shape(x, lax.broadcast_shapes(shape, x.shape)) if x.ndim else x


@inner_jit(static_argnames=("axis",))
def unwrap(
    p: ArrayLike,
    discont: ArrayLike | None = None,
    axis: int = -1,
    period: ArrayLike = 2 * np.pi,
) -> Array:
    """Angles with jumps of more than half a `period` taken out.

    >>> from curta import numpy as jnp
    >>> jnp.unwrap(jnp.array([0, 3, 5, 0, 2]), period=6)
    Array([0, 3, 5, 6, 8], dtype=int32)
    """
    check_arraylike("unwrap", p, 0 if discont is None else discont, period)
    p, period = promote_dtypes(*ensure_arraylikes("unwrap", p, period))
    if dtypes.issubdtype(p.dtype, np.complexfloating):
        raise ValueError("jnp.unwrap does not support complex inputs.")
    axis = axis_of_shape(axis, p.ndim)
    if p.shape[axis] == 0:
        return p
    shape = (*p.shape[:axis], p.shape[axis] - 1, *p.shape[axis + 1 :])
    period = _over_steps(period, shape)
    half = lax.div(period, const(period, 2))
    discont = half if discont is None else _over_steps(cast(discont, p.dtype), shape)
    steps = diff(p, axis=axis)
    turned = lax.sub(remainder(lax.add(steps, half), period), half)
    at_edge = lax.bitwise_and(
        lax.eq(turned, lax.neg(half)), lax.gt(steps, const(steps, 0))
    )
    turned = select_where(at_edge, half, turned)
    small = lax.lt(lax.abs(steps), discont)
    shift = select_where(small, const(p, 0), lax.sub(turned, steps))
    rest = lax.add(lax.slice_in_dim(p, 1, None, axis=axis), cumsum(shift, axis=axis))
    return lax.concatenate([lax.slice_in_dim(p, 0, 1, axis=axis), rest], axis)
