"""Rewritten programs treat NaN, infinities and -0.0 as `eval` does.

Numbers are small integers, or such over powers of two, so that sums of any order are
exact: results are equal to the last bit, signs of zeros too. Sizes are those from which
a rewrite takes place.
"""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.scipy.special import logsumexp

SPECIAL = [np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-45]


def numbers(shape, seed=0, kinds=SPECIAL, share=4):
    """Small integers (or their signs), `share` of each kind of special value."""
    rng = np.random.default_rng(seed)
    x = rng.choice(np.float32([-2, -1, 1, 2]), shape).reshape(-1)
    places = rng.choice(x.size, share * len(kinds), replace=False)
    for kind, at in zip(kinds, np.split(places, len(kinds)), strict=True):
        x[at] = kind
    return x.reshape(shape)


def check(f, *args):
    args = [*map(jnp.asarray, args)]
    with curta.disable_jit():
        expected = curta.tree_util.tree_leaves(f(*args))
    found = curta.tree_util.tree_leaves(curta.jit(f)(*args))
    for a, b in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            zeros = b == 0
            np.testing.assert_array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]))


EACH = pytest.mark.parametrize("kind", [*SPECIAL[:4], "all"], ids=str)


def chosen(kind):
    return SPECIAL if kind == "all" else [kind]


LONG = 1 << 16  # elements of a cumulative reduction in blocks


@EACH
@pytest.mark.parametrize("name", ["cumsum", "cummax", "cummin"])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_reductions_in_blocks(name, reverse, kind):
    x = numbers((LONG + 5,), kinds=chosen(kind), share=1)
    check(lambda x: getattr(lax, name)(x, reverse=reverse), x)


@EACH
def test_cumulative_products_in_blocks(kind):
    x = np.sign(numbers((LONG,), kinds=chosen(kind), share=1))
    check(lambda x: lax.cumprod(x), x)


def test_sums_of_minus_zero():
    x = np.full(1 << 18, -0.0, np.float32)
    check(lambda x: (x.sum(), lax.cumsum(x), x.prod(), x.max(), x.min()), x)


@EACH
@pytest.mark.parametrize("shape", [(1 << 18,), (300, 1000), (3, 20000)])
def test_reductions_in_pieces(kind, shape):
    x = numbers(shape, kinds=chosen(kind), share=1)

    def f(x):
        whole = [getattr(x, n)() for n in ("sum", "max", "min", "argmax", "argmin")]
        rows = [getattr(x, n)(0) for n in ("sum", "max", "min", "argmax", "argmin")]
        return whole, rows, jnp.nansum(x), jnp.isnan(x).any(), (x > 0).all(-1)

    check(f, x)


@EACH
def test_log_sums_and_softmax_have_their_special_values_where_eval_has_them(kind):
    x = numbers((64, 1024), kinds=chosen(kind), share=1)

    def f(x):
        found = logsumexp(x, 1), curta.nn.softmax(x), curta.nn.log_softmax(x), x.var(1)
        return [(jnp.isnan(y), jnp.isposinf(y), jnp.isneginf(y)) for y in found]

    check(f, x)


@EACH
def test_additions_to_few_places_in_pieces(kind):
    count, places = 1 << 17, 40
    at = np.random.default_rng(1).integers(0, places, count)
    updates = numbers((count,), kinds=chosen(kind), share=1)
    start = np.full(places, -0.0, np.float32)
    check(lambda x, u: x.at[at].add(u), start, updates)
    check(lambda x, u: x.at[at].max(u), start, updates)
    check(lambda u: curta.ops.segment_sum(u, at, places), updates)


@EACH
def test_windows(kind):
    x = numbers((3, 50, 60, 4), kinds=chosen(kind), share=1)

    def f(x, size):
        window, ones = (1, size, size, 1), (1, 1, 1, 1)
        return [
            lax.reduce_window(x, start, op, window, ones, "SAME")
            for op, start in [(lax.add, 0.0), (lax.max, -np.inf), (lax.min, np.inf)]
        ]

    check(lambda x: f(x, 3), x)
    check(lambda x: f(x, 7), x)
    check(curta.grad(lambda x: f(x, 2)[1].sum()), x)


