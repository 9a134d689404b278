"""Convolutions of 3 by 3 by fewer products: the same numbers, where they are used."""

import numpy as np
import pytest

import curta
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.rewrite.expansions import expansions
from curta.compiler.rewrite.inline import inline_calls

IMAGES = ("NHWC", "HWIO", "NHWC")


@pytest.fixture(autouse=True)
def small_ones_too(limits):
    limits(winograd_work=0, winograd_features=1)


def convolution(padding="SAME", numbers=IMAGES, **options):
    def f(x, w):
        return lax.conv_general_dilated(
            x, w, (1, 1), padding, dimension_numbers=numbers, **options
        )

    return f


def rewritten(f, x, w):
    closed = inline_calls(curta.make_jaxpr(f)(x, w), expansions(host()))
    return all(e.primitive.name != "conv_general_dilated" for e in closed.eqns)


def direct(f, x, w):
    with curta.disable_jit():
        return f(x, w)


@pytest.mark.parametrize("size", [(4, 4), (5, 7), (6, 3), (1, 2), (8, 9)])
@pytest.mark.parametrize(
    "padding", ["SAME", ((0, 2), (3, 1)), ((2, 5), (1, 1)), ((3, -1), (2, 2))]
)
def test_sizes_and_padding(size, padding):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, *size, 3)).astype(np.float32)
    w = rng.normal(size=(3, 3, 3, 5)).astype(np.float32)
    f = convolution(padding)
    assert rewritten(f, x, w)
    expected = direct(f, x, w)
    found = curta.jit(f)(x, w)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    "numbers",
    [("NCHW", "OIHW", "NCHW"), ("HWNC", "IOHW", "NCHW"), ("CNWH", "WHOI", "WNHC")],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layouts(numbers, dtype):
    rng = np.random.default_rng(1)
    sizes = {"N": 2, "C": 3, "H": 6, "W": 5, "I": 3, "O": 4}
    x = rng.normal(size=[sizes[d] for d in numbers[0]]).astype(dtype)
    window = {**sizes, "H": 3, "W": 3}
    w = rng.normal(size=[window[d] for d in numbers[1]]).astype(dtype)
    f = convolution(numbers=numbers)
    with curta.enable_x64(True):
        assert rewritten(f, x, w)
        found, expected = curta.jit(f)(x, w), direct(f, x, w)
        assert found.dtype == dtype
        close = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(found, expected, rtol=close, atol=close)


def test_gradients():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2, 6, 6, 3)).astype(np.float32)
    w = rng.normal(size=(3, 3, 3, 4)).astype(np.float32)
    f = curta.grad(lambda x, w: (convolution()(x, w) ** 2).sum(), argnums=(0, 1))
    for found, expected in zip(curta.jit(f)(x, w), direct(f, x, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "highest"},
        {"rhs_dilation": (2, 1)},
        {"lhs_dilation": (2, 2)},
        {"feature_group_count": 2},
    ],
)
def test_what_stays_a_direct_sum(options):
    x = np.ones((1, 9, 9, 4), np.float32)
    w = np.ones((3, 3, 4 // options.get("feature_group_count", 1), 4), np.float32)
    assert not rewritten(convolution(((1, 1), (1, 1)), **options), x, w)


def test_little_work_stays_a_direct_sum(limits):
    limits(winograd_work=1 << 26, winograd_features=96)
    x, w = np.ones((1, 9, 9, 4), np.float32), np.ones((3, 3, 4, 4), np.float32)
    assert not rewritten(convolution(), x, w)


def same(found, expected):
    """Equal where finite (but for rounding), and NaN or infinite in the same places."""
    found, expected = np.asarray(found), np.asarray(expected)
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(found), kind(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=1e-3)


FAR = [np.inf, -np.inf, np.nan, 2e38, -2e38]


@pytest.mark.parametrize("value", FAR)
@pytest.mark.parametrize("where", ["input", "kernel", "both"])
@pytest.mark.parametrize("numbers", [IMAGES, ("NCHW", "OIHW", "NCHW")])
def test_what_is_not_finite_stays_where_the_direct_sum_has_it(value, where, numbers):
    rng = np.random.default_rng(3)
    sizes = {"N": 2, "C": 3, "H": 7, "W": 6, "I": 3, "O": 4}
    window = {**sizes, "H": 3, "W": 3}
    # Times 2e38 they overflow by far, whether products are rounded or not (FMA).
    few = range(-3, 4) if where == "input" else (-3, 3)
    x = rng.choice(few, [sizes[d] for d in numbers[0]]).astype(np.float32)
    w = rng.choice([-3, -2, -1, 1, 2, 3], [window[d] for d in numbers[1]])
    w = w.astype(np.float32) / 8  # no product with these overflows
    if where != "kernel":
        x[1, 2, 3, 1] = x[0, 0, 0, 0] = value
    if where != "input":
        w[1, 2, 1, 1] = value
    f = convolution(numbers=numbers)
    assert rewritten(f, x, w)
    same(curta.jit(f)(x, w), direct(f, x, w))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_large_inputs_do_not_overflow(dtype):
    largest = float(np.finfo(dtype).max)
    x = np.full((1, 8, 8, 2), largest, dtype)
    w = np.zeros((3, 3, 2, 2), dtype)
    w[1, 1] = 0.25
    f = convolution()
    with curta.enable_x64(True):
        assert rewritten(f, x, w)
        found = np.asarray(curta.jit(f)(x, w))
        expected = np.full((1, 8, 8, 2), largest / 2, dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_within_a_loop_and_a_batch():
    rng = np.random.default_rng(4)
    x = rng.integers(-3, 4, (3, 2, 6, 6, 3)).astype(np.float32)
    w = rng.integers(-3, 4, (3, 3, 3, 3)).astype(np.float32)
    x[1, 0, 2, 2, 0] = np.inf
    batched = curta.vmap(convolution(), in_axes=(0, None))

    def looped(xs, w):
        return lax.scan(lambda c, x: (c + 1, convolution()(x, w)), 0, xs)[1]

    for f in (batched, looped):
        same(curta.jit(f)(x, w), direct(f, x, w))


def test_in_one_convolution_after_another():
    rng = np.random.default_rng(5)
    x = rng.integers(-3, 4, (1, 9, 9, 3)).astype(np.float32)
    w = rng.integers(-3, 4, (3, 3, 3, 3)).astype(np.float32)
    x[0, 4, 4, 1] = -np.inf
    conv = convolution()

    def f(x, w):
        y = conv(conv(x, w).clip(-1e6, 1e6), w)
        return y, y.sum(axis=(0, 1)), y.reshape(9, -1)

    for found, expected in zip(curta.jit(f)(x, w), direct(f, x, w), strict=True):
        same(found, expected)


def test_nothing_is_copied_where_all_is_finite():
    """The results stay where they are, and the conditional leaves them there."""
    x, w = np.ones((2, 8, 8, 3), np.float32), np.ones((3, 3, 3, 3), np.float32)
    called = compile_jaxpr(curta.make_jaxpr(convolution())(x, w)).code.callees
    branches = [p for p in called if isinstance(p, NativeProgram)]
    assert [p.in_place for p in branches] == [{0}, {0}]
