"""Draws from the basic distributions, bit for bit those of JAX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inlined_jit, inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.dim import is_symbolic_dim
from curta.core.trace import concrete_or_error, typeof
from curta.numpy import arange, array, asarray, clip, take
from curta.numpy.arguments import canonical_axis, check_arraylike, ensure_arraylike
from curta.random.keys import check_key, random_bits, split_key
from curta.random.shapes import (
    asked_dtype,
    check_shape,
    constant,
    float_dtype,
    sample_shape,
    to_rank,
)

_UINT = {bits: np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)}


@inlined_jit(static_argnames=("shape", "dtype"))
@takes_out_sharding
def bits(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform random unsigned integers over the whole range of a dtype.

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: an unsigned dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not an unsigned integer
          dtype.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> random.bits(random.key(0), (2,), "uint8")
    Array([167, 146], dtype=uint8)
    """
    typed, _ = check_key("bits", key)
    default = dtypes.canonicalize_dtype(np.uint64)
    chosen = default if dtype is None else asked_dtype(dtype, int)
    if not dtypes.issubdtype(chosen, np.unsignedinteger):
        raise ValueError(
            "dtype argument to `bits` must be an unsigned int dtype, got"
            f" {dtypes.dtype(dtype)}"
        )
    return random_bits(typed, chosen.itemsize * 8, sample_shape(shape))


