"""Functions traced to become the parts of loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import dtypes, tree_util
from curta.api.arguments import leaf_names
from curta.api.jit_cache import traced_functions
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr, Var
from curta.core.refs import AbstractRef, Ref, refuse_aliases
from curta.core.stage import axes_in_scope, stage
from curta.core.trace import TracedValue, typeof
from curta.lax.control_flow.checks import same_type
from curta.lax.conversion import convert_element_type


class TracedFunction:
    """A function of trees, traced: its jaxpr, output tree and closed-over values.

    Errors speak of the function `shown`, which `fun` calls, if that is given.
    """

    def __init__(
        self,
        what: str,
        fun: Callable[..., Any],
        in_tree: Any,
        avals: Sequence[Any],
        shown: Callable[..., Any] | None = None,
    ):
        flat = FlatFunction(fun, in_tree)
        names: tuple[str, ...] = ()
        if any(type(a) is AbstractRef for a in avals):
            names = leaf_names(fun, *in_tree.unflatten(avals))
        closed = stage(flat, avals, debug_info(what, shown or fun, names))
        self.jaxpr: Any = closed.jaxpr
        self.consts: list[Any] = closed.consts
        self.out_tree: Any = flat.out_tree
        self.out_avals: tuple[ShapedArray, ...] = closed.out_avals
        self._closed: dict[Any, ClosedJaxpr] = {}

    def closed(self, consts: Sequence[Any], avals: Sequence[ShapedArray]) -> Any:
        """The jaxpr with `consts`, a superset of its own, as leading inputs."""
        own = {id(c): v for c, v in zip(self.consts, self.jaxpr.constvars, strict=True)}
        leading = tuple(own.get(id(c), a) for c, a in zip(consts, avals, strict=True))
        result = self._closed.get(leading)
        if result is None:
            added = [x if isinstance(x, Var) else Var(x) for x in leading]
            invars = [*added, *self.jaxpr.invars]
            result = ClosedJaxpr(self.jaxpr.replace(constvars=(), invars=invars))
            result = self._closed.setdefault(leading, result)
        return result


def traced(
    what: str,
    fun: Callable[..., Any],
    in_tree: Any,
    avals: Sequence[Any],
    shown: Callable[..., Any] | None = None,
) -> TracedFunction:
    """A `TracedFunction`, kept for as long as the user's function lives.

    That is `shown`, if given: `fun` then closes over nothing else. A function that
    closes over tracers or references is not cached.
    """
    wrapper = None if shown in (None, fun) else fun.__code__
    known = traced_functions(shown or fun)
    key = (what, wrapper, in_tree, tuple(avals), config.context, axes_in_scope())
    try:
        result: TracedFunction | None = known.get(key)
    except TypeError:  # a node of the tree has data without a hash
        return TracedFunction(what, fun, in_tree, avals, shown)
    if result is None:
        result = TracedFunction(what, fun, in_tree, avals, shown)
        own = (*result.consts, *avals)
        if not any(isinstance(x, (TracedValue, Ref, AbstractRef)) for x in own):
            result = known.setdefault(key, result)
    return result


def args_tree(*args: Any) -> Any:
    """The structure of a call with these positional arguments."""
    return tree_util.tree_structure((args, {}))


def flat_arrays(tree: Any) -> tuple[list[Any], Any]:
    """The leaves and structure of a tree; TypeError unless all leaves are arrays."""
    leaves, treedef = tree_util.tree_flatten(tree)
    return [_array(x) for x in leaves], treedef


def check_refs(what: str, fun: Callable[..., Any], *args: Any) -> None:
    """Raise ValueError if one reference is several of the arguments."""
    leaves = tree_util.tree_leaves(args)
    if any(isinstance(x, Ref) for x in leaves):
        refuse_aliases(leaves, debug_info(what, fun), leaf_names(fun, args, {}))


def _array(x: Any) -> Any:
    if not isinstance(x, Ref):
        typeof(x)
    return x


def settled(
    leaves: list[Any],
    trace: Callable[[Sequence[ShapedArray]], TracedFunction],
    carry_out: Callable[[TracedFunction], Sequence[ShapedArray]],
) -> tuple[list[Any], TracedFunction]:
    """The carry, weakly typed parts converted to what the body makes of them."""
    avals = [typeof(x) for x in leaves]
    traced = trace(avals)
    outs = carry_out(traced)
    if len(outs) != len(leaves):
        return leaves, traced
    changed = [
        a.weak_type and not same_type(a, b) and a.shape == b.shape
        for a, b in zip(avals, outs, strict=True)
    ]
    if not any(changed):
        return leaves, traced
    leaves = [
        convert_element_type(x, dtypes.result_type(x, b)) if c else x
        for x, b, c in zip(leaves, outs, changed, strict=True)
    ]
    return leaves, trace([typeof(x) for x in leaves])
