"""Programs of loops, branches, calls, products and references, run by XLA."""

import numpy as np
import pytest
from tests.accelerators import xla
from tests.accelerators.programs import given, lower, stored
from tests.conformance.checks import assert_close

import curta
import curta.numpy as jnp
from curta import lax, random, tree_util
from curta.core.trace import typeof

X = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
V = np.array([0.5, -1.0, 2.0, 0.25, -0.0], np.float32)


def results(fun, *args):
    """The leaves of `fun(*args)`, computed by XLA."""
    closed = curta.make_jaxpr(fun)(*args)
    leaves = tree_util.tree_leaves(args)
    avals = closed.in_avals
    arrays = [given(np.asarray(_stored(x)), a) for x, a in zip(leaves, avals)]
    found = xla.run(lower(closed), arrays)
    return [stored(x, a) for x, a in zip(found, closed.out_avals, strict=True)]


def _stored(x):
    return x._storage() if hasattr(typeof(x).dtype, "words") else x


def check(fun, *args):
    wanted = [np.asarray(_stored(x)) for x in tree_util.tree_leaves(fun(*args))]
    got = results(fun, *args)
    assert len(got) == len(wanted)
    for n, (x, y) in enumerate(zip(got, wanted, strict=True)):
        assert x.shape == y.shape and x.dtype == y.dtype
        if x.dtype.fields is None and x.dtype.kind != "V":
            assert_close(x, y, f"output {n}")
        else:
            assert x.tobytes() == y.tobytes()


def sum_and_doubles(c, x):
    return c + x, 2 * c


SCANS = {
    "plain": lambda c, xs: lax.scan(sum_and_doubles, c, xs),
    "reverse": lambda c, xs: lax.scan(sum_and_doubles, c, xs, reverse=True),
    "unroll": lambda c, xs: lax.scan(sum_and_doubles, c, xs, unroll=2),
    "unroll reverse": lambda c, xs: lax.scan(
        sum_and_doubles, c, xs, unroll=2, reverse=True
    ),
    "unroll exactly": lambda c, xs: lax.scan(sum_and_doubles, c, xs[:4], unroll=2),
    "unroll all": lambda c, xs: lax.scan(sum_and_doubles, c, xs, unroll=True),
    "unroll one of two": lambda c, xs: lax.scan(
        sum_and_doubles, c, xs[:2], unroll=2, reverse=True
    ),
    "unroll too far": lambda c, xs: lax.scan(sum_and_doubles, c, xs[:3], unroll=5),
    "empty": lambda c, xs: lax.scan(sum_and_doubles, c, xs[:0]),
    "one": lambda c, xs: lax.scan(sum_and_doubles, c, xs[:1]),
    "no xs": lambda c, xs: lax.scan(lambda c, _: (c * 2, c), c, None, length=3),
    "no carry": lambda c, xs: lax.scan(lambda _, x: (None, x + 1), None, xs)[1],
    "no ys": lambda c, xs: lax.scan(lambda c, x: (c * x, None), c, xs)[0],
    "constants": lambda c, xs: lax.scan(lambda a, x: (a + c * x, V * x), c, xs),
    "nested": lambda c, xs: lax.scan(
        lambda c, x: lax.scan(lambda a, y: (a * x + y, a), c, xs), c, xs
    ),
    "map": lambda c, xs: lax.map(jnp.sin, xs),
    "map by batches": lambda c, xs: lax.map(jnp.sin, xs, batch_size=2),
    "gradient": lambda c, xs: curta.grad(
        lambda c, xs: lax.scan(lambda c, x: (jnp.sin(c) * x, c), c, xs)[1].sum(), (0, 1)
    )(c, xs),
    "batched": lambda c, xs: curta.vmap(lambda c: lax.scan(sum_and_doubles, c, xs))(
        jnp.stack([c, c + 1])
    ),
    "associative": lambda c, xs: lax.associative_scan(jnp.multiply, xs),
    "counted": lambda c, xs: lax.fori_loop(0, 5, lambda i, a: a + i * xs[i], c),
    "cond within": lambda c, xs: lax.scan(
        lambda c, x: (lax.cond(x > 0, lambda: c + x, lambda: c - x), c), c, xs
    ),
}


@pytest.mark.parametrize("name", SCANS)
def test_scan(name):
    check(SCANS[name], jnp.float32(0.5), jnp.asarray(V))


