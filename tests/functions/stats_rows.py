"""`curta.scipy.stats`: densities, their sums and inverses, and statistics."""

import numpy as np
import scipy.stats
from tests.functions.rows import SINGLE, call, rows, within


def at(numbers, *parameters, scaled=True):
    """Calls at `numbers` (a pair of bounds), with parameters given by their bounds."""

    def calls(source, shape):
        drawn = [source(shape, low=a, high=b) for a, b in parameters]
        x = source(shape, low=numbers[0], high=numbers[1])
        yield call(x, *drawn)
        yield call(x, *(source((), low=a, high=b) for a, b in parameters))
        if scaled:
            loc, scale = source((), low=-0.2, high=0.1), source((), low=1.1, high=2)
            yield call(x, *drawn, loc, scale)

    return calls


def count(numbers, *parameters, shifted=True):
    """The same of whole numbers; the first parameters may be whole as well."""

    def calls(source, shape):
        drawn = [
            source.integers(shape, *b)
            if isinstance(b[0], int)
            else source(shape, low=b[0], high=b[1])
            for b in (numbers, *parameters)
        ]
        yield call(*drawn)
        if shifted:
            yield call(*drawn, 1)

    return calls


REAL, UNIT, POSITIVE = (-3, 3), (0.1, 0.9), (0.4, 4)
SHAPE = {"grad": "the parameter of the shape has no derivative in JAX"}
WHOLE = {"grad": "the order of whole numbers has none"}


def family(name, calls, functions, **settings):
    settings = {"tolerance": 16} | settings
    names = " ".join(f"{name}.{f}" for f in functions.split())
    return rows(names, calls, SINGLE, **settings)


DENSITIES = "cdf logcdf logpdf logsf pdf sf"
PLACED = [
    *family("norm", at(REAL), "cdf logcdf logpdf logsf pdf sf"),
    *family("cauchy", at(REAL), "cdf logcdf logpdf logsf pdf sf"),
    *family("logistic", at(REAL), "cdf logpdf pdf sf"),
    *family("laplace", at(REAL), "cdf logpdf pdf"),
    *family("gumbel_l", at(REAL), "cdf logcdf logpdf logsf pdf sf"),
    *family("gumbel_r", at(REAL), "cdf logcdf logpdf logsf pdf sf"),
    *family("norm", at(UNIT), "ppf"),
    *family("norm", at(UNIT), "isf", without={"grad": "that of `ppf`"}),
    *family("cauchy", at(UNIT), "ppf isf"),
    *family("logistic", at(UNIT), "ppf isf"),
    *family("gumbel_l", at(UNIT), "ppf"),
    *family("gumbel_r", at(UNIT), "ppf"),
    *family("expon", at(POSITIVE), DENSITIES),
    *family("expon", at(UNIT), "ppf"),
    *family("uniform", at((0.2, 0.9)), "cdf logpdf pdf"),
    *family("uniform", at(UNIT), "ppf"),
]
BETWEEN = at((-0.8, 0.8), (-2, -1.2), (1.3, 2))
MIRRORED = {"grad": "that of `cdf`, mirrored"}
SHAPED = [
    *family("beta", at(UNIT, (0.5, 3), (0.5, 3)), "logpdf pdf"),
    *family("beta", at(UNIT, (0.5, 3), (0.5, 3)), "cdf logcdf logsf sf", without=SHAPE),
    *family("gamma", at(POSITIVE, (0.5, 3)), "logpdf pdf"),
    *family("gamma", at(POSITIVE, (0.5, 3)), "cdf logcdf logsf sf", without=SHAPE),
    *family("chi2", at(POSITIVE, (1, 4)), "logpdf pdf"),
    *family("chi2", at(POSITIVE, (1, 4)), "cdf logcdf logsf sf", without=SHAPE),
    *family("gennorm", at(POSITIVE, (0.7, 3), scaled=False), "logpdf pdf"),
    *family("gennorm", at(POSITIVE, (0.7, 3), scaled=False), "cdf", without=SHAPE),
    *family("pareto", at((2.5, 5), (0.5, 3)), DENSITIES),
    *family("pareto", at(UNIT, (0.5, 3)), "ppf"),
    *family("t", at(REAL, (1, 5)), "logpdf pdf"),
    *family("truncnorm", BETWEEN, "cdf logcdf logpdf pdf", tolerance=30),
    *family("truncnorm", BETWEEN, "logsf sf", tolerance=30, without=MIRRORED),
    *family("vonmises", at(REAL, (0.5, 3), scaled=False), "logpdf pdf"),
    *family("wrapcauchy", at((0.2, 6), (0.2, 0.8), scaled=False), "logpdf pdf"),
]
COUNTED = [
    *family("bernoulli", count((0, 1), UNIT), "logpmf pmf"),
    *family("bernoulli", count((-1, 2), UNIT, shifted=False), "cdf"),
    *family("bernoulli", at(UNIT, UNIT, scaled=False), "ppf", without=WHOLE),
    *family("binom", count((0, 4), (4, 6), UNIT), "logpmf pmf"),
    *family(
        "betabinom",
        count((0, 4), (4, 6), (0.5, 3.0), (0.5, 3.0)),
        "logpmf",
        tolerance=60,
    ),
    *family(
        "betabinom",
        count((0, 4), (4, 6), (0.5, 3.0), (0.5, 3.0)),
        "pmf",
        tolerance=60,
        without={"grad": "the exponential of `logpmf`"},
    ),
    *family("geom", count((1, 5), UNIT), "logpmf pmf"),
    *family("nbinom", count((0, 5), (1, 5), UNIT), "logpmf pmf"),
    *family("poisson", count((0, 5), (0.5, 4.0)), "logpmf pmf"),
    *family("poisson", count((0, 5), (0.5, 4.0)), "cdf", without=SHAPE),
]


