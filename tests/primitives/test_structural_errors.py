"""Operands that the structural ops refuse: the class and the opening words."""

import re

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax

X = np.ones((3, 4), np.float32)
V = np.ones(5, np.float32)
I = np.ones(2, np.int32)  # noqa: E741
ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
PLACES = np.zeros((2, 1), np.int32)


def gather(sizes=(1, 4), indices=PLACES, **changes):
    return lax.gather(X, indices, ROWS._replace(**changes), sizes)


def scatter(updates=X[:2], indices=PLACES, **changes):
    numbers = lax.ScatterDimensionNumbers(*ROWS)._replace(**changes)
    return lax.scatter(X, indices, updates, numbers)


def dot(lhs, rhs, lhs_contract, rhs_contract, lhs_batch=(), rhs_batch=()):
    numbers = ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))
    return lax.dot_general(lhs, rhs, numbers)


CASES = [
    # shapes
    (lambda: lax.reshape(V, (2, 2)), TypeError, "reshape total size must be unchanged"),
    (lambda: lax.reshape(V, (-1,)), TypeError, "reshape new_sizes must all be positi"),
    (lambda: lax.reshape(V, (2.5,)), TypeError, "Shapes must be 1D sequences of conc"),
    (lambda: lax.full((-1,), 0), TypeError, "broadcast_in_dim shape must have every e"),
    (lambda: lax.full((2,), V), TypeError, "full must be called with scalar fill_val"),
    (
        lambda: lax.broadcast_in_dim(V, (3,), (0,)),
        TypeError,
        "broadcast_in_dim operand dimension sizes must either be 1, or be equal",
    ),
    (
        lambda: lax.broadcast_in_dim(V, (5,), (1,)),
        TypeError,
        "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions",
    ),
    (
        lambda: lax.broadcast_in_dim(V, (5, 5), (0, 1)),
        TypeError,
        "broadcast_in_dim broadcast_dimensions must have length equal to operand ndim",
    ),
    (lambda: lax.transpose(X, (0, 0)), TypeError, "transpose permutation isn't a per"),
    (lambda: lax.squeeze(X, (0,)), ValueError, "cannot select an axis to squeeze out"),
    (lambda: lax.squeeze(X, (5,)), ValueError, "axis 5 is out of bounds for array of"),
    (
        lambda: lax.expand_dims(X, (0, 0)),
        ValueError,
        "repeated axis in lax.expand_d",
    ),
    (lambda: lax.collapse(X, 2, 1), ValueError, "Invalid dimension range passed to c"),
    (lambda: lax.broadcast_shapes((2, 3), (4,)), ValueError, "Incompatible shapes for"),
    (lambda: lax.tile(V, (2, 2)), TypeError, "reps length must be equal to the ndim"),
    # joining
    (lambda: lax.concatenate([], 0), ValueError, "concatenate requires a non-empty"),
    (lambda: lax.concatenate([X, V], 0), TypeError, "Cannot concatenate arrays with d"),
    (lambda: lax.concatenate([X, X], 2), TypeError, "concatenate dimension out of bou"),
    (lambda: lax.concatenate([X, X.T], 0), TypeError, "Cannot concatenate arrays with"),
    (lambda: lax.concatenate([V, I], 0), TypeError, "lax.concatenate requires argume"),
    (lambda: lax.stack([V, X]), ValueError, "Cannot stack arrays with different num"),
    (lambda: lax.stack([V, V[1:]]), ValueError, "All input arrays must have the same"),
    (lambda: lax.split(V, (2, 2)), ValueError, "Sum of sizes 4 must be equal to dime"),
    (lambda: lax.split(V, (-1, 6)), ValueError, "Sizes passed to split must be nonne"),
    # cutting
    (lambda: lax.slice(V, (0,), (7,)), TypeError, "slice limit_indices must be less"),
    (lambda: lax.slice(V, (3,), (2,)), TypeError, "slice limit_indices must be great"),
    (lambda: lax.slice(V, (-1,), (2,)), TypeError, "slice start_indices must have"),
    (lambda: lax.slice(V, (0,), (2,), (-1,)), TypeError, "slice strides must have ev"),
    (lambda: lax.index_in_dim(V, 9), IndexError, "index 9 is out of bounds for axis 0"),
    (lambda: lax.pad(V, np.int32(0), ((0, 0, 0),)), TypeError, "pad operand and padd"),
    (lambda: lax.pad(V, 0.0, ()), ValueError, "length of padding_config must equal"),
    (lambda: lax.pad(V, 0.0, ((0, 0, -1),)), ValueError, "interior padding in padding"),
    (lambda: lax.pad(V, 0.0, ((-3, -3, 0),)), ValueError, "Dimension size after padd"),
    (lambda: lax.rev(V, (0, 0)), TypeError, "rev dimensions must be unique, got (0, "),
    (lambda: lax.rev(V, (1,)), TypeError, "rev dimensions must all be less than oper"),
    (lambda: lax.iota(bool, 3), TypeError, "iota does not accept dtype bool. Accepted"),
    (lambda: lax.iota("int32", -1), TypeError, "iota shape must have every element b"),
    # reductions
    (lambda: lax.reduce_sum(X, (0, 0)), ValueError, "duplicate value in 'axes' of re"),
    (lambda: lax.reduce_max(X, (2,)), ValueError, "reduction axes (2,) contains out-"),
    (lambda: lax.reduce_sum(X > 0, (0,)), TypeError, "reduce_sum does not accept dty"),
    (lambda: lax.reduce_and(X, (0,)), TypeError, "logical reduction requires operand"),
    (lambda: lax.argmax(X[:0], 0, int), ValueError, "argmin and argmax require non-e"),
    (lambda: lax.argmax(X, 0, float), TypeError, "index_dtype must be an integer ty"),
    (lambda: lax.argmax(X * 1j, 0, int), TypeError, "argmax does not accept dtype com"),
    (lambda: lax.cumsum(V, 3), ValueError, "axis 3 is out of bounds for array of sha"),
    (lambda: lax.cummax(V > 0), TypeError, "cummax does not accept dtype bool."),
    # dots
    (lambda: lax.dot(X, X), ValueError, "jax.lax.dot: dimension_numbers must be spec"),
    (lambda: dot(X, X, (0,), (1,)), TypeError, "dot_general requires contracting dim"),
    (lambda: dot(X, V, (0,), (1,)), TypeError, "dot_general requires rhs dimension n"),
    (lambda: dot(X, X, (0,), (0,), (0,), (0,)), TypeError, "dot_general requires lhs"),
    (lambda: dot(X, X, (0,), (0,), (1,), ()), TypeError, "dot_general requires equal"),
    (lambda: dot(X, X, (0, 0), (0, 0)), TypeError, "dot_general requires lhs contrac"),
    (lambda: lax.dot(V, V, precision="exact"), ValueError, "Precision argument must"),
    (
        lambda: lax.dot(I, I, preferred_element_type="int8"),
        TypeError,
        "`preferred_element_type` must not be narrower than the original type",
    ),
    (lambda: lax.batch_matmul(X, V), ValueError, "Arguments to batch_matmul must be"),
    # sorting
    (lambda: lax.sort(V, 5), ValueError, "axis 5 is out of bounds for array of dimen"),
    (lambda: lax.sort([V, X]), TypeError, "Arguments to sort must have equal shapes"),
    (lambda: lax.sort([]), TypeError, "Sort requires at least one operand"),
    (lambda: lax.sort([V, V], num_keys=3), ValueError, "num_keys=3 must be between 1"),
    (lambda: lax.top_k(V, 9), ValueError, "k argument to top_k must be no larger th"),
    (lambda: lax.top_k(V, -1), ValueError, "k argument to top_k must be nonnegative"),
    # windows
    (lambda: lax.dynamic_slice(V, (0, 0), (2,)), ValueError, "Length of slice indices"),
    (lambda: lax.dynamic_slice(V, (0,), (8,)), TypeError, "slice slice_sizes must be"),
    (lambda: lax.dynamic_slice(V, (0.5,), (2,)), TypeError, "index arguments to dyna"),
    (lambda: lax.dynamic_update_slice(V, X, (0,)), TypeError, "dynamic_update_slice u"),
    (lambda: lax.dynamic_update_slice(V, I, (0,)), TypeError, "lax.dynamic_update_sl"),
    (lambda: gather(indices=PLACES * 0.5), ValueError, "indices must have an integer"),
    (lambda: gather(sizes=(1,)), TypeError, "Gather op must have one slice size for"),
    (lambda: gather(sizes=(1, 9)), TypeError, "Slice size at index 1 in gather op is"),
    (lambda: gather(sizes=(2, 4)), TypeError, "Gather op can only collapse slice dims"),
    (lambda: gather(offset_dims=(7,)), TypeError, "Offset dimension 0 in gather op is"),
    (lambda: gather(start_index_map=(0, 1)), TypeError, "Gather op has 2 elements in"),
    (lambda: gather(operand_batching_dims=(0,)), TypeError, "collapsed_slice_dims and"),
    (lambda: scatter(updates=X), TypeError, "Bounds of the scatter dimensions of upd"),
    (lambda: scatter(updates=V), TypeError, "Updates tensor must be of rank 2; got 1"),
    (lambda: scatter(X[:2] > 0), TypeError, "lax.scatter requires arguments to have"),
    (lambda: lax.gather(X, PLACES, ROWS, (1, 4), mode="?"), ValueError, "Unknown gath"),
]


@pytest.mark.parametrize(("call", "error", "opening"), CASES)
def test_refusals(call, error, opening):
    with pytest.raises(error, match="^" + re.escape(opening)):
        call()


def test_traced_shapes_name_the_remedy():
    with pytest.raises(TypeError, match="If using `jit`, try using `static_argnums`"):
        curta.jit(lambda n: lax.full((n,), 0.0))(3)


def test_scatter_mul_of_indices_that_may_repeat_has_no_gradient():
    def f(y):
        return jnp.ones(3).at[np.array([0, 0])].multiply(y).sum()

    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        curta.grad(f)(2.0)
