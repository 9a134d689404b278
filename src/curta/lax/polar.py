"""The polar decomposition, by an iteration of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.api.jit_options import check_hashable
from curta.core.shapes import real
from curta.core.trace import concrete_or_error, operand_type, typeof
from curta.lax.arithmetic import abs, mul, sqrt
from curta.lax.control_flow.branches import cond
from curta.lax.control_flow.scanning import scan
from curta.lax.conversion import conj, convert_element_type
from curta.lax.creation import full_like
from curta.lax.reduction import reduce_max, reduce_sum
from curta.lax.selection import select
from curta.lax.shape import concatenate, slice_in_dim
from curta.primitives import linalg as ops
from curta.primitives.linalg import matrices

_QR_ABOVE = 100.0  # where the matrix of the quicker step becomes ill conditioned


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """The polar decomposition x = u h, with unitary u and Hermitian h >= 0.

    By Halley's iteration with weights that follow the least singular value:
    Y. Nakatsukasa, Z. Bai and F. Gygi (2010). Where x has less than full rank, u is
    not unique, and 0 on rows and columns of zeros.

    Args:
      x: a matrix (m, n), m >= n, of an inexact dtype.
      is_hermitian: accepted, and has no effect.
      max_iterations: the maximum number of steps, by default 10.
      eps: the relative precision, by default the epsilon of the dtype; the iteration
        ends when the Frobenius norm of a change is below (5 eps)^(1/3).
      dynamic_shape: how many rows and columns of x count.

    Returns:
      u, h, the number of steps and whether they converged.

    Raises:
      ValueError: unless m >= n and eps > 0.
      TypeError: if the dtype is not supported or `dynamic_shape` is not two numbers.
      OverflowError: for `max_iterations` beyond int32.

    >>> import curta.numpy as jnp
    >>> from curta import lax
    >>> u, h, _, _ = lax.linalg.qdwh(jnp.array([[0.0, -2.0], [2.0, 0.0]]))
    >>> h.round(3)
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    aval = operand_type("qdwh", 0, x)
    if aval.ndim != 2 or aval.shape[0] < aval.shape[1]:
        raise ValueError(
            "The input matrix of shape M x N must have M >= N: at least as many rows as"
            f" columns, got shape {aval.shape}."
        )
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        raise TypeError(
            f"qdwh does not accept dtype {aval.dtype}. Accepted dtypes are subtypes of"
            " floating, complexfloating."
        )
    for known in is_hermitian, max_iterations, eps:
        check_hashable(known)
    reason = "The `{}` argument of qdwh must be known while tracing."
    concrete_or_error(bool, is_hermitian, reason.format("is_hermitian"))
    most = 10
    if max_iterations is not None:
        most = concrete_or_error(int, max_iterations, reason.format("max_iterations"))
    if most.bit_length() > 31:
        raise OverflowError(
            "An overflow was encountered while parsing the max_iterations of qdwh:"
            f" {most} is not an int32."
        )
    if eps is None:
        eps = float(dtypes.finfo(aval.dtype).eps)
    eps = real("qdwh eps", concrete_or_error(None, eps, reason.format("eps")))
    if not eps > 0:
        raise ValueError(f"qdwh expects eps > 0, the relative precision, got {eps}.")
    if dynamic_shape is not None:
        if not isinstance(dynamic_shape, (tuple, list)) or len(dynamic_shape) != 2:
            raise TypeError(
                f"qdwh takes dynamic_shape as two integers, got {dynamic_shape!r}."
            )
        row, column = matrices.rows_and_columns(aval.shape)
        inside = (row < dynamic_shape[0]) & (column < dynamic_shape[1])
        x = select(inside, x, full_like(x, 0))
    return _decomposed(x, most, eps) if x.size else _empty(x)


def _empty(x: Any) -> tuple[Any, Any, Any, Any]:
    h = full_like(x, 0, shape=(x.shape[1], x.shape[1]))
    return x, h, convert_element_type(0, int), convert_element_type(True, bool)


