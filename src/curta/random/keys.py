"""Keys: making, splitting and looking into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NewType

import numpy as np

from curta import dtypes
from curta._base.user_warnings import warn
from curta.api.inner import inlined_jit
from curta.config import config
from curta.core.array import Array, ArrayLike
from curta.core.trace import is_array_like, typeof
from curta.numpy import asarray
from curta.primitives.random_bits.gamma import RandomGamma
from curta.primitives.random_bits.implementations import KeyImplementation, PRNGSpec
from curta.primitives.random_bits.ops import (
    RandomBits,
    RandomClone,
    RandomFoldIn,
    RandomSeed,
    RandomSplit,
    RandomUnwrap,
    RandomWrap,
)
from curta.primitives.random_bits.registry import (
    implementation_names,
    implementation_of,
)
from curta.random.shapes import sample_shape

_NO_KEY_DATA = (
    "Encountered invalid PRNG key data: expected key_data to have ndim, shape, and"
    " dtype attributes. Got {}"
)


def key(seed: int | float | ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """A random key from an integer seed.

    Args:
      seed: an integer scalar.
      impl: the generator's name; the default is the value of `jax_default_prng_impl`.
      dtype: a key dtype, in place of `impl`.

    Returns:
      A rank-0 array of a key dtype.

    Raises:
      TypeError: for a seed that is not an integer or no scalar.
      ValueError: if the generator is unknown, or both `impl` and `dtype` are given.

    >>> from curta import random
    >>> random.key(43)
    Array((), dtype=key<fry>) overlaying:
    [ 0 43]
    """
    if dtype is not None:
        if impl is not None:
            raise ValueError(
                "Cannot specify both `impl` and `dtype` arguments to jax.random.key"
            )
        impl = dtype
    return _key("key", seed, impl)


Key = NewType("Key", Array)
"""For annotations: an array of keys, as `key` makes them."""


def PRNGKey(seed: int | float | ArrayLike, *, impl: Any = None) -> Array:
    """A random key of the older kind: a uint32 array of the key's words.

    >>> from curta import random
    >>> print(random.PRNGKey(18))
    [ 0 18]
    """
    made = _key("PRNGKey", seed, impl)
    return made if config.jax_enable_custom_prng else _words(made)


def _key(name: str, seed: Any, impl: Any) -> Any:
    chosen = resolve_implementation(impl)
    if isinstance(seed, Array) and dtypes.issubdtype(seed.dtype, dtypes.prng_key):
        raise TypeError(f"{name} accepts a scalar seed, but was given a PRNG key.")
    if np.ndim(seed):
        raise TypeError(
            f"{name} accepts a scalar seed, but was given an array of shape"
            f" {np.shape(seed)} != (). Use jax.vmap for batching"
        )
    if config.jax_random_seed_offset:
        offset = config.jax_random_seed_offset
        seed = seed + offset if isinstance(seed, int) else asarray(seed) + offset
    if isinstance(seed, int):
        # Seeds of more than 64 bits overflow; those of more bits than the default
        # integer lose the upper ones.
        seed = np.int64(seed).astype(dtypes.canonicalize_dtype(np.int64))
    elif not is_array_like(seed):
        seed = asarray(seed)
    return RandomSeed(chosen)(seed)


def resolve_implementation(impl: Any) -> KeyImplementation:
    """The generator that a user's `impl` argument stands for."""
    if impl is None:
        impl = config.jax_default_prng_impl
    if isinstance(impl, KeyImplementation):
        return impl
    if isinstance(impl, PRNGSpec):
        return impl.implementation
    if isinstance(impl, dtypes.KeyDType):
        return implementation_of(impl)
    if isinstance(impl, str):
        if impl in implementation_names():
            return implementation_of(impl)
        names = ", ".join(f'"{n}"' for n in implementation_names())
        raise ValueError(
            f'unrecognized PRNG implementation "{impl}". Did you mean one of: {names}?'
        )
    raise TypeError(
        f"unrecognized type {type(impl)} for specifying PRNG implementation."
    )


def check_key(name: str, key: Any, allow_batched: bool = False) -> tuple[Any, bool]:
    """The key as an array of a key dtype, and whether it was of the older kind.

    Raises TypeError if the argument is not a key, ValueError if it is an array of keys.
    """
    if isinstance(key, Array) and dtypes.issubdtype(key.dtype, dtypes.prng_key):
        wrapped, typed = False, key
    elif is_array_like(key):
        typed = RandomWrap(resolve_implementation(None))(key)
        wrapped = True
        _warn_of_raw_key()
    elif isinstance(key, str):
        raise TypeError(_NO_KEY_DATA.format(key))
    else:
        raise TypeError(
            f"unexpected PRNG key type {type(key)}. The key is the first argument;"
            " random.key(seed) makes one."
        )
    if not allow_batched and typed.ndim:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape"
            f" {np.shape(key)} != (). Use jax.vmap for batching."
        )
    return typed, wrapped


_RAW_KEY = (
    "Legacy uint32 key array passed as key to jax.random function. Please create keys"
    " using jax.random.key(). If use of a raw key array was intended, set"
    ' jax_legacy_prng_key="allow".'
)


def _warn_of_raw_key() -> None:
    if config.jax_legacy_prng_key == "error":
        raise ValueError(_RAW_KEY)
    if config.jax_legacy_prng_key == "warn":
        warn(_RAW_KEY)


