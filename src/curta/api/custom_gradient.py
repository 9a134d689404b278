"""`custom_gradient`, `closure_convert` and `linear_call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from curta import dtypes, tree_util
from curta.api.arguments import check_callable
from curta.api.custom_derivatives import custom_vjp
from curta.control.linear_call import LinearCall
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr, eval_jaxpr
from curta.core.stage import JitTracer, stage
from curta.core.tangents import Zero
from curta.core.trace import Tracer, typeof
from curta.core.wrapping import update_wrapper
from curta.once import once
from curta.transforms.jvp import JVPTracer
from curta.transforms.partial_eval import residuals_as_inputs
from curta.transforms.vmap import BatchTracer


def custom_gradient(fun: Callable[..., Any]) -> custom_vjp[..., Any]:
    """A decorator for functions that return their value together with their VJP.

    Args:
      fun: returns a pair of the output and a function from its cotangent to a tuple of
        cotangents of the arguments (for one argument, not necessarily a tuple).

    Returns:
      A function that gives the output alone, and has that derivative.

    >>> import curta
    >>> @curta.custom_gradient
    ... def f(x):
    ...     return x**2, lambda ct: (ct * x,)
    >>> f(3.0), curta.grad(f)(3.0)
    (9.0, Array(3., dtype=float32, weak_type=True))
    """

    @custom_vjp
    def wrapped_fun(*args: Any, **kwargs: Any) -> Any:
        return _pair(fun(*args, **kwargs))[0]

    def fwd(*args: Any, **kwargs: Any) -> tuple[Any, tree_util.Partial]:
        out, rule = _pair(fun(*args, **kwargs))
        return out, _closed_rule(rule, out)

    def bwd(rule: tree_util.Partial, cotangent: Any) -> Any:
        result = rule(cotangent)
        is_leaf = tree_util.treedef_is_leaf(tree_util.tree_structure(result))
        return (result,) if is_leaf else result

    update_wrapper(wrapped_fun, fun)
    wrapped_fun.defvjp(fwd, bwd)
    return wrapped_fun


def _pair(out: Any) -> tuple[Any, Callable[..., Any]]:
    if not isinstance(out, (tuple, list)):
        raise TypeError(
            f"cannot unpack what a custom_gradient function returned, {out}: it is to"
            " return the output and a function of its cotangent."
        )
    value, rule = out
    check_callable(rule)
    return value, rule


def _closed_rule(rule: Callable[..., Any], out: Any) -> tree_util.Partial:
    """A rule for cotangents of `out`, with all that it closes over as leaves."""
    leaves, out_tree = tree_util.tree_flatten(out)
    flat = FlatFunction(rule, tree_util.tree_structure(((out,), {})))
    avals = [typeof(x).to_cotangent_aval() for x in leaves]
    closed = stage(flat, avals, debug_info("custom_gradient fwd", rule))

    def call(consts: list[Any], cotangent: Any) -> Any:
        cts, ct_tree = tree_util.tree_flatten(cotangent)
        if ct_tree != out_tree:
            raise TypeError(f"cotangent has structure {ct_tree}, not {out_tree}")
        result = eval_jaxpr(closed.jaxpr, consts, *cts)
        return tree_util.tree_unflatten(flat.out_tree, result)

    return tree_util.Partial(call, closed.consts)


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Return `fun` with its differentiable captured values as arguments.

    Args:
      fun: function of pytrees of arrays.
      *example_args: arguments of the types that it will be called with.

    Returns:
      A function of the same arguments followed by the hoisted values, and the list of
      those values.

    >>> import curta, curta.numpy as jnp
    >>> def f(x, y):
    ...     g, hoisted = curta.closure_convert(lambda z: x * z, y)
    ...     return g(y, *hoisted), len(hoisted)
    >>> curta.grad(f, has_aux=True)(2.0, 3.0)
    (Array(3., dtype=float32, weak_type=True), 1)
    """
    check_callable(fun)
    leaves, in_tree = tree_util.tree_flatten((example_args, {}))
    flat = FlatFunction(fun, in_tree)
    info = debug_info("closure_convert", fun)
    closed = stage(flat, [typeof(x) for x in leaves], info)
    hoisted = [_may_be_perturbed(c) for c in closed.consts]
    count = sum(hoisted)

    def converted(*args: Any) -> Any:
        split = len(args) - count
        given, values = args[:split], iter(args[split:])
        args_leaves, args_tree = tree_util.tree_flatten((given, {}))
        if args_tree != in_tree:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the"
                " same Pytree structure as the example arguments passed when"
                f" closure_convert was called. Expected {in_tree}, but got"
                f" {args_tree}"
            )
        consts = [
            next(values) if h else c
            for c, h in zip(closed.consts, hoisted, strict=True)
        ]
        outs = eval_jaxpr(closed.jaxpr, consts, *args_leaves)
        return tree_util.tree_unflatten(flat.out_tree, outs)

    return converted, [c for c, h in zip(closed.consts, hoisted, strict=True) if h]


