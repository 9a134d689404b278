"""A random generator with state, as in `jax.experimental.random`.

It is a key and a count of the draws so far, which every draw raises:

>>> from curta.experimental import random
>>> rng = random.stateful_rng(42)
>>> rng.integers(0, 10, size=3)
Array([4, 1, 9], dtype=int32)
>>> rng.integers(0, 10, size=3)
Array([5, 2, 4], dtype=int32)

The count is a reference (`curta.new_ref`), so that functions that are compiled or
traced may take a generator as argument or close over one, but not return one.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, random
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, own
from curta.core.array import Array
from curta.core.refs import Ref
from curta.core.trace import base_trace, current_trace
from curta.ref import addupdate, get, new_ref
from curta.tree.keys import GetAttrKey
from curta.tree.registration import register_pytree_with_keys

__dir__: Listing = own(__name__)

Size = int | Sequence[int] | None


def _shape(size: Size, *parameters: Any) -> tuple[int, ...]:
    """The shape asked for, or that of the parameters broadcast with each other."""
    if size is None:
        return np.broadcast_shapes(*(np.shape(p) for p in parameters))
    if isinstance(size, (int, np.integer)):
        return (operator.index(size),)
    return tuple(map(operator.index, size))


@dataclass(frozen=True)
class StatefulPRNG:
    """A generator that `stateful_rng` makes.

    >>> from curta.experimental import random
    >>> random.stateful_rng(0)
    StatefulPRNG(_base_key=Array((), dtype=key<fry>) overlaying:
    [0 0], _counter=Ref(0, dtype=int32, weak_type=True))
    """

    _base_key: Any
    _counter: Any

    def __post_init__(self) -> None:
        key = self._base_key
        typed = isinstance(key, Array) and dtypes.issubdtype(key.dtype, dtypes.prng_key)
        if not typed:
            raise ValueError(f"Expected base_key to be a typed PRNG key; got {key}")
        if not isinstance(self._counter, Ref):
            raise ValueError(
                "Expected counter to be a scalar integer ref; got"
                f" {self._counter}. stateful_rng makes generators."
            )

    def key(self, shape: int | Sequence[int] = ()) -> Any:
        """A new key, or an array of keys of `shape`; the count goes up by one.

        >>> from curta.experimental import random
        >>> random.stateful_rng(0).key(3).shape
        (3,)
        """
        if self._base_key.shape:
            raise ValueError(
                "cannot operate on split stateful generator: it stands for"
                f" {self._base_key.shape} generators, to be mapped over by vmap"
            )
        key = random.fold_in(self._base_key, get(self._counter))
        addupdate(self._counter, ..., 1)
        sizes = _shape(shape)
        return random.split(key, sizes) if sizes else key

    def random(self, size: Size = None, dtype: Any = float) -> Any:
        """Uniform draws from [0, 1)."""
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float
    ) -> Any:
        """Uniform draws from [low, high).

        Args:
            low, high: numbers, or arrays that broadcast. Default 0 and 1.
            size: the shape; None (default) is the broadcast shape of `low` and `high`.
            dtype: a dtype of floats; `float` (default) is the default one.

        Returns:
            An array of that shape and dtype.

        Raises:
            ValueError: `dtype` is not of floats.
            TypeError: `low` and `high` do not broadcast to `size`.

        >>> from curta.experimental import random
        >>> random.stateful_rng(0).uniform(-1, [1, 2]).shape
        (2,)
        """
        shape = _shape(size, low, high)
        low, high = jnp.asarray(low), jnp.asarray(high)
        return random.uniform(self.key(), shape, dtype, low, high)

    def normal(
        self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float
    ) -> Any:
        """Normal draws of mean `loc` and standard deviation `scale`.

        Args:
            loc, scale: numbers, or arrays that broadcast. Default 0 and 1.
            size: the shape; None (default) is the broadcast shape of `loc` and `scale`.
            dtype: a dtype of floats; `float` (default) is the default one.

        Returns:
            An array of that shape and dtype.

        Raises:
            ValueError: `dtype` is of integers.
            TypeError: `loc` and `scale` do not broadcast to `size`.

        >>> from curta.experimental import random
        >>> random.stateful_rng(0).normal(10, 0.1, size=(2, 3)).shape
        (2, 3)
        """
        drawn = random.normal(self.key(), _shape(size, loc, scale), dtype)
        moved = jnp.asarray(loc) + jnp.asarray(scale) * drawn
        return moved.astype(dtypes.canonicalize_dtype(dtype))

    def integers(
        self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int
    ) -> Any:
        """Uniform integers of low, low + 1, ... high - 1; below `low` without `high`.

        Args:
            low, high: integers, or arrays of them that broadcast. Without `high`
                (default None) they are 0 and `low`.
            size: the shape; None (default) is the broadcast shape of `low` and `high`.
            dtype: a dtype of integers; `int` (default) is the default one.

        Returns:
            An array of that shape and dtype.

        Raises:
            ValueError: `low` and `high` do not broadcast to `size`.
            TypeError: `dtype` is not of integers.

        >>> from curta.experimental import random
        >>> random.stateful_rng(0).integers(5, size=(2, 3)).shape
        (2, 3)
        """
        if high is None:
            low, high = 0, low
        shape = _shape(size, low, high)
        return random.randint(self.key(), shape, low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """An array of generators of their own, to be mapped over by `vmap`.

        >>> import curta, curta.numpy as jnp
        >>> from curta.experimental import random
        >>> rng = random.stateful_rng(123)
        >>> curta.vmap(lambda rng, x: x + rng.uniform())(rng.split(3), jnp.zeros(3))
        Array([0.35525954, 0.21937883, 0.5336956 ], dtype=float32)
        """
        return StatefulPRNG(self.key(num), new_ref(jnp.zeros(num, dtype=int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of generators of their own.

        >>> from curta.experimental import random
        >>> [r.integers(0, 10, 2) for r in random.stateful_rng(123).spawn(2)]
        [Array([4, 5], dtype=int32), Array([2, 1], dtype=int32)]
        """
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A random generator whose draws change its state.

    Args:
      seed: an integer, as of `random.key`. Without one the generator is seeded by the
        operating system, which is possible only outside of transformed functions.
      impl: the name of the generator of the keys.

    Returns:
      A `StatefulPRNG`.

    Raises:
      TypeError: without a seed, inside of a transformed function.

    >>> from curta.experimental import random
    >>> rng = random.stateful_rng(42)
    >>> print(rng.uniform(), rng.uniform())
    0.5302608 0.72766423
    """
    if seed is None:
        if current_trace() is not base_trace():
            raise TypeError(
                "When used within transformed code,"
                " jax.experimental.random.stateful_rng() requires an explicit seed to"
                " be set."
            )
        entropy: Any = np.random.SeedSequence().entropy
        seed = np.int64(entropy & np.iinfo(np.int64).max)
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))


_FIELDS = tuple(StatefulPRNG.__dataclass_fields__)


def _children(rng: StatefulPRNG) -> tuple[Any, None]:
    return [(GetAttrKey(name), getattr(rng, name)) for name in _FIELDS], None


def _of_children(_: None, children: Any) -> StatefulPRNG:
    made = object.__new__(StatefulPRNG)  # the children may be anything, inside trees
    for name, child in zip(_FIELDS, children, strict=True):
        object.__setattr__(made, name, child)
    return made


register_pytree_with_keys(StatefulPRNG, _children, _of_children)
