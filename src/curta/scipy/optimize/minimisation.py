"""Quasi-Newton minimization: BFGS, and its variant of limited memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.api.grad import value_and_grad
from curta.core.array import Array
from curta.numpy.arguments import check_arraylike
from curta.scipy.optimize.line_search import LineSearchResult, line_search

_dot = partial(jnp.dot, precision=lax.Precision.HIGHEST)


class OptimizeResults(NamedTuple):
    """The result of `minimize`.

    x: the solution.
    success: whether it converged.
    status: 0 converged; 1 the most iterations reached. BFGS: 3 the line search failed
      within an interval, 5 it found none. L-BFGS: 2, 3 the most evaluations reached, 4
      no progress, 5 the line search failed.
    fun: the function at x.
    jac: its gradient.
    hess_inv: the approximation of the inverse Hessian, or None.
    nfev, njev: the number of evaluations of the function, and of its gradient.
    nit: the number of iterations.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.optimize import minimize
    >>> result = minimize(lambda x: ((x - 3) ** 2).sum(), jnp.zeros(1), method="BFGS")
    >>> result.x.round(3), bool(result.success)
    (Array([3.], dtype=float32), True)
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., Any],
    x0: Array,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResults:
    """Minimize a scalar function of a vector.

    Args:
      fun: function of a vector of shape (n,), and of `args`, that returns a scalar.
      x0: where to start, of shape (n,).
      args: further arguments of `fun`, a tuple. Default ().
      method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this".
      tol: the largest component of the gradient to stop at, a scalar: the option gtol.
        None (default) uses the default of the method.
      options: of BFGS `maxiter`, `norm` (of the gradient), `gtol`,
        `line_search_maxiter`; of L-BFGS `maxiter`, `norm`, `maxcor` (pairs kept),
        `ftol`, `gtol`, `maxfun`, `maxgrad`, `maxls`. None (default) for none.

    Returns:
      An `OptimizeResults`: the minimum `x` of the shape of `x0`, `success`, `status`,
      `fun`, `jac`, `hess_inv`, and how often what was evaluated.

    Raises:
      TypeError: if `args` is not a tuple, `x0` no vector of floats, `tol` no number,
        `options` no mapping of known names, and if `fun` returns no scalar.
      ValueError: for another method, and for a scalar `x0`.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.optimize import minimize
    >>> result = minimize(lambda x: jnp.sum((x - 3) ** 2), jnp.zeros(2), method="BFGS")
    >>> result.x.round(3)
    Array([3., 3.], dtype=float32)
    """
    if not isinstance(args, tuple):
        raise TypeError(
            f"args argument to jax.scipy.optimize.minimize must be a tuple, got {args}"
        )
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(
            f"options argument to minimize must be a mapping, not {type(options)}"
        )
    options = dict(options or {})
    x0 = jnp.asarray(x0)
    if x0.ndim > 1:
        raise TypeError(f"minimize takes x0 of shape (n,), got the shape {x0.shape}")
    if tol is not None:
        check_arraylike("minimize", tol)
        if jnp.ndim(tol):
            raise TypeError(f"minimize takes tol as one number, got {tol}")
        options.setdefault("gtol", tol)
    objective = (lambda x: fun(x, *args)) if args else fun
    if method.lower() == "bfgs":
        return minimize_bfgs(objective, x0, **options)
    if method.lower() == "l-bfgs-experimental-do-not-rely-on-this":
        return _minimize_lbfgs(objective, x0, **options)
    raise ValueError(
        f"Method {method} not recognized: there is BFGS. SciPy's methods take exact"
        " gradients: scipy.optimize.minimize(jit(value_and_grad(fun)), x0, jac=True)."
    )


