"""Messages of functions of `lax` for invalid sizes, axes and names."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import lax
from curta.errors import ConcretizationTypeError, TracerIntegerConversionError

X = jnp.ones((2, 3))
V = jnp.ones(3)
S = jnp.float32(1.0)
PLACES = jnp.array([[0], [1]])
IMAGE = jnp.ones((1, 2, 5, 6))
KERNEL = jnp.ones((3, 2, 2, 2))
SIZES = (1, 2, 5, 6), (3, 2, 2, 2)
LAYOUT = ("NCHW", "OIHW", "NCHW")
KNOWN = "Abstract tracer value encountered where concrete value is expected"
OPERAND = "Error interpreting argument to"
SHAPES = "Shapes must be 1D sequences of concrete values of integer type, got"


def traced(function):
    """`function` of a number that is not known while tracing."""
    return lambda: curta.jit(function)(1)


def patches(sizes):
    """The windows of these sizes in IMAGE."""
    return lax.conv_general_dilated_patches(IMAGE, sizes, (1, 1), "VALID")


# the mistake, the class, the opening words of JAX, what helps
MISTAKES = [
    # numbers that have to be known
    (traced(lambda i: lax.reduce_precision(X, i, 3)), ConcretizationTypeError, KNOWN,
     "exponent_bits argument of lax.reduce_precision"),
    (traced(lambda i: lax.reduce_precision(X, 5, i)), ConcretizationTypeError, KNOWN,
     "mantissa_bits argument of lax.reduce_precision"),
    (traced(lambda i: lax.broadcasted_iota("int32", (2, 3), i)),
     ConcretizationTypeError, KNOWN, "dimension argument of lax.broadcasted_iota"),
    (traced(lambda i: lax.reshape(X, (3, 2), i)), ConcretizationTypeError, KNOWN,
     "expected a static index or sequence of indices"),
    (traced(lambda i: lax.reshape(X, (3, 2), (i, 0))), TracerIntegerConversionError,
     "The __index__() method was called on traced array", ""),
    (traced(lambda i: lax.conv_shape_tuple(*SIZES, (1, 1), "SAME", i)),
     TracerIntegerConversionError, "The __index__() method was called", ""),
    # dims, axes and sizes
    (lambda: lax.reshape(X, (3, 2), 5), TypeError,
     "reshape dimensions must be a permutation of operand dimensions, got", "(5,)"),
    (lambda: lax.broadcast_in_dim(S, (2,), (1, 0)), TypeError,
     "broadcast_in_dim broadcast_dimensions must have length equal to operand ndim",
     ""),
    (lambda: lax.slice_in_dim(X, 0, 2, axis=1.5), TypeError, "'float' object", ""),
    (traced(lambda i: lax.index_in_dim(X, 0, i)), ConcretizationTypeError, KNOWN, ""),
    (lambda: lax.tile(X, (1.5, 0)), TypeError, SHAPES, "(1.5, 0)"),
    (lambda: lax.shape_as_value(X), TypeError, "Only integer scalar arrays", ""),
    (lambda: lax.concatenate({0: X}, 0), TypeError, "concatenate", ""),
    (lambda: lax.sort(X, num_keys="x"), ValueError, "num_keys='x' must equal 1", ""),
    (lambda: lax.cumsum(True, 1), ValueError, "axis 1 is out of bounds", "shape ()"),
    (lambda: lax.slice(X, None, (2, 3)), TypeError,
     "slice start_indices must be a sequence of integers, got None", ""),
    (lambda: lax.reduce_sum(X, "x"), TypeError,
     "reduce_sum axes must be integers, got ('x',)", ""),
    (lambda: lax.reduce_max(X, (1.5,)), TypeError, "reduce_max axes must be", ""),
    (lambda: lax.gather(X, PLACES, None, (1, 3)), TypeError,
     "gather dimension_numbers must be a lax.GatherDimensionNumbers, got None", ""),
    (lambda: lax.scatter_add(X, PLACES, X, (1,)), TypeError,
     "scatter-add dimension_numbers must be a lax.ScatterDimensionNumbers", "(1,)"),
    (lambda: lax.scatter_apply(X, PLACES, jnp.sin, None), TypeError,
     "scatter_apply dimension_numbers must be a lax.ScatterDimensionNumbers", ""),
    (lambda: lax.gather(X, PLACES, lax.GatherDimensionNumbers(0, (0,), (0,)), (1, 3)),
     TypeError, "offset_dims in gather op must be a tuple of integers; got 0", ""),
    (lambda: lax.scatter(X, PLACES, X, lax.ScatterDimensionNumbers(("a",), (), ())),
     TypeError, "update_window_dims in scatter op must be a tuple of integers", ""),
    (lambda: lax.fft(X, "fft", ("a", 1)), ValueError,
     "FFT input shape (2, 3) minor dimensions must be equal to fft_lengths ('a', 1)",
     "integers"),
    # operands
    (lambda: lax.squeeze([1, 2], (0,)), TypeError, f"{OPERAND} squeeze", ""),
    (lambda: lax.top_k([1, 2], 2), TypeError, f"{OPERAND} top_k", ""),
    (lambda: lax.reduce(X, "x", lax.add, (0,)), TypeError, "Argument 'x' of type", ""),
    (lambda: lax.reduce(X, object(), lax.add, (0,)), TypeError, "Argument '<obj", ""),
    # windows
    (lambda: lax.reduce_window_shape_tuple((4,), (2,), (1,), "VALID", (0,)), TypeError,
     "All dilations must be positive, got (0,).", ""),
    (lambda: lax.reduce_window_shape_tuple((4,), (2,), (1,), ((0, 0),) * 2), TypeError,
     "reduce_window got inconsistent padding and window_dimensions", ""),
    (lambda: patches((1.5, 2)), TypeError, SHAPES, "(1.5, 2)"),
    (lambda: patches((-1, 2)), TypeError, "conv_general_dilated_patches filter_shape",
     "must have every element be nonnegative, got (-1, 2)"),
    (lambda: lax.conv(IMAGE, KERNEL, (0,), "SAME"), ValueError,
     "conv_general_dilated window and window_strides must have the same number of"
     " dimensions, but got 2 and 1", "(1, 2, 5, 6)"),
    (lambda: lax.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", (1.5, 1)),
     ValueError, "String padding is not implemented for transposed convolution", ""),
    (lambda: lax.conv_transpose(IMAGE, KERNEL, (), "SAME"), TypeError,
     "Wrong number of explicit pads for convolution: expected 2, got 0.", ""),
    (lambda: lax.conv_shape_tuple(*SIZES, (1, 1), ((0, 0),) * 2, 5), ValueError,
     "conv_shape_tuple batch_group_count must be positive and divide", "5 for 1"),
    (lambda: lax.conv_shape_tuple(*SIZES, (0, 1), "VALID"), ValueError,
     "window_strides must be positive, got (0, 1)", ""),
    (lambda: lax.conv_shape_tuple(SIZES[0], (3,), (1, 1), "SAME"), TypeError,
     "conv_shape_tuple takes shapes with two more dims than there are strides", ""),
    (lambda: lax.conv_shape_tuple(*SIZES, (1, 1), (1, 1)), ValueError,
     "padding argument to conv_shape_tuple should be a string or a sequence", ""),
    (lambda: lax.conv_general_shape_tuple(np.ones(2, int), SIZES[1], (1, 1), "SAME",
     LAYOUT), IndexError, "convolution dimension_numbers name 4 dims", "(1, 1)"),
    (lambda: lax.conv_transpose_shape_tuple(*SIZES, (1, 1), ((0, 0),), LAYOUT),
     TypeError, "Wrong number of explicit pads for convolution: expected 2, got 1",
     ""),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "kind", "opening", "help"), MISTAKES)
def test_message(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


def test_axes_may_be_arrays():
    assert lax.reshape(X, (3, 2), jnp.array([1, 0])).shape == (3, 2)
    assert lax.shape_as_value(np.array([2, 3])).tolist() == [2, 3]


def along(function):
    """`function` of a row, within a map over the axis n."""
    return lambda: curta.vmap(function, axis_name="n")(jnp.ones((3, 3)))


NAMED = [
    (along(lambda y: lax.all_to_all(y, "n", 0, 5)), ValueError,
     "axis 5 is out of bounds for array of dimension", ""),
    (lambda: lax.psum_scatter("x", "n"), TypeError, f"{OPERAND} psum_scatter", "'x'"),
    (lambda: lax.psum(X, ("n", "n")), NameError, "Found an unbound axis name: n", ""),
    (along(lambda y: lax.psum(y, ("n", "n"))), ValueError, "duplicate value", ""),
    (along(lambda y: lax.pcast(y, "n", to="varying")), ValueError,
     "pvary should be called under jax.shard_map", "{'n'}"),
    (lambda: lax.pcast(X, "n", to="reduced"), ValueError,
     "preduced should be called under jax.shard_map", ""),
    (traced(lambda i: lax.pcast(i, "n", to="unreduced")), ValueError,
     "Unsupported pcast from=invarying, to='unreduced'", ""),
    (traced(lambda i: lax.pcast(i, "n", to="varying")), NameError,
     "Found an unbound axis name: n", "pcast"),
    (lambda: lax.reduce_and(S, (0,)), TypeError,
     "logical reduction requires operand dtype bool or int, got float32", ""),
    (lambda: lax.index_take(X, (jnp.array([0]),), ()), ValueError,
     "indices must have an integer type", "no axes"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "kind", "opening", "help"), NAMED)
def test_message_about_names(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


def test_no_names_at_all():
    for function in lax.psum_scatter, lax.all_gather:
        np.testing.assert_array_equal(function(X, ()), X)
    np.testing.assert_array_equal(lax.pcast(X, (), to="varying"), X)
    assert repr(lax.axis_index(())) == "Array(0, dtype=int32, weak_type=True)"


def test_integers_that_have_no_dtype_of_their_own():
    assert lax.full_like(X, 2**40).tolist() == [[2.0**40] * 3] * 2
    assert lax.full((1,), 2**40, "float32").tolist() == [2.0**40]


def test_attributes_of_composites_may_be_arrays():
    scaled = lax.composite(lambda x, by: x * by, "my.scaled")
    assert scaled(X, by=2 * X).tolist() == [[2.0] * 3] * 2


def test_operands_of_functions_with_rules_are_arrays():
    doubled = curta.custom_jvp(lambda x: x * 2)
    doubled.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    for text in "x", object():
        with pytest.raises(TypeError, match="interpreting argument to custom_jvp_call"):
            doubled(text)
    assert doubled(3) == 6


KEYS = curta.random.split(curta.random.key(0), (2, 3))
NOTHING = np.zeros((2, 3), curta.dtypes.float0)
NUMBERS = "does not accept dtype key<fry>"
NO_NUMBERS = [
    (lambda: lax.bitcast_convert_type(KEYS, "uint32"), ValueError,
     "unexpected input: dtype=key<fry>", "random.key_data"),
    (lambda: lax.bitcast_convert_type(X, KEYS.dtype), ValueError,
     "unexpected input: dtype=key<fry>", "random.key_data"),
    (lambda: lax.iota(curta.dtypes.prng_key, 3), TypeError,
     "iota does not accept dtype <class 'curta.dtypes", "all dtypes of its kind"),
    (lambda: lax.dot(KEYS, KEYS.T), TypeError, f"dot_general {NUMBERS}", "position 0"),
    (lambda: KEYS @ KEYS.T, TypeError, f"dot_general {NUMBERS}", ""),
    (lambda: lax.conv(KEYS[None], KEYS[None], (1,), "SAME"), TypeError,
     f"conv_general_dilated {NUMBERS}", ""),
    (lambda: lax.top_k(KEYS, 1), TypeError, f"top_k {NUMBERS}", ""),
    (lambda: lax.reduce(KEYS, KEYS[0, 0], lax.add, (0,)), TypeError,
     f"add {NUMBERS}", ""),
    (lambda: lax.linalg.cholesky(KEYS[:, :2]), TypeError, f"add {NUMBERS}", ""),
    (lambda: lax.argmax(KEYS, 0, "int32"), ValueError, "Unsupported dtype for max", ""),
    (lambda: lax.argmax(NOTHING, 0, "int32"), ValueError,
     "Unsupported dtype for max", ""),
    (lambda: lax.sort(NOTHING), TypeError, "Called lt_to with a float0 at position 0",
     ""),
    (lambda: lax.dot(NOTHING, NOTHING.T), TypeError,
     "Called dot_general with a float0 at position 0", ""),
    (lambda: lax.rng_uniform(1j, 2j, (2,)), TypeError,
     "rng_uniform does not accept dtype complex64", ""),
    (lambda: lax.linalg.triangular_solve(KEYS[:, :2], KEYS[0, :2], conjugate_a=True),
     TypeError, f"triangular_solve {NUMBERS}", ""),
    (along(lambda y: lax.linalg.cholesky_update([y], y)), TypeError,
     f"{OPERAND} cholesky_update", ""),
    (along(lambda y: lax.linalg.triangular_solve(jnp.eye(3), y[None, None])),
     TypeError, "All inputs to triangular_solve must have the same number of batch",
     ""),
    (lambda: curta.jvp(lax.linalg.symmetric_product, (V, X), (V, X)), TypeError,
     "Input 0 to symmetric_product must have rank at least 2", ""),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "kind", "opening", "help"), NO_NUMBERS)
def test_message_about_dtypes(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


def test_keys_handed_round():
    pairs = [(0, 1), (1, 0)]
    found = curta.vmap(lambda k: lax.ppermute(k, "n", pairs), axis_name="n")(KEYS)
    assert (found == KEYS[::-1]).all()


def test_a_mesh_axis_splits_one_dim():
    mesh, spec = curta.make_mesh((1,), ("n",)), curta.P("n", "n")
    mapped = curta.shard_map(lambda y: y, mesh=mesh, in_specs=curta.P(), out_specs=spec)
    check_message(
        lambda: mapped(X),
        ValueError,
        "A single NamedSharding spec specification can map every mesh axis to at most",
        "duplicate entries for `n`",
    )
