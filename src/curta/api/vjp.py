"""Pullbacks and pushforwards: `vjp`, `linearize`, `linear_transpose`.

The functions they return are pytrees of the values saved for them, so that they can
be passed into and out of jitted functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from curta import dtypes, tree_util
from curta.api.arguments import (
    as_result,
    aval_of,
    check_callable,
    differentiated_argnums,
    partial_in,
)
from curta.api.jit import jit
from curta.api.linearized import LinearMap, forward
from curta.api.pullback import VJP
from curta.api.signatures import Aux, R
from curta.core.avals import ShapedArray
from curta.core.flat import FlatFunction, debug_info
from curta.core.hi_types import same_kind
from curta.core.jaxpr import Jaxpr, eval_jaxpr
from curta.core.source_info import Transforming
from curta.core.stage import stage
from curta.core.tangents import LinearArg
from curta.core.trace import typeof
from curta.core.tracebacks import api_boundary
from curta.primitives.structure import instantiate
from curta.transforms.partial_eval import split_jaxpr
from curta.transforms.transpose import backward_pass


@overload
def vjp(
    fun: Callable[..., R],
    *primals: Any,
    has_aux: Literal[False] = ...,
    reduce_axes: Any = ...,
    saveable_args: Any = ...,
    in_nzs: Any = ...,
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    fun: Callable[..., tuple[R, Aux]],
    *primals: Any,
    has_aux: Literal[True],
    reduce_axes: Any = ...,
    saveable_args: Any = ...,
    in_nzs: Any = ...,
) -> tuple[R, Callable[[Any], tuple[Any, ...]], Aux]: ...
@overload
def vjp(
    fun: Callable[..., Any],
    *primals: Any,
    has_aux: bool,
    reduce_axes: Any = ...,
    saveable_args: Any = ...,
    in_nzs: Any = ...,
) -> tuple[Any, ...]: ...
@api_boundary
def vjp(
    fun: Callable[..., Any],
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    saveable_args: Any = True,
    in_nzs: Any = None,
) -> Any:
    """The output of `fun` at `primals`, and the pullback there.

    Args:
      fun: function of pytrees of arrays.
      *primals: its arguments.
      has_aux: whether `fun` returns a pair whose second part is passed through.
      reduce_axes: must be empty.
      saveable_args: which arguments the pullback may keep: a bool, True by default, or
        a tree of bools in tuples that is a prefix of `primals`. For the others,
        `args_res` holds `NotSaveable()`, which the caller replaces with the argument.
      in_nzs: similar flags: the arguments to differentiate. None (default) is all; the
        others have zero cotangents. `vjp_fun.out_nzs` says which outputs depend on the
        chosen arguments.

    Returns:
      `(out, vjp_fun)`, or `(out, vjp_fun, aux)` with `has_aux`. `vjp_fun` takes a
      cotangent like `out` and returns a tuple of cotangents like the arguments.

    Raises:
      TypeError: if `fun` is not callable, a primal is not an array, or `fun` returns no
        pair despite `has_aux`.
      ValueError: if flags are not prefix of the arguments; from `vjp_fun`, for a
          cotangent unlike `out`, and arguments that were not put back.
      NotImplementedError: if `reduce_axes` is given.

    >>> import curta
    >>> out, pull = curta.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pull(1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    _check_no_axes("vjp", reduce_axes)
    result = forward("vjp", fun, fun, primals, has_aux, in_nzs)
    pullback = VJP.of(result, saveable_args)
    return (result.out, pullback, result.aux) if has_aux else (result.out, pullback)


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the forward and the backward pass of `fun` as two compiled functions.

    Args:
      fun: function of pytrees of arrays.
      argnums: the positional argument(s) to differentiate in.
      has_aux: whether `fun` returns a pair whose second part is passed through.
      jitted: whether to compile both.

    Returns:
      `fwd(*args) -> (out, saved)`, with `has_aux` `(out, saved, aux)`, and
      `bwd(saved, cotangent)`, which gives the cotangent of the argument, or a tuple of
      them for several argnums.

    Raises:
      TypeError: if `fun` is not callable or `argnums` no integers.
      ValueError: from `fwd`, for too few arguments; from `bwd`, for a cotangent unlike
        the output.

    >>> import curta
    >>> fwd, bwd = curta.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> out, saved = fwd(2.0, 3.0)
    >>> [float(ct) for ct in bwd(saved, 1.0)]
    [3.0, 2.0]
    """
    check_callable(fun)
    single, numbers = differentiated_argnums(argnums)

    def fwd(*args: Any) -> Any:
        partial, chosen = partial_in(fun, numbers, args, {})
        return vjp(partial, *chosen, has_aux=has_aux)

    def bwd(saved: VJP, cotangent: Any) -> Any:
        cts = saved(cotangent)
        return cts[0] if single else cts

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


@overload
def linearize(
    fun: Callable[..., R],
    *primals: Any,
    has_aux: Literal[False] = ...,
    in_nzs: Any = ...,
) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(
    fun: Callable[..., tuple[R, Aux]],
    *primals: Any,
    has_aux: Literal[True],
    in_nzs: Any = ...,
) -> tuple[R, Callable[..., R], Aux]: ...
@overload
def linearize(
    fun: Callable[..., Any],
    *primals: Any,
    has_aux: bool,
    in_nzs: Any = ...,
) -> tuple[Any, ...]: ...
@api_boundary
def linearize(
    fun: Callable[..., Any],
    *primals: Any,
    has_aux: bool = False,
    in_nzs: Any = None,
) -> Any:
    """Return the output of `fun` at `primals`, and its linearization there.

    The map can be applied many times without running `fun` again.

    Args:
      fun: function of pytrees of arrays.
      *primals: its arguments.
      has_aux: whether `fun` returns a pair whose second part is passed through.
      in_nzs: in which arguments to differentiate: a tree of bools in tuples that is a
        prefix of `primals`. None (default) is all; tangents of others are not looked
        at. `push.out_nzs` tells which outputs depend on the ones that are left.

    Returns:
      `(out, push)`, or `(out, push, aux)` with `has_aux`. `push` takes tangents like
      the primals and returns one like `out`.

    Raises:
      TypeError: if `fun` is not callable, a primal is not an array, or `fun` returns no
        pair despite `has_aux`.
      ValueError: if flags are not prefix of the arguments; from `push`, for tangents
          unlike the primals in shape or dtype.

    >>> import curta
    >>> out, push = curta.linearize(lambda x: x**2, 3.0)
    >>> push(1.0)
    Array(6., dtype=float32, weak_type=True)
    """
    check_callable(fun)
    result = forward("linearize", fun, fun, primals, has_aux, in_nzs)
    push: Any = tree_util.Partial(_Pushforward(result.linear), result.residuals)
    push.out_nzs = result.linear.out_nzs
    return (result.out, push, result.aux) if has_aux else (result.out, push)


class _Pushforward:
    """The linear map, given its residuals; two are equal if their maps are."""

    def __init__(self, linear: LinearMap):
        self.linear = linear

    def __call__(self, residuals: Sequence[Any], *tangents: Any) -> Any:
        linear = self.linear
        leaves, tangent_tree = tree_util.tree_flatten(tangents)
        if tangent_tree != linear.in_tree:
            raise TypeError(
                f"expected {linear.in_tree}, got {tangent_tree}: the linearized"
                " function takes tangents in the tree structure of the primal values"
            )
        for t, aval in zip(leaves, linear.in_avals, strict=True):
            expected, result = aval.to_tangent_aval(), typeof(t)
            if not same_kind(result, expected):
                raise ValueError(
                    "linearized function called on tangent values inconsistent with"
                    f" the original primal values:\nGot tangent aval"
                    f" {result.str_short()} for primal aval {aval.str_short()} but"
                    f" expected {expected.str_short()}."
                )
            if expected.is_high:
                continue
            if more := result.vma - expected.vma:
                axes = tuple(sorted(more, key=str))
                raise ValueError(
                    "linearized function called on tangent values inconsistent with"
                    " the original primal values:\nGot tangent aval"
                    f" {result.str_short()} for primal aval {aval.str_short()}, which"
                    " does not vary so. This might be fixed by applying"
                    f" `jax.lax.pcast(..., {axes}, to='varying')` to the primal value"
                    " passed to `jax.linearize`."
                )
        return linear.push(residuals, leaves)

    @property
    def args(self) -> tuple[Jaxpr]:
        """The jaxpr of the map, where programs written for JAX look for it."""
        return (self.linear.jaxpr,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pushforward) and other.linear == self.linear

    def __hash__(self) -> int:
        return hash(self.linear)


@api_boundary
def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()
) -> Callable[..., tuple[Any, ...]]:
    """Return the transpose of a function that is linear in all its arguments.

    Args:
      fun: a linear function of pytrees of inexact arrays.
      *primals: arguments, or anything with `shape` and `dtype`, that give the types.
      reduce_axes: must be empty.

    Returns:
      A function from an output cotangent to a tuple of input cotangents.

    Raises:
      NotImplementedError: if `fun` applies an op that is not linear.

    >>> import curta
    >>> curta.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun)
    _check_no_axes("transpose", reduce_axes)
    leaves, in_tree = tree_util.tree_flatten(primals)
    avals = [aval_of(x) for x in leaves]
    flat = FlatFunction(lambda *args: fun(*args), _with_kwargs(in_tree))
    closed = stage(flat, avals, debug_info("linear_transpose", fun))
    _check_numbers(avals, closed.out_avals)
    # What does not depend on the arguments need not be linear: it is computed now,
    # where one op (a loop, a call) computes both, too.
    split = split_jaxpr(closed, (True,) * len(avals), True)
    residuals = eval_jaxpr(split.known.jaxpr, split.known.consts)
    transposed = _Transposed(split.unknown.jaxpr, in_tree, flat.out_tree)
    return tree_util.Partial(transposed, residuals)


