"""`make_jaxpr` and `eval_shape`: what a function does, without doing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import (
    argnums_in_range,
    argument_avals,
    aval_of,
    check_callable,
    leaf_names,
)
from curta.api.jit import PjitFunction
from curta.api.jit_options import check_hashable, make_options
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.stage import stage
from curta.core.trace import typeof as value_type
from curta.core.tracebacks import api_boundary
from curta.core.wrapping import wraps


def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
    abstracted_axes: Any = None,
) -> Callable[..., Any]:
    """Return a function that traces `fun` and returns its jaxpr.

    Args:
      fun: function of pytrees of arrays.
      static_argnums: positional arguments that are passed as they are; none by default.
      return_shape: return a pair of the jaxpr and the output's tree of
        `ShapeDtypeStruct`.
      axis_env, abstracted_axes: not supported. Bind names with `vmap(axis_name=...)`.

    Returns:
      A function of the same arguments that returns a `ClosedJaxpr`.

    Raises:
      TypeError: if `fun` is not callable; when the function is called, for arguments or
        results that are not arrays.
      NotImplementedError: for `axis_env` and `abstracted_axes`.

    >>> import curta
    >>> curta.make_jaxpr(lambda x: x + 1)(2.0)
    { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
    """
    check_callable(fun)
    if axis_env or abstracted_axes is not None:
        raise NotImplementedError(
            "make_jaxpr takes neither axis_env nor abstracted_axes: bind axis names"
            " with vmap(axis_name=...) inside the function"
        )
    static_argnums_given = make_options(
        fun, static_argnums, None, None, None
    ).static_argnums

    @api_boundary
    @wraps(fun)
    def make_jaxpr_fun(*args: Any, **kwargs: Any) -> Any:
        given = [i for i in static_argnums_given if i < len(args)]
        closed, out_tree = trace_function("make_jaxpr", fun, given, args, kwargs)
        if not return_shape:
            return closed
        shapes = [ShapeDtypeStruct.of_aval(a) for a in closed.out_avals]
        return closed, tree_util.tree_unflatten(out_tree, shapes)

    make_jaxpr_fun.__name__ = f"make_jaxpr({getattr(fun, '__name__', fun)})"
    return make_jaxpr_fun


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of the output of `fun`, without computing it.

    Nothing is computed.

    Args:
      fun: function of pytrees of arrays, to one of arrays or `ShapeDtypeStruct`s.
      *args, **kwargs: its arguments; in place of arrays anything with `shape` and
        `dtype`.

    Returns:
      A tree like the output, of `ShapeDtypeStruct`.

    Raises:
      TypeError: if `fun` is not callable, or an argument or result is not an array.
      ConcretizationTypeError: if `fun` asks for the value of an array, in an `if` say.

    >>> import curta, curta.numpy as jnp
    >>> curta.eval_shape(lambda x: x @ x.T, jnp.ones((2, 3)))
    ShapeDtypeStruct(shape=(2, 2), dtype=float32)
    """
    check_callable(fun)
    if isinstance(fun, PjitFunction):
        return fun.eval_shape(*args, **kwargs)
    returned: list[Any] = []

    def arrays(result: Any) -> Any:
        returned[:] = [
            tree_util.tree_map(
                lambda x: x if isinstance(x, ShapeDtypeStruct) else True, result
            )
        ]
        return tree_util.tree_map(
            lambda x: None if isinstance(x, ShapeDtypeStruct) else x, result
        )

    closed, _ = trace_function("eval_shape", fun, (), args, kwargs, arrays)
    shapes = iter([ShapeDtypeStruct.of_aval(a) for a in closed.out_avals])
    return tree_util.tree_map(
        lambda x: x if isinstance(x, ShapeDtypeStruct) else next(shapes), returned[0]
    )


def trace_function(
    traced_for: str,
    fun: Callable[..., Any],
    static_argnums: Sequence[int],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    results: Callable[[Any], Any] = lambda result: result,
) -> tuple[ClosedJaxpr, Any]:
    """The jaxpr of `fun` at the avals of its arguments, and its output tree.

    `results` says what of its result is traced.
    """
    static = argnums_in_range(static_argnums, len(args))
    for i in static:
        check_hashable(args[i])
    traced = [i for i in range(len(args)) if i not in static]

    def call(*dynamic: Any, **options: Any) -> Any:
        full = list(args)
        for i, x in zip(traced, dynamic, strict=True):
            full[i] = x
        return results(fun(*full, **options))

    dynamic = tuple(args[i] for i in traced)
    leaves, in_tree = tree_util.tree_flatten((dynamic, kwargs))
    flat = FlatFunction(call, in_tree)
    names = leaf_names(fun, dynamic, kwargs, traced)
    avals = argument_avals(fun, leaves, names)
    closed = stage(flat, avals, debug_info(traced_for, fun, names))
    return closed, flat.out_tree


def typeof(x: Any) -> Any:
    """Return the type of an array, tracer, scalar or `ShapeDtypeStruct`: its aval.

    Raises TypeError for anything else.

    >>> import curta, curta.numpy as jnp
    >>> curta.typeof(jnp.ones((2, 3)))
    ShapedArray(float32[2,3])
    """
    return aval_of(x) if isinstance(x, ShapeDtypeStruct) else value_type(x)
