"""Searching and selecting: where, nonzero, argmax, searchsorted, select."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, overload

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.jit import jit
from curta.core.array import Array, ArrayLike, Shape
from curta.core.trace import Tracer
from curta.errors import ConcretizationTypeError
from curta.numpy.arguments import (
    axis_of_shape,
    check_arraylike,
    check_but_strings,
    check_operands,
    concrete,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    ensure_operand,
    refuse_out,
)
from curta.numpy.arithmetic import clip, divmod, floor_divide, remainder
from curta.numpy.binning import bincount
from curta.numpy.constructors import array, asarray
from curta.numpy.creation import full_like, zeros
from curta.numpy.cumulative import cumsum
from curta.numpy.indexing import getitem
from curta.numpy.joining import stack
from curta.numpy.promotion import cast, const, promote_dtypes
from curta.numpy.ranges import arange
from curta.numpy.reductions import all, sum
from curta.numpy.selection import broadcast_all, select_where
from curta.numpy.shapes import atleast_1d, ravel, reshape
from curta.numpy.vectorize import vectorize
from curta.primitives.dims import dim_value

# ---- selecting


@overload
def where(
    condition: ArrayLike,
    x: None = None,
    y: None = None,
    /,
    *,
    size: int | None = ...,
    fill_value: Any = ...,
) -> tuple[Array, ...]: ...
@overload
def where(
    condition: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    /,
    *,
    size: int | None = ...,
    fill_value: Any = ...,
) -> Array: ...
def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """`x` where `condition` holds, else `y`; with one argument, `nonzero` of it.

    >>> from curta import numpy as jnp
    >>> jnp.where(jnp.array([True, False]), 1.0, 2.0)
    Array([1., 2.], dtype=float32, weak_type=True)
    """
    if x is None and y is None:
        condition = ensure_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    check_but_strings("where", condition, x, y)
    check_operands("where", condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function."
        )
    return select_where(condition, x, y)


def select(
    condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0
) -> Array:
    """The choice of the first condition that holds, or `default` if none does.

    >>> from curta import numpy as jnp
    >>> x = jnp.arange(3)
    >>> jnp.select([x < 1, x < 2], [x + 10, x + 20], 99)
    Array([10, 21, 99], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            "condlist must have length equal to choicelist"
            f" ({len(condlist)} vs {len(choicelist)})"
        )
    if len(condlist) == 0:
        raise ValueError("condlist must be non-empty")
    check_arraylike("select", *condlist, *choicelist, default)
    choices = promote_dtypes(asarray(default), *map(asarray, choicelist))
    conditions = broadcast_all(asarray(False), *map(asarray, condlist))
    stacked = cast(stack(conditions), np.dtype(np.bool_))
    return lax.select_n(*broadcast_all(argmax(stacked, axis=0), *choices))


def piecewise(
    x: ArrayLike,
    condlist: Array | Sequence[ArrayLike],
    funclist: Sequence[Any],
    *args: Any,
    **kw: Any,
) -> Array:
    """Functions (or constants) applied where their conditions hold.

    The last condition that holds wins; one more function is the default, else 0.

    >>> from curta import numpy as jnp
    >>> x = jnp.array([-1.0, 2.0])
    >>> jnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, lambda x: 10 * x])
    Array([ 1., 20.], dtype=float32)
    """
    x = ensure_arraylike("piecewise", x)
    conditions = asarray(condlist, dtype=bool)
    if conditions.ndim == 0 or not isinstance(funclist, Sized):
        unsized = funclist if conditions.ndim else condlist
        raise TypeError(
            f"object of type {type(unsized).__name__!r} has no len(): piecewise takes"
            " as many functions as conditions, and perhaps a default"
        )
    count = conditions.shape[0]
    functions = list(funclist)
    if len(functions) == count:
        functions.append(0)
    elif len(functions) != count + 1:
        raise ValueError(
            f"with {count} condition(s), either {count} or {count + 1} functions are"
            f" expected; got {len(functions)}"
        )
    functions = [functions[-1], *functions[:-1]]
    called = tuple(f if callable(f) else None for f in functions)
    constants = [f for f in functions if not callable(f)]
    return _piecewise(x, conditions, constants, called, *args, **kw)


@jit(static_argnames=("functions",))
def _piecewise(
    x: Any,
    conditions: Any,
    constants: Sequence[Any],
    functions: tuple[Callable[..., Any] | None, ...],
    *args: Any,
    **kw: Any,
) -> Any:
    """The functions, the default first, element by element."""
    none = full_like(getitem(conditions, np.s_[:1]), False)
    held = cumsum(lax.concatenate([none, conditions], 0), 0)
    last = argmax(held, 0)

    def branch(f: Callable[..., Any] | None) -> Callable[[Any], Any]:
        if f is None:
            value = next(remaining)
            return lambda x: array(value, dtype=x.dtype)
        return lambda x: cast(asarray(f(x, *args, **kw)), x.dtype)

    remaining = iter(constants)
    branches = [branch(f) for f in functions]
    return vectorize(lax.switch, excluded=(1,))(last, branches, x)


