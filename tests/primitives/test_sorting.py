"""Orders with NaN, signed zeros and ties; cumulative reductions at their edges."""

import ml_dtypes
import numpy as np
import pytest

import curta
from curta import lax, numpy as jnp

NAN, INF = np.nan, np.inf
HALVES = [np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)]


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64"), *HALVES])
def test_sort_puts_nan_last_and_leaves_equal_zeros_as_they_are(dtype):
    x = np.array([0.0, -0.0, NAN, -INF, 3.0, -0.0, INF, NAN]).astype(dtype)
    places = np.arange(8, dtype=np.int32)
    for run in lax.sort, curta.jit(lax.sort):
        values, order = run([x, places])
        np.testing.assert_array_equal(order, [3, 0, 1, 5, 4, 6, 2, 7])
        np.testing.assert_array_equal(
            np.asarray(values).astype(float), [-INF, 0, 0, 0, 3, INF, NAN, NAN]
        )
        signs = np.signbit(np.asarray(values).astype(float))[1:4]
        np.testing.assert_array_equal(signs, [False, True, True])


def test_complex_numbers_are_ordered_by_real_then_imaginary_part():
    x = np.array([2, 1 + 2j, complex(1, NAN), complex(NAN, 0), 1 + 1j], np.complex64)
    order = [4, 1, 2, 0, 3]
    np.testing.assert_array_equal(lax.sort(x), x[order])


def test_later_keys_decide_between_equal_ones():
    x, y = np.array([1, 0, 1, 0]), np.array([3, 2, 1, 4])
    z = np.arange(4)
    first, second, third = lax.sort([x, y, z], num_keys=2)
    np.testing.assert_array_equal(first, [0, 0, 1, 1])
    np.testing.assert_array_equal(second, [2, 4, 1, 3])
    np.testing.assert_array_equal(third, [1, 3, 2, 0])


def test_top_k_takes_the_first_of_equals_and_nan_before_all():
    values, places = lax.top_k(np.float32([1, NAN, 3, NAN, 3]), 4)
    np.testing.assert_array_equal(values, [NAN, NAN, 3, 3])
    np.testing.assert_array_equal(places, [1, 3, 2, 4])
    assert places.dtype == np.int32
    _, places = lax.top_k(np.float32([0, -0.0, 0]), 3)
    np.testing.assert_array_equal(places, [0, 2, 1])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "int64"])
def test_top_k_of_integers(dtype):
    x = np.array([1, 0, 1, 1]).astype(dtype)
    values, places = lax.top_k(x, 3)
    np.testing.assert_array_equal(values, x[[0, 2, 3]])
    np.testing.assert_array_equal(places, [0, 2, 3])


def test_derivatives_follow_the_elements():
    x = np.float32([3, 1, 2])
    weights = np.float32([10, 20, 30])
    slope = curta.grad(lambda x: (lax.sort(x) * weights).sum())(x)
    np.testing.assert_array_equal(slope, [30, 10, 20])
    slope = curta.grad(lambda x: (lax.top_k(x, 2)[0] * weights[:2]).sum())(x)
    np.testing.assert_array_equal(slope, [10, 0, 20])


def test_extrema_are_nan_from_the_first_nan_on():
    x = np.float32([1, 3, NAN, 5])
    np.testing.assert_array_equal(lax.cummax(x), [1, 3, NAN, NAN])
    np.testing.assert_array_equal(lax.cummin(x, reverse=True), [NAN, NAN, NAN, 5])


def test_log_sum_exp_neither_overflows_nor_loses_infinities():
    found = lax.cumlogsumexp(np.float32([-INF, 1000, 1000, INF, 1]))
    expected = np.float32([-INF, 1000, 1000 + np.log(2), INF, INF])
    np.testing.assert_allclose(found, expected)
    slope = curta.grad(lambda x: lax.cumlogsumexp(x)[-1])(np.float32([0, 1000, 1000]))
    np.testing.assert_allclose(slope, [0, 0.5, 0.5], rtol=1e-4)  # 1000 + log(2) rounds


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_is_summed_in_float32(dtype):
    x = np.ones(5000, dtype)
    assert float(lax.cumsum(x)[-1]) == float(np.float32(5000).astype(dtype))
    assert float(lax.reduce_sum(x, (0,))) == float(np.float32(5000).astype(dtype))


