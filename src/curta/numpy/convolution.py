"""Convolution and correlation of vectors."""

from __future__ import annotations

from typing import Any

from curta import lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import ensure_arraylikes, is_complex
from curta.numpy.promotion import promote_dtypes, promote_dtypes_inexact

_STATIC = ("mode", "precision", "preferred_element_type")


@inner_jit(static_argnames=_STATIC)
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sums of a[i]·v[k - i] for every k where the two overlap.

    Args:
      a, v: vectors of one element or more; integers become floats.
      mode: "full" (default) gives all a.size + v.size - 1 sums, "same" as many as the
        longer vector has elements, "valid" those where the shorter one lies inside.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.

    Returns:
      A vector of the sums, in floats or complex numbers.

    Raises:
      TypeError: `a` or `v` is a list, a string or None; `preferred_element_type` is
        unknown or not of floats.
      ValueError: `a` or `v` is empty or no vector; `mode` or `precision` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 10.0]))
    Array([ 1., 12., 23., 30.], dtype=float32)
    """
    a, v = _operands("convolve", a, v, preferred_element_type)
    if a.shape[0] < v.shape[0]:
        a, v = v, a
    v = lax.rev(v, (0,))
    return _slide(a, v, mode, precision, preferred_element_type)


@inner_jit(static_argnames=_STATIC)
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sums of a[i + k] times the conjugate of v[i] for every shift k.

    Args:
      a, v: vectors of one element or more; integers become floats.
      mode: "full" gives all a.size + v.size - 1 sums, "same" as many as the longer
        vector has elements, "valid" (default) those where the shorter one lies inside.
      precision: how exactly products of floats are formed: None (default), "default",
        "high", "highest" or a `lax.Precision`.
      preferred_element_type: dtype of the sums and of the result. None (default) is the
        promoted dtype.

    Returns:
      A vector of the sums, in floats or complex numbers.

    Raises:
      TypeError: `a` or `v` is a list, a string or None; `preferred_element_type` is
        unknown or not of floats.
      ValueError: `a` or `v` is empty or no vector; `mode` or `precision` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 10.0]))
    Array([21., 32.], dtype=float32)
    """
    a, v = _operands("correlate", a, v, preferred_element_type)
    v = lax.conj(v) if is_complex(v) else v
    if a.shape[0] >= v.shape[0]:
        return _slide(a, v, mode, precision, preferred_element_type)
    return lax.rev(_slide(v, a, mode, precision, preferred_element_type), (0,))


def _operands(name: str, a: Any, v: Any, dtype: Any) -> list[Array]:
    a, v = ensure_arraylikes(name, a, v)
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    if not (a.shape[0] and v.shape[0]):
        raise ValueError(
            f"{name}: inputs cannot be empty, got shapes {a.shape} and {v.shape}."
        )
    return promote_dtypes_inexact(a, v) if dtype is None else promote_dtypes(a, v)


def _slide(x: Any, window: Any, mode: str, precision: Any, dtype: Any) -> Any:
    """The inner products of `window` with every part of `x` of its size."""
    width = window.shape[0]
    borders = {
        "valid": (0, 0),
        "same": (width // 2, width - width // 2 - 1),
        "full": (width - 1, width - 1),
    }
    if mode not in borders:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    result = lax.conv_general_dilated(
        lax.expand_dims(x, (0, 1)),
        lax.expand_dims(window, (0, 1)),
        (1,),
        [borders[mode]],
        precision=precision,
        preferred_element_type=dtype,
    )
    return lax.squeeze(result, (0, 1))
