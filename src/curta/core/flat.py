"""Functions of pytrees as functions of flat lists of leaves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from curta import tree
from curta.core.jaxpr import DebugInfo
from curta.core.source_info import is_own
from curta.tree_util import keystr


class FlatFunction:
    """`fun` on flat leaves; `out_tree` is known after a call."""

    __slots__ = ("fun", "in_tree", "out_tree")

    def __init__(self, fun: Callable[..., Any], in_tree: Any):
        self.fun: Callable[..., Any] = fun
        self.in_tree: Any = in_tree
        self.out_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = tree.unflatten(self.in_tree, leaves)
        out, self.out_tree = tree.flatten(self.fun(*args, **kwargs))
        return out

    def result_path(self, i: int) -> str:
        """Where in the output its leaf `i` is, as `['w'][0]`."""
        numbers = tree.unflatten(self.out_tree, range(self.out_tree.num_leaves))
        path = next(p for p, k in tree.leaves_with_path(numbers) if k == i)
        return keystr(path)


def debug_info(
    traced_for: str, fun: Callable[..., Any], arg_names: tuple[str, ...] = ()
) -> DebugInfo:
    """What errors are to say of `fun`."""
    return DebugInfo(traced_for, function_name(fun), function_location(fun), arg_names)


def function_name(fun: Callable[..., Any]) -> str:
    """The name of a function, looking through partials and callable objects."""
    while isinstance(fun, functools.partial) and not hasattr(fun, "__name__"):
        fun = fun.func
    return getattr(fun, "__name__", type(fun).__name__)


def shown_function(fun: Callable[..., Any]) -> str:
    """A function as messages name it: its qualified name and its line."""
    name = getattr(fun, "__qualname__", function_name(fun)).split("<locals>.")[-1]
    code = getattr(inspect.unwrap(fun), "__code__", None)
    if code is None or is_own(code):
        return name.lstrip("_")
    return f"{name} at {function_location(fun)}"


def function_location(fun: Callable[..., Any]) -> str:
    """`file:line` of a function, or the empty string."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    code = getattr(inspect.unwrap(fun), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
