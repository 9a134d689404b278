"""Reverse-mode and forward-mode differentiation of functions of pytrees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.api.arguments import as_result, check_callable, partial_in
from curta.core.avals import ShapedArray
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import eval_jaxpr
from curta.core.stage import stage
from curta.core.tangents import LinearArg, Zero
from curta.core.trace import is_array_like, typeof
from curta.ops.base import scalar_of
from curta.ops.structure import instantiate
from curta.transforms.jvp import jvp as jvp_flat
from curta.transforms.linearize import Linearized, linearize as linearize_flat
from curta.transforms.transpose import backward_pass


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The gradient of a scalar-valued function.

    Args:
      fun: function of pytrees of arrays, returning a scalar (with `has_aux`, a
        pair of a scalar and anything).
      argnums: the positional argument(s) to differentiate in.
      has_aux: whether `fun` returns a pair whose second part is passed through.
      holomorphic: whether `fun` is complex-differentiable; inputs are complex.
      allow_int: whether integer inputs are let through, with float0 gradients.

    Returns:
      A function of the same arguments that returns the gradient: like the argument
      in structure, shapes and dtypes, or a tuple of them for several argnums; with
      `has_aux` a pair of that and the auxiliary value.

    Raises:
      TypeError: for integer inputs, or outputs that are not a real scalar.

    >>> import curta
    >>> curta.grad(lambda x: x**3)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @functools.wraps(fun)
    def grad_fun(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., tuple[Any, Any]]:
    """The value of a function and its gradient, computed together; see `grad`.

    >>> import curta
    >>> curta.value_and_grad(lambda x: x**2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if reduce_axes:
        raise NotImplementedError("reduce_axes argument to grad is deprecated")
    single = isinstance(argnums, int)
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(fun)
    def value_and_grad_fun(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        _check_enough_arguments(args, argnums, max(places, default=-1))
        partial, chosen = partial_in(fun, places, args, kwargs)
        for leaf in tree_util.tree_leaves(chosen):
            _check_input("grad", leaf, holomorphic, allow_int)
        forward = _forward("grad", fun, partial, chosen, has_aux)
        (value,) = _scalar_output(forward, holomorphic)
        aval = typeof(value)
        one = scalar_of(aval, 1)
        gradient = forward.pullback([one])
        if single:
            (gradient,) = gradient
        result = tree_util.tree_unflatten(forward.out_tree, [value])
        return ((result, forward.aux) if has_aux else result), gradient

    return value_and_grad_fun


class _Forward:
    """A linearised call of a user's function: what grad, vjp and linearize share."""

    __slots__ = ("aux", "avals", "in_tree", "linearized", "out_tree")

    def __init__(
        self,
        linearized: Linearized,
        avals: list[ShapedArray],
        in_tree: Any,
        out_tree: Any,
        aux: Any,
    ):
        self.linearized = linearized
        self.avals = avals
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.aux = aux

    def pullback(self, cotangents: Sequence[Any]) -> Any:
        """The input cotangents, as the tuple of arguments."""
        lin = self.linearized
        given = [ct for ct, n in zip(cotangents, lin.out_nonzero, strict=True) if n]
        jaxpr = lin.jaxpr
        args = [LinearArg(v.aval) for v in jaxpr.jaxpr.invars]
        found = iter(backward_pass(jaxpr.jaxpr, jaxpr.consts, args, given))
        cts = [
            next(found) if n else Zero(a.to_tangent_aval())
            for a, n in zip(self.avals, lin.in_nonzero, strict=True)
        ]
        leaves = [as_result(instantiate(ct)) for ct in cts]
        return tree_util.tree_unflatten(self.in_tree, leaves)

    def pushforward(self, tangents: Sequence[Any]) -> list[Any]:
        """The output tangents of input tangents."""
        lin = self.linearized
        given = [t for t, n in zip(tangents, lin.in_nonzero, strict=True) if n]
        found = iter(eval_jaxpr(lin.jaxpr.jaxpr, lin.jaxpr.consts, *given))
        return [
            next(found) if n else instantiate(Zero(typeof(p).to_tangent_aval()))
            for p, n in zip(lin.primals_out, lin.out_nonzero, strict=True)
        ]


def _forward(
    what: str,
    fun: Callable[..., Any],
    partial: Callable[..., Any],
    args: tuple[Any, ...],
    has_aux: bool,
) -> _Forward:
    leaves, in_tree = tree_util.tree_flatten(args)
    flat = _FlatWithAux(partial, in_tree, has_aux)
    lin = linearize_flat(flat, leaves, debug_info(what, fun))
    count = len(lin.primals_out) - flat.aux_count
    aux = None
    if has_aux:
        aux = tree_util.tree_unflatten(flat.aux_tree, flat.aux(lin.primals_out[count:]))
    lin = lin._replace(
        primals_out=[as_result(x) for x in lin.primals_out[:count]],
        jaxpr=flat.without_aux(lin),
        out_nonzero=lin.out_nonzero[:count],
    )
    return _Forward(lin, [typeof(x) for x in leaves], in_tree, flat.out_tree, aux)


class _FlatWithAux:
    """A function of flat leaves whose auxiliary output rides behind the others.

    Auxiliary leaves that are no arrays are put aside and come back untouched.
    """

    def __init__(self, fun: Callable[..., Any], in_tree: Any, has_aux: bool):
        self.fun = fun
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.out_tree: Any = None
        self.aux_tree: Any = None
        self.aux_count = 0
        self.others: list[tuple[bool, Any]] = []

    def __call__(self, *leaves: Any) -> list[Any]:
        out = self.fun(*tree_util.tree_unflatten(self.in_tree, leaves))
        if not self.has_aux:
            outs, self.out_tree = tree_util.tree_flatten(out)
            return outs
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(
                "expected function with aux output to return a two-element tuple, but"
                f" got type {type(out)} with value {out!r}"
            )
        outs, self.out_tree = tree_util.tree_flatten(out[0])
        aux, self.aux_tree = tree_util.tree_flatten(out[1])
        self.others = [(is_array_like(x), x) for x in aux]
        arrays = [x for is_array, x in self.others if is_array]
        self.aux_count = len(arrays)
        return [*outs, *arrays]

    def aux(self, arrays: Sequence[Any]) -> list[Any]:
        """The auxiliary leaves, with the arrays among them as given."""
        found = iter(arrays)
        return [next(found) if is_array else x for is_array, x in self.others]

    def without_aux(self, lin: Linearized) -> Any:
        """The tangent jaxpr without the outputs of the auxiliary value."""
        if not self.aux_count:
            return lin.jaxpr
        dropped = sum(lin.out_nonzero[len(lin.out_nonzero) - self.aux_count :])
        jaxpr = lin.jaxpr.jaxpr
        kept = jaxpr.outvars[: len(jaxpr.outvars) - dropped]
        return type(lin.jaxpr)(jaxpr.replace(outvars=kept), lin.jaxpr.consts)


# ---- vjp, jvp, linearize


class VJP:
    """The pullback that `vjp` returns: output cotangents to input cotangents."""

    __slots__ = ("_forward", "_name")

    def __init__(self, forward: _Forward, name: str):
        self._forward = forward
        self._name = name

    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        """The cotangents of the arguments, as a tuple, for one of the outputs."""
        forward = self._forward
        leaves, found_tree = tree_util.tree_flatten(cotangent)
        if found_tree != forward.out_tree:
            raise ValueError(
                "unexpected tree structure.\n\nThe argument to a VJP function returned"
                " by `jax.vjp` must match the pytree structure of the differentiated"
                f" function {self._name}.\n\nBut the tree structures differ: expected"
                f" {forward.out_tree}, got {found_tree}."
            )
        for ct, out in zip(leaves, forward.linearized.primals_out, strict=True):
            self._check_leaf(typeof(ct), typeof(out))
        return tuple(forward.pullback(leaves))

    def _check_leaf(self, ct: ShapedArray, out: ShapedArray) -> None:
        expected = out.to_cotangent_aval()
        if ct.shape != expected.shape or ct.dtype != expected.dtype:
            raise ValueError(
                "unexpected JAX type (e.g. shape/dtype) for argument to VJP function:"
                f" got {ct.str_short()}, but expected {expected.str_short()} because"
                " the corresponding output of the differentiated function had JAX type"
                f" {out.str_short()}"
            )

    def __repr__(self) -> str:
        return f"VJP(fun={self._name}, out_tree={self._forward.out_tree})"


def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> Any:
    """The output of `fun` at `primals`, and the pullback there.

    Args:
      fun: function of pytrees of arrays.
      *primals: its arguments.
      has_aux: whether `fun` returns a pair whose second part is passed through.

    Returns:
      `(out, vjp_fun)`, or `(out, vjp_fun, aux)` with `has_aux`. `vjp_fun` takes a
      cotangent like `out` and returns a tuple of cotangents like the arguments.

    >>> import curta
    >>> out, pull = curta.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pull(1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    forward = _forward("vjp", fun, fun, primals, has_aux)
    out = tree_util.tree_unflatten(forward.out_tree, forward.linearized.primals_out)
    pullback = VJP(forward, debug_info("vjp", fun).function())
    return (out, pullback, forward.aux) if has_aux else (out, pullback)


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The output of `fun` at `primals`, and the linear map of tangents there.

    The map can be applied many times without running `fun` again.

    >>> import curta
    >>> out, push = curta.linearize(lambda x: x**2, 3.0)
    >>> push(1.0)
    Array(6., dtype=float32, weak_type=True)
    """
    check_callable(fun)
    forward = _forward("linearize", fun, fun, primals, has_aux)
    out = tree_util.tree_unflatten(forward.out_tree, forward.linearized.primals_out)

    def linear_fun(*tangents: Any) -> Any:
        leaves, found_tree = tree_util.tree_flatten(tangents)
        if found_tree != forward.in_tree:
            raise TypeError(
                "linearized function called on tangent values with a different tree"
                f" structure: expected {forward.in_tree}, got {found_tree}"
            )
        for t, aval in zip(leaves, forward.avals, strict=True):
            expected, found = aval.to_tangent_aval(), typeof(t)
            if (found.shape, found.dtype) != (expected.shape, expected.dtype):
                raise ValueError(
                    "linearized function called on tangent values inconsistent with"
                    f" the original primal values:\nGot tangent aval"
                    f" {found.str_short()} for primal aval {aval.str_short()} but"
                    f" expected {expected.str_short()}."
                )
        outs = [as_result(x) for x in forward.pushforward(leaves)]
        return tree_util.tree_unflatten(forward.out_tree, outs)

    return (out, linear_fun, forward.aux) if has_aux else (out, linear_fun)


def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """The output of `fun` at `primals` and its derivative along `tangents`.

    Returns:
      `(out, out_tangent)`, or `(out, out_tangent, aux)` with `has_aux`.

    Raises:
      TypeError: if primals and tangents differ in structure or dtype.
      ValueError: if they differ in shape.

    >>> import curta
    >>> curta.jvp(lambda x: x**2, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(
        tangents, (tuple, list)
    ):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; found"
            f" {type(primals).__name__} and {type(tangents).__name__}."
        )
    leaves, in_tree = tree_util.tree_flatten(tuple(primals))
    tangent_leaves, tangent_tree = tree_util.tree_flatten(tuple(tangents))
    if in_tree != tangent_tree:
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree"
            f" structure; primals have tree structure {in_tree} whereas tangents have"
            f" tree structure {tangent_tree}."
        )
    for p, t in zip(leaves, tangent_leaves, strict=True):
        _check_tangent(typeof(p), typeof(t))
    flat = _FlatWithAux(fun, in_tree, has_aux)
    seeds = [
        Zero(typeof(t)) if typeof(t).dtype == dtypes.float0 else t
        for t in tangent_leaves
    ]
    outs, out_tangents = jvp_flat(flat, leaves, seeds)
    count = len(outs) - flat.aux_count

    def tree(values: Sequence[Any]) -> Any:
        return tree_util.tree_unflatten(flat.out_tree, [as_result(x) for x in values])

    result = tree(outs[:count]), tree([instantiate(t) for t in out_tangents[:count]])
    if not has_aux:
        return result
    aux = tree_util.tree_unflatten(flat.aux_tree, flat.aux(outs[count:]))
    return (*result, aux)


def _check_tangent(primal: ShapedArray, tangent: ShapedArray) -> None:
    expected = primal.to_tangent_aval()
    if tangent.dtype != expected.dtype:
        raise TypeError(
            "primal and tangent arguments to jax.jvp do not match; dtypes must be"
            " equal, or in case of int/bool primal dtype the tangent dtype must be"
            f" float0.Got primal dtype {primal.dtype} and so expected tangent dtype"
            f" {_name(expected.dtype)}, but got tangent dtype {_name(tangent.dtype)}"
            " instead."
        )
    if tangent.shape != primal.shape:
        raise ValueError(
            "jvp called with different primal and tangent shapes;Got primal shape"
            f" {primal.shape} and tangent shape as {tangent.shape}"
        )


def _name(dtype: Any) -> str:
    return "float0" if dtype == dtypes.float0 else str(dtype)


def linear_transpose(
    fun: Callable[..., Any], *primals: Any, reduce_axes: Any = ()
) -> Callable[..., tuple[Any, ...]]:
    """The transpose of a function that is linear in all its arguments.

    Args:
      fun: a linear function of pytrees of inexact arrays.
      *primals: arguments, or anything with `shape` and `dtype`, that give the types.

    Returns:
      A function from an output cotangent to a tuple of input cotangents.

    Raises:
      NotImplementedError: if `fun` applies an op that is not linear.

    >>> import curta
    >>> curta.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun)
    leaves, in_tree = tree_util.tree_flatten(primals)
    avals = [aval_of(x) for x in leaves]
    if not all(dtypes.issubdtype(a.dtype, np.inexact) for a in avals):
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex],"
            f" and integer -> integer functions, but got {[a.dtype for a in avals]}"
        )
    flat = FlatFunction(lambda *args: fun(*args), _with_kwargs(in_tree))
    closed = stage(flat, avals, debug_info("linear_transpose", fun))
    out_tree = flat.out_tree

    def transposed(cotangent: Any) -> tuple[Any, ...]:
        cts, found_tree = tree_util.tree_flatten(cotangent)
        if found_tree != out_tree:
            raise TypeError(
                "cotangent tree does not match function output, expected"
                f" {out_tree} but got {found_tree}"
            )
        for ct, aval in zip(cts, closed.out_avals, strict=True):
            if typeof(ct).shape != aval.shape or typeof(ct).dtype != aval.dtype:
                raise TypeError(
                    "cotangent type does not match function output, expected"
                    f" {aval.str_short()} but got {typeof(ct).str_short()}"
                )
        args = [LinearArg(a) for a in avals]
        found = backward_pass(closed.jaxpr, closed.consts, args, cts)
        return tuple(
            tree_util.tree_unflatten(
                in_tree, [as_result(instantiate(ct)) for ct in found]
            )
        )

    return transposed