class _MinimizerState(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    older_value: Any
    memory: Any
    converged: Any
    status: Any
    iterations: Any
    evaluations: Any


def _descend(
    fun: Callable[[Any], Any],
    x: Any,
    memory: Any,
    direction: Callable[[_MinimizerState], Any],
    first_step: Callable[[_MinimizerState, Any], Any],
    update: Callable[[Any, Any, Any], Any],
    ending: Callable[[_MinimizerState, _MinimizerState, LineSearchResult], Any],
    *,
    norm: Any,
    gtol: float,
    maxiter: Any,
    maxls: int,
) -> _MinimizerState:
    """The loop of quasi-Newton methods, which differ in what they remember.

    `direction` goes downhill by the memory, `update` takes a step and the change of
    the gradient into it, and `ending` gives the status of an iteration, 0 to go on.
    """

    def is_small(gradient: Any) -> Any:
        return jnp.linalg.norm(gradient, ord=norm) < gtol

    def unfinished(s: _MinimizerState) -> Any:
        return ~s.converged & (s.status == 0) & (s.iterations < maxiter)

    def iterate(s: _MinimizerState) -> _MinimizerState:
        p = direction(s)
        first = first_step(s, p)
        result = line_search(fun, s.x, p, s.value, s.gradient, first, maxls)
        step = result.point.step.astype(p.dtype) * p
        gradient = result.point.gradient
        after = _MinimizerState(
            s.x + step,
            result.point.value,
            gradient,
            s.value,
            update(s, step, gradient - s.gradient),
            is_small(gradient),
            0,
            s.iterations + 1,
            s.evaluations + result.evaluations,
        )
        status = jnp.where(after.converged, 0, ending(s, after, result))
        return after._replace(status=status)

    value, gradient = value_and_grad(fun)(x)
    older = value + jnp.linalg.norm(gradient) / 2
    start = _MinimizerState(
        x, value, gradient, older, memory, is_small(gradient), 0, 0, 1
    )
    return lax.while_loop(unfinished, iterate, start)


def _results(s: _MinimizerState, status: Any, inverse: Any) -> OptimizeResults:
    return OptimizeResults(
        x=s.x,
        success=s.converged,
        status=status,
        fun=s.value,
        jac=s.gradient,
        hess_inv=inverse,
        nfev=s.evaluations,
        njev=s.evaluations,
        nit=s.iterations,
    )


# --- BFGS ----------------------------------------------------------------------------


def minimize_bfgs(
    fun: Callable[[Any], Any],
    x0: Any,
    maxiter: int | None = None,
    norm: Any = np.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    x0 = jnp.asarray(x0)
    maxiter = 200 * x0.size if maxiter is None else maxiter

    def direction(s: _MinimizerState) -> Any:
        return -_dot(s.memory, s.gradient)

    def first_step(s: _MinimizerState, p: Any) -> Any:
        # As far as the last step went down, at most a whole Newton step.
        guess = 1.01 * 2 * (s.value - s.older_value) / jnp.real(_dot(s.gradient, p))
        return jnp.where(guess > 1, 1, guess)

    def update(s: _MinimizerState, step: Any, change: Any) -> Any:
        product = _dot(change, step)
        rho = 1 / product
        # The first guess, 1, may be too far from the Hessian for its entries to hold
        # both: scale it by what the first step has shown (Nocedal and Wright, 6.20).
        scale = jnp.where(s.iterations == 0, product / _dot(change, change), 1)
        left = jnp.eye(step.size, dtype=rho.dtype) - rho * jnp.outer(step, change)
        inverse = _dot(_dot(left, scale * s.memory), left.T)
        inverse = inverse + rho * jnp.outer(step, step)
        return jnp.where(jnp.isfinite(rho), inverse, s.memory)

    def ending(_: _MinimizerState, __: _MinimizerState, line: LineSearchResult) -> Any:
        return jnp.where(line.failed, 2 + line.status, 0)

    end = _descend(
        fun,
        x0,
        jnp.eye(x0.size, dtype=x0.dtype),
        direction,
        first_step,
        update,
        ending,
        norm=norm,
        gtol=gtol,
        maxiter=maxiter,
        maxls=line_search_maxiter,
    )
    exhausted = ~end.converged & (end.iterations == maxiter)
    return _results(end, jnp.where(exhausted, 1, end.status), end.memory)


# --- L-BFGS --------------------------------------------------------------------------


class _Pairs(NamedTuple):
    """The last steps, the changes of the gradient, and their inverse products."""

    steps: Any
    changes: Any
    rho: Any
    scale: Any


def _minimize_lbfgs(
    fun: Callable[[Any], Any],
    x0: Any,
    maxiter: int | None = None,
    norm: Any = np.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-5,
    maxfun: float | None = None,
    maxgrad: float | None = None,
    maxls: int = 20,
) -> OptimizeResults:
    x0 = jnp.asarray(x0)
    if maxiter is None and maxfun is None and maxgrad is None:
        maxiter = 200 * x0.size
    most, maxfun, maxgrad = (
        np.inf if limit is None else limit for limit in (maxiter, maxfun, maxgrad)
    )
    rows = jnp.zeros((maxcor, x0.size), x0.dtype)
    real = rows.real.dtype
    memory = _Pairs(rows, rows, jnp.zeros(maxcor, real), jnp.ones((), real))

    def ending(
        before: _MinimizerState, after: _MinimizerState, line: LineSearchResult
    ) -> Any:
        reasons = [
            (line.failed, 5),
            (before.iterations >= most, 1),
            (before.evaluations >= maxfun, 2),
            (before.evaluations >= maxgrad, 3),
            (before.value - after.value < ftol, 4),
        ]
        conditions, codes = zip(*reasons)
        return jnp.select(conditions, codes, 0)

    end = _descend(
        fun,
        x0,
        memory,
        _two_loops,
        lambda s, p: jnp.ones((), s.value.dtype),
        _remember,
        ending,
        norm=norm,
        gtol=gtol,
        maxiter=np.inf,
        maxls=maxls,
    )
    return _results(end, end.status, None)


def _remember(s: _MinimizerState, step: Any, change: Any) -> _Pairs:
    product = jnp.real(_dot(change, step))
    size = jnp.real(_dot(change.conj(), change))

    def push(history: Any, new: Any) -> Any:
        return jnp.roll(history, -1, axis=0).at[-1].set(new)

    return _Pairs(
        push(s.memory.steps, step),
        push(s.memory.changes, change),
        push(s.memory.rho, 1 / product),
        product / size,
    )


def _two_loops(s: _MinimizerState) -> Any:
    """The direction by the remembered pairs; empty ones have rho = 0 and do nothing.

    J. Nocedal and S. Wright, Numerical Optimization (2006), algorithm 7.4.
    """
    pairs = s.memory

    def backwards(q: Any, pair: Any) -> Any:
        step, change, rho = pair
        a = rho * jnp.real(_dot(step.conj(), q))
        return q - a.astype(q.dtype) * change.conj(), a

    def forwards(q: Any, pair: Any) -> Any:
        step, change, rho, a = pair
        b = rho * jnp.real(_dot(change, q))
        return q + (a - b).astype(q.dtype) * step, None

    known = pairs.steps, pairs.changes, pairs.rho
    q, weights = lax.scan(backwards, -s.gradient.conj(), known, reverse=True)
    q = pairs.scale.astype(q.dtype) * q
    return lax.scan(forwards, q, (*known, weights))[0]
