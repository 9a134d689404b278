"""`Array`: what array functions take and give, whether its value is known or traced.

The concrete arrays of the runtime and the tracers of the transformations both
derive from it, so that `isinstance(x, curta.Array)` asks for an array of either
kind. It is plain inheritance: no metaclass, no registration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

import numpy as np

from curta._base.pages import page
from curta.core.avals import ShapedArray

if TYPE_CHECKING:  # what numpy/operators attaches, as type checkers see it
    from curta.core.array_interface import ArrayInterface
else:
    ArrayInterface = object

_IMMUTABLE = (
    "Arrays are immutable and do not support in-place item assignment.{}"
    " Instead of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method."
    f" See {page('sharp_bits', 'arrays-are-immutable')}."
)


class Array(ArrayInterface):
    """Base of concrete arrays and tracers: a value with an `aval`.

    Arithmetic and methods are attached to it in numpy/operators.

    >>> import curta.numpy as jnp
    >>> x = jnp.zeros((2, 3))
    >>> x.shape, x.ndim, x.size, x.nbytes
    ((2, 3), 2, 6, 24)
    """

    __slots__ = ()
    # Makes NumPy arrays defer to our reflected operators.
    __array_priority__ = 100
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return int(self.aval.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.aval.size * self.itemsize

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way to others in promotion."""
        return self.aval.weak_type

    def __len__(self) -> int:
        shape = self.aval.shape
        # Of no dims, or a symbolic one, the aval says what is wrong.
        return shape[0] if shape and type(shape[0]) is int else len(self.aval)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(_IMMUTABLE.format(self._immutable_subject()))

    def addressable_data(self, index: int) -> Array:
        """The part of a concrete array on its device of this index.

        Raises ConcretizationTypeError for traced arrays.
        """
        raise NotImplementedError(f"{type(self).__name__} has no data on a device")

    def copy_to_host_async(self) -> None:
        """Start to copy a concrete array to the host; traced arrays have it not."""
        raise NotImplementedError(f"{type(self).__name__} has no data on a device")

    def _immutable_subject(self) -> str:
        return ""


if TYPE_CHECKING:
    _OfNumpy: TypeAlias = np.ndarray[Any, Any] | np.bool_ | np.number[Any]
else:  # without parameters, so that `isinstance` takes it
    _OfNumpy = np.ndarray | np.bool_ | np.number

ArrayLike: TypeAlias = Array | _OfNumpy | bool | int | float | complex
"""What functions accept: arrays, NumPy's arrays and scalars, Python scalars."""

DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any]
"""What names a dtype: "float32", np.float32, jnp.float32, np.dtype("float32")."""

Shape: TypeAlias = Sequence[int]
"""The dimensions of an array, one int each."""