def _check_no_axes(name: str, reduce_axes: Any) -> None:
    if reduce_axes:
        raise NotImplementedError(
            f"reduce_axes argument to {name} is deprecated: sum over the axes with"
            " lax.psum"
        )


def _check_numbers(
    in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
) -> None:
    """Raise TypeError unless all are inexact, or all are integers."""
    dtypes_in, dtypes_out = (
        [a.dtype for a in avals if not a.is_high] for avals in (in_avals, out_avals)
    )
    for kind in np.inexact, np.integer:
        if all(dtypes.issubdtype(d, kind) for d in (*dtypes_in, *dtypes_out)):
            return
    raise TypeError(
        "linear_transpose only supports [float or complex] -> [float or complex],"
        f" and integer -> integer functions, but got {dtypes_in} -> {dtypes_out}."
    )


class _Transposed:
    """The transpose of a linear jaxpr, given its residuals."""

    def __init__(self, jaxpr: Jaxpr, in_tree: Any, out_tree: Any):
        self.jaxpr = jaxpr
        self.in_tree = in_tree
        self.out_tree = out_tree

    def __call__(self, residuals: Sequence[Any], cotangent: Any) -> tuple[Any, ...]:
        cts, ct_tree = tree_util.tree_flatten(cotangent)
        if ct_tree != self.out_tree:
            raise TypeError(
                "cotangent tree does not match function output, expected"
                f" {self.out_tree} but got {ct_tree}"
            )
        for ct, aval in zip(cts, self.jaxpr.out_avals, strict=True):
            if not same_kind(typeof(ct), aval):
                raise TypeError(
                    "cotangent type does not match function output, expected"
                    f" {aval.str_short()} but got {typeof(ct).str_short()}"
                )
        linear = [LinearArg(a) for a in self.jaxpr.in_avals[len(residuals) :]]
        with Transforming("transpose"):
            result = backward_pass(self.jaxpr, (), [*residuals, *linear], cts)
        leaves = [as_result(instantiate(ct)) for ct in result[len(residuals) :]]
        return tuple(tree_util.tree_unflatten(self.in_tree, leaves))


def _with_kwargs(args_tree: Any) -> Any:
    return tree_util.treedef_tuple([args_tree, tree_util.tree_structure({})])
