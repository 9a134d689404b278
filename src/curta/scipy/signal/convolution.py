"""Convolution and correlation in any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import canonical_axes, check_arraylike
from curta.numpy.promotion import promote_dtypes_inexact

_MODES = ("full", "same", "valid")


def fftconvolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    axes: int | Sequence[int] | None = None,
) -> Array:
    """The convolution of two arrays of one rank, by Fourier transforms.

    Args:
      in1, in2: the arrays.
      mode: "full", "same" (the middle, of the shape of in1), or "valid" (where they
        overlap entirely).
      axes: those to convolve over, all by default; along the others both have one
        shape.

    Returns:
      An array of an inexact dtype.

    Raises:
      ValueError: if the mode is unknown or shapes do not match, or axes are not t
          there.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> signal.fftconvolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).round(3)
    Array([1., 3., 2.], dtype=float32)
    """
    check_arraylike("fftconvolve", in1, in2)
    in1, in2 = (jnp.asarray(x) for x in promote_dtypes_inexact(in1, in2))
    if in1.ndim != in2.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    _check_mode(mode)
    if np.iterable(axes):
        axes = tuple(axes)
    over = canonical_axes(axes, in1.ndim)
    if any(in1.shape[i] != in2.shape[i] for i in range(in1.ndim) if i not in over):
        raise ValueError(
            f"mapped axes must have same shape; got in1.shape={in1.shape!r}"
            f" in2.shape={in2.shape!r} axes={axes!r}"
        )
    if not over:
        return in1 * in2
    sizes = [(in1.shape[i], in2.shape[i]) for i in over]
    if mode == "valid":
        if not (all(a >= b for a, b in sizes) or all(a <= b for a, b in sizes)):
            raise ValueError(
                "For 'valid' mode, One input must be at least as large as the other in"
                " every dimension."
            )
        sizes = [(max(pair), min(pair)) for pair in sizes]
    full = [a + b - 1 for a, b in sizes]
    if jnp.iscomplexobj(in1):
        forward, back = jnp.fft.fftn, jnp.fft.ifftn
    else:
        forward, back = jnp.fft.rfftn, jnp.fft.irfftn
    product = forward(in1, full, over) * forward(in2, full, over)
    return _middle(back(product, full, over), over, full, sizes, mode)


def _middle(
    x: Any, over: Sequence[int], full: Sequence[int], sizes: Any, mode: str
) -> Any:
    starts, ends = [0] * x.ndim, list(x.shape)
    for axis, whole, (a, b) in zip(over, full, sizes):
        size = {"full": whole, "same": a, "valid": a - b + 1}[mode]
        starts[axis] = (whole - size) // 2
        ends[axis] = starts[axis] + size
    return lax.slice(x, starts, ends)


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")


def _direct(in1: Any, in2: Any, mode: str, precision: Any) -> Any:
    """The convolution by its definition."""
    _check_mode(mode)
    check_arraylike("convolve", in1, in2)
    in1, in2 = (jnp.asarray(x) for x in promote_dtypes_inexact(in1, in2))
    if in1.ndim != in2.ndim:
        raise ValueError("in1 and in2 must have the same number of dimensions")
    if in1.size == 0 or in2.size == 0:
        raise ValueError(
            "zero-size arrays not supported in convolutions, got shapes"
            f" {in1.shape} and {in2.shape}."
        )
    smaller = all(a >= b for a, b in zip(in1.shape, in2.shape))
    greater = all(a <= b for a, b in zip(in1.shape, in2.shape))
    if not (smaller or greater):
        raise ValueError("One input must be smaller than the other in every dimension.")
    wanted = in2.shape
    if greater:
        in1, in2 = in2, in1
    kernel = in2.shape
    # "same" keeps the shape of the first operand, whichever is the kernel.
    edges = {
        "valid": [(0, 0) for _ in kernel],
        "full": [(k - 1, k - 1) for k in kernel],
        "same": [
            (k - 1 - (w - 1) // 2, k - w + (w - 1) // 2) for k, w in zip(kernel, wanted)
        ],
    }[mode]
    flipped = jnp.flip(in2)
    out = lax.conv_general_dilated(
        in1[None, None],
        flipped[None, None],
        (1,) * in1.ndim,
        edges,
        precision=precision,
    )
    return out[0, 0]


def convolve(
    in1: Array,
    in2: Array,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """The convolution of two arrays of one rank.

    Args:
      in1, in2: two arrays; one of them is at most as large as the other in every dim.
      mode: "full", "same" (of the shape of in1) or "valid".
      method: "direct" or "auto" by the definition, "fft" by Fourier transforms.
      precision: of the products, see `lax.Precision`.

    Returns:
      An array of an inexact dtype.

    Raises:
      ValueError: for other modes, methods, precisions and shapes.
      TypeError: if an argument is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> signal.convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
    Array([1., 3., 2.], dtype=float32)
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode=mode)
    if method not in ("direct", "auto"):
        raise ValueError(f"Got method={method!r}; expected 'auto', 'fft', or 'direct'.")
    return _direct(in1, in2, mode, precision)


