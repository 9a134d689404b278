"""Logarithmic functions of statistics: entropies, logit, Box and Cox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax, nn
from curta.api.custom_derivatives import custom_jvp
from curta.control.custom_jvp import SymbolicZero
from curta.core.array import Array, ArrayLike
from curta.numpy.promotion import const, inexact_operands
from curta.scipy.special.arguments import in_double, real
from curta.scipy.special.cancellation import log1p_less_x


@custom_jvp
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)).

    >>> from curta.scipy import special
    >>> special.logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("logit", x)
    return lax.log(lax.div(x, lax.sub(const(x, 1), x)))


logit.defjvps(lambda t, out, x: lax.div(t, lax.mul(x, lax.sub(const(x, 1), x))))


def expit(x: ArrayLike) -> Array:
    """The logistic function, 1 / (1 + exp(-x)).

    >>> from curta.scipy import special
    >>> special.expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    (x,) = inexact_operands("expit", x)
    return lax.logistic(x)


@custom_jvp
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), which is 0 where x is.

    >>> from curta.scipy import special
    >>> special.xlogy(0.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x, y = inexact_operands("xlogy", x, y)
    there = (x != 0.0) | jnp.isnan(y)
    return jnp.where(there, lax.mul(x, lax.log(y)), jnp.zeros_like(x))


def _of_product(
    rule: Any, log: Callable[[Any], Any], argument: Callable[[Any], Any]
) -> Callable[[Any, Any], Any]:
    """The JVP rule of x log(a(y)) with a' = 1: dx log(a) + dy x / a, 0 for x = a = 0.

    A tangent that is known to be 0 is left out, where the logarithm is infinite. At
    x = 0 the quotient is 0, but its derivative by x is not.
    """

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        out = rule(x, y)
        total: Any = 0
        if not isinstance(dx, SymbolicZero):
            total = dx * log(y)
        if not isinstance(dy, SymbolicZero):
            a = argument(y)
            none = jnp.equal(x, 0) & jnp.equal(a, 0)
            total = total + dy * jnp.where(none, 0, x / jnp.where(none, 1, a))
        return out, jnp.asarray(total, out.dtype) + jnp.zeros_like(out)

    return jvp


xlogy.defjvp(_of_product(xlogy, lax.log, lambda y: y), symbolic_zeros=True)


@custom_jvp
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), which is 0 where x is.

    >>> from curta.scipy import special
    >>> special.xlog1py(0.0, -1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x, y = inexact_operands("xlog1py", x, y)
    there = (x != 0.0) | jnp.isnan(y)
    return jnp.where(there, lax.mul(x, lax.log1p(y)), jnp.zeros_like(x))


xlog1py.defjvp(
    _of_product(xlog1py, lax.log1p, lambda y: 1 + y),
    symbolic_zeros=True,
)


@custom_jvp
def _xlogx(x: Any) -> Any:
    return xlogy(x, x)


# At 0 the product rule would give 0/0.
_xlogx.defjvps(lambda t, out, x: t * (lax.log(x) + 1))


def entr(x: ArrayLike) -> Array:
    """The entropy -x log(x), 0 at 0, -inf below.

    >>> from curta.scipy import special
    >>> special.entr(1.0)
    Array(-0., dtype=float32, weak_type=True)
    """
    (x,) = real("entr", x)
    below = lax.lt(x, const(x, 0))
    return lax.select(below, lax.full_like(x, -np.inf), lax.neg(_xlogx(x)))


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """The relative entropy p log(p / q), 0 at p = 0 <= q, else inf.

    >>> from curta.scipy import special
    >>> special.rel_entr(1.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    p, q = real("rel_entr", p, q)
    zero = const(p, 0.0)
    positive = lax.bitwise_and(lax.gt(p, zero), lax.gt(q, zero))
    vanishing = lax.bitwise_and(lax.eq(p, zero), lax.ge(q, zero))
    safe_p, safe_q = jnp.where(positive, p, 1), jnp.where(positive, q, 1)
    value = _entropy_of_ratio(safe_p, safe_q)
    return jnp.where(positive, value, jnp.where(vanishing, zero, np.inf))


@custom_jvp
def _entropy_of_ratio(p: Any, q: Any) -> Any:
    return p * _log_of_ratio(p, q)


_entropy_of_ratio.defjvps(
    lambda t, out, p, q: t * (_log_of_ratio(p, q) + 1),
    lambda t, out, p, q: -t * (p / q),
)


def _log_of_ratio(p: Any, q: Any) -> Any:
    """log(p / q) of positive numbers, whose quotient may overflow."""
    near = jnp.abs(p - q) <= 0.5 * jnp.minimum(p, q)
    close = jnp.log1p(jnp.where(near, p - q, 0) / jnp.where(near, q, 1))
    return jnp.where(near, close, jnp.log(p) - jnp.log(q))


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """The summand p log(p / q) - p + q of Kullback and Leibler's divergence.

    >>> from curta.scipy import special
    >>> special.kl_div(2.0, 2.0)
    Array(0., dtype=float32, weak_type=True)
    """
    p, q = real("kl_div", p, q)
    return in_double(_kl_div)(p, q)


def _kl_div(p: Any, q: Any) -> Any:
    """For q near p by u = (q - p) / p: p (u - log(1 + u))."""
    near = (p > 0) & (jnp.abs(q - p) <= 0.5 * p)
    safe_p, safe_q = jnp.where(near, p, 1), jnp.where(near, q, 1)
    close = _divergence_of_near(safe_p, safe_q)
    return jnp.where(near, close, rel_entr(p, q) - p + q)


@custom_jvp
def _divergence_of_near(p: Any, q: Any) -> Any:
    return p * (0 - log1p_less_x((q - p) / p))  # 0, not -0, for equal numbers


_divergence_of_near.defjvps(
    lambda t, out, p, q: t * _log_of_ratio(p, q), lambda t, out, p, q: t * ((q - p) / q)
)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """Box and Cox' transform (x**lmbda - 1) / lmbda, log(x) for lmbda = 0.

    >>> from curta.scipy import special
    >>> special.boxcox(3.0, 1.0).round(4)
    Array(2., dtype=float32, weak_type=True)
    """
    x, lmbda = inexact_operands("boxcox", x, lmbda)
    return _power_less_one(x, jnp.log, x, lmbda)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, lmbda), exact for small x.

    >>> from curta.scipy import special
    >>> special.boxcox1p(2.0, 1.0).round(4)
    Array(2., dtype=float32, weak_type=True)
    """
    x, lmbda = inexact_operands("boxcox1p", x, lmbda)
    return _power_less_one(x, jnp.log1p, 1 + x, lmbda)


def _power_less_one(x: Any, log: Any, base: Any, lmbda: Any) -> Any:
    """(base**lmbda - 1) / lmbda, with log(x) the logarithm of the base.

    At a base of 0 by the power, whose derivatives are known there.
    """
    x, base, lmbda = jnp.broadcast_arrays(x, base, lmbda)
    none = (base == 0) & (lmbda > 0)
    value = _power_of_log(log(jnp.where(none, 1, x)), lmbda)
    safe = jnp.where(none, lmbda, 1)
    power = lax.pow(jnp.where(none, base, 1), safe)
    return jnp.where(none, (power - 1) / safe, value)


def _power_of_log(log: Any, lmbda: Any) -> Any:
    """(exp(lmbda log) - 1) / lmbda, near 0 by its series, which does not underflow."""
    finite = jnp.isfinite(log)
    z = lmbda * jnp.where(finite, log, 0)
    near = (lmbda == 0) | (finite & (jnp.abs(z) < 1e-3))
    safe = jnp.where(near, jnp.ones_like(lmbda), lmbda)
    z = jnp.where(near, z, 0)
    series = log * (1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5))))
    return jnp.where(near, series, jnp.expm1(safe * log) / safe)


def softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """exp(x) over its sum along `axis`, by default over all elements.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import special
    >>> special.softmax(jnp.zeros(2))
    Array([0.5, 0.5], dtype=float32)
    """
    return nn.softmax(x, axis=axis)


def log_softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """log(softmax(x)), without overflow.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import special
    >>> special.log_softmax(jnp.zeros(1))
    Array([0.], dtype=float32)
    """
    return nn.log_softmax(x, axis=axis)
