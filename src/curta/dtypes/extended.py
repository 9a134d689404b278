"""Extended dtypes: element types that NumPy does not know, above all random keys.

An array of an extended dtype keeps its elements in a NumPy array of the same shape
and of the *physical* dtype: one NumPy scalar for each element. Ops that only move
elements (reshape, gather, concatenate ...) therefore work on it as they stand.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass

__all__ = [
    "ExtendedDType",
    "KeyDType",
    "KeyFill",
    "PrimalTangentDType",
    "extended",
    "physical_dtype",
    "prng_key",
]


class extended(np.generic):
    """The scalar type above all extended dtypes; for ``issubdtype``, never made.

    >>> import curta
    >>> curta.numpy.issubdtype(curta.random.key(0).dtype, curta.dtypes.extended)
    True
    """


class prng_key(extended):
    """The scalar type above all random key dtypes; for ``issubdtype``, never made.

    >>> import curta
    >>> curta.numpy.issubdtype(curta.random.key(0).dtype, curta.dtypes.prng_key)
    True
    """


class ExtendedDType(abc.ABC):
    """A dtype outside NumPy: its name, its scalar type and how elements are stored.

    >>> import curta
    >>> isinstance(curta.random.key(0).dtype, curta.dtypes.ExtendedDType)
    True
    """

    type: ClassVar[type[extended]]
    name: str
    physical: np.dtype[Any]

    @property
    def itemsize(self) -> int:
        return self.physical.itemsize

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


# The storage of a key of so many 32-bit words, as one NumPy scalar that machine code
# knows. A complex number serves for four words: the ops that take keys only move them.
# Keys of other sizes are bytes that only NumPy moves.
_KEY_STORAGE: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint32),
    2: np.dtype(np.uint64),
    4: np.dtype(np.complex128),
}


@dataclass(frozen=True, repr=False)
class KeyDType(ExtendedDType):
    """The dtype of random keys of one generator.

    Args:
        tag: the generator's short name as printed in ``key<fry>``.
        words: how many uint32 words a key has.
        serial: tells generators of one tag apart.

    Example:
        >>> from curta import dtypes
        >>> fry = dtypes.KeyDType("fry", words=2)
        >>> fry, fry.physical
        (key<fry>, dtype('uint64'))
        >>> dtypes.issubdtype(fry, dtypes.prng_key)
        True
    """

    tag: str
    words: int = 2
    serial: int = 0

    type: ClassVar[Any] = prng_key

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"key<{self.tag}>"

    @property
    def physical(self) -> np.dtype[Any]:  # type: ignore[override]
        return _KEY_STORAGE.get(self.words) or np.dtype((np.void, 4 * self.words))


@dataclass(frozen=True, repr=False)
class KeyFill:
    """The key whose `words` words are all `word`, which is all that is printed of it.

    >>> from curta import dtypes
    >>> dtypes.KeyFill(7, words=2), hex(dtypes.KeyFill(7, words=2).physical)
    (7, '0x700000007')
    """

    word: int
    words: int

    @property
    def physical(self) -> np.generic:
        """The element in which the key is stored."""
        words = np.full(self.words, self.word, np.uint32)
        return words.view(KeyDType("", self.words).physical)[0]

    def __repr__(self) -> str:
        return repr(self.word)


class primal_tangent(extended):
    """The scalar type above all dtypes with tangents of another dtype, never made."""


@dataclass(frozen=True, repr=False)
class PrimalTangentDType(ExtendedDType):
    """The dtype of numbers stored as `physical`, with tangents of dtype `tangent`.

    >>> import numpy as np
    >>> from curta.experimental import primal_tangent_dtype
    >>> dtype = primal_tangent_dtype(np.dtype("int8"), np.dtype("float32"))
    >>> dtype.physical, dtype.tangent
    (dtype('int8'), dtype('float32'))
    """

    physical: np.dtype[Any]
    tangent: np.dtype[Any]
    name: str

    type: ClassVar[Any] = primal_tangent


def physical_dtype(dtype: np.dtype[Any] | ExtendedDType) -> np.dtype[Any]:
    """The NumPy dtype in which elements of `dtype` are stored.

    >>> import curta
    >>> curta.dtypes.physical_dtype(curta.numpy.dtype("int8"))
    dtype('int8')
    """
    return dtype.physical if isinstance(dtype, ExtendedDType) else dtype
