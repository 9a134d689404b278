"""Draws are JAX's, bit for bit; distributions are what they claim to be."""

import numpy as np
import pytest
import scipy.stats

import curta
import curta.numpy as jnp
from curta import jit, random, vmap

KEY = random.key(42)

# Printed by JAX 0.10.2 for key 42.
EXPECTED = {
    "split": [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]],
    "fold_in": [2547012911, 1371500959],
    "bits8": [162, 217, 249, 215],
    "bits16": [5026, 12505, 63993, 49623],
    "bits32": [2098992034, 2919706841, 2646866425, 2409546199],
    "uniform": [
        "0x1.f470480000000p-2",
        "0x1.5c0e600000000p-1",
        "0x1.3b87f00000000p-1",
        "0x1.1f3d800000000p-1",
    ],
    "uniform_bf16": [0.6328125, 0.84375, 0.96875, 0.8359375],
    "randint": [94, 49, 76, -1, 84, 19],
    "randint8": [196, 18, 183, 193, 141, 107],
    "bernoulli": [False, False, False, False, False, False, True, False],
    "permutation": [7, 4, 2, 5, 3, 6, 0, 1],
    "permutation2": [[0, 1], [2, 3], [4, 5]],
    "old_split": [
        [3134548294, 3733159049],
        [3746501087, 894150801],
        [801545058, 2363201431],
    ],
    "old_bits8": [45, 179, 215, 3, 244],
    "old_bits16": [8426, 37627, 63599, 6563, 55571],
    "old_bits32": [3134548294, 3733159049, 843694964, 894150801, 801545058],
    "old_uniform": [
        "0x1.25f6400000000p-1",
        "0x1.9a3f800000000p-4",
        "0x1.e71b000000000p-5",
    ],
}


def draws(name):
    """The draw that an entry of `EXPECTED` is about."""
    shape = (4,)
    made = {
        "split": lambda: random.key_data(random.split(KEY, 3)),
        "fold_in": lambda: random.key_data(random.fold_in(KEY, 7)),
        "uniform": lambda: random.uniform(KEY, shape),
        "uniform_bf16": lambda: random.uniform(KEY, shape, jnp.bfloat16),
        "randint": lambda: random.randint(KEY, (6,), -5, 100),
        "randint8": lambda: random.randint(KEY, (6,), 0, 256, "uint8"),
        "bernoulli": lambda: random.bernoulli(KEY, 0.3, (8,)),
        "permutation": lambda: random.permutation(KEY, 8),
        "permutation2": lambda: random.permutation(
            KEY, jnp.arange(6).reshape(3, 2), 1, independent=True
        ),
    }
    for width in (8, 16, 32):
        made[f"bits{width}"] = lambda w=width: random.bits(KEY, shape, f"uint{w}")
    return made[name]


@pytest.mark.parametrize("name", [n for n in EXPECTED if not n.startswith("old_")])
def test_bits_are_those_of_jax(name):
    expected = EXPECTED[name]
    if isinstance(expected[0], str):
        expected = [float.fromhex(x) for x in expected]
    for fun in (draws(name), jit(draws(name))):
        assert np.asarray(fun(), None).tolist() == expected


@pytest.mark.parametrize("width", [8, 16, 32])
def test_older_bits(width):
    with curta.threefry_partitionable(False):
        for wrap in (lambda f: f, jit):
            bits = wrap(lambda: random.bits(KEY, (5,), f"uint{width}"))()
            assert bits.tolist() == EXPECTED[f"old_bits{width}"]
        split = random.key_data(random.split(KEY, 3)).tolist()
        assert split == EXPECTED["old_split"]
        uniform = [float(x).hex() for x in random.uniform(KEY, (3,))]
        assert uniform == EXPECTED["old_uniform"]


def test_large_draws_are_compiled_and_equal():
    large = random.bits(KEY, (70_000,))
    small = random.bits(KEY, (100,))
    assert large[:100].tolist() == small.tolist()
    np.testing.assert_array_equal(
        jit(lambda k: random.uniform(k, (70_000,)))(KEY)[:9], random.uniform(KEY, (9,))
    )


