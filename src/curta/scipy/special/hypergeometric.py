"""Hypergeometric functions of real arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.scipy.special.arguments import in_double, real_or_lists
from curta.scipy.special.gamma_functions import digamma, gamma

_MOST_TERMS = 2000


def _series(ratio: Callable[[Any], Any], weight: Callable[[Any], Any], x: Any) -> Any:
    """The sum of weight(k) times the product of ratio(0) to ratio(k - 1).

    Until a term no longer counts, or for 2,000 terms; `x` tells the dtype.
    """
    eps = dtypes.finfo(x.dtype).eps

    def unfinished(state: Any) -> Any:
        total, k, _, term = state
        return (k < 2) | ((k < _MOST_TERMS) & (lax.abs(term) > eps * lax.abs(total)))

    def add_term(state: Any) -> Any:
        total, k, product, _ = state
        term = product * weight(k)
        return total + term, k + 1, product * ratio(k), term

    zero, one = jnp.zeros_like(x), jnp.ones_like(x)
    return lax.while_loop(unfinished, add_term, (zero, zero, one, one))[0]


def _slope_of_series(
    ratio: Callable[[Any], Any], change: Callable[[Any], Any], x: Any
) -> Any:
    """The derivative of a series by a parameter, given those of its ratios.

    Unlike the sum of products with digammas it is defined where a factor is 0.
    """
    eps = dtypes.finfo(x.dtype).eps

    def unfinished(state: Any) -> Any:
        total, k, term, slope = state
        size = lax.abs(slope) + lax.abs(term) / (k + 1)
        return (k < 2) | ((k < _MOST_TERMS) & (size > eps * lax.abs(total)))

    def add_term(state: Any) -> Any:
        total, k, term, slope = state
        slope = slope * ratio(k) + term * change(k)
        return total + slope, k + 1, term * ratio(k), slope

    zero, one = jnp.zeros_like(x), jnp.ones_like(x)
    return lax.while_loop(unfinished, add_term, (zero, zero, one, zero))[0]


def _one(k: Any) -> Any:
    return jnp.ones_like(k)


# --- Kummer's function --------------------------------------------------------------


@custom_jvp
@inner_jit
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function M(a, b, x), for real arguments.

    By its series, for large x its asymptotic series (A. & S. 13.5.1), for negative x
    by Kummer's transformation exp(x) M(b - a, b, -x), or steps along its differential
    equation where that cancels.

    Args:
      a, b, x: real numbers.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      ValueError: if an operand is complex, or shapes do not broadcast.
      TypeError: if an operand is not an array.

    >>> from curta.scipy import special
    >>> special.hyp1f1(1.0, 1.0, 0.0)
    Array(1., dtype=float32)
    """
    operands = real_or_lists("hyp1f1", a, b, x)
    value: Array = in_double(_hyp1f1)(*operands).astype(operands[0].dtype)
    return value


@jnp.vectorize
def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    upper = jnp.where(x < 0, b - a, a)
    z = jnp.abs(x)
    ending = (upper <= 0) & (upper == jnp.floor(upper))
    far = (z >= 100) & ~ending
    small = (jnp.abs(b - upper) + 1) * (jnp.abs(1 - upper) + 1) <= z / 2
    far = far & (small | (z > 600))  # beyond, the series overflows
    whole = ending & (b > 0)
    waves = z < 2 * b - 4 * upper  # M changes its sign below only
    stepped = (upper < 0) & (b > 0) & ((x < 0) | waves) & ~far & ~whole
    near = ~(far | whole | stepped)
    # exp(-z) M(upper, b, z), from which nothing underflows.
    value = _kummer_series(upper, b, jnp.where(near, z, 0))
    value = jnp.where(whole, _laguerre(-upper, b, z, whole), value) * jnp.exp(-z)
    value = jnp.where(stepped, _kummer_steps(b - upper, b, z, stepped), value)
    w = jnp.where(far, z, 100)
    tail = _series(lambda k: (b - upper + k) * (1 - upper + k) / (k + 1) / w, _one, x)
    tail = gamma(b) / gamma(upper) * jnp.exp((upper - b) * jnp.log(w)) * tail
    value = jnp.where(far, tail, value)
    # The exponential may overflow where its product does not.
    value = jnp.where(x < 0, value, value * jnp.exp(z / 2) * jnp.exp(z / 2))
    value = jnp.where((b == 0) & (a != 0), np.inf, value)
    value = jnp.where((a == b) & (a != 0), jnp.exp(x), value)
    return jnp.where(a == 0, 1, value).astype(x.dtype)


