"""Scaled dot product attention against its definition; block-scaled products."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import nn
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
B, T, S, N, H = 2, 5, 7, 4, 3


def operands(groups=N, dtype=np.float32):
    query = RNG.normal(size=(B, T, N, H))
    key, value = RNG.normal(size=(2, B, S, groups, H))
    return [x.astype(dtype) for x in (query, key, value)]


def reference(query, key, value, bias=0.0, seen=True, scale=None):
    key, value = (np.repeat(x, N // x.shape[2], axis=2) for x in (key, value))
    scale = 1 / np.sqrt(query.shape[-1]) if scale is None else scale
    logits = np.einsum("btnh,bsnh->bnts", query, key) * scale + bias
    logits = np.where(seen, logits, -1e30)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bnts,bsnh->btnh", weights, value)


PLACE = np.arange(T)[:, None], np.arange(S)[None]
MASK = RNG.normal(size=(B, 1, T, S)) > -0.5
BIAS = RNG.normal(size=(1, N, T, S)).astype(np.float32)
LENGTHS = np.array([3, 7], np.int32)


@pytest.mark.parametrize("groups", [N, 2, 1])
@pytest.mark.parametrize(
    "options, given",
    [
        ({}, {}),
        ({"scale": 0.3}, {"scale": 0.3}),
        ({"bias": BIAS}, {"bias": BIAS}),
        ({"mask": MASK}, {"seen": MASK}),
        ({"is_causal": True}, {"seen": PLACE[1] <= PLACE[0]}),
        ({"local_window_size": 1}, {"seen": abs(PLACE[0] - PLACE[1]) <= 1}),
        (
            {"local_window_size": (2, 0)},
            {"seen": (PLACE[1] <= PLACE[0]) & (PLACE[0] - PLACE[1] <= 2)},
        ),
        (
            {"key_value_seq_lengths": LENGTHS},
            {"seen": PLACE[1] < LENGTHS[:, None, None, None]},
        ),
    ],
)
def test_attention(groups, options, given):
    args = operands(groups)
    want = reference(*args, **given)
    got = nn.dot_product_attention(*args, **options)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    compiled = curta.jit(lambda *a: nn.dot_product_attention(*a, **options))(*args)
    np.testing.assert_allclose(compiled, want, rtol=1e-4, atol=1e-5)


def test_query_lengths_and_residuals():
    args = operands()
    lengths = np.array([2, 5], np.int32)
    out, residual = nn.dot_product_attention(
        *args, query_seq_lengths=lengths, return_residual=True
    )
    assert not np.any(out[0, 2:]) and np.all(out[0, :2])
    assert residual.shape == (B, T, N)


def test_without_a_batch():
    query, key, value = (x[0] for x in operands())
    got = nn.dot_product_attention(query, key, value)
    want = nn.dot_product_attention(query[None], key[None], value[None])[0]
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
def test_few_bits(dtype):
    args = operands()
    got = nn.dot_product_attention(*(jnp.asarray(x, dtype) for x in args))
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(np.float32), reference(*args), atol=0.05)


def test_derivatives():
    args = operands(dtype=np.float64)
    with curta.enable_x64(True):
        check_grads(
            curta.jit(lambda *a: nn.dot_product_attention(*a, is_causal=True)), args, 1
        )


Q, K, V = operands()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: nn.dot_product_attention(Q, K, V[:, 1:]),
            ValueError,
            "value shape should",
        ),
        (
            lambda: nn.dot_product_attention(Q, K, V, mask=BIAS),
            ValueError,
            "mask dtype should be bool",
        ),
        (
            lambda: nn.dot_product_attention(Q[:, :, :3], K[:, :, :2], V[:, :, :2]),
            ValueError,
            "must be a multiple of key/value heads, but got 3 vs 2",
        ),
        (
            lambda: nn.dot_product_attention(Q, K, V, implementation="cudnn"),
            NotImplementedError,
            "needs a GPU",
        ),
        (
            lambda: nn.dot_product_attention(Q, K, V, implementation="x"),
            ValueError,
            "Unsupported implementation option: x",
        ),
        (lambda: nn.get_scaled_dot_general_config("x"), ValueError, "Unsupported mode"),
        (lambda: nn.scaled_matmul(Q, K, V, V), ValueError, "3-dimensional arrays"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("mode, tolerance", [("mxfp8", 0.05), ("nvfp4", 0.2)])
def test_block_scaled_products(mode, tolerance):
    rng = np.random.default_rng(0)  # whichever tests ran before
    a, b = rng.normal(size=(8, 64)), rng.normal(size=(64, 6))
    a, b = a.astype(np.float32), b.astype(np.float32)
    config = nn.get_scaled_dot_general_config(mode)
    numbers = (((1,), (0,)), ((), ()))

    def product(a, b):
        return nn.scaled_dot_general(a, b, numbers, configs=[config, config])

    got = product(a, b)
    error = np.abs(got - a @ b).max() / np.abs(a @ b).max()
    assert 1e-4 < error < tolerance
    exact = nn.scaled_dot_general(a, b, numbers)
    np.testing.assert_allclose(exact, a @ b, rtol=1e-4, atol=1e-4)
    slope = curta.grad(lambda a: product(a, b).sum())(a)
    np.testing.assert_allclose(
        slope, np.broadcast_to(b.sum(1), a.shape), rtol=0.2, atol=1
    )


def test_scaled_matmul():
    a, b = RNG.normal(size=(2, 3, 64)), RNG.normal(size=(2, 5, 64))
    sa, sb = RNG.uniform(0.5, 2, (2, 3, 2)), RNG.uniform(0.5, 2, (2, 5, 2))
    wide = np.einsum("bmk,bnk->bmn", a * np.repeat(sa, 32, 2), b * np.repeat(sb, 32, 2))
    got = nn.scaled_matmul(*map(jnp.asarray, (a, b, sa, sb)))
    np.testing.assert_allclose(got, wide, rtol=1e-3, atol=1e-3)


def test_log1mexp():
    x = np.geomspace(1e-3, 20, 50).astype(np.float32)
    want = np.log(-np.expm1(-x.astype(np.float64)))
    np.testing.assert_allclose(nn.log1mexp(x), want, rtol=1e-5)
    check_grads(nn.log1mexp, (np.float32(0.5),), 1)
