"""Tier A: small programs of all kinds of structure, run by XLA, against Curta's own."""

import numpy as np
import pytest
from tests.accelerators.test_structure import check

import curta
import curta.numpy as jnp
from curta import lax

X = jnp.asarray(np.cos(np.arange(24.0)).reshape(2, 3, 4).astype(np.float32))
KERNEL = jnp.asarray(np.sin(np.arange(12.0)).reshape(3, 2, 2, 1).astype(np.float32))


def waves(dtype, *shape):
    """Numbers that are not alike."""
    return jnp.asarray(np.sin(np.arange(np.prod(shape))).reshape(shape).astype(dtype))


PROGRAMS = {
    "fori unroll": lambda: lax.fori_loop(0, 7, lambda i, a: a * 1.5 + i, X, unroll=3),
    "scan tree": lambda: lax.scan(
        lambda c, t: ({"a": c["a"] + t[0], "b": c["b"]}, (t[1], c["b"])),
        {"a": X[0, 0], "b": jnp.int32(2)},
        (X[0], jnp.arange(3)),
    ),
    "scan ints": lambda: lax.scan(
        lambda c, t: (c + t, c), jnp.uint8(250), jnp.arange(5, dtype=jnp.uint8)
    ),
    "scan bool": lambda: lax.scan(
        lambda c, t: (c ^ t, c), True, jnp.array([True, False, True])
    ),
    "scan complex": lambda: lax.scan(
        lambda c, t: (c * t, c), jnp.complex64(1j), jnp.arange(3) + 1j
    ),
    "scan zero size": lambda: lax.scan(
        lambda c, t: (c + t.sum(), t), 0.0, jnp.zeros((3, 0))
    ),
    "scan scan length1": lambda: lax.scan(
        lambda c, t: lax.scan(lambda a, u: (a + u, a), c, t[:1]), 0.0, X[0]
    ),
    "vmap scan reverse": lambda: curta.vmap(
        lambda x: lax.scan(lambda c, t: (c + t, c * t), jnp.zeros(4), x, reverse=True)
    )(X),
    "hessian": lambda: curta.hessian(
        lambda x: lax.fori_loop(0, 3, lambda i, a: jnp.sin(a) * x, x).sum()
    )(X[0, 0]),
    "grad unroll": lambda: curta.grad(
        lambda x: lax.scan(lambda c, t: (jnp.sin(c * t), c), 1.0, x, unroll=2)[0]
    )(X[0, 0]),
    "while zero": lambda: lax.while_loop(lambda c: False, lambda c: c, X),
    "while zero size": lambda: lax.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1]), (0, jnp.zeros((0, 3)))
    ),
    "cond no operands": lambda: lax.cond(True, lambda: 1, lambda: 2),
    "cond vmapped index": lambda: curta.vmap(
        lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x)
    )(jnp.array([0, 1]), X[:, 0]),
    "cond float0": lambda: curta.grad(
        lambda x: lax.cond(True, lambda x, i: x * i, lambda x, i: x, x, 3)
    )(2.0),
    "cond in while": lambda: lax.while_loop(
        lambda c: c < 100,
        lambda c: lax.cond(c % 2 == 0, lambda: c // 2 + 50, lambda: 3 * c + 1),
        7,
    ),
    "jit in scan in jit": lambda: curta.jit(
        lambda x: lax.scan(
            curta.jit(lambda c, t: (curta.jit(jnp.sin)(c) + t, c)), 0.0, x
        )
    )(X[0, 0]),
    "custom root": lambda: curta.grad(
        lambda a: lax.custom_root(
            lambda x: x**2 - a,
            1.0,
            lambda f, x0: lax.fori_loop(0, 20, lambda i, x: x - f(x) / (2 * x), x0),
            lambda g, y: y / g(1.0),
        )
    )(2.0),
    "jvp of linear solve": lambda: curta.jvp(
        lambda b: lax.custom_linear_solve(
            lambda y: y * 3, b, lambda mv, b: b / 3, symmetric=True
        ),
        (X[0, 0],),
        (X[0, 1],),
    ),
    "remat policy": lambda: curta.grad(
        lambda x: curta.checkpoint(
            lambda y: jnp.sin(jnp.cos(y)).sum(),
            policy=curta.checkpoint_policies.dots_saveable,
        )(x)
    )(X[0]),
    "pad negative": lambda: lax.pad(X, 0.0, ((-1, 2, 0), (1, -2, 1), (0, 0, 3))),
    "iota dtypes": lambda: [
        lax.iota(d, 5)
        for d in (jnp.int8, jnp.uint16, jnp.float16, jnp.bfloat16, jnp.complex64)
    ],
    "sort keys": lambda: lax.sort(
        (jnp.array([2, 1, 2, 1]), jnp.array([0.0, jnp.nan, -1.0, -0.0]), jnp.arange(4)),
        num_keys=2,
    ),
    "sort unstable": lambda: jnp.sort(X, stable=False),
    "argmax nan": lambda: (
        jnp.argmax(jnp.array([1.0, jnp.nan, 3.0, jnp.nan])),
        jnp.argmin(jnp.array([jnp.inf, jnp.inf])),
        jnp.argmax(jnp.array([False, False])),
    ),
    "max nan": lambda: (
        jnp.max(jnp.array([1.0, jnp.nan])),
        lax.reduce_max(jnp.zeros((0, 2)), (0,)),
        jnp.array([1 + 2j, 1 + 3j, -1]).max(),
    ),
    "approx": lambda: lax.approx_max_k(X.reshape(-1), 3),
    "conv groups": lambda: lax.conv_general_dilated(
        jnp.ones((2, 6, 5)), jnp.ones((4, 3, 2)), (1,), "SAME", feature_group_count=2
    ),
    "conv batch groups": lambda: lax.conv_general_dilated(
        jnp.ones((4, 2, 5)), jnp.ones((4, 2, 2)), (1,), "SAME", batch_group_count=2
    ),
    "conv grad": lambda: curta.grad(
        lambda k: (
            lax.conv_general_dilated(
                X[None],
                k,
                (1, 2),
                ((1, 0), (2, 1)),
                rhs_dilation=(1, 2),
                dimension_numbers=("NCHW", "OIHW", "NHWC"),
            )
            ** 2
        ).sum()
    )(KERNEL),
    "conv transpose": lambda: lax.conv_transpose(
        X[:1].transpose(0, 2, 1), jnp.ones((3, 3, 2)), (2,), "SAME"
    ),
    "conv bf16": lambda: lax.conv_general_dilated(
        X[None].astype(jnp.bfloat16),
        jnp.ones((2, 2, 2, 2), jnp.bfloat16),
        (1, 1),
        "SAME",
        preferred_element_type=jnp.float32,
    ),
    "conv int": lambda: lax.conv_general_dilated(
        jnp.arange(8).reshape(1, 1, 8), jnp.arange(3).reshape(1, 1, 3), (1,), "SAME"
    ),
    "fft kinds": lambda: (
        jnp.fft.rfft(X),
        jnp.fft.irfft(X),
        jnp.fft.ifftn(X),
        jnp.fft.hfft(X),
        jnp.fft.rfftn(X),
        jnp.fft.irfftn(X[0], (3, 5)),
        jnp.fft.fft(X, axis=0),
    ),
    "fft 5d": lambda: lax.fft(waves("f4", 2, 2, 3, 2, 2), "RFFT", (2, 2, 3, 2, 2)),
    "irfft 4d": lambda: lax.fft(waves("c8", 2, 2, 3, 2), "IRFFT", (2, 2, 3, 3)),
    "einsum": lambda: jnp.einsum("bij,bkj->bik", X, X, precision="highest"),
    "dot bool": lambda: lax.dot(
        jnp.array([[True, False]]), jnp.array([[True], [True]])
    ),
    "dot empty": lambda: (
        jnp.zeros((2, 0)) @ jnp.zeros((0, 3)),
        jnp.zeros((0, 2)) @ jnp.zeros((2, 3)),
    ),
    "gather scalar": lambda: X[jnp.int8(1)],
    "gather neg": lambda: (
        X[-1],
        X[:, jnp.array([-1, 0])],
        X[jnp.array([[0], [1]]), jnp.array([1, 2])],
        X[..., None, jnp.array([0, 3])],
    ),
    "scatter min": lambda: X.at[0, jnp.array([0, 0, 2])].min(-1.0),
    "scatter bool": lambda: jnp.zeros(4, bool).at[jnp.array([1, 7])].set(True),
    "scatter grad": lambda: curta.grad(
        lambda x: (x.at[jnp.array([0, 1])].mul(2.0, unique_indices=True) ** 2).sum()
    )(X),
    "scatter last wins": lambda: (
        jnp.zeros(3).at[jnp.array([1, 1, 1])].set(jnp.array([1.0, 2.0, 3.0]))
    ),
    "segment": lambda: curta.ops.segment_sum(
        jnp.arange(5.0), jnp.array([0, 1, 0, 9, 1]), 3
    ),
    "unique": lambda: jnp.unique(jnp.array([3, 1, 3]), size=3),
    "clip index": lambda: lax.dynamic_index_in_dim(X, jnp.int32(9), 0),
    "split": lambda: [*jnp.split(X, 3, 1), *jnp.unstack(X)],
    "associative": lambda: lax.associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (X, X), reverse=True
    ),
    "cum grads": lambda: curta.grad(
        lambda x: (lax.cumprod(x, 1) + lax.cummax(x, 2) + lax.cumlogsumexp(x, 0)).sum()
    )(X),
    "pool": lambda: (
        lax.reduce_window(
            X,
            -jnp.inf,
            lax.max,
            (1, 2, 2),
            (1, 1, 1),
            "VALID",
            window_dilation=(1, 1, 2),
        ),
        curta.nn.softmax(X),
    ),
    "select_and_gather": lambda: curta.jvp(
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 2, 2), (1, 1, 1), "SAME"),
        (X,),
        (X,),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    check(PROGRAMS[name])
