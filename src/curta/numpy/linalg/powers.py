"""Powers of matrices."""

from __future__ import annotations

import operator

from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import ensure_arraylike
from curta.numpy.linalg.solving import inv
from curta.numpy.linear_algebra import matmul
from curta.numpy.matrices import eye
from curta.numpy.shapes import broadcast_to


@inner_jit(static_argnames=("n",))
def matrix_power(a: ArrayLike, n: int) -> Array:
    """The product of n copies of square matrices, by repeated squaring.

    Negative n are powers of the inverse. Raises TypeError for matrices that are not
    square.

    >>> from curta import numpy as jnp
    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 5)
    Array([[1, 5],
           [0, 1]], dtype=int32)
    """
    a = ensure_arraylike("jnp.linalg.matrix_power", a)
    if a.ndim < 2:
        raise TypeError(
            f"{a.ndim}-dimensional array given. Array must be at least two-dimensional"
        )
    if a.shape[-2] != a.shape[-1]:
        raise TypeError("Last 2 dimensions of the array must be square")
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError(f"exponent must be an integer, got {n}") from error
    if n < 0:
        a, n = inv(a), -n
    if n == 0:
        return broadcast_to(eye(a.shape[-2], dtype=a.dtype), a.shape)
    out: Array | None = None
    square = a
    while True:
        if n % 2:
            out = square if out is None else matmul(out, square)
            if n == 1:
                return out
        n //= 2
        square = matmul(square, square)
