"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import lax
from curta._settings.api_version import LOG2_AND_POLYNOMIALS_ARE_OPS
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import concrete_index, ensure_arraylike, ensure_arraylikes
from curta.numpy.arithmetic import add, multiply, negative
from curta.numpy.constructors import asarray
from curta.numpy.convolution import convolve
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem
from curta.numpy.promotion import promote_dtypes, promote_dtypes_inexact
from curta.numpy.selection import broadcast_all
from curta.numpy.sets import trim_zeros


@inner_jit(static_argnames=("unroll",))
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int | None = None) -> Array:
    """The values at `x` of the polynomial with coefficients `p`, by Horner's rule.

    Args:
      p: coefficients (n,), highest power first; further dims broadcast with `x`.
      x: points, an array or scalar of any shape.
      unroll: as for `lax.polynomial`, static. Before JAX 0.12 the rule was a loop, and
        this how many steps each iteration has; None (default) was 16.

    Returns:
      The values, of the shape of `x` and the promoted dtype.

    Raises:
      TypeError: `p` or `x` is a list or a string; `unroll` is not an integer.
      ValueError: `unroll` is negative, or the further dims do not broadcast.
      IndexError: `p` is a scalar.

    >>> from curta import numpy as jnp
    >>> jnp.polyval(jnp.array([1, 0, 2]), jnp.array([0, 3]))
    Array([ 2, 11], dtype=int32)
    """
    p, x = promote_dtypes(*ensure_arraylikes("polyval", p, x))
    if p.ndim == 0:
        raise IndexError(
            "tuple index out of range: polyval takes coefficients of shape (n,) or"
            " more dims, got shape ()"
        )
    shape = lax.broadcast_shapes(p.shape[1:], x.shape)
    if LOG2_AND_POLYNOMIALS_ARE_OPS.applies():
        return _polynomial(p, x, shape, unroll)
    start = lax.full(shape, 0, x.dtype)

    def step(y: Any, coefficient: Any) -> tuple[Any, None]:
        return add(multiply(y, x), coefficient), None

    return lax.scan(step, start, p, unroll=16 if unroll is None else unroll)[0]


def _polynomial(
    p: Array, x: Array, shape: tuple[int, ...], unroll: int | None
) -> Array:
    """`polyval` as `lax.polynomial`, in which operands have one rank or are scalars."""

    def raised(x: Array) -> Array:
        return lax.broadcast_to_rank(x, len(shape)) if x.ndim else x

    if not p.shape[0]:
        return lax.full(shape, 0, x.dtype)
    terms = [raised(getitem(p, i)) for i in reversed(range(p.shape[0]))]
    return lax.polynomial(raised(x), terms, unroll=unroll)


@inner_jit
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    >>> from curta import numpy as jnp
    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([5, 0, 0]))
    Array([5, 1, 2], dtype=int32)
    """
    a1, a2 = promote_dtypes(*ensure_arraylikes("polyadd", a1, a2))
    longer, shorter = (a1, a2) if a2.shape[0] <= a1.shape[0] else (a2, a1)
    window = np.s_[longer.shape[0] - shorter.shape[0] :]
    return IndexedUpdate(longer, window).add(shorter)


@inner_jit
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    >>> from curta import numpy as jnp
    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([5, 0, 0]))
    Array([-5,  1,  2], dtype=int32)
    """
    a1, a2 = promote_dtypes(*ensure_arraylikes("polysub", a1, a2))
    return polyadd(a1, negative(a2))


def _require_dim(name: str, *polynomials: Any) -> None:
    for p in polynomials:
        if p.ndim == 0:
            raise TypeError(
                f"len() of unsized object: {name} takes the coefficients of"
                f" polynomials, got an array of shape {p.shape}"
            )


