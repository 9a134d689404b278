"""The associated Legendre functions of all degrees and orders up to a bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.jvp import jvp
from curta.core.trace import typeof
from curta.numpy.arguments import concrete


def lpmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """The associated Legendre functions P_l^k(z) and their derivatives.

    Args:
      m, n: the greatest order k and degree l; static, and equal.
      z: float32 or float64 [points], in [-1, 1].

    Returns:
      Values and derivatives [m + 1, n + 1, points], by order, degree and point.

    Raises:
      TypeError: `z` has another dtype. ValueError: another rank.
      NotImplementedError: m and n differ.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.special.legendre import lpmn
    >>> lpmn(1, 1, jnp.array([0.5]))[0][:, :, 0]
    Array([[ 1.       ,  0.5      ],
           [ 0.       , -0.8660254]], dtype=float32)
    """
    bound = _checked(m, n, z)
    table, slope = jvp(
        lambda x: _polynomials(bound, x, False), (z,), (jnp.ones_like(z),)
    )
    orders = np.arange(bound + 1)[:, None]
    sine = jnp.sqrt((1 - z) * (1 + z))
    powers, lower = sine**orders, sine ** (orders - 2)
    change = jnp.where(orders == 0, 0, -orders.astype(typeof(z).dtype) * z * lower)
    change = jnp.where(table == 0, 0, change[:, None] * table)
    return powers[:, None] * table, powers[:, None] * slope + change


def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Any:
    """The values of `lpmn`.

    With `is_normalized`, times sqrt((2l + 1) (l - k)! / (4π (l + k)!)), so that times
    exp(ikφ) they are orthonormal on the sphere.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.special.legendre import lpmn_values
    >>> lpmn_values(0, 0, jnp.array([0.5]), True)
    Array([[[0.2820948]]], dtype=float32)
    """
    bound = _checked(m, n, z)
    sine = jnp.sqrt((1 - z) * (1 + z))
    powers = sine ** np.arange(bound + 1)[:, None]
    return powers[:, None] * _polynomials(bound, z, is_normalized)


def _checked(m: int, n: int, z: Any) -> int:
    dtype = lax.dtype(z)
    if dtype not in (np.float32, np.float64):
        raise TypeError(
            f"z.dtype={dtype} is not supported: lpmn takes float32 and float64."
        )
    if z.ndim != 1:
        raise ValueError(f"z must be a 1D array. Got one of shape {z.shape}.")
    m = concrete(m, "Argument m of lpmn.", int)
    n = concrete(n, "Argument n of lpmn.", int)
    if m != n:
        raise NotImplementedError(
            f"Computations for m!=n are not yet supported. Got {m=} and {n=}."
        )
    return n


def _polynomials(bound: int, z: Any, normalised: bool) -> Any:
    """P_l^k(z) / sqrt(1 - z²)^k, by the recurrence over degrees."""
    dtype = typeof(z).dtype
    nothing = jnp.zeros((bound + 1, *z.shape), dtype)
    edge = math.sqrt(0.25 / math.pi) if normalised else 1.0
    rows = [nothing, nothing.at[0].set(edge)]
    for degree in range(1, bound + 1):
        scale, damp = _recurrence(degree, bound, normalised)
        row = scale.astype(dtype) * (z * rows[-1] - damp.astype(dtype) * rows[-2])
        edge *= -(math.sqrt(1 + 0.5 / degree) if normalised else 2 * degree - 1)
        rows.append(row.at[degree].set(edge))
    return jnp.stack(rows[1:], axis=1)


def _recurrence(degree: int, bound: int, normalised: bool) -> tuple[Any, Any]:
    """What row l - 1 (times z) and then row l - 2 are multiplied with, by order."""
    orders = np.arange(bound + 1.0)[:, None]
    known = orders < degree
    k = np.where(known, orders, 0)
    if not normalised:
        scale = (2 * degree - 1) / (degree - k)
        return np.where(known, scale, 0), (degree + k - 1) / (2 * degree - 1)
    scale = np.sqrt((4 * degree**2 - 1) / (degree**2 - k**2))
    last = np.maximum((degree - 1) ** 2 - k**2, 0)
    damp = np.sqrt(last / max(4 * (degree - 1) ** 2 - 1, 1))
    return np.where(known, scale, 0), damp
