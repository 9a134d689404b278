"""Differences of neighbors, derivatives and integrals of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    axis_of_shape,
    canonical_axis,
    check_arraylike,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    index_tuple,
)
from curta.numpy.arithmetic import multiply, remainder
from curta.numpy.constructors import asarray
from curta.numpy.cumulative import cumsum
from curta.numpy.indexing import getitem
from curta.numpy.joining import concatenate
from curta.numpy.promotion import (
    broadcast_to_shape,
    cast,
    const,
    promote_dtypes,
    promote_dtypes_inexact,
)
from curta.numpy.reductions import sum
from curta.numpy.selection import select_where
from curta.numpy.shapes import moveaxis, ravel


@inner_jit(static_argnames=("n", "axis"))
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbors along an axis, taken `n` times.

    Args:
      a: an array of one dim or more; booleans are compared (`!=`).
      n: how often to take differences, static and not negative. Default 1.
      axis: int, along which neighbors lie. Default -1, the last.
      prepend, append: an array or scalar joined to `a` along `axis` before, of the
        shape of `a` elsewhere. None (default) for none.

    Returns:
      The differences, of `a`'s dtype, shorter by `n` along `axis`.

    Raises:
      TypeError: `a`, `prepend` or `append` is a list or a string; `n` or `axis` is not
        an integer; `prepend` or `append` does not fit `a`.
      ValueError: `a` is a scalar, `n` negative, or `axis` out of bounds.

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
    """The differences of neighbors of the flattened array.

    Args:
      ary: an array of any shape, which is flattened.
      to_end, to_begin: an array of any shape, flattened and put after or before the
        differences. None (default) for none.

    Returns:
      A vector of the differences, of `ary`'s dtype: (ary.size - 1,), and longer by the
      sizes of `to_end` and `to_begin`.

    Raises:
      TypeError: `ary`, `to_end` or `to_begin` is a list or a string.

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
    """Derivatives of samples by second-order central differences, one-sided at edges.

    Inside (f[i+1] - f[i-1]) / 2h, and for uneven spacing the weights of B. Fornberg,
    Generation of finite difference formulas on arbitrarily spaced grids (1988).

    Args:
      f: an array of samples, each axis at least 2 long; integers become floats.
      *varargs: the spacing: nothing for 1, a scalar or a coordinate vector for all
        axes, or one for each axis.
      axis: int or ints, along which to differentiate. None (default) is every axis.
      edge_order: must be None (default), for first-order differences at the edges.

    Returns:
      An array of the shape of `f` for a single axis, or a list of one for each.

    Raises:
      TypeError: `f` or `varargs` is a list, a string or None; the number of spacings is
        neither 1 nor the number of axes.
      ValueError: an axis is out of bounds or shorter than 2; a coordinate vector does
        not have the length of its axis.
      NotImplementedError: `edge_order` is given.

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

    sum of (x[i+1] - x[i])·(y[i] + y[i+1])/2 over i.

    Args:
      y: an array of samples, of one dim or more.
      x: the positions of the samples along `axis`: a vector or an array that broadcasts
        with `y`. None (default) for samples `dx` apart.
      dx: the distance of samples, a scalar, if `x` is None. Default 1.
      axis: int, along which to integrate. Default -1, the last.

    Returns:
      The integrals, in floats: `y`'s shape without `axis`.

    Raises:
      TypeError: `y`, `x` or `dx` is a list or a string; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast; `axis` is out of bounds.
      IndexError: there are no samples.

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
    """Angles with jumps of more than half a `period` taken out, by multiples of it.

    Args:
      p: an array of real angles, of one dim or more.
      discont: the least jump that is taken out, never less than period / 2. None
        (default) is period / 2.
      axis: int, along which angles follow one another. Default -1, the last.
      period: the size of a full turn. Default 2π.

    Returns:
      The angles, in floats (integers stay such if `period` is one): the shape of `p`.

    Raises:
      TypeError: `p`, `discont` or `period` is a list or a string; `axis` is not an
          integer.
      ValueError: `p` is complex; `axis` is out of bounds (an IndexError too).

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
    wrapped = lax.sub(remainder(lax.add(steps, half), period), half)
    at_edge = lax.bitwise_and(
        lax.eq(wrapped, lax.neg(half)), lax.gt(steps, const(steps, 0))
    )
    wrapped = select_where(at_edge, half, wrapped)
    small = lax.lt(lax.abs(steps), discont)
    shift = select_where(small, const(p, 0), lax.sub(wrapped, steps))
    rest = lax.add(lax.slice_in_dim(p, 1, None, axis=axis), cumsum(shift, axis=axis))
    return lax.concatenate([lax.slice_in_dim(p, 0, 1, axis=axis), rest], axis)