@pytest.mark.parametrize("size", range(9))
def test_derivative_of_a_cumulative_product_with_zeros(size):
    x = np.array([2, 0, 3, 0, 5, 1, 4, 7, 6][:size], np.float32)
    jacobian = np.asarray(curta.jacfwd(lax.cumprod)(x))
    for i in range(size):
        for j in range(size):
            others = np.delete(x[: i + 1], j) if j <= i else [0]
            assert jacobian[i, j] == np.prod(others)


@pytest.mark.parametrize("size", range(7))
def test_derivative_of_a_product_with_zeros(size):
    x = np.array([2, 0, 3, 0, 5, 1][:size], np.float32)
    slope = curta.grad(lambda x: lax.reduce_prod(x, (0,)))(x)
    np.testing.assert_array_equal(
        slope, [np.prod(np.delete(x, i)) for i in range(size)]
    )


def test_extrema_that_tie_share_the_derivative():
    slope = curta.grad(lambda x: lax.reduce_max(x, (0,)))(np.float32([2, 1, 2]))
    np.testing.assert_array_equal(slope, [0.5, 0, 0.5])


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint32", "int8", *HALVES])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2000,), 0), ((40, 30), 0), ((40, 30), 1)]
)
def test_large_arrays_keep_the_order_of_equals(dtype, shape, axis):
    rng = np.random.default_rng(0)
    x = rng.integers(-9 if np.dtype(dtype).kind != "u" else 0, 10, shape).astype(dtype)
    if np.dtype(dtype).kind not in "iu":
        x[x == 3] = NAN
        x[::2][x[::2] == 0] = -0.0
    elif dtype == "uint32":
        x *= np.uint32(2**28)
    places = lax.broadcasted_iota("int32", shape, axis)
    values, order = lax.sort([x, places], axis)
    expected = np.argsort(x.astype(float), axis, kind="stable")
    np.testing.assert_array_equal(order, expected)
    alone = np.asarray(lax.sort(x, axis)).astype(float)
    np.testing.assert_array_equal(alone, np.asarray(values).astype(float))
    np.testing.assert_array_equal(np.signbit(alone), np.signbit(np.asarray(values)))
    _, greatest = lax.top_k(x, 7, axis=axis)
    assert greatest.shape[axis] == 7


@pytest.mark.parametrize("jit", [False, True])
def test_log_sum_exp_of_complex_numbers(jit):
    fun = curta.jit(lax.cumlogsumexp) if jit else lax.cumlogsumexp
    x = np.complex64([-INF, 1 + 2j, 3 - 1j])
    last = np.log(np.exp(1 + 2j) + np.exp(3 - 1j))
    np.testing.assert_allclose(fun(x), [-INF, 1 + 2j, last], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_integers_of_four_bits_accumulate(dtype):
    x = jnp.array([1, 3, 2, 4], dtype)
    assert lax.cummax(x).tolist() == [1, 3, 3, 4]
    assert lax.cummin(x, reverse=True).tolist() == [1, 2, 2, 4]
    total = lax.cumsum(x)
    assert total.dtype == dtype
    assert total.tolist() == [1, 4, 6, -6 if dtype == "int4" else 10]


@pytest.mark.parametrize("run", [lax.top_k, curta.jit(lax.top_k, static_argnums=1)])
def test_the_greatest_of_long_rows_of_which_there_are_none(run):
    values, places = run(jnp.zeros((0, 1000)), 3)
    assert values.shape == places.shape == (0, 3)
