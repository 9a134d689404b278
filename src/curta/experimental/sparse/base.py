"""The base of the sparse formats."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from curta.core.array import Array
from curta.core.shapes import canonicalize_shape
from curta.core.trace import Tracer


def _missing(name: str) -> Callable[..., NoReturn]:
    """A method that not every format has."""

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"{type(self)}.{name}: this format has none. BCOO has, see to_bcoo."
        )

    method.__name__ = name
    method.__doc__ = "Raises NotImplementedError: `BCOO` has it, see `to_bcoo`."
    return method


def require_format(name: str, kind: type[JAXSparse], format: str, mat: Any) -> None:
    """Raise TypeError for a matrix that is not of the format of a function."""
    if not isinstance(mat, kind):
        raise TypeError(
            f"{name}: input should be {format} array, got type(mat)={type(mat)}. Make"
            f" one with {format}.fromdense."
        )


class JAXSparse(abc.ABC):
    """A matrix, or array, that stores some of its elements.

    Subclasses are pytrees of their buffers.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> isinstance(sparse.BCOO.fromdense(jnp.eye(2)), sparse.JAXSparse)
    True
    """

    data: Any
    shape: tuple[int, ...]
    # So that NumPy's arrays leave operators to this class.
    __array_priority__ = 100

    def __init__(self, args: tuple[Any, ...], *, shape: Any) -> None:
        self.shape = canonicalize_shape(shape)

    @property
    @abc.abstractmethod
    def nse(self) -> int:
        """How many elements are stored, of each batch."""

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    @abc.abstractmethod
    def todense(self) -> Any:
        """The array with all its elements."""

    def transpose(self, axes: Any = None) -> Any:
        """The array with its dims in another order, by default reversed."""
        raise NotImplementedError(
            f"{type(self).__name__}.transpose: another format has it, see to_bcoo"
        )

    @property
    def T(self) -> Any:
        """The array with its dims reversed."""
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            text = f"{name}({self.dtype.name}{list(self.shape)}, nse={self.nse}"
            text += self._details() + ")"
        except (AttributeError, IndexError):  # made of something else, as by vmap
            text = f"{name}(<invalid>)"
        if isinstance(self.data, Tracer):
            return f"{type(self.data).__name__}[{text}]"
        return text

    # Like arrays, they are compared by their elements.
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    sum: ClassVar[Callable[..., NoReturn]] = _missing("sum")
    __neg__: ClassVar[Callable[..., NoReturn]] = _missing("__neg__")
    __pos__: ClassVar[Callable[..., NoReturn]] = _missing("__pos__")
    __matmul__: ClassVar[Callable[..., NoReturn]] = _missing("__matmul__")
    __rmatmul__: ClassVar[Callable[..., NoReturn]] = _missing("__rmatmul__")
    __mul__: ClassVar[Callable[..., NoReturn]] = _missing("__mul__")
    __rmul__: ClassVar[Callable[..., NoReturn]] = _missing("__rmul__")
    __add__: ClassVar[Callable[..., NoReturn]] = _missing("__add__")
    __radd__: ClassVar[Callable[..., NoReturn]] = _missing("__radd__")
    __sub__: ClassVar[Callable[..., NoReturn]] = _missing("__sub__")
    __rsub__: ClassVar[Callable[..., NoReturn]] = _missing("__rsub__")
    __getitem__: ClassVar[Callable[..., NoReturn]] = _missing("__getitem__")

    def _details(self) -> str:
        return ""

    def block_until_ready(self) -> Any:
        """Wait for the buffers to be computed."""
        for buffer in self._buffers():
            if isinstance(buffer, Array):
                buffer.block_until_ready()
        return self

    @abc.abstractmethod
    def _buffers(self) -> tuple[Any, ...]:
        """The arrays of which this is made."""
