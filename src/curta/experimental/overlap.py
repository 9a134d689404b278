"""Parts of programs whose ops run in the order in which they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta._base.on_demand import Listing, listed
from curta.api.arguments import argument_avals, check_callable
from curta.api.jit_options import make_options
from curta.control.program_order import ProgramOrder
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.core.trace import TracedValue
from curta.core.wrapping import wraps
from curta.transforms.partial_eval import hoist_constants

__all__ = ["program_order"]
__dir__: Listing = listed(__all__)


def program_order(
    f: Callable[..., Any] | None = None,
    *,
    enforce: bool,
    strict_in_out: bool | tuple[bool, bool] = False,
    exclude_argnames: str | Sequence[str] | None = None,
) -> Any:
    """Run the ops of a function in their order, or as one op of such a function.

    Args:
      f: function of pytrees of arrays. Left out, the result is a decorator.
      enforce: whether each op of `f` waits for the results of the one before. Functions
        that it calls are one op. If False, the ops of `f` are in any order, and the
        whole is one op where an order is enforced.
      strict_in_out: with `enforce`, whether all ops wait for all arguments, and whether
        results are given when all are there: for both (default False), or each.
      exclude_argnames: without `enforce`, names of arguments that `f` does not wait
        for where an order is enforced. None (default) excludes none.

    Returns:
      A function with the arguments and results of `f`; a decorator if `f` is left out.

    Raises:
      TypeError: `f` is not callable.
      ValueError: for names with `enforce`, for `strict_in_out` without, or one of
        another length than two; when the function is called, for names of arguments
        that it does not have.

    >>> import curta.numpy as jnp
    >>> from curta.experimental.overlap import program_order
    >>> @program_order(enforce=True)
    ... def f(x, y):
    ...     a = jnp.sin(x)
    ...     b = jnp.cos(y)  # begins when `a` is there
    ...     return a * b
    >>> f(1.0, 0.0)
    Array(0.84147096, dtype=float32, weak_type=True)
    """
    if enforce and exclude_argnames is not None:
        raise ValueError("exclude_argnames cannot be used with enforce=True.")
    if not enforce and strict_in_out:
        raise ValueError("strict_in_out=True cannot be used with enforce=False")
    both = (strict_in_out,) * 2 if isinstance(strict_in_out, bool) else strict_in_out
    strict_in, strict_out = both

    def wrap(fun: Callable[..., Any]) -> Callable[..., Any]:
        check_callable(fun)

        @wraps(fun)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            leaves, in_tree = tree_util.tree_flatten((args, kwargs))
            closed, captured, out_tree = _staged(fun, leaves, in_tree)
            excluded = _excluded(fun, exclude_argnames, args, kwargs)
            mask = (*[False] * len(captured), *excluded)
            op = ProgramOrder(closed, enforce, mask, strict_in, strict_out)
            return tree_util.tree_unflatten(out_tree, op(*captured, *leaves))

        return wrapped

    return wrap if f is None else wrap(f)


def _staged(
    fun: Callable[..., Any], leaves: Sequence[Any], in_tree: Any
) -> tuple[ClosedJaxpr, Sequence[Any], Any]:
    """The jaxpr of a function, the traced values that it captures, its output tree."""
    flat = FlatFunction(fun, in_tree)
    numbers = tree_util.tree_unflatten(in_tree, range(len(leaves)))
    paths = tree_util.tree_leaves_with_path(numbers)
    names = [tree_util.keystr(path) for path, _ in paths]
    avals = argument_avals(fun, leaves, names)
    closed = stage(flat, avals, debug_info("program_order", fun))
    if not any(isinstance(c, TracedValue) for c in closed.consts):
        return closed, (), flat.out_tree
    hoisted = ClosedJaxpr(hoist_constants(closed.jaxpr), ())
    return hoisted, closed.consts, flat.out_tree


def _excluded(
    fun: Callable[..., Any], names: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[bool]:
    """For each leaf of the arguments whether it is of one of these names."""
    if names is None:
        return [False] * tree_util.tree_structure((args, kwargs)).num_leaves
    found = make_options(fun, None, None, None, names)
    flags = (
        tuple(i in found.donate_argnums for i in range(len(args))),
        {name: name in found.donate_argnames for name in kwargs},
    )
    return tree_util.broadcast_prefix(flags, (args, kwargs))
