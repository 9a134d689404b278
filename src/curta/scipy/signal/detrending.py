"""Taking trends out of signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.array import Array, ArrayLike
from curta.core.shapes import dim_of
from curta.numpy.promotion import promote_dtypes_inexact

Detrend = str | bool | Callable[[Any], Any]


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: Any = 0,
    overwrite_data: None = None,
) -> Array:
    """The data without their mean, or without the line that fits best.

    Args:
      data: array.
      axis: along which the trend is; the last by default.
      type: "linear" or "constant".
      bp: indices where a new line begins; none by default.
      overwrite_data: not supported.

    Returns:
      An array of the shape of the data and an inexact dtype.

    Raises:
      ValueError: for another type, and for indices outside of the data.
      IndexError: if an axis is out of range.
      TypeError: if an argument is not an array.
      NotImplementedError: if `overwrite_data` is given.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import signal
    >>> signal.detrend(jnp.array([1.0, 2.0, 6.0]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError("overwrite_data argument not implemented.")
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    (data,) = promote_dtypes_inexact(jnp.asarray(data))
    if type == "constant":
        return data - data.mean(axis, keepdims=True)
    axis = dim_of("detrend axis", axis, data.shape)
    n = data.shape[axis]
    breaks = np.unique(np.r_[0, bp, n])
    if breaks.dtype.kind not in "iu":
        raise TypeError(f"detrend takes the break points bp as integers, got {bp}.")
    if breaks[0] < 0 or breaks[-1] > n:
        raise ValueError(
            "Breakpoints must be non-negative and less than length of data along given"
            " axis."
        )
    if n == 0:
        raise ValueError(f"detrend takes at least one element, got {data.shape}.")
    rows = jnp.moveaxis(data, axis, -1)
    parts = [_without_line(rows[..., a:b]) for a, b in zip(breaks, breaks[1:])]
    return jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, axis)


def _without_line(x: Any) -> Any:
    # Against an orthonormal basis of the lines.
    n = x.shape[-1]
    basis = np.stack([np.ones(n), np.arange(n) - (n - 1) / 2])
    basis /= np.maximum(np.linalg.norm(basis, axis=1, keepdims=True), 1e-30)
    lines = jnp.asarray(basis.astype(x.dtype))
    highest = lax.Precision.HIGHEST
    along = jnp.matmul(x, lines.T, precision=highest)
    return x - jnp.matmul(along, lines, precision=highest)


def detrending(kind: Detrend) -> Callable[[Any], Any]:
    if isinstance(kind, str):
        return lambda x: detrend(x, type=kind)
    if callable(kind):
        return kind
    if kind:
        raise ValueError(f"Unsupported detrend type: {kind}")
    return lambda x: x
