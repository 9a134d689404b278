"""What concrete arrays look like: as text, and as HTML in notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.on_demand import late
from curta.core.array import Array
from curta.runtime.laid_out import without_order
from curta.runtime.remote_data import RemoteData

_Any = np.ndarray[Any, Any]
array_html: Any = late("curta.core.array_html")


class ShownArray(Array):
    """The part of `ArrayImpl` that shows the elements, which it reads."""

    __slots__ = ()

    # Of `ArrayImpl`, which has the elements.
    _pending: Any
    _value: Any
    _storage: Any
    _has_terms: Any
    sharding: Any
    is_deleted: Any

    def __repr__(self) -> str:
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            data = self._storage()
            if isinstance(self.aval.dtype, dtypes.KeyDType):
                data = key_words(data)
            return f"Array({self.shape}, dtype={self.dtype.name}) overlaying:\n{data}"
        kind = f"dtype={self.dtype.name}"
        if self.aval.weak_type:
            kind += ", weak_type=True"
        if self._has_terms():
            return f"Array(shape={self.shape}, {kind}, sharding={self.sharding})"
        if not self._is_readable():
            return f"Array(shape={self.shape}, {kind})"
        text = _elements_text(self._value)
        width = len(text) - text.rfind("\n") + len(kind) + 3
        gap = " " * 6 if width > np.get_printoptions()["linewidth"] else " "
        return f"Array({text},{gap}{kind})"

    def __str__(self) -> str:
        if self._is_shown_whole():
            return repr(self)
        return str(self._value)

    def __format__(self, spec: str) -> str:
        if self._is_shown_whole():
            return object.__format__(self, spec)  # TypeError but for an empty one
        return format(self._value if self.aval.shape else self._value[()], spec)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text in IPython, where an error of `repr` would be a long traceback."""
        text = self._gone() if self.is_deleted() else repr(self)
        with printer.group():
            for i, line in enumerate(text.splitlines()):
                if i:
                    printer.break_()
                printer.text(line)

    def _gone(self) -> str:
        return f"Array(deleted, shape={self.shape}, dtype={self.dtype.name})"

    def _repr_html_(self) -> str:
        if self.is_deleted():
            return f"<pre>{escape(self._gone())}</pre>"
        pictured = self.ndim == 2 and not self._is_shown_whole()
        html: str = array_html.array_html(self, self._value if pictured else None)
        return html

    def _is_shown_whole(self) -> bool:
        """Whether `str` is what `repr` is: there are no elements to be shown alone."""
        extended = isinstance(self.aval.dtype, dtypes.ExtendedDType)
        return extended or self._has_terms() or not self._is_readable()

    def _is_readable(self) -> bool:
        """Whether no elements are in other processes alone."""
        buffer = without_order(getattr(self, "_pending", None))
        return not isinstance(buffer, RemoteData) or buffer.is_here


def key_words(data: _Any) -> _Any:
    """The uint32 words of random keys, along a new last dimension."""
    words = np.ascontiguousarray(data).view(np.uint32)
    return words.reshape(*data.shape, data.dtype.itemsize // 4)


def _elements_text(value: _Any) -> str:
    if value.size == 0:
        return f"[], shape={value.shape}"
    width = np.get_printoptions()["linewidth"]
    return np.array2string(
        value, prefix="Array(", suffix=",", separator=", ", max_line_width=width
    )
