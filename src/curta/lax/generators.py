"""Random bits without keys: for programs that keep the state of a generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array
from curta.core.shapes import canonicalize_shape
from curta.primitives.random_bits.generator import (
    RandomAlgorithm,
    RngBitGenerator,
    RngUniform,
)


@takes_out_sharding
def rng_bit_generator(
    key: Any,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Any, Any]:
    """The next state of a generator, and bits. Most programs want `curta.random`.

    Args:
      key: the state: four uint32 or two uint64.
      shape: the shape of the bits.
      dtype: uint8, uint16, uint32 (by default) or uint64.
      algorithm: a `RandomAlgorithm`.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      The next state, and an array of `shape` of random bits.

    Raises:
      TypeError: for other dtypes and states.
      ValueError: for negative sizes and unknown algorithms.

    >>> import curta
    >>> state = curta.numpy.arange(4, dtype="uint32")
    >>> state, bits = curta.lax.rng_bit_generator(state, (2,))
    >>> state, bits
    (Array([0, 1, 3, 3], dtype=uint32), Array([ 895509795, 3230209149], dtype=uint32))
    """
    dtype = dtypes.check_user_dtype(dtype, "rng_bit_generator")
    if dtype.name not in ("uint8", "uint16", "uint32", "uint64"):
        raise TypeError(f"rng_bit_generator: unsupported dtype {dtype.name}")
    op = RngBitGenerator(canonicalize_shape(shape), dtype, RandomAlgorithm(algorithm))
    return tuple(op(key))


def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Array:
    """Numbers drawn from [a, b), others at each call: they depend on no key.

    Args:
      a, b: scalars of one dtype, of reals.
      shape: the shape of the result.

    Returns:
      An array of this shape in the dtype of `a`.

    Raises:
      ValueError: unless `a` and `b` are scalars of one dtype, and for negative sizes.
      TypeError: if an operand is complex.

    >>> import curta
    >>> bool((curta.lax.rng_uniform(0., 1., (3,)) < 1).all())
    True
    """
    return RngUniform(canonicalize_shape(shape))(a, b)
