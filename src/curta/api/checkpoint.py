"""`checkpoint`: trade memory for recomputation in reverse mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import argnums_in_range, check_callable, leaf_names
from curta.control.remat import Policy, Remat
from curta.core.flat import FlatFunction, debug_info
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.transforms.partial_eval import residuals_as_inputs


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    concrete: bool = False,
) -> Callable[..., Any]:
    """`fun`, whose intermediate values reverse mode recomputes rather than keeps.

    Args:
      fun: function of pytrees of arrays.
      prevent_cse: keep the compiler from sharing the recomputation with the first
        computation, which would undo the saving.
      policy: says of each operation whether to keep its result; by default none is.
      static_argnums: positional arguments that are not traced; they are hashable.

    >>> import curta, curta.numpy as jnp
    >>> curta.grad(curta.checkpoint(lambda x: jnp.square(jnp.square(x))))(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    check_callable(fun)
    if concrete:
        raise NotImplementedError(
            "The 'concrete' option to jax.checkpoint is deprecated; use"
            " static_argnums for arguments that Python control flow depends on"
        )
    places = (static_argnums,) if isinstance(static_argnums, int) else static_argnums

    @functools.wraps(fun)
    def remat_fun(*args: Any, **kwargs: Any) -> Any:
        static = argnums_in_range(places, len(args))
        traced = [i for i in range(len(args)) if i not in static]

        def call(*dynamic: Any, **options: Any) -> Any:
            full = list(args)
            for i, x in zip(traced, dynamic, strict=True):
                full[i] = x
            return fun(*full, **options)

        dynamic = tuple(args[i] for i in traced)
        leaves, in_tree = tree_util.tree_flatten((dynamic, kwargs))
        flat = FlatFunction(call, in_tree)
        names = leaf_names(fun, dynamic, kwargs, traced)
        info = debug_info("checkpoint / remat", fun, names)
        closed = stage(flat, [typeof(x) for x in leaves], info)
        closed, consts = residuals_as_inputs(closed)
        outs = Remat(closed, prevent_cse, False, policy)(*consts, *leaves)
        return tree_util.tree_unflatten(flat.out_tree, outs)

    return remat_fun


remat = checkpoint
