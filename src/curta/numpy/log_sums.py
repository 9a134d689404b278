"""Sums of exponentials in the logarithmic domain."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import lax
from curta.api.custom_derivatives import custom_jvp
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import is_complex
from curta.numpy.promotion import const, promote_args_inexact


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log(exp(x1) + exp(x2)) without overflow.

    Args:
      x1, x2: arrays or scalars that broadcast; integers become floats.

    Returns:
      Floats or complex numbers, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> jnp.logaddexp(1000.0, -jnp.inf)
    Array(1000., dtype=float32, weak_type=True)
    """
    return _logaddexp(*promote_args_inexact("logaddexp", x1, x2))


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log2(2**x1 + 2**x2) without overflow.

    Args:
      x1, x2: arrays or scalars that broadcast; integers become floats.

    Returns:
      Floats or complex numbers, of the broadcast shape and the promoted dtype.

    Raises:
      TypeError: an operand is a list, a string or None; shapes of one rank do not
        broadcast.
      ValueError: shapes of different ranks do not broadcast.
      NotImplementedError: `out` or `where` of NumPy is given.

    >>> from curta import numpy as jnp
    >>> float(jnp.logaddexp2(3.0, 3.0))
    4.0
    """
    return _logaddexp2(*promote_args_inexact("logaddexp2", x1, x2))


def _log_sum(
    x1: Any,
    x2: Any,
    exp: Callable[[Any], Any],
    log: Callable[[Any], Any],
    half_period: float,
) -> Any:
    """max + log(1 + exp(-|x1 - x2|)); `turn` is half a period of complex results."""
    largest = lax.max(x1, x2)
    if is_complex(x1):
        twice = lax.mul(largest, const(largest, 2))
        out = lax.add(largest, log(exp(lax.sub(lax.add(x1, x2), twice))))
        return lax.complex(lax.real(out), _wrapped(lax.imag(out), half_period))
    delta = lax.sub(x1, x2)
    # The difference of infinities of the same sign is NaN: their sum is right.
    same = lax.ne(delta, delta), lax.add(x1, x2)
    return lax.select(*same, lax.add(largest, log(exp(lax.neg(lax.abs(delta))))))


def _wrapped(x: Any, half: float) -> Any:
    """`x` moved by whole periods into [-half, half)."""
    shift, period = const(x, half), const(x, 2 * half)
    wrapped = lax.rem(lax.add(x, shift), period)
    wrapped = lax.rem(lax.add(wrapped, period), period)
    return lax.sub(wrapped, shift)


@custom_jvp
@functools.wraps(logaddexp)
def _logaddexp(x1: Any, x2: Any) -> Any:
    return _log_sum(x1, x2, lax.exp, lax.log1p, np.pi)


@custom_jvp
@functools.wraps(logaddexp2)
def _logaddexp2(x1: Any, x2: Any) -> Any:
    def log(x: Any) -> Any:
        return lax.mul(const(x, 1 / np.log(2)), lax.log1p(x))

    return _log_sum(x1, x2, lax.exp2, log, np.pi / np.log(2))


def _shares(
    function: Callable[[Any, Any], Any],
    exp: Callable[[Any], Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
) -> tuple[Any, Any]:
    """Each operand's derivative is its share of the sum: exp(x - out)."""
    out = function(*primals)
    (x1, x2), (t1, t2) = primals, tangents
    parts = [
        lax.mul(t, exp(lax.sub(_without_inf(x), _without_inf(out))))
        for x, t in ((x1, t1), (x2, t2))
    ]
    return out, lax.add(*parts)


def _without_inf(x: Any) -> Any:
    re = lax.real(x) if is_complex(x) else x
    return lax.select(lax.eq(re, const(re, np.inf)), lax.full_like(x, 0), x)


@_logaddexp.defjvp
def _logaddexp_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    return _shares(_logaddexp, lax.exp, primals, tangents)


@_logaddexp2.defjvp
def _logaddexp2_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    return _shares(_logaddexp2, lax.exp2, primals, tangents)
