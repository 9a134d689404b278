"""Cosine transforms, as in `scipy.fft`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta._base.on_demand import Listing, own
from curta.core.array import Array
from curta.core.shapes import canonicalize_shape
from curta.numpy.arguments import canonical_axes, ensure_arraylike
from curta.numpy.promotion import promote_dtypes_inexact

__dir__: Listing = own(__name__)

Axes = int | Sequence[int] | None


def dct(
    x: Array,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
) -> Array:
    """The cosine transform 2 Σ x[j] cos(π k (2j + 1) / 2n) along an axis.

    By a Fourier transform of the elements in another order: J. Makhoul (1980).

    Args:
      x: an array of real or complex numbers; of complex ones both parts are
        transformed.
      type: 2, the only one.
      n: the length, to which `x` is cut or padded with zeros. None (default) leaves it.
      axis: the axis, an int. Default -1.
      norm: "ortho" makes the transform orthogonal; None (default) or "backward" leaves
        it.

    Returns:
      The transform, of the shape of `x` with `n` along the axis, and its dtype; of
      halves, bfloat16 and integers in float32.

    Raises:
      NotImplementedError: if the type is not supported.
      TypeError: if an argument is not an array or lengths are not integers.
      ValueError: if `norm` has another value, an axis is out of bounds, `n` is
          negative, or there are no elements along the axis.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import fft
    >>> fft.dct(jnp.ones(2))
    Array([4., 0.], dtype=float32)
    """
    lengths = None if n is None else (n,)
    return _transform("dct", _dct_along, x, type, lengths, (axis,), norm)


def dctn(
    x: Array,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = None,
) -> Array:
    """`dct` along several axes, all by default, with lengths `s`.

    Args:
      x: an array of real or complex numbers; of complex ones both parts are
        transformed.
      type: 2, the only one.
      s: the lengths along the axes, an int or a sequence, to which `x` is cut or padded
        with zeros. None (default) leaves it.
      axes: the axes, an int or a sequence. None (default): all, or as many of the last
        as `s` has lengths.
      norm: "ortho" makes the transform orthogonal; None (default) or "backward" leaves
        it.

    Returns:
      The transform, of the shape of `x` with `s` along the axes, and its dtype; of
      halves, bfloat16 and integers in float32.

    Raises:
      NotImplementedError: if the type is not supported.
      TypeError: if an argument is not an array or lengths are not integers.
      ValueError: if `norm` has another value, axes are out of bounds or given twice,
          lengths are negative or too many, or there are no elements along an axis.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import fft
    >>> fft.dctn(jnp.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _transform("dctn", _dct_along, x, type, s, axes, norm)


def idct(
    x: Array,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
) -> Array:
    """The inverse of `dct`, with the same arguments.

    Args:
      x: an array of real or complex numbers; of complex ones both parts are
        transformed.
      type: 2, the only one.
      n: the length, to which `x` is cut or padded with zeros. None (default) leaves it.
      axis: the axis, an int. Default -1.
      norm: "ortho" makes the transform orthogonal; None (default) or "backward" leaves
        it.

    Returns:
      The transform, of the shape of `x` with `n` along the axis, and its dtype; of
      halves, bfloat16 and integers in float32.

    Raises:
      NotImplementedError: if the type is not supported.
      TypeError: if an argument is not an array or lengths are not integers.
      ValueError: if `norm` has another value, an axis is out of bounds, `n` is
          negative, or there are no elements along the axis.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import fft
    >>> fft.idct(jnp.array([4.0, 0.0]))
    Array([1., 1.], dtype=float32)
    """
    lengths = None if n is None else (n,)
    return _transform("idct", _idct_along, x, type, lengths, (axis,), norm)


def idctn(
    x: Array,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = None,
) -> Array:
    """`idct` along several axes, all by default, with lengths `s`.

    Args:
      x: an array of real or complex numbers; of complex ones both parts are
        transformed.
      type: 2, the only one.
      s: the lengths along the axes, an int or a sequence, to which `x` is cut or padded
        with zeros. None (default) leaves it.
      axes: the axes, an int or a sequence. None (default): all, or as many of the last
        as `s` has lengths.
      norm: "ortho" makes the transform orthogonal; None (default) or "backward" leaves
        it.

    Returns:
      The transform, of the shape of `x` with `s` along the axes, and its dtype; of
      halves, bfloat16 and integers in float32.

    Raises:
      NotImplementedError: if the type is not supported.
      TypeError: if an argument is not an array or lengths are not integers.
      ValueError: if `norm` has another value, axes are out of bounds or given twice,
          lengths are negative or too many, or there are no elements along an axis.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import fft
    >>> fft.idctn(fft.dctn(jnp.ones((2, 2))))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _transform("idctn", _idct_along, x, type, s, axes, norm)


def _transform(
    name: str,
    along: Callable[[Any, int, bool], Any],
    x: Any,
    type: int,
    s: int | Sequence[int] | None,
    axes: Axes,
    norm: str | None,
) -> Any:
    x = ensure_arraylike(name, x)
    if type != 2:
        raise NotImplementedError("Only DCT type 2 is implemented.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"jax.scipy.fft.{name}: norm={norm!r} is not implemented")
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        parts = [
            _transform(name, along, part, type, s, axes, norm)
            for part in (x.real, x.imag)
        ]
        return lax.complex(*parts)
    (x,) = promote_dtypes_inexact(x)
    x, axes = _resized(lax.convert_element_type(x, _working(x.dtype)), s, axes)
    if any(x.shape[axis] == 0 for axis in axes):
        raise ValueError(
            f"jax.scipy.fft.{name} takes at least one element along the axes {axes},"
            f" got the shape {x.shape}."
        )
    for axis in axes:
        x = along(x, axis, norm == "ortho")
    return x


def _working(dtype: Any) -> Any:
    """The dtype of the real parts of what halves and smaller floats transform into."""
    return dtypes.to_floating_dtype(dtypes.to_complex_dtype(dtype))


def _resized(x: Any, s: Any, axes: Axes) -> tuple[Any, tuple[int, ...]]:
    """`x` with the lengths `s` along the axes, and these."""
    if s is None:
        return x, canonical_axes(axes, x.ndim)
    lengths = canonicalize_shape(s)
    if len(lengths) > max(x.ndim, 1):
        raise ValueError(
            f"s must have at most x.ndim ({x.ndim}) elements, got {len(lengths)}"
        )
    last = tuple(range(x.ndim - len(lengths), x.ndim))
    axes = canonical_axes(last if axes is None else axes, x.ndim)
    edges = [(0, 0, 0)] * x.ndim
    for axis, length in zip(axes, lengths):
        edges[axis] = (0, length - x.shape[axis], 0)
    return lax.pad(x, np.zeros((), x.dtype), edges), axes


def _along(values: Any, axis: int, ndim: int) -> Any:
    """A vector as an array that varies along one axis."""
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


def _phases(x: Any, axis: int, sign: int) -> Any:
    """exp(± i π k / 2n) along the axis."""
    n = x.shape[axis]
    phases = np.exp(sign * 0.5j * np.pi * np.arange(n) / n)
    return _along(phases.astype(dtypes.to_complex_dtype(x.dtype)), axis, x.ndim)


def _scale(x: Any, axis: int) -> Any:
    """The lengths of the rows of the transform, divided by which it is orthogonal."""
    n = x.shape[axis]
    lengths = np.full(n, math.sqrt(2 * n))
    lengths[:1] = math.sqrt(4 * n)
    return _along(lengths.astype(x.dtype), axis, x.ndim)


def _order(n: int) -> Any:
    """The even positions up, then the odd ones down."""
    return np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]])


def _dct_along(x: Any, axis: int, ortho: bool) -> Any:
    order = _order(x.shape[axis])
    spectrum = jnp.fft.fft(jnp.take(x, order, axis=axis), axis=axis)
    out = 2 * (spectrum * _phases(x, axis, -1)).real
    return out / _scale(x, axis) if ortho else out


def _idct_along(x: Any, axis: int, ortho: bool) -> Any:
    n = x.shape[axis]
    x = x * _scale(x, axis) if ortho else x
    # The spectrum of a real line, of which x is the real part of the first half.
    mirrored = jnp.roll(jnp.flip(x, axis), 1, axis)
    mirrored = mirrored * _along((np.arange(n) > 0).astype(x.dtype), axis, x.ndim)
    spectrum = lax.complex(x, -mirrored) * _phases(x, axis, 1) / 2
    line = jnp.fft.ifft(spectrum, axis=axis).real
    return jnp.take(line, np.argsort(_order(n)), axis=axis)
