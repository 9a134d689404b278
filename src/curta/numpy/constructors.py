"""Making arrays from Python and NumPy values: `array` and `asarray`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.advisor import advise_of_float64
from curta._settings import api_version
from curta.api.devices import device_put
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, DTypeLike
from curta.core.avals import ShapedArray, is_python_scalar, is_string, plain_scalar
from curta.core.trace import typeof
from curta.lax.scalars import scalar_array
from curta.primitives.elementwise.convert import converted
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.transfer import fresh_copy, guard_implicit_transfer

_MAX_NDIM = 64  # of NumPy, which holds the elements


@takes_out_sharding
def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *args: Any,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array from a scalar, an array, or nested lists and tuples of them.

    Args:
      object: a scalar, an array (also of NumPy, or anything with `__array__`), or
        nested lists and tuples of these, all of one shape.
      dtype: the dtype; 64-bit types are halved unless `jax_enable_x64`. None (default)
        is what the elements' dtypes promote to.
      *args: `copy`, `order` and `ndmin` by position, which JAX 0.12 no longer takes.
      copy: never share memory with `object`. Default True.
      order: "K" (default) or None.
      ndmin: the least number of dims: dims of size 1 are put in front. Default 0.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      An array of the shape of `object`.

    Raises:
      TypeError: `object` is not numeric; `dtype` is unknown; `ndmin` is not an integer;
        `out_sharding` is not a sharding.
      ValueError: `object` is None, holds None, or is ragged; `device` is neither a
        device nor a sharding.
      NotImplementedError: `order` is another one.

    >>> from curta import numpy as jnp
    >>> jnp.array([[1, 2], [3, 4.5]])
    Array([[1. , 2. ],
           [3. , 4.5]], dtype=float32)
    """
    if args:
        copy, order, ndmin = _by_position(args, (copy, order, ndmin))
    if order is not None and order != "K":
        raise NotImplementedError("Only implemented for order='K'")
    if type(object) is np.ndarray and is_string(object.dtype):
        return _strings(object, dtype, device)
    if dtype is not None:
        if is_string(dtype):
            return _strings(object, dtype, device)
        dtype = dtypes.check_user_dtype(dtype, "array")
    if isinstance(object, Array):
        out = _from_array(object, dtype, copy)
    else:
        out = _from_value(object, dtype)
    if ndmin > out.ndim:
        if ndmin > _MAX_NDIM:
            raise ValueError(
                f"maximum supported dimension for an ndarray is currently {_MAX_NDIM},"
                f" found ndmin={ndmin}"
            )
        out = lax.expand_dims(out, range(ndmin - out.ndim))
    return out if device is None else device_put(out, device)