def test_keys():
    assert KEY.shape == ()
    assert str(KEY.dtype) == "key<fry>"
    assert repr(random.key(43)) == "Array((), dtype=key<fry>) overlaying:\n[ 0 43]"
    keys = random.split(KEY, (2, 3))
    assert keys.shape == (2, 3)
    assert keys[1].shape == (3,)
    assert random.key_data(keys).shape == (2, 3, 2)
    again = random.wrap_key_data(random.key_data(keys))
    assert (again == keys).all()
    assert random.key_impl(KEY) == "threefry2x32"
    assert random.PRNGKey(-1).tolist() == [0, 4294967295]
    assert random.PRNGKey(2**40 + 5).tolist() == [0, 5]


def test_keys_under_transformations():
    keys = random.split(KEY, 4)
    each = [float(random.normal(k)) for k in keys]
    assert vmap(random.normal)(keys).tolist() == each
    assert jit(vmap(random.normal))(keys).tolist() == each
    assert vmap(lambda i: random.normal(random.fold_in(KEY, i)))(jnp.arange(3))[2] == (
        random.normal(random.fold_in(KEY, 2))
    )
    raw = random.PRNGKey(42)
    assert random.normal(raw) == random.normal(KEY)
    gradient = curta.grad(lambda s: (s * random.normal(KEY, (3,))).sum())(2.0)
    np.testing.assert_allclose(gradient, random.normal(KEY, (3,)).sum(), rtol=1e-6)


COUNT = 20_000