LOOPS = {
    "plain": lambda n, x: lax.while_loop(lambda a: a < n, lambda a: a + 1, 0),
    "constants": lambda n, x: lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + x), (0, x)
    ),
    "batched condition": lambda n, x: curta.vmap(
        lambda m: lax.while_loop(lambda a: a < m, lambda a: a * 2 + 1, 0)
    )(n + jnp.arange(3)),
    "nested": lambda n, x: lax.while_loop(
        lambda a: a < n,
        lambda a: lax.while_loop(lambda b: b < a + 2, lambda b: b + 1, a),
        0,
    ),
    "dynamic bounds": lambda n, x: lax.fori_loop(n - 3, n, lambda i, a: a * i, x),
    "forward mode": lambda n, x: curta.jvp(
        lambda x: lax.while_loop(lambda a: a[0] < 50, lambda a: a * 2, x), (x,), (x,)
    ),
    "gradient": lambda n, x: curta.grad(
        lambda x: lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x)
        )[1].sum()
    )(x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_while(name):
    check(LOOPS[name], jnp.int32(4), jnp.asarray([0.5, 1.5, 2.5]))


BRANCHES = {
    "cond": lambda i, x: lax.cond(i > 0, jnp.sin, jnp.cos, x),
    "switch": lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * 2], x),
    "several": lambda i, x: lax.cond(i > 1, lambda: (x, i), lambda: (x * 2, i + 1)),
    "closures": lambda i, x: lax.cond(i > 1, lambda: x * V[:3], lambda: x + i),
    "constants": lambda i, x: lax.cond(i > 1, lambda: V[:3], lambda: x),
    "nested": lambda i, x: lax.cond(
        i > 0, lambda: lax.cond(i > 1, lambda: x, lambda: x * 2), lambda: x * 3
    ),
    "batched": lambda i, x: curta.vmap(
        lambda j: lax.switch(j, [jnp.sin, jnp.cos, jnp.tanh], x)
    )(i + jnp.arange(3)),
    "gradient": lambda i, x: curta.grad(
        lambda x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x).sum()
    )(x),
    "platforms": lambda i, x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
}


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 5])
@pytest.mark.parametrize("name", BRANCHES)
def test_branches(name, index):
    check(BRANCHES[name], jnp.int32(index), jnp.asarray([0.5, 1.5, 2.5]))


@pytest.mark.parametrize("index", range(3))
def test_several_platforms(index):
    def fun(x):
        return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.tan, default=jnp.cos)

    closed = curta.make_jaxpr(lambda x: curta.jit(fun)(x))(V)
    text = lower(closed, platforms=["cpu", "cuda", "rocm"])
    (found,) = xla.run(text, [np.int32(index), V])
    np.testing.assert_allclose(found, [np.sin, np.tan, np.cos][index](V), rtol=1e-6)


@curta.custom_jvp
def with_jvp(x):
    return jnp.sin(x)


with_jvp.defjvp(lambda p, t: (with_jvp(*p), 2 * t[0]))


@curta.custom_vjp
def with_vjp(x):
    return jnp.sin(x)


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (ct * x,))


@curta.custom_batching.custom_vmap
def with_vmap(x):
    return jnp.sin(x)


with_vmap.def_vmap(lambda n, b, x: (with_vmap(x), b[0]))


def solve(x):
    return lax.custom_linear_solve(
        lambda y: y * 4, x, lambda mv, b: b / 4, lambda mv, b: b / 4
    )


def linear(x):
    return curta.custom_derivatives.linear_call(
        lambda r, y: y * r, lambda r, ct: ct * r, 3.0, x
    )


def changed(x):
    ref = curta.new_ref(x)
    ref[0] += 2.0
    lax.fori_loop(0, 3, lambda i, _: ref.__setitem__(i, ref[i] * 2), None)
    return ref[...]


