"""Functions traced to become the parts of loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import dtypes, tree_util
from curta.api.arguments import leaf_names
from curta.core.avals import ShapedArray
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr, Var
from curta.core.refs import AbstractRef, Ref, refuse_aliases
from curta.core.stage import stage
from curta.core.trace import typeof
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
        self.jaxpr = closed.jaxpr
        self.consts = closed.consts
        self.out_tree = flat.out_tree
        self.out_avals = closed.out_avals

    def closed(self, consts: Sequence[Any], avals: Sequence[ShapedArray]) -> Any:
        """The jaxpr with `consts`, of which its own are some, as leading inputs."""
        own = {id(c): v for c, v in zip(self.consts, self.jaxpr.constvars, strict=True)}
        leading = [own.get(id(c)) or Var(a) for c, a in zip(consts, avals, strict=True)]
        invars = [*leading, *self.jaxpr.invars]
        return ClosedJaxpr(self.jaxpr.replace(constvars=(), invars=invars))


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
