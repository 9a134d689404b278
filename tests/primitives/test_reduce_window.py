"""`lax.reduce_window`: known functions, any function, gradients, errors."""

import itertools

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
X = RNG.permutation(60).reshape(3, 5, 4).astype(np.float32)

CASES = [
    # window, strides, padding, base dilation, window dilation
    ((2, 1, 2), (1, 1, 1), "VALID", None, None),
    ((2, 3, 1), (1, 2, 1), "SAME", None, None),
    ((1, 2, 3), (2, 2, 2), "SAME_LOWER", None, None),
    ((2, 2, 2), (1, 2, 1), ((1, 0), (-1, 2), (0, 1)), (1, 2, 1), (2, 1, 2)),
    ((4, 4, 4), (1, 1, 1), ((2, 3), (2, 2), (1, 3)), None, None),
]
FUNCTIONS = [
    (lax.add, 0.0, np.add),
    (lax.max, -np.inf, np.maximum),
    (lax.min, np.inf, np.minimum),
    (lax.mul, 1.0, np.multiply),
    (lambda a, b: 2 * a + b, 3.0, lambda a, b: 2 * a + b),
]


def by_loops(x, init, combine, window, strides, padding, base, dilation):
    """The definition, element by element."""
    rank = x.ndim
    base, dilation = base or (1,) * rank, dilation or (1,) * rank
    reach = [1 + d * (w - 1) for d, w in zip(dilation, window, strict=True)]
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(x.shape, reach, strides, padding)
    sizes = [
        (1 + b * (n - 1) + lo + hi - r) // s + 1
        for b, n, (lo, hi), r, s in zip(base, x.shape, padding, reach, strides)
    ]
    out = np.empty(sizes, x.dtype)
    for at in np.ndindex(*sizes):
        total = init
        for tap in itertools.product(*map(range, window)):
            place = [
                i * s + k * d - p[0]
                for i, s, k, d, p in zip(at, strides, tap, dilation, padding)
            ]
            there = all(
                p % b == 0 and 0 <= p // b < n
                for p, b, n in zip(place, base, x.shape, strict=True)
            )
            if there:
                total = combine(
                    total, x[tuple(p // b for p, b in zip(place, base, strict=True))]
                )
        out[at] = total
    return out


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("function", range(len(FUNCTIONS)))
def test_agrees_with_loops(case, function):
    computation, init, combine = FUNCTIONS[function]
    x = X if computation is not lax.mul else X / 30

    def reduced(x):
        return lax.reduce_window(x, init, computation, *case)

    wanted = by_loops(x, init, combine, *case)
    np.testing.assert_allclose(reduced(x), wanted, 1e-5)
    np.testing.assert_allclose(curta.jit(reduced)(x), wanted, 1e-5)
    batched = curta.vmap(reduced, 1, 1)(np.stack([x, x + 1], 1))
    np.testing.assert_allclose(batched[:, 0], wanted, 1e-5)


@pytest.mark.parametrize("case", CASES[:3], ids=str)
@pytest.mark.parametrize("function", range(4))
def test_gradients(case, function):
    computation, init, _ = FUNCTIONS[function]
    x = (X[:2, :4] / 30 + 0.1).astype(np.float64)
    with curta.enable_x64(True):
        check_grads(
            lambda x: lax.reduce_window(x, init, computation, *case), (x,), 2, eps=1e-5
        )


def test_gradient_of_overlapping_maxima_adds_up():
    x = np.array([1.0, 5.0, 2.0, 0.0, 7.0, 3.0], np.float32)

    def total(x):
        pooled = lax.reduce_window(x, -np.inf, lax.max, (3,), (1,), "SAME")
        return jnp.sum(pooled * jnp.arange(1.0, 7.0))

    wanted = [0.0, 1.0 + 2 + 3, 0, 0, 4.0 + 5 + 6, 0]
    np.testing.assert_array_equal(curta.grad(total)(x), wanted)
    np.testing.assert_array_equal(curta.jit(curta.grad(total))(x), wanted)


def test_first_of_equal_elements_takes_the_gradient():
    grad = curta.grad(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,)).sum()
    )
    np.testing.assert_array_equal(grad(np.ones(4, np.float32)), [1, 0, 1, 0])


@pytest.mark.parametrize("choose", [lax.max, lax.min])
@pytest.mark.parametrize(("window", "step"), [((2, 3), 1), ((7, 8), 2)])
def test_first_of_equal_elements_is_chosen_when_compiled(choose, window, step):
    init = np.float32(-np.inf if choose is lax.max else np.inf)
    x = RNG.integers(0, 3, (17, 16)).astype(np.float32)

    def pool(x):
        return lax.reduce_window(x, init, choose, window, (step, step), "SAME")

    best, worst = (np.argmax, -np.inf) if choose is lax.max else (np.argmin, np.inf)
    pads = lax.padtype_to_pads(x.shape, window, (step, step), "SAME")
    padded = np.pad(x, pads, constant_values=worst)
    numbers = np.pad(np.arange(x.size).reshape(x.shape), pads)
    sliding = np.lib.stride_tricks.sliding_window_view
    taps = sliding(padded, window)[::step, ::step].reshape(-1, *window)
    places = sliding(numbers, window)[::step, ::step].reshape(-1, *window)
    chosen = [p.flat[best(t)] for p, t in zip(places, taps, strict=True)]

    grad = curta.jit(curta.grad(lambda x: pool(x).sum()))(x)
    counts = np.bincount(chosen, minlength=x.size).reshape(x.shape)
    np.testing.assert_array_equal(grad, counts)
    tangent = np.arange(x.size, dtype=np.float32).reshape(x.shape)
    out = curta.jit(lambda x, t: curta.jvp(pool, (x,), (t,))[1])(x, tangent)
    np.testing.assert_array_equal(out.ravel(), chosen)


