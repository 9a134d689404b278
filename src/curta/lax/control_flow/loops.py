"""`while_loop` and `fori_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.api.signatures import R
from curta.config import config
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.trace import concrete_or_none, typeof
from curta.core.tracebacks import api_boundary
from curta.errors import ConcretizationTypeError
from curta.lax.control_flow.checks import check_carry
from curta.lax.control_flow.forwarding import run_while
from curta.lax.control_flow.scanning import scan_for
from curta.lax.control_flow.tracing import (
    TracedFunction,
    args_tree,
    check_refs,
    flat_arrays,
    settled,
    traced,
)
from curta.lax.conversion import convert_element_type


@api_boundary
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], R], init_val: Any
) -> R:
    """`val = init_val; while cond_fun(val): val = body_fun(val); return val`.

    Reverse mode works, an extension: JAX refuses it. It keeps at most
    `config.curta_while_checkpoints` states of the loop and computes the others again,
    so it takes several times as long as the loop.

    Args:
      cond_fun: from the carry to a boolean scalar.
      body_fun: from the carry to a carry of the same structure and types.
      init_val: the initial carry, a tree of arrays.

    Returns:
      The last carry.

    Raises:
      TypeError: if `cond_fun` gives anything else, or the carry comes out with another
        structure or other types than it went in.

    >>> from curta import lax
    >>> lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
    Array(192, dtype=int32, weak_type=True)
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError(
            "lax.while_loop: body_fun and cond_fun arguments should be callable."
        )
    return _while_for("while_loop", body_fun, cond_fun, body_fun, init_val)


def _while_for(
    user: str,
    shown: Callable[..., Any],
    cond_fun: Callable[..., Any],
    body_fun: Callable[..., Any],
    init_val: Any,
) -> Any:
    """`while_loop` for the function called `user`, which got `shown` as the body."""
    if config.jax_disable_jit:
        try:
            return _while_in_python(cond_fun, body_fun, init_val)
        except ConcretizationTypeError:
            pass  # The condition differs between the examples of a vmap.
    check_refs("while_loop", body_fun, init_val)
    leaves, tree = flat_arrays(init_val)
    in_tree = args_tree(init_val)

    def trace(avals: Sequence[ShapedArray]) -> TracedFunction:
        return traced(user, body_fun, in_tree, avals, shown)

    leaves, body = settled(leaves, trace, lambda t: t.out_avals)
    avals = [typeof(x) for x in leaves]
    condition = traced("while_loop", cond_fun, in_tree, avals)
    _check_condition(condition)
    check_carry("while_loop body", body_fun, tree, body.out_tree, avals, body.out_avals)
    op = While(
        condition.closed(condition.consts, [typeof(c) for c in condition.consts]),
        body.closed(body.consts, [typeof(c) for c in body.consts]),
        len(condition.consts),
        len(body.consts),
    )
    outs = run_while(op, [*condition.consts, *body.consts, *leaves])
    return tree_util.tree_unflatten(tree, outs)


def _while_in_python(
    cond_fun: Callable[..., Any], body_fun: Callable[..., Any], value: Any
) -> Any:
    # NumPy arrays become arrays, which no body updates in place.
    value = tree_util.tree_map(_array, value)
    while cond_fun(value):
        value = tree_util.tree_map(_array, body_fun(value))
    return value


def _array(x: Any) -> Any:
    return convert_element_type(x, typeof(x).dtype) if isinstance(x, np.ndarray) else x


def _check_condition(condition: TracedFunction) -> None:
    if condition.out_tree != tree_util.tree_structure(0):
        raise TypeError(
            "cond_fun must return a boolean scalar, but got pytree"
            f" {condition.out_tree}."
        )
    (aval,) = condition.out_avals
    if aval.shape or aval.dtype != np.bool_:
        raise TypeError(
            f"cond_fun must return a boolean scalar, but got output type(s) [{aval}]."
        )