CALLS = {
    "jit": lambda x: curta.jit(jnp.sin)(curta.jit(lambda y: y + 1)(x)),
    "twice": lambda x: with_jvp(curta.jit(with_jvp)(x)),
    "jvp": lambda x: curta.jvp(with_jvp, (x,), (x,)),
    "vjp": lambda x: curta.grad(lambda x: with_vjp(with_vjp(x)).sum())(x),
    "vmap": lambda x: curta.vmap(with_vmap)(x),
    "remat": curta.grad(lambda x: curta.checkpoint(lambda y: jnp.sin(y))(x).sum()),
    "linear solve": lambda x: (solve(x), curta.grad(lambda x: solve(x).sum())(x)),
    "linear call": lambda x: (linear(x), curta.grad(lambda x: linear(x).sum())(x)),
    "composite": lambda x: lax.composite(lambda x, k: x * k, "my.op", 3)(x, k=2.0),
    "barrier": lambda x: lax.optimization_barrier((x, x + 1)),
    "references": changed,
    "core call": lambda x: curta.jit(jnp.cumsum)(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    check(CALLS[name], jnp.asarray([0.5, 1.5, 2.5]))


REDUCTIONS = {
    "reduce": lambda x: lax.reduce(x, 0.0, lambda a, b: a + 2 * b - b, (0,)),
    "reduce of pairs": lambda x: lax.reduce(
        (x, -x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)
    ),
    "reduce window": lambda x: lax.reduce_window(
        x, 0.0, lambda a, b: jnp.hypot(a, b), (2, 2), (1, 2), "SAME"
    ),
    "reduce window of pairs": lambda x: lax.reduce_window(
        (x, -x),
        (0.0, 0.0),
        lambda a, b: (a[0] + b[0], lax.min(a[1], b[1])),
        (2, 1),
        (1, 1),
        ((1, 0), (0, 1)),
        base_dilation=(2, 1),
        window_dilation=(1, 2),
    ),
    "pooling": lambda x: curta.grad(
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME") ** 2
        ).sum()
    )(x),
    "pooling, forward": lambda x: curta.jvp(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME"),
        (x,),
        (x,),
    ),
    "apply": lambda x: x.at[jnp.array([0, 2, 7])].apply(jnp.exp),
    "apply twice": lambda x: x.at[jnp.array([0, 0])].apply(lambda y: 2 * y + 1),
    "tokens": lambda x: (lax.after_all(lax.create_token(x)), x)[1],
    "cumulative": lambda x: (jnp.cumprod(x, 1), lax.cummax(x, 0, reverse=True)),
    "complex": lambda x: lax.cumlogsumexp(x + 1j * x, 0),
    "long sum": lambda x: jnp.full(4096, 1.0, jnp.bfloat16).sum(),
    "long prefixes": lambda x: lax.cumsum(jnp.full(600, 1.0, jnp.bfloat16)),
    "top": lambda x: lax.top_k(jnp.array([1, jnp.nan, -0.0, 0.0, -jnp.nan, 1]), 6),
    "sort": lambda x: lax.sort(
        (jnp.array([1.0, jnp.nan, -0.0, 0.0, -jnp.nan, 1]), jnp.arange(6)), num_keys=1
    ),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    check(REDUCTIONS[name], jnp.asarray(X))


PRODUCTS = {
    "mixed dtypes": lambda x: lax.dot(
        x.astype(jnp.bfloat16), x.T, preferred_element_type=jnp.float32
    ),
    "small floats": lambda x: lax.dot(
        x.astype(jnp.float8_e4m3fn),
        x.T.astype(jnp.float8_e5m2),
        preferred_element_type=jnp.float32,
    ),
    "integers": lambda x: lax.dot(
        jnp.arange(6, dtype=jnp.int8).reshape(2, 3),
        jnp.full((3, 2), 100, jnp.int8),
        preferred_element_type=jnp.int32,
    ),
    "ragged": lambda x: lax.ragged_dot(x, jnp.ones((2, 3, 5)), jnp.array([1, 2])),
    "complex convolution": lambda x: lax.conv_general_dilated(
        (x + 1j * x)[None, None], (x - 2j * x)[None, None, :2, :2], (1, 2), "SAME"
    ),
    "four dims": lambda x: jnp.fft.fftn(jnp.arange(24.0).reshape(1, 2, 3, 4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    check(PRODUCTS[name], jnp.asarray(X))


@pytest.mark.parametrize(
    "preset", [p for p in lax.DotAlgorithmPreset if "F8" not in p.name], ids=str
)
def test_algorithms(preset):
    (found,) = results(lambda x: lax.dot(x, x.T, precision=preset), jnp.asarray(X))
    wanted = X.astype(np.float64) @ X.T
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0.02)


KEYS = {
    "scan": lambda k: lax.scan(lambda c, x: (x, c), k[0], k),
    "cond": lambda k: lax.cond(jnp.bool_(True), lambda: k[0], lambda: k[1]),
    "index": lambda k: k[1],
    "indices": lambda k: k[jnp.array([1, 0])],
    "reshape": lambda k: k.reshape(3, 1).T,
    "stack": lambda k: jnp.stack([k, k]),
    "concatenate": lambda k: jnp.concatenate([k, k])[::2],
    "broadcast": lambda k: jnp.broadcast_to(k, (2, 3)),
    "update": lambda k: k.at[0].set(k[1]),
    "slice": lambda k: lax.dynamic_slice(k, (1,), (2,)),
    "where": lambda k: jnp.where(jnp.array([True, False, True]), k, k[::-1]),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_moved(name):
    check(KEYS[name], random.split(random.key(3), 3))
