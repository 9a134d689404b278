"""Messages of methods, updates and functions of arrays for their other arguments."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp

M = jnp.ones((2, 3))
V = jnp.ones(3)
N = jnp.arange(3)
K = curta.random.key(0)
WIDE = np.zeros(2, np.longdouble)
RECORDS = np.zeros(2, "f8,i4")
STRUCT = curta.ShapeDtypeStruct((2,), "float32")
AVAL = curta.core.ShapedArray((2,), np.dtype("float32"))
NONE = jnp.ones((0, 3))

LISTED = "requires ndarray or scalar arguments, got"

# the mistake, the class, the opening words, what helps
MISTAKES = [
    # keywords
    (
        lambda: M.at[0].set(1, nope=1),
        TypeError,
        "IndexedUpdate.set() got an unexpected keyword argument 'nope'",
        "unique_indices",
    ),
    (lambda: M.at[0].divide(1, nope=1), TypeError, "IndexedUpdate.divide() got", ""),
    (lambda: M.at[0].apply(jnp.sin, nope=1), TypeError, "IndexedUpdate.apply()", ""),
    (
        lambda: M.flatten(nope=1),
        TypeError,
        "flatten() got an unexpected keyword argument 'nope'",
        "",
    ),
    (
        lambda: curta.jit(lambda x: x.clip(axis="x"))(M),
        TypeError,
        "clip() got an unexpected keyword argument 'axis'",
        "",
    ),
    (
        lambda: curta.jit(lambda x: x.copy("C"))(M),
        TypeError,
        "copy() takes 1 positional argument but 2 were given",
        "",
    ),
    (lambda: jnp.int8.nope, AttributeError, "type object 'int8' has no attribute", ""),
    (lambda: pow(V, 2, 3), TypeError, "Array.__pow__() takes 2 positional", "3 were"),
    # arguments that are no numbers
    (lambda: jnp.vecdot(M, object()), TypeError, f"jnp.vecdot {LISTED}", "position 1"),
    (lambda: jnp.vecdot("x", M), TypeError, "asarray: expected ArrayLike, got x", ""),
    (lambda: jnp.clip(M, 0, [1]), TypeError, f"clip {LISTED}", "position 2"),
    (lambda: jnp.unique_all([1]), TypeError, f"unique_all {LISTED}", "list"),
    (lambda: jnp.unique_counts([1]), TypeError, f"unique_counts {LISTED}", "list"),
    (lambda: jnp.unique_inverse([1]), TypeError, f"unique_inverse {LISTED}", "list"),
    (lambda: jnp.unique_values([1]), TypeError, f"unique_values {LISTED}", "list"),
    (lambda: jnp.arange(None), TypeError, "arange must be given a real number", ""),
    (lambda: jnp.polyfit(V, V, 1, "x"), ValueError, "could not convert string to", ""),
    (lambda: jnp.var(M, ddof=[1]), TypeError, "var, argument ddof, requires", "list"),
    (lambda: jnp.std(M, correction=[1]), TypeError, "std, argument correction,", ""),
    (lambda: jnp.nanvar(M, ddof=1j), TypeError, "le does not accept dtype", ""),
    (
        lambda: curta.jit(lambda x: jnp.std(x, ddof=[1]))(M),
        TypeError,
        "std, argument ddof, requires",
        "",
    ),
    (lambda: jnp.isclose(M, M, atol=[1]), TypeError, "isclose, arguments rtol an", ""),
    (lambda: jnp.unwrap(M, (1, 2)), TypeError, f"unwrap {LISTED}", "position 1"),
    (
        lambda: jnp.interp(V, V, V, right=b"x", period=2.0),
        TypeError,
        "Error interpreting argument to",
        "right",
    ),
    (lambda: jnp.nan_to_num(N, copy=slice(1)), TypeError, "Error interpreting arg", ""),
    (lambda: jnp.repeat(M, 1.5), TypeError, "jnp.repeat: repeats must have", "float64"),
    (
        lambda: jnp.repeat(V, V, total_repeat_length=6),
        TypeError,
        "jnp.repeat: repeats must have",
        "float32",
    ),
    (lambda: jnp.repeat(V, V), TypeError, "jnp.repeat: repeats must have", "float32"),
    (lambda: jnp.linalg.norm(V, ord=1j), TypeError, "The order of a vector norm", "1j"),
    (lambda: jnp.linalg.norm(V, ord=object()), TypeError, "The order of a vector", ""),
    (lambda: M[np.array(["x"])], TypeError, "Indexer must have integer or", "<U1"),
    (lambda: jnp.zeros_like(jnp), TypeError, f"zeros_like {LISTED}", "module"),
    (lambda: jnp.full_like(np.float32, 1), TypeError, f"full_like {LISTED}", "type"),
    (lambda: jnp.full_like(None, V), TypeError, f"full_like {LISTED}", "position 0"),
    (lambda: jnp.where(object()), TypeError, f"where {LISTED}", "position 0"),
    (
        lambda: jnp.union1d(N, N, size=9, fill_value=[1]),
        TypeError,
        "The fill_value",
        "",
    ),
    (
        lambda: jnp.setxor1d(N, N, size=9, fill_value=[1]),
        TypeError,
        "The fill_value",
        "",
    ),
    (
        lambda: jnp.setdiff1d(N, N, size=9, fill_value=[1]),
        TypeError,
        "full_like requires",
        "",
    ),
    (
        lambda: jnp.nonzero(N, size=9, fill_value=object()),
        TypeError,
        "nonzero, argument fill_value,",
        "object",
    ),
    (lambda: jnp.setdiff1d(N, N, size=9, fill_value=1j), TypeError, "int() argum", ""),
    # elements that no array has
    (lambda: jnp.atleast_1d(WIDE), TypeError, "Error interpreting argument to", "arys"),
    (lambda: curta.jit(lambda: WIDE)(), TypeError, "Dtype float128 is not a", ""),
    (lambda: curta.jit(lambda: WIDE[0])(), TypeError, "Argument '0.0' of type", ""),
    (lambda: jnp.all(WIDE[0]), TypeError, "Argument '0.0' of type <class", "all"),
    (lambda: curta.jit(jnp.sin)(WIDE[0]), TypeError, "Argument '0.0' of type", "x"),
    (lambda: jnp.all(AVAL), TypeError, "Argument 'float32[2]' of type <class", "all"),
    (lambda: jnp.nansum(AVAL), TypeError, "Argument 'float32[2]' of type <class", "a."),
    (
        lambda: jnp.zeros_like(WIDE),
        TypeError,
        "Value '[0. 0.]' with dtype float128",
        "",
    ),
    (lambda: jnp.sum(STRUCT), TypeError, "Argument 'argument 0 of sum' of shape", ""),
    (lambda: curta.jit(jnp.sin)(RECORDS), TypeError, "Error interpreting argument", ""),
    (lambda: jnp.from_dlpack(K), TypeError, "The array passed to from_dlpack", "must"),
    # keys are no numbers
    (lambda: K.sum(), TypeError, "reduce_sum does not accept dtype key<fry>", ""),
    (lambda: f"{K:d}", TypeError, "unsupported format string passed to", "ArrayImpl"),
    (lambda: jnp.arange(3, dtype=K.dtype), TypeError, "iota does not accept dtype", ""),
    (lambda: jnp.take(V, K), TypeError, "Cannot interpret 'key<fry>' as a", "key_data"),
    (lambda: K.view("uint32"), ValueError, "unexpected input: dtype=key<fry>", ""),
    (lambda: M.view(K.dtype), ValueError, "unexpected input: dtype=key<fry>", "num"),
    (
        lambda: jnp.gcd(N, K),
        ValueError,
        "dtype=key<fry> is not a valid dtype for JAX type promotion",
        "",
    ),
    (lambda: jnp.mean(V, dtype=K.dtype), ValueError, "Cannot convert_element_type", ""),
    (lambda: jnp.cumsum(V, dtype=K.dtype), ValueError, "Cannot convert_element", ""),
    # arguments that do not fit
    (lambda: jnp.zeros(2**70), MemoryError, "RESOURCE_EXHAUSTED: Out of memory", ""),
    (
        lambda: M.at[0].apply(lambda x: V),
        TypeError,
        "The function that scatter",
        "(3,)",
    ),
    (
        lambda: M.__array_namespace__(api_version="1"),
        ValueError,
        "api_version='1' is not available",
        jnp.__array_api_version__,
    ),
    (lambda: jnp.split(V, [2, 1]), ValueError, "Sizes passed to split must be", "-1"),
    (lambda: jnp.split(V, [5]), ValueError, "Sizes passed to split must be", "-2"),
    (lambda: jnp.nanmedian(NONE[:, 0]), IndexError, "index is out of bounds for", "no"),
    (lambda: jnp.nanmedian(NONE, axis=0), TypeError, "Slice size at index 0 in", "no"),
    (lambda: jnp.median(NONE[:, 0]), TypeError, "Slice size at index 0 in gather", ""),
    (
        lambda: jnp.quantile(NONE, 0.5, axis=0, method="inverted_cdf"),
        TypeError,
        "Slice size at index 0 in gather",
        "",
    ),
    (lambda: V[0].cumsum(axis=0), ValueError, "axis 0 is out of bounds for array", ""),
    (
        lambda: curta.jit(lambda x: M.transpose(x))(N),
        curta.errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete",
        "",
    ),
    (
        lambda: curta.jit(jnp.setdiff1d)(V, V),
        curta.errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete",
        "setdiff1d()",
    ),
    (
        lambda: curta.jit(jnp.setxor1d)(NONE, NONE),
        curta.errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete",
        "setxor1d()",
    ),
    (
        lambda: jnp.vectorize(jnp.dot, signature="(n),(n) -> ()")(V, V),
        ValueError,
        "not a valid gufunc signature: (n),(n) -> ()",
        "",
    ),
    (lambda: jnp.can_cast("nope", int), TypeError, "did not understand one of", ""),
    (lambda: jnp.negative.outer(V, [1]), ValueError, "outer only supported for", ""),
    (lambda: jnp.modf(None, V), TypeError, f"modf {LISTED}", "NoneType"),
    (
        lambda: jnp.extract(N, N, size=9, fill_value=[1]),
        TypeError,
        f"extract {LISTED}",
        "position 2",
    ),
    (lambda: jnp.argmax(b"x"), TypeError, "asarray: expected ArrayLike, got b'x'", ""),
    (lambda: V.take(True, mode="clip"), ValueError, "indices must have an integer", ""),
    (
        lambda: jnp.interp(V, V, V, period=jnp.float8_e4m3fn(1)),
        ValueError,
        "Input dtypes",
        "float8_e4m3fn",
    ),
    (lambda: M.at["x"].set(K), TypeError, "String indexing is not supported", ""),
    (lambda: K.at[0].set(1), IndexError, "Too many indices: array is 0-dim", ""),
    (
        lambda: jnp.result_type(np.longdouble, 1),
        ValueError,
        "dtype=dtype('float128') is not a valid dtype for JAX type promotion.",
        "",
    ),
    (lambda: jnp.array(1, ndmin=2**40), ValueError, "maximum supported dimension", ""),
    (lambda: jnp.fromiter(), NotImplementedError, "jnp.fromiter() is not impl", ""),
    (lambda: jnp.sum(M, initial=(0, 5)), TypeError, f"sum {LISTED}", "tuple"),
    (
        lambda: curta.jit(lambda i: jnp.take(V, i, mode="clip"))(1.0),
        ValueError,
        "indices must have an integer type",
        "float32",
    ),
    (lambda: jnp.size(M, (0, -2)), ValueError, "repeated axis: (0, 0)", ""),
    (lambda: jnp.average(M, axis=(0, 0)), ValueError, "repeated axis: (0, 0)", ""),
    (
        lambda: jnp.permute_dims(M, (-1, 1)),
        TypeError,
        "transpose permutation isn't a permutation of operand dimensions",
        "(1, 1)",
    ),
    (lambda: jnp.ediff1d(V, to_end=[1.0]), TypeError, f"ediff1d {LISTED}", "list"),
    (
        lambda: jnp.tril_indices_from([[1]]),
        TypeError,
        f"tril_indices_from {LISTED}",
        "",
    ),
    (
        lambda: jnp.unravel_index(N, [[2]]),
        ValueError,
        "unravel_index: shape should",
        "",
    ),
    (
        lambda: jnp.unwrap(M, discont=V),
        ValueError,
        "Incompatible shapes for broadcasting: shapes=[(2, 2), (3,)]",
        "",
    ),
    (lambda: jnp.hstack([]), ValueError, "Need at least one array to concatenate", ""),
    (lambda: jnp.histogram2d(V, M), TypeError, "Cannot concatenate arrays with", "3)"),
    (lambda: jnp.histogram2d(M, M), ValueError, "too many values to unpack (exp", "2,"),
    (lambda: jnp.histogram2d(1, 2), ValueError, "not enough values to unpack (e", "()"),
    (
        lambda: curta.jit(lambda i: jnp.vecdot(M, M, axis=i))(0),
        curta.errors.TracerIntegerConversionError,
        "The __index__() method was called on traced array",
        "",
    ),
    (
        lambda: curta.jit(lambda i: jnp.linalg.tensorsolve(M, V, i))(N),
        curta.errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete",
        "static index",
    ),
    (lambda: jnp.histogramdd(M, range=1), ValueError, "For sample.shape=(2, 3)", "1"),
    (lambda: jnp.histogram2d(V, V, range=(1, 2)), ValueError, "For sample.shape", ""),
    (lambda: jnp.piecewise(M, [M > 0], {}), ValueError, "with 1 condition(s)", "got 0"),
    (
        lambda: jnp.promote_types(object, int),
        ValueError,
        "dtype=dtype('O') is not a valid dtype for JAX type promotion",
        "",
    ),
]


@pytest.mark.parametrize("mistake, kind, opening, help", MISTAKES)
def test_says_what_is_wrong(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


def test_fractions_of_degrees_of_freedom():
    x = jnp.array([1.0, jnp.nan, 3.0])
    np.testing.assert_allclose(jnp.nanvar(x, ddof=0.5), 2 / 1.5, rtol=1e-6)


def test_fill_values_promote_what_they_fill():
    assert jnp.setxor1d(N, N, size=2, fill_value=1.5).tolist() == [1.5, 1.5]
    assert jnp.intersect1d(N, N[:1], size=2, fill_value=0.5).tolist() == [0, 0.5]
    assert jnp.setdiff1d(V > 0, V > 0, size=1).dtype == bool
    assert jnp.setdiff1d(N, N, size=1, fill_value=1.5).tolist() == [1]


def test_axes_given_by_an_iterator():
    assert jnp.nanmean(M, axis=iter([0])).shape == (3,)
    assert jnp.nanvar(M, axis=iter([0])).shape == (3,)
    assert jnp.nanmax(M, axis=iter([0])).shape == (3,)


def test_folds_of_nothing():
    fold = jnp.frompyfunc(jnp.add, 2, 1, identity=0).reduce
    assert fold(jnp.ones(0)) == 0
    assert fold(jnp.ones((0, 2)), initial=1).tolist() == [1, 1]
    assert fold(jnp.ones((0, 2)), initial=jnp.arange(2)).tolist() == [0, 1]
    assert jnp.subtract.reduce(M, initial=V).shape == (3,)


def test_what_is_accepted():
    assert jnp.repeat(V, V > 0).shape == jnp.repeat(V, True).shape == (3,)
    assert jnp.repeat(jnp.array(1.0), 2, axis=0).shape == (2,)
    assert jnp.zeros_like(2**40) == 0
    assert jnp.ones_like(False).dtype == bool
    assert jnp.linalg.tensorsolve(jnp.eye(3), V, jnp.array([1])).shape == (3,)
    assert jnp.ones_like(RECORDS, int, (2,)).tolist() == [1, 1]
    assert curta.jit(jnp.unravel_index)(N, 3)[0].tolist() == [0, 1, 2]
    assert jnp.kaiser(3, M).shape == (2, 3)
    assert jnp.nan_to_num(M * np.nan, nan=[1, 2, 3]).tolist() == [[1, 2, 3]] * 2
    steps = jnp.unwrap(M * 4, discont=np.ones(3), period=V, axis=0)
    assert steps.tolist() == (M * 4).tolist()
    assert curta.jit(lambda x: jnp.stack([x, x], jnp.int4(1)))(V).shape == (3, 2)
    assert jnp.setdiff1d(N, N, size=True).tolist() == [0]
    assert jnp.unpackbits(jnp.ones(2, "uint8"), count=-99).shape == (0,)
    assert not jnp.can_cast([("a", "f4")], "float32")
    assert jnp.can_cast(V, "float32")
    assert jnp.nanmedian(NONE, axis=1).shape == (0,)
    assert jnp.add.reduceat(N, jnp.array([True])).tolist() == [3]
    assert bytes(N) == np.arange(3, dtype="int32").tobytes()
    assert jnp.frombuffer(N, "int32").tolist() == [0, 1, 2]
    assert M.__array_namespace__() is jnp
    assert curta.jit(lambda x: x.__array_namespace__().sin(x))(V).shape == (3,)