@takes_out_sharding
def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Like `array`, but an array that has the right dtype is returned as it is.

    Args:
      a: a scalar, an array (also of NumPy, or anything with `__array__`), or nested
        lists and tuples of these, all of one shape.
      dtype: the dtype; 64-bit types are halved unless `jax_enable_x64`. None (default)
        is what the elements' dtypes promote to.
      order: "K" or None (default).
      copy: True for memory of its own; None (default) or False share it where possible.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      An array of the shape of `a`.

    Raises:
      TypeError: `a` is not numeric; `dtype` is unknown; `out_sharding` is not a
          sharding.
      ValueError: `a` is None, holds None, or is ragged; `device` is neither a device
        nor a sharding.
      NotImplementedError: `order` is another one.

    >>> from curta import numpy as jnp
    >>> jnp.asarray(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    if type(a) is ArrayImpl and dtype is None and not copy and device is order is None:
        return a
    if dtype is not None and not is_string(dtype):
        dtype = dtypes.check_user_dtype(dtype, "asarray")
    elif isinstance(a, np.ma.MaskedArray):
        typeof(a)  # refuses it
    return array(a, dtype, copy=bool(copy), order=order, device=device)


def _by_position(args: tuple[Any, ...], named: tuple[Any, ...]) -> tuple[Any, ...]:
    """`copy`, `order` and `ndmin`, the first of which may be given by position."""
    api_version.ARRAY_BY_POSITION.check()
    if len(args) > 3:
        raise TypeError(
            f"array() takes at most 5 positional arguments but {len(args) + 2} were"
            " given: pass copy, order and ndmin by keyword"
        )
    for i, (name, default) in enumerate(_ORDER):
        if i < len(args) and named[i] != default:
            raise TypeError(f"array() got multiple values for argument {name!r}")
    return (*args, *named[len(args) :])


_ORDER = ("copy", True), ("order", "K"), ("ndmin", 0)


def weak_constant(x: Any) -> Any:
    """The NumPy scalar `x` as a weakly typed array of rank 0."""
    plain = x.item()
    if typeof(plain).dtype == x.dtype:
        return scalar_array(plain)
    return wrap(np.asarray(x), ShapedArray((), x.dtype, True))


def _strings(x: Any, dtype: Any, device: Any) -> Any:
    """An array of strings on a device."""
    if not isinstance(x, np.ndarray):
        raise TypeError(
            "Currently, string arrays can only be made from NumPy arrays. Got: "
            f" {type(x)}."
        )
    if not is_string(x.dtype) or not (dtype is None or is_string(dtype)):
        raise TypeError(
            f"Cannot make an array with dtype {dtype} from an object with dtype"
            f" {x.dtype}."
        )
    return device_put(x, device)


def _from_array(x: Any, dtype: Any, copy: bool) -> Any:
    if copy:
        x = lax.copy(x)
    return x if dtype is None else lax.convert_element_type(x, dtype)


def _from_value(x: Any, dtype: Any) -> Any:
    x = plain_scalar(x)
    if dtype is None and is_python_scalar(x):
        return scalar_array(x)
    if hasattr(x, "__jax_array__"):
        return asarray(x.__jax_array__(), dtype)
    if isinstance(x, (np.ndarray, np.generic)):
        if dtype is None and x.dtype == np.float64:
            advise_of_float64(x)
        return _from_numpy(x, dtype)
    leaves = list(_leaves(x))
    if any(isinstance(leaf, Array) for leaf in leaves):
        return _stacked(x, dtype or dtypes.result_type(*leaves))
    if dtype is None:
        dtype = _common_dtype(leaves)
    return _from_numpy(np.asarray(x, dtype=dtype), dtype)


def _from_numpy(x: Any, dtype: Any) -> Any:
    if dtype is None:
        dtype = dtypes.dtype(x)
    if dtypes.issubdtype(dtype, np.integer) and dtypes.issubdtype(x.dtype, np.inexact):
        x = converted(np.asarray(x), np.dtype(dtype))  # NumPy's way depends on the CPU
    value = fresh_copy(x, dtype)
    if value.ndim == 0 and dtypes.canonicalize_dtype(value.dtype) == value.dtype:
        return scalar_array(value[()])
    aval = ShapedArray(value.shape, value.dtype)
    guard_implicit_transfer(aval)
    return wrap(value, aval)


def _common_dtype(leaves: list[Any]) -> Any:
    if not leaves:
        return dtypes.default_float_dtype()
    # One scalar of a type speaks for all of them.
    scalars = {type(x): x for x in leaves if is_python_scalar(x)}
    kinds = [*scalars.values(), *(x for x in leaves if type(x) not in scalars)]
    try:
        return dtypes.lattice_result_type(*kinds)[0]
    except TypeError:
        return dtypes.lattice_result_type(*map(np.asarray, kinds))[0]


def _leaves(x: Any) -> Iterator[Any]:
    """The elements of nested lists and tuples, with arrays as single elements."""
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _leaves(item)
    elif x is None:
        raise ValueError("None is not a valid value for jnp.array")
    else:
        yield _leaf(x)


def _leaf(x: Any) -> Any:
    """An element of nested lists as a scalar or an array."""
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    # A string as such would be taken for the name of a dtype.
    foreign = (str, bytes, bytearray, memoryview)
    if isinstance(x, foreign) or (hasattr(x, "__array__") and not hasattr(x, "dtype")):
        return np.asarray(x)
    return x


def _stacked(x: Any, dtype: Any) -> Any:
    """Nested lists that hold arrays, joined along a new leading dim a level."""
    if not isinstance(x, (list, tuple)):
        return asarray(_leaf(x), dtype)
    rows = [lax.expand_dims(_stacked(item, dtype), (0,)) for item in x]
    while len(rows) > 16:  # Few operands a concatenation keep compiled code short.
        rows = [lax.concatenate(rows[i : i + 16], 0) for i in range(0, len(rows), 16)]
    return lax.concatenate(rows, 0)
