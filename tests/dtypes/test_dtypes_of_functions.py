"""Functions that leave a dtype and come back, or choose the dtype of their results."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, ops
from curta.scipy import fft, stats
from curta.test_util import check_grads

X = np.array([[1.5, -2.7, 3.1], [0.3, 2.2, -1.9]], np.float32)
BOTH = pytest.mark.parametrize("several", [lambda f: f, curta.jit], ids=["op", "jit"])


@BOTH
@pytest.mark.parametrize("wanted", ["int32", "int8", "bool", "float32"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_products_are_rounded_after_the_sum(several, dtype, wanted):
    x = jnp.asarray(X, dtype)
    product = several(lambda x: lax.dot(x, x.T, preferred_element_type=wanted))(x)
    exact = np.asarray(x).astype(np.complex64)
    exact = (exact @ exact.T).real
    np.testing.assert_array_equal(product.dtype, wanted)
    np.testing.assert_allclose(product, exact.astype(wanted), rtol=1e-5)


@BOTH
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int32", "bool"])
def test_empty_segments_are_the_extremes_of_integers(several, dtype):
    x, ids = jnp.asarray(np.abs(X), dtype), jnp.array([0, 0])
    least = several(lambda x: ops.segment_min(x, ids, 2))(x)
    greatest = several(lambda x: ops.segment_max(x, ids, 2))(x)
    assert least.dtype == greatest.dtype == dtype
    np.testing.assert_array_equal(least[0], np.min(x, 0))
    np.testing.assert_array_equal(greatest[0], np.max(x, 0))
    ends = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    assert (greatest[1] == ends[0]).all() and (least[1] == ends[1]).all()


def test_complex_segments_have_extremes():
    x = jnp.asarray(X, "complex64")
    assert ops.segment_max(x, jnp.array([0, 0]), 2)[0, 0] == 1.5


@BOTH
def test_the_conjugate_of_real_numbers_has_a_positive_zero(several):
    assert not np.signbit(several(lax.conj)(X).imag).any()


@BOTH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
def test_cosine_transforms_of_halves_are_singles(several, dtype):
    x = jnp.asarray(X, dtype)
    for function in fft.dct, fft.idct, fft.dctn, fft.idctn:
        out = several(function)(x)
        assert out.dtype == np.float32
        wanted = function(x.astype("float32"))
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "bfloat16"])
def test_frequencies_have_the_dtype_asked_for(dtype):
    assert jnp.fft.fftfreq(4, dtype=dtype).dtype == dtype
    np.testing.assert_array_equal(
        jnp.fft.fftfreq(4, 0.25, dtype="int8"), [0, 1, -2, -1]
    )


@BOTH
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float16", "bfloat16", "float32"])
def test_decompositions_of_small_floats(several, dtype):
    x = jnp.eye(3, dtype=dtype) * 2
    for function in jnp.linalg.svdvals, jnp.linalg.eigvalsh:
        values = several(function)(x)
        assert values.dtype == dtype
        np.testing.assert_allclose(values.astype("float32"), [2, 2, 2])


def test_complex_logarithms_of_cumulative_sums_differentiate():
    with curta.enable_x64(True):
        z = X * (0.5 + 0.2j)
        check_grads(lambda z: lax.cumlogsumexp(z, 1), (z,), 2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float32"])
@pytest.mark.parametrize(
    "density",
    [
        *(stats.cauchy, stats.expon, stats.gumbel_l, stats.gumbel_r, stats.laplace),
        *(stats.logistic, stats.norm, stats.uniform),
    ],
    ids=lambda module: module.__name__.rpartition(".")[2],
)
def test_densities_keep_the_dtype(density, dtype):
    x = jnp.asarray([0.5, 0.25], dtype)
    for function in density.logpdf, density.pdf:
        out = function(x)
        assert out.dtype == dtype
        wanted = np.asarray(function(x.astype("float32")))
        np.testing.assert_allclose(out.astype("float32"), wanted, rtol=0.3, atol=0.1)
