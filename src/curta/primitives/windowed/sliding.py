"""Windows that slide over an array: shapes, NumPy views, and compiled indices.

Along each dim the operand is dilated (`base_dilation - 1` holes between elements) and
padded; windows of `dimensions` elements, `window_dilation` apart, start `strides`
apart. An element of a window that falls on a hole or on padding is not there.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.dim import max_dim
from curta.core.shapes import integers

Dims = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


def dilated(size: int, dilation: int) -> int:
    """The extent of `size` elements that lie `dilation` apart."""
    return size if dilation == 1 else max_dim(1 + dilation * (size - 1), 0)


class Sliding(NamedTuple):
    """How windows slide over an array, see the module's text."""

    dimensions: Dims
    strides: Dims
    padding: Padding
    base_dilation: Dims
    window_dilation: Dims

    @classmethod
    def of(cls, op: Any) -> Sliding:
        """How the windows of an op slide that has all five as parameters."""
        return cls(
            op.window_dimensions,
            op.window_strides,
            op.padding,
            op.base_dilation,
            op.window_dilation,
        )

    def out_shape(self, shape: Dims) -> Dims:
        """How many windows there are along each dim of an operand of `shape`."""
        sizes = []
        for d, size in enumerate(shape):
            low, high = self.padding[d]
            extent = dilated(size, self.base_dilation[d]) + low + high
            window = dilated(self.dimensions[d], self.window_dilation[d])
            sizes.append(max_dim((extent - window) // self.strides[d] + 1, 0))
        return tuple(sizes)

    def with_dim(self, dim: int) -> Sliding:
        """The same windows over an operand with one more dim, at position `dim`."""
        ones, zeros = (1,), ((0, 0),)
        fields: Any = (
            (*field[:dim], *new, *field[dim:])
            for field, new in zip(self, (ones, ones, zeros, ones, ones))
        )
        return Sliding(*fields)

    def taps(self) -> Iterator[Dims]:
        """The positions inside a window, in row-major order."""
        return itertools.product(*map(range, self.dimensions))

    # ---- NumPy

    def padded(self, x: Any, fill: Any) -> Any:
        """`x` with `fill` in the holes and on the padding."""
        steps = self.base_dilation
        spread = x
        if any(s != 1 for s in steps):
            shape = [dilated(d, s) for d, s in zip(x.shape, steps, strict=True)]
            spread = np.full(shape, fill, x.dtype)
            spread[tuple(slice(None, None, s) for s in steps)] = x
        cut = tuple(
            slice(max(-low, 0), d - max(-high, 0))
            for (low, high), d in zip(self.padding, spread.shape, strict=True)
        )
        widths = [(max(low, 0), max(high, 0)) for low, high in self.padding]
        spread = spread[cut]
        if not any(map(any, widths)):
            return spread
        return np.pad(spread, widths, constant_values=fill)

    def views(self, x: Any, fill: Any) -> Any:
        """All windows of `x`: an array with the dims of windows, then those within."""
        full = self.padded(x, fill)
        steps = zip(full.strides, self.strides, strict=True)
        within = zip(full.strides, self.window_dilation, strict=True)
        shape = (*self.out_shape(x.shape), *self.dimensions)
        strides = (*(a * s for a, s in steps), *(a * s for a, s in within))
        plain = full  # NumPy has no views by strides of the dtypes of ml_dtypes
        if x.dtype.isbuiltin != 1:
            plain = full.view(np.dtype(f"u{x.dtype.itemsize}"))
        views = np.lib.stride_tricks.as_strided(plain, shape, strides, writeable=False)
        return views.view(x.dtype)

    # ---- compiled

    def source(
        self, b: Any, index: Sequence[Any], tap: Sequence[Any], shape: Dims
    ) -> tuple[tuple[Any, ...], Any]:
        """Where element `tap` of window `index` lies in an operand of `shape`.

        Also gives the condition that it is there; None if it always is.
        """
        source, inside = [], None
        for d, (i, k, size) in enumerate(zip(index, tap, shape, strict=True)):
            at = i * self.strides[d] + (
                k * self.window_dilation[d] - self.padding[d][0]
            )
            step = self.base_dilation[d]
            conditions = [b.within(at, dilated(size, step))]
            if step > 1:
                conditions.append(b.compare("eq", at % step, 0))
                at = at // step
            inside = both(b, inside, *conditions)
            source.append(at)
        return tuple(source), inside


def both(b: Any, *conditions: Any) -> Any:
    """The conjunction of conditions, of which None always holds."""
    holding = [c for c in conditions if c is not None]
    return functools.reduce(b.and_, holding) if holding else None


def check_window_fields(name: str, operand: ShapedArray, window: Sliding) -> None:
    """Raise TypeError unless there is a sensible entry for each dim of the operand."""
    fields = {
        "window_dimensions": window.dimensions,
        "window_strides": window.strides,
        "base_dilation": window.base_dilation,
        "window_dilation": window.window_dilation,
    }
    for field, sizes in fields.items():
        integers(f"{name} {field}", sizes, least=1)
    if operand.ndim != len(window.dimensions):
        raise TypeError(
            f"{name} got the wrong number of window_dimensions for operand: got"
            f" operand shape {operand.shape} with window_dimensions"
            f" {window.dimensions}."
        )
    for field, sizes in list(fields.items())[1:]:
        if len(sizes) != len(window.dimensions):
            raise TypeError(
                f"{name} got inconsistent {field} and window_dimensions: got {field}"
                f" {sizes} and window_dimensions {window.dimensions}."
            )
    if len(window.padding) != len(window.dimensions):
        raise TypeError(
            f"{name} got inconsistent padding and window_dimensions: got padding"
            f" {window.padding} and window_dimensions {window.dimensions}."
        )
