"""`checkpoint`: trade memory for recomputation in reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from curta import tree_util
from curta._settings import api_version
from curta.api.arguments import check_callable, leaf_names
from curta.api.jit_cache import traced_functions
from curta.api.signatures import P, R
from curta.config import config
from curta.control.remat import Remat
from curta.control.residual_plan import Policy
from curta.core.avals import ShapedArray
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import axes_in_scope, stage
from curta.core.trace import TracedValue, typeof
from curta.core.tracebacks import api_boundary
from curta.core.wrapping import wraps
from curta.transforms.partial_eval import residuals_as_inputs


def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool | tuple[bool, ...] = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] | None = (),
    concrete: bool | None = None,
) -> Callable[P, R]:
    """Recompute the intermediate values of `fun` in the backward pass.

    Args:
      fun: function of pytrees of arrays.
      prevent_cse: keep the compiler from sharing the recomputation with the first
        computation, which would undo the saving. In the body of a loop nothing is
        shared, either way.
      policy: says of each operation whether to keep its result; by default none is.
      static_argnums: positional arguments that are not traced.
      static_argnames: names of arguments passed by keyword that are not traced.
      concrete: was removed: give `static_argnums`.

    Returns:
      A function of the same arguments and results.

    Raises:
      TypeError: if `fun` is not callable, `prevent_cse` no boolean (or tuple of them),
        or `static_argnames` no names.
      NotImplementedError: if `concrete` is given.

    >>> import curta, curta.numpy as jnp
    >>> curta.grad(curta.checkpoint(lambda x: jnp.square(jnp.square(x))))(2.0)
    Array(32., dtype=float32, weak_type=True)
    """
    check_callable(fun)
    if concrete is not None:
        api_version.CHECKPOINT_CONCRETE.check()
        raise NotImplementedError(
            "The `concrete` option to `jax.checkpoint` was removed. Instead use"
            " `static_argnums`, for arguments that Python control flow depends on."
        )
    flags = prevent_cse if isinstance(prevent_cse, tuple) else (prevent_cse,)
    if not all(isinstance(flag, bool) for flag in flags):
        raise TypeError(
            f"prevent_cse must be a bool or tuple of bools, got {type(prevent_cse)=}"
        )
    argnums = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    names = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
    if not isinstance(names, Iterable | None):
        raise TypeError(
            f"{type(names).__name__!r} object is not iterable: static_argnames is a"
            f" name or a sequence of names, got {names}"
        )
    fixed_names = frozenset(names or ())

    @api_boundary
    @wraps(fun)
    def remat_fun(*args: Any, **kwargs: Any) -> Any:
        static = _static_numbers(argnums, len(args))
        traced = [i for i in range(len(args)) if i not in static]
        dynamic = tuple(args[i] for i in traced)
        named = {k: kwargs.pop(k) for k in sorted(fixed_names.intersection(kwargs))}
        leaves, in_tree = tree_util.tree_flatten((dynamic, kwargs))
        avals = tuple(map(typeof, leaves))
        fixed: dict[int | str, Any] = {i: args[i] for i in sorted(static)}
        fixed.update(named)
        closed, consts, out_tree = _traced(fun, in_tree, avals, fixed, dynamic, kwargs)
        outs = Remat(closed, any(flags), False, policy)(*consts, *leaves)
        return tree_util.tree_unflatten(out_tree, outs)

    return remat_fun


_Traced = tuple[ClosedJaxpr, Sequence[Any], Any]


def _traced(
    fun: Callable[..., Any],
    in_tree: Any,
    avals: tuple[ShapedArray, ...],
    static: dict[int | str, Any],
    dynamic: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> _Traced:
    """The jaxpr of `fun`, the values it closes over, and the tree of its output.

    Kept for as long as `fun` lives, as `jit` does, unless it closes over tracers.
    """
    statics = tuple((i, _Static(x)) for i, x in static.items())
    key = (in_tree, avals, statics, config.context, axes_in_scope())
    known = traced_functions(fun)
    if key in known:
        return known[key]

    def call(*args: Any, **options: Any) -> Any:
        full = list(args)
        for argument, x in static.items():
            if isinstance(argument, int):
                full.insert(argument, x)
            else:
                options[argument] = x
        return fun(*full, **options)

    flat = FlatFunction(call, in_tree)
    count = len(dynamic) + sum(isinstance(i, int) for i in static)
    traced = [i for i in range(count) if i not in static]
    names = leaf_names(fun, dynamic, kwargs, traced)
    info = debug_info("checkpoint / remat", fun, names)
    closed, consts = residuals_as_inputs(stage(flat, avals, info))
    made = closed, consts, flat.out_tree
    if not any(isinstance(x, TracedValue) for x in (*consts, *static.values())):
        known[key] = made
    return made


class _Static:
    """A static argument in a key: by value, or by identity if it cannot be hashed."""

    def __init__(self, value: Any):
        self.value = value
        try:
            self.hash = hash((type(value), value))
            self.by_value = True
        except TypeError:
            self.hash = id(value)
            self.by_value = False

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static) or type(self.value) is not type(other.value):
            return False
        if self.by_value and other.by_value:
            return bool(self.value == other.value)
        return self.value is other.value


def _static_numbers(argnums: Any, count: int) -> set[int]:
    if not isinstance(argnums, tuple) or not all(type(i) is int for i in argnums):
        raise TypeError(
            "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` must be an"
            f" int, tuple of ints or, bool, but got value {argnums}"
        )
    if not all(-count <= i < count for i in argnums):
        raise ValueError(
            "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` can only"
            " take integer values greater than or equal to `-len(args)` and less than"
            f" `len(args)`, but got {argnums}, while `len(args)` = {count}"
        )
    return {i % count for i in argnums}


remat = checkpoint
