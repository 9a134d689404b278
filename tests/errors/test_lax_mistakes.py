"""Functions of `lax` and `lax.linalg`: mistakes and answers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import lax

X = jnp.ones((2, 3))
V = jnp.arange(3.0)
SQUARE = jnp.eye(3)
PLACES = jnp.array([[0], [1]])
IMAGE = jnp.ones((1, 2, 5, 6))
KERNEL = jnp.ones((3, 2, 2, 2))


def gathered(indices=PLACES, x=X, offset=(1,), collapsed=(0,), index_map=(0,)):
    """Rows of X."""
    numbers = lax.GatherDimensionNumbers(offset, collapsed, index_map)
    return lax.gather(x, indices, numbers, (1, 3))


def scattered(indices=PLACES, x=X, window=(1,), inserted=(0,), index_map=(0,)):
    """X with its rows replaced."""
    numbers = lax.ScatterDimensionNumbers(window, inserted, index_map)
    return lax.scatter(x, indices, X, numbers)


def along(function):
    """`function` of a row, within a map over the axis n."""
    return curta.vmap(function, axis_name="n")(SQUARE)


# what goes wrong, the mistake, the class, JAX's opening words, what helps
SHAPES = [
    (
        "slice float",
        lambda: lax.slice(X, (1.5, 0), (2, 3)),
        TypeError,
        "slice start_indices must have every element be an integer type, got",
        "float",
    ),
    (
        "slice negative",
        lambda: lax.slice(X, (0, 0), (-1, 3)),
        TypeError,
        "slice limit_indices must have every element be nonnegative, got (-1, 3)",
        "",
    ),
    (
        "broadcast_in_dim str",
        lambda: lax.broadcast_in_dim(X, ("a", 2, 3), (1, 2)),
        TypeError,
        "broadcast_in_dim shape must have every element be an integer type",
        "str",
    ),
    (
        "broadcast_in_dim dims",
        lambda: lax.broadcast_in_dim(X, (4, 2, 3), (None, 2)),
        TypeError,
        "broadcast_in_dim broadcast_dimensions must have every element be an integer",
        "NoneType",
    ),
    (
        "broadcast_shapes",
        lambda: lax.broadcast_shapes((-1, 3), (2, 3)),
        TypeError,
        "Only non-negative indices are allowed when broadcasting static shapes",
        "(-1, 3)",
    ),
    (
        "rev",
        lambda: lax.rev(X, ("a",)),
        TypeError,
        "rev dimensions must have every element be an integer type",
        "",
    ),
    (
        "reshape dimensions",
        lambda: lax.reshape(X, (6,), (0, 0)),
        TypeError,
        "reshape dimensions must be a permutation of operand dimensions, got"
        " dimensions (0, 0) for shape (2, 3)",
        "",
    ),
    (
        "tile length",
        lambda: lax.tile(X, ("a",)),
        TypeError,
        "reps length must be equal to the ndim of x, got len(reps)=1 and x.ndim=2.",
        "",
    ),
    (
        "tile negative",
        lambda: lax.tile(X, (-1, 1)),
        TypeError,
        "tile reps must have every element be nonnegative",
        "",
    ),
    (
        "pad length",
        lambda: lax.pad(X, 0.0, (0, 1, 0)),
        ValueError,
        "length of padding_config must equal the number of axes of operand",
        "",
    ),
    (
        "pad value",
        lambda: lax.pad(X, jnp.arange(3), ((0, 0, 0), (0, 0, 0))),
        ValueError,
        "padding_value must be a scalar; got np.shape(padding_value)=(3,)",
        "",
    ),
    (
        "full of a list",
        lambda: lax.full((2,), [1, 2]),
        TypeError,
        "full must be called with scalar fill_value, got fill_value.shape (2,)",
        "",
    ),
    (
        "complex to int",
        lambda: lax.convert_element_type(1j, "int32"),
        TypeError,
        "int() argument must be",
        "complex",
    ),
    (
        "reduce from the end",
        lambda: lax.reduce(X, 0.0, lax.add, (-1,)),
        ValueError,
        "reduction axes (-1,) contains out-of-bounds indices for float32[2,3]",
        "",
    ),
    (
        "no array",
        lambda: lax.dynamic_update_slice(X, "a", (0, 0)),
        TypeError,
        "Error interpreting argument to dynamic_update_slice as an array.",
        "at position 1. Argument 'a' of type <class 'str'> is not a valid JAX type",
    ),
    (
        "an array of strings",
        lambda: lax.stop_gradient(lax.sin(np.array(["a"]))),
        TypeError,
        "Error interpreting argument to sin as an array.",
        "Dtype <U1 is not a valid JAX array type. Only arrays of numeric types are",
    ),
]

INDEXING = [
    (
        "vectors before dtypes",
        lambda: gathered(jnp.ones((2, 3))),
        TypeError,
        "Gather op has 1 elements in start_index_map and the bound of dimension"
        " index_vector_dim=1 of indices is 3. These two numbers must be equal.",
        "",
    ),
    (
        "gather floats",
        lambda: gathered(jnp.ones((2, 1))),
        ValueError,
        "indices must have an integer type",
        "float32",
    ),
    (
        "gather no dim",
        lambda: gathered(jnp.array(0)),
        TypeError,
        "Gather index leaf dimension must be within [0, rank(indices) + 1)",
        "",
    ),
    (
        "gather map before collapsed",
        lambda: gathered(index_map=(5,), collapsed=(7,)),
        TypeError,
        "Invalid start_index_map; domain is [0, 2), got: 0->5.",
        "",
    ),
    (
        "scatter no dim",
        lambda: scattered(jnp.array(0)),
        TypeError,
        "Scatter index leaf dimension must be within [0, rank(indices) + 1)",
        "",
    ),
    (
        "scatter map",
        lambda: scattered(index_map=(0, 0)),
        TypeError,
        "Scatter op has 2 elements in scatter_dims_to_operand_dims and the bound",
        "",
    ),
    (
        "scatter window",
        lambda: scattered(inserted=()),
        TypeError,
        "Scatter op has window of size 1; doesn't match operand of rank 2.",
        "",
    ),
    (
        "index_take",
        lambda: lax.index_take(X, (jnp.array([0]),), (-1,)),
        TypeError,
        "Invalid start_index_map; domain is [0, 2), got: 0->-1.",
        "",
    ),
    (
        "scatter_apply",
        lambda: lax.scatter_apply(
            X,
            PLACES,
            lambda x: "a",
            lax.ScatterDimensionNumbers((1,), (0,), (0,)),
            update_shape=(2, 3),
        ),
        ValueError,
        "Invalid return type from reduction function: <class 'str'>",
        "Full return value: a",
    ),
]

MATRICES = [
    (
        "shape before dtype",
        lambda: lax.linalg.eig(jnp.ones((2, 3), int)),
        ValueError,
        "The input to eig must be a square matrix. Got shape (2, 3).",
        "",
    ),
    (
        "rank before dtype",
        lambda: lax.linalg.lu(2),
        TypeError,
        "Input 0 to lu must have rank at least 2, but got shape=()",
        "",
    ),
    (
        "cholesky_update of a batch",
        lambda: lax.linalg.cholesky_update(jnp.ones((2, 3, 3)), V),
        TypeError,
        "Input 0 to cholesky_update must have a rank of exactly 2, but got",
        "shape=(2, 3, 3)",
    ),
    (
        "reflections",
        lambda: lax.linalg.ormqr(SQUARE, jnp.ones(4), SQUARE),
        ValueError,
        "ormqr expects no more factors of reflections than the Householder matrix",
        "taus shape (4,)",
    ),
    (
        "svd subset",
        lambda: lax.linalg.svd(SQUARE, subset_by_index=3),
        ValueError,
        "full_matrices and subset_by_index cannot both be set",
        "",
    ),
    (
        "eigh subset",
        lambda: lax.linalg.eigh(SQUARE, subset_by_index=(2, 9)),
        ValueError,
        "eigh expects subset_by_index to be (start, end)",
        "0 <= start <= end <= 3. Got (2, 9).",
    ),
    (
        "eig implementation",
        lambda: lax.linalg.eig(SQUARE, implementation="a"),
        ValueError,
        "Only the lapack implementation is supported on CPU.",
        "",
    ),
    (
        "triangular_solve of no array",
        lambda: lax.linalg.triangular_solve(None, SQUARE),
        TypeError,
        "Error interpreting argument to triangular_solve as an array.",
        "at position 0",
    ),
]

COLLECTIVES = [
    (
        "unbound",
        lambda: lax.psum(X, "n"),
        NameError,
        "Found an unbound axis name: n. No axis is in scope",
        "axis_name='n'",
    ),
    (
        "operand first",
        lambda: lax.pmax("a", "n"),
        TypeError,
        "Error interpreting argument to pmax as an array.",
        "",
    ),
    (
        "twice",
        lambda: along(lambda x: lax.psum(x, ("n", "n"))),
        ValueError,
        "duplicate value in 'axes' of reduction",
        "('n', 'n')",
    ),
    (
        "all_gather axis",
        lambda: along(lambda x: lax.all_gather(x, "n", axis=5)),
        ValueError,
        "axis 5 is out of bounds for array of dimension 2",
        "",
    ),
    (
        "all_to_all axis",
        lambda: along(lambda x: lax.all_to_all(x, "n", 5, 0)),
        IndexError,
        "all_to_all split_axis 5 is out of range",
        "(3,)",
    ),
    (
        "psum_scatter axis",
        lambda: along(lambda x: lax.psum_scatter(x, "n", scatter_dimension="a")),
        TypeError,
        "'str' object cannot be interpreted as an integer",
        "",
    ),
    (
        "groups",
        lambda: along(lambda x: lax.psum(x, "n", axis_index_groups="abc")),
        ValueError,
        "axis_index_groups must cover all indices exactly once",
        "",
    ),
    (
        "ppermute pairs",
        lambda: along(lambda x: lax.ppermute(x, "n", [(0, 1, 2)])),
        ValueError,
        "ppermute perm must be pairs (source, destination), got [(0, 1, 2)]",
        "",
    ),
    (
        "pmax unbound",
        lambda: lax.pmax(X, "n"),
        NameError,
        "Found an unbound axis name: n. No axis is in scope: call pmax under shard_map",
        "",
    ),
    (
        "a number as a name",
        lambda: lax.all_gather(X, 3),
        ValueError,
        "axis 3 is out of bounds for array of dimension 0",
        "",
    ),
    (
        "psum dim",
        lambda: lax.psum(X, 2),
        ValueError,
        "axis 2 is out of bounds for array of dimension 2",
        "",
    ),
]

OTHERS = [
    (
        "conv strides",
        lambda: lax.conv(IMAGE, KERNEL, (0, 1), "SAME"),
        ValueError,
        "window_strides must be positive, got (0, 1)",
        "",
    ),
    (
        "conv dimension numbers",
        lambda: lax.conv_general_dilated(
            IMAGE,
            KERNEL,
            (1, 1),
            "SAME",
            dimension_numbers=lax.ConvDimensionNumbers(*[(0, 1, 2)] * 3),
        ),
        ValueError,
        "conv_general_dilated window and window_strides must have the same number of",
        "but got 1 and 2, for lhs shape (1, 2, 5, 6) and dimension_numbers",
    ),
    (
        "reduce to a string",
        lambda: lax.reduce(X, 0.0, lambda x, y: "a", (0,)),
        TypeError,
        "function <lambda> at",
        "traced for reduce comp returned a value of type <class 'str'>, which is not",
    ),
    (
        "window dilation",
        lambda: lax.reduce_window(
            X, 0.0, lax.add, (2, 2), (1, 1), "SAME", None, (0, 1)
        ),
        TypeError,
        "All dilations must be positive, got (0, 1).",
        "",
    ),
    (
        "irfft",
        lambda: lax.fft(jnp.ones(3, complex), "irfft", (3,)),
        ValueError,
        "IRFFT input shape (3,) innermost dimension must be equal to",
        "fft_lengths[-1] // 2 + 1",
    ),
    (
        "fori_loop unroll",
        lambda: curta.jit(lambda n: lax.fori_loop(n, 3, lambda i, x: x, 1.0, unroll=0))(
            0
        ),
        ValueError,
        "Can only use `unroll` in `fori_loop` if the loop bounds are statically known",
        "",
    ),
    (
        "dot",
        lambda: lax.dot("a", X),
        ValueError,
        "jax.lax.dot: dimension_numbers must be specified when not performing simple",
        "lhs_shape=()",
    ),
    (
        "with_sharding_constraint",
        lambda: lax.with_sharding_constraint(X, "x"),
        TypeError,
        "shardings leaf specifications are expected to be PartitionSpec instances or"
        " None, but got x",
        "",
    ),
    (
        "rng_uniform",
        lambda: lax.rng_uniform(0.0, 1.0, (1.5,)),
        TypeError,
        "Shapes must be 1D sequences of concrete values of integer type, got (1.5,).",
        "",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"),
    [m[1:] for m in SHAPES + INDEXING + MATRICES + COLLECTIVES + OTHERS],
    ids=[m[0] for m in SHAPES + INDEXING + MATRICES + COLLECTIVES + OTHERS],
)
def test_message(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


def test_static_numbers_of_numpy_are_compiled():
    cut = curta.jit(lambda x: lax.slice(x, np.array([0, 1]), (2, 3)))
    np.testing.assert_array_equal(cut(X), np.ones((2, 2)))
    one = np.int64(1)
    conv = curta.jit(
        lambda x, w: lax.conv_general_dilated(
            x, w, (one, one), "VALID", feature_group_count=one
        )
    )
    assert conv(IMAGE, KERNEL).shape == (1, 3, 4, 5)


def test_reductions_over_dims_and_names():
    found = along(lambda x: lax.pmax(x, ("n", 0)))
    np.testing.assert_array_equal(found, np.ones(3))
    np.testing.assert_array_equal(lax.pmin(X, 0), np.ones(3))
    assert lax.pmax(None, "n") is None
    np.testing.assert_array_equal(along(lambda x: lax.axis_index(())), np.zeros(3))
    assert not along(lambda x: lax.psum(True, "n")).weak_type


def test_functions_of_cond_with_operands_of_their_own():
    for pred, expected in ((True, np.sin(V)), (False, np.cos(V + 1))):
        found = lax.cond(pred, V, jnp.sin, V + 1, jnp.cos)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_linear_solve_has_the_type_of_its_solution():
    out = lax.custom_linear_solve(
        lambda x: 2 * x, jnp.arange(3), lambda _, b: b.astype("float32") / 2
    )
    assert out.dtype == "float32"


def test_errors_of_loops_name_the_function_of_the_user():
    def body(i, x):
        return "a"

    for upper in 3, jnp.array(3):
        with pytest.raises(TypeError, match=f"function body at {__file__}.*fori_loop"):
            curta.jit(lambda n: lax.fori_loop(0, n, body, V))(upper)
    with pytest.raises(TypeError, match=f"function body at {__file__}.*fori_loop"):
        lax.fori_loop(0, 3, body, V)


def test_decompositions_of_integers_are_those_of_floats():
    matrix = jnp.array([[4, 2], [2, 5]])
    np.testing.assert_allclose(lax.linalg.cholesky(matrix), [[2, 0], [1, 2]])
    assert lax.linalg.eigh(matrix > 2)[1].dtype == "float32"


def test_nothing_to_write_to():
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    empty = jnp.zeros((0, 3))
    assert lax.scatter(empty, PLACES, X, numbers).shape == (0, 3)
    assert lax.scatter_add(empty, PLACES, X, numbers).shape == (0, 3)


def test_places_of_any_rank():
    found = lax.index_take(X * V, (jnp.array([[0], [3]]),), (1,))
    np.testing.assert_array_equal(np.ravel(found), np.zeros(4))


def test_precision_by_name():
    assert lax.Precision("high") is lax.Precision.HIGH
    assert lax.Precision(None) is lax.Precision.DEFAULT
    with pytest.raises(ValueError, match="'a' is not a valid Precision"):
        lax.Precision("a")


def test_a_permutation_of_more_than_its_integers():
    pivots = jnp.array([1, 1], jnp.int32)
    with pytest.raises(OverflowError, match="Python int 1099511627776 too large"):
        lax.linalg.lu_pivots_to_permutation(pivots, 2**40)
