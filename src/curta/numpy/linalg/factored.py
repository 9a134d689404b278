"""Linear equations whose matrix comes as its factors L and U."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from curta import lax
from curta.api.inner import inner_jit
from curta.numpy.indexing import getitem
from curta.numpy.shapes import expand_dims
from curta.numpy.vectorize import vectorize


@inner_jit(name="_lu_solve", static_argnames=("trans",))
def lu_solve(factors: Any, permutation: Any, b: Any, trans: int) -> Any:
    """x of a x = b, given the `lax.linalg.lu` of a; a^T for `trans` 1, a^H for 2.

    Args:
      factors, permutation: (..., n, n) and (..., n).
      b: one vector (n,), or matrices (..., n, k). Leading dims broadcast.
    """
    vector = b.ndim == 1
    columns = expand_dims(b, -1) if vector else b
    one: Callable[..., Any] = functools.partial(_solve_matrix, trans=trans)
    if max(factors.ndim, columns.ndim) > 2:
        one = vectorize(one, signature="(n,n),(n),(n,k)->(n,k)")
    x = one(factors, permutation, columns)
    return lax.squeeze(x, (x.ndim - 1,)) if vector else x


def _solve_matrix(factors: Any, permutation: Any, b: Any, trans: int) -> Any:
    once = functools.partial(lax.linalg.triangular_solve, factors, left_side=True)
    if trans == 0:
        b = once(getitem(b, permutation), lower=True, unit_diagonal=True)
        return once(b)
    if trans not in (1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")
    transposition = {"transpose_a": True, "conjugate_a": trans == 2}
    b = once(b, **transposition)
    b = once(b, lower=True, unit_diagonal=True, **transposition)
    identity = lax.iota(permutation.dtype, permutation.shape[0])
    _, inverse = lax.sort_key_val(permutation, identity)
    return getitem(b, inverse)


def solve_by_lu(a: Any, b: Any) -> Any:
    """x of a x = b, for matrices (..., n, n) and either (n,) or (..., n, k).

    The derivatives are those of the equation, and solve it with the same factors.
    """
    factors, _, permutation = lax.linalg.lu(lax.stop_gradient(a))
    batch = tuple(range(a.ndim - 2))
    numbers = (((a.ndim - 1,), (b.ndim - 1 - (b.ndim > 1),)), (batch, batch))

    def product(x: Any) -> Any:
        highest = lax.Precision.HIGHEST
        return lax.dot_general(a, x, numbers, precision=highest)

    def solve(_: Any, b: Any) -> Any:
        return lu_solve(factors, permutation, b, 0)

    def transpose_solve(_: Any, b: Any) -> Any:
        return lu_solve(factors, permutation, b, 1)

    return lax.custom_linear_solve(product, b, solve, transpose_solve)
