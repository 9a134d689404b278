"""Arrays of an extended dtype by the array that holds their elements."""

from __future__ import annotations

import math
from typing import Any, NoReturn

from curta import tree_util
from curta.core.avals import ShapedArray


class EArray:
    """An array of the type `aval` whose elements are in another array, `data`.

    Trees split it: its leaf is `data`, and `aval` is static.

    Args:
      aval: the type.
      data: the array of the elements.

    >>> import curta, curta.numpy as jnp
    >>> from curta.experimental import EArray
    >>> x = EArray(curta.typeof(jnp.ones(2)), jnp.ones(2))
    >>> x.shape, x
    ((2,), EArray([1., 1.], dtype=float32))
    """

    __slots__ = ("_aval", "_data")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    def __init__(self, aval: ShapedArray, data: Any):
        self._aval, self._data = aval, data

    @property
    def aval(self) -> ShapedArray:
        """The type."""
        return self._aval

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the dims of the type."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the type."""
        return self._aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        size: int = self.dtype.itemsize
        return size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        length: int = self.shape[0]
        return length

    def __iter__(self) -> NoReturn:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        raise NotImplementedError(f"iteration over {self}")

    def __repr__(self) -> str:
        return f"E{self._data!r}"

    def block_until_ready(self) -> EArray:
        """Wait for the elements; the array itself."""
        self._data.block_until_ready()
        return self

    def copy(self) -> EArray:
        """An array with a copy of the elements."""
        return EArray(self._aval, self._data.copy())

    def __getattr__(self, name: str) -> Any:
        if name in _OF_THE_DATA:
            return getattr(self._data, name)
        raise AttributeError(f"'EArray' object has no attribute {name!r}")


_OF_THE_DATA = frozenset(
    "committed copy_to_host_async delete device devices is_deleted"
    " is_fully_addressable is_fully_replicated on_device_size_in_bytes sharding"
    " unsafe_buffer_pointer".split()
)

tree_util.register_pytree_node(
    EArray, lambda x: ((x._data,), x._aval), lambda aval, leaves: EArray(aval, *leaves)
)