@pytest.mark.parametrize("jit", [curta.jit, lambda f: f])
@pytest.mark.parametrize("size", [3, 40])
def test_nothing_is_chosen_where_all_is_the_worst_value(jit, size):
    def tangent(x, t):
        pool = lambda x: lax.reduce_window(x, -np.inf, lax.max, (size,), (1,))  # noqa: E731
        return curta.jvp(pool, (x,), (t,))[1]

    x = np.full(50, -np.inf, np.float32)
    np.testing.assert_array_equal(jit(tangent)(x, np.ones_like(x)), 0)


def test_gradient_of_the_maximum_in_large_windows():
    x = RNG.permutation(100 * 100).reshape(100, 100).astype(np.float32)
    pool = lambda x: lax.reduce_window(x, -np.inf, lax.max, (64, 64), (1, 1)).sum()  # noqa: E731
    taps = np.lib.stride_tricks.sliding_window_view(x, (64, 64))
    best, counts = np.unique(taps.max((2, 3)), return_counts=True)
    wanted = np.zeros(x.size)
    wanted[np.argsort(x.ravel())[best.astype(int)]] = counts
    grad = curta.jit(curta.grad(pool))(x)
    np.testing.assert_array_equal(grad.ravel(), wanted)


def test_several_operands_are_folded_together():
    def better(a, b):
        wins = a[0] >= b[0]
        return jnp.where(wins, a[0], b[0]), jnp.where(wins, a[1], b[1])

    x = np.array([3.0, 1.0, 4.0, 1.0, 5.0], np.float32)
    places = np.arange(5, dtype=np.int32)
    values, where = lax.reduce_window((x, places), (-np.inf, 0), better, (3,))
    np.testing.assert_array_equal(values, [4, 4, 5])
    np.testing.assert_array_equal(where, [2, 2, 4])


def test_jaxpr_names_the_reduction():
    def ops(computation, init):
        closed = curta.make_jaxpr(
            lambda x: lax.reduce_window(x, init, computation, (2,))
        )(np.ones(3, np.float32))
        return [e.primitive.name for e in closed.eqns]

    assert ops(lax.add, 0.0) == ["reduce_window_sum"]
    assert ops(lax.max, -np.inf) == ["reduce_window_max"]
    assert ops(lax.add, 1.0) == ["reduce_window"]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0.0, lax.add, (2,)), TypeError, "got the wrong number of window_dimensions"),
        ((0.0, lax.add, (2, 2), (1,)), TypeError, "inconsistent window_strides"),
        ((0.0, lax.add, (0, 2)), TypeError, "window_dimensions must have every"),
        ((0.0, lax.add, (2, 2), (1, 1), "FOO"), RuntimeError, "Unrecognized padding"),
        ((0, lambda a, b: a, (2, 2)), TypeError, "got inconsistent dtypes"),
        (([0.0], lax.add, (2, 2)), ValueError, "Operands must have the same tree"),
        ((0.0, lambda a, b: (a, b), (2, 2)), ValueError, "output must have the same"),
    ],
)
def test_errors(arguments, error, words):
    with pytest.raises(error, match=words):
        lax.reduce_window(np.ones((3, 3), np.float32), *arguments)


def test_functions_may_not_close_over_tracers():
    def outer(y):
        return lax.reduce_window(X, 0.0, lambda a, b: a + b * y, (1, 1, 2))

    with pytest.raises(NotImplementedError, match="can't close over Tracers"):
        curta.jit(outer)(2.0)


def test_window_dilation_has_no_reverse_gradient():
    def pooled(x):
        dilation = (1, 1, 2)
        return lax.reduce_window(
            x, -np.inf, lax.max, (1, 1, 2), (1, 1, 1), "VALID", None, dilation
        ).sum()

    with pytest.raises(NotImplementedError, match="VJP not implemented for select"):
        curta.grad(pooled)(X)


def test_scatter_to_chosen_elements():
    x = np.array([1.0, 5.0, 2.0, 0.0], np.float32)
    source = np.array([10.0, 20.0, 30.0], np.float32)
    function = curta.make_jaxpr(lambda a, b: a >= b)(0.0, 0.0)
    summing = curta.make_jaxpr(lambda a, b: a + b)(0.0, 0.0)
    out = lax.select_and_scatter_p.bind(
        x, source, np.float32(0), select_jaxpr=function.jaxpr, select_consts=(),
        scatter_jaxpr=summing.jaxpr, scatter_consts=(), window_dimensions=(2,),
        window_strides=(1,), padding=((0, 0),),
    )  # fmt: skip
    np.testing.assert_array_equal(out, [0, 30, 30, 0])
