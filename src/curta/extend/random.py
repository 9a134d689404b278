"""Generators of random keys, and the hash of the default generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta._base.on_demand import Listing, listed
from curta.control.primitives import threefry2x32_p as threefry2x32_p
from curta.core.trace import typeof
from curta.numpy import concatenate, ravel, reshape
from curta.primitives.random_bits.custom import CustomGenerator
from curta.primitives.random_bits.implementations import KeyImplementation, PRNGSpec
from curta.primitives.random_bits.ops import RandomSeed
from curta.primitives.random_bits.registry import implementation_of
from curta.random import wrap_key_data as wrap_key_data
from curta.random.keys import resolve_implementation

__all__ = [
    "define_prng_impl",
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry2x32_p",
    "threefry_2x32",
    "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]
__dir__: Listing = listed(__all__)

threefry_prng_impl: KeyImplementation = implementation_of("threefry2x32")
rbg_prng_impl: KeyImplementation = implementation_of("rbg")
unsafe_rbg_prng_impl: KeyImplementation = implementation_of("unsafe_rbg")


def define_prng_impl(
    *,
    key_shape: Sequence[int],
    seed: Callable[..., Any],
    split: Callable[..., Any],
    random_bits: Callable[..., Any],
    fold_in: Callable[..., Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> PRNGSpec:
    """A generator for `random.key(seed, impl=...)`, of functions on uint32 arrays.

    Args:
      key_shape: the shape of a key. Programs with keys of other than 1, 2 or 4 words
        in all are not compiled; NumPy runs them.
      seed: an integer to a key.
      split: a key and a shape to that many keys.
      random_bits: a key, 8, 16, 32 or 64, and a shape to unsigned integers.
      fold_in: a key and an integer to a key.
      name, tag: what it is called, and how dtypes `key<tag>` of its keys are printed.

    Returns:
      What `random.key` takes as `impl`.

    Raises:
      TypeError: when keys are made, for functions that give other shapes or dtypes.

    >>> import curta.numpy as jnp
    >>> from curta import random
    >>> from curta.extend.random import define_prng_impl
    >>> counting = define_prng_impl(
    ...     key_shape=(2,), name="counting", tag="count",
    ...     seed=lambda s: jnp.array([0, s], "uint32"),
    ...     split=lambda key, shape: key + jnp.zeros((*shape, 2), "uint32"),
    ...     random_bits=lambda key, width, shape: key[1] + jnp.arange(shape[0]),
    ...     fold_in=lambda key, data: key + data)
    >>> random.bits(random.key(7, impl=counting), (3,))
    Array([7, 8, 9], dtype=uint32)
    """
    generator = CustomGenerator(key_shape, seed, split, random_bits, fold_in, name, tag)
    return PRNGSpec(generator)


def random_seed(seeds: Any, impl: Any = None) -> Any:
    """Keys from an array of integers, one for each.

    >>> import curta.numpy as jnp
    >>> from curta.extend.random import random_seed
    >>> random_seed(jnp.arange(3)).shape
    (3,)
    """
    return RandomSeed(resolve_implementation(impl))(seeds)


def seed_with_impl(impl: KeyImplementation, seed: Any) -> Any:
    """The key that the generator `impl` makes of a seed.

    >>> from curta.extend.random import rbg_prng_impl, seed_with_impl
    >>> seed_with_impl(rbg_prng_impl, 7).dtype
    key<rbg>
    """
    return random_seed(seed, impl)


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """The threefry-2x32 hash of counters, under a key of two uint32 words.

    The first half of `count`, a uint32 array, is hashed with the second half.

    >>> import curta.numpy as jnp
    >>> from curta.extend.random import threefry_2x32
    >>> zero = jnp.zeros(2, "uint32")
    >>> [hex(x) for x in threefry_2x32(zero, zero).tolist()]
    ['0x6b200159', '0x99ba4efe']
    """
    key1, key2 = keypair
    for x in (key1, key2, count):
        if typeof(x).dtype != np.uint32:
            raise TypeError(
                "threefry_2x32 requires uint32 arguments, got"
                f" {typeof(key1).dtype}, {typeof(key2).dtype} and {typeof(count).dtype}"
            )
    words = ravel(count)
    odd = words.size % 2
    if odd:
        words = concatenate([words, np.zeros(1, np.uint32)])
    half = words.size // 2
    hashed = concatenate(threefry2x32_p.bind(key1, key2, words[:half], words[half:]))
    return reshape(hashed[: hashed.size - odd], typeof(count).shape)
