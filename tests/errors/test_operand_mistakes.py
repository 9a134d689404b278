"""Messages of functions of arrays for arguments that are not arrays or axes."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import nn
from curta.scipy import special

M = jnp.ones((2, 3))
V = jnp.ones(3)
K = curta.random.key(0)
TEXT = np.array(["x"])

STAGED = "Error interpreting argument to"
LISTED = "requires ndarray or scalar arguments, got"
STATIC = "Non-hashable static arguments are not supported."

# the mistake, the class, the opening words of JAX, what helps
MISTAKES = [
    # no array: in the words of a traced call
    (lambda: jnp.add(M, "x"), TypeError, STAGED, "add requires ndarray or scalar"),
    (lambda: jnp.exp("x"), TypeError, STAGED, "<class 'str'>"),
    (lambda: jnp.exp(object()), TypeError, STAGED, "<class 'object'>"),
    (lambda: jnp.exp(TEXT), TypeError, STAGED, "dtype <U1"),
    (lambda: jnp.sum("x"), TypeError, STAGED, "sum"),
    (lambda: jnp.max(M, initial="x"), TypeError, STAGED, "max"),
    (lambda: jnp.where(M, 1, "x"), TypeError, STAGED, "position 2"),
    (lambda: jnp.dot("x", M), TypeError, STAGED, "dot"),
    (lambda: jnp.fmax(M, "x"), TypeError, STAGED, "at path x2"),
    (lambda: jnp.median("x"), TypeError, STAGED, "at path a"),
    (lambda: jnp.clip(M, "x"), TypeError, STAGED, "at path min"),
    (lambda: nn.relu("x"), TypeError, STAGED, "<class 'str'>"),
    (lambda: nn.log_softmax(TEXT), TypeError, STAGED, "<class 'numpy.ndarray'>"),
    (lambda: jnp.add.outer("x", M), TypeError, STAGED, "add.outer"),
    # containers are no scalars, and neither are objects to ufuncs
    (lambda: jnp.exp([1, 2]), TypeError, f"exp {LISTED} <class 'list'>", "position 0"),
    (lambda: jnp.add(M, (1, 2)), TypeError, f"add {LISTED} <class 'tuple'>", ""),
    (lambda: jnp.add(M, object()), TypeError, f"add {LISTED} <class 'object'>", ""),
    (lambda: jnp.add(M, None), TypeError, f"add {LISTED} <class 'NoneType'>", ""),
    (lambda: special.erf([1.0]), TypeError, f"erf {LISTED}", "position 0"),
    (lambda: special.erf(object()), TypeError, f"erf {LISTED}", "position 0"),
    # functions that are not traced
    (lambda: jnp.std("x"), TypeError, "asarray: expected ArrayLike, got x", "std"),
    (lambda: jnp.isin(M, "x"), TypeError, "asarray: expected ArrayLike, got x", ""),
    (lambda: jnp.flip(object()), TypeError, f"flip {LISTED}", "position 0"),
    # other names have their own errors
    (lambda: jnp.acos([1]), TypeError, f"acos {LISTED}", ""),
    (lambda: jnp.acosh([1]), TypeError, f"acosh {LISTED}", ""),
    (lambda: jnp.atan2([1], 1), TypeError, f"atan2 {LISTED}", ""),
    (lambda: jnp.invert([1]), TypeError, f"invert {LISTED}", ""),
    (lambda: jnp.bitwise_left_shift([1], 1), TypeError, "bitwise_left_shift", LISTED),
    (lambda: jnp.mod([1], 1), TypeError, f"remainder {LISTED}", ""),
    (lambda: jnp.mod(1), TypeError, "mod() missing 1 required", "'x2'"),
    (lambda: jnp.around(), TypeError, "around() missing 1 required", "'a'"),
    # static arguments
    (lambda: jnp.median(M, axis=[0]), ValueError, STATIC, "tuple instead of a list"),
    (lambda: jnp.nansum(M, axis=jnp.array(1)), ValueError, STATIC, ""),
    (lambda: jnp.cumsum(np.ones(2), axis=[0]), ValueError, STATIC, "[0]"),
    (lambda: jnp.swapaxes(M, 0, [1]), ValueError, STATIC, ""),
    (lambda: jnp.unstack(M, axis=[0]), ValueError, STATIC, ""),
    # axes
    (lambda: jnp.mean(M, axis=2), IndexError, "tuple index out of range", "axis 2"),
    (lambda: jnp.mean(M, axis=2), ValueError, "tuple index out of range", "axis 2"),
    (lambda: jnp.argmax(M, axis=2), IndexError, "tuple index out of range", "axis 2"),
    (lambda: jnp.split(M, 1, axis=2), IndexError, "tuple index out of range", ""),
    (lambda: jnp.unwrap(M, axis=2), IndexError, "tuple index out of range", ""),
    (lambda: jnp.mean(M, axis=(0, 0)), ValueError, "duplicate value in 'axis'", ""),
    (lambda: jnp.median(M, axis=1.0), TypeError, "'float' object cannot be", ""),
    (lambda: jnp.prod(M, axis="i"), NotImplementedError, "Named reductions not", ""),
    (lambda: jnp.sum(M, axis="i"), NameError, "Found an unbound axis name: i", "vmap"),
    (lambda: jnp.mean(M, axis="i"), NameError, "Found an unbound axis name: i", "vmap"),
    (lambda: jnp.unstack(jnp.array(1.0)), ValueError, "axis 0 is out of bounds", ""),
    # shapes
    (lambda: jnp.polymul(V, 1.0), TypeError, "len() of unsized object", "polymul"),
    (lambda: jnp.polyval(1.0, 2.0), IndexError, "tuple index out of range", "polyval"),
    (lambda: jnp.poly(M), ValueError, "input must be 1d or non-empty square", "(2, 3)"),
    (lambda: jnp.tile(M, 1.5), TypeError, "Shapes must be 1D sequences of", "1.5"),
    (lambda: jnp.tril_indices(-1), TypeError, "broadcast_in_dim shape must", "-1"),
    (lambda: jnp.hamming(-1), TypeError, "broadcast_in_dim shape must have", "-1"),
    (lambda: jnp.tril(M, 0.5), TypeError, "'float' object cannot be interpreted", ""),
    (
        lambda: jnp.histogram2d(V, jnp.ones(2)),
        TypeError,
        "Cannot concatenate arrays with shapes that differ",
        "",
    ),
    (
        lambda: jnp.bitwise_and(M, jnp.ones((4, 5))),
        TypeError,
        "and got incompatible shapes for broadcasting",
        "(4, 5)",
    ),
    # methods of ufuncs
    (lambda: jnp.add.reduce("x"), TypeError, STAGED, "add.reduce"),
    (lambda: jnp.add.reduce(M, initial="x"), TypeError, STAGED, "<class 'str'>"),
    (lambda: jnp.add.at(M, "x", 1, inplace=False), TypeError, STAGED, "add.at"),
    (lambda: jnp.maximum.at([1], 0, 1, inplace=False), TypeError, "maximum.at", LISTED),
    (lambda: jnp.maximum.at(M, [0], 1, inplace=False), TypeError, "Using a non-", ""),
    (lambda: jnp.subtract.reduce(M, axis=(0, 5)), ValueError, "axis 5 is out of", ""),
    (lambda: jnp.logaddexp.reduce(M, dtype="no"), TypeError, "data type 'no' not", ""),
    (lambda: jnp.sum(M, keepdims=[1]), ValueError, STATIC, ""),
    # transforms and matrices
    (lambda: jnp.fft.fftn(M, s=(2, 2, 2)), ValueError, "FFT input shape (2, 3)", ""),
    (lambda: jnp.linalg.trace([V]), TypeError, f"jnp.linalg.trace {LISTED}", ""),
    (lambda: jnp.linalg.matmul(M, [V]), TypeError, f"jnp.linalg.matmul {LISTED}", ""),
    (
        lambda: jnp.linalg.matrix_transpose(V),
        ValueError,
        "matrix_transpose requires",
        "",
    ),
    # making and converting arrays
    (lambda: jnp.full(2, 1j, dtype=float), TypeError, "float() argument must", ""),
    (lambda: jnp.tri(1.5), TypeError, "Shapes must be 1D sequences of concrete", ""),
    (lambda: jnp.tri(2, k=0.5), TypeError, "'float' object cannot be interpreted", ""),
    (lambda: jnp.arange([1]), TypeError, "arange requires ndarray, scalar, or", "list"),
    (
        lambda: jnp.asarray(V, order="F"),
        NotImplementedError,
        "Only implemented for",
        "",
    ),
    (
        lambda: jnp.asarray(np.ma.array([1], mask=[1])),
        ValueError,
        "numpy masked arrays are not supported",
        "filled",
    ),
    (lambda: jnp.can_cast(1, int), TypeError, "can_cast() does not support", "dtype"),
    (lambda: jnp.astype(K, int), ValueError, "Cannot convert_element_type", "key"),
    (lambda: jnp.isdtype("x", "y"), TypeError, "data type 'x' not understood", ""),
    (
        lambda: M.at[0].get(mode="fill", fill_value=1j),
        TypeError,
        "float() argument must be a string or a real",
        "",
    ),
    # several arrays and functions
    (lambda: jnp.histogram2d(M, M), ValueError, "too many values to unpack", "(2, 3)"),
    (lambda: jnp.histogramdd(M, bins="x"), ValueError, "should be a bin for each", ""),
    (lambda: jnp.piecewise(M, 1, [1, 2]), TypeError, "object of type 'int'", "len"),
    (lambda: jnp.vectorize(jnp.add)("x", 1), TypeError, "Value 'x' with dtype <U1", ""),
    (lambda: jnp.where(M > 0, M, object()), TypeError, f"where {LISTED}", ""),
    (lambda: jnp.mean(M, where="x"), TypeError, STAGED, "mean"),
    (lambda: jnp.average("x", axis=0), TypeError, STAGED, "average"),
    (lambda: jnp.nan_to_num(M > 0, nan="x"), TypeError, STAGED, "nan_to_num"),
    (lambda: jnp.lexsort(-1), TypeError, "iteration over a 0-d array", "keys"),
    (lambda: jnp.insert(M, None, 1), TypeError, f"insert {LISTED}", "position 1"),
    (lambda: jnp.extract(V > 0, [1]), TypeError, f"extract {LISTED}", "position 1"),
    (lambda: jnp.pad(M, None), TypeError, "`pad_width` must be of integral", "None"),
    (lambda: jnp.take(M, 1j), ValueError, "indices must have an integer type", ""),
    (lambda: jnp.permute_dims(1.0, (1, 0)), ValueError, "axis 1 is out of bounds", ""),
    (lambda: jnp.multiply.reduce(M, axis=[1]), ValueError, STATIC, ""),
    # names that are gone
    (lambda: jnp.fix(M), AttributeError, "curta.numpy.fix was deprecated", "trunc"),
    (lambda: jnp.from_dlpack(1), TypeError, "The array passed to from_dlpack", "int"),
]


@pytest.mark.parametrize("mistake, kind, opening, help", MISTAKES)
def test_says_what_is_wrong(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


TRACED = [
    (lambda x: jnp.squeeze(x, axis=x[0].astype(int)), "expected a static index"),
    (lambda x: jnp.roll(x, 1, axis=x[0].astype(int)), "expected a static index"),
    (lambda x: jnp.fft.fftfreq(x[0].astype(int)), "It arose in the n argument of"),
    (lambda x: x.tobytes(), "The tobytes() method was called on traced array"),
    (lambda x: x.devices(), "The devices() method was called on traced array"),
    (lambda x: x.is_deleted(), "The is_deleted() method was called on traced"),
    (lambda x: x.unsafe_buffer_pointer(), "The unsafe_buffer_pointer() method"),
    (lambda x: x.addressable_data(0), "The addressable_data() method was called"),
    (lambda x: x.committed, "The 'committed' attribute is not available on traced"),
]


@pytest.mark.parametrize("function, help", TRACED)
def test_traced_values_have_no_elements(function, help):
    opening = "Abstract tracer value encountered where concrete value is expected"
    kind = curta.errors.ConcretizationTypeError
    check_message(lambda: curta.jit(function)(V), kind, opening, help)


@pytest.mark.parametrize("name", ["block_until_ready", "copy_to_host_async", "device"])
def test_attributes_that_traced_values_lack(name):
    def function(x):
        assert not hasattr(x, name)
        return getattr(x, name)

    kind = AttributeError
    check_message(
        lambda: curta.jit(function)(V), kind, f"The '{name}'", "not available"
    )


def test_traced_values_have_no_format():
    opening = "unsupported format string passed to"
    check_message(lambda: curta.jit(lambda x: f"{x:q}")(V), TypeError, opening, "")


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "std", "var"])
def test_reductions_over_named_axes(name):
    x, function = jnp.arange(6.0).reshape(2, 3), getattr(jnp, name)
    mapped = curta.vmap(lambda row: function(row, axis=(0, "i")), axis_name="i")
    np.testing.assert_allclose(mapped(x)[0], function(x), rtol=1e-6)
    mapped = curta.vmap(lambda row: function(row, axis="i"), axis_name="i")
    np.testing.assert_allclose(mapped(x)[0], function(x, axis=0), rtol=1e-6)


def test_logsumexp_over_named_axes():
    x = jnp.arange(6.0).reshape(2, 3)
    mapped = curta.vmap(lambda row: nn.logsumexp(row, axis=(0, "i")), axis_name="i")
    np.testing.assert_allclose(mapped(x)[0], nn.logsumexp(x), rtol=1e-6)


def test_polynomial_of_eigenvalues():
    given = jnp.array([[2.0, 1.0], [0.0, 3.0]])
    np.testing.assert_allclose(jnp.poly(given), [1, -5, 6], atol=1e-5)
    assert jnp.poly(jnp.zeros(0)).shape == ()


def test_what_is_accepted():
    assert M.transpose(None).shape == (3, 2)
    assert jnp.fft.irfft(jnp.zeros((2, 0))).shape == (2, 0)
    assert jnp.subtract.reduce(M, dtype=int).dtype == jnp.int32
    assert jnp.add.accumulate(M, axis=None).shape == (6,)
    assert jnp.vectorize(jnp.add)([1], 1).shape == (1,)
    assert jnp.digitize(V, 1j * V).tolist() == [3, 3, 3]


def test_weak_types_of_quotients():
    for function in jnp.floor_divide, lambda x, y: jnp.divmod(x, y)[0]:
        assert function(V.astype(int), 1.5).weak_type
        assert function(V > 0, -1).weak_type
        assert not function(V, 2).weak_type
    assert not jnp.signbit(-1).weak_type
    assert not jnp.diagflat(1.5).weak_type
