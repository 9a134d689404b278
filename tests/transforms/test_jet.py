"""Taylor mode agrees with nested forward mode, whatever the functions do."""

import functools
import math

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.experimental.jet import jet

ORDER = 3


def nested(fun, primals, series):
    """The same, by a jvp for each order."""

    def curve(t):
        terms = [
            sum(c * t ** (k + 1) / math.factorial(k + 1) for k, c in enumerate(s))
            for s in series
        ]
        return fun(*(x + c for x, c in zip(primals, terms, strict=True)))

    found = []
    for _ in range(ORDER):
        curve = functools.partial(
            lambda f, t: curta.jvp(f, (t,), (jnp.ones(()),))[1], curve
        )
        found.append(curve(jnp.zeros(())))
    return found


def check(fun, *primals, rtol=1e-3):
    rng = np.random.default_rng(0)
    primals = [jnp.asarray(x) for x in primals]
    series = [
        [jnp.float32(rng.normal(size=x.shape)) for _ in range(ORDER)] for x in primals
    ]
    out, terms = jet(fun, primals, series)
    np.testing.assert_allclose(out, fun(*primals), rtol=1e-6)
    expected = nested(fun, primals, series)
    for term, wanted in zip(terms, expected, strict=True):
        np.testing.assert_allclose(term, wanted, rtol=rtol, atol=1e-3)
    _, compiled = curta.jit(lambda p, s: jet(fun, p, s))(primals, series)
    np.testing.assert_allclose(compiled, terms, rtol=1e-4, atol=1e-4)


X = np.float32([[0.3, 0.7, 0.2], [0.9, 0.4, 0.6]])


@pytest.mark.parametrize(
    "fun",
    [
        *(jnp.exp, jnp.log, jnp.sin, jnp.tanh, jnp.sqrt, jnp.arcsin, lax.erf),
        *(lax.logistic, lax.erf_inv, lax.lgamma, jnp.sign, jnp.cumprod, jnp.sort),
        lambda x: x**5 - 2.0 / x,
        lambda x: jnp.max(x, axis=1) * x[0, ::2].sum(),
        lambda x: jnp.linalg.inv(x @ x.T + jnp.eye(2)),
        lambda x: jnp.where(x > 0.5, x * x, -x),
        lambda x: curta.jit(lambda y: y * jnp.cos(y))(x),
        lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
        lambda x: lax.scan(lambda c, row: (c * row + 1, c), x[0], x)[0],
        lambda x: lax.scan(lambda c, y: (c, y * y * c), x[0, 0], x)[1],
        lambda x: lax.scan(lambda c, y: (c * y[0], jnp.sign(y)), 2.0, x)[0],
        lambda x: lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x / (1 + c[1])), (0, x + 1)
        )[1],
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * jnp.tanh(c) + x, 2 * x),
        lambda x: lax.switch(1, [jnp.cos, lambda x: x * jnp.exp(x)], x[0]),
        lambda x: lax.cond(x[0, 0] > 9, jnp.cos, lambda x: jnp.sign(x), x),
        lambda x: curta.vmap(jnp.dot)(x, x),
        lambda x: curta.checkpoint(jnp.sin)(x) * lax.stop_gradient(x),
    ],
)
def test_functions_of_one_argument(fun):
    check(fun, X)


def test_functions_of_several_arguments():
    check(jnp.dot, X, X.T)
    check(lambda x, y: x / y - jnp.arctan2(x, y) ** 2, X, X[::-1])
    check(lambda x, y: jnp.power(x, y), X, 2 * X)


def test_custom_derivatives_are_used():
    @curta.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda xs, ts: (f(*xs), 2.0 * jnp.cos(xs[0]) * ts[0]))
    for g in (f, curta.jit(f)):
        _, (first, second) = jet(g, (0.5,), ((1.0, 0.0),))
        np.testing.assert_allclose(first, 2 * np.cos(0.5), rtol=1e-6)
        np.testing.assert_allclose(second, -2 * np.sin(0.5), rtol=1e-6)


def eqns_of_order(fun, order):
    def f(x):
        return jet(fun, (x,), ([x] + [0.0 * x] * (order - 1),))

    return curta.make_jaxpr(f)(jnp.float32(0.5)).jaxpr.pretty_print().count("\n")


def matrix(x):
    return jnp.eye(2) * (2 + x) + x


