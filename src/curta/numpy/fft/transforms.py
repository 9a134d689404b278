"""Fourier transforms over any axes, of one, two or more dims."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from curta.core.array import Array, ArrayLike
from curta.lax.fft import fft as transform
from curta.numpy.arguments import ensure_arraylike
from curta.numpy.complex_numbers import conj
from curta.numpy.constructors import asarray
from curta.numpy.creation import zeros
from curta.numpy.padding import pad
from curta.numpy.shapes import moveaxis
from curta.primitives.fft import FftType

Shape = Sequence[int] | None


def fftn(
    a: ArrayLike,
    s: Shape | None = None,
    axes: Shape | None = None,
    norm: str | None = None,
) -> Array:
    """The Fourier transform over several axes, all by default: `fft` along each.

    Args:
      a: an array; half floats and integers become float32.
      s: the lengths along the axes, to which `a` is cut or padded with zeros. None
        (default) is those of `a`.
      axes: distinct ints, the axes to transform. None (default) is all axes, or the
        last len(s).
      norm: "backward" (None, the default) divides inverse transforms by the number of
        elements, "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with `s` along `axes`.

    Raises:
      TypeError: `a` is a list, a string or None; `s` or `axes` is not of integers.
      ValueError: a length is not positive, `s` and `axes` differ in length, an axis is
        out of bounds or occurs twice, or `norm` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.fft.fftn(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transformed("fftn", FftType.FFT, a, s, axes, norm)


def ifftn(
    a: ArrayLike,
    s: Shape | None = None,
    axes: Shape | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `fftn`.

    Args:
      a: an array; half floats and integers become float32.
      s: the lengths along the axes, to which `a` is cut or padded with zeros. None
        (default) is those of `a`.
      axes: distinct ints, the axes to transform. None (default) is all axes, or the
        last len(s).
      norm: "backward" (None, the default) divides inverse transforms by the number of
        elements, "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with `s` along `axes`.

    Raises:
      TypeError: `a` is a list, a string or None; `s` or `axes` is not of integers.
      ValueError: a length is not positive, `s` and `axes` differ in length, an axis is
        out of bounds or occurs twice, or `norm` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.fft.ifftn(jnp.ones((2, 2))).real
    Array([[1., 0.],
           [0., 0.]], dtype=float32)
    """
    return _transformed("ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(
    a: ArrayLike,
    s: Shape | None = None,
    axes: Shape | None = None,
    norm: str | None = None,
) -> Array:
    """`fftn` of real numbers: of the last axis only the frequencies from 0 up.

    Args:
      a: an array of real numbers, of any shape.
      s: the lengths along the axes, to which `a` is cut or padded with zeros. None
        (default) is those of `a`.
      axes: distinct ints, the axes to transform. None (default) is all axes, or the
        last len(s).
      norm: "backward" (None, the default) divides inverse transforms by the number of
        elements, "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with `s` along `axes`, the last of them s[-1] // 2
      + 1.

    Raises:
      TypeError: `a` is a list, a string or None; `s` or `axes` is not of integers.
      ValueError: a length is not positive, `s` and `axes` differ in length, an axis is
        out of bounds or occurs twice, or `norm` is unknown; `a` is complex.

    >>> from curta import numpy as jnp
    >>> jnp.fft.rfftn(jnp.ones((2, 3))).shape
    (2, 2)
    """
    return _transformed("rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(
    a: ArrayLike,
    s: Shape | None = None,
    axes: Shape | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `rfftn`; the last axis has an even length unless `s` says so.

    Args:
      a: an array, along the last axis the frequencies from 0 up.
      s: the lengths of the result along the axes. None (default) is those of `a`, along
        the last axis 2 (m - 1) for m frequencies.
      axes: distinct ints, the axes to transform. None (default) is all axes, or the
        last len(s).
      norm: "backward" (None, the default) divides inverse transforms by the number of
        elements, "forward" the others, "ortho" both by its square root.

    Returns:
      Real numbers, of `a`'s shape with `s` along `axes`.

    Raises:
      TypeError: `a` is a list, a string or None; `s` or `axes` is not of integers.
      ValueError: a length is not positive, `s` and `axes` differ in length, an axis is
        out of bounds or occurs twice, or `norm` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.fft.irfftn(jnp.fft.rfftn(jnp.ones((2, 3))), (2, 3)).shape
    (2, 3)
    """
    return _transformed("irfftn", FftType.IRFFT, a, s, axes, norm)


def fft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The Fourier transform along one axis.

    X[k] = sum of a[j]·exp(-2πi jk/n) over j, times what `norm` says.

    Args:
      a: an array of one dim or more; half floats and integers become float32.
      n: the length along the axis, to which `a` is cut or padded with zeros, a static
        int. None (default) uses the length of `a`.
      axis: int, the axis to transform. Default -1, the last.
      norm: "backward" (None, the default) divides inverse transforms by the length,
        "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with `n` along `axis`.

    Raises:
      TypeError: `a` is a list, a string or None; `n` or `axis` is not an integer.
      ValueError: `n` is not positive, `axis` is several, or `norm` is unknown; `axis`
        is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.fft.fft(jnp.arange(4.))
    Array([ 6.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return _along_axis("fft", FftType.FFT, a, n, axis, norm)


def ifft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `fft`.

    x[j] = sum of a[k]·exp(2πi jk/n) over k, times what `norm` says.

    Args:
      a: an array of one dim or more; half floats and integers become float32.
      n: the length along the axis, to which `a` is cut or padded with zeros, a static
        int. None (default) uses the length of `a`.
      axis: int, the axis to transform. Default -1, the last.
      norm: "backward" (None, the default) divides inverse transforms by the length,
        "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with `n` along `axis`.

    Raises:
      TypeError: `a` is a list, a string or None; `n` or `axis` is not an integer.
      ValueError: `n` is not positive, `axis` is several, or `norm` is unknown; `axis`
        is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.fft.ifft(jnp.array([6, -2 + 2j, -2, -2 - 2j])).real
    Array([0., 1., 2., 3.], dtype=float32)
    """
    return _along_axis("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """`fft` of real numbers: only the frequencies from 0 up.

    Args:
      a: an array of real numbers, of one dim or more; half floats and integers become
        float32.
      n: the length along the axis, to which `a` is cut or padded with zeros, a static
        int. None (default) uses the length of `a`.
      axis: int, the axis to transform. Default -1, the last.
      norm: "backward" (None, the default) divides inverse transforms by the length,
        "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with n // 2 + 1 along `axis`.

    Raises:
      TypeError: `a` is a list, a string or None; `n` or `axis` is not an integer.
      ValueError: `n` is not positive, `axis` is several, or `norm` is unknown; `axis`
        is out of bounds; `a` is complex.

    >>> from curta import numpy as jnp
    >>> jnp.fft.rfft(jnp.arange(4.))
    Array([ 6.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _along_axis("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `rfft`, of even length unless `n` says so.

    Args:
      a: an array of one dim or more, the frequencies from 0 up; the others are their
        conjugates.
      n: the length of the result along `axis`, not the number of frequencies, which are
        cut or padded to n // 2 + 1. None (default) is 2 (m - 1) for m frequencies.
      axis: int, the axis to transform. Default -1, the last.
      norm: "backward" (None, the default) divides inverse transforms by the length,
        "forward" the others, "ortho" both by its square root.

    Returns:
      Real numbers, of `a`'s shape with `n` along `axis`.

    Raises:
      TypeError: `a` is a list, a string or None; `n` or `axis` is not an integer.
      ValueError: `n` is not positive, `axis` is several, or `norm` is unknown; `axis`
        is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.fft.irfft(jnp.array([6, -2 + 2j, -2]))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    return _along_axis("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """`fft` of numbers whose second half is the conjugate of the first: a real result.

    Args:
      a: an array of one dim or more: the first half of numbers whose second half is its
        conjugate.
      n: the length of the result along `axis`; `a` is cut or padded to n // 2 + 1. None
        (default) is 2 (m - 1) for m elements.
      axis: int, the axis to transform. Default -1, the last.
      norm: "backward" (None, the default) divides inverse transforms by the length,
        "forward" the others, "ortho" both by its square root.

    Returns:
      Real numbers, of `a`'s shape with `n` along `axis`.

    Raises:
      TypeError: `a` is a list, a string or None; `n` or `axis` is not an integer.
      ValueError: `n` is not positive, `axis` is several, or `norm` is unknown.
      IndexError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.fft.hfft(jnp.array([1., 2., 1.]))
    Array([ 6.,  0., -2.,  0.], dtype=float32)
    """
    a = ensure_arraylike("jax.numpy.fft.hfft", a)
    _check_axis("hfft", axis)
    length = 2 * (a.shape[axis] - 1) if n is None else n
    return _along_axis("hfft", FftType.IRFFT, conj(a), n, axis, norm) * length


def ihfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `hfft`.

    Args:
      a: an array of real numbers, or a list of them, of one dim or more.
      n: the length along the axis, to which `a` is cut or padded with zeros, a static
        int. None (default) uses the length of `a`.
      axis: int, the axis to transform. Default -1, the last.
      norm: "backward" (None, the default) divides inverse transforms by the length,
        "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with n // 2 + 1 along `axis`.

    Raises:
      TypeError: `a` holds strings; `n` or `axis` is not an integer.
      ValueError: `a` is complex or None, `n` is not positive, or `norm` is unknown.
      IndexError: `axis` is out of bounds.

    >>> from curta import numpy as jnp
    >>> jnp.fft.ihfft(jnp.array([6., 0., -2., 0.])).real
    Array([1., 2., 1.], dtype=float32)
    """
    a = asarray(a)
    _check_axis("ihfft", axis)
    length = a.shape[axis] if n is None else operator.index(n)
    result = _along_axis("ihfft", FftType.RFFT, a, n, axis, norm)
    return conj(result) * (1 / max(length, 1))


def fft2(
    a: ArrayLike,
    s: Shape | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """The Fourier transform over two axes: `fft` along the one, then along the other.

    Args:
      a: an array of two dims or more; half floats and integers become float32.
      s: two lengths along the axes, to which `a` is cut or padded with zeros. None
        (default) is those of `a`.
      axes: two distinct ints, the axes to transform. Default (-2, -1), the last two.
      norm: "backward" (None, the default) divides inverse transforms by the number of
        elements, "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with `s` along `axes`.

    Raises:
      TypeError: `a` is a list, a string or None; `s` or `axes` is not of integers.
      ValueError: a length is not positive, `s` and `axes` differ in length, an axis is
        out of bounds or occurs twice, or `norm` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.fft.fft2(jnp.ones((3, 2, 2))).real[0]
    Array([[4., 0.],
           [0., 0.]], dtype=float32)
    """
    return _of_two_axes("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(
    a: ArrayLike,
    s: Shape | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """The inverse of `fft2`.

    Args:
      a: an array of two dims or more; half floats and integers become float32.
      s: two lengths along the axes, to which `a` is cut or padded with zeros. None
        (default) is those of `a`.
      axes: two distinct ints, the axes to transform. Default (-2, -1), the last two.
      norm: "backward" (None, the default) divides inverse transforms by the number of
        elements, "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with `s` along `axes`.

    Raises:
      TypeError: `a` is a list, a string or None; `s` or `axes` is not of integers.
      ValueError: a length is not positive, `s` and `axes` differ in length, an axis is
        out of bounds or occurs twice, or `norm` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.fft.ifft2(jnp.ones((2, 2))).real
    Array([[1., 0.],
           [0., 0.]], dtype=float32)
    """
    return _of_two_axes("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(
    a: ArrayLike,
    s: Shape | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`fft2` of real numbers: of the last axis only the frequencies from 0 up.

    Args:
      a: an array of real numbers, of two dims or more.
      s: two lengths along the axes, to which `a` is cut or padded with zeros. None
        (default) is those of `a`.
      axes: two distinct ints, the axes to transform. Default (-2, -1), the last two.
      norm: "backward" (None, the default) divides inverse transforms by the number of
        elements, "forward" the others, "ortho" both by its square root.

    Returns:
      Complex numbers, of `a`'s shape with `s` along `axes`, the last of them s[-1] // 2
      + 1.

    Raises:
      TypeError: `a` is a list, a string or None; `s` or `axes` is not of integers.
      ValueError: a length is not positive, `s` and `axes` differ in length, an axis is
        out of bounds or occurs twice, or `norm` is unknown; `a` is complex.

    >>> from curta import numpy as jnp
    >>> jnp.fft.rfft2(jnp.ones((4, 4))).shape
    (4, 3)
    """
    return _of_two_axes("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(
    a: ArrayLike,
    s: Shape | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """The inverse of `rfft2`.

    Args:
      a: an array of two dims or more, along the last axis the frequencies from 0 up.
      s: the lengths of the result along the axes. None (default) is those of `a`, along
        the last axis 2 (m - 1) for m frequencies.
      axes: two distinct ints, the axes to transform. Default (-2, -1), the last two.
      norm: "backward" (None, the default) divides inverse transforms by the number of
        elements, "forward" the others, "ortho" both by its square root.

    Returns:
      Real numbers, of `a`'s shape with `s` along `axes`.

    Raises:
      TypeError: `a` is a list, a string or None; `s` or `axes` is not of integers.
      ValueError: a length is not positive, `s` and `axes` differ in length, an axis is
        out of bounds or occurs twice, or `norm` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.fft.irfft2(jnp.fft.rfft2(jnp.ones((2, 2))))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _of_two_axes("irfft2", FftType.IRFFT, a, s, axes, norm)


def _check_axis(name: str, axis: Any) -> None:
    if isinstance(axis, (list, tuple)):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use"
            f" jax.numpy.fft.{name}n. Got axis = {axis!r}."
        )


def _along_axis(
    name: str, kind: FftType, a: Any, n: int | None, axis: Any, norm: str | None
) -> Any:
    _check_axis(name, axis)
    axes = None if axis is None else [axis]
    return _transformed(name, kind, a, None if n is None else [n], axes, norm)


def _of_two_axes(
    name: str, kind: FftType, a: Any, s: Shape, axes: Sequence[int], norm: str | None
) -> Any:
    if len(axes) != 2:
        raise ValueError(
            f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes!r}."
        )
    return _transformed(name, kind, a, s, axes, norm)


def _transformed(
    name: str, kind: FftType, a: Any, s: Shape, axes: Shape, norm: str | None
) -> Any:
    x = ensure_arraylike(f"jax.numpy.fft.{name}", a)
    if s is not None:
        s = tuple(map(operator.index, s))
        if any(n <= 0 for n in s):
            raise ValueError("Shape should be positive.")
        if axes is not None and len(s) != len(axes):
            raise ValueError("Shape and axes have different lengths.")
    if axes is not None and len(axes) != len(set(axes)):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support repeated axes. Got axes {axes}."
        )
    given = axes if axes is not None else s
    rank = x.ndim if given is None else len(given)
    if axes is None and s is not None and rank > x.ndim:
        raise ValueError(
            f"FFT input shape {x.shape} must have at least as many input dimensions as"
            f" fft_lengths {tuple(s)}."
        )
    last = tuple(range(x.ndim - rank, x.ndim))
    if axes is not None:
        x = moveaxis(x, tuple(axes), last)
    if s is None:
        s = x.shape[x.ndim - rank :]
        if kind is FftType.IRFFT and s:
            s = (*s[:-1], max(0, 2 * (s[-1] - 1)))
    else:
        x = _resized(x, s, kind)
    if kind is FftType.IRFFT and 0 in s[-1:]:
        out = zeros((*x.shape[: x.ndim - rank], *s), x.real.dtype)
    else:
        out = transform(x, kind, tuple(s))
    if norm is not None:
        out = out * _factor(s, name, norm)
    return out if axes is None else moveaxis(out, last, tuple(axes))


def _resized(x: Any, s: Sequence[int], kind: FftType) -> Any:
    """`x` cut, or padded with zeros, to what a transform of lengths `s` takes."""
    sizes = [*x.shape[: x.ndim - len(s)], *s]
    if kind is FftType.IRFFT:
        sizes[-1] = sizes[-1] // 2 + 1
    x = x[tuple(slice(n) for n in sizes)]
    return pad(x, [(0, n - m) for n, m in zip(sizes, x.shape, strict=True)])


def _factor(s: Sequence[int], name: str, norm: str) -> float:
    # Nothing is transformed where a length is 0.
    count, inverse = float(max(math.prod(s), 1)), name.startswith("i")
    if norm == "backward":
        return 1.0
    if norm == "ortho":
        return math.sqrt(count) if inverse else 1 / math.sqrt(count)
    if norm == "forward":
        return count if inverse else 1 / count
    raise ValueError(
        f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".'
    )
