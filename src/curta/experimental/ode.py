"""Initial value problems of ordinary differential equations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax, tree_util
from curta._base.on_demand import Listing, own
from curta.api.custom_derivatives import custom_vjp
from curta.api.custom_gradient import closure_convert
from curta.api.vjp import vjp
from curta.api.vmap import vmap
from curta.core.trace import typeof
from curta.flatten_util import ravel_pytree
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import promote_dtypes_inexact

__dir__: Listing = own(__name__)

# The tableau of Dormand and Prince (1980), and the weights with which its stages give
# the value in the middle of a step: L. Shampine, Some practical Runge-Kutta formulas.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
_STAGES = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
_SOLUTION = np.array([*_STAGES[-1], 0])
_LOWER_ORDER = np.array(
    [1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60]
)
_MIDDLE = np.array(
    [
        6025192743 / 30085553152,
        0,
        51252292925 / 65400821598,
        -2691868925 / 45128329728,
        187940372067 / 1594534317056,
        -1776094331 / 19743644256,
        11237099 / 235043384,
    ]
)


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """The solution of dy/dt = func(y, t, *args) at increasing times.

    Args:
      func: function of the state, the time and `args` that returns the derivative, a
        pytree like the state.
      y0: the state at t[0]: an array or a pytree of arrays.
      t: times, a vector of floats.
      args: further arguments of `func`, arrays or pytrees of them.
      rtol, atol: the relative and absolute error allowed of a step. Default 1.4e-8.
      mxstep: the most steps between two times. Default inf.
      hmax: the longest step. Default inf.

    Returns:
      The states at the times, stacked along a new first axis.

    Raises:
      IndexError: if `t` is empty.
      TypeError: if the times are not a vector of floats, a leaf of `y0` or `args` is
        not an array, a tolerance is not a number, or `func` is not callable.
      ValueError: if `func` does not return a tree like the state.

    By the Runge-Kutta method of orders 5 and 4 of J. Dormand and P. Prince (1980).
    Reverse mode solves the adjoint equation backwards in time (R. Chen et al., Neural
    ordinary differential equations, 2018), which keeps no intermediate states.

    >>> from curta import numpy as jnp
    >>> from curta.experimental.ode import odeint
    >>> t = jnp.array([0.0, 1.0])
    >>> odeint(lambda y, t: -y, 1.0, t, rtol=1e-5, atol=1e-5).round(4)
    Array([1.    , 0.3679], dtype=float32)
    """
    for x in tree_util.tree_leaves(args):
        try:
            typeof(x)
        except TypeError as error:
            raise TypeError(
                f"The contents of odeint *args must be arrays or scalars, but got {x}."
            ) from error
    check_arraylike("odeint", rtol, atol, mxstep, hmax)
    if not jnp.issubdtype(typeof(t).dtype, np.floating):
        raise TypeError(f"t must be an array of floats, but got {t}.")
    t = jnp.asarray(t)
    if t.ndim != 1:
        raise TypeError(f"t must be a vector of times, but got the shape {t.shape}.")
    converted, constants = closure_convert(func, y0, t[0], *args)
    flat, unravel = ravel_pytree(y0)
    (flat,) = promote_dtypes_inexact(flat)

    def derivative(y: Any, t: Any, *args: Any) -> Any:
        slope, _ = ravel_pytree(converted(unravel(y), t, *args))
        if slope.shape != y.shape:
            raise ValueError(
                "odeint func must return a tree like the state y0, which has"
                f" {y.size} elements in all, but returned {slope.size} of them."
            )
        if jnp.iscomplexobj(slope) and not jnp.iscomplexobj(y):
            raise TypeError(
                f"odeint func returned {slope.dtype} for a state of {y.dtype}: give a"
                " complex y0."
            )
        return slope.astype(y.dtype)

    settings = (rtol, atol, mxstep, hmax)
    states = _solve(derivative, settings, flat, t, *args, *constants)
    return vmap(unravel)(states)


@partial(custom_vjp, nondiff_argnums=(0, 1))
def _solve(func: Any, settings: Any, y0: Any, ts: Any, *args: Any) -> Any:
    rtol, atol, mxstep, hmax = settings

    def derivative(y: Any, t: Any) -> Any:
        return func(y, t, *args)

    def advance(state: Any, target: Any) -> tuple[Any, Any]:
        def unfinished(counted: Any) -> Any:
            steps, (_, _, t, dt, _, _) = counted
            return (t < target) & (steps < mxstep) & (dt > 0)

        def step(counted: Any) -> Any:
            steps, (y, f, t, dt, last, curve) = counted
            after, f_after, error, stages = _step(derivative, y, f, t, dt)
            ratio = _error_ratio(error, rtol, atol, y, after)
            longer = jnp.clip(_next_step(dt, ratio), 0.0, hmax)
            fitted = _interpolation(y, after, stages, dt)
            taken = (after, f_after, t + dt, longer, t, fitted)
            refused = (y, f, t, longer, last, curve)
            return steps + 1, _where(ratio <= 1, taken, refused)

        _, state = lax.while_loop(unfinished, step, (0, state))
        _, _, t, _, last, curve = state
        share = (target - last) / (t - last)
        return state, jnp.polyval(curve, share.astype(curve.dtype))

    f0 = derivative(y0, ts[0])
    dt = _first_step(derivative, ts[0], y0, rtol, atol, f0)
    dt = jnp.clip(dt, 0.0, hmax).astype(ts.dtype)
    curve = jnp.stack([y0] * 5)
    start = (y0, f0, ts[0], dt, ts[0], curve)
    _, ys = lax.scan(advance, start, ts[1:])
    return jnp.concatenate([y0[None], ys])


def _where(condition: Any, a: Any, b: Any) -> Any:
    return tuple(jnp.where(condition, x, y) for x, y in zip(a, b))


def _dot(weights: Any, stages: Any) -> Any:
    weights = np.asarray(weights).astype(stages.dtype)
    return jnp.dot(weights, stages, precision=lax.Precision.HIGHEST)


def _step(func: Any, y: Any, f: Any, t: Any, dt: Any) -> tuple[Any, Any, Any, Any]:
    """The state after a step, its derivative, the error, and the stages (7, n)."""
    h = dt.astype(f.dtype)
    stages = f[None]
    for time, weights in zip(_TIMES.tolist(), _STAGES):
        point = y + h * _dot(weights, stages)
        stages = jnp.concatenate([stages, func(point, t + dt * time)[None]])
    after = y + h * _dot(_SOLUTION, stages)
    return after, stages[-1], h * _dot(_SOLUTION - _LOWER_ORDER, stages), stages


def _interpolation(y0: Any, y1: Any, stages: Any, dt: Any) -> Any:
    """The polynomial of order 4 through the ends, their slopes and the middle."""
    h = dt.astype(y0.dtype)
    middle = y0 + h * _dot(_MIDDLE / 2, stages)
    d0, d1 = h * stages[0], h * stages[-1]
    return jnp.stack(
        [
            2 * (d1 - d0) - 8 * (y0 + y1) + 16 * middle,
            5 * d0 - 3 * d1 + 18 * y0 + 14 * y1 - 32 * middle,
            d1 - 4 * d0 - 11 * y0 - 5 * y1 + 16 * middle,
            d0,
            y0,
        ]
    )


def _error_ratio(error: Any, rtol: Any, atol: Any, y0: Any, y1: Any) -> Any:
    """The error as a multiple of what is allowed, in the mean."""
    allowed = atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    ratio = jnp.abs(error) / allowed
    return jnp.sqrt(jnp.mean(ratio * ratio))


def _next_step(dt: Any, ratio: Any) -> Any:
    """As long as the error lets it, at most ten times, at least a fifth."""
    shortest = jnp.where(ratio < 1, 1.0, 0.2)
    safe = jnp.where(ratio == 0, 1, ratio)
    factor = jnp.minimum(10.0, jnp.maximum(0.9 * safe**-0.2, shortest))
    return (dt * jnp.where(ratio == 0, 10.0, factor)).astype(dt.dtype)


def _first_step(func: Any, t: Any, y: Any, rtol: Any, atol: Any, f: Any) -> Any:
    """E. Hairer, S. Nørsett, G. Wanner, Solving Ordinary Differential Equations I."""
    allowed = atol + rtol * jnp.abs(y)
    size, slope = jnp.linalg.norm(y / allowed), jnp.linalg.norm(f / allowed)
    tiny = (size < 1e-5) | (slope < 1e-5)
    h0 = jnp.where(tiny, 1e-6, 0.01 * size / jnp.where(tiny, 1, slope))
    later = func(y + h0.astype(y.dtype) * f, (t + h0).astype(t.dtype))
    bend = jnp.linalg.norm((later - f) / allowed) / h0
    steep = jnp.maximum(slope, bend)
    flat = steep <= 1e-15
    h1 = jnp.where(
        flat, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / jnp.where(flat, 1, steep)) ** 0.2
    )
    return jnp.minimum(100 * h0, h1)


def _solve_fwd(func: Any, settings: Any, y0: Any, ts: Any, *args: Any) -> Any:
    ys = _solve(func, settings, y0, ts, *args)
    return ys, (ys, ts, args)


def _solve_bwd(func: Any, settings: Any, residuals: Any, cotangent: Any) -> Any:
    ys, ts, args = residuals
    ys, ts, cotangent = map(jnp.asarray, (ys, ts, cotangent))
    rtol, atol, mxstep, hmax = settings

    def adjoint(state: Any, t: Any, *args: Any) -> Any:
        """The state and its cotangents, backwards in time."""
        y, y_bar, *_ = state
        slope, pullback = vjp(func, y, -t, *args)
        return (-slope, *pullback(y_bar))

    def back(carry: Any, i: Any) -> tuple[Any, Any]:
        y_bar, t0_bar, args_bar = carry
        t_bar = jnp.real(jnp.dot(func(ys[i], ts[i], *args), cotangent[i]))
        t_bar = t_bar.astype(ts.dtype)
        start = (ys[i], y_bar, t0_bar - t_bar, *args_bar)
        line = jnp.stack([-ts[i], -ts[i - 1]])
        states = odeint(
            adjoint, start, line, *args, rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax
        )
        _, y_bar, t0_bar, *args_bar = tree_util.tree_map(lambda x: x[1], states)
        return (y_bar + cotangent[i - 1], t0_bar, tuple(args_bar)), t_bar

    zero = jnp.zeros((), ts.dtype)
    nothing = tree_util.tree_map(jnp.zeros_like, args)
    start = (cotangent[-1], zero, nothing)
    order = jnp.arange(len(ts) - 1, 0, -1)
    (y_bar, t0_bar, args_bar), later = lax.scan(back, start, order)
    ts_bar = jnp.concatenate([t0_bar[None], jnp.flip(later)])
    return (y_bar, ts_bar, *args_bar)


_solve.defvjp(_solve_fwd, _solve_bwd)
