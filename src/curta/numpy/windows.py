"""Window functions of signal processing, and the Bessel function of one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import concrete
from curta.numpy.promotion import const, promote_args_inexact
from curta.numpy.selection import broadcast_all


def _window(name: str, M: Any, shape: Callable[[Any, Any], Any]) -> Any:
    """`shape(n, M - 1)` for n from 0 to M - 1; ones for M up to 1."""
    count = concrete(M, f"M argument of jnp.{name}", int)
    dtype = dtypes.default_float_dtype()
    if count <= 1:
        return lax.full((count,), 1, dtype)
    n = lax.iota(dtype, count)
    return shape(n, count - 1)


def _cosine(n: Any, last: int, periods: int) -> Any:
    angle = lax.div(lax.mul(const(n, 2 * np.pi * periods), n), const(n, last))
    return lax.cos(angle)


def bartlett(M: int) -> Array:
    """A triangle from 0 over 1 to 0.

    >>> from curta import numpy as jnp
    >>> jnp.bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """

    def shape(n: Any, last: int) -> Any:
        distance = lax.abs(lax.sub(lax.mul(const(n, 2), n), const(n, last)))
        return lax.sub(const(n, 1), lax.div(distance, const(n, last)))

    return _window("bartlett", M, shape)


def blackman(M: int) -> Array:
    """Three cosine terms: 0.42 - 0.5·cos(2πn/(M-1)) + 0.08·cos(4πn/(M-1)).

    >>> from curta import numpy as jnp
    >>> jnp.abs(jnp.blackman(3)).round(4)
    Array([0., 1., 0.], dtype=float32)
    """

    def shape(n: Any, last: int) -> Any:
        first = lax.mul(const(n, 0.5), _cosine(n, last, 1))
        second = lax.mul(const(n, 0.08), _cosine(n, last, 2))
        return lax.add(lax.sub(const(n, 0.42), first), second)

    return _window("blackman", M, shape)


def hamming(M: int) -> Array:
    """A raised cosine: 0.54 - 0.46·cos(2πn/(M-1)).

    >>> from curta import numpy as jnp
    >>> jnp.hamming(3).round(2)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """

    def shape(n: Any, last: int) -> Any:
        return lax.sub(const(n, 0.54), lax.mul(const(n, 0.46), _cosine(n, last, 1)))

    return _window("hamming", M, shape)


def hanning(M: int) -> Array:
    """A raised cosine: 0.5·(1 - cos(2πn/(M-1))).

    >>> from curta import numpy as jnp
    >>> jnp.hanning(3).round(4)
    Array([0., 1., 0.], dtype=float32)
    """

    def shape(n: Any, last: int) -> Any:
        return lax.mul(const(n, 0.5), lax.sub(const(n, 1), _cosine(n, last, 1)))

    return _window("hanning", M, shape)


@inner_jit
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, of order 0, for real x.

    >>> from curta import numpy as jnp
    >>> jnp.i0(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("i0", x)
    if not dtypes.issubdtype(x.dtype, np.floating):
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {x.dtype}")
    return _i0(x)


@custom_jvp
def _i0(x: Any) -> Any:
    size = lax.abs(x)
    return lax.mul(lax.exp(size), lax.bessel_i0e(size))


# The derivative is the function of order 1.
_i0.defjvps(
    lambda t, out, x: lax.mul(t, lax.mul(lax.exp(lax.abs(x)), lax.bessel_i1e(x)))
)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Kaiser's window i0(beta √(1 - x²)) / i0(beta), x from -1 to 1.

    >>> from curta import numpy as jnp
    >>> jnp.kaiser(3, 2.0).round(4)
    Array([0.4387, 1.    , 0.4387], dtype=float32)
    """

    def shape(n: Any, last: int) -> Any:
        x = lax.div(lax.sub(n, const(n, last / 2)), const(n, last / 2))
        root = lax.sqrt(lax.sub(const(n, 1), lax.mul(x, x)))
        (factor,) = promote_args_inexact("kaiser", beta)
        if factor.ndim:
            root, factor = broadcast_all(root, factor)
        wide = lax.mul(root, lax.convert_element_type(factor, root.dtype))
        return lax.div(i0(wide), lax.convert_element_type(i0(factor), root.dtype))

    return _window("kaiser", M, shape)
