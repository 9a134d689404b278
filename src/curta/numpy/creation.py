"""Arrays from nothing: zeros, ranges, grids, the identity."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from curta import dtypes, lax
from curta._settings import api_version
from curta.api.devices import device_put
from curta.api.inner import new_arrays
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike, Shape
from curta.lax.creation import fitting
from curta.numpy.arguments import (
    canonical_shape,
    check_arraylike,
    check_but_strings,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    user_dtype,
)
from curta.numpy.constructors import array, asarray
from curta.numpy.promotion import broadcast_to_shape

# ---- one value everywhere


@takes_out_sharding
def zeros(
    shape: int | Shape,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of zeros, float32 by default.

    Args:
      shape: the shape, an int or a sequence of ints, static.
      dtype: the dtype. None (default) is the default float dtype, float32 without
        `jax_enable_x64`.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      Zeros, of the shape and dtype.

    Raises:
      TypeError: `shape` is not of integers, or has a negative one; `dtype` is unknown;
        `out_sharding` is not a sharding.
      ValueError: `device` is neither a device nor a sharding.

    >>> from curta import numpy as jnp
    >>> jnp.zeros((2, 2), dtype=int)
    Array([[0, 0],
           [0, 0]], dtype=int32)
    """
    return _filled("zeros", shape, 0, dtype, device)


@takes_out_sharding
def ones(
    shape: int | Shape,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of ones, float32 by default.

    Args:
      shape: the shape, an int or a sequence of ints, static.
      dtype: the dtype. None (default) is the default float dtype, float32 without
        `jax_enable_x64`.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      Ones, of the shape and dtype.

    Raises:
      TypeError: `shape` is not of integers, or has a negative one; `dtype` is unknown;
        `out_sharding` is not a sharding.
      ValueError: `device` is neither a device nor a sharding.

    >>> from curta import numpy as jnp
    >>> jnp.ones(3)
    Array([1., 1., 1.], dtype=float32)
    """
    return _filled("ones", shape, 1, dtype, device)


@takes_out_sharding
def empty(
    shape: int | Shape,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of any elements: zeros, though a program may not rely on it.

    Args:
      shape: the shape, an int or a sequence of ints, static.
      dtype: the dtype. None (default) is the default float dtype, float32 without
        `jax_enable_x64`.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      Zeros, of the shape and dtype.

    Raises:
      TypeError: `shape` is not of integers, or has a negative one; `dtype` is unknown;
        `out_sharding` is not a sharding.
      ValueError: `device` is neither a device nor a sharding.

    >>> from curta import numpy as jnp
    >>> jnp.empty(2)
    Array([0., 0.], dtype=float32)
    """
    if api_version.EMPTY_IS_NOT_FILLED.applies():
        made = lax.empty(*_shape_and_dtype("empty", shape, dtype))
        return put_on(fitting(device, made.ndim), made)
    return _filled("empty", shape, 0, dtype, device)


def _filled(name: str, shape: Any, value: int, dtype: Any, device: Any) -> Any:
    shape, dtype = _shape_and_dtype(name, shape, dtype)
    return lax.full(shape, value, dtype, sharding=device)


def _shape_and_dtype(name: str, shape: Any, dtype: Any) -> tuple[Any, Any]:
    if isinstance(shape, types.GeneratorType):
        raise TypeError("expected sequence object with len >= 0 or a single integer")
    if isinstance(dtype, int) and isinstance(shape, int):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type.\n\nDid you accidentally write"
            f" `jax.numpy.{name}({shape}, {dtype})` when you meant"
            f" `jax.numpy.{name}(({shape}, {dtype}))`, i.e. with a single tuple"
            " argument for the shape?"
        )
    dtype = user_dtype(float if dtype is None else dtype, name)
    return canonical_shape(shape), dtype


