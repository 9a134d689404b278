"""The use of random keys by an op or function: keys consumed, keys made.

A key is to be used once. Using one up is a `Sink`, a fresh one among the outputs a
`Source`; where an output is an input, its uses count as the input's: a `Forward`. Key
outputs that are neither come already used up.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np

Mask = bool | np.ndarray[Any, Any]


@functools.total_ordering
class _KeyUse:
    """The input or output number `idx`, or of an array of keys those in `mask`."""

    __slots__ = ("idx", "mask")
    idx: int
    mask: Mask

    def __init__(self, idx: int, mask: Any = True):
        object.__setattr__(self, "idx", int(idx))
        object.__setattr__(self, "mask", _simple(mask))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise ValueError(f"{type(self).__name__} is immutable")

    def _key(self) -> Any:
        mask = self.mask
        values = mask if isinstance(mask, bool) else (mask.shape, mask.tobytes())
        return type(self).__name__, self.idx, values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KeyUse) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __lt__(self, other: Any) -> bool:
        return not isinstance(other, _KeyUse) or self._key()[:2] < other._key()[:2]

    def __repr__(self) -> str:
        mask = "" if self.mask is True else f", {self.mask}"
        return f"{type(self).__name__}({self.idx}{mask})"


def _simple(mask: Any) -> Mask:
    """The mask as a boolean if it is the same everywhere, else read-only."""
    mask = np.asarray(mask, bool)
    if not mask.any():
        return False
    if mask.all():
        return True
    mask = mask.copy()
    mask.flags.writeable = False
    return mask


class Sink(_KeyUse):
    """The input is used up.

    >>> from curta import random
    >>> from curta.experimental import key_reuse
    >>> signature = key_reuse.function_type_signature(random.normal, random.key(0))
    >>> list(signature.sinks)
    [Sink(0)]
    """

    __slots__ = ()


class Source(_KeyUse):
    """The output is fresh.

    >>> from curta import random
    >>> from curta.experimental import key_reuse
    >>> signature = key_reuse.function_type_signature(random.split, random.key(0))
    >>> list(signature.sources)
    [Source(0)]
    """

    __slots__ = ()


class Forward(NamedTuple):
    """The output is the input, or a view of it.

    >>> from curta import random
    >>> from curta.experimental import key_reuse
    >>> signature = key_reuse.function_type_signature(lambda key: key, random.key(0))
    >>> list(signature.forwards)
    [Forward(0, 0)]
    """

    in_idx: int
    out_idx: int

    def __repr__(self) -> str:
        return f"Forward({self.in_idx}, {self.out_idx})"


class KeyReuseSignature:
    """All that happens to keys.

    >>> KeyReuseSignature(Source(0), Sink(0))
    KeyReuseSignature(Sink(0), Source(0))
    """

    __slots__ = ("_args",)

    def __init__(self, *args: Sink | Source | Forward):
        self._args = frozenset(args)

    def __repr__(self) -> str:
        # Sorted by class: sinks, sources, forwards.
        return f"KeyReuseSignature{tuple(sorted(self._args))}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyReuseSignature) and self._args == other._args

    def __hash__(self) -> int:
        return hash(self._args)

    @property
    def sinks(self) -> Iterator[Sink]:
        """The inputs that are used up."""
        return (x for x in self._args if isinstance(x, Sink))

    @property
    def sources(self) -> Iterator[Source]:
        """The outputs that are fresh."""
        return (x for x in self._args if isinstance(x, Source))

    @property
    def forwards(self) -> Iterator[Forward]:
        """The outputs that are inputs."""
        return (x for x in self._args if isinstance(x, Forward))


NOTHING = KeyReuseSignature()
FORWARD = KeyReuseSignature(Forward(0, 0))
FRESH = KeyReuseSignature(Source(0))
USED_UP = KeyReuseSignature(Sink(0))