def _as_given(key: Any, was_raw: bool) -> Any:
    raw = was_raw and not config.jax_enable_custom_prng
    return _words(key) if raw else key


def _implementation(key: Any) -> KeyImplementation:
    return implementation_of(typeof(key).dtype)


def _words(key: Any) -> Any:
    return RandomUnwrap(_implementation(key))(key)


def split_key(key: Any, num: int | Sequence[int] = 2) -> Array:
    """New keys from a typed key; for the samplers."""
    shape = (num,) if isinstance(num, int) else sample_shape(num)
    partitionable = config.jax_threefry_partitionable
    return RandomSplit(shape, partitionable, _implementation(key))(key)


def random_bits(key: Any, bit_width: int, shape: tuple[int, ...]) -> Array:
    """Random unsigned integers from a typed key; for the samplers."""
    partitionable = config.jax_threefry_partitionable
    return RandomBits(bit_width, shape, partitionable, _implementation(key))(key)


def random_gamma(key: Any, a: Any, log_space: bool) -> Array:
    """Gamma draws from a typed key; for the samplers."""
    partitionable = config.jax_threefry_partitionable
    return RandomGamma(log_space, partitionable, _implementation(key))(key, a)


@inlined_jit(static_argnames=("num",))
def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """New keys from one, which must not be used again.

    Args:
      key: a single key.
      num: how many, or the shape of an array of keys.

    Returns:
      An array of `num` keys.

    >>> from curta import random
    >>> print(random.key_data(random.split(random.key(0))))
    [[1797259609 2579123966]
     [ 928981903 3453687069]]
    """
    typed, was_raw = check_key("split", key)
    shape = sample_shape(num if isinstance(num, (tuple, list)) else (num,))
    return _as_given(split_key(typed, shape), was_raw)


@inlined_jit
def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and an integer.

    >>> from curta import random
    >>> print(random.key_data(random.fold_in(random.key(0), 1)))
    [ 928981903 3453687069]
    """
    typed, was_raw = check_key("fold_in", key)
    if np.ndim(data):
        raise TypeError(
            "fold_in accepts a scalar, but was given an array of shape"
            f" {np.shape(data)} != (). Use jax.vmap for batching."
        )
    mix = RandomFoldIn(_implementation(typed))
    return _as_given(mix(typed, asarray(data, dtype="uint32")), was_raw)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys, as uint32 along a new last dim.

    >>> from curta import random
    >>> random.key_data(random.key(7))
    Array([0, 7], dtype=uint32)
    """
    typed, _ = check_key("key_data", keys, allow_batched=True)
    return _words(typed)


def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: Any = None, dtype: Any = None
) -> Array:
    """Keys from their words: the inverse of `key_data`.

    Args:
      key_bits_array: uint32, (..., n), with n words for each key: 2 of "threefry2x32".
      impl: the generator's name; the default is the value of `jax_default_prng_impl`.
      dtype: a key dtype, in place of `impl`.

    Returns:
      An array of a key dtype, of shape (...).

    Raises:
      TypeError: for words of another dtype or number.
      ValueError: if the generator is unknown, or both `impl` and `dtype` are given.

    >>> from curta import random, numpy as jnp
    >>> random.wrap_key_data(jnp.array([0, 7], dtype="uint32")).dtype
    key<fry>
    """
    if dtype is not None and impl is not None:
        raise ValueError(
            "Cannot specify both `impl` and `dtype` arguments to"
            " jax.random.wrap_key_data"
        )
    chosen = resolve_implementation(dtype if impl is None else impl)
    if not is_array_like(key_bits_array):
        raise TypeError(_NO_KEY_DATA.format(key_bits_array))
    return RandomWrap(chosen)(key_bits_array)


def key_impl(keys: ArrayLike) -> str | PRNGSpec:
    """The name of the generator of keys, or what stands for one without a name.

    >>> from curta import random
    >>> random.key_impl(random.key(0))
    'threefry2x32'
    """
    typed, _ = check_key("key_impl", keys, allow_batched=True)
    result = _implementation(typed)
    return result.name if result.name in implementation_names() else PRNGSpec(result)


def key_dtype(impl_spec: Any = None) -> dtypes.KeyDType:
    """The dtype of the keys of a generator.

    Args:
      impl_spec: the generator's name; the default is the value of
        `jax_default_prng_impl`.

    Returns:
      A dtype, as `key<fry>`.

    >>> from curta import random
    >>> random.key_dtype("rbg")
    key<rbg>
    """
    return resolve_implementation(impl_spec).dtype


def used_again(key: Any) -> Any:
    """A typed key for a second draw, where each element uses one draw or the other.

    With `jax_debug_key_reuse` it is a clone; otherwise jaxprs do not show it.
    """
    if config.jax_debug_key_reuse:
        return RandomClone(_implementation(key))(key)
    return key


def clone(key: Any) -> Array:
    """The same key, said to be used a second time on purpose.

    >>> from curta import random
    >>> key = random.key(0)
    >>> bool(random.clone(key) == key)
    True
    """
    typed, was_raw = check_key("clone", key, allow_batched=True)
    return _as_given(RandomClone(_implementation(typed))(typed), was_raw)
