"""Changing the shape of one array: reshaping, transposing, turning, repeating."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from curta import lax
from curta._base.user_warnings import warn
from curta._settings import api_version
from curta.api.inner import inner_jit, new_arrays
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, Shape
from curta.core.dim import is_symbolic_dim, quotient
from curta.errors import InconclusiveDimensionOperation
from curta.numpy.arguments import (
    canonical_axes,
    canonical_axis,
    canonical_shape,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    ensure_operand,
    index_tuple,
    is_arraylike,
    static_axis,
)
from curta.numpy.promotion import broadcast_to_shape
from curta.numpy.selection import broadcast_all

# ---- shapes


def shape(a: Any) -> tuple[int, ...]:
    """The shape of an array or scalar.

    >>> from curta import numpy as jnp
    >>> jnp.shape(jnp.zeros((2, 3)))
    (2, 3)
    """
    return _as_sized("shape", a).shape


def ndim(a: Any) -> int:
    """The number of dimensions.

    >>> from curta import numpy as jnp
    >>> jnp.ndim(3.0)
    0
    """
    return _as_sized("ndim", a).ndim


def _as_sized(name: str, a: Any) -> Any:
    """What has the shape of `a`; a warning where that is not an array or scalar."""
    if hasattr(a, "shape"):
        return a
    if not is_arraylike(a):
        warn(
            f"{name} requires ndarray or scalar arguments, got {type(a)} at position 0."
            " In a future release this will be an error.",
            DeprecationWarning,
        )
    return ensure_arraylike(name, a) if hasattr(a, "__jax_array__") else np.asarray(a)


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, or their number along some axes.

    >>> from curta import numpy as jnp
    >>> jnp.size(jnp.zeros((2, 3))), jnp.size(jnp.zeros((2, 3)), 0)
    (6, 2)
    """
    sizes = _as_sized("size", a).shape
    axes = canonical_axes(axis, len(sizes), "repeated axis")
    return math.prod(sizes[i] for i in axes)


