"""Messages of functions of `lax` for invalid static numbers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import lax
from curta.errors import TracerIntegerConversionError

X = jnp.ones((2, 3))
IMAGE, KERNEL = jnp.ones((1, 2, 5, 6)), jnp.ones((3, 2, 2, 2))
SQUARE = jnp.eye(3)
KEY = curta.random.key(0)
PLACES = jnp.array([[0], [1]])
FLOAT = "'float' object cannot be interpreted as an integer"
TEXT = "'str' object cannot be interpreted as an integer"


def along(function):
    """`function` of each row of X, along the axis "n"."""
    return lambda: curta.vmap(function, axis_name="n")(X)


def conv(*, strides=(1, 1), padding="VALID", **settings):
    """A convolution of IMAGE."""
    return lambda: lax.conv_general_dilated(IMAGE, KERNEL, strides, padding, **settings)


def window(**settings):
    """Sums of windows of X."""
    return lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), **settings)


def traced(function):
    """`function` of an integer that is not known while tracing."""
    return lambda: curta.jit(function)(1)


LAYOUT = lax.ConvDimensionNumbers((0, 1, 2, 9), (0, 1, 2, 3), (0, 1, 2, 3))

# the mistake, the class, the opening words, what helps
INTEGERS = [
    (lambda: lax.top_k(X, 1.5), TypeError, FLOAT, "top_k k must be an integer"),
    (lambda: lax.approx_max_k(X, 1, recall_target=[1]), TypeError,
     "approx_max_k recall_target must be a real number",
     "approx_max_k recall_target must be a real number, got"),
    (lambda: lax.approx_min_k(X, 1, reduction_input_size_override=None), TypeError,
     "'NoneType' object", "approx_min_k reduction_input_size_override must be"),
    (lambda: lax.approx_max_k(X, "x"), TypeError, TEXT, "approx_max_k k"),
    (lambda: lax.approx_min_k(X, 1, None), TypeError, "'NoneType' object",
     "approx_min_k reduction_dimension must be an integer, got None"),
    (lambda: lax.argmax(X, 1.5, "int32"), TypeError, FLOAT, "argmax axis"),
    (lambda: lax.argmin(X, "x", "int32"), TypeError, TEXT, "argmin axis"),
    (lambda: lax.sort((X, X), num_keys=1.5), TypeError, FLOAT, "sort num_keys"),
    (lambda: lax.sort(X, "x"), TypeError, TEXT, "axis must be an integer, got 'x'"),
    (lambda: lax.slice_in_dim(X, 0, 1, axis="x"), TypeError, TEXT, "slice_in_dim axis"),
    (lambda: lax.slice_in_dim(X, 0, 1, axis=7), IndexError, "slice_in_dim axis 7 is",
     "out of range for an array of shape (2, 3)"),
    (lambda: lax.index_in_dim(X, 0, 7), IndexError, "index_in_dim axis 7 is out", ""),
    (lambda: lax.index_in_dim(X, 0.5), TypeError, FLOAT, "index_in_dim index"),
    (lambda: lax.concatenate([X, X], 1.5), TypeError, FLOAT, "concatenate dimension"),
    (lambda: lax.collapse(X, 0, [1]), TypeError, "'list' object cannot be interp",
     "collapse dimension must be an integer, got [1]"),
    (lambda: lax.pad(X, 0.0, (1, 1)), TypeError, "cannot unpack non-iterable int",
     "padding_config has (low, high, interior) for every dim, got 1"),
    (lambda: lax.integer_pow(X, 1.5), TypeError, FLOAT, "integer_pow y"),
    (lambda: lax.pad(X, 0.0, ((0.5, 0, 0),) * 2), TypeError, FLOAT, "padding_config"),
    (lambda: lax.pad(X, 0.0, ((0,), (0,))), ValueError, "not enough values to unpack",
     "padding_config has (low, high, interior) for every dim, got (0,)"),
    (lambda: lax.reduce(X, 0.0, lax.add, (0.5,)), TypeError, FLOAT,
     "reduce dimensions must be an integer, got 0.5"),
    (lambda: lax.associative_scan(jnp.add, X, axis=0.5), TypeError, FLOAT,
     "associative_scan axis"),
    (along(lambda y: lax.psum_scatter(y, "n", scatter_dimension="x")), TypeError, TEXT,
     "psum_scatter scatter_dimension"),
    (along(lambda y: lax.all_to_all(y, "n", None, 0)), TypeError, "'NoneType' object",
     "all_to_all split_axis"),
    (along(lambda y: lax.pbroadcast(y, "n", None)), TypeError, "'NoneType' object",
     "pbroadcast source"),
    (along(lambda y: lax.ppermute(y, "n", "x")), TypeError, TEXT, "ppermute perm"),
    (conv(feature_group_count=1.5), TypeError, FLOAT, "feature_group_count"),
    (conv(batch_group_count="x"), TypeError, TEXT, "batch_group_count"),
    (traced(lambda i: lax.top_k(X, i)), TracerIntegerConversionError,
     "The __index__() method was called on traced array with shape int32[]", ""),
    (traced(lambda i: lax.pad(X, 0.0, ((i, 0, 0),) * 2)), TracerIntegerConversionError,
     "The __index__() method was called on traced array with shape int32[]", ""),
    (traced(lambda i: window(padding=((i, 0), (0, 0)))()), TracerIntegerConversionError,
     "The __index__() method was called on traced array with shape int32[]", ""),
    (traced(lambda i: lax.reduce_max(X, (i,))), TracerIntegerConversionError,
     "The __index__() method was called on traced array with shape int32[]", ""),
    (lambda: curta.jit(lambda f: lax.top_k(X, f))(1.0), TypeError,
     "Only integer scalar arrays can be converted to a scalar index",
     "top_k k must be an integer"),
]  # fmt: skip

SEQUENCES = [
    (lambda: lax.broadcast(X, 5), TypeError, "broadcast sizes must be a sequence of",
     "'int' object is not iterable"),
    (lambda: lax.expand_dims(X, 0), TypeError, "expand_dims dimensions must be a", ""),
    (lambda: lax.split(X, 2), TypeError, "split sizes must be a sequence of int", ""),
    (lambda: curta.jit(lambda f: lax.split(X, (f, 1)))(1.0), TypeError,
     "split sizes must have every element be an integer type", "JitTracer"),
    (lambda: lax.split(X, (1.5, 0.5)), TypeError,
     "split sizes must have every element be an integer type", "float"),
    (lambda: lax.reduce(X, 0.0, lax.add, 0), TypeError, "reduce dimensions must be",
     "sequence of integers, got 0"),
    (lambda: lax.reduce_sum(X, np.array([0.0])), TypeError,
     "reduce_sum axes must be integers", ""),
    (lambda: lax.reduce_window(X, 0.0, lax.add, 2), TypeError,
     "reduce_window window_dimensions must be a sequence of integers, got 2", ""),
    (window(window_dilation=2), TypeError,
     "reduce_window window_dilation must be a sequence of integers, got 2", ""),
    (window(padding=(("a", 0), (0, 0))), ValueError,
     "padding argument to reduce_window should be a string or a sequence of", ""),
    (conv(strides=2), TypeError,
     "conv_general_dilated window_strides must be a sequence of integers, got 2", ""),
    (conv(strides=(1.5, 1)), TypeError,
     "conv_general_dilated window_strides must have every element be an integer type",
     ""),
    (conv(rhs_dilation=2), TypeError,
     "conv_general_dilated rhs_dilation must be a sequence of integers", ""),
    (conv(padding=((0, 0), (0, 0)), lhs_dilation=(1.5, 1)), TypeError,
     "conv_general_dilated lhs_dilation must have every element be an integer", ""),
    (conv(dimension_numbers=LAYOUT), IndexError,
     "convolution dimension_numbers 9 is out of range", "(1, 2, 5, 6)"),
    (lambda: lax.conv_transpose(IMAGE, KERNEL, "x", "SAME"), TypeError,
     "conv_transpose strides must have every element be an integer type", ""),
    (lambda: lax.conv_general_permutations(None), TypeError,
     "convolution dimension_numbers must be tuple/list", "NoneType"),
    (lambda: lax.conv_general_permutations(("NC", "OI")), TypeError,
     "convolution dimension_numbers list/tuple must be length 3, got 2", ""),
    (lambda: lax.index_take(X, (jnp.array([0]),), None), TypeError,
     "index_take axes must be a sequence of integers, got None", ""),
    (lambda: lax.index_take(X, (jnp.array([0]),), (5,)), IndexError,
     "index_take axes 5 is out of range for an array of shape (2, 3)", ""),
    (lambda: lax.tile(X, 2), TypeError, "tile reps must be a sequence of integers", ""),
    (lambda: lax.pad(X, 0.0, None), TypeError, "pad padding_config must be a seq", ""),
    (lambda: lax.reduce_window_shape_tuple("x", (2,), (1,), ()), TypeError,
     "reduce_window operand_shape must have every element be an integer type", ""),
    (along(lambda y: lax.psum(y, "n", axis_index_groups=3)), TypeError,
     "axis_index_groups must be a sequence of integers, got 3", ""),
    (lambda: lax.padtype_to_pads("x", (1,), (1,), "SAME"), TypeError,
     "padtype_to_pads in_shape must have every element be an integer type", ""),
    (lambda: lax.padtype_to_pads((4, 4), (2,), (1, 1), "SAME"), ValueError,
     "operands of padtype_to_pads must have one length, got (4, 4), (2,)", ""),
    (lambda: lax.dot_general(X, X.T, 3), TypeError, "cannot unpack non-iterable",
     "dimension_numbers of dot_general are ((lhs contracting dims, rhs"),
    (lambda: lax.dot_general(X, X.T, (((1,), (0,)), ())), ValueError,
     "not enough values to unpack", "(lhs batch dims, rhs batch dims)), got"),
    (lambda: lax.dot_general(X, X.T, (((0.5,), (0,)), ((), ()))), TypeError, FLOAT,
     "dot_general dimension_numbers must be an integer, got 0.5"),
    (lambda: lax.RaggedDotDimensionNumbers(((1, 1), ((), ())), 0, 0), TypeError,
     "ragged_dot_general lhs_ragged_dimensions must be a sequence of integers", ""),
    (lambda: lax.dynamic_slice(X, (0, 0), (1, 1), allow_negative_indices=(True,)),
     ValueError, "allow_negative_indices must have an entry for each of 2 dims", ""),
]  # fmt: skip

SETTINGS = [
    (lambda: lax.dynamic_slice_in_dim(X, 0, 1, 2), IndexError,
     "dynamic_slice_in_dim axis 2 is out of range for an array of shape (2, 3)", ""),
    (lambda: lax.dynamic_update_slice_in_dim(X, X, 0, 2), IndexError,
     "dynamic_update_slice_in_dim axis 2 is out of range", "of shape (2, 3)"),
    (lambda: lax.ragged_dot_general(X, X, jnp.array([1]), 3), TypeError,
     "ragged_dot_general dimension_numbers must be a lax.RaggedDotDimensionNumbers",
     "got 3"),
    (lambda: lax.linalg.symmetric_product(SQUARE, SQUARE, alpha="x"), TypeError,
     "symmetric_product alpha must be a real number, got 'x'", ""),
    (lambda: lax.linalg.symmetric_product(SQUARE, SQUARE, beta=None), TypeError,
     "symmetric_product beta must be a real number, got None", ""),
    (lambda: lax.linalg.qdwh(SQUARE, eps="x"), TypeError,
     "qdwh eps must be a real number, got 'x'", ""),
    (lambda: lax.composite(3, "my.sin")(X), TypeError, "Expected a callable value", ""),
    (lambda: lax.axis_index({}), TypeError, "unhashable type: 'dict'",
     "the name of an axis must have a hash"),
    (lambda: lax.linalg.lu_pivots_to_permutation(jnp.array([0]), "x"), TypeError, TEXT,
     "lu_pivots_to_permutation permutation_size must be an integer"),
    (lambda: lax.linalg.qdwh(SQUARE, max_iterations=2**40), OverflowError,
     "An overflow was encountered while parsing", "max_iterations of qdwh"),
    (lambda: lax.linalg.eig(SQUARE, implementation=lax.linalg.EigImplementation.MAGMA),
     ValueError, "Only the lapack implementation is supported on CPU.", "MAGMA"),
    (lambda: lax.linalg.eig(SQUARE, use_magma=True), ValueError,
     "Only the lapack implementation is supported on CPU.", "use_magma=True"),
    (lambda: lax.reduce((X, X), (0.0, 0.0), lambda x, y: x[0], ()), ValueError,
     "reduce output must have the same tree structure as the operands", ""),
    (lambda: lax.reduce((X, X), (0, 0), lambda x, y: x, ()), TypeError,
     "reduce operand dtypes should match corresponding initial value dtypes", ""),
    (lambda: lax.linalg.eigh(
        SQUARE, implementation=lax.linalg.EighImplementation.JACOBI),
     NotImplementedError, "Jacobi implementation is not supported on CPU", ""),
    (lambda: lax.linalg.eigh(SQUARE, implementation=lax.linalg.EighImplementation.QDWH),
     NotImplementedError, "QDWH implementation is only supported on TPU", ""),
    (lambda: lax.linalg.svd(SQUARE, algorithm=lax.linalg.SvdAlgorithm.POLAR),
     NotImplementedError, "The SVD Jacobi and Polar algorithms are not implemented on",
     "DIVIDE_AND_CONQUER"),
    (lambda: lax.argmax(X, 0, KEY.dtype), TypeError,
     "index_dtype must be an integer type, but got key<fry>", ""),
    (lambda: lax.associative_scan(lambda x, y: x.sum() > 0, X), ValueError,
     "associative_scan fn must return arrays of the shapes that it takes", "got [()]"),
    (lambda: curta.vmap(lambda k: lax.ppermute(k, "n", [(0, 1)]), axis_name="n")(
        curta.random.split(KEY)), TypeError, "ppermute of key<fry> must hand a key to",
     "no zeros among keys"),
    (along(lambda y: lax.all_gather(y, "n", to="reduced")), ValueError,
     "all_gather_reduced only accepts inputs that are varying. Got f32[3]", "('n',)"),
    (along(lambda y: lax.all_gather(y, "n", to="invarying")), ValueError,
     "pvary should be called under jax.shard_map.", "all_gather"),
    (lambda: curta.vmap(lambda y: lax.scatter_apply(
        y, PLACES, jnp.sin, lax.ScatterDimensionNumbers(("a",), (), (0,)),
        update_shape=(2, 1)))(X), TypeError,
     "update_window_dims in scatter op must be a tuple of integers; got ('a',)", ""),
    (lambda: lax.stage("x"), TypeError, "Error interpreting argument to stage", "'x'"),
    (lambda: curta.vmap(lambda y: lax.dynamic_slice(y, (0.0,), (1,)))(X), TypeError,
     "index arguments to dynamic_slice must be integers of the same type", ""),
    (lambda: curta.vmap(lambda y: lax.dynamic_update_slice(y, jnp.ones(4), (0,)))(X),
     TypeError, "dynamic_update_slice update shape must be smaller than operand", ""),
    (lambda: lax.reduce_and(KEY, ()), TypeError,
     "logical reduction requires operand dtype bool or int, got key<fry>", ""),
]  # fmt: skip

BINDS = [
    (lambda: lax.sin_p.bind(), TypeError, "sin takes 1 positional arguments but 0", ""),
    (lambda: lax.add_p.bind(X), TypeError, "add takes 2 positional arguments", ""),
    (lambda: lax.clamp_p.bind(X), TypeError, "clamp takes 3 positional arguments", ""),
    (lambda: lax.copy_p.bind(X, X), TypeError, "copy takes 1 positional arguments", ""),
    (lambda: lax.reduce_sum_p.bind(X, X, axes=(0,)), TypeError,
     "reduce_sum takes 1 positional arguments but 2 were given", ""),
    (lambda: lax.select_n_p.bind(), TypeError, "select_n takes `which`", ""),
    (lambda: lax.concatenate_p.bind(X), TypeError,
     "concatenate needs the parameters ['dimension']", ""),
    (lambda: lax.while_p.bind(X), TypeError, "while needs the parameters [", "body"),
]  # fmt: skip


OPERAND = "Error interpreting argument to {} as an array"
OPERANDS = [
    (mistake, TypeError, OPERAND.format(name), "'x' of type <class 'str'>")
    for name, mistake in [
        ("reshape", lambda: lax.reshape("x", (1,), (0,))),
        ("collapse", lambda: lax.collapse("x", 0)),
        ("slice_in_dim", lambda: lax.slice_in_dim("x", 0, 1)),
        ("split", lambda: lax.split("x", (1,))),
        ("stack", lambda: lax.stack(["x"])),
        ("sort", lambda: lax.sort("x")),
        ("dynamic_slice", lambda: lax.dynamic_slice("x", (), ())),
        ("batch_matmul", lambda: lax.batch_matmul("x", X)),
        ("conv_general_dilated", lambda: lax.conv("x", KERNEL, (1,), "SAME")),
        ("reduce_window", lambda: lax.reduce_window("x", 0.0, lax.add, ())),
        ("conj", lambda: lax.conj("x")),
        ("convert_element_type", lambda: lax.convert_element_type("x", int)),
        ("cholesky", lambda: lax.linalg.cholesky("x")),
        ("qdwh", lambda: lax.linalg.qdwh("x")),
    ]
]


@pytest.mark.parametrize(("mistake", "kind", "opening", "help"), OPERANDS)
def test_operands(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"), INTEGERS + SEQUENCES + SETTINGS + BINDS
)
def test_message(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


def test_places_beyond_all_integers_are_moved_inside():
    x = jnp.arange(6).reshape(2, 3)
    assert (lax.dynamic_slice(x, (2**40, -(2**40)), (1, 1)) == x[1:, :1]).all()
    assert (lax.dynamic_slice_in_dim(x, 2**31, 1) == x[1:]).all()
    moved = lax.dynamic_update_slice(x, x[:1, :1], (2**40, 0))
    assert (moved == x.at[1, 0].set(0)).all()
    assert lax.switch(2**40, [lambda: 0, lambda: 1]) == 1
    assert lax.switch(-(2**40), [lambda: 0, lambda: 1]) == 0


def test_empty_dilations_are_none():
    settings = {"lhs_dilation": (), "rhs_dilation": ()}
    for padding in ("SAME", ((0, 0), (1, 1))):
        found = conv(padding=padding, **settings)()
        assert (found == conv(padding=padding)()).all()


def test_shapes_are_32_bits_wide():
    with curta.enable_x64(True):
        assert lax.shape_as_value((2, 3)).dtype == "int32"
        assert lax.shape_as_value((2**31,)).dtype == "int64"


def test_no_windows_without_padding():
    assert lax.padtype_to_pads((4, 4), None, None, "VALID") == [(0, 0), (0, 0)]


def test_nothing_to_fold():
    assert (lax.reduce(X, 5.0, lax.add, ()) == X).all()
    first, second = lax.reduce((X, X), (0.0, 1.0), lambda x, y: x, ())
    assert (first == X).all() and (second == X).all()


def test_zeros_of_no_bytes_become_zeros():
    found = lax.convert_element_type(np.zeros((2,), curta.dtypes.float0), int)
    assert found.dtype == "int32" and (found == 0).all()


def test_sums_over_no_axis():
    assert lax.psum(X > 0, ()).dtype == bool


def test_constraints_are_for_automatic_axes():
    mesh = curta.make_mesh((1,), ("n",))
    place = curta.NamedSharding(mesh, curta.P("n"))
    check_message(
        lambda: lax.with_sharding_constraint(X, place),
        ValueError,
        "The spec of NamedSharding passed to with_sharding_constraint can only refer",
        "Use `jax.sharding.reshard`",
    )


def test_axes_that_are_booleans():
    assert lax.reduce_prod(X, (True, False)) == 1


def test_symmetric_booleans_are_weak_floats():
    vectors, values = lax.linalg.eigh(jnp.eye(2) > 0)
    assert vectors.weak_type and values.weak_type
    assert lax.linalg.cholesky(jnp.eye(2) > 0).weak_type
