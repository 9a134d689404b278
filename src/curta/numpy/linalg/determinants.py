"""Determinants."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from curta import lax
from curta.api.custom_derivatives import custom_jvp
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy import diagonals
from curta.numpy.arguments import ensure_arraylike, is_complex
from curta.numpy.arithmetic import absolute, sign
from curta.numpy.conditional import where
from curta.numpy.creation import ones_like, zeros_like
from curta.numpy.cumulative import cumprod
from curta.numpy.elementary import exp, log
from curta.numpy.joining import concatenate
from curta.numpy.linalg.solving import solve
from curta.numpy.logic import isfinite, isnan
from curta.numpy.promotion import promote_dtypes_inexact
from curta.numpy.reductions import all, count_nonzero, prod, sum
from curta.numpy.shapes import expand_dims
from curta.primitives.linalg.lu import permuted_rows


class SlogdetResult(NamedTuple):
    """The result of `slogdet`."""

    sign: Any
    logabsdet: Any


@inner_jit
def det(a: ArrayLike) -> Array:
    """The determinants of square matrices (..., n, n).

    Raises ValueError for other shapes.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.det(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    """
    (a,) = promote_dtypes_inexact(ensure_arraylike("jnp.linalg.det", a))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"Argument to _det() must have shape [..., n, n], got {a.shape}"
        )
    if a.shape[-1] == 2:
        return _det_2(a)
    return _det_3(a) if a.shape[-1] == 3 else _det(a)


def _det_2(a: Any) -> Any:
    return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]


def _det_3(a: Any) -> Any:
    return (
        a[..., 0, 0] * a[..., 1, 1] * a[..., 2, 2]
        + a[..., 0, 1] * a[..., 1, 2] * a[..., 2, 0]
        + a[..., 0, 2] * a[..., 1, 0] * a[..., 2, 1]
        - a[..., 0, 2] * a[..., 1, 1] * a[..., 2, 0]
        - a[..., 0, 0] * a[..., 1, 2] * a[..., 2, 1]
        - a[..., 0, 1] * a[..., 1, 0] * a[..., 2, 2]
    )


@custom_jvp
def _det(a: Any) -> Any:
    factor, logarithm = slogdet(a)
    return factor * exp(logarithm).astype(factor.dtype)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    # Jacobi's formula: the trace of the cofactors times a'.
    (a,), (da,) = primals, tangents
    value, product = _cofactors_times(a, da)
    return value, diagonals.trace(product, axis1=-2, axis2=-1)


def _cofactors_times(a: Any, b: Any) -> tuple[Any, Any]:
    """det(a), and det(a) a^-1 b, which exists for matrices of rank n - 1 too.

    With P a = L U the latter is found by solving with L and U, where the last pivot,
    the only one that may be zero, is taken out of the determinant.
    """
    if a.shape[-1] == 0:
        return _det(a), b
    if a.shape[-1] == 1:
        return a[..., 0, 0], b
    factors, pivots, permutation = lax.linalg.lu(a)
    odd = _exchanges(pivots) % 2 == 1
    partial = cumprod(diagonals.diagonal(factors, axis1=-2, axis2=-1), axis=-1)
    partial = where(expand_dims(odd, -1), -partial, partial)
    upper = factors.at[..., -1, -1].set(1 / partial[..., -2])
    settings = {"left_side": True, "lower": False}
    probe = lax.linalg.triangular_solve(upper, ones_like(b[..., 0]), **settings)
    usable = expand_dims(all(isfinite(probe), axis=-1), (-2, -1))
    moved = permuted_rows(where(usable, b, zeros_like(b)), permutation)
    moved = lax.linalg.triangular_solve(
        factors, moved, left_side=True, lower=True, unit_diagonal=True
    )
    scaled = moved[..., :-1, :] * partial[..., -1, None, None]
    scaled = concatenate((scaled, moved[..., -1:, :]), axis=-2)
    product = lax.linalg.triangular_solve(upper, scaled, **settings)
    return partial[..., -1], where(usable, product, zeros_like(product))


@inner_jit(static_argnames=("method",))
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """The sign, and the logarithm of the absolute value, of determinants.

    Args:
      a: square matrices (..., n, n).
      method: the decomposition to use, "lu" (by default) or "qr".

    Returns:
      The signs (...), of the dtype of a, and the logarithms (...), real. The sign is 0
      where the determinant is. It says nothing of matrices with NaN: by "lu" it is 1
      or -1 for real ones of size 3 or more.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.slogdet(jnp.array([[0.0, 1.0], [1.0, 0.0]])).sign
    Array(-1., dtype=float32)
    """
    (a,) = promote_dtypes_inexact(ensure_arraylike("jnp.linalg.slogdet", a))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(
            f"Argument to slogdet() must have shape [..., n, n], got {a.shape}"
        )
    if method in (None, "lu"):
        return SlogdetResult(*_slogdet(a, False))
    if method != "qr":
        raise ValueError(
            f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`),"
            " and 'qr'."
        )
    if is_complex(a):
        raise NotImplementedError(
            "slogdet method='qr' not implemented for complex inputs; use 'lu'"
        )
    return SlogdetResult(*_slogdet(a, True))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _slogdet(a: Any, by_qr: bool) -> tuple[Any, Any]:
    if by_qr:
        factors, taus = lax.linalg.geqrf(a)
        negations = count_nonzero(taus, axis=-1)  # each reflection has determinant -1
    else:
        factors, pivots, _ = lax.linalg.lu(a)
        negations = _exchanges(pivots)
    diagonal = diagonals.diagonal(factors, axis1=-2, axis2=-1)
    parity = where(negations % 2 == 1, -1, 1).astype(a.dtype)
    logarithm = sum(log(absolute(diagonal)), axis=-1)
    signs = sign(diagonal)
    if not by_qr and not is_complex(a) and a.shape[-1] > 2:
        signs = where(isnan(signs), 1, signs)
    return prod(signs, axis=-1) * parity, logarithm


@_slogdet.defjvp
def _slogdet_jvp(by_qr: bool, primals: Any, tangents: Any) -> Any:
    (a,), (da,) = primals, tangents
    factor, logarithm = _slogdet(a, by_qr)
    change = diagonals.trace(solve(a, da), axis1=-2, axis2=-1)
    if not is_complex(a):
        return (factor, logarithm), (zeros_like(factor), change)
    phase = lax.complex(zeros_like(logarithm), lax.imag(change))
    return (factor, logarithm), (phase * factor, lax.real(change))


def _exchanges(pivots: Any) -> Any:
    """How many rows were exchanged with another one."""
    identity = lax.broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    return count_nonzero(pivots != identity, axis=-1)
