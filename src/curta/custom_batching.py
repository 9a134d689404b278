"""Functions with custom batching rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import lax, tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, listed
from curta.api.custom_function import CustomFunction
from curta.api.signatures import P, R
from curta.control.custom_vmap import CustomVmapCall
from curta.core.flat import function_name
from curta.core.trace import typeof
from curta.lax.control_flow.tracing import traced

__all__ = ["custom_vmap", "sequential_vmap"]
__dir__: Listing = listed(__all__)


class custom_vmap(CustomFunction[P, R]):
    """A decorator for functions whose behavior under `vmap` is given by a rule.

    Forward mode differentiates the function and the rule; for reverse mode, wrap
    the decorated function in `custom_vjp`.

    >>> import curta, curta.numpy as jnp
    >>> @curta.custom_batching.custom_vmap
    ... def f(x, y):
    ...     return x + y
    >>> @f.def_vmap
    ... def f_vmap(axis_size, in_batched, xs, ys):
    ...     return xs * ys, True
    >>> f(2, 3), curta.vmap(f)(jnp.arange(3), jnp.arange(1, 4))
    (Array(5, dtype=int32, weak_type=True), Array([0, 2, 6], dtype=int32))
    """

    vmap_rule: Callable[..., Any] | None = None

    def __init__(self, fun: Callable[P, R]):
        super().__init__(fun)

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule `(axis_size, in_batched, *args) -> (out, out_batched)`.

        `in_batched` is a list of trees like the arguments, `out_batched` a tree like
        the output, of bools; what is batched is so along its first dim. Returns the
        rule.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        operands = self.resolve("custom_vmap", args, kwargs)
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {self._name()}"
                " using def_vmap."
            )
        leaves, in_tree = tree_util.tree_flatten((operands, {}))
        result = traced("custom_vmap fun", self.fun, in_tree, [*map(typeof, leaves)])
        consts, out_tree = result.consts, result.out_tree
        op = CustomVmapCall(
            result.closed(consts, [*map(typeof, consts)]),
            _FlatRule(self.vmap_rule, in_tree, out_tree),
            len(consts),
            function_name(self.vmap_rule),
            in_tree,
            out_tree,
        )
        return tree_util.tree_unflatten(out_tree, op(*consts, *leaves))


@dataclass(frozen=True)
class _FlatRule:
    """A user's batching rule on flat leaves, with its outputs checked."""

    rule: Callable[..., Any]
    in_tree: Any
    out_tree: Any

    def __call__(
        self, size: int, args: Sequence[Any], batched: Sequence[bool]
    ) -> tuple[list[Any], list[bool]]:
        values, _ = tree_util.tree_unflatten(self.in_tree, args)
        flags, _ = tree_util.tree_unflatten(self.in_tree, batched)
        out, out_batched = self.rule(size, list(flags), *values)
        leaves, out_tree = tree_util.tree_flatten(out)
        out_flags, flags_tree = tree_util.tree_flatten(out_batched)
        name = function_name(self.rule)
        if out_tree != flags_tree:
            raise ValueError(
                "structure of output value and output batching specification returned"
                f" by custom vmap rule ({name}) do not match.\n"
                f"Output values: {out_tree}\nBatching spec: {flags_tree}"
            )
        if out_tree != self.out_tree:
            raise ValueError(
                f"structure of output returned by custom vmap rule ({name}) does not"
                " match that of original custom-vmapped function.\n"
                f"Original output: {self.out_tree}\nRule output: {out_tree}"
            )
        return leaves, out_flags


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap[..., Any]:
    """A decorator for functions that `vmap` applies to one example after another.

    >>> import curta, curta.numpy as jnp
    >>> f = curta.custom_batching.sequential_vmap(lambda x: x + 1)
    >>> curta.vmap(f)(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    looped = custom_vmap(f)

    @looped.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> Any:
        flags, _ = tree_util.tree_flatten(tuple(in_batched))
        leaves, in_tree = tree_util.tree_flatten(args)

        def one(mapped: Sequence[Any]) -> Any:
            given = iter(mapped)
            full = [next(given) if b else x for x, b in zip(leaves, flags, strict=True)]
            return looped(*tree_util.tree_unflatten(in_tree, full))

        out = lax.map(one, [x for x, b in zip(leaves, flags, strict=True) if b])
        return out, tree_util.tree_map(lambda _: True, out)

    return looped
