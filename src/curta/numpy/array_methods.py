"""The methods of arrays that are more than a function of the same name."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.user_warnings import warn
from curta._settings import api_version
from curta.api.devices import device_put
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.trace import Tracer
from curta.errors import ConcretizationTypeError
from curta.numpy.arguments import concrete, ensure_arraylike, is_complex
from curta.numpy.complex_numbers import imag, real
from curta.numpy.constructors import asarray
from curta.numpy.elementary import round
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem
from curta.numpy.promotion import cast, const
from curta.numpy.reductions import any
from curta.numpy.shapes import (
    ravel,
    reshape_array,
    squeeze,
    transpose as _transpose,
)

ARRAY_API_VERSION = "2024.12"


@takes_out_sharding
def reshape(
    self: Any,
    *args: Any,
    order: str = "C",
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """The elements in another shape: `x.reshape(2, 3)` or `x.reshape((2, 3))`."""
    return reshape_array(self, args[0] if len(args) == 1 else args, order)


def flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Array:
    """The elements in one dimension."""
    return ravel(self, order, out_sharding=out_sharding)


def copy(self: Any) -> Array:
    """The same elements in an array of their own."""
    return asarray(self, copy=True)


def transpose(self: Any, *args: Any) -> Array:
    """The dims in another order: `x.transpose(1, 0)` or `x.transpose((1, 0))`."""
    if not args or (len(args) == 1 and args[0] is None):
        return _transpose(self)
    return _transpose(self, args[0] if len(args) == 1 and np.ndim(args[0]) else args)


def astype(
    x: Any, dtype: DTypeLike | None, copy: bool = False, device: Any = None
) -> Array:
    """`x` in another dtype.

    Args:
      x: an array or scalar. Complex numbers lose their imaginary part, with a warning.
      dtype: the dtype of the result; None stands for the default float.
      copy: give an array of its own even if the dtype is the same. Default False.
      device: a device or `Sharding` where the result is to be. None (default) leaves it
        where `x` is.

    Returns:
      An array of the shape of `x`.

    Raises:
      TypeError: `x` is a list or a string; `dtype` is unknown.
      ValueError: `device` is neither a device nor a sharding.

    >>> from curta import numpy as jnp
    >>> jnp.array([1.7, -1.7]).astype(int)
    Array([ 1, -1], dtype=int32)
    """
    x = ensure_arraylike("astype", x)
    if dtype is None:
        dtype = dtypes.default_float_dtype()
    dtype = dtypes.check_user_dtype(dtype, "astype")
    if is_complex(x) and not dtypes.issubdtype(dtype, np.complexfloating):
        x = _without_imaginary(x, dtype)
    out = cast(x, dtype)
    if copy:
        out = lax.copy(out)
    return out if device is None else device_put(out, device)


def _without_imaginary(x: Any, dtype: Any) -> Any:
    if dtype == np.bool_:
        return lax.ne(x, const(x, 0))
    warn(
        "Casting from complex to real dtypes will soon raise a ValueError. Please first"
        " use jnp.real or jnp.imag to take the real/imaginary component of your input.",
        DeprecationWarning,
    )
    return real(x)


def item(self: Any, *args: int) -> Any:
    """The only element, or the one at an index, as a Python scalar."""
    context = "This occurred in the item() method of jax.Array"
    value = concrete(self, context, np.asarray)
    if isinstance(self.dtype, dtypes.ExtendedDType):
        raise TypeError(f"No Python scalar type for arr.dtype={self.dtype!r}")
    return value.item(*args)


def tolist(self: Any) -> Any:
    """The elements as nested lists of Python scalars."""
    if isinstance(self, Tracer):  # known or not: derivatives would be lost
        context = "This occurred in the tolist() method of jax.Array"
        raise ConcretizationTypeError(self, context)
    return np.asarray(self).tolist()


def contains(self: Any, other: Any) -> Any:
    """Return True if a scalar is among the elements of an array of rank 1."""
    if other is None or isinstance(other, str):
        raise TypeError(f"Array.__contains__: unsupported operand type {type(other)}.")
    query = ensure_arraylike("Array.__contains__", other)
    if self.ndim != 1:
        raise ValueError(
            "Array.__contains__: search array must be one-dimensional, got"
            f" arr.shape={self.shape}."
        )
    if query.ndim != 0:
        raise ValueError(
            "Array.__contains__: query value must be a scalar, got"
            f" query.shape={query.shape}"
        )
    return any(self == query)


def round_operator(self: Any, ndigits: int | None = None) -> Array:
    """`round(x)`: an integer array, or with `ndigits` an array of the same dtype."""
    out = round(self, ndigits or 0)
    return astype(out, int) if ndigits is None else out


def view(self: Any, dtype: Any = None, type: None = None) -> Array:
    """The same bits as another dtype; the last dim grows or shrinks to fit."""
    _refuse_sizes(dtype, type)
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    if dtype is None:
        return self
    dtype = dtypes.check_user_dtype(dtype, "view")
    own, wanted = dtypes.itemsize_bits(self.dtype), dtypes.itemsize_bits(dtype)
    if self.ndim == 0:
        if own != wanted:
            raise ValueError(
                "view() of a 0d array is only supported if the itemsize is unchanged."
            )
        return squeeze(view(lax.expand_dims(self, (0,)), dtype))
    if self.shape[-1] * own % wanted:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total"
            " size in bytes of the last axis of the array."
        )
    return self if self.dtype == dtype else _view_bits(self, dtype, own, wanted)


def _refuse_sizes(dtype: Any, type: Any) -> None:
    """Raise an error for a shape in place of a dtype: `view` of PyTorch takes one."""
    given = [dtype] if type is None else [dtype, type]
    sizes = [n for x in given for n in (x if isinstance(x, (tuple, list)) else [x])]
    if not sizes or not all(isinstance(n, int) for n in sizes):
        return
    kind = TypeError if type is None else NotImplementedError
    raise kind(
        f"view takes a dtype, got {', '.join(map(repr, given))}. To change the shape,"
        f" use x.reshape({', '.join(map(str, sizes))})."
    )


def _view_bits(x: Any, dtype: Any, own: int, wanted: int) -> Any:
    if x.dtype == np.bool_:
        return view(cast(x, np.dtype(np.uint8)), dtype)
    if is_complex(x):
        parts = lax.stack([lax.real(x), lax.imag(x)], x.ndim)
        return view(lax.collapse(parts, x.ndim - 1), dtype)
    if dtype == np.bool_:
        return cast(view(x, np.uint8), dtype)
    if dtypes.issubdtype(dtype, np.complexfloating):
        parts = view(x, dtypes.finfo(dtype).dtype)
        pairs = lax.reshape(parts, (*parts.shape[:-1], parts.shape[-1] // 2, 2))
        return lax.complex(getitem(pairs, (..., 0)), getitem(pairs, (..., 1)))
    if own < wanted:
        factor = wanted // own
        x = lax.reshape(x, (*x.shape[:-1], x.shape[-1] // factor, factor))
    out = lax.bitcast_convert_type(x, dtype)
    return lax.collapse(out, out.ndim - 2) if own > wanted else out


def byteswap(self: Any) -> Array:
    """The elements with their bytes in reverse order."""
    if is_complex(self):
        return lax.complex(byteswap(real(self)), byteswap(imag(self)))
    if self.dtype.itemsize == 1:
        return asarray(self, copy=True)
    data = lax.rev(lax.bitcast_convert_type(self, np.dtype(np.uint8)), (self.ndim,))
    return lax.bitcast_convert_type(data, self.dtype)


def to_device(self: Any, device: Any, *, stream: None = None) -> Array:
    """The array on another device."""
    if stream is not None:
        raise NotImplementedError("stream argument of array.to_device()")
    return device_put(self, device)


def iterate(self: Any) -> Any:
    """The slices along the first dim of a traced array."""
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    if api_version.ROWS_BY_UNSTACK.applies():
        return iter(lax.unstack(self))
    return (lax.index_in_dim(self, i, keepdims=False) for i in range(self.shape[0]))


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """A copy of `a` with `val` on its diagonal, where all indices are equal.

    Args:
      a: an array of two dims or more; of more than two all must be equal in size.
      val: a scalar, or an array whose elements are put down in order and repeated.
      wrap: must be False (default).
      inplace: must be False, as arrays do not change. Default True, as in NumPy.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      TypeError: `a` or `val` is a list, a string or None.
      ValueError: `a` has less than two dims, or more of different sizes.
      NotImplementedError: `inplace` or `wrap` is True.

    >>> from curta import numpy as jnp
    >>> jnp.fill_diagonal(jnp.zeros((2, 2)), 1, inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if inplace:
        raise NotImplementedError("Arrays are immutable, must use inplace=False")
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    a = ensure_arraylike("fill_diagonal", a)
    val = ensure_arraylike("fill_diagonal", val)
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    n = min(a.shape)
    diagonal = lax.iota(np.int32, n)
    if val.ndim:
        val = lax.reshape(val, (val.size,))
        repeats = -(-n // max(val.size, 1))
        val = lax.slice_in_dim(lax.tile(val, (repeats,)), 0, n)
    return IndexedUpdate(a, (diagonal,) * a.ndim).set(val)


def __array_namespace__(self: Any, *, api_version: str | None = None) -> Any:
    """The module `curta.numpy`, as the array API standard has it."""
    if api_version not in (None, ARRAY_API_VERSION):
        raise ValueError(
            f"{api_version=!r} is not available; available versions are:"
            f" {[ARRAY_API_VERSION]}"
        )
    return sys.modules["curta.numpy"]


def no_flat(self: Any) -> Array:
    """Refused: the iterator `flat` would write in place."""
    raise NotImplementedError(
        "Arrays do not implement the arr.flat property: consider arr.flatten() instead."
    )