def aval_of(x: Any) -> ShapedArray:
    """The aval of an array, or of anything with `shape` and `dtype`."""
    if is_array_like(x):
        return typeof(x)
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        weak = bool(getattr(x, "weak_type", False))
        return ShapedArray(tuple(x.shape), dtypes.canonicalize_dtype(x.dtype), weak)
    return typeof(x)


def _with_kwargs(args_tree: Any) -> Any:
    return tree_util.tree_structure(
        (tree_util.tree_unflatten(args_tree, [0] * args_tree.num_leaves), {})
    )


# ---- checks


def _check_enough_arguments(args: Any, argnums: Any, largest: int) -> None:
    if largest >= len(args):
        raise TypeError(
            f"differentiating with respect to argnums={argnums} requires at least"
            f" {largest + 1} positional arguments to be passed by the caller, but got"
            f" only {len(args)} positional arguments."
        )


def _check_input(what: str, x: Any, holomorphic: bool, allow_int: bool) -> None:
    if not is_array_like(x):
        raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type.")
    dtype = typeof(x).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(
                f"{what} with holomorphic=True requires inputs with complex dtype, but"
                f" got {dtype.name}."
            )
    elif dtypes.issubdtype(dtype, dtypes.extended):
        raise TypeError(f"{what} with input dtype {dtype.name}")
    elif not allow_int and not dtypes.issubdtype(dtype, np.inexact):
        raise TypeError(
            f"{what} requires real- or complex-valued inputs (input dtype that is a"
            f" sub-dtype of np.inexact), but got {dtype.name}. If you want to use"
            " Boolean- or integer-valued inputs, use vjp or set allow_int to True."
        )


def _scalar_output(forward: _Forward, holomorphic: bool) -> list[Any]:
    outs = forward.linearized.primals_out
    if len(outs) != 1 or not forward.out_tree == tree_util.tree_structure(0):
        shown = tree_util.tree_unflatten(forward.out_tree, outs)
        raise TypeError(
            "Gradient only defined for scalar-output functions. Output was"
            f" {shown}. Return one scalar; for others see jacrev, or has_aux=True."
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
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(
                f"{what} with holomorphic=True requires outputs with complex dtype,"
                f" but got {dtype.name}."
            )
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


check_input = _check_input