@inlined_jit(static_argnames=("shape", "dtype"))
@takes_out_sharding
def uniform(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform draws from [minval, maxval).

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a float dtype, by default the default one.
      minval, maxval: bounds, broadcast to `shape`; 0 and 1 by default.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys or `dtype` is not a float dtype.
      TypeError: if `key` is not a key or `shape` is not a shape; for bounds that do not
        broadcast to `shape`.

    >>> from curta import random
    >>> random.uniform(random.key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    typed, _ = check_key("uniform", key)
    chosen = float_dtype("uniform", dtype)
    return uniform_draws(typed, minval, maxval, sample_shape(shape), chosen)


@inner_jit(static_argnames=("shape", "dtype"), name="_uniform")
def uniform_draws(
    key: Any, minval: Any, maxval: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    check_shape("uniform", shape)
    minval = lax.convert_element_type(minval, dtype)
    maxval = lax.convert_element_type(maxval, dtype)
    minval = to_rank(minval, len(shape))
    maxval = to_rank(maxval, len(shape))
    info = dtypes.finfo(dtype)
    width = max(info.bits, 8)
    unsigned = _UINT[width]
    # Random bits for the mantissa, under the exponent of 1: floats in [1, 2).
    drawn = 8 if info.nmant < 8 else width
    result = random_bits(key, drawn, shape)
    if drawn != width:
        result = lax.convert_element_type(result, unsigned)
    result = lax.shift_right_logical(result, np.array(drawn - info.nmant, unsigned))
    one = np.array(1.0, dtype).view(unsigned)
    floats = lax.bitcast_convert_type(lax.bitwise_or(result, one), dtype)
    floats = lax.sub(floats, np.array(1.0, dtype))
    spread = lax.mul(floats, lax.sub(maxval, minval))
    return lax.max(minval, lax.reshape(lax.add(spread, minval), shape))


@inlined_jit(static_argnames=("shape", "dtype"))
@takes_out_sharding
def normal(
    key: ArrayLike,
    shape: Sequence[int] = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draws from the standard normal distribution.

    Uniform draws through the inverse of the distribution function, sqrt(2)
    erf_inv(u). Complex draws have independent parts of variance 1/2.

    Args:
      key: a single key.
      shape: the shape of the result; () by default.
      dtype: a float or complex dtype, by default the default float one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, or `dtype` is not a float or complex
          dtype.
      TypeError: if `key` is not a key or `shape` is not a shape.

    >>> from curta import random
    >>> print(random.normal(random.key(43)))
    0.07520543
    """
    typed, _ = check_key("normal", key)
    chosen = float_dtype("normal", dtype, or_complex=True)
    return _normal(typed, sample_shape(shape), chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _normal(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if not dtypes.issubdtype(dtype, np.complexfloating):
        return _normal_real(key, shape, dtype)
    key_re, key_im = split_key(key)
    part = np.array(0, dtype).real.dtype
    re = _normal_real(key_re, shape, part).astype(dtype)
    im = _normal_real(key_im, shape, part).astype(dtype)
    return (re + 1j * im) / np.array(np.sqrt(2), dtype)


@inner_jit(static_argnames=("shape", "dtype"))
def _normal_real(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    check_shape("normal", shape)
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    u = uniform(key, shape, dtype, low, np.array(1.0, dtype))
    return lax.mul(np.array(np.sqrt(2), dtype), lax.erf_inv(u))


@inlined_jit(static_argnames=("shape", "mode"))
@takes_out_sharding
def bernoulli(
    key: ArrayLike,
    p: ArrayLike = 0.5,
    shape: Sequence[int] | None = None,
    mode: str = "low",
    *,
    out_sharding: Any = None,
) -> Array:
    """Booleans that are true with probability `p`.

    Args:
      key: a single key.
      p: a float array, broadcast to `shape`; 0.5 by default.
      shape: the shape of the result, by default the shape of `p`.
      mode: 'low', or 'high', which uses twice the bits, for very small `p`.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of booleans of this shape.

    Raises:
      ValueError: if `key` is an array of keys, `p` does not broadcast to `shape`, or
          the mode is unknown.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not an
          array; for a `p` that is not of floats.

    >>> from curta import random
    >>> random.bernoulli(random.key(0), 0.5, (3,))
    Array([False, False,  True], dtype=bool)
    """
    shape = None if shape is None else sample_shape(shape)
    if mode not in ("high", "low"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low'")
    typed, _ = check_key("bernoulli", key)
    dtypes.dtype(p)  # raises TypeError or ValueError for what is no array
    dtype = typeof(p).dtype
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"bernoulli probability `p` must have a floating dtype, got {dtype.name}."
        )
    return _bernoulli(typed, lax.convert_element_type(p, dtype), shape, mode)


@inner_jit(static_argnames=("shape", "mode"))
def _bernoulli(key: Any, p: Any, shape: tuple[int, ...] | None, mode: str) -> Any:
    if shape is None:
        shape = np.shape(p)
    else:
        check_shape("bernoulli", shape, np.shape(p))
    dtype = typeof(p).dtype
    if mode == "low":
        return uniform(key, shape, dtype) < p
    coarse, fine = uniform(key, (2, *shape), dtype)
    step = 2.0 ** -dtypes.finfo(dtype).nmant
    return fine * step < p - coarse


@inlined_jit(static_argnames=("shape", "dtype"))
@takes_out_sharding
def randint(
    key: ArrayLike,
    shape: Sequence[int],
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform random integers from [minval, maxval).

    Args:
      key: a single key.
      minval, maxval: integer bounds, broadcast to `shape`.
      shape: the shape of the result.
      dtype: an integer dtype, by default the default one.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: for several keys and bounds that do not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not an
        array; for a dtype that is not of integers.

    >>> from curta import random
    >>> random.randint(random.key(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    typed, _ = check_key("randint", key)
    chosen = asked_dtype(dtype, int)
    if not dtypes.issubdtype(chosen, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {chosen}")
    check_arraylike("randint", minval, maxval)
    info = dtypes.iinfo(chosen)
    drawn = chosen
    if info.bits < 32:
        drawn = np.dtype("int32")
        low, high = int(info.min), int(info.max)
        minval = asarray(minval).astype("int32").clip(low, high)
        maxval = asarray(maxval).astype("int32").clip(low, high + 1)
    result = _randint(typed, minval, maxval, sample_shape(shape), drawn)
    return result.astype(chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _randint(
    key: Any, minval: Any, maxval: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    check_shape("randint", shape, np.shape(minval), np.shape(maxval))
    minval, maxval = _integers(minval), _integers(maxval)
    # randint(key, shape, 0, 256, "uint8"): the bound itself is out of range.
    largest = array(dtypes.iinfo(dtype).max, dtype)
    beyond = lax.gt(maxval, _clip_to(largest, maxval.dtype))
    minval, maxval = _clip_to(minval, dtype), _clip_to(maxval, dtype)
    minval = to_rank(minval, len(shape))
    maxval = to_rank(maxval, len(shape))
    width = dtypes.iinfo(dtype).bits
    key_high, key_low = split_key(key)
    # Twice the bits of the dtype, to make the bias of the remainder small.
    high = random_bits(key_high, width, shape)
    low = random_bits(key_low, width, shape)
    span = lax.convert_element_type(maxval - minval, _UINT[width])
    span = lax.select(maxval <= minval, lax.full_like(span, 1), span)
    span = lax.select(
        beyond & (maxval > minval), lax.add(span, constant(span, 1)), span
    )
    # (high * 2^width + low) % span, in pieces that do not overflow.
    factor = lax.rem(constant(span, 2 ** (width // 2)), span)
    factor = lax.rem(lax.mul(factor, factor), span)
    offset = lax.add(lax.mul(lax.rem(high, span), factor), lax.rem(low, span))
    offset = lax.rem(offset, span)
    return lax.add(minval, lax.convert_element_type(offset, dtype))


def _integers(x: Any) -> Any:
    x = asarray(x)
    return x if dtypes.issubdtype(x.dtype, np.integer) else x.astype(int)


def _clip_to(x: Any, dtype: Any) -> Any:
    """`x` in an integer dtype, values outside its range at its ends."""
    source, target = dtypes.iinfo(x.dtype), dtypes.iinfo(dtype)
    low = max(int(source.min), int(target.min))
    high = min(int(source.max), int(target.max))
    if not typeof(x).weak_type:
        low, high = constant(x, low), constant(x, high)
    return clip(x, low, high).astype(dtype)


@takes_out_sharding
def permutation(
    key: ArrayLike,
    x: int | float | ArrayLike,
    axis: int = 0,
    independent: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """The slices of `x` along `axis` in random order, or a permutation of range(x).

    Args:
      key: a single key.
      x: an array, or an integer.
      axis: the axis to permute; 0 by default.
      independent: permute each vector along `axis` by itself.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of the shape and dtype of `x`; integers (x,) for an integer.

    Raises:
      ValueError: if `key` is an array of keys or an axis is out of range.
      TypeError: if `key` is not a key, `x` is not an array, or it is a float.
      ConcretizationTypeError: for a traced integer.

    >>> from curta import random
    >>> random.permutation(random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    typed, _ = check_key("permutation", key)
    array = ensure_arraylike("permutation", x)
    axis = canonical_axis(axis, array.ndim or 1)
    if not array.ndim:
        if not dtypes.issubdtype(array.dtype, np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        count = concrete_or_error(
            None, array, "It arose in argument x of jax.random.permutation()"
        )
        return _shuffle(typed, arange(int(count)), axis)
    return _permutation(typed, array, axis, independent)


def _permutation(key: Any, x: Any, axis: int, independent: bool) -> Any:
    if independent or x.ndim == 1:
        return _shuffle(key, x, axis)
    order = _shuffle(key, arange(x.shape[axis]), 0)
    return take(x, order, axis, unique_indices=True)


@inner_jit(static_argnames=("axis",))
def _shuffle(key: Any, x: Any, axis: int) -> Any:
    # Sorting by random 32-bit numbers; repeated until elements with equal numbers
    # in every round are unlikely.
    if is_symbolic_dim(x.size):
        raise NotImplementedError(
            "random permutation of an array with symbolic dimensions is not supported:"
            f" the number of rounds depends on its size, {x.size}"
        )
    exponent = 3
    rounds = math.ceil(
        exponent * math.log(max(1, x.size)) / math.log(np.iinfo(np.uint32).max)
    )
    for _ in range(rounds):
        key, subkey = split_key(key)
        order = random_bits(subkey, 32, x.shape)
        _, x = lax.sort_key_val(order, x, axis)
    return x
