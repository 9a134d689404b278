"""Error, gamma, beta, zeta and Bessel functions.

They take floats; TypeError otherwise. `accuracy` is as in exponential.py.
"""

from __future__ import annotations

from typing import Any

from curta.core.array import Array, ArrayLike
from curta.lax.exponential import Accuracy, accurate
from curta.primitives import elementwise as ops


def erf(x: ArrayLike) -> Array:
    """The error function.

    >>> from curta import lax
    >>> lax.erf(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.erf(x)


def erfc(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """1 - erf(x), without cancellation for large x.

    >>> from curta import lax
    >>> lax.erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return accurate(ops.erfc, accuracy)(x)


def erf_inv(x: ArrayLike) -> Array:
    """The inverse of the error function; NaN beyond -1 and 1.

    >>> from curta import lax
    >>> lax.erf_inv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.erf_inv(x)


def lgamma(x: ArrayLike) -> Array:
    """log|gamma(x)|; infinite at the poles.

    >>> from curta import lax
    >>> lax.lgamma(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.lgamma(x)


def digamma(x: ArrayLike) -> Array:
    """The derivative of lgamma; NaN at the poles.

    >>> from curta import lax
    >>> lax.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return ops.digamma(x)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma at x; NaN unless m is a whole number >= 0.

    The operands have the same dtype.

    >>> from curta import lax
    >>> lax.polygamma(1.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return ops.polygamma(m, x)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz's zeta function: the sum of (q + k)**-x over k >= 0.

    The operands have the same dtype.

    >>> from curta import lax
    >>> lax.zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return ops.zeta(x, q)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function P(a, x).

    The operands have the same dtype.

    >>> from curta import lax
    >>> lax.igamma(1.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.igamma(a, x)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    The operands have the same dtype.

    >>> from curta import lax
    >>> lax.igammac(1.0, 0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return ops.igammac(a, x)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of `igamma` with respect to a.

    The operands have the same dtype.

    >>> from curta import lax
    >>> lax.igamma_grad_a(1.0, 1.0)
    Array(-0.4317297, dtype=float32, weak_type=True)
    """
    return ops.igamma_grad_a(a, x)


def random_gamma_grad(a: Any, x: Any) -> Array:
    """The derivative of a sample x of Gamma(a, 1) with respect to a.

    The sample keeps its quantile in the distribution. The operands have the same dtype.

    >>> from curta import lax
    >>> lax.random_gamma_grad(1.0, 1.0)
    Array(1.173563, dtype=float32, weak_type=True)
    """
    return ops.random_gamma_grad(a, x)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function I_x(a, b).

    The integral of t^(a - 1) (1 - t)^(b - 1) from 0 to x, over that from 0 to 1
    (NIST Digital Library of Mathematical Functions, 8.17).

    Args:
      a, b: positive floats.
      x: floats in [0, 1], of the same dtype.

    Returns:
      An array of this dtype.

    Raises:
      TypeError: if operands are not floats; for dtypes that differ, and shapes that do
          not fit.

    >>> from curta import lax
    >>> lax.betainc(1.0, 1.0, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return ops.betainc(a, b, x)


def bessel_i0e(x: ArrayLike) -> Array:
    """The modified Bessel function I0, scaled: exp(-abs(x)) I0(x).

    >>> from curta import lax
    >>> lax.bessel_i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return ops.bessel_i0e(x)


def bessel_i1e(x: ArrayLike) -> Array:
    """The modified Bessel function I1, scaled: exp(-abs(x)) I1(x).

    >>> from curta import lax
    >>> lax.bessel_i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.bessel_i1e(x)