DISTRIBUTIONS = {
    "uniform": (lambda: random.uniform(KEY, (COUNT,)), scipy.stats.uniform()),
    "normal": (lambda: random.normal(KEY, (COUNT,)), scipy.stats.norm()),
    "exponential": (lambda: random.exponential(KEY, (COUNT,)), scipy.stats.expon()),
    "laplace": (lambda: random.laplace(KEY, (COUNT,)), scipy.stats.laplace()),
    "logistic": (lambda: random.logistic(KEY, (COUNT,)), scipy.stats.logistic()),
    "cauchy": (lambda: random.cauchy(KEY, (COUNT,)), scipy.stats.cauchy()),
    "gumbel": (lambda: random.gumbel(KEY, (COUNT,)), scipy.stats.gumbel_r()),
    "gumbel high": (
        lambda: random.gumbel(KEY, (COUNT,), mode="high"),
        scipy.stats.gumbel_r(),
    ),
    "gumbel highest": (
        lambda: random.gumbel(KEY, (COUNT,), mode="highest"),
        scipy.stats.gumbel_r(),
    ),
    "truncated_normal": (
        lambda: random.truncated_normal(KEY, -1.0, 2.0, (COUNT,)),
        scipy.stats.truncnorm(-1, 2),
    ),
    "pareto": (lambda: random.pareto(KEY, 3.0, (COUNT,)), scipy.stats.pareto(3)),
    "rayleigh": (
        lambda: random.rayleigh(KEY, 2.0, (COUNT,)),
        scipy.stats.rayleigh(scale=2),
    ),
    "wald": (
        lambda: random.wald(KEY, 2.0, (COUNT,)),
        scipy.stats.invgauss(2),
    ),
    "triangular": (
        lambda: random.triangular(KEY, 0.0, 1.0, 4.0, (COUNT,)),
        scipy.stats.triang(0.25, scale=4),
    ),
    "lognormal": (
        lambda: random.lognormal(KEY, 0.5, (COUNT,)),
        scipy.stats.lognorm(0.5),
    ),
    "weibull_min": (
        lambda: random.weibull_min(KEY, 2.0, 1.5, (COUNT,)),
        scipy.stats.weibull_min(1.5, scale=2),
    ),
    "gamma": (lambda: random.gamma(KEY, 2.5, (COUNT,)), scipy.stats.gamma(2.5)),
    "gamma small": (lambda: random.gamma(KEY, 0.3, (COUNT,)), scipy.stats.gamma(0.3)),
    "loggamma": (
        lambda: jnp.exp(random.loggamma(KEY, 0.3, (COUNT,))),
        scipy.stats.gamma(0.3),
    ),
    "beta": (lambda: random.beta(KEY, 2.0, 0.5, (COUNT,)), scipy.stats.beta(2, 0.5)),
    "chisquare": (lambda: random.chisquare(KEY, 3.0, (COUNT,)), scipy.stats.chi2(3)),
    "f": (lambda: random.f(KEY, 3.0, 5.0, (COUNT,)), scipy.stats.f(3, 5)),
    "t": (lambda: random.t(KEY, 3.0, (COUNT,)), scipy.stats.t(3)),
    "dirichlet": (
        lambda: random.dirichlet(KEY, jnp.array([1.0, 2.0]), (COUNT,))[:, 0],
        scipy.stats.beta(1, 2),
    ),
    "generalized_normal": (
        lambda: random.generalized_normal(KEY, 1.5, (COUNT,)),
        scipy.stats.gennorm(1.5),
    ),
    "maxwell": (lambda: random.maxwell(KEY, (COUNT,)), scipy.stats.maxwell()),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_continuous_distributions(name):
    draw, expected = DISTRIBUTIONS[name]
    assert (
        scipy.stats.kstest(np.asarray(draw(), np.float64), expected.cdf).pvalue > 1e-3
    )


def test_gamma_is_the_draw_of_jax_and_differentiable():
    drawn = random.gamma(random.key(3), 2.0, (3,))
    np.testing.assert_allclose(drawn, [0.63361293, 0.80836165, 5.8484917], rtol=1e-5)
    total = curta.grad(lambda a: random.gamma(random.key(3), a, (4,)).sum())(2.0)
    np.testing.assert_allclose(total, 3.6259768, rtol=1e-5)
    logs = curta.grad(lambda a: random.loggamma(random.key(3), a, (4,)).sum())(0.5)
    np.testing.assert_allclose(logs, 14.507822, rtol=1e-5)


def chi_square(found, probabilities):
    counts = np.bincount(np.asarray(found), minlength=len(probabilities))
    expected = np.asarray(probabilities) * len(found)
    return scipy.stats.chisquare(counts, expected).pvalue


def test_discrete_distributions():
    p = np.array([0.1, 0.2, 0.3, 0.4])
    logits = jnp.log(jnp.asarray(p, jnp.float32))
    assert chi_square(random.categorical(KEY, logits, shape=(COUNT,)), p) > 1e-3
    weighted = random.choice(KEY, 4, (COUNT,), p=jnp.asarray(p, jnp.float32))
    assert chi_square(weighted, p) > 1e-3
    assert chi_square(random.randint(KEY, (COUNT,), 0, 7), np.ones(7) / 7) > 1e-3
    signs = random.rademacher(KEY, (COUNT,))
    assert chi_square((signs + 1) // 2, [0.5, 0.5]) > 1e-3
    trials = np.minimum(random.geometric(KEY, 0.5, (COUNT,)), 6) - 1
    assert chi_square(trials, [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125]) > 1e-3


def test_counts_are_those_of_jax():
    key = random.key(3)
    assert random.poisson(key, 3.0, (8,)).tolist() == [0, 4, 2, 4, 7, 1, 1, 1]
    assert random.poisson(key, 30.0, (4,)).shape == (4,)
    rates = jnp.array([0.0, 5.0, 500.0])
    assert random.poisson(key, rates).tolist() == [0, 9, 471]
    assert random.binomial(key, 10, 0.3, (8,)).tolist() == [0, 1, 4, 3, 6, 5, 2, 0]
    many = [28, 30, 24, 27, 34, 24, 26, 24]
    assert random.binomial(key, 100, 0.3, (8,)).tolist() == many
    thirds = jnp.array([0.2, 0.3, 0.5])
    assert random.multinomial(key, 20, thirds).tolist() == [4, 4, 12]


@pytest.mark.parametrize("rate", [3.0, 40.0])
def test_poisson(rate):
    top = int(2 * rate + 6)
    counts = np.minimum(random.poisson(KEY, rate, (COUNT,)), top)
    p = scipy.stats.poisson(rate).pmf(np.arange(top + 1))
    p[-1] += 1 - p.sum()
    assert chi_square_pooled(counts, p) > 1e-3


@pytest.mark.parametrize(("n", "p"), [(10, 0.3), (100, 0.7)])
def test_binomial(n, p):
    counts = np.asarray(random.binomial(KEY, n, p, (COUNT,))).astype(int)
    expected = scipy.stats.binom(n, p).pmf(np.arange(n + 1))
    assert chi_square_pooled(counts, expected) > 1e-3


def chi_square_pooled(found, probabilities):
    """The test with the rare outcomes counted together."""
    common = np.asarray(probabilities) * len(found) >= 5
    places = np.where(common, np.cumsum(common), 0)
    pooled = np.bincount(places, probabilities)
    keep = np.flatnonzero(pooled > 0)
    return chi_square(
        np.searchsorted(keep, places[np.asarray(found)]), pooled[keep] / pooled.sum()
    )


def test_drawing_without_replacement():
    drawn = random.choice(KEY, 10, (10,), replace=False)
    assert sorted(drawn.tolist()) == list(range(10))
    weights = jnp.array([0.0, 1.0, 1.0, 1.0])
    assert 0 not in random.choice(KEY, 4, (3,), replace=False, p=weights).tolist()
    indices = random.categorical(
        KEY, jnp.zeros((5, 2)), axis=0, shape=(3, 2), replace=False
    )
    assert indices.shape == (3, 2)
    assert len(set(indices[:, 0].tolist())) == 3


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "expected key_data to have ndim", lambda: random.normal("key")),
        (TypeError, "invalid PRNG key data", lambda: random.normal(3)),
        (ValueError, "accepts a single key", lambda: random.normal(random.split(KEY))),
        (TypeError, "accepts a scalar seed", lambda: random.key(jnp.arange(2))),
        (TypeError, "was given a PRNG key", lambda: random.key(KEY)),
        (TypeError, "seed must be an integer", lambda: random.key(1.5)),
        (ValueError, "unrecognized PRNG", lambda: random.key(0, impl="nope")),
        (ValueError, "must be a float dtype", lambda: random.uniform(KEY, (), int)),
        (
            TypeError,
            "only accepts integer",
            lambda: random.randint(KEY, (), 0, 9, float),
        ),
        (ValueError, "shape", lambda: random.randint(KEY, (2,), jnp.zeros(3, int), 9)),
        (TypeError, "floating dtype", lambda: random.bernoulli(KEY, 1)),
        (ValueError, "unsigned int", lambda: random.bits(KEY, (), "int32")),
        (
            ValueError,
            "larger sample",
            lambda: random.choice(KEY, 3, (4,), replace=False),
        ),
        (TypeError, "Shapes must be 1D", lambda: random.normal(KEY, 3.5)),
        (TypeError, "fold_in accepts a scalar", lambda: random.fold_in(KEY, XS)),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()


XS = jnp.arange(3)


@pytest.mark.filterwarnings("error")
def test_halved_dtypes_are_warned_of():
    for draw, dtype in (
        (lambda d: random.bits(KEY, (2,), d), "uint64"),
        (lambda d: random.normal(KEY, (2,), d), "float64"),
        (lambda d: random.uniform(KEY, (2,), d), "float64"),
        (lambda d: random.randint(KEY, (2,), 0, 9, d), "int64"),
        (lambda d: random.rademacher(KEY, (2,), d), "int64"),
    ):
        with pytest.raises(UserWarning, match=f"requested dtype {dtype} is not avail"):
            draw(dtype)
        assert draw(None).dtype.itemsize == 4


def test_log_normal_draws_may_be_complex():
    found = random.lognormal(KEY, 0.5, (3,), "complex64")
    expected = np.exp(0.5 * np.asarray(random.normal(KEY, (3,), "complex64")))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="`lognormal` must be a float or complex"):
        random.lognormal(KEY, 0.5, (3,), "int32")
