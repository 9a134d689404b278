"""Abstract values: what is known of an array while a function is traced.

Avals are interned: two equal avals are one object, so that comparing signatures
on the dispatch path is comparing pointers.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from curta import dtypes


class ShapedArray:
    """The type of an array: `shape`, `dtype` and `weak_type`.

    A weakly typed value comes from Python scalars alone and gives way to the
    dtype of whatever it meets.

    >>> ShapedArray((3, 4), np.dtype("float32"))
    ShapedArray(float32[3,4])
    """

    __slots__ = ("dtype", "shape", "size", "weak_type")

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    size: int  # the number of elements

    def __new__(
        cls, shape: tuple[int, ...], dtype: Any, weak_type: bool = False
    ) -> ShapedArray:
        key = (shape, dtype, weak_type)
        found = _interned.get(key)
        if found is not None:
            return found
        return _intern(tuple(int(d) for d in shape), dtype, bool(weak_type))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def update(self, **changes: Any) -> ShapedArray:
        """This aval with some of its three fields replaced."""
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type}
        return ShapedArray(**{**fields, **changes})

    def strip_weak_type(self) -> ShapedArray:
        """This aval, strongly typed."""
        return ShapedArray(self.shape, self.dtype) if self.weak_type else self

    def to_tangent_aval(self) -> ShapedArray:
        """The aval of a tangent: the same for inexact dtypes, float0 otherwise."""
        return ShapedArray(self.shape, tangent_dtype(self.dtype), self.weak_type)

    to_cotangent_aval = to_tangent_aval

    def str_short(self, short_dtypes: bool = False) -> str:
        """`float32[3,4]`, or `f32[3,4]` with `short_dtypes`."""
        name = dtypes.short_name(self.dtype) if short_dtypes else dtype_name(self.dtype)
        return f"{name}[{','.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return ("~" if self.weak_type else "") + self.str_short()

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapedArray, (self.shape, self.dtype, self.weak_type)

    def __copy__(self) -> ShapedArray:
        return self

    def __deepcopy__(self, memo: Any) -> ShapedArray:
        return self


_interned: Final[dict[tuple[Any, ...], ShapedArray]] = {}


def _intern(shape: tuple[int, ...], dtype: Any, weak_type: bool) -> ShapedArray:
    if not isinstance(dtype, (np.dtype, dtypes.ExtendedDType)):
        dtype = np.dtype(dtype)
    if isinstance(dtype, np.dtype) and dtype.fields is None:
        # The one dtype object of its kind, in the byte order of the machine.
        dtype = np.dtype(dtype.type)
    fresh = object.__new__(ShapedArray)
    fresh.shape, fresh.dtype, fresh.weak_type = shape, dtype, weak_type
    fresh.size = math.prod(shape)
    return _interned.setdefault((shape, dtype, weak_type), fresh)


def dtype_name(dtype: Any) -> str:
    """The dtype's own name: `float32`, `key<fry>`; `float0` for the tangent of ints."""
    return "float0" if dtype == dtypes.float0 else dtype.name


def tangent_dtype(dtype: Any) -> Any:
    """The dtype of tangents of `dtype`: itself if inexact, else `float0`."""
    return dtype if dtypes.issubdtype(dtype, np.inexact) else dtypes.float0


def scalar_aval(x: Any) -> ShapedArray:
    """The aval of a Python scalar: rank 0 and weakly typed."""
    return _PYTHON_SCALARS[type(x)](x)


def _python_scalar(kind: type) -> Any:
    def aval(x: Any) -> ShapedArray:
        return ShapedArray((), dtypes.python_scalar_dtype(x, kind), kind is not bool)

    return aval


_PYTHON_SCALARS: Final[dict[type, Any]] = {
    kind: _python_scalar(kind) for kind in (bool, int, float, complex)
}


def is_python_scalar(x: Any) -> bool:
    """Whether x is exactly a Python bool, int, float or complex."""
    return type(x) in _PYTHON_SCALARS
