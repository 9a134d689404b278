"""`jit(abstracted_axes=...)`: one compilation for all sizes of named dims."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta._base.advisor import forget
from curta.config import num_threads
from curta.errors import AdviceWarning

SIZES = (100, 2, 3, 17, 64, 101, 128, 300)  # of which the first is compiled for
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def untold():
    """Advice is given once in a process: here in each test."""
    forget()
    with curta.advice("warn"):
        yield


def normal(*shape):
    return jnp.asarray(rng.standard_normal(shape).astype(np.float32))


def check(f, make, axes, sizes=SIZES, compiled=1, rtol=2e-5):
    """Compare with code for each size, and count the programs that were compiled."""
    named = curta.jit(f, abstracted_axes=axes)
    with curta.advice("sizes=raise"):
        for n in sizes:
            args = make(n)
            found = curta.tree.leaves(named(*args))
            wanted = curta.tree.leaves(curta.jit(lambda *a: f(*a))(*args))
            for got, want in zip(found, wanted, strict=True):
                assert got.dtype == want.dtype and got.shape == want.shape, n
                scale = np.abs(want).max(initial=1e-6)
                np.testing.assert_allclose(got, want, rtol, rtol * scale, err_msg=n)
    assert named.cache_statistics().executables == compiled
    return named


def rnn(w, x):
    def step(h, x):
        h = jnp.tanh(x @ w[0] + h @ w[1])
        return h, h.sum(-1)

    return lax.scan(step, jnp.zeros((x.shape[1], 8)), x)


def norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def block(w, x):
    """A transformer block of four heads."""
    batch, length, d = x.shape
    q, k, v = ((norm(x) @ p).reshape(batch, length, 4, d // 4) for p in w[:3])
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(d // 4)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", curta.nn.softmax(scores), v)
    x = x + mixed.reshape(batch, length, d) @ w[3]
    return x + curta.nn.gelu(norm(x) @ w[4]) @ w[5]


def mlp_loss(w, x, y):
    logits = jnp.tanh(x @ w["a"] + w["b"]) @ w["c"]
    picked = curta.nn.log_softmax(logits) * curta.nn.one_hot(y, 10)
    return -picked.sum(-1).mean()


def mlp_step(w, x, y):
    grads = curta.grad(mlp_loss)(w, x, y)
    return curta.tree.map(lambda p, g: p - 0.1 * g, w, grads)


RNN = [normal(6, 8) * 0.3, normal(8, 8) * 0.3]
BLOCK = [normal(16, 16) * 0.3 for _ in range(4)]
BLOCK += [normal(16, 32) * 0.3, normal(32, 16) * 0.3]
MLP = {"a": normal(20, 30), "b": normal(30), "c": normal(30, 10)}

PROGRAMS = {
    "map": (lambda x: jnp.tanh(x) * 2, lambda n: [normal(n, 3)], {0: "n"}),
    "map of columns": (lambda x: jnp.tanh(x), lambda n: [normal(3, n)], {1: "n"}),
    "in the middle": (
        lambda x, y: x * y[:, None],
        lambda n: [normal(4, n, 5), normal(n)],
        ({1: "n"}, {0: "n"}),
    ),
    "transpose": (lambda x: x.T + 1, lambda n: [normal(n, 40)], {0: "n"}),
    "sum": (lambda x: x.sum(), lambda n: [normal(n, 3)], {0: "n"}),
    "sum of columns": (lambda x: x.sum(0), lambda n: [normal(n, 40)], {0: "n"}),
    "mean": (lambda x: x.mean(), lambda n: [normal(n)], {0: "n"}),
    "argmax": (lambda x: x.argmax(-1), lambda n: [normal(5, n)], {1: "n"}),
    "softmax": (curta.nn.softmax, lambda n: [normal(n, 33)], {0: "n"}),
    "softmax of open rows": (curta.nn.softmax, lambda n: [normal(7, n)], {1: "n"}),
    "layer norm": (norm, lambda n: [normal(n, 33)], {0: "n"}),
    "product": (
        lambda x, w: x @ w,
        lambda n: [normal(n, 9), normal(9, 7)],
        ({0: "n"}, None),
    ),  # fmt: skip
    "gram": (lambda x: x.T @ x, lambda n: [normal(n, 9)], {0: "n"}),
    "outer": (lambda x: x @ x.T, lambda n: [normal(n, 9)], {0: "n"}),
    "matrix-vector": (
        lambda x, w: x @ w,
        lambda n: [normal(n, 9), normal(9)],
        ({0: "n"}, None),
    ),  # fmt: skip
    "two names": (
        lambda x, y: x @ y,
        lambda n: [normal(n, 9), normal(9, n + 2)],
        ({0: "n"}, {1: "m"}),
    ),
    "convolution": (
        lambda x, k: lax.conv(x, k, (1, 1), "SAME"),
        lambda n: [normal(n, 3, 8, 8), normal(4, 3, 3, 3)],
        ({0: "n"}, None),
    ),
    "reshape": (lambda x: x.reshape(-1, 4) + 1, lambda n: [normal(n, 8)], {0: "n"}),
    "concatenate": (
        lambda x, y: jnp.concatenate([x, y]),
        lambda n: [normal(n, 8), normal(5, 8)],
        ({0: "n"}, None),
    ),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 0))), lambda n: [normal(n, 3)], {0: "n"}),
    "flip": (lambda x: x[::-1] + x, lambda n: [normal(n, 3)], {0: "n"}),
    "gather": (
        lambda e, i: e[i],
        lambda n: [normal(50, 8), jnp.asarray(rng.integers(0, 50, n))],
        (None, {0: "n"}),
    ),
    "scatter": (
        lambda e, i: e.at[i].add(1.0),
        lambda n: [normal(50, 8), jnp.asarray(rng.integers(0, 50, n))],
        (None, {0: "n"}),
    ),
    "random": (
        lambda x: x + curta.random.normal(curta.random.key(0), x.shape),
        lambda n: [normal(n, 3)],
        {0: "n"},
    ),
    "cumulative": (lambda x: jnp.cumsum(x), lambda n: [normal(n)], {0: "n"}),
    "iota": (lambda x: jnp.arange(x.shape[0]) * x, lambda n: [normal(n)], {0: "n"}),
    "scan": (rnn, lambda n: [RNN, normal(n, 4, 6)], (None, {0: "n"})),
    "scan of numbers": (
        lambda x: lax.scan(lambda c, x: (c * 0.9 + x, c), 0.0, x),
        lambda n: [normal(n)],
        {0: "n"},
    ),
    "scan of a batch": (rnn, lambda n: [RNN, normal(9, n, 6)], (None, {1: "n"})),
    "gradient of a scan": (
        curta.grad(lambda w, x: rnn(w, x)[1].sum()),
        lambda n: [RNN, normal(n, 4, 6)],
        (None, {0: "n"}),
    ),
    "loop": (
        lambda x: lax.fori_loop(0, 3, lambda i, x: x * 1.5 + i, x),
        lambda n: [normal(n, 3)],
        {0: "n"},
    ),
    "branches": (
        lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
        lambda n: [normal(n, 3)],
        {0: "n"},
    ),
    "loops of a batch": (
        curta.vmap(lambda x: lax.while_loop(lambda c: c < 5, lambda c: c * 1.5 + 1, x)),
        lambda n: [abs(normal(n))],
        {0: "n"},
    ),
    "step of a perceptron": (
        mlp_step,
        lambda n: [MLP, normal(n, 20), jnp.asarray(rng.integers(0, 10, n))],
        (None, {0: "n"}, {0: "n"}),
    ),
    "block, batch": (block, lambda n: [BLOCK, normal(n, 6, 16)], (None, {0: "n"})),
    "block, length": (block, lambda n: [BLOCK, normal(5, n, 16)], (None, {1: "n"})),
    "gradient of a block, batch": (
        curta.grad(lambda w, x: (block(w, x) ** 2).mean()),
        lambda n: [BLOCK, normal(n, 6, 16)],
        (None, {0: "n"}),
    ),
    "gradient of a block, length": (
        curta.grad(lambda w, x: (block(w, x) ** 2).mean()),
        lambda n: [BLOCK, normal(5, n, 16)],
        (None, {1: "n"}),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compilation_serves_all_sizes(name):
    check(*PROGRAMS[name])


def test_sizes_0_and_1_are_compiled_on_their_own():
    f, make, axes = PROGRAMS["layer norm"]
    check(f, make, axes, (7, 0, 1, 8, 1, 0), compiled=3)


def test_large_sizes_are_compiled_for_what_is_fast_there():
    f, make, axes = PROGRAMS["softmax of open rows"]
    check(f, make, axes, (10, 100, 20_000, 100_000, 30, 90_000), compiled=2)


def test_the_first_size_may_be_small():
    f, make, axes = PROGRAMS["step of a perceptron"]
    check(f, make, axes, (2, 500, 3, 511))


def test_one_threads_results_are_those_of_many():
    named = curta.jit(lambda x: jnp.exp(x).sum(), abstracted_axes={0: "n"})
    named(normal(200_000))
    x = normal(300_001)
    with num_threads(1):
        one = named(x)
    assert one == named(x)


def test_a_comparison_of_the_users_makes_a_variant():
    def f(x):
        return x * 2 if x.shape[0] == 3 else x * x.shape[0]

    check(f, lambda n: [normal(n)], {0: "n"}, (5, 3, 7, 3, 4), compiled=2)
    check(f, lambda n: [normal(n)], {0: "n"}, (3, 5, 7, 3, 4), compiled=2)


@pytest.mark.parametrize("container", [set, dict.fromkeys])
def test_a_size_in_a_set_of_the_users_is_that_number(container):
    sizes = container([3, 4])
    f = curta.jit(lambda x: x * (x.shape[0] in sizes), abstracted_axes={0: "n"})
    with pytest.warns(AdviceWarning, match=r"each size of 'n': its number is asked"):
        assert f(jnp.ones(5)).sum() == 0
    assert f(jnp.ones(3)).sum() == 3


def test_a_python_loop_is_compiled_for_each_size_and_advice_says_so():
    f = curta.jit(
        lambda x, y: (sum(x[i] for i in range(x.shape[0])), y + 1),
        abstracted_axes=({0: "loop"}, {0: "open"}),
    )
    with pytest.warns(AdviceWarning, match=r"'loop': .*test_abstracted_axes"):
        assert f(jnp.ones(3), jnp.ones(2))[0] == 3
    assert f(jnp.ones(3), jnp.ones(9))[0] == 3
    assert f.cache_statistics().executables == 1  # the other name is still open
    assert f(jnp.ones(4), jnp.ones(9))[0] == 4
    assert f.cache_statistics().executables == 2


def test_a_sort_is_compiled_for_each_size_and_advice_says_so():
    f = curta.jit(jnp.sort, abstracted_axes={0: "n"})
    with pytest.warns(AdviceWarning, match=r"'n': NotImplementedError: .*one size"):
        np.testing.assert_array_equal(f(jnp.arange(50.0)[::-1]), np.arange(50.0))
    np.testing.assert_array_equal(f(jnp.arange(7.0)[::-1]), np.arange(7.0))


def test_errors_of_the_function_are_raised_without_advice():
    f = curta.jit(lambda x: x @ jnp.ones(4), abstracted_axes={0: "n"})
    with curta.advice("raise"), pytest.raises(TypeError):
        f(jnp.ones((5, 3)))


def test_a_name_has_one_size():
    f = curta.jit(jnp.add, abstracted_axes=({0: "n"}, {0: "n"}))
    with pytest.raises(ValueError, match="inconsistent sizes for the abstracted axis"):
        f(jnp.ones((3, 4)), jnp.ones((1, 4)))
    with pytest.raises(ValueError, match="axis 1 'm' of an argument with 1 dim"):
        curta.jit(jnp.sin, abstracted_axes={1: "m"})(jnp.ones(3))
    with pytest.raises(ValueError, match="must be a tree that is a prefix"):
        curta.jit(jnp.sin, abstracted_axes=({0: "n"}, {0: "n"}))(jnp.ones(3))


def test_axes_are_named_as_jax_did():
    args = normal(5, 3), {"w": normal(3), "b": normal(5)}
    want = args[0] * args[1]["w"] + args[1]["b"][:, None]

    def f(x, p):
        return x * p["w"] + p["b"][:, None]

    for axes in (
        (("n", None), {"w": None, "b": ("n",)}),
        ({0: "n"}, {"w": {}, "b": {0: "n"}}),
        (("n",), {"w": (None,), "b": ("n",)}),
        ({-2: "n"}, {"w": {}, "b": {-1: "n"}}),
    ):
        g = curta.jit(f, abstracted_axes=axes)
        np.testing.assert_allclose(g(*args), want, rtol=1e-6)
        assert g(normal(9, 3), {"w": normal(3), "b": normal(9)}).shape == (9, 3)
        assert g.cache_statistics().executables == 1


def test_static_and_keyword_arguments():
    f = curta.jit(
        lambda x, k, *, y: x * k + y,
        static_argnums=1,
        abstracted_axes=({0: "n"}, None),
    )
    for n in (5, 6):
        np.testing.assert_allclose(f(jnp.ones(n), 2, y=1.0), np.full(n, 3.0))
    assert f.cache_statistics().executables == 1
    np.testing.assert_allclose(f(jnp.ones(7), 4, y=1.0), np.full(7, 5.0))
    assert f.cache_statistics().executables == 2


def test_donated_arguments_are_overwritten():
    f = curta.jit(lambda x: x * 2, donate_argnums=0, abstracted_axes={0: "n"})
    for n in (50, 70):
        x = normal(n, 100)
        want, at = np.asarray(x) * 2, x.unsafe_buffer_pointer()
        out = f(x)
        np.testing.assert_array_equal(out, want)
        assert x.is_deleted()
        assert out.unsafe_buffer_pointer() == at
    assert f.cache_statistics().executables == 1


def test_within_other_transformations_it_is_a_function_of_their_sizes():
    f = curta.jit(lambda x: (x**2).sum(), abstracted_axes={0: "n"})
    f(jnp.ones(5))
    for n in (3, 4):
        x = jnp.arange(float(n))
        np.testing.assert_allclose(curta.grad(f)(x), 2 * x)
        np.testing.assert_allclose(curta.vmap(f)(jnp.ones((2, n))), [n, n])
        assert "sum" in str(curta.make_jaxpr(f)(x))


def test_sizes_returned_and_read_are_those_of_the_call():
    f = curta.jit(
        lambda x: (x.shape[0], x.size, x / x.shape[0]), abstracted_axes={0: "n"}
    )
    for n in (5, 8, 1):
        size, elements, out = f(jnp.ones((n, 3)))
        assert (size, elements) == (n, 3 * n)
        np.testing.assert_allclose(out, np.full((n, 3), 1 / n))


def test_special_values_are_looked_for_at_the_size_of_the_call():
    f = curta.jit(lambda x: x / x, abstracted_axes={0: "n"})
    with curta.debug_nans(True):
        f(jnp.ones(5))
        with pytest.raises(FloatingPointError):
            f(jnp.zeros(6))


def test_a_settings_change_compiles_anew():
    f = curta.jit(lambda x: x + 1, abstracted_axes={0: "n"})
    for x64 in (False, True):
        with curta.enable_x64(x64):
            for n in (5, 6):
                assert f(jnp.ones(n, float)).dtype == ("float64" if x64 else "float32")
