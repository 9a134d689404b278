"""Residuals, the values saved for the backward pass: naming and listing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from curta import tree_util
from curta.api.arguments import check_callable, leaf_names
from curta.control.call import JitCall
from curta.core.avals import ShapedArray
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import Eqn, Jaxpr, Literal, Var
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.primitives.elementwise.convert import Name
from curta.transforms.linearize import linearize
from curta.transforms.partial_eval import prune


def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, a pytree of arrays, under a name that policies of `checkpoint` know it by.

    >>> import curta
    >>> from curta.ad_checkpoint import checkpoint_name
    >>> curta.make_jaxpr(lambda x: checkpoint_name(x, "y"))(1.0)
    { lambda ; a:f32[]. let b:f32[] = name[name=y] a in (b,) }
    """
    return tree_util.tree_map(Name(name), x)


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the values that differentiating `fun` at these arguments would save.

    One line each: the type, and which argument or which line of the program the
    value comes from.

    Args:
      fun: function of pytrees of arrays.
      args: its arguments.
      kwargs: its keyword arguments.

    Returns:
      None.

    Raises:
      TypeError: if the argument is not callable.

    >>> import curta, curta.numpy as jnp
    >>> from curta.ad_checkpoint import print_saved_residuals
    >>> print_saved_residuals(lambda x, y: jnp.sin(x) * y, 1.0, 2.0)
    f32[] from the argument y
    f32[] output of sin from ...
    f32[] output of cos from ...
    """
    for aval, source in saved_residuals(fun, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {source}")


def saved_residuals(
    fun: Callable[..., Any], *args: Any, **kwargs: Any
) -> list[tuple[ShapedArray, str]]:
    """The types of the saved values, and where they come from."""
    check_callable(fun)
    leaves, in_tree = tree_util.tree_flatten((args, kwargs))
    names = leaf_names(fun, args, kwargs)
    info = debug_info("saved_residuals", fun, names)

    def residuals(*primals: Any) -> list[Any]:
        flat = FlatFunction(fun, in_tree)
        return linearize(flat, primals, info).jaxpr.consts

    closed = prune(stage(residuals, [typeof(x) for x in leaves], info))
    return list(_described(closed.jaxpr, names))


def _described(jaxpr: Jaxpr, names: tuple[str, ...]) -> Iterator[tuple[Any, str]]:
    saved = {v for v in jaxpr.outvars if isinstance(v, Var)}
    for atom in jaxpr.outvars:
        if isinstance(atom, Literal):
            yield atom.aval, "from a literal"
    for var in jaxpr.constvars:
        if var in saved:
            yield var.aval, "from a constant"
    for var, name in zip(jaxpr.invars, names, strict=True):
        if var in saved:
            yield var.aval, f"from the argument {name}"
    for eqn in jaxpr.eqns:
        for var in eqn.outvars:
            if var in saved:
                yield var.aval, f"{_producer(eqn)} from {eqn.source_info}"


def _producer(eqn: Eqn) -> str:
    if isinstance(eqn.op, Name):
        return f"named '{eqn.op.label}'"
    if isinstance(eqn.op, JitCall):
        return f"output of jitted function '{eqn.op.fun_name}'"
    return f"output of {eqn.op.name}"
