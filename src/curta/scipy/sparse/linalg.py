"""Iterative solvers of linear systems, for matrices and linear functions of pytrees.

A solution has derivatives by the implicit function theorem, through one more solve.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax, tree_util
from curta._base.on_demand import Listing, own
from curta.core.array import Array
from curta.flatten_util import ravel_pytree
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import cast, promote_dtypes

__dir__: Listing = own(__name__)

LinearMap = Callable[[Any], Any]

_vdot = partial(jnp.vdot, precision=lax.Precision.HIGHEST)
_dot = partial(jnp.dot, precision=lax.Precision.HIGHEST)


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-05,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve A x = b by conjugate gradients, for a Hermitian positive definite A.

    Args:
      A: square matrix, or a linear function of a pytree like `b`.
      b: array or pytree of arrays.
      x0: where to start, like `b`. None (default) for 0.
      tol, atol: stop where |A x - b| <= max(tol |b|, atol), scalars. Default 1e-5, 0.
      maxiter: the most steps. None (default) for 10 times the number of unknowns.
      M: an approximation of the inverse of A, as `A` is given. None (default) for none.

    Returns:
      The solution, like `b`, and None.

    Raises:
      TypeError: if `A` is neither a matrix nor a function, or `b` is not an array or
          does not match `A`, or a tolerance is not a number.
      ValueError: if the matrix is not square, `x0` does not have the structure of `b`,
          or results of the function `A` do not.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.sparse.linalg import cg
    >>> x, _ = cg(jnp.array([[4.0, 1.0], [1.0, 3.0]]), jnp.array([1.0, 2.0]))
    >>> x.round(4)
    Array([0.0909, 0.6364], dtype=float32)
    """
    return _solve("cg", _cg, A, b, x0, tol, atol, maxiter, M), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-05,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve A x = b by the stabilized biconjugate gradient method, for any A.

    H. van der Vorst (1992).

    Args:
      A: square matrix, or a linear function of a pytree like `b`.
      b: array or pytree of arrays.
      x0: where to start, like `b`. None (default) for 0.
      tol, atol: stop where |A x - b| <= max(tol |b|, atol), scalars. Default 1e-5, 0.
      maxiter: the most steps. None (default) for 10 times the number of unknowns.
      M: an approximation of the inverse of A, as `A` is given. None (default) for none.

    Returns:
      The solution, like `b`, and None.

    Raises:
      TypeError: if `A` is neither a matrix nor a function, or `b` is not an array or
          does not match `A`, or a tolerance is not a number.
      ValueError: if the matrix is not square, `x0` does not have the structure of `b`,
          or results of the function `A` do not.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.sparse.linalg import bicgstab
    >>> x, _ = bicgstab(jnp.array([[4.0, 1.0], [2.0, 3.0]]), jnp.array([5.0, 5.0]))
    >>> x.round(4)
    Array([1., 1.], dtype=float32)
    """
    return _solve("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-05,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:
    """Solve A x = b by the generalized minimal residual method, for any A.

    Y. Saad and M. Schultz (1986).

    Args:
      A: square matrix, or a linear function of a pytree like `b`.
      b: array or pytree of arrays.
      x0: where to start, like `b`. None (default) for 0.
      tol, atol: stop where |A x - b| <= max(tol |b|, atol), scalars. Default 1e-5, 0.
      restart: the dimension of the Krylov space, after which the method starts again,
        an int. Default 20.
      maxiter: the most restarts. None (default) for 10 times the number of unknowns.
      M: an approximation of the inverse of A, as `A` is given. None (default) for none.
      solve_method: "batched" (default) builds the whole space, "incremental" stops as
        soon as the residual is small.

    Returns:
      The solution, like `b`, and 0, or -1 if it is not a number.

    Raises:
      TypeError: if `A` is neither a matrix nor a function, `b` is not an array or does
          not match `A`, or a tolerance is not a number, or `restart` is not an integer.
      ValueError: if the matrix is not square, `x0` does not have the structure of `b`,
          results of the function `A` do not, `restart` is negative, or `solve_method`
          has another value.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.sparse.linalg import gmres
    >>> x, _ = gmres(jnp.array([[4.0, 1.0], [2.0, 3.0]]), jnp.array([5.0, 5.0]))
    >>> x.round(4)
    Array([1., 1.], dtype=float32)
    """
    if solve_method not in ("incremental", "batched"):
        raise ValueError(
            f"invalid solve_method {solve_method}, must be either 'incremental' or"
            " 'batched'"
        )
    restart = int(operator.index(restart))
    if restart < 0:
        raise ValueError(f"gmres takes restart >= 0, got {restart}")
    early = solve_method == "incremental"
    method = partial(_gmres, restart=restart, early=early)
    x = _solve("gmres", method, A, b, x0, tol, atol, maxiter, M)
    total = sum(jnp.sum(jnp.abs(leaf)) for leaf in tree_util.tree_leaves(x))
    return x, jnp.where(jnp.isnan(total), -1, 0)


# --- what they share -----------------------------------------------------------------


def _linear_map(f: Any) -> LinearMap:
    """A matrix, or a function, as a function."""
    if callable(f):
        return f
    if not hasattr(f, "__matmul__"):
        raise TypeError(f"linear operator must be either a function or ndarray: {f}")
    if len(f.shape) != 2 or f.shape[0] != f.shape[1]:
        raise ValueError(
            f"linear operator must be a square matrix, but has shape: {f.shape}"
        )
    if isinstance(f, (np.ndarray, Array)):
        return partial(_dot, f)
    return partial(operator.matmul, f)


def _solve(
    name: str,
    method: Callable[..., Any],
    A: Any,
    b: Any,
    x0: Any,
    tol: float,
    atol: float,
    maxiter: int | None,
    M: Any,
) -> Any:
    check_arraylike(name, tol, atol)
    b = tree_util.tree_map(jnp.asarray, b)
    if x0 is None:
        x0 = tree_util.tree_map(jnp.zeros_like, b)
    else:
        x0 = tree_util.tree_map(jnp.asarray, x0)
        _check_alike(x0, b)
        b = tree_util.tree_map(lambda b, x: promote_dtypes(b, x)[0], b, x0)
    A, M = _linear_map(A), (lambda x: x) if M is None else _linear_map(M)
    start, _ = ravel_pytree(x0)
    if maxiter is None:
        maxiter = 10 * start.size

    def solve(matvec: LinearMap, b: Any) -> Any:
        right, unravel = ravel_pytree(b)

        def on_vectors(f: LinearMap) -> LinearMap:
            return lambda v: ravel_pytree(f(unravel(v)))[0]

        limit = jnp.maximum(tol * jnp.linalg.norm(right), atol)
        x = method(
            on_vectors(matvec),
            right,
            start.astype(right.dtype),
            limit=limit,
            maxiter=maxiter,
            M=on_vectors(M),
        )
        return unravel(x)

    leaves = tree_util.tree_leaves(b)
    real = not any(dtypes.issubdtype(x.dtype, np.complexfloating) for x in leaves)
    symmetric = method is _cg and real
    x = lax.custom_linear_solve(
        A, b, solve=solve, transpose_solve=solve, symmetric=symmetric
    )
    return tree_util.tree_map(lambda x, b: cast(x, b.dtype, b.weak_type), x, b)


def _check_alike(x0: Any, b: Any) -> None:
    structures = tree_util.tree_structure(x0), tree_util.tree_structure(b)
    if structures[0] != structures[1]:
        raise ValueError(
            "x0 and b must have matching tree structure:"
            f" {structures[0]} vs {structures[1]}"
        )
    shapes = [[np.shape(x) for x in tree_util.tree_leaves(t)] for t in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}"
        )


def _square(x: Any) -> Any:
    return _vdot(x, x).real


# --- the methods, on vectors ---------------------------------------------------------


def _cg(A: LinearMap, b: Any, x: Any, *, limit: Any, maxiter: int, M: LinearMap) -> Any:
    def unfinished(state: Any) -> Any:
        _, r, _, _, k = state
        return (_square(r) > limit * limit) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, p, gamma, k = state
        ap = A(p)
        alpha = (gamma / _vdot(p, ap).real).astype(x.dtype)
        x, r = x + alpha * p, r - alpha * ap
        z = M(r)
        following = _vdot(r, z).real
        p = z + (following / gamma).astype(x.dtype) * p
        return x, r, p, following, k + 1

    r = b - A(x)
    z = M(r)
    return lax.while_loop(unfinished, step, (x, r, z, _vdot(r, z).real, 0))[0]


def _bicgstab(
    A: LinearMap, b: Any, x: Any, *, limit: Any, maxiter: int, M: LinearMap
) -> Any:
    def unfinished(state: Any) -> Any:
        r, broken, k = state[1], state[-2], state[-1]
        return (_square(r) > limit * limit) & (k < maxiter) & ~broken

    def step(state: Any) -> Any:
        x, r, p, q, alpha, omega, rho, _, k = state
        following = _vdot(shadow, r)
        p = r + following / rho * (alpha / omega) * (p - omega * q)
        direction = M(p)
        q = A(direction)
        alpha = following / _vdot(shadow, q)
        s = r - alpha * q
        done = _square(s) < limit * limit
        correction = M(s)
        t = A(correction)
        omega = _vdot(t, s) / _vdot(t, t)
        half = x + alpha * direction
        x = jnp.where(done, half, half + omega * correction)
        r = jnp.where(done, s, s - omega * t)
        broken = (omega == 0) | (alpha == 0) | (following == 0)
        return x, r, p, q, alpha, omega, following, broken, k + 1

    shadow = r = b - A(x)
    one = jnp.ones((), b.dtype)
    start = (x, r, r, r, one, one, one, np.bool_(False), 0)
    return lax.while_loop(unfinished, step, start)[0]


def _gmres(
    A: LinearMap,
    b: Any,
    x: Any,
    *,
    limit: Any,
    maxiter: int,
    M: LinearMap,
    restart: int,
    early: bool,
) -> Any:
    restart = min(restart, b.size)
    # The residual that is minimised is the preconditioned one.
    scale = jnp.linalg.norm(M(b)) / jnp.linalg.norm(b)
    inner_limit = limit * scale if early else jnp.zeros_like(limit)

    def unfinished(state: Any) -> Any:
        _, r, k = state
        return (jnp.linalg.norm(r) > limit) & (k < maxiter)

    def cycle(state: Any) -> Any:
        x, r, k = state
        x = x + _krylov_correction(lambda v: M(A(v)), r, restart, inner_limit)
        return x, M(b - A(x)), k + 1

    return lax.while_loop(unfinished, cycle, (x, M(b - A(x)), 0))[0]


def _krylov_correction(A: LinearMap, r: Any, restart: int, limit: Any) -> Any:
    """The vector of the Krylov space of r for which |r - A x| is least.

    Arnoldi's method; its Hessenberg matrix is kept triangular by Givens rotations, by
    which the length of the residual is known at every step.
    """
    length = jnp.linalg.norm(r)
    eps = dtypes.finfo(r.dtype).eps
    basis = jnp.zeros((restart + 1, r.size), r.dtype).at[0].set(_unit(r, length))
    # Column k of the triangle is row k here; unused rows are those of the identity.
    triangle = jnp.eye(restart, dtype=r.dtype)
    rotations = jnp.zeros((restart, 2), r.dtype)
    right = jnp.zeros(restart + 1, r.dtype).at[0].set(length.astype(r.dtype))

    def unfinished(state: Any) -> Any:
        _, _, _, right, k, broken = state
        return (k < restart) & (jnp.abs(right[k]) > limit) & ~broken

    def step(state: Any) -> Any:
        basis, triangle, rotations, right, k, _ = state
        w = A(basis[k])
        before = jnp.linalg.norm(w)
        w, column = _orthogonalise(basis, w)
        after = jnp.linalg.norm(w)
        broken = after <= eps * before
        after = jnp.where(broken, 0, after)
        basis = basis.at[k + 1].set(_unit(w, after))
        column = column.at[k + 1].set(after.astype(r.dtype))
        column = lax.fori_loop(0, k, lambda i, c: _rotate(c, i, rotations[i]), column)
        rotation = _rotation(column[k], column[k + 1])
        column, right = _rotate(column, k, rotation), _rotate(right, k, rotation)
        triangle = triangle.at[k].set(column[:-1])
        return basis, triangle, rotations.at[k].set(rotation), right, k + 1, broken

    start = (basis, triangle, rotations, right, 0, np.bool_(False))
    basis, triangle, _, right, k, _ = lax.while_loop(unfinished, step, start)
    known = jnp.arange(restart) < k
    right = jnp.where(known, right[:-1], 0)
    # A diagonal of 0 is that of a singular system: leave its direction out.
    singular = jnp.diagonal(triangle) == 0
    triangle = triangle + jnp.diag(singular.astype(r.dtype))
    y = lax.linalg.triangular_solve(
        triangle, right[:, None], left_side=True, lower=True, transpose_a=True
    )[:, 0]
    return _dot(jnp.where(singular, 0, y), basis[:-1])


def _unit(x: Any, length: Any) -> Any:
    nonzero = length > 0
    return jnp.where(nonzero, x / jnp.where(nonzero, length, 1).astype(x.dtype), 0)


def _orthogonalise(basis: Any, w: Any) -> tuple[Any, Any]:
    """w without its part in the span of the rows of `basis`, and that part.

    Twice by Gram and Schmidt, which leaves nothing but rounding.
    """
    first = _dot(basis.conj(), w)
    w = w - _dot(first, basis)
    second = _dot(basis.conj(), w)
    return w - _dot(second, basis), first + second


def _rotation(a: Any, b: Any) -> Any:
    """The c and s for which the rotation of (a, b) is (r, 0)."""
    length = jnp.sqrt(jnp.abs(a) ** 2 + jnp.abs(b) ** 2)
    nonzero = length > 0
    safe = jnp.where(nonzero, length, 1).astype(a.dtype)
    return jnp.stack([jnp.where(nonzero, a / safe, 1), jnp.where(nonzero, b / safe, 0)])


def _rotate(x: Any, i: Any, rotation: Any) -> Any:
    c, s = rotation
    upper = c.conj() * x[i] + s.conj() * x[i + 1]
    lower = c * x[i + 1] - s * x[i]
    return x.at[i].set(upper).at[i + 1].set(lower)