@pytest.mark.parametrize(
    "fun",
    [
        *(jnp.exp, jnp.log, jnp.log1p, jnp.expm1, jnp.sin, jnp.tan, jnp.tanh, jnp.sinh),
        *(jnp.sqrt, lax.rsqrt, jnp.cbrt, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.abs),
        *(jnp.arcsinh, jnp.arctanh, lax.erf, lax.erf_inv, lax.logistic, lax.lgamma),
        *(lax.digamma, lax.bessel_i0e, jnp.sinc, curta.nn.softplus, curta.nn.gelu),
        lambda x: x**5 - 2.0 / x,
        lambda x: x ** (x + 1),
        lambda x: jnp.arctan2(x, x + 1) % (x + 0.3),
        lambda x: lax.igamma(1.5, x),
        lambda x: curta.nn.softmax(jnp.stack([x, 2 * x])),
        lambda x: jnp.sort(jnp.stack([x, 2 * x])).max() * jnp.cumprod(matrix(x)),
        lambda x: jnp.abs(jnp.fft.fft(jnp.stack([x, 2 * x]))),
        lambda x: jnp.linalg.cholesky(matrix(x)),
        lambda x: jnp.linalg.solve(matrix(x), matrix(x)),
        lambda x: jnp.linalg.eigh(matrix(x)),
        lambda x: jnp.linalg.qr(matrix(x)),
        lambda x: jnp.linalg.svd(matrix(x)),
        lambda x: curta.jit(jnp.tanh)(x) / x,
        lambda x: lax.cond(x > 0, lambda x: x / (1 + x), jnp.sin, x),
        lambda x: lax.scan(lambda c, a: (c * jnp.tanh(c), c * a), x, jnp.arange(3.0)),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * jnp.sin(c) / x, x),
        lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * c + 1, x),
    ],
)
def test_cost_is_a_power_of_the_order(fun):
    """From order 4 to 8, work of the third power grows by 8, of 2**order by 16."""
    assert eqns_of_order(fun, 8) < 8 * eqns_of_order(fun, 4)


def test_high_orders_are_cheap():
    order = 20
    _, terms = jet(
        lambda x: jnp.sin(jnp.tanh(x * x) / (1 + x)), (0.5,), ([1.0] + [0.0] * order,)
    )
    assert len(terms) == order + 1 and np.isfinite(np.array(terms)).all()
    _, terms = jet(jnp.exp, (0.0,), ([1.0] + [0.0] * order,))
    np.testing.assert_allclose(terms, np.ones(order + 1), rtol=1e-5)


def test_coefficients_trees_and_constants():
    out, series = jet(
        lambda x: {"cube": x**3, "two": jnp.full((), 2.0), "n": 3},
        (2.0,),
        ([1.0, 0.0, 0.0],),
        factorial_scaled=False,
    )
    assert out["cube"] == 8.0 and [float(c) for c in series["cube"]] == [12, 6, 1]
    assert [float(c) for c in series["two"]] == [0, 0, 0]
    assert [int(c) for c in series["n"]] == [0, 0, 0]


@pytest.mark.parametrize(
    ("primals", "series", "message"),
    [
        ((1.0, 2.0), ((1.0,), (1.0, 2.0)), "jet terms have inconsistent lengths"),
        (([1.0],), ((1.0,),), "primal value at position 0 is not an array"),
        ((1.0,), (((1.0,),),), "term 0 for argument 0 is not an array"),
        ((1.0,), ((jnp.ones(2),),), r"term 0 for argument 0 has shape \(2,\)"),
        ((1.0, 2.0), ((1.0,),), "a series for each argument"),
    ],
)
def test_mistakes(primals, series, message):
    with pytest.raises(ValueError, match=message):
        jet(lambda *xs: xs[0], primals, series)


@pytest.mark.parametrize(
    ("x", "terms"),
    [
        (jnp.ones(2), [1.0, 2.0]),
        (np.ones(2), [1, jnp.float16(2)]),
        (np.array([1, 1]), [1.0, 2.0]),
        (1, [1, 2]),
        (1 + 0j, [1.0, 2j / 1j]),
    ],
)
def test_terms_become_like_their_argument(x, terms):
    _, found = jet(lambda x: x * x, (x,), (terms,))
    for got, want in zip(found, (2.0, 6.0), strict=True):
        assert got.shape == np.shape(x)
        np.testing.assert_allclose(got, np.full(np.shape(x), want))


def test_complex_terms_of_a_real_argument():
    with pytest.raises(TypeError, match="term 0 for argument 0 is complex"):
        jet(jnp.sin, (1.0,), ((1j,),))


def test_constant_integers_stay_integers():
    xs = jnp.array([3.0, 4.0])
    y, (dy,) = jet(lambda x, i: x * xs[i], (2.0, 1), ((1.0,), (0,)))
    assert (float(y), float(dy)) == (8.0, 4.0)


LONG = {
    "arctan2": jnp.arctan2,
    "hypot": lambda x, y: jnp.hypot(x, y),
    "joined": lambda x, y: jnp.stack([x, y, jnp.where(x > y, x * y, -y)]),
}


@pytest.mark.parametrize("name", LONG)
def test_series_may_be_longer_than_python_nests_calls(name):
    terms = ([1.0] + 179 * [0.0], [0.5] + 179 * [0.0])
    _, long = jet(LONG[name], (0.3, 0.4), terms, factorial_scaled=False)
    assert len(long) == 180
    short = [s[:4] for s in terms]
    _, first = jet(LONG[name], (0.3, 0.4), short, factorial_scaled=False)
    np.testing.assert_allclose(long[:4], first, rtol=1e-5)
