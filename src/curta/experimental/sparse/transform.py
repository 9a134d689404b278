"""`sparsify`: functions of dense arrays applied to sparse ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import curta.numpy as jnp
from curta import lax, tree_util
from curta.api.tracing import make_jaxpr
from curta.core.jaxpr import Jaxpr, Literal
from curta.experimental.sparse import products, rearranging
from curta.experimental.sparse.base import JAXSparse
from curta.experimental.sparse.coordinates import Coordinates, full_batch
from curta.experimental.sparse.layout import fewer

Rule = Callable[..., Any]

# Of each primitive that sparse arrays stay sparse under, `rule(*args, **params)`.
_RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """`f`, written for dense arrays, also for arguments that are `BCOO`.

    Operations that keep zeros, products, sums and what moves elements give sparse
    arrays, or dense ones where a dense array takes part in a sum; NotImplementedError
    for others. `use_tracer` is accepted, and without effect.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([0.0, 3.0]))
    >>> sparse.sparsify(lambda x, y: 2 * x @ y)(x, jnp.array([1.0, 2.0]))
    Array(12., dtype=float32)
    """

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_util.tree_flatten((args, kwargs), is_leaf=_is_sparse)
        stand_ins = [
            jnp.zeros(x.shape, x.dtype) if _is_sparse(x) else x for x in leaves
        ]

        def flat(*values: Any) -> Any:
            inner_args, inner_kwargs = tree_util.tree_unflatten(structure, values)
            return f(*inner_args, **inner_kwargs)

        closed, shape = make_jaxpr(flat, return_shape=True)(*stand_ins)
        outs = _evaluate(closed.jaxpr, closed.consts, leaves)
        return tree_util.tree_unflatten(tree_util.tree_structure(shape), outs)

    return call


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _evaluate(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args)))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        if not any(map(_is_sparse, operands)):
            outs = eqn.op(*operands)
        else:
            outs = _apply(eqn.op, operands)
        if not isinstance(outs, (list, tuple)):
            outs = [outs]
        values.update(zip(eqn.outvars, outs))
    return [read(v) for v in jaxpr.outvars]


def _apply(op: Any, operands: Sequence[Any]) -> Any:
    params = op.params()
    inner = params.get("jaxpr", params.get("call_jaxpr"))
    if op.name in ("jit", "pjit", "closed_call", "remat", "custom_jvp_call"):
        return _evaluate(inner.jaxpr, inner.consts, operands)
    rule = _RULES.get(op.name)
    if rule is None:
        raise NotImplementedError(f"sparse rule for {op.name} is not implemented.")
    return rule(
        *(_as_bcoo(x) if _is_sparse(x) else x for x in operands), op=op, **params
    )


def _as_bcoo(x: Any) -> Any:
    return x if isinstance(x, Coordinates) else x.to_bcoo()


# --- element by element --------------------------------------------------------------


@_rule(
    *("abs", "asin", "asinh", "atan", "atanh", "bessel_i1e", "ceil", "copy", "erf"),
    *("erf_inv", "expm1", "floor", "imag", "log1p", "neg", "real", "round", "sign"),
    *("sin", "sinh", "sqrt", "square", "tan", "tanh", "convert_element_type"),
    *("integer_pow", "cbrt", "conj", "reduce_precision", "stop_gradient"),
)
def _keeps_zeros(x: Coordinates, *, op: Any, **params: Any) -> Any:
    if op.name == "integer_pow" and params["y"] <= 0:
        raise NotImplementedError("integer_pow with exponents that are not positive")
    linear = op.name in ("neg", "real", "imag", "conj", "copy", "convert_element_type")
    if not linear and not x.unique_indices:
        x = x.sum_duplicates(nse=x.nse, remove_zeros=False)
    return x.replaced(op(x.data))


@_rule("mul")
def _mul(x: Any, y: Any, **_: Any) -> Any:
    if isinstance(x, Coordinates) and isinstance(y, Coordinates):
        return products.bcoo_multiply_sparse(x, y)
    x, y = (x, y) if isinstance(x, Coordinates) else (y, x)
    return products.bcoo_multiply_dense(x, y)


@_rule("div")
def _div(x: Any, y: Any, **_: Any) -> Any:
    if isinstance(y, Coordinates):
        raise NotImplementedError("sparse rule for div by a sparse array")
    return products.bcoo_multiply_dense(x, 1 / jnp.asarray(y))


@_rule("add", "add_any", "sub")
def _add(x: Any, y: Any, *, op: Any, **_: Any) -> Any:
    if not (isinstance(x, Coordinates) and isinstance(y, Coordinates)):
        dense = [v.todense() if isinstance(v, Coordinates) else v for v in (x, y)]
        return op(*dense)
    if op.name == "sub":
        y = y.replaced(-y.data)
    n_batch, n_dense = min(x.n_batch, y.n_batch), min(x.n_dense, y.n_dense)
    x, y = fewer(x, n_batch, n_dense), fewer(y, n_batch, n_dense)
    if n_batch == x.ndim:  # nothing but batch dims: elements are summed
        n_batch -= 1
        x, y = fewer(x, n_batch, n_dense), fewer(y, n_batch, n_dense)
    (a, i), (b, j) = full_batch(x), full_batch(y)
    dtype = jnp.result_type(a, b)
    data = jnp.concatenate([a.astype(dtype), b.astype(dtype)], n_batch)
    indices = jnp.concatenate([i, j.astype(i.dtype)], n_batch)
    return x.replaced(data, indices, indices_sorted=False, unique_indices=False)


# --- sums and products ---------------------------------------------------------------


@_rule("dot_general")
def _dot_general(x: Any, y: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    return products.bcoo_dot_general(
        x,
        y,
        dimension_numbers=dimension_numbers,
        preferred_element_type=params.get("preferred_element_type"),
    )


@_rule("reduce_sum")
def _reduce_sum(x: Coordinates, *, axes: Any, **_: Any) -> Any:
    out = rearranging.bcoo_reduce_sum(x, axes=axes)
    return out if out.shape else out.todense()


# --- moving elements -----------------------------------------------------------------


@_rule("transpose")
def _transpose(x: Coordinates, *, permutation: Any, **_: Any) -> Any:
    return rearranging.bcoo_transpose(x, permutation=permutation)


@_rule("reshape")
def _reshape(x: Coordinates, *, new_sizes: Any, **_: Any) -> Any:
    return rearranging.bcoo_reshape(x, new_sizes=new_sizes)


@_rule("squeeze")
def _squeeze(x: Coordinates, *, dimensions: Any, **_: Any) -> Any:
    return rearranging.bcoo_squeeze(x, dimensions=dimensions)


@_rule("broadcast_in_dim")
def _broadcast(
    x: Coordinates, *, shape: Any, broadcast_dimensions: Any, **_: Any
) -> Any:
    return rearranging.bcoo_broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=broadcast_dimensions
    )


@_rule("concatenate")
def _concatenate(*xs: Any, dimension: int, **_: Any) -> Any:
    if not all(isinstance(x, Coordinates) for x in xs):
        dense = [x.todense() if isinstance(x, Coordinates) else x for x in xs]
        return lax.concatenate(dense, dimension)
    return rearranging.bcoo_concatenate(xs, dimension=dimension)


@_rule("rev")
def _rev(x: Coordinates, *, dimensions: Any, **_: Any) -> Any:
    return rearranging.bcoo_rev(x, dimensions)


@_rule("slice")
def _slice(
    x: Coordinates, *, start_indices: Any, limit_indices: Any, strides: Any, **_: Any
) -> Any:
    return rearranging.bcoo_slice(
        x, start_indices=start_indices, limit_indices=limit_indices, strides=strides
    )


@_rule("dynamic_slice")
def _dynamic_slice(x: Coordinates, *starts: Any, slice_sizes: Any, **_: Any) -> Any:
    return rearranging.bcoo_dynamic_slice(x, starts, slice_sizes)


@_rule("gather")
def _gather(
    x: Coordinates, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, **_: Any
) -> Any:
    return products.bcoo_gather(x, indices, dimension_numbers, slice_sizes)


def todense(x: Any) -> Any:
    """A sparse array with all its elements; any other as it is."""
    return x.todense() if _is_sparse(x) else jnp.asarray(x)
