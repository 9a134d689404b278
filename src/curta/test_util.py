"""Checks of derivatives against finite differences."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta._base.on_demand import Listing, listed
from curta.api.jvp import jvp
from curta.api.vjp import linearize, vjp
from curta.core.avals import is_python_scalar
from curta.core.trace import typeof

__all__ = ["check_close", "check_grads", "check_jvp", "check_vjp"]
__dir__: Listing = listed(__all__)

_STEP = 1e-4

# By how many bits the significand has, since there are many small float types.
_TOLERANCES = {52: 1e-5, 23: 2e-3, 10: 1e-2}
_COARSE = 1e-1


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Any = None,
    rtol: Any = None,
    eps: float | None = None,
) -> None:
    """Check derivatives of `f` at `args` up to an order, along random directions.

    Args:
      f: function of pytrees of arrays.
      args: its arguments.
      order: the highest order of derivatives.
      modes: which modes, out of "fwd", "rev" and "lin" (for `linearize`).
      atol, rtol: tolerances, or dictionaries of them by dtype.
      eps: the step of the finite differences.

    Raises:
      AssertionError: if a derivative is not close to the finite difference.

    Returns:
      None, if all are close.

    >>> import curta.numpy as jnp
    >>> from curta.test_util import check_grads
    >>> check_grads(jnp.sin, (1.0,), order=2)
    """
    tolerances = {"atol": atol, "rtol": rtol, "eps": eps or _STEP}
    args = tuple(args)
    if "fwd" in modes:
        check_jvp(f, functools.partial(jvp, f), args, err_msg="JVP", **tolerances)
    if "rev" in modes:
        check_vjp(f, functools.partial(vjp, f), args, err_msg="VJP", **tolerances)
    if "lin" in modes:
        pushed = functools.partial(_linearized, f)
        check_jvp(f, pushed, args, err_msg="LIN", **tolerances)
    if order <= 1:
        return
    if "fwd" in modes:
        check_grads(
            functools.partial(jvp, f),
            (args, _tangents(args)),
            order - 1,
            modes,
            atol,
            rtol,
            eps,
        )
    if "rev" in modes:
        check_grads(
            functools.partial(_pulled, f), args, order - 1, modes, atol, rtol, eps
        )
    if "lin" in modes:
        check_grads(pushed, (args, _tangents(args)), order - 1, modes, atol, rtol, eps)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Any = None,
    rtol: Any = None,
    eps: float = _STEP,
    err_msg: str = "",
) -> None:
    """Check `f_jvp(args, tangents)` along one random direction.

    Args:
      f: function of pytrees of arrays.
      f_jvp: function of the arguments and their tangents, to the output and its
        tangent.
      args: the arguments of `f`.
      atol, rtol: tolerances, or dictionaries of them by dtype; by default by the dtype.
      eps: the step of the finite differences.
      err_msg: what the error begins with.

    Returns:
      None, if they are close.

    Raises:
      AssertionError: if the output differs from the output of `f`, or the tangent is
        not close to the finite difference.

    >>> import functools, curta, curta.numpy as jnp
    >>> from curta.test_util import check_jvp
    >>> check_jvp(jnp.sin, functools.partial(curta.jvp, jnp.sin), (1.0,))
    """
    args = tuple(args)
    tangents = _random_like(args, np.random.RandomState(0))
    out, out_tangent = f_jvp(args, tangents)
    check_close(out, f(*args), atol, rtol, f"{err_msg} primal")
    expected = _finite_difference(f, args, tangents, eps)
    check_close(out_tangent, expected, atol, rtol, f"{err_msg} tangent")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Any = None,
    rtol: Any = None,
    eps: float = _STEP,
    err_msg: str = "",
) -> None:
    """Check `f_vjp(*args)`, an output and a pullback, for one random cotangent.

    Args:
      f: function of pytrees of arrays.
      f_vjp: function of the arguments to the output and a pullback.
      args: the arguments of `f`.
      atol, rtol: tolerances, or dictionaries of them by dtype; by default by the dtype.
      eps: the step of the finite differences.
      err_msg: what the error begins with.

    Returns:
      None, if they agree.

    Raises:
      AssertionError: if the output differs from the output of `f`, or the cotangents do
        not agree with the finite difference along a random direction: <ct, J t> = <J^T
        ct, t>.

    >>> import functools, curta, curta.numpy as jnp
    >>> from curta.test_util import check_vjp
    >>> check_vjp(jnp.sin, functools.partial(curta.vjp, jnp.sin), (1.0,))
    """
    args = tuple(args)
    out, pullback = f_vjp(*args)
    check_close(out, f(*args), atol, rtol, f"{err_msg} primal")
    rng = np.random.RandomState(0)
    tangents = _random_like(args, rng)
    out_tangents = _finite_difference(f, args, tangents, eps)
    cotangents = _random_like(out, rng)
    conjugate = functools.partial(tree_util.tree_map, _conjugate)
    pulled = conjugate(pullback(conjugate(cotangents)))
    result, expected = _inner(tangents, pulled), _inner(out_tangents, cotangents)
    check_close(result, expected, atol, rtol, f"{err_msg} cotangent projection")


def check_close(
    xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = ""
) -> None:
    """Check that two pytrees of arrays agree; tolerances grow with the size.

    Args:
      xs, ys: pytrees of arrays and scalars, of the same structure.
      atol, rtol: tolerances, or dictionaries of them by dtype; by default by the dtype.
      err_msg: what the error begins with.

    Returns:
      None, if they agree.

    Raises:
      AssertionError: for other values or shapes.
      ValueError: for trees of other structures.

    >>> from curta.test_util import check_close
    >>> check_close({"a": 1.0}, {"a": 1.0 + 1e-5})
    """

    def check(x: Any, y: Any) -> None:
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype == dtypes.float0:
            assert y.dtype == dtypes.float0, f"{err_msg}: {y.dtype} is not float0"
            return
        assert x.shape == y.shape, f"{err_msg}: shapes {x.shape} and {y.shape}"
        absolute, relative = (
            max(_tolerance(x.dtype, given), _tolerance(y.dtype, given)) * max(x.size, 1)
            for given in (atol, rtol)
        )
        np.testing.assert_allclose(
            _wide(x), _wide(y), rtol=relative, atol=absolute, err_msg=err_msg
        )

    tree_util.tree_map(check, xs, ys)


# ---- finite differences


def _finite_difference(
    f: Callable[..., Any], args: Any, tangents: Any, eps: float
) -> Any:
    """(f(x + eps t) - f(x - eps t)) / (2 eps)."""

    def moved(step: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            if np.asarray(t).dtype == dtypes.float0:
                return x
            return _as_before(x, _wide(x) + step * _wide(t))

        return f(*tree_util.tree_map(move, args, tangents))

    def difference(above: Any, below: Any) -> Any:
        aval = typeof(above).to_tangent_aval()
        if aval.dtype == dtypes.float0:
            return np.zeros(aval.shape, dtypes.float0)
        with np.errstate(invalid="ignore"):
            change = _wide(above) - _wide(below)
        same = np.equal(above, below)  # an infinity minus itself among them
        return np.where(same, 0, change / (2 * eps)).astype(aval.dtype)

    return tree_util.tree_map(difference, moved(eps), moved(-eps))


def _tangents(tree: Any) -> Any:
    """The values themselves as tangents: float0 zeros for integers."""

    def tangent(x: Any) -> Any:
        aval = typeof(x).to_tangent_aval()
        is_zero = aval.dtype == dtypes.float0
        return np.zeros(aval.shape, dtypes.float0) if is_zero else x

    return tree_util.tree_map(tangent, tree)


def _random_like(tree: Any, rng: np.random.RandomState) -> Any:
    """Random tangents for a pytree of arrays: float0 zeros for integers."""

    def draw(x: Any) -> Any:
        aval = typeof(x).to_tangent_aval()
        if aval.dtype == dtypes.float0:
            return np.zeros(aval.shape, dtypes.float0)
        values = rng.randn(*aval.shape)
        if dtypes.issubdtype(aval.dtype, np.complexfloating):
            values = values + 1j * rng.randn(*aval.shape)
        return _as_before(x, np.asarray(values))

    return tree_util.tree_map(draw, tree)


def _as_before(x: Any, values: Any) -> Any:
    """`values` as what `x` is: a Python scalar, or an array of its dtype."""
    if is_python_scalar(x):
        return type(x)(values)
    return values.astype(typeof(x).dtype)


def _inner(xs: Any, ys: Any) -> Any:
    def product(x: Any, y: Any) -> Any:
        if np.asarray(y).dtype == dtypes.float0:
            return None  # no leaf, so that the dtype is that of the others
        return np.real(np.vdot(np.asarray(x), np.asarray(y)))

    terms = tree_util.tree_leaves(tree_util.tree_map(product, xs, ys))
    return functools.reduce(np.add, terms) if terms else 0.0


def _conjugate(x: Any) -> Any:
    return x if np.asarray(x).dtype == dtypes.float0 else np.conj(x)


def _linearized(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    out, pushforward = linearize(f, *primals)
    return out, pushforward(*tangents)


def _pulled(f: Callable[..., Any], *args: Any) -> Any:
    out, pullback = vjp(f, *args)
    return pullback(_tangents(out))


def _wide(x: Any) -> Any:
    """`x` in a type in which NumPy computes and compares."""
    x = np.asarray(x)
    return x.astype(np.float64) if dtypes.issubdtype(x.dtype, np.floating) else x


def _tolerance(dtype: Any, given: Any) -> float:
    if isinstance(given, dict):
        given = {np.dtype(key): value for key, value in given.items()}.get(dtype)
    if given is not None:
        return float(given)
    if not dtypes.issubdtype(dtype, np.inexact):
        return 0.0
    return _TOLERANCES.get(dtypes.finfo(dtype).nmant, _COARSE)