# ---- places of elements


def argmax(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """The index of the first largest element; of the flattened array by default.

    NaN counts as largest. Raises ValueError for no elements.

    >>> from curta import numpy as jnp
    >>> jnp.argmax(jnp.array([1, 5, 5]))
    Array(1, dtype=int32)
    """
    return _arg_extremum("argmax", lax.argmax, a, axis, out, keepdims)


def argmin(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """The index of the first smallest element; of the flattened array by default.

    >>> from curta import numpy as jnp
    >>> jnp.argmin(jnp.array([3, 1, 1]))
    Array(1, dtype=int32)
    """
    return _arg_extremum("argmin", lax.argmin, a, axis, out, keepdims)


def _arg_extremum(
    name: str, op: Callable[..., Any], a: Any, axis: Any, out: None, keepdims: Any
) -> Any:
    a = ensure_arraylike(name, a)
    refuse_out(name, out)
    if axis is None:
        dims, a, axis = range(a.ndim), ravel(a), 0
    else:
        axis = axis_of_shape(axis, a.ndim)
        dims = range(axis, axis + 1)
    if a.shape[axis] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    place = op(a, axis, dtypes.default_int_dtype())
    return lax.expand_dims(place, dims) if keepdims else place


def nanargmax(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """Like `argmax`, passing over NaN; -1 where all elements are.

    >>> from curta import numpy as jnp
    >>> jnp.nanargmax(jnp.array([jnp.nan, 1.0]))
    Array(1, dtype=int32)
    """
    refuse_out("nanargmax", out)
    axis = None if axis is None else operator.index(axis)
    return _nanargmax(ensure_arraylike("nanargmax", a), axis, keepdims=bool(keepdims))


@inner_jit(static_argnames=("axis", "keepdims"))
def _nanargmax(a: Any, axis: int | None, keepdims: bool) -> Any:
    return _nan_arg_extremum(argmax, -np.inf, a, axis, keepdims)


def nanargmin(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """Like `argmin`, passing over NaN; -1 where all elements are.

    >>> from curta import numpy as jnp
    >>> jnp.nanargmin(jnp.array([jnp.nan, 1.0]))
    Array(1, dtype=int32)
    """
    refuse_out("nanargmin", out)
    axis = None if axis is None else operator.index(axis)
    return _nanargmin(ensure_arraylike("nanargmin", a), axis, keepdims=bool(keepdims))


@inner_jit(static_argnames=("axis", "keepdims"))
def _nanargmin(a: Any, axis: int | None, keepdims: bool) -> Any:
    return _nan_arg_extremum(argmin, np.inf, a, axis, keepdims)


def _nan_arg_extremum(
    find: Callable[..., Any], start: float, a: Any, axis: Any, keepdims: bool
) -> Any:
    if not dtypes.issubdtype(a.dtype, np.inexact):
        return find(a, axis=axis, keepdims=keepdims)
    missing = lax.ne(a, a)
    place = find(select_where(missing, start, a), axis=axis, keepdims=keepdims)
    return select_where(all(missing, axis=axis, keepdims=keepdims), -1, place)


def nonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> tuple[Any, ...]:
    """The indices of the elements that differ from 0, an array for each dim.

    Their number is known only with the values, so that inside jit `size` has to be
    given: the result is cut to it, or filled up with `fill_value`.

    >>> from curta import numpy as jnp
    >>> jnp.nonzero(jnp.array([0, 7, 8]))
    (Array([1, 2], dtype=int32),)
    """
    a = ensure_arraylike("nonzero", a)
    if a.ndim == 0:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use"
            " jnp.atleast_1d(scalar).nonzero() instead."
        )
    mask = a if a.dtype == np.bool_ else lax.ne(a, const(a, 0))
    if size is None:
        size = _count(mask)
    size = concrete_index(
        size,
        "The size argument of jnp.nonzero must be statically specified to use"
        " jnp.nonzero within JAX transformations.",
    )
    if a.size == 0 or size == 0:
        return tuple(zeros(size, int) for _ in a.shape)
    # The flat index of the k-th true element is how many sums of those before reach k.
    flat = cumsum(bincount(cumsum(mask), length=size))
    strides = [
        dim_value(math.prod(a.shape[i + 1 :]), flat.dtype) for i in range(a.ndim)
    ]
    places = [remainder(floor_divide(flat, s), d) for s, d in zip(strides, a.shape)]
    return (
        tuple(places) if fill_value is None else _filled(places, mask, size, fill_value)
    )


def _count(mask: Any) -> Any:
    if isinstance(mask, Tracer) and mask.concrete_value() is None:
        raise ConcretizationTypeError(
            mask,
            "The size argument of jnp.nonzero must be statically specified to use"
            " jnp.nonzero within JAX transformations.",
        )
    return int(np.count_nonzero(np.asarray(concrete(mask, ""))))


def _filled(places: list[Any], mask: Any, size: int, fill: Any) -> tuple[Any, ...]:
    fills = fill if isinstance(fill, tuple) else (fill,) * len(places)
    if any(np.shape(x) != () for x in fills) or len(fills) != len(places):
        raise ValueError(
            f"fill_value must be a scalar or a tuple of length {len(places)}; got"
            f" {fill}"
        )
    check_arraylike("nonzero, argument fill_value,", *fills)
    beyond = lax.ge(arange(size), sum(mask))
    return tuple(select_where(beyond, x, place) for x, place in zip(fills, places))


def flatnonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike] | None = None,
) -> Array:
    """The flat indices of the elements that differ from 0.

    >>> from curta import numpy as jnp
    >>> jnp.flatnonzero(jnp.array([[0, 7], [8, 0]]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The indices of the elements that differ from 0, one row for each.

    >>> from curta import numpy as jnp
    >>> jnp.argwhere(jnp.array([[0, 7], [8, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    a = ensure_arraylike("argwhere", a)
    places = nonzero(atleast_1d(a), size=size, fill_value=fill_value)
    rows = stack(places, axis=1)
    return rows if a.ndim else reshape(getitem(rows, np.s_[:0]), (rows.shape[0], 0))


def unravel_index(indices: ArrayLike, shape: Shape) -> tuple[Any, ...]:
    """Flat indices as indices into dims; those out of bounds are clamped.

    >>> from curta import numpy as jnp
    >>> jnp.unravel_index(5, (2, 3))
    (Array(1, dtype=int32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    flat = ensure_operand("unravel_index", indices)
    scalar = isinstance(shape, Array) and not shape.ndim
    sizes = list(shape) if isinstance(shape, Iterable) and not scalar else [shape]
    if any(np.ndim(d) for d in sizes):
        raise ValueError("unravel_index: shape should be a scalar or 1D sequence.")
    places: list[Any] = [0] * len(sizes)
    for i, d in reversed(list(enumerate(sizes))):
        flat, places[i] = divmod(flat, d)
    above = lax.gt(flat, const(flat, 0))
    if dtypes.issubdtype(flat.dtype, np.unsignedinteger):
        below = asarray(False)
    else:
        below = lax.lt(flat, const(flat, -1))
    return tuple(
        select_where(above, d - 1, select_where(below, 0, i))
        for d, i in zip(sizes, places)
    )


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    """Indices into dims as flat indices.

    `mode` is for indices out of bounds: "raise" (they must be known), "wrap", "clip".

    >>> from curta import numpy as jnp
    >>> jnp.ravel_multi_index((jnp.array([1]), jnp.array([2])), (2, 3))
    Array([5], dtype=int32)
    """
    if not hasattr(dims, "__len__"):
        raise TypeError(f"object of type {type(dims).__name__!r} has no len()")
    where_ = "in `dims` argument of ravel_multi_index()."
    sizes = tuple(concrete_index(d, where_) for d in dims)
    if len(multi_index) != len(sizes):
        raise ValueError(
            f"ravel_multi_index: got {len(multi_index)} index arrays for"
            f" {len(sizes)} dims"
        )
    arrays = ensure_arraylikes("ravel_multi_index", *multi_index)
    for x in arrays:
        if not dtypes.issubdtype(x.dtype, np.integer):
            raise ValueError(
                f"dtype={x.dtype!r} is not an integer type. ravel_multi_index takes"
                " arrays of integers"
            )
    dtype = dtypes.result_type(int, *arrays) if dtype is None else np.dtype(dtype)
    arrays = tuple(_in_range(i, d, mode) for i, d in zip(arrays, sizes))
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    strides = np.cumprod((1, *(sizes[1:][::-1] if order == "C" else sizes[:-1])))
    out: Any = array(0, dtype=dtype)
    for i, s in zip(arrays, strides[::-1] if order == "C" else strides):
        out = lax.add(*broadcast_all(out, lax.mul(cast(i, dtype), const(out, int(s)))))
    return out


def _in_range(i: Any, size: int, mode: str) -> Any:
    if mode == "raise":
        known = concrete(
            i,
            "The error occurred because ravel_multi_index was jit-compiled with"
            " mode='raise'. Use mode='wrap' or mode='clip' instead.",
            np.asarray,
        )
        if ((known < 0) | (known >= size)).any():
            raise ValueError("invalid entry in coordinates array")
        return i
    if mode == "clip":
        return clip(i, 0, size - 1)
    if mode == "wrap":
        return remainder(i, size)
    if mode == "ignore":
        return i
    raise ValueError(
        f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'."
    )