@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], R],
    init_val: Any,
    *,
    unroll: int | float | bool | None = None,
) -> R:
    """`val = init_val; for i in range(lower, upper): val = body_fun(i, val)`.

    With static bounds it is a scan; with traced ones a while loop, whose states reverse
    mode computes again (see `while_loop`).

    Args:
      lower, upper: integer scalars of one dtype.
      body_fun: from the index and the carry to a carry of the same structure, shapes
        and dtypes.
      init_val: the initial carry, a pytree of arrays.
      unroll: iterations per step of the loop, for static bounds; 1 by default.

    Returns:
      The last carry.

    Raises:
      TypeError: if `body_fun` is not callable, the bounds are not integer scalars of
        one dtype, or the carry changes its type.
      ValueError: for `unroll` where a bound is traced.

    >>> from curta import lax
    >>> lax.fori_loop(0, 4, lambda i, x: x + i, 0)
    Array(6, dtype=int32, weak_type=True)
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    lower, upper = (b.as_value() if is_symbolic_dim(b) else b for b in (lower, upper))
    lower, upper, dtype = index_bounds(lower, upper)
    first, last = concrete_or_none(lower), concrete_or_none(upper)
    static = first is not None and last is not None
    if config.jax_disable_jit and static:
        value = init_val
        for i in range(int(first), int(last)):
            value = body_fun(convert_element_type(i, dtype), value)
        return value
    if static:
        length = max(int(last) - int(first), 0)
        if length and typeof(lower).dtype != dtype:
            lower = convert_element_type(lower, dtype)
        return _counted(body_fun, lower, init_val, length, unroll or 1)
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically"
            " known."
        )
    lower, upper = (
        b if typeof(b).dtype == dtype else convert_element_type(b, dtype)
        for b in (lower, upper)
    )
    return _uncounted(body_fun, lower, upper, init_val)


def _counted(
    body_fun: Callable[..., Any], start: Any, init: Any, length: int, unroll: Any
) -> Any:
    """The loop as a scan."""

    def step(loop_carry: Any, _: Any) -> Any:
        i, value = loop_carry
        return (i + 1, body_fun(i, value)), None

    step = _named(step, body_fun)
    (_, value), _ = scan_for(
        "fori_loop", body_fun, step, (start, init), None, length, unroll=unroll
    )
    return value


def _uncounted(body_fun: Callable[..., Any], lower: Any, upper: Any, init: Any) -> Any:
    """The loop as a while loop."""

    def body(loop_carry: Any) -> Any:
        i, end, value = loop_carry
        return i + 1, end, body_fun(i, value)

    body = _named(body, body_fun)
    start = (lower, upper, init)
    _, _, value = _while_for("fori_loop", body_fun, _is_before_end, body, start)
    return value


def _is_before_end(loop_carry: Any) -> Any:
    i, end, _ = loop_carry
    return i < end


def _named(fun: Callable[..., Any], like: Callable[..., Any]) -> Callable[..., Any]:
    fun.__name__ = getattr(like, "__name__", "body_fun")
    return fun


def index_bounds(lower: Any, upper: Any) -> tuple[Any, Any, Any]:
    """The bounds and the dtype of the index."""
    result = [typeof(lower).dtype, typeof(upper).dtype]
    for bound in (lower, upper):
        if typeof(bound).shape:
            raise TypeError(
                "lower and upper arguments to fori_loop must be scalars, got shapes"
                f" {typeof(lower).shape} and {typeof(upper).shape}"
            )
    signed = all(dtypes.issubdtype(d, np.signedinteger) for d in result)
    weak = [typeof(bound).weak_type for bound in (lower, upper)]
    if signed and weak[0] != weak[1]:
        return lower, upper, result[1 if weak[0] else 0]
    if result[0] != result[1]:
        raise TypeError(
            "lower and upper arguments to fori_loop must have equal types, got"
            f" {result[0].name} and {result[1].name}"
        )
    return lower, upper, result[0]
