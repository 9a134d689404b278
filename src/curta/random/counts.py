"""Distributions of counts: Poisson, binomial, multinomial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import promote_dtypes_inexact
from curta.random.approximate import check_method, poisson_approximate
from curta.random.keys import check_key, split_key, used_again
from curta.random.samplers import uniform
from curta.random.shapes import (
    asked_dtype,
    float_dtype,
    parameter_shape,
    sequence,
)

Shape = Sequence[int]


@takes_out_sharding
def poisson(
    key: ArrayLike,
    lam: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: Any = None,
) -> Array:
    """Counts of events that come at rate `lam`.

    The probability of k is lam**k exp(-lam) / k!.

    Args:
      key: a single key.
      lam: rates, broadcast to `shape`.
      shape: the shape of the result, by default the shape of `lam`.
      dtype: an integer dtype, by default the default one.
      method: 'exact' (default) draws and rejects in a loop; 'approximate' has no loop,
        is faster, and within 1e-4 of the distribution in total variation.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      ValueError: if `key` is an array of keys, the method is unknown, `dtype` is not an
          integer dtype, or `lam` does not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.
      NotImplementedError: if keys are not of threefry, if the method is 'exact'.

    >>> from curta import random
    >>> random.poisson(random.key(0), 3.0, (4,)).shape
    (4,)
    """
    typed, _ = check_key("poisson", key)
    chosen = asked_dtype(dtype, int)
    check_method("poisson", method)
    shape = parameter_shape("poisson", shape, lam)
    if method == "approximate":
        return poisson_approximate(typed, jnp.asarray(lam), shape, chosen)
    if str(typed.dtype) != "key<fry>":
        raise NotImplementedError(
            "`poisson` with method='exact' is only implemented for the threefry2x32"
            f" RNG, not {typed.dtype}"
        )
    lam = lax.convert_element_type(jnp.broadcast_to(lam, shape), np.float32)
    return _poisson(typed, lam, shape, chosen)


@inner_jit(static_argnames=("shape", "dtype"))
def _poisson(key: Any, lam: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    small = jnp.isnan(lam) | (lam < 10)
    few = lax.select(small, lam, lax.full_like(lam, 0.0))
    many = lax.select(small, lax.full_like(lam, 1e5), lam)
    most = dtype.type(dtypes.iinfo(dtype).max)
    drawn = lax.select(
        small,
        _poisson_by_products(key, few, shape, dtype, most),
        _poisson_by_rejection(used_again(key), many, shape, dtype, most),
    )
    drawn = lax.select(lam == np.inf, lax.full_like(drawn, most), drawn)
    return lax.select(lam == 0, jnp.zeros_like(drawn), drawn)


@inner_jit(static_argnames=("shape", "dtype", "most"), name="_poisson_knuth")
def _poisson_by_products(
    key: Any, lam: Any, shape: tuple[int, ...], dtype: Any, most: Any
) -> Any:
    """Multiply uniform draws until the product falls below exp(-lam).

    Source: D. E. Knuth, The Art of Computer Programming, vol. 2, 3.4.1.
    """

    def condition(carry: Any) -> Any:
        i, _, _, log_product = carry
        return (log_product > -lam).any() & (i < most)

    def body(carry: Any) -> Any:
        i, count, key, log_product = carry
        key, subkey = split_key(key)
        count = lax.select(log_product > -lam, count + 1, count)
        u = uniform(subkey, shape, np.float32)
        return i + 1, count, key, log_product + jnp.log(u)

    start = (0, jnp.zeros(shape, dtype), key, jnp.zeros(shape, np.float32))
    return (lax.while_loop(condition, body, start)[1] - 1).astype(dtype)


@inner_jit(static_argnames=("shape", "dtype", "most"), name="_poisson_rejection")
def _poisson_by_rejection(
    key: Any, lam: Any, shape: tuple[int, ...], dtype: Any, most: Any
) -> Any:
    """Transformed rejection, for large rates.

    Source: W. Hoermann, "The Transformed Rejection Method for Generating Poisson
    Random Variables", 1993, algorithm PTRS.
    """
    log_lam = lax.log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def condition(carry: Any) -> Any:
        i, _, accepted, _ = carry
        return (~accepted).any() & (i < most)

    def body(carry: Any) -> Any:
        i, result, accepted, key = carry
        key, key_u, key_v = split_key(key, 3)
        u = uniform(key_u, shape, lam.dtype) - 0.5
        v = uniform(key_v, shape, lam.dtype)
        u_shifted = 0.5 - abs(u)
        k = lax.floor((2 * a / u_shifted + b) * u + lam + 0.43)
        s = lax.log(v * inverse_alpha / (a / (u_shifted * u_shifted) + b))
        t = -lam + k * log_lam - lax.lgamma(k + 1)
        at_once = (u_shifted >= 0.07) & (v <= v_r)
        reject = (k < 0) | ((u_shifted < 0.013) & (v > u_shifted))
        within = s <= t
        accept = at_once | (~reject & within)
        result = lax.select(accept, k, result)
        accepted = accepted | accept
        return i + 1, result, accepted, key

    start = (0, jnp.full(shape, -1, lam.dtype), jnp.zeros(shape, bool), key)
    return lax.while_loop(condition, body, start)[1].astype(dtype)


def binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Counts of successes in `n` trials of probability `p`, as floats.

    Args:
      key: a single key.
      n: numbers of trials, broadcast to `shape`.
      p: probabilities, broadcast to `shape`.
      shape: the shape of the result, by default the broadcast shape of the parameters.
      dtype: a float dtype, by default the default one.

    Returns:
      Whole numbers, in an array of this shape and dtype; NaN for NaN or negative
      parameters.

    Raises:
      ValueError: if `key` is an array of keys, `dtype` is not a float dtype, or
          parameters do not broadcast to `shape`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not an
          array; for complex parameters.

    >>> from curta import random
    >>> random.binomial(random.key(0), 10, 0.5, (4,)).shape
    (4,)
    """
    typed, _ = check_key("binomial", key)
    check_arraylike("binomial", n, p)
    if jnp.iscomplexobj(n) or jnp.iscomplexobj(p):
        raise TypeError("binomial does not accept complex numbers as n or p.")
    chosen = float_dtype("binomial", dtype)
    return _binomial(typed, n, p, parameter_shape("binomial", shape, n, p), chosen)