@takes_out_sharding
def reshape(
    a: ArrayLike,
    shape: int | float | Shape,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """The elements in another shape; one dim may be -1, which is computed.

    An array of NumPy stays one.

    Args:
      a: an array of any shape and dtype.
      shape: the shape, an int or ints.
      order: "C" (default), where the last index runs fastest, or "F", where the first
        does.
      copy: True for memory of its own; None (default) or False share it where possible.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from `a`.

    Returns:
      An array of that shape and the dtype of `a`.

    Raises:
      TypeError: `a` is a list, a string or None; `shape` is not of integers, has -1
        twice, or another number of elements (of an array of NumPy: ValueError);
        `out_sharding` is not a sharding.
      ValueError: `order` is unknown.
      NotImplementedError: `order` is "A".

    >>> from curta import numpy as jnp
    >>> jnp.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if isinstance(a, (np.ndarray, np.generic)):
        return a.reshape(shape, order=order)  # type: ignore[call-overload]
    return reshape_array(a, shape, order)


def reshape_array(a: Any, shape: Any, order: str = "C") -> Any:
    """As `reshape`, to an array of ours."""
    a = ensure_arraylike("reshape", a)
    sizes = _known_sizes(a, shape)
    if order == "C":
        return lax.reshape(a, sizes)
    if order == "F":
        backwards = tuple(range(a.ndim))[::-1]
        return transpose(lax.reshape(a, sizes[::-1], backwards))
    if order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented.")
    raise ValueError(f"Unexpected value for 'order' argument: {order}.")


def _known_sizes(a: Any, shape: Any) -> tuple[int, ...]:
    alone = not isinstance(shape, (tuple, list)) and np.ndim(shape) == 0
    sizes = canonical_shape([shape] if alone else shape)
    unknown = [i for i, d in enumerate(sizes) if d == -1]
    if len(unknown) > 1:
        raise TypeError(
            "can only specify one unknown axis size with a `-1` value, got"
            f" {shape if np.ndim(shape) else sizes}"
        )
    given = math.prod(d for d in sizes if d != -1)
    if unknown and (is_symbolic_dim(a.size) or is_symbolic_dim(given)):
        return tuple(_left_over(a.shape, sizes) if d == -1 else d for d in sizes)
    if unknown:
        if given == 0 or a.size % given:
            raise TypeError(
                f"cannot reshape array of shape {a.shape} (size {a.size}) into shape"
                f" {shape} because the product of specified axis sizes ({given}) does"
                f" not evenly divide {a.size}"
            )
        return tuple(a.size // given if d == -1 else d for d in sizes)
    if given != a.size:
        raise TypeError(
            f"cannot reshape array of shape {a.shape} (size {a.size}) into shape"
            f" {shape} (size {given})"
        )
    return sizes


def _left_over(shape: tuple[Any, ...], sizes: tuple[Any, ...]) -> Any:
    try:
        return quotient(math.prod(shape), sizes)
    except InconclusiveDimensionOperation:
        raise InconclusiveDimensionOperation(
            f"Cannot divide evenly the sizes of shapes {shape} and {sizes}"
        ) from None


@new_arrays
@takes_out_sharding
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """The elements in one dimension.

    Args:
      a: an array of any shape and dtype.
      order: "C" (default), where the last index runs fastest, or "F", where the first
        does.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from `a`.

    Returns:
      A vector (a.size,), of the dtype of `a`.

    Raises:
      TypeError: `a` is a list, a string or None; `out_sharding` is not a sharding.
      ValueError: `order` is unknown.
      NotImplementedError: `order` is "K" or "A".

    >>> from curta import numpy as jnp
    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    a = ensure_operand("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    return reshape_array(a, (a.size,), order)


@new_arrays
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Without dims of size 1: all of them, or those of `axis`.

    Raises ValueError for an axis of another size.

    >>> from curta import numpy as jnp
    >>> jnp.squeeze(jnp.zeros((1, 3, 1))).shape
    (3,)
    """
    a = ensure_arraylike("squeeze", a)
    if axis is None:
        if any(map(is_symbolic_dim, a.shape)):
            raise ValueError(
                "jnp.squeeze with axis=None is not supported with shape polymorphism,"
                f" got the shape {a.shape}: the rank of the result would depend on the"
                " sizes. Name the dimensions, as `axis`."
            )
        return lax.squeeze(a, tuple(i for i, d in enumerate(a.shape) if d == 1))
    return lax.squeeze(a, index_tuple(axis))


@new_arrays
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """With new dims of size 1 at the positions `axis` of the result.

    >>> from curta import numpy as jnp
    >>> jnp.expand_dims(jnp.zeros(3), (0, 2)).shape
    (1, 3, 1)
    """
    return lax.expand_dims(ensure_arraylike("expand_dims", a), index_tuple(axis))


@overload
def atleast_1d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(x: ArrayLike, y: ArrayLike, /, *arys: ArrayLike) -> list[Array]: ...
@inner_jit
def atleast_1d(*arys: Any) -> Any:
    """Scalars as arrays of rank 1; a list for several arguments.

    >>> from curta import numpy as jnp
    >>> jnp.atleast_1d(3.0).shape
    (1,)
    """
    arrays = ensure_arraylikes("atleast_1d", *arys)
    return _one_or_all([with_rank(x, 1) for x in arrays])


@overload
def atleast_2d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(x: ArrayLike, y: ArrayLike, /, *arys: ArrayLike) -> list[Array]: ...
@inner_jit
def atleast_2d(*arys: Any) -> Any:
    """Arrays with dims in front up to rank 2; a list for several arguments.

    >>> from curta import numpy as jnp
    >>> jnp.atleast_2d(jnp.zeros(3)).shape
    (1, 3)
    """
    arrays = ensure_arraylikes("atleast_2d", *arys)
    return _one_or_all([with_rank(x, 2) for x in arrays])


@overload
def atleast_3d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(x: ArrayLike, y: ArrayLike, /, *arys: ArrayLike) -> list[Array]: ...
@inner_jit
def atleast_3d(*arys: Any) -> Any:
    """Arrays of rank 3: vectors become (1, n, 1), matrices (n, m, 1).

    >>> from curta import numpy as jnp
    >>> jnp.atleast_3d(jnp.zeros(3)).shape
    (1, 3, 1)
    """
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    arrays = ensure_arraylikes("atleast_3d", *arys)
    return _one_or_all(
        [lax.expand_dims(x, new[x.ndim]) if x.ndim in new else x for x in arrays]
    )


def with_rank(x: Any, rank: int) -> Any:
    return lax.expand_dims(x, range(rank - x.ndim)) if x.ndim < rank else x


def _one_or_all(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else arrays


@takes_out_sharding
def broadcast_to(
    array: ArrayLike, shape: int | float | Shape, *, out_sharding: Any = None
) -> Array:
    """The array repeated to a shape.

    Args:
      array: an array or scalar.
      shape: the shape, an int or ints; each dim of `array` is equal to its one, or 1.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from `array`.

    Returns:
      An array of that shape and the dtype of `array`.

    Raises:
      TypeError: `array` is a list, a string or None; `shape` is not of integers;
        `out_sharding` is not a sharding.
      ValueError: `array` does not broadcast to `shape`.

    >>> from curta import numpy as jnp
    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    array = ensure_arraylike("broadcast_to", array)
    return broadcast_to_shape(array, canonical_shape(shape))


@new_arrays
def broadcast_arrays(*args: ArrayLike) -> Sequence[Array]:
    """The arrays repeated to their common shape.

    >>> from curta import numpy as jnp
    >>> [x.shape for x in jnp.broadcast_arrays(jnp.zeros((2, 1)), jnp.zeros(3))]
    [(2, 3), (2, 3)]
    """
    arrays = ensure_arraylikes("broadcast_arrays", *args)
    out = broadcast_all(*arrays) if arrays else []
    return tuple(out) if api_version.GRIDS_ARE_TUPLES.applies() else out


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which shapes broadcast; ValueError if they do not.

    >>> from curta import numpy as jnp
    >>> jnp.broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    if not shapes:
        return ()
    return lax.broadcast_shapes(*map(canonical_shape, shapes))


# ---- order of dims


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The dims in another order: reversed by default.

    >>> from curta import numpy as jnp
    >>> jnp.transpose(jnp.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    a = ensure_arraylike("transpose", a)
    order = range(a.ndim)[::-1] if axes is None else index_tuple(axes)
    return lax.transpose(a, tuple(canonical_axis(i, a.ndim) for i in order))


def permute_dims(a: Any, /, axes: tuple[int, ...]) -> Array:
    """The dims in the order of `axes`; negative ones count from the last.

    >>> from curta import numpy as jnp
    >>> jnp.permute_dims(jnp.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    a = ensure_arraylike("permute_dims", a)
    order = (canonical_axis(operator.index(i), a.ndim) for i in axes)
    return lax.transpose(a, tuple(order))


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two dims exchanged; ValueError for rank 0 and 1.

    >>> from curta import numpy as jnp
    >>> jnp.matrix_transpose(jnp.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = ensure_arraylike("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            "x must be at least two-dimensional for matrix_transpose; got"
            f" ndim={x.ndim}"
        )
    return lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@new_arrays
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two dims exchanged.

    Args:
      a: an array of any shape and dtype.
      axis1, axis2: int, the dims to exchange.

    Returns:
      An array of the dtype of `a`.

    Raises:
      TypeError: `a` is a list, a string or None.
      IndexError: a dim is out of bounds or no integer.

    >>> from curta import numpy as jnp
    >>> jnp.swapaxes(jnp.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = ensure_operand("swapaxes", a)
    axis1, axis2 = static_axis(axis1), static_axis(axis2)
    order = np.arange(a.ndim)
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return lax.transpose(a, order.tolist())


@new_arrays
def moveaxis(
    a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]
) -> Array:
    """The dims `source` moved to the positions `destination`.

    Args:
      a: an array of any shape and dtype.
      source: int or distinct ints, the dims to move.
      destination: int or distinct ints, as many: where they are in the result.

    Returns:
      An array of the dtype of `a`; the other dims keep their order.

    Raises:
      TypeError: `a` is a list, a string or None; a dim is not an integer, or occurs
          twice.
      ValueError: a dim is out of bounds, or the numbers of dims differ.

    >>> from curta import numpy as jnp
    >>> jnp.moveaxis(jnp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = ensure_arraylike("moveaxis", a)
    origin = [canonical_axis(i, a.ndim) for i in index_tuple(source)]
    target = [canonical_axis(i, a.ndim) for i in index_tuple(destination)]
    if len(origin) != len(target):
        raise ValueError(
            f"Inconsistent number of elements: {len(origin)} vs {len(target)}"
        )
    order = [i for i in range(a.ndim) if i not in origin]
    for target_axis, axis in sorted(zip(target, origin)):
        order.insert(target_axis, axis)
    return lax.transpose(a, order)


@inner_jit(static_argnames=("axis", "start"))
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """The dim `axis` moved in front of the dim `start`.

    Args:
      a: an array of any shape and dtype.
      axis: int, the dim to move.
      start: int; the dim is moved in front of this one. Default 0.

    Returns:
      An array of the dtype of `a`.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` or `start` is not an integer.
      ValueError: `axis` or `start` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.rollaxis(jnp.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    a = ensure_arraylike("rollaxis", a)
    start = concrete_index(start, "'start' argument of jnp.rollaxis()")
    axis = canonical_axis(axis, a.ndim)
    if not -a.ndim <= start <= a.ndim:
        raise ValueError(f"start={start} must satisfy {-a.ndim}<=start<={a.ndim}")
    start += a.ndim if start < 0 else 0
    return moveaxis(a, axis, start - (start > axis))
