"""The rules of ops on sparse arrays, for `sparsify`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import curta.numpy as jnp
from curta import lax, tree_util
from curta.experimental.sparse import multiplying, parts, products, rearranging
from curta.experimental.sparse.bcsr import (
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
)
from curta.experimental.sparse.coordinates import Coordinates, full_batch
from curta.experimental.sparse.layout import fewer
from curta.experimental.sparse.transform import (
    SparsifyEnv,
    SparsifyValue,
    array_rule,
    arrays_to_spvalues,
    eval_sparse,
    is_sparse,
    rule,
    sparsified,
    spvalues_to_arrays,
)
from curta.numpy.arguments import concrete

Values = Sequence[SparsifyValue]

# --- element by element --------------------------------------------------------------

_LINEAR = "conj", "copy", "imag", "neg", "real", "stop_gradient"
_ZERO_AT_ZERO = (
    *("abs", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cbrt", "ceil"),
    *("convert_element_type", "erf", "erf_inv", "expm1", "floor", "integer_pow"),
    *("log1p", "reduce_precision", "round", "sign", "sin", "sinh", "sqrt", "square"),
    *("tan", "tanh"),
)


@rule(*_LINEAR, *_ZERO_AT_ZERO)
@rule(*_LINEAR, *_ZERO_AT_ZERO, bcsr=True)
def _element_by_element(spenv: SparsifyEnv, op: Any, value: SparsifyValue) -> Values:
    if op.name == "integer_pow" and op.y <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with non-positive exponent {op.y} is not"
            " implemented because it would result in dense output. If this is your"
            " intent, use sparse.todense() to convert your argument to a dense array."
        )
    if op.name not in _LINEAR and not value.unique_indices:
        mat = spvalues_to_arrays(spenv, value)
        mat = mat.sum_duplicates(nse=mat.nse, remove_zeros=False)
        value = arrays_to_spvalues(spenv, mat)
    return [_with_data(spenv, value, op(spenv.data(value)))]


def _with_data(spenv: SparsifyEnv, value: SparsifyValue, data: Any) -> SparsifyValue:
    """A sparse array with the indices of another one."""
    return spenv.sparse(
        value.shape,
        data,
        indices_ref=value.indices_ref,
        indptr_ref=value.indptr_ref,
        indices_sorted=bool(value.indices_sorted),
        unique_indices=bool(value.unique_indices),
    )


@rule("mul")
def _mul(spenv: SparsifyEnv, op: Any, x: SparsifyValue, y: SparsifyValue) -> Values:
    if x.is_sparse() and y.is_sparse():
        if x.indices_ref == y.indices_ref and x.unique_indices:
            return [_with_data(spenv, x, op(spenv.data(x), spenv.data(y)))]
        pair = spvalues_to_arrays(spenv, [x, y])
        return arrays_to_spvalues(spenv, [multiplying.bcoo_multiply_sparse(*pair)])
    x, y = (x, y) if x.is_sparse() else (y, x)
    mat = spvalues_to_arrays(spenv, x)
    data = multiplying.bcoo_multiply_dense(mat, spenv.data(y))
    return [_with_data(spenv, x, data)]


@rule("div")
def _div(spenv: SparsifyEnv, op: Any, x: SparsifyValue, y: SparsifyValue) -> Values:
    if y.is_sparse():
        raise NotImplementedError(
            "Division by a sparse array is not implemented because it would result in"
            " dense output. If this is your intent, use sparse.todense() to convert"
            " your arguments to a dense array."
        )
    mat = spvalues_to_arrays(spenv, x)
    data = multiplying.bcoo_multiply_dense(mat, 1.0 / spenv.data(y))
    return [_with_data(spenv, x, data)]


@rule("add", "add_any", "sub")
def _add(spenv: SparsifyEnv, op: Any, x: SparsifyValue, y: SparsifyValue) -> Values:
    if x.is_sparse() and y.is_sparse():
        if x.shape != y.shape:
            raise NotImplementedError(
                "Addition between sparse matrices of different shapes."
            )
        if x.indices_ref == y.indices_ref:
            return [_with_data(spenv, x, op(spenv.data(x), spenv.data(y)))]
        pair = spvalues_to_arrays(spenv, [x, y])
        if op.name == "sub":
            pair[1] = pair[1].replaced(-pair[1].data)
        return arrays_to_spvalues(spenv, [_joined(*pair)])
    shape = jnp.broadcast_shapes(x.shape, y.shape)
    if (y if x.is_sparse() else x).shape != shape:
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented"
            " when the output shape is larger than Y.shape. This is to prevent silent"
            " densification of a large sparse array. If this is your intent, you can"
            " explicitly cast the sparse array to a dense matrix."
        )
    pair = spvalues_to_arrays(spenv, [x, y])
    return [spenv.dense(op(*(v.todense() if is_sparse(v) else v for v in pair)))]


def _joined(x: Coordinates, y: Coordinates) -> Coordinates:
    """The sum: the elements of both."""
    n_batch, n_dense = min(x.n_batch, y.n_batch), min(x.n_dense, y.n_dense)
    x, y = fewer(x, n_batch, n_dense), fewer(y, n_batch, n_dense)
    (a, i), (b, j) = full_batch(x), full_batch(y)
    data = jnp.concatenate([a, b], n_batch)
    indices = jnp.concatenate([i, j.astype(i.dtype)], n_batch)
    return x.made((data, indices), shape=x.shape)


# --- sums and products ---------------------------------------------------------------

array_rule("dot_general")(products.bcoo_dot_general)
array_rule("dot_general", bcsr=True)(bcsr_dot_general)
array_rule("reshape")(rearranging.bcoo_reshape)
array_rule("rev")(rearranging.bcoo_rev)
array_rule("slice")(parts.bcoo_slice)
array_rule("squeeze")(rearranging.bcoo_squeeze)
array_rule("transpose")(rearranging.bcoo_transpose)


@array_rule("conv_general_dilated")
def _convolution(x: Any, y: Any, **params: Any) -> Any:
    return multiplying.bcoo_conv_general_dilated(x, y, **params)


@array_rule("pad")
def _pad(x: Any, value: Any, *, padding_config: Any) -> Any:
    zero = concrete(value, "sparse rule for pad with a traced value.")
    if is_sparse(zero) or zero != 0:
        raise NotImplementedError(
            "sparse rule for pad is not implemented for values that are not zero."
        )
    return parts.padded(x, padding_config)


@array_rule("reduce_sum")
def _reduce_sum(x: Coordinates, *, axes: Any, **_: Any) -> Any:
    out = rearranging.bcoo_reduce_sum(x, axes=axes)
    return out if out.shape else out.todense()


@array_rule("broadcast_in_dim")
def _broadcast(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    return rearranging.bcoo_broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=broadcast_dimensions
    )


@array_rule("broadcast_in_dim", bcsr=True)
def _broadcast_bcsr(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    return bcsr_broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=broadcast_dimensions
    )


@array_rule("concatenate")
def _concatenate(*xs: Any, dimension: int) -> Any:
    if not all(map(is_sparse, xs)):
        return lax.concatenate(
            [x.todense() if is_sparse(x) else x for x in xs], dimension
        )
    return rearranging.bcoo_concatenate(xs, dimension=dimension)


@array_rule("concatenate", bcsr=True)
def _concatenate_bcsr(*xs: Any, dimension: int) -> Any:
    if len(set(map(type, xs))) > 1:
        return _concatenate(
            *(x.to_bcoo() if is_sparse(x) else x for x in xs), dimension=dimension
        )
    return bcsr_concatenate(xs, dimension=dimension)


@array_rule("stack")
def _stack(*xs: Any, axis: int) -> Any:
    if not all(map(is_sparse, xs)):
        return jnp.stack([x.todense() if is_sparse(x) else x for x in xs], axis)
    return _concatenate(*(_with_dim(_broadcast, x, axis) for x in xs), dimension=axis)


@array_rule("stack", bcsr=True)
def _stack_bcsr(*xs: Any, axis: int) -> Any:
    if axis or len(set(map(type, xs))) > 1:
        return _stack(*(x.to_bcoo() if is_sparse(x) else x for x in xs), axis=axis)
    wide = (_with_dim(_broadcast_bcsr, x, axis) for x in xs)
    return _concatenate_bcsr(*wide, dimension=axis)


def _with_dim(broadcast: Any, x: Any, axis: int) -> Any:
    """`x` with a dim of size 1 at position `axis`."""
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    kept = [d for d in range(len(shape)) if d != axis]
    return broadcast(x, shape=shape, broadcast_dimensions=kept)


@array_rule("dynamic_slice")
def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any, **_: Any) -> Any:
    return parts.bcoo_dynamic_slice(x, starts, slice_sizes)


@array_rule("gather")
def _gather(x: Any, indices: Any, **params: Any) -> Any:
    return parts.bcoo_gather(x, indices, **params)


@array_rule("todense")
@array_rule("todense", bcsr=True)
def _todense(x: Any, *, tree: Any) -> Any:
    return x.todense()


# --- ops that hold jaxprs ------------------------------------------------------------


@rule("jit", "closed_call", "remat2", "custom_jvp_call", "custom_vjp_call")
@rule("jit", "closed_call", "remat2", "custom_jvp_call", bcsr=True)
def _call(spenv: SparsifyEnv, op: Any, *values: SparsifyValue) -> Values:
    return eval_sparse(op.jaxpr.jaxpr, op.jaxpr.consts, values, spenv)


def _leaves(arrays: Any) -> list[Any]:
    return tree_util.tree_leaves(arrays)


@rule("while")
@rule("while", bcsr=True)
def _while(spenv: SparsifyEnv, op: Any, *values: SparsifyValue) -> Values:
    of_cond, of_body, carry = op.parts(spvalues_to_arrays(spenv, list(values)))
    cond, _ = sparsified(op.cond_jaxpr, [*of_cond, *carry])
    body, tree = sparsified(op.body_jaxpr, [*of_body, *carry])
    _check_alike("sparsified body output", carry, body.out_avals, "the initial value")
    counts = {"cond_nconsts": len(_leaves(of_cond))}
    counts["body_nconsts"] = len(_leaves(of_body))
    loop = dataclasses.replace(op, cond_jaxpr=cond, body_jaxpr=body, **counts)
    outs = loop(*_leaves([of_cond, of_body, carry]))
    return arrays_to_spvalues(spenv, tree_util.tree_unflatten(tree, outs))


@rule("scan")
@rule("scan", bcsr=True)
def _scan(spenv: SparsifyEnv, op: Any, *values: SparsifyValue) -> Values:
    consts, carry, xs = op.parts(spvalues_to_arrays(spenv, list(values)))
    if any(map(is_sparse, xs)):
        raise NotImplementedError("sparse rule for scan with x values.")
    rows = op.jaxpr.in_avals[len(consts) + len(carry) :]
    body, tree = sparsified(op.jaxpr, [*consts, *carry], rows)
    count = len(_leaves(carry))
    _check_alike("sparsified body output", carry, body.out_avals[:count], "the carry")
    if len(body.out_avals) - count != len(op.jaxpr.out_avals) - len(carry):
        raise NotImplementedError("sparse rule for scan with sparse y values.")
    loop = op.with_body(body, len(_leaves(consts)), count)
    outs = loop(*_leaves([consts, carry, xs]))
    return arrays_to_spvalues(spenv, tree_util.tree_unflatten(tree, outs))


def _check_alike(name: str, carry: Any, avals: Sequence[Any], other: str) -> None:
    """Raise TypeError unless what a loop gives has the buffers that it takes."""
    before = [(x.shape, x.dtype) for x in _leaves(carry)]
    after = [(a.shape, a.dtype) for a in avals]
    if before != after:
        raise TypeError(
            f"{name} must have same type structure as {other}: its buffers are {after},"
            f" those of {other} {before}. A sparse array has to store as many elements"
            " after each step."
        )


@rule("cond")
@rule("cond", bcsr=True)
def _cond(spenv: SparsifyEnv, op: Any, *values: SparsifyValue) -> Values:
    index, *operands = spvalues_to_arrays(spenv, list(values))
    result = [sparsified(branch, operands) for branch in op.branches]
    (first, tree), *others = result
    for branch, other in others:
        if other != tree or branch.out_avals != first.out_avals:
            raise TypeError(
                "sparsified true_fun output must have same type structure as sparsified"
                f" false_fun output, but they are {tree} and {other}, of buffers"
                f" {first.out_avals} and {branch.out_avals}."
            )
    choice = op.with_branches(tuple(branch for branch, _ in result))
    outs = choice(index, *_leaves(operands))
    return arrays_to_spvalues(spenv, tree_util.tree_unflatten(tree, outs))