def simplex(source, shape):
    """Probabilities along a last dim of 3."""
    x = source((3, *shape), low=0.2, high=2).astype("f8")
    return x / x.sum(0)


def on_simplex(source, shape):
    yield call(simplex(source, ()).astype(source.dtype), source((3,), low=0.5, high=3))


def counts(source, shape):
    yield call(
        np.array([1, 0, 2]), np.array(3), simplex(source, ()).astype(source.dtype)
    )


def normalized(name):
    function = getattr(scipy.stats.dirichlet, name)
    return lambda x, alpha: function(x / x.sum(), alpha)


def ellipses(source, shape):
    half = source((3, 3)) / 3
    cov = (half @ half.T + np.eye(3)).astype(source.dtype)
    yield call(source((3,)), source((3,)), cov)
    yield call(source((2, 3)), source((3,)), cov)


def entropies(source, shape):
    yield call(source(shape, low=0.5, high=5))


def statistics(source, shape):
    for axis in [0, None, *range(-len(shape), 0)]:
        yield call(source(shape), axis)
        yield call(source(shape), axis, keepdims=True)


def ranks(source, shape):
    for method in "average", "min", "max", "dense", "ordinal":
        yield call(source(shape), method)
        yield call(source(shape), method, axis=-1)


def shares(name):
    """Rows of the multinomial distribution; the reference gets a sum of exactly 1."""
    function = getattr(scipy.stats.multinomial, name)
    return family(
        "multinomial",
        counts,
        name,
        rank=(1, 1),
        reference=lambda x, n, p: function(x, n, p / p.sum()),
        without=ON_SIMPLEX,
    )


ON_SIMPLEX = {"grad": "its argument must stay on the simplex"}
MANY = [
    *family(
        "dirichlet",
        on_simplex,
        "logpdf",
        rank=(1, 1),
        reference=normalized("logpdf"),
        without=ON_SIMPLEX,
    ),
    *family(
        "dirichlet",
        on_simplex,
        "pdf",
        rank=(1, 1),
        reference=normalized("pdf"),
        without=ON_SIMPLEX,
    ),
    *shares("logpmf"),
    *shares("pmf"),
    *family("multivariate_normal", ellipses, "logpdf pdf", rank=(1, 1), tolerance=60),
    *rows("poisson.entropy", entropies, SINGLE, tolerance=60, least=1),
    *rows(
        "mode",
        statistics,
        ("float32", "int32", "float64"),
        rank=(1, 3),
        least=1,
        domain=(0, 2),
    ),
    *rows("sem", statistics, SINGLE, rank=(1, 3), least=2, tolerance=8),
    *rows(
        "rankdata",
        ranks,
        ("float32", "int32", "float64"),
        rank=(1, 3),
        least=1,
        domain=(0, 3),
    ),
]
TABLE = within("scipy.stats", [*PLACED, *SHAPED, *COUNTED, *MANY])