def _binomial(
    key: Any, count: Any, prob: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    (prob,) = promote_dtypes_inexact(prob)
    count = jnp.broadcast_to(lax.convert_element_type(count, prob.dtype), shape)
    prob = jnp.broadcast_to(prob, shape)
    below_half = prob < 0.5
    # The rarer of the two outcomes is counted.
    q = lax.select(below_half, prob, 1.0 - prob)
    bad_count = jnp.isnan(count) | (count < 0.0)
    bad_prob = jnp.isnan(q) | (q < 0.0)
    endless = jnp.isinf(count)
    q = lax.select(bad_prob, lax.full_like(q, 0.01), q)
    small = bad_count | (count * q <= 10.0)
    count = jnp.floor(count)
    most = dtype.type(dtypes.finfo(dtype).max)
    by_gaps = _binomial_by_gaps(
        key, lax.select(small, count, lax.full_like(count, 0.0)), q, dtype, most
    )
    by_rejection = _binomial_by_rejection(
        used_again(key),
        lax.select(small, lax.full_like(count, 1e4), count),
        lax.select(small, lax.full_like(q, 0.5), q),
        dtype,
        most,
    )
    drawn = lax.select(small, by_gaps, by_rejection)
    invalid = bad_prob | bad_count
    drawn = lax.select(invalid, jnp.full_like(drawn, np.nan, dtype), drawn)
    drawn = lax.select(endless & ~invalid, jnp.full_like(drawn, np.inf, dtype), drawn)
    as_drawn = below_half | bad_count | jnp.isnan(q) | endless
    return lax.select(as_drawn, drawn, count.astype(dtype) - drawn)


def _binomial_by_gaps(key: Any, count: Any, prob: Any, dtype: Any, most: Any) -> Any:
    """Count the geometric gaps between successes that fit into the trials."""
    log_failure = jnp.log1p(-prob)

    def condition(carry: Any) -> Any:
        i, _, trials, _ = carry
        return (trials <= count).any() & (i < most)

    def body(carry: Any) -> Any:
        i, successes, trials, key = carry
        subkey, key = split_key(key)
        successes = lax.select(trials <= count, successes + 1, successes)
        u = uniform(subkey, prob.shape, prob.dtype)
        return i + 1, successes, trials + jnp.ceil(jnp.log(u) / log_failure), key

    start = (0, jnp.zeros_like(prob), jnp.zeros_like(prob), key)
    return (lax.while_loop(condition, body, start)[1] - 1).astype(dtype)


def _binomial_by_rejection(
    key: Any, count: Any, prob: Any, dtype: Any, most: Any
) -> Any:
    """Transformed rejection.

    Source: W. Hoermann, "The Generation of Binomial Random Variates", 1993, BTRS.
    """
    deviation = jnp.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c = count * prob + 0.5
    v_r = 0.92 - 4.2 / b
    r = prob / (1 - prob)
    alpha = (2.83 + 5.1 / b) * deviation
    m = jnp.floor((count + 1) * prob)

    def condition(carry: Any) -> Any:
        i, _, accepted, _ = carry
        return (~accepted).any() & (i < most)

    def body(carry: Any) -> Any:
        i, result, accepted, key = carry
        key, key_u, key_v = split_key(key, 3)
        u = uniform(key_u, prob.shape, prob.dtype) - 0.5
        v = uniform(key_v, prob.shape, prob.dtype)
        us = 0.5 - jnp.abs(u)
        at_once = (us >= 0.07) & (v <= v_r)
        k = jnp.floor((2 * a / us + b) * u + c)
        reject = (k < 0) | (k > count)
        v = jnp.log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * jnp.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * jnp.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * jnp.log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        accept = at_once | (~reject & (v <= bound))
        return i + 1, lax.select(accept, k, result), accepted | accept, key

    start = (0, jnp.full_like(prob, -1), jnp.zeros(prob.shape, bool), key)
    return lax.while_loop(condition, body, start)[1].astype(dtype)


# log(k!) less Stirling's approximation, for k from 0 to 9.
_STIRLING_TAIL = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: Any) -> Any:
    """What Stirling's approximation of log(k!) misses."""
    table = jnp.array(_STIRLING_TAIL, dtype=k.dtype)
    tabled = k <= 9
    # Beyond the table the value for 9 stands for all, which the draws must share.
    k = jnp.clip(k, 0.0, 9.0)
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return lax.select(tabled, table[jnp.floor(k).astype("int32")], series)