@EACH
def test_products_of_matrices(kind):
    x, y = numbers((70, 90), 0, chosen(kind), 1), numbers((90, 33), 1, chosen(kind), 1)
    check(lambda x, y: (x @ y, x @ y[:, 0], y.T @ x.T, (x @ y).T), x, y)


@EACH
@pytest.mark.parametrize("options", [
    {}, {"window_strides": (2, 2)}, {"rhs_dilation": (2, 1)}, {"lhs_dilation": (2, 2)},
    {"feature_group_count": 4},
])  # fmt: skip
def test_convolutions(kind, options):
    groups = options.get("feature_group_count", 1)
    x = numbers((2, 11, 9, 8), 0, chosen(kind), 1)
    w = numbers((3, 3, 8 // groups, 8), 1, [0.0], 1)
    given = {"window_strides": (1, 1), "padding": ((0, 0), (0, 0)), **options}
    if "lhs_dilation" in options:
        x, w = x[..., :1], np.abs(w[:, :, :1])  # zeros between may be left out
        x[~np.isfinite(x)] = 1
    names = ("NHWC", "HWIO", "NHWC")
    check(lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=names, **given),
          x, w)  # fmt: skip


@EACH
def test_a_large_convolution_of_3_by_3(kind):
    x = numbers((1, 28, 28, 96), 0, chosen(kind), 1)
    w = 4 * numbers((3, 3, 96, 96), 1, [0.0], 1)  # halves of halves are exact
    names = ("NHWC", "HWIO", "NHWC")
    check(lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=names), x, w)  # fmt: skip


@EACH
def test_sorts(kind):
    x = numbers((3, 5000), kinds=chosen(kind))

    def f(x):
        return jnp.sort(x), jnp.argsort(x), lax.top_k(x, 20), jnp.median(x, axis=1)

    check(f, x)


@EACH
def test_loops_over_rows(kind):
    xs = numbers((40, 8, 96), kinds=chosen(kind), share=1)
    w = numbers((96, 96), 1, [0.0], 1)

    def f(xs, w):
        def step(c, x):
            c = jnp.maximum(c, x @ w)
            return c, (x - 0.0) * 1.0

        return lax.scan(step, jnp.full((8, 96), -0.0), xs)

    check(f, xs, w)
    check(curta.grad(lambda xs, w: (f(xs, w)[1] * f(xs, w)[0]).sum(), 1), xs, w)


@EACH
def test_loops_over_examples(kind):
    x = numbers((3000,), kinds=chosen(kind))

    def each(x):
        return lax.while_loop(lambda s: (s[0] < 5) & (s[1] < 9),
                              lambda s: (s[0] + 1, s[1] + x), (0, x))  # fmt: skip

    check(curta.vmap(each), x)


@EACH
def test_rewrites_of_single_eqns(kind):
    x = numbers((50, 40), kinds=chosen(kind))

    def f(x):
        return [
            x * 1, 1 * x, x / 1, x - 0, x + 0, x - 0.0, x + -0.0, 0 - x, x / 4,
            x / 3, x * 0, x.T.T, x[:, :1].sum(1), x[:1].sum(0), x**1, x**2, x**-1,
            -jnp.negative(x), jnp.abs(-x), jnp.where(x > 0, x, x), jnp.maximum(x, x),
            x - x, x / x, jnp.maximum(x, 0), jnp.minimum(x, -0.0), jnp.clip(x, -1, 1),
        ]  # fmt: skip

    check(f, x)


@pytest.mark.parametrize(
    "shape", [(3, 9000), (9000, 3), (7, 1300), (1300, 40), (20000, 6)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_indices_of_extrema(shape, dtype):
    """The first of equal ones, and of NaNs; also where all are the worst there is."""
    choice = [np.nan, np.inf, -np.inf, 1, 1, 1] if dtype.startswith("f") else [0, 1]
    x = np.random.default_rng(0).choice(choice, shape).astype(dtype)
    x[:, 1] = choice[1]  # all inf, or True
    x[2] = choice[-2]

    def indices(x):
        return [f(a) for f in (x.argmax, x.argmin) for a in (0, 1)] + [x.argmin()]

    for found, want in zip(curta.jit(indices)(x), indices(x), strict=True):
        np.testing.assert_array_equal(found, want)
