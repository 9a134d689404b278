"""Programs with symbolic dims give what they give for the sizes themselves."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import export, lax
from curta.errors import InconclusiveDimensionOperation

RNG = np.random.default_rng(0)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def check(f, specs, *args, constraints=()):
    f = curta.jit(f)
    types = export.symbolic_args_specs(args, specs, constraints=constraints)
    found = export.export(f)(*types)
    for got, expected in zip(
        curta.tree.leaves(found.call(*args)), curta.tree.leaves(f(*args)), strict=True
    ):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
    return found


FUNCTIONS = {
    "elementwise": lambda x: jnp.exp(x) / (1 + jnp.abs(x)),
    "reductions": lambda x: (x.sum(), x.mean(0), x.max(1), x.var(), jnp.argmax(x, 0)),
    "softmax": curta.nn.softmax,
    "size as a value": lambda x: x * x.shape[0] - x.shape[1] / 2 + 2 ** x.shape[0],
    "sizes in an array": lambda x: jnp.array(x.shape),
    "reshape": lambda x: (x.reshape(-1), x.reshape(x.shape[1], -1), x.T.ravel()),
    "broadcast": lambda x: jnp.broadcast_to(x[None], (x.shape[0] + 1, *x.shape)),
    "concatenate": lambda x: jnp.concatenate([x, x[::-1]], 0),
    "slices": lambda x: (x[1:], x[:-1], x[::2], x[::-1], x[-3:, 1], x[0], x[-1]),
    "slices by sizes": lambda x: x[: x.shape[1]] + x[-x.shape[1] :],
    "indices": lambda x: x[jnp.arange(x.shape[0]) // 2, 1],
    "updates": lambda x: x.at[0].set(1.0).at[:, 1].add(2.0),
    "take": lambda x: jnp.take(x, jnp.array([0, 2]), 1),
    "take along": lambda x: jnp.take_along_axis(x, x.argsort(0), 0),
    "arange": lambda x: jnp.arange(1, 2 * x.shape[0], 3),
    "arange downwards": lambda x: jnp.arange(x.shape[0], 0, -1),
    "creation": lambda x: (jnp.zeros(x.shape), jnp.eye(x.shape[0], 3)),
    "places": lambda x: (jnp.tril_indices(x.shape[0], 1), jnp.triu_indices(x.shape[1])),
    "nonzero": lambda x: jnp.nonzero(x > 0, size=x.shape[0]),
    "triangle": lambda x: (jnp.tri(x.shape[0], 2), jnp.tril(x)),
    "linspace": lambda x: jnp.linspace(0, x.shape[0], 4),
    "pad": lambda x: (jnp.pad(x, 1), lax.pad(x, 0.0, ((x.shape[0], 1, 1), (0, 0, 0)))),
    "roll, tile": lambda x: (jnp.roll(x, 2, 0), jnp.tile(x, (2, 1))),
    "repeat": lambda x: (jnp.repeat(x, 2, 0), jnp.repeat(x, x.shape[0], 1)),
    "products": lambda x: (x @ x.T, jnp.einsum("ij,kj->ik", x, x)),
    "cumulative": lambda x: (jnp.cumsum(x, 0), lax.cummax(x, axis=1)),
    "sort": lambda x: (jnp.sort(x, 0), jnp.median(x, axis=0), lax.top_k(x.T, 2)[0]),
    "one hot": lambda x: curta.nn.one_hot(jnp.array([0, 1]), x.shape[0]),
    "scan": lambda x: lax.scan(lambda c, row: (c + row, c.sum()), x[0], x),
    "fori": lambda x: lax.fori_loop(0, x.shape[0], lambda i, y: 2 * y + i, x),
    "while": lambda x: lax.while_loop(lambda y: y[0, 0] < 9, lambda y: y + 2, x),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, x),
    "vmap": lambda x: curta.vmap(lambda row: row / row.shape[0] + jnp.flip(row))(x),
    "grad": curta.grad(lambda x: jnp.sum(jnp.sin(x[1:]) * x[:-1]) / x.shape[0]),
    "linear algebra": lambda x: (jnp.linalg.svd(x.T @ x)[1], jnp.linalg.norm(x)),
    "fft": lambda x: jnp.abs(jnp.fft.fft(x, axis=0)),
    "dynamic slice": lambda x: lax.dynamic_slice(x, (1, 0), (x.shape[0] - 1, 2)),
    "window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
    "jit within": lambda x: curta.jit(lambda y: y + jnp.arange(y.shape[1]))(x),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    check(
        FUNCTIONS[name], "b, n", array(5, 4), constraints=["b >= 3", "n >= 3", "n <= b"]
    )


def test_one_program_for_many_sizes():
    found = check(lambda x: jnp.cumsum(x[1:] * x.shape[0]), "n", array(4))
    for n in (2, 3, 10):
        x = array(n)
        np.testing.assert_allclose(found.call(x), np.cumsum(x[1:] * n), rtol=1e-5)


def test_convolution():
    kernel = array(4, 3, 3)

    def f(x):
        return lax.conv_general_dilated(x, kernel, (2,), "SAME")

    found = check(f, "b, 3, n", array(2, 3, 8))
    assert found.call(array(1, 3, 5)).shape == (1, 4, 3)


def test_random_numbers():
    def f(key, x):
        return (
            curta.random.normal(key, x.shape)
            + curta.random.uniform(key, (2 * x.shape[0], 1))[0]
        )

    check(f, (None, "b, n"), curta.random.key(1), array(3, 4))


def test_clipped_slices():
    def f(x):
        return x[2 : 4 + x.shape[1]]

    found = check(f, "b, n", array(9, 3))
    assert str(found.out_avals[0].shape) == "(min(b, n + 4) - min(b, 2), n)"
    assert found.call(array(1, 1)).shape == (0, 1)


def test_undecided():
    x = array(4)
    for f, message in [
        (lambda x: x if x.shape[0] > 2 else -x, "'b' > '2' is inconclusive"),
        (lambda x: x.reshape(3, -1), "Cannot divide evenly the sizes of shapes"),
        (lambda x: jnp.arange(0, x.shape[0], x.shape[0] - 2), "resolved statically"),
        (lambda x: jnp.linspace(0, 1, x.shape[0]), "'b' > '1' is inconclusive"),
        (lambda x: jnp.pad(x, (x.shape[0] - 1, 0), "wrap"), "requires a constant"),
    ]:
        with pytest.raises(InconclusiveDimensionOperation, match=message):
            check(f, "b", x)
    for pad in "reflect", "symmetric":
        with pytest.raises(ValueError, match="it is possible to determine at lowering"):
            check(lambda x, m=pad: jnp.pad(x, 2, m, reflect_type="odd"), "b", x)
    with pytest.raises(ValueError, match="axis=None is not supported with shape poly"):
        check(jnp.squeeze, "b", x)
    with pytest.raises(ValueError, match="symbolic number of sections"):
        check(lambda x: jnp.split(x, x.shape[0] // 2), "b", x)
    with pytest.raises(NotImplementedError, match="random permutation"):
        check(lambda x: curta.random.permutation(curta.random.key(0), x), "b", x)
    with pytest.raises(ValueError, match="dimension expressions or integers"):
        check(lambda x: jnp.arange(0.0, x.shape[0]), "b", x)
    with pytest.raises(TypeError, match="incompatible shapes"):
        check(lambda x, y: x + y, ("a", "b"), x, x)
    # Equal for all values, once that is said.
    check(lambda x, y: x + y, ("a", "b"), x, x, constraints=["a == b"])


@pytest.mark.parametrize("mode", ["maximum", "minimum", "mean", "linear_ramp", "empty"])
def test_borders_as_wide_as_the_array(mode):
    x = array(3, 5)

    def pad(x, **options):
        return jnp.pad(x, [[x.shape[0], 0], [x.shape[1], 1]], mode, **options)

    check(pad, "b, 5", x, constraints=["b >= 2"])
    if mode in ("maximum", "minimum", "mean"):
        lengths = ((2, 9), (1, 3))
        check(lambda x: pad(x, stat_length=lengths), "b, c", x)
        check(lambda x: pad(x, stat_length=x.shape[0]), "b, 5", x)


@pytest.mark.parametrize("endpoint", [False, True])
def test_as_many_points_as_there_are_elements(endpoint):
    def points(x):
        spaced = jnp.linspace(x, 2 * x, x.shape[0], endpoint=endpoint, retstep=True)
        first, last = jnp.float32(1), jnp.float32(4)
        exponents = first, last, x.shape[0] + 1, endpoint
        return spaced, jnp.logspace(*exponents), jnp.geomspace(*exponents)

    for size in 2, 5:
        check(points, "b", array(size), constraints=["b >= 2"])


def test_groups_that_make_no_difference():
    numbers = lax.RaggedDotDimensionNumbers((([2], [1]), ([0], [0])), [0], [])

    def product(x, y, sizes):
        return lax.ragged_dot_general(x, y, sizes, numbers)

    sizes = np.array([1, 1], np.int32)
    check(product, ["b, m, k", "b, k, n", "g"], array(2, 3, 4), array(2, 4, 5), sizes)
    free = lax.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
    with pytest.raises(TypeError, match="requires the group count .* to be static"):
        check(
            lambda x, y, sizes: lax.ragged_dot_general(x, y, sizes, free),
            ["m, k", "g, k, n", "g"], array(2, 4), array(2, 4, 5), sizes,
        )  # fmt: skip