def _laguerre(n: Any, b: Any, z: Any, active: Any) -> Any:
    """M(-n, b, z) of whole n >= 0, b > 0, by its recurrence in n (DLMF 13.3.1)."""
    n, b, z = jnp.where(active, n, 0), jnp.where(active, b, 1), jnp.where(active, z, 0)

    def step(state: Any) -> Any:
        k, before, value = state
        return k + 1, value, ((2 * k + b - z) * value - k * before) / (b + k)

    start = (jnp.zeros_like(z), jnp.zeros_like(z), jnp.ones_like(z))
    return lax.while_loop(lambda state: state[0] < n, step, start)[2]


_STEP_TERMS = 26  # of a Taylor series that converges like 8⁻ᵏ and 2ᵏ / k!


def _kummer_steps(a: Any, b: Any, z: Any, active: Any) -> Any:
    """M(a, b, -z) for a > b > 0 and z > 0, where the series cancels.

    By steps along its differential equation w'' = -(1 + b/z) w' - (a/z) w in z, whose
    other solutions do not grow past it (NIST DLMF 13.2.1, 13.7.2). They begin where
    the sum of the series has the size of its terms.
    """
    a, b = jnp.where(active, a, 2.0), jnp.where(active, b, 1.0)
    end = jnp.where(active, z, 1e-3)
    start = jnp.minimum(0.05 * jnp.minimum(b / a, 1), end)

    def step(state: Any) -> Any:
        at, value, slope = state
        h = jnp.minimum(at / 8, 2 / (1 + jnp.sqrt(a / at)))
        following = jnp.minimum(at + h, end)
        h = following - at
        # Coefficients c_k hᵏ of w about `at`:
        # at (k+2)(k+1) c_(k+2) = -(k+1)(k + at + b) c_(k+1) - (k + a) c_k.
        low, high = value, slope * h
        total, rise = low + high, high
        for k in range(_STEP_TERMS):
            new = -(k + 1) * (k + at + b) * high - (k + a) * h * low
            low, high = high, new * h / (at * (k + 2) * (k + 1))
            total, rise = total + high, rise + (k + 2) * high
        return following, total, rise / h

    first = _kummer_series(a, b, -start)
    slope = -a / b * _kummer_series(a + 1, b + 1, -start)
    initial = (start, first, slope)
    return lax.while_loop(lambda state: state[0] < end, step, initial)[1]


def _kummer_series(a: Any, b: Any, x: Any, weight: Callable[[Any], Any] = _one) -> Any:
    return _series(lambda k: (a + k) / (b + k) * x / (k + 1), weight, x)


@jnp.vectorize
def _hyp1f1_by_a(a: Any, b: Any, x: Any) -> Any:
    return _slope_of_series(
        lambda k: (a + k) / (b + k) * x / (k + 1), lambda k: x / (b + k) / (k + 1), x
    )


@jnp.vectorize
def _hyp1f1_by_b(a: Any, b: Any, x: Any) -> Any:
    return _slope_of_series(
        lambda k: (a + k) / (b + k) * x / (k + 1),
        lambda k: -(a + k) / (b + k) ** 2 * x / (k + 1),
        x,
    )


