"""Error functions, gamma functions, zeta.

They take floats; TypeError otherwise.
"""

from __future__ import annotations

from typing import Any

from curta.ops import elementwise as ops


def erf(x: Any) -> Any:
    """The error function.

    >>> from curta import lax
    >>> lax.erf(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.erf(x)


def erfc(x: Any) -> Any:
    """1 - erf(x), without cancellation for large x.

    >>> from curta import lax
    >>> lax.erfc(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return ops.erfc(x)


def erf_inv(x: Any) -> Any:
    """The inverse of the error function; NaN beyond -1 and 1.

    >>> from curta import lax
    >>> lax.erf_inv(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.erf_inv(x)


def lgamma(x: Any) -> Any:
    """log|gamma(x)|; infinite at the poles.

    >>> from curta import lax
    >>> lax.lgamma(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return ops.lgamma(x)


def digamma(x: Any) -> Any:
    """The derivative of lgamma; NaN at the poles.

    >>> from curta import lax
    >>> lax.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return ops.digamma(x)


def polygamma(m: Any, x: Any) -> Any:
    """The m-th derivative of digamma at x; NaN unless m is a whole number >= 0.

    The two have the same dtype.

    >>> from curta import lax
    >>> lax.polygamma(1.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return ops.polygamma(m, x)


def zeta(x: Any, q: Any) -> Any:
    """Hurwitz's zeta function: the sum of (q + k)**-x over k >= 0.

    The two have the same dtype.

    >>> from curta import lax
    >>> lax.zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return ops.zeta(x, q)