@takes_out_sharding
def full(
    shape: int | Shape,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array with every element `fill_value`, which may also be broadcast.

    Args:
      shape: the shape, an int or a sequence of ints, static.
      fill_value: a scalar, or an array that broadcasts to `shape`.
      dtype: the dtype; None (default) uses the dtype of `fill_value`.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      An array of the shape and dtype.

    Raises:
      TypeError: `shape` is not of integers, or has a negative one; `dtype` is unknown;
        `out_sharding` is not a sharding; `fill_value` is a list, a string or None.
      ValueError: `device` is neither a device nor a sharding; `fill_value` does not
        broadcast to `shape`.

    >>> from curta import numpy as jnp
    >>> jnp.full((2, 2), jnp.array([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    dtype = user_dtype(dtype, "full")
    check_arraylike("full", fill_value)
    if np.ndim(fill_value) == 0:
        if isinstance(fill_value, complex) and dtype is not None:
            fill_value = asarray(fill_value, dtype=dtype)  # TypeError for real dtypes
        return lax.full(canonical_shape(shape), fill_value, dtype, sharding=device)
    fill_value = asarray(fill_value, dtype=dtype)
    return put_on(device, broadcast_to_shape(fill_value, canonical_shape(shape)))


@takes_out_sharding
def zeros_like(
    a: Any,
    dtype: DTypeLike | None = None,
    shape: int | Shape | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Zeros in the shape and dtype of `a`, or in others that are given.

    Args:
      a: an array, scalar or `ShapeDtypeStruct`, whose shape and dtype the result has.
      dtype: another dtype. None (default) keeps the dtype of the array.
      shape: another shape, an int or a sequence of ints. None (default) keeps the shape
        of the array.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      Zeros, of the shape and dtype.

    Raises:
      TypeError: `a` is a list, a string or None; `shape` is not of integers, or has a
        negative one; `dtype` is unknown; `out_sharding` is not a sharding.
      ValueError: `device` is neither a device nor a sharding.

    >>> from curta import numpy as jnp
    >>> jnp.zeros_like(jnp.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    return _filled_like("zeros_like", a, 0, dtype, shape, device)


@takes_out_sharding
def ones_like(
    a: Any,
    dtype: DTypeLike | None = None,
    shape: int | Shape | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Ones in the shape and dtype of `a`, or in others that are given.

    Args:
      a: an array, scalar or `ShapeDtypeStruct`, whose shape and dtype the result has.
      dtype: another dtype. None (default) keeps the dtype of the array.
      shape: another shape, an int or a sequence of ints. None (default) keeps the shape
        of the array.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      Ones, of the shape and dtype.

    Raises:
      TypeError: `a` is a list, a string or None; `shape` is not of integers, or has a
        negative one; `dtype` is unknown; `out_sharding` is not a sharding.
      ValueError: `device` is neither a device nor a sharding.

    >>> from curta import numpy as jnp
    >>> jnp.ones_like(jnp.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    return _filled_like("ones_like", a, 1, dtype, shape, device)


def empty_like(
    prototype: Any,
    dtype: DTypeLike | None = None,
    shape: int | Shape | None = None,
    *,
    device: Any = None,
) -> Array:
    """Any elements in the shape and dtype of an array, or in others that are given.

    Args:
      prototype: an array, scalar or `ShapeDtypeStruct`, whose shape and dtype the
        result has.
      dtype: another dtype. None (default) keeps the dtype of the array.
      shape: another shape, an int or a sequence of ints. None (default) keeps the shape
        of the array.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.

    Returns:
      An array of the shape and dtype: zeros, though a program may not rely on it.

    Raises:
      TypeError: `prototype` is a list, a string or None; `shape` is not of integers, or
        has a negative one; `dtype` is unknown.
      ValueError: `device` is neither a device nor a sharding.

    >>> from curta import numpy as jnp
    >>> jnp.empty_like(jnp.arange(2))
    Array([0, 0], dtype=int32)
    """
    make = _unfilled if api_version.EMPTY_IS_NOT_FILLED.applies() else lax.full_like
    return _filled_like("empty_like", prototype, 0, dtype, shape, device, make)


@takes_out_sharding
def full_like(
    a: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: int | Shape | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`fill_value` in the shape and dtype of `a`, or in others that are given.

    Args:
      a: an array, scalar or `ShapeDtypeStruct`, whose shape and dtype the result has.
      fill_value: a scalar, or an array that broadcasts to the shape.
      dtype: another dtype. None (default) keeps the dtype of the array.
      shape: another shape, an int or a sequence of ints. None (default) keeps the shape
        of the array.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      An array of the shape and dtype.

    Raises:
      TypeError: `a` is a list, a string or None; `shape` is not of integers, or has a
        negative one; `dtype` is unknown; `out_sharding` is not a sharding; `fill_value`
        is a list, a string or None.
      ValueError: `device` is neither a device nor a sharding; `fill_value` does not
        broadcast to the shape.

    >>> from curta import numpy as jnp
    >>> jnp.full_like(jnp.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    if hasattr(fill_value, "__jax_array__"):
        fill_value = asarray(fill_value)
    if np.ndim(fill_value) == 0:
        return _filled_like("full_like", a, fill_value, dtype, shape, device)
    check_arraylike("full_like", 0 if hasattr(a, "shape") else a, fill_value)
    dtype = user_dtype(dtype, "full_like")
    shape = np.shape(a) if shape is None else canonical_shape(shape)
    fill_value = asarray(
        fill_value, dtype=dtypes.result_type(a) if dtype is None else dtype
    )
    return put_on(device, broadcast_to_shape(fill_value, shape))


def _unfilled(a: Any, value: Any, dtype: Any, shape: Any) -> Any:
    return lax.empty(
        np.shape(a) if shape is None else shape,
        dtypes.dtype(a) if dtype is None else dtype,
    )


def _filled_like(
    name: str,
    a: Any,
    value: Any,
    dtype: Any,
    shape: Any,
    device: Any,
    make: Callable[..., Any] = lax.full_like,
) -> Any:
    if not (hasattr(a, "dtype") and isinstance(getattr(a, "shape", 0), (tuple, list))):
        a = 0 if type(a) is int else ensure_arraylike(name, a)
    check_arraylike(name, value)
    if not isinstance(a, Array):
        if dtype is None:
            dtypes.dtype(a)  # raises TypeError where no array has it
        elif shape is not None:
            a = 0  # of which nothing is asked
    dtype = user_dtype(dtype, name)
    shape = None if shape is None else canonical_shape(shape)
    out = make(a, value, dtype, shape)
    return put_on(fitting(device, out.ndim), out)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """The same elements in an array of their own; TypeError for a list.

    >>> from curta import numpy as jnp
    >>> jnp.copy(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    check_but_strings("copy", a)
    return array(a, copy=True, order=order)


def put_on(device: Any, x: Any) -> Any:
    return x if device is None else device_put(x, device)


# ---- grids


@new_arrays
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> Sequence[Any]:
    """Coordinate arrays of the grid spanned by vectors.

    Args:
      *xi: n vectors or scalars, the coordinates along each dim.
      copy: must be True (default), as arrays share no memory.
      sparse: leave dims of size 1 where an array is constant. Default False.
      indexing: "xy" (default) swaps the first two dims; "ij" keeps the order of `xi`.

    Returns:
      A list (as of JAX 0.12 a tuple) of n arrays, each of the grid's shape and the
      dtype of its vector.

    Raises:
      TypeError: `*xi` is a list, a string or None.
      ValueError: an array of `xi` has more than one dim; `indexing` is unknown; `copy`
        is False.

    >>> from curta import numpy as jnp
    >>> jnp.meshgrid(jnp.arange(2), jnp.arange(2))[0]
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    args = list(ensure_arraylikes("meshgrid", *xi))
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if any(a.ndim != 1 for a in args):
        raise ValueError(
            "Arguments to jax.numpy.meshgrid must be 1D, got shapes"
            f" {[a.shape for a in args]}"
        )
    swap = indexing == "xy" and len(args) >= 2
    if swap:
        args[:2] = args[1::-1]
    sizes = [a.shape[0] for a in args]
    out = []
    for i, a in enumerate(args):
        shape = [d if not sparse or i == j else 1 for j, d in enumerate(sizes)]
        out.append(lax.broadcast_in_dim(a, tuple(shape), (i,)))
    if swap:
        out[:2] = out[1::-1]
    return tuple(out) if api_version.GRIDS_ARE_TUPLES.applies() else out


@overload
def indices(
    dimensions: Sequence[int], dtype: Any = ..., sparse: Literal[False] = ...
) -> Array: ...
@overload
def indices(
    dimensions: Sequence[int], dtype: Any = ..., *, sparse: Literal[True]
) -> tuple[Array, ...]: ...
def indices(
    dimensions: Sequence[int], dtype: Any = None, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """The indices of every element of an array of a shape.

    Args:
      dimensions: the shape, a sequence of n integers.
      dtype: the dtype of the indices. None (default) is the default integer dtype.
      sparse: return n arrays that broadcast to the indices. Default False.

    Returns:
      An array (n, *dimensions), or, with `sparse`, a tuple of n arrays.

    Raises:
      TypeError: `dimensions` is not a sequence of integers, or one is negative; `dtype`
        is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.indices((2, 2))[1]
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    dtype = user_dtype(int if dtype is None else dtype, "indices")
    where = "dimensions argument of jnp.indices"
    sizes = tuple(concrete_index(d, where) for d in dimensions)
    out = []
    for i, size in enumerate(sizes):
        shape = [d if not sparse or i == j else 1 for j, d in enumerate(sizes)]
        number = lax.iota(dtype, size)
        if number.shape != tuple(shape):
            number = lax.broadcast_in_dim(number, tuple(shape), (i,))
        out.append(number)
    if sparse:
        return tuple(out)
    return lax.stack(out, 0) if out else array([], dtype=dtype)


def frombuffer(
    buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0
) -> Array:
    """The elements of a buffer of bytes.

    Args:
      buffer: an object with the buffer protocol, such as `bytes`.
      dtype: the dtype of the elements. Default float (of 64 bits in the buffer).
      count: how many elements to read. Default -1, all.
      offset: the byte to start at. Default 0.

    Returns:
      A vector of the elements, of `dtype`; 64-bit types are halved unless
      `jax_enable_x64`.

    Raises:
      TypeError: `buffer` is none, `dtype` unknown, or `count` or `offset` no integer.
      ValueError: the buffer's size is not a multiple of the element's, or smaller than
        wanted; `offset` lies outside.

    >>> from curta import numpy as jnp
    >>> jnp.frombuffer(b"\\x01\\x02", dtype=jnp.uint8)
    Array([1, 2], dtype=uint8)
    """
    if isinstance(buffer, Array):
        buffer = np.asarray(buffer)
    return asarray(
        np.frombuffer(buffer, dtype=np.dtype(dtype), count=count, offset=offset)
    )