def _decomposed(x: Any, most: int, eps: float) -> tuple[Any, Any, Any, Any]:
    weights, known = _weights(eps, most)
    by_qr = int(np.sum(weights[:, 2] > _QR_ABOVE))
    size = abs(x)
    norms = [reduce_max(reduce_sum(size, (axis,)), (0,)) for axis in (0, 1)]
    scale = sqrt(norms[0]) * sqrt(norms[1])
    scale = select(scale == 0, full_like(scale, 1), scale)
    u = x / convert_element_type(scale, typeof(x).dtype)
    limit = np.asarray(np.cbrt(5 * eps), scale.dtype)

    def first(u: Any, weights: Any) -> tuple[Any, None]:
        return _qr_step(u, weights), None

    def rest(state: Any, step: Any) -> tuple[Any, None]:
        def move(u: Any) -> tuple[Any, Any]:
            new = _cholesky_step(u, step[1])
            return new, sqrt(reduce_sum(_squares(new - u), (0, 1))) <= limit

        u, count, converged = state
        going = (step[0] < known) | ~converged
        u, converged = cond(going, move, lambda u: (u, converged), u)
        return (u, select(going, count + 1, count), converged), None

    weights = weights.astype(scale.dtype)
    u, _ = scan(first, u, weights[:by_qr])
    numbers = np.arange(by_qr, len(weights), dtype=np.int32)
    start = (u, by_qr, np.bool_(False))
    (u, count, converged), _ = scan(rest, start, (numbers, weights[by_qr:]))
    # One step of Newton's and Schulz's iteration takes away what rounding has left.
    gram = matrices.matmul(matrices.adjoint(u), u)
    u = 1.5 * u - 0.5 * matrices.matmul(u, gram)
    h = matrices.matmul(matrices.adjoint(u), x)
    return u, 0.5 * (h + matrices.adjoint(h)), count, converged


def _weights(eps: float, most: int) -> tuple[Any, int]:
    """a, b and c of every step, and how many steps until the least value is near 1.

    The bound `low` of the least singular value begins at `eps`; the step maps a value
    v to v (a + b v^2) / (1 + c v^2). From then on they are Halley's 3, 1 and 3.
    """
    low = eps
    rows: list[Any] = []
    while low + 5 * eps < 1 and len(rows) < most:
        square = low * low
        d = np.cbrt(4 * (1 / square - 1) / square)
        root = np.sqrt(1 + d)
        a = root + np.sqrt(2 - d + 2 * (2 - square) / (square * root))
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        low = low * (a + b * square) / (1 + c * square)
        rows.append((a, b, c))
    known = len(rows)
    rows += [(3.0, 1.0, 3.0)] * (most - known)
    return np.array(rows).reshape(-1, 3), known


def _squares(x: Any) -> Any:
    return mul(x, x) if x.dtype.kind != "c" else mul(x, conj(x)).real


def _combined(u: Any, product: Any, ratio: Any, factor: Any) -> Any:
    return convert_element_type(ratio, u.dtype) * u + factor * product


def _qr_step(u: Any, weights: Any) -> Any:
    """The next iterate by an orthogonal basis of √c u above the unit matrix."""
    a, b, c = (weights[i] for i in range(3))
    m, n = u.shape
    root = convert_element_type(sqrt(c), u.dtype)
    q, _ = ops.QR(False, False, None)(
        concatenate([root * u, matrices.eye(u.dtype, n)], 0)
    )
    upper, lower = slice_in_dim(q, 0, m), slice_in_dim(q, m, m + n)
    product = matrices.matmul(upper, matrices.adjoint(lower))
    factor = convert_element_type(a - b / c, u.dtype) / root
    return _combined(u, product, b / c, factor)


def _cholesky_step(u: Any, weights: Any) -> Any:
    """The next iterate by u (1 + c u^H u)^-1, by the Cholesky factor of the sum."""
    a, b, c = (weights[i] for i in range(3))
    gram = matrices.matmul(matrices.adjoint(u), u)
    gram = matrices.eye(u.dtype, u.shape[1]) + convert_element_type(c, u.dtype) * gram
    factor = matrices.tril(ops.Cholesky()(gram))
    # x L^H = u, then y L = x.
    complex_ = u.dtype.kind == "c"
    product = ops.TriangularSolve(False, True, True, complex_, False)(factor, u)
    product = ops.TriangularSolve(False, True, False, False, False)(factor, product)
    return _combined(u, product, b / c, convert_element_type(a - b / c, u.dtype))
