"""Jacobians and Hessians: a basis of tangents or cotangents, mapped over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from curta import dtypes, tree_util
from curta.api.arguments import (
    as_result,
    check_callable,
    differentiated_argnums,
    partial_in,
)
from curta.api.grad import check_complex, check_input, check_output
from curta.api.jvp import jvp
from curta.api.signatures import Aux, Jacobian, P, R
from curta.api.vjp import vjp
from curta.api.vmap import vmap
from curta.core.trace import is_array_like, typeof
from curta.core.tracebacks import api_boundary
from curta.core.wrapping import wraps
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.structure import reshape


@overload
def jacfwd(
    fun: Callable[P, R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
) -> Jacobian[P, R]: ...
@overload
def jacfwd(
    fun: Callable[P, tuple[R, Aux]],
    argnums: int | Sequence[int] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def jacfwd(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
) -> Callable[P, Any]: ...
def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """Return a function that computes the Jacobian of `fun` in forward mode.

    Best where `fun` has more outputs than inputs. For an output of shape s and an
    input of shape t the Jacobian has shape s + t; pytrees give a tree of trees.

    Args:
      fun: function of pytrees of arrays to a pytree of arrays.
      argnums: the positional argument(s) to differentiate in; by default the first.
      has_aux: whether `fun` returns a pair whose second part is passed through.
      holomorphic: whether `fun` is complex-differentiable; inputs are complex.

    Returns:
      A function of the same arguments that returns the Jacobian, in the dtype of the
      output: like the output in structure, with the structure of the argument instead
      of each leaf (a tuple of them for several argnums); with `has_aux` a pair of that
      and the auxiliary value.

    Raises:
      TypeError: if `fun` is not callable; when the function is called, for inputs that
        are not real floats (not complex, with `holomorphic`).
      ValueError: when it is called with too few positional arguments.

    >>> import curta, curta.numpy as jnp
    >>> curta.jacfwd(lambda x: x**2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    single, numbers = differentiated_argnums(argnums)

    @api_boundary
    @wraps(fun)
    def jacobian_fun(*args: Any, **kwargs: Any) -> Any:
        partial, chosen = partial_in(fun, numbers, args, kwargs)
        point = chosen[0] if single else chosen
        for leaf in tree_util.tree_leaves(chosen):
            _check_real_input("jacfwd", leaf, holomorphic)

        def push(tangents: Any) -> Any:
            tangents = (tangents,) if single else tangents
            return jvp(partial, chosen, tuple(tangents), has_aux=has_aux)

        results = vmap(push, out_axes=(None, -1, None) if has_aux else (None, -1))(
            _standard_basis(point)
        )
        for leaf in tree_util.tree_leaves(results[0]) if holomorphic else ():
            check_output("jacfwd", leaf, holomorphic)
        jacobian = tree_util.tree_map(
            lambda y, columns: _split_last(point, _of_type(y, columns)),
            *results[:2],
        )
        return (jacobian, results[2]) if has_aux else jacobian

    return jacobian_fun


@overload
def jacrev(
    fun: Callable[P, R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Jacobian[P, R]: ...
@overload
def jacrev(
    fun: Callable[P, tuple[R, Aux]],
    argnums: int | Sequence[int] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def jacrev(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[P, Any]: ...
def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any:
    """Return a function that computes the Jacobian of `fun` in reverse mode.

    Best where `fun` has more inputs than outputs; shapes as for `jacfwd`.

    Args:
      fun, argnums, has_aux, holomorphic: as for `jacfwd`.
      allow_int: whether integer inputs are let through, with float0 Jacobians.

    Returns:
      A function of the same arguments. It returns the same tree as `jacfwd(fun)`, in
      the dtypes of the inputs.

    Raises:
      TypeError: if `fun` is not callable; when the function is called, for integer
        inputs unless `allow_int`, and for outputs that are not real floats (inputs and
        outputs that are not complex, with `holomorphic`).
      ValueError: when it is called with too few positional arguments.

    >>> import curta, curta.numpy as jnp
    >>> curta.jacrev(lambda x: x**2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    single, numbers = differentiated_argnums(argnums)

    @api_boundary
    @wraps(fun)
    def jacobian_fun(*args: Any, **kwargs: Any) -> Any:
        partial, chosen = partial_in(fun, numbers, args, kwargs)
        for leaf in tree_util.tree_leaves(chosen):
            check_input("jacrev", leaf, holomorphic, allow_int)
        out, pull, *aux = vjp(partial, *chosen, has_aux=has_aux)
        for leaf in tree_util.tree_leaves(out):
            check_output("jacrev", leaf, holomorphic)
        rows = vmap(pull)(_standard_basis(out))
        point = chosen
        if single:
            (rows,), (point,) = rows, chosen
        by_input = tree_util.tree_map(
            lambda x, r: _split_first(out, _of_type(x, r)), point, rows
        )
        jacobian = tree_util.tree_transpose(
            tree_util.tree_structure(point), tree_util.tree_structure(out), by_input
        )
        return (jacobian, aux[0]) if has_aux else jacobian

    return jacobian_fun


jacobian = jacrev


@overload
def hessian(
    fun: Callable[P, R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
) -> Jacobian[P, R]: ...
@overload
def hessian(
    fun: Callable[P, tuple[R, Aux]],
    argnums: int | Sequence[int] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def hessian(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
) -> Callable[P, Any]: ...
def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """Return a function that computes the Hessian of `fun`, forward over reverse mode.

    Args:
      fun: function of pytrees of arrays, in most cases to a scalar.
      argnums: the positional argument(s) to differentiate in; by default the first.
      has_aux: whether `fun` returns a pair whose second part is passed through.
      holomorphic: whether `fun` is complex-differentiable; inputs are complex.

    Returns:
      A function of the same arguments that returns the Jacobian of the Jacobian: for an
      output of shape s and an input of shape t an array of shape s + t + t.

    Raises:
      TypeError, ValueError: where `jacfwd` and `jacrev` do.

    >>> import curta, curta.numpy as jnp
    >>> curta.hessian(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    inner = jacrev(fun, argnums, has_aux, holomorphic)
    return jacfwd(inner, argnums, has_aux, holomorphic)


def _of_type(like: Any, x: Any) -> Any:
    """Derivatives in dtype and weak type like a value; floats0 as integer zeros."""
    dtype, weak_type = typeof(like).dtype, typeof(like).weak_type
    result = typeof(x)
    if result.dtype == dtypes.float0:
        return _array(np.zeros(np.shape(x), dtype), weak_type)
    if (result.dtype, result.weak_type) == (dtype, weak_type):
        return x
    return ConvertElementType(dtype, weak_type)(x)


def _check_real_input(what: str, x: Any, holomorphic: bool) -> None:
    if not is_array_like(x):
        raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type.")
    dtype = typeof(x).dtype
    if holomorphic:
        check_complex(what, "inputs", dtype)
    elif not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"{what} requires real-valued inputs (input dtype that is a sub-dtype of"
            f" np.floating), but got {dtype.name}. For holomorphic differentiation,"
            " pass holomorphic=True. For differentiation of non-holomorphic functions"
            " involving complex inputs or integer inputs, use jax.jvp directly."
        )


def _standard_basis(point: Any) -> Any:
    """One tangent tree per scalar in `point`, stacked along dim 0 of each leaf."""
    leaves, treedef = tree_util.tree_flatten(point)
    if not leaves:
        raise ValueError(
            "at least one array or dtype is required: the input or output to"
            f" differentiate, {point}, holds none."
        )
    avals = [typeof(x) for x in leaves]
    total = sum(a.size for a in avals)
    basis, offset = [], 0
    for aval in avals:
        dtype = aval.to_tangent_aval().dtype
        rows = np.zeros((total, aval.size), dtype)
        if dtype != dtypes.float0:
            rows[offset + np.arange(aval.size), np.arange(aval.size)] = 1
        offset += aval.size
        basis.append(_array(rows.reshape(total, *aval.shape), aval.weak_type))
    return tree_util.tree_unflatten(treedef, basis)


def _array(x: np.ndarray[Any, Any], weak_type: bool) -> Any:
    if x.dtype == dtypes.float0:
        return x
    return ConvertElementType(x.dtype, True)(x) if weak_type else as_result(x)


def _split_last(point: Any, columns: Any) -> Any:
    """Columns along the last dim, as a tree like `point` of Jacobians."""
    leaves, treedef = tree_util.tree_flatten(point)
    shape = typeof(columns).shape
    parts, offset = [], 0
    for leaf in leaves:
        aval = typeof(leaf)
        part = columns[..., offset : offset + aval.size]
        offset += aval.size
        parts.append(reshape(part, (*shape[:-1], *aval.shape)))
    return tree_util.tree_unflatten(treedef, parts)


def _split_first(out: Any, rows: Any) -> Any:
    """Rows along dim 0, as a tree like `out` of Jacobians."""
    leaves, treedef = tree_util.tree_flatten(out)
    shape = typeof(rows).shape
    parts, offset = [], 0
    for leaf in leaves:
        aval = typeof(leaf)
        part = rows[offset : offset + aval.size]
        offset += aval.size
        parts.append(reshape(part, (*aval.shape, *shape[1:])))
    return tree_util.tree_unflatten(treedef, parts)
