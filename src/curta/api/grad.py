"""Reverse-mode differentiation of scalar-valued functions of pytrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from curta import dtypes, tree_util
from curta.api.arguments import check_callable, differentiated_argnums, partial_in
from curta.api.linearized import LinearizedCall, forward
from curta.api.signatures import Aux, Gradient, P, R, ValueAndGradient
from curta.core.avals import is_string
from curta.core.hi_types import is_high_value
from curta.core.trace import is_array_like, typeof
from curta.core.tracebacks import api_boundary
from curta.core.wrapping import wraps
from curta.primitives.base import scalar_of


@overload
def grad(
    fun: Callable[P, R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> Gradient[P, R]: ...
@overload
def grad(
    fun: Callable[P, tuple[R, Aux]],
    argnums: int | Sequence[int] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> Callable[P, Any]: ...
def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Any:
    """Return a function that computes the gradient of a scalar-valued function.

    Args:
      fun: function of pytrees of arrays, returning a scalar (with `has_aux`, a
        pair of a scalar and anything).
      argnums: the positional argument(s) to differentiate in.
      has_aux: whether `fun` returns a pair whose second part is passed through.
      holomorphic: whether `fun` is complex-differentiable; inputs are complex.
      allow_int: whether integer inputs are let through, with float0 gradients.
      reduce_axes: must be empty.

    Returns:
      A function of the same arguments that returns the gradient: like the argument
      in structure, shapes and dtypes, or a tuple of them for several argnums; with
      `has_aux` a pair of that and the auxiliary value.

    Raises:
      TypeError: if `fun` is not callable; when the function is called, for integer
        inputs, too few arguments, or outputs that are not a real scalar.
      NotImplementedError: if `reduce_axes` is given.

    >>> import curta
    >>> curta.grad(lambda x: x**3)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @api_boundary
    @wraps(fun)
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun


@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> ValueAndGradient[P, R]: ...
@overload
def value_and_grad(
    fun: Callable[P, tuple[R, Aux]],
    argnums: int | Sequence[int] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> Callable[P, tuple[tuple[R, Aux], Any]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> Callable[P, tuple[R, Any]]: ...
def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Any:
    """The value of a function and its gradient, computed together.

    Args:
      fun, argnums, has_aux, holomorphic, allow_int: as for `grad`.
      reduce_axes: must be empty.

    Returns:
      A function of the same arguments that returns a pair: what `fun` returns (with
      `has_aux` the whole pair), and the gradient as `grad` gives it.

    Raises:
      TypeError: where `grad` does, when the function is called.
      NotImplementedError: if `reduce_axes` is given.

    >>> import curta
    >>> curta.value_and_grad(lambda x: x**2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument to grad is deprecated")
    single, numbers = differentiated_argnums(argnums)

    @api_boundary
    @wraps(fun)
    def value_and_grad_fun(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        check_enough_arguments(args, argnums, numbers)
        partial, chosen = partial_in(fun, numbers, args, kwargs)
        for leaf in tree_util.tree_leaves(chosen):
            check_input("grad", leaf, holomorphic, allow_int)
        result = forward("grad", fun, partial, chosen, has_aux)
        (value,) = _scalar_output(result, holomorphic)
        one = scalar_of(typeof(value), 1)
        gradient = result.linear.pull(result.residuals, [one])
        if single:
            (gradient,) = gradient
        return ((result.out, result.aux) if has_aux else result.out), gradient

    return value_and_grad_fun


# ---- checks


def check_enough_arguments(
    args: Sequence[Any], argnums: Any, numbers: Sequence[int]
) -> None:
    if not numbers:
        raise ValueError(
            f"argnums={argnums} names no argument to differentiate with respect to."
        )
    largest = max(numbers)
    if largest >= len(args):
        raise TypeError(
            f"differentiating with respect to argnums={argnums} requires at least"
            f" {largest + 1} positional arguments to be passed by the caller, but got"
            f" only {len(args)} positional arguments."
        )


def check_input(what: str, x: Any, holomorphic: bool, allow_int: bool) -> None:
    """Raise TypeError unless `what` can differentiate in an input of this dtype."""
    if is_high_value(x):
        return
    if not is_array_like(x) or is_string(typeof(x).dtype):
        raise TypeError(
            f"Argument '{x}' of type {type(x)} is not a valid JAX type. {what} takes"
            " derivatives in all leaves of its argument: leave out other objects."
        )
    dtype = typeof(x).dtype
    if holomorphic:
        check_complex(what, "inputs", dtype)
    elif not allow_int and not dtypes.issubdtype(dtype, np.inexact):
        raise TypeError(
            f"{what} requires real- or complex-valued inputs (input dtype that is a"
            f" sub-dtype of np.inexact), but got {dtype.name}. If you want to use"
            " Boolean- or integer-valued inputs, use vjp or set allow_int to True."
        )


def check_complex(what: str, which: str, dtype: Any) -> None:
    """Raise TypeError unless a holomorphic function can have a value of this dtype."""
    if not dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"{what} with holomorphic=True requires {which} with complex dtype, but got"
            f" {dtype.name}."
        )


def _scalar_output(result: LinearizedCall, holomorphic: bool) -> list[Any]:
    outs = result.outs
    if len(outs) != 1 or not result.linear.out_tree == tree_util.tree_structure(0):
        raise TypeError(
            "Gradient only defined for scalar-output functions. Output was"
            f" {result.out}. Return one scalar; for others see jacrev, or has_aux=True."
        )
    aval = typeof(outs[0])
    if aval.shape:
        raise TypeError(
            "Gradient only defined for scalar-output functions. Output had shape:"
            f" {aval.shape}. Reduce it to a scalar, or use jacrev or vjp."
        )
    check_output("grad", outs[0], holomorphic)
    return outs


def check_output(what: str, x: Any, holomorphic: bool) -> None:
    """Raise TypeError unless `what` can differentiate an output of this dtype."""
    dtype = typeof(x).dtype
    remedy = {"grad": "vjp", "jacrev": "vjp", "jacfwd": "jvp"}[what]
    if holomorphic:
        check_complex(what, "outputs", dtype)
    elif dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of"
            f" np.floating), but got {dtype.name}. For holomorphic differentiation,"
            " pass holomorphic=True. For differentiation of non-holomorphic functions"
            f" involving complex outputs, use jax.{remedy} directly."
        )
    elif not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of"
            f" np.floating), but got {dtype.name}. For differentiation of functions"
            f" with integer outputs, use jax.{remedy} directly."
        )