def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """How often each outcome occurs in `n` trials, along the last axis.

    Args:
      key: a single key.
      n: numbers of trials, broadcast to the leading dims.
      p: probabilities along the last axis.
      shape: the shape of the result, by default the shape of `p`.
      dtype: of the counts, by default the dtype of `p`.
      unroll: outcomes per step of the loop over them; 1 by default.

    Returns:
      Whole numbers, in an array of this shape and dtype.

    Raises:
      ValueError: for several keys, parameters that do not broadcast to `shape`, and a
        scalar `p`.
      TypeError: if `key` is not a key, `shape` is not a shape, or a parameter is not
          an array.

    >>> from curta import random, numpy as jnp
    >>> random.multinomial(random.key(0), 10, jnp.array([0.5, 0.5])).sum()
    Array(10., dtype=float32)
    """
    typed, _ = check_key("multinomial", key)
    check_arraylike("multinomial", n, p)
    trials, shares = promote_dtypes_inexact(n, p)
    shape = shares.shape if shape is None else sequence(shape)
    trials = jnp.broadcast_to(trials, shape[:-1])

    def draw(left: Any, outcome: Any) -> Any:
        ratio, key = outcome
        count = binomial(key, left, ratio.clip(0, 1), dtype=left.dtype)
        return left - count, count

    shares = jnp.moveaxis(jnp.broadcast_to(shares, shape), -1, 0)
    rest = lax.cumsum(shares, 0, reverse=True)
    ratios = shares / jnp.where(rest == 0, 1, rest)
    keys = split_key(typed, ratios.shape[0])
    _, counts = lax.scan(draw, trials, (ratios, keys), unroll=unroll)
    chosen = counts.dtype if dtype is None else dtype
    return jnp.moveaxis(counts, 0, -1).astype(chosen)