def correlate(
    in1: Array,
    in2: Array,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """The correlation of two arrays of one rank.

    The convolution of in1 with in2 reversed, and conjugated.

    Args:
      in1, in2, mode, method, precision: as for `convolve`.

    Returns:
      An array of an inexact dtype.

    Raises:
      ValueError, TypeError: where `convolve` does.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> signal.correlate(jnp.array([1.0, 2.0]), jnp.array([1.0, 0.0]))
    Array([0., 1., 2.], dtype=float32)
    """
    check_arraylike("correlate", in1, in2)
    flipped = jnp.flip(jnp.conj(jnp.asarray(in2)))
    return convolve(in1, flipped, mode, method, precision)


def _check_two_dimensions(
    name: str, in1: Any, in2: Any, boundary: str, fillvalue: Any
) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(
            f"{name}() only supports boundary='fill', fillvalue=0"
        )
    if np.ndim(in1) != 2 or np.ndim(in2) != 2:
        raise ValueError(f"{name}() only supports 2-dimensional inputs.")


def convolve2d(
    in1: Array,
    in2: Array,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The convolution of two matrices, with zeros outside.

    Args:
      in1, in2: two matrices; one of them is at most as large as the other in every dim.
      mode, precision: as for `convolve`.
      boundary, fillvalue: what is outside; only "fill" and 0 are supported.

    Returns:
      A matrix of an inexact dtype.

    Raises:
      NotImplementedError: for another boundary or value.
      ValueError: if the rank differs, or the mode is unknown or shapes do not match.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> signal.convolve2d(jnp.ones((2, 2)), jnp.ones((1, 2)))
    Array([[1., 2., 1.],
           [1., 2., 1.]], dtype=float32)
    """
    _check_two_dimensions("convolve2d", in1, in2, boundary, fillvalue)
    return _direct(in1, in2, mode, precision)


def correlate2d(
    in1: Array,
    in2: Array,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The correlation of two matrices, with zeros outside.

    Args:
      in1, in2, mode, boundary, fillvalue, precision: as for `convolve2d`.

    Returns:
      A matrix of an inexact dtype.

    Raises:
      NotImplementedError, ValueError: where `convolve2d` does.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> signal.correlate2d(jnp.ones((2, 2)), jnp.ones((1, 2)))
    Array([[1., 2., 1.],
           [1., 2., 1.]], dtype=float32)
    """
    _check_two_dimensions("correlate2d", in1, in2, boundary, fillvalue)
    in1, in2 = jnp.asarray(in1), jnp.asarray(in2)
    if mode == "same":
        # The middle is rounded to the other side than that of a convolution.
        return jnp.flip(_direct(jnp.flip(in1), jnp.conj(in2), mode, precision))
    smaller = all(a <= b for a, b in zip(in1.shape, in2.shape))
    if mode == "valid" and smaller and in1.shape != in2.shape:
        # SciPy exchanges them, and takes the conjugate of the other one.
        return _direct(jnp.flip(in2), jnp.conj(in1), mode, precision)
    return _direct(in1, jnp.flip(jnp.conj(in2)), mode, precision)