hyp1f1.defjvps(
    lambda t, out, a, b, x: _hyp1f1_by_a(a, b, x) * t,
    lambda t, out, a, b, x: _hyp1f1_by_b(a, b, x) * t,
    lambda t, out, a, b, x: a / b * hyp1f1(a + 1, b + 1, x) * t,
)


# --- Gauss' function ----------------------------------------------------------------


@custom_jvp
@inner_jit
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss' hypergeometric function F(a, b; c; x), for real arguments.

    By its series where that converges quickly, else by the linear transformations of
    A. & S. 15.3: Pfaff's for negative x, Euler's, and those about x = 1. Infinite for
    x > 1, unless the series ends.

    Args:
      a, b, c, x: real numbers.

    Returns:
      Floats, of the shape to which the arguments broadcast.

    Raises:
      ValueError: if an operand is complex, or shapes do not broadcast.
      TypeError: if an operand is not an array.

    >>> from curta.scipy import special
    >>> special.hyp2f1(1.0, 1.0, 1.0, 0.5).round(4)
    Array(2., dtype=float32)
    """
    return _hyp2f1(*real_or_lists("hyp2f1", a, b, c, x))


def _is_integer(x: Any) -> Any:
    return jnp.abs(x - jnp.round(x)) < 50 * dtypes.finfo(x.dtype).eps


def _ends(a: Any, b: Any) -> Any:
    """Whether the series with these upper parameters has a last term."""
    return ((a <= 0) & _is_integer(a)) | ((b <= 0) & _is_integer(b))


@jnp.vectorize
def _hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    ending = _ends(a, b)
    # Pfaff: F(a, b; c; x) = (1 - x)^-a F(a, c - b; c; x / (x - 1)).
    pfaff = (x < 0) & ~ending
    inside = jnp.where(x < 1, x, 0)
    scale = jnp.where(pfaff, jnp.exp(-a * jnp.log1p(-jnp.minimum(inside, 0))), 1)
    b_, z = jnp.where(pfaff, c - b, b), jnp.where(pfaff, inside / (inside - 1), inside)
    # Euler: F(a, b; c; z) = (1 - z)^(c - a - b) F(c - a, c - b; c; z).
    d = c - a - b_
    euler = (d < 0) & ~_ends(a, b_)
    scale = scale * jnp.where(euler, (1 - z) ** d, 1)
    upper_a, upper_b = jnp.where(euler, c - a, a), jnp.where(euler, c - b_, b_)
    about_one = (z > 0.9) & ~_ends(upper_a, upper_b)
    near = _gauss_series(upper_a, upper_b, c, jnp.where(about_one, 0.5, z))
    late = _about_one(upper_a, upper_b, c, jnp.where(about_one, z, 0.95))
    value = scale * jnp.where(about_one, late, near)
    value = jnp.where(ending, _gauss_series(a, b, c, x), value)
    at_one = jnp.where(
        c - a - b > 0,
        gamma(c) * gamma(c - a - b) / (gamma(c - a) * gamma(c - b)),
        np.inf,
    )
    value = jnp.where((x == 1) & ~ending, at_one, value)
    value = jnp.where((x > 1) & ~ending, np.inf, value)
    # A pole of c counts unless the series ends before it.
    top = jnp.where(_is_integer(a) & (a <= 0), a, -np.inf)
    top = jnp.maximum(top, jnp.where(_is_integer(b) & (b <= 0), b, -np.inf))
    pole = (c <= 0) & _is_integer(c) & ~(ending & (top >= c))
    value = jnp.where(pole, np.inf, value)
    return jnp.where((x == 0) | (((a == 0) | (b == 0)) & (c != 0)), 1, value).astype(
        x.dtype
    )


def _gauss_series(
    a: Any, b: Any, c: Any, x: Any, weight: Callable[[Any], Any] = _one
) -> Any:
    return _series(lambda k: (a + k) * (b + k) / (c + k) / (k + 1) * x, weight, x)


def _about_one(a: Any, b: Any, c: Any, x: Any) -> Any:
    """F(a, b; c; x) for x near 1 and c - a - b >= 0, in powers of 1 - x."""
    d = c - a - b
    whole = _is_integer(d)
    m, s = jnp.round(d), 1 - x
    # Away from integers: A. & S. 15.3.6.
    e = jnp.where(whole, d + 0.5, d)
    first = gamma(c) * gamma(e) / (gamma(c - a) * gamma(c - b))
    second = gamma(c) * gamma(-e) / (gamma(a) * gamma(b)) * s**e
    split = first * _gauss_series(a, b, 1 - e, s)
    split = split + second * _gauss_series(c - a, c - b, 1 + e, s)
    return jnp.where(whole, _about_one_integer(a, b, c, m, s), split)


def _about_one_integer(a: Any, b: Any, c: Any, m: Any, s: Any) -> Any:
    """The case c = a + b + m with an integer m >= 0: A. & S. 15.3.10 and 15.3.11."""
    finite = _finite_sum(a, b, m, s)
    positive = jnp.maximum(m, 1)
    head = gamma(positive) * gamma(c) / (gamma(a + m) * gamma(b + m)) * finite

    def bracket(k: Any) -> Any:
        ends = digamma(k + 1) + digamma(k + m + 1)
        return jnp.log(s) - ends + digamma(a + k + m) + digamma(b + k + m)

    def ratio(k: Any) -> Any:
        return (a + m + k) * (b + m + k) / ((k + 1) * (k + 1 + m)) * s

    tail = _series(ratio, bracket, s) / gamma(m + 1)
    sign = jnp.where(m % 2 == 0, 1, -1)
    log_part = sign * s**m * gamma(c) / (gamma(a) * gamma(b)) * tail
    return jnp.where(m > 0, head, 0) - log_part


def _finite_sum(a: Any, b: Any, m: Any, s: Any) -> Any:
    """The sum of (a)_n (b)_n / (n! (1 - m)_n) sⁿ for n < m."""

    def add_term(state: Any) -> Any:
        total, n, term = state
        below = (n + 1) * (1 - m + n)
        following = term * (a + n) * (b + n) * s / jnp.where(below == 0, 1, below)
        return total + term, n + 1, following

    zero, one = jnp.zeros_like(s), jnp.ones_like(s)
    start = (zero, zero, one)
    return lax.while_loop(lambda state: state[1] < m, add_term, start)[0]


@jnp.vectorize
def _hyp2f1_by_a(a: Any, b: Any, c: Any, x: Any) -> Any:
    return _slope_of_series(
        lambda k: (a + k) * (b + k) / (c + k) / (k + 1) * x,
        lambda k: (b + k) / (c + k) / (k + 1) * x,
        x,
    )


@jnp.vectorize
def _hyp2f1_by_c(a: Any, b: Any, c: Any, x: Any) -> Any:
    return _slope_of_series(
        lambda k: (a + k) * (b + k) / (c + k) / (k + 1) * x,
        lambda k: -(a + k) * (b + k) / (c + k) ** 2 / (k + 1) * x,
        x,
    )


def _hyp2f1_by_x(a: Any, b: Any, c: Any, x: Any) -> Any:
    factor = jnp.asarray(a * b / c)
    return jnp.where(factor == 0, 0, factor * hyp2f1(a + 1, b + 1, c + 1, x))


hyp2f1.defjvps(
    lambda t, out, a, b, c, x: _hyp2f1_by_a(a, b, c, x) * t,
    lambda t, out, a, b, c, x: _hyp2f1_by_a(b, a, c, x) * t,
    lambda t, out, a, b, c, x: _hyp2f1_by_c(a, b, c, x) * t,
    lambda t, out, a, b, c, x: _hyp2f1_by_x(a, b, c, x) * t,
)