@inner_jit(static_argnames=("m",))
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial.

    >>> from curta import numpy as jnp
    >>> jnp.polyder(jnp.array([1.0, 2.0, 3.0]))
    Array([2., 2.], dtype=float32)
    """
    (p,) = promote_dtypes_inexact(ensure_arraylike("polyder", p))
    _require_dim("polyder", p)
    m = concrete_index(m, "'m' argument of jnp.polyder")
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return p
    powers = np.arange(p.shape[0] - 1, m - 1, -1)
    factors = np.prod([powers - i for i in range(m)], axis=0)
    kept = lax.slice_in_dim(p, 0, max(p.shape[0] - m, 0))
    return multiply(kept, asarray(factors, dtype=p.dtype))


@inner_jit(static_argnames=("m",))
def polyint(
    p: ArrayLike, m: int = 1, k: int | float | ArrayLike | None = None
) -> Array:
    """The m-th integral of a polynomial, with the constants of integration `k`.

    Args:
      p: coefficients (n,), highest power first.
      m: how often to integrate, static and not negative. Default 1.
      k: the constants, a scalar, or a vector (1,) or (m,). None (default) for 0.

    Returns:
      Coefficients (n + m,), in floats or complex numbers.

    Raises:
      TypeError: `p` or `k` is a list, a string or None; `p` is not a vector.
      ValueError: `m` is negative, or `k` has another shape.

    >>> from curta import numpy as jnp
    >>> jnp.polyint(jnp.array([2.0, 2.0]), k=3)
    Array([1., 2., 3.], dtype=float32)
    """
    m = concrete_index(m, "'m' argument of jnp.polyint")
    constants = 0 if k is None else k
    p, constants = ensure_arraylikes("polyint", p, constants)
    _require_dim("polyint", p)
    p, constants = promote_dtypes_inexact(p, constants)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    if constants.ndim == 0 or constants.shape == (1,):
        constants = lax.full_like(constants, 1, shape=(m,)) * constants
    if constants.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if m == 0:
        return p
    powers = np.arange(p.shape[0] + m)[::-1]
    divisors = np.prod([np.maximum(powers - i, 1) for i in range(m)], axis=0)
    joined = lax.concatenate([p, constants], 0)
    return lax.div(joined, asarray(divisors, dtype=p.dtype))


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.

    Args:
      a1, a2: coefficients, vectors, highest power first.
      trim_leading_zeros: drop leading zeros first, which must be known. Default False.

    Returns:
      Coefficients, (a1.size + a2.size - 1,), in floats or complex numbers.

    Raises:
      TypeError: `a1` or `a2` is a list, a string or None; `a1` or `a2` is a scalar.
      ValueError: `a1` or `a2` has more than one dim.
      ConcretizationTypeError: `trim_leading_zeros` and traced coefficients.

    >>> from curta import numpy as jnp
    >>> jnp.polymul(jnp.array([1.0, 2.0]), jnp.array([1.0, 3.0]))
    Array([1., 5., 6.], dtype=float32)
    """
    a1, a2 = promote_dtypes_inexact(*ensure_arraylikes("polymul", a1, a2))
    _require_dim("polymul", a1, a2)
    if trim_leading_zeros and (a1.shape[0] > 1 or a2.shape[0] > 1):
        a1, a2 = trim_zeros(a1, "f"), trim_zeros(a2, "f")
    a1, a2 = (x if x.shape[0] else lax.full((1,), 0, x.dtype) for x in (a1, a2))
    return convolve(a1, a2, mode="full")


def polydiv(
    u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False
) -> tuple[Any, Any]:
    """Quotient and remainder of the division of polynomials, highest power first.

    Args:
      u: coefficients of the dividend, a vector.
      v: coefficients of the divisor, a vector of one or more; the first is not 0.
      trim_leading_zeros: drop leading zeros of the remainder, which must be known.
        Default False.

    Returns:
      Coefficients of quotient and remainder, two vectors, in floats or complex numbers.

    Raises:
      TypeError: `u` or `v` is a list, a string or None; `u` or `v` is a scalar.
      ValueError: `v` is not a vector.
      IndexError: `v` is empty.
      ConcretizationTypeError: `trim_leading_zeros` and traced coefficients.

    >>> from curta import numpy as jnp
    >>> jnp.polydiv(jnp.array([1.0, 5.0, 6.0]), jnp.array([1.0, 2.0]))
    (Array([1., 3.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    u, v = promote_dtypes_inexact(*ensure_arraylikes("polydiv", u, v))
    _require_dim("polydiv", u, v)
    steps = max(u.shape[0] - v.shape[0] + 1, 1)
    quotient = lax.full((steps,), 0, u.dtype)
    leading = getitem(v, 0)
    for k in range(u.shape[0] - v.shape[0] + 1):
        factor = lax.div(getitem(u, k), leading)
        quotient = IndexedUpdate(quotient, k).set(factor)
        product = lax.mul(*broadcast_all(factor, v))
        u = IndexedUpdate(u, np.s_[k : k + v.shape[0]]).add(lax.neg(product))
    return quotient, trim_zeros(u, "f") if trim_leading_zeros else u