def _may_be_perturbed(x: Any) -> bool:
    """Return True if an enclosing transformation may differentiate in `x`."""
    if not isinstance(x, Tracer):
        return False
    if isinstance(x, JVPTracer):
        return type(x.tangent) is not Zero or _may_be_perturbed(x.primal)
    if isinstance(x, BatchTracer):
        return _may_be_perturbed(x.val)
    if isinstance(x, JitTracer):
        return typeof(x).to_tangent_aval().dtype != dtypes.float0
    return True


def linear_call(
    fun: Callable[..., Any],
    fun_transpose: Callable[..., Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """Call a linear function whose transpose is given.

    Args:
      fun: `fun(residual_args, linear_args)`, linear in its second argument.
      fun_transpose: `fun_transpose(residual_args, cotangent)`, linear in its second
        argument, gives the cotangent of `linear_args`.
      residual_args, linear_args: pytrees of arrays.

    Returns:
      What `fun` gives.

    Raises:
      TypeError: when it is transposed, if `fun_transpose` gives another structure than
        that of `linear_args`; for what is not callable.

    >>> import curta
    >>> from curta.custom_derivatives import linear_call
    >>> def scaled(x):
    ...     divide = lambda r, t: t / r
    ...     return linear_call(divide, divide, 4.0, x)
    >>> scaled(8.0), curta.linear_transpose(scaled, 1.0)(2.0)[0].tolist()
    (Array(2., dtype=float32, weak_type=True), 0.5)
    """
    residuals = tree_util.tree_leaves(residual_args)
    linear, lin_tree = tree_util.tree_flatten(linear_args)
    res_avals, lin_avals = [[typeof(x) for x in xs] for xs in (residuals, linear)]
    in_tree = tree_util.tree_structure(((residual_args, linear_args), {}))
    flat = FlatFunction(fun, in_tree)
    closed = stage(flat, [*res_avals, *lin_avals], debug_info("linear_call fun", fun))
    closed, consts = residuals_as_inputs(closed)
    out = tree_util.tree_unflatten(flat.out_tree, closed.out_avals)
    backward = FlatFunction(
        fun_transpose, tree_util.tree_structure(((residual_args, out), {}))
    )

    @once
    def transposed() -> ClosedJaxpr:
        info = debug_info("linear_call fun_transpose", fun_transpose)
        avals = [*map(typeof, consts), *res_avals, *closed.out_avals]
        made = stage(lambda *args: backward(*args[len(consts) :]), avals, info)
        if backward.out_tree != lin_tree:
            raise TypeError(
                "transpose output pytree structure must match that of linear inputs,"
                f" got output structure {backward.out_tree} and input structure"
                f" {lin_tree}."
            )
        return made

    op = LinearCall(closed, transposed, len(consts) + len(residuals))
    return tree_util.tree_unflatten(flat.out_tree, op(*consts, *residuals, *linear))
