"""The special functions and distributions that are swept, and where."""

from __future__ import annotations

import mpmath as mp
from tests.accuracy import exact_special as exact
from tests.accuracy.oracle import erf_inv
from tests.accuracy.sweep import Swept

TINY = [5e-324, 1e-300, 1e-100, 1e-38, 1e-30, 1e-20, 1e-10, 1e-5]
HUGE = [1e3, 1e4, 1e5, 1e8, 1e12, 1e20, 1e30, 1e38, 1e100, 1e300]
MIDDLE = [1e-3, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 1.5, 2.0, 2.5, 3.3, 4.0, 5.7]
TENS = [6.5, 8.0, 10.3, 12.5, 15.9, 16.1, 20.0, 27.3, 35.0, 50.5, 87.0, 120.0, 170.1]
HUNDREDS = [200.0, 345.6, 500.0, 700.0]
FAR = [*TENS, *HUNDREDS]
SHARES = [0.02, 0.1, 0.25, 0.3, 0.49, 0.5, 0.51, 0.7, 0.75, 0.9, 0.98]
ENDS = [1 - 1e-3, 1 - 1e-5, 1 - 1e-10, 1 - 1e-15]
COUNTS = [0.0, 1.0, 2.0, 5.0, 17.0, 40.0]
PLACES = [0.2, 1.7, 6.0, 23.0]


def minus(numbers):
    return [-x for x in numbers]


def near(*points):
    steps = [0.0, *(2.0**-k for k in (4, 9, 14, 20, 30, 45))]
    return [p + s * d for p in points for d in steps for s in (1, -1)]


def line(exact_value, path, *, low=True, output=None, **more):
    """A function of all real numbers."""
    regions = {
        "tiny": ([0.0, *TINY],),
        "moderate": (MIDDLE,),
        "large": (FAR,),
        "huge": (HUGE,),
    }
    if low:
        regions |= {
            "-tiny": (minus(TINY),),
            "-moderate": (minus(MIDDLE),),
            "-large": (minus(FAR),),
            "-huge": (minus(HUGE),),
        }
    return Swept(path, exact_value, regions | more, output=output)


def share(exact_value, path):
    """A function of a probability."""
    regions = {"tiny": (TINY,), "middle": (SHARES,), "near 1": (ENDS,)}
    return Swept(path, exact_value, regions)


def several(path, exact_value, first, second, third=None, **more):
    given = [first, second] + ([third] if third else [])
    names = [list(x) for x in given]
    regions = {}
    for combination in _product(names):
        label = ", ".join(filter(None, combination))
        regions[label] = tuple(x[n] for x, n in zip(given, combination, strict=True))
    return Swept(path, exact_value, regions, **more)


def _product(names):
    if not names:
        return [()]
    return [(n, *rest) for n in names[0] for rest in _product(names[1:])]


def S(name):
    return f"special.{name}"


POS = {
    "tiny": [1e-300, 1e-30, 1e-8],
    "moderate": [0.02, 0.3, 1.0, 1.7, 5.0, 9.9],
    "large": [17.0, 63.0, 210.0],
}
VAST = {"huge": [1e3, 1e4, 1e6, 1e8]}
NEGATIVE = {"negative": [-0.3, -1.5, -4.0, -7.2]}
UNIT = {"tiny": [1e-300, 1e-30, 1e-8], "middle": SHARES[::2], "near 1": ENDS[:3]}

PARTS = [("gammainc", exact.gammainc), ("gammaincc", exact.gammaincc)]
GAMMAS = [
    line(exact.gamma, S("gamma"), poles=(near(-1.0, -2.0, -5.0),)),
    line(exact.gammaln, S("gammaln"),
         zeros=(near(1.0, 2.0, -2.457024738220803, -2.747682646727413),),
         poles=(near(-1.0, -5.0),)),
    line(exact.gammaln, S("loggamma"), low=False),
    line(exact.digamma, S("digamma"), poles=(near(-1.0, -5.0),),
         zeros=(near(1.4616321449683622, -0.5040830082644554),)),
    several(S("polygamma"), exact.polygamma, {"1 to 4": [1, 2, 3, 4]},
            POS | {"huge": [1e3, 1e5, 1e10]} | {"negative": [-0.5, -1.3, -6.7]},
            inexact_from=1),
    several(S("zeta"), exact.zeta,
            {"near 1": [1 + 1e-10, 1.001, 1.1], "moderate": [1.5, 2.0, 5.5, 17.0],
             "large": [60.0, 300.0]}, POS | {"huge": [1e4, 1e10]}),
    Swept(S("factorial"), lambda n: mp.gamma(n + 1) if n >= 0 else mp.mpf(0),
          {"whole": (list(range(0, 170, 9)),), "real": (MIDDLE + TENS,)}),
    several(S("comb"), exact.comb, {"small": [5.0, 10.0, 40.5], "large": [170.0, 1e3],
            "huge": [1e6, 1e10]}, {"few": [1.0, 2.0, 4.0], "more": [17.0, 39.0]}),
    several(S("poch"), exact.poch, POS | VAST | {"vast": [1e15, 1e100]} | NEGATIVE
            | {"whole negative": [-1.0, -3.0, -8.0]},
            {"small": [1e-10, 0.1, 0.5], "moderate": [1.0, 2.5, 3.0, 7.0, 12.3],
             "negative": [-0.5, -2.0, -3.3]}),
    several(S("beta"), exact.beta, POS | VAST | NEGATIVE, POS),
    several(S("betaln"), exact.betaln, POS | VAST | NEGATIVE, POS | VAST),
    several(S("beta"), exact.beta, {"whole negative": [-1.0, -2.0, -5.0]},
            {"whole": [1.0, 2.0, 4.0, 5.0, 6.0], "other": [0.5, 2.5]}),
    several(S("betaln"), exact.betaln, {"whole negative": [-1.0, -2.0, -5.0]},
            {"whole": [1.0, 2.0, 4.0, 5.0, 6.0], "other": [0.5, 2.5]}),
    *(several(S(name), value, POS | VAST, POS | VAST) for name, value in PARTS),
    *(Swept(S(name), value, {f"near {a:g}": ([a], [a + k * a**0.5 for k in (
        -9, -3, -1, -0.1, 0, 0.1, 1, 3, 9)]) for a in (25.0, 150.0, 1e4, 1e8, 1e12)})
      for name, value in PARTS),
    several(S("betainc"), exact.betainc, *[{
        "tiny": [1e-30], "moderate": [0.3, 1.7, 9.9], "large": [63.0, 210.0],
        "huge": [1e3, 1e5]}] * 2,
            {"tiny": [1e-30], "middle": [0.02, 0.3, 0.5, 0.9], "near 1": [1 - 1e-5]}),
]  # fmt: skip
ERRORS = [
    line(mp.erf, S("erf")),
    line(mp.erfc, S("erfc")),
    Swept(S("erfinv"), erf_inv,
          {"tiny": (TINY,), "middle": (SHARES + minus(SHARES),), "near 1": (ENDS,)}),
    Swept(S("erfcinv"), lambda p: -exact.ndtri(p / 2) / mp.sqrt(2),
          {"tiny": (TINY,), "middle": (SHARES,), "above 1": ([1.1, 1.5, 1.9999],)}),
    line(exact.erfcx, S("erfcx")),
    line(exact.dawsn, S("dawsn")),
    line(exact.ndtr, S("ndtr")),
    share(exact.ndtri, S("ndtri")),
    line(exact.log_ndtr, S("log_ndtr")),
    several(S("owens_t"), exact.owens_t,
            {"tiny": [1e-100, 1e-10], "moderate": [0.1, 0.7, 1.5, 3.0],
             "tail": [6.0, 12.0, 25.0, 37.0]},
            {"tiny": [1e-100, 1e-8], "moderate": [0.1, 0.5, 1.0, 1.5, 4.0],
             "large": [20.0, 1e5, 1e100]}),
]  # fmt: skip
INTEGRALS = [
    line(exact.expi, S("expi"), zeros=(near(0.37250741078136663),)),
    line(lambda x: mp.e1(x), S("exp1"), low=False),
    several(S("expn"), exact.expn, {"orders": [0, 1, 2, 3, 10, 50, 1000]},
            POS | {"far": [400.0, 700.0]}, inexact_from=1),
    line(lambda x: exact.sici(x)[0], S("sici"), output=0),
    line(lambda x: exact.sici(x)[1], S("sici"), low=False, output=1),
    line(lambda x: exact.fresnel(x)[0], S("fresnel"), output=0),
    line(lambda x: exact.fresnel(x)[1], S("fresnel"), output=1),
    line(exact.spence, S("spence"), low=False, zero=(near(1.0),)),
]  # fmt: skip
OTHERS = [
    *(line(exact.bessel_scaled(n), S(f"i{n}e")) for n in (0, 1)),
    *(Swept(S(f"i{n}"), exact.bessel(n), {
        "tiny": ([0.0, *TINY],), "moderate": (MIDDLE + minus(MIDDLE),),
        "large": (FAR,)}) for n in (0, 1)),
    line(exact.entr, S("entr"), low=False),
    line(exact.expit, S("expit")),
    Swept(S("logit"), exact.logit,
          {"tiny": (TINY,), "middle": (SHARES + near(0.5),), "near 1": (ENDS,)}),
    several(S("rel_entr"), exact.rel_entr, POS | VAST, POS | VAST),
    several(S("kl_div"), exact.kl_div, POS | VAST, POS | VAST),
    Swept(S("kl_div"), exact.kl_div, {"near": ([1.0, 3.0], near(1.0, 3.0))}),
    Swept(S("rel_entr"), exact.rel_entr, {"near": ([1.0, 3.0], near(1.0, 3.0))}),
    several(S("xlogy"), exact.xlogy, POS | VAST, POS | VAST),
    several(S("xlog1py"), exact.xlog1py, POS | VAST, POS | VAST),
    several(S("boxcox"), exact.boxcox, POS | VAST | {"near 1": near(1.0)},
            {"tiny": [5e-324, 1e-300, -1e-100, 1e-20, -1e-10], "moderate":
             [-2.0, -0.5, 0.3, 1.0, 2.5]}),
    several(S("boxcox1p"), exact.boxcox1p,
            POS | VAST | {"negative": [-0.999, -0.5, -1e-3, -1e-10]},
            {"tiny": [5e-324, 1e-300, -1e-100, 1e-20, -1e-10], "moderate":
             [-2.0, -0.5, 0.3, 1.0, 2.5]}),
    several(S("hyp1f1"), lambda a, b, x: mp.hyp1f1(a, b, x),
            {"": [-2.0, 0.3, 1.0, 4.5, 20.0]}, {"": [0.5, 1.0, 3.3, 12.0]},
            {"tiny": [1e-10], "moderate": [0.3, 1.0, 5.0], "large": [30.0, 99.0, 150.0],
             "-moderate": [-0.3, -1.0, -5.0], "-large": [-30.0, -150.0]}),
    Swept(S("hyp2f1"), lambda a, b, c, x: mp.hyp2f1(a, b, c, x), {
        name: ([0.3, 1.0, 3.5], [0.7, 2.0], [1.3, 2.0, 5.5], x) for name, x in {
            "tiny": [1e-10], "moderate": [0.1, 0.4, 0.7], "near 1": [0.95, 0.999],
            "negative": [-0.3, -0.9, -3.0, -50.0]}.items()}),
]  # fmt: skip


# ---- distributions

LOG = ("logpdf", "logcdf", "logsf", "logpmf")


def family(name, regions, inexact_from=0, **functions):
    """Functions of a distribution, by their exact values or their logarithms."""
    return [Swept(f"stats.{name}.{f}", value, regions, inexact_from)
            for f, value in functions.items()]  # fmt: skip


def density(log):
    return {"logpdf": log, "pdf": lambda *args: mp.exp(log(*args))}


def sides(cdf, sf):
    def log(part, rest):
        return lambda *args: (
            mp.log1p(-rest(*args)) if rest(*args) < 0.5 else mp.log(part(*args))
        )

    return {"cdf": cdf, "logcdf": log(cdf, sf), "sf": sf, "logsf": log(sf, cdf)}


REAL = {"left tail": (minus(FAR + HUGE),), "left": (minus(MIDDLE + TINY),),
        "right": (MIDDLE + TINY,), "right tail": (FAR + HUGE,)}  # fmt: skip
HALF = {"tiny": (TINY,), "moderate": (MIDDLE,), "tail": (FAR + HUGE,)}
PART = {"tiny": (TINY,), "middle": (SHARES,), "near 1": (ENDS,)}


def _log_logistic(z):
    return -abs(z) - 2 * mp.log1p(mp.exp(-abs(z)))


def _log_cauchy(z):
    return -mp.log(mp.pi) - mp.log1p(z * z)


def _cauchy_sf(z):
    return mp.atan2(1, z) / mp.pi


def _shaped(x, *shapes):
    """Regions of x, for each of some shape parameters."""
    return {k: (v[0], *shapes) for k, v in x.items()}


def _scaled(points, *shapes):
    return {f"x of {k}": (v, *shapes) for k, v in points.items()}


_COT = lambda q: mp.inf if q == 1 else -mp.cot(mp.pi * q)  # noqa: E731
STATS = [
    *family("norm", REAL, **density(exact.norm),
            **sides(exact.ndtr, lambda x: exact.ndtr(-x))),
    *family("norm", PART, ppf=exact.ndtri, isf=lambda q: -exact.ndtri(q)),
    *family("cauchy", REAL, **density(_log_cauchy),
            **sides(lambda z: _cauchy_sf(-z), _cauchy_sf)),
    *family("cauchy", PART, ppf=_COT, isf=lambda q: -_COT(q)),
    *family("expon", HALF, **density(lambda z: -z),
            **sides(lambda z: -mp.expm1(-z), lambda z: mp.exp(-z))),
    *family("expon", PART, ppf=lambda q: -mp.log1p(-q)),
    *family("laplace", REAL, **density(lambda z: -abs(z) - mp.ln2),
            cdf=lambda z: mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2),
    *family("logistic", REAL, **density(_log_logistic), cdf=exact.expit,
            sf=lambda z: exact.expit(-z)),
    *family("logistic", PART, ppf=exact.logit, isf=lambda q: -exact.logit(q)),
    *family("gumbel_l", REAL, **density(lambda z: z - mp.exp(z)), **sides(
        lambda z: -mp.expm1(-mp.exp(z)), lambda z: mp.exp(-mp.exp(z)))),
    *family("gumbel_r", REAL, **density(lambda z: -z - mp.exp(-z)), **sides(
        lambda z: mp.exp(-mp.exp(-z)), lambda z: -mp.expm1(-mp.exp(-z)))),
    *family("gumbel_l", PART, ppf=lambda q: mp.log(-mp.log1p(-q))),
    *family("gumbel_r", PART, ppf=lambda q: -mp.log(-mp.log(q))),
    *family("pareto", {k: ([1 + y for y in v[0]], [0.3, 1.0, 3.5, 60.0])
                       for k, v in HALF.items()},
            **density(lambda z, b: mp.log(b) - (b + 1) * mp.log(z)),
            **sides(lambda z, b: -mp.expm1(-b * mp.log(z)), lambda z, b: z**-b)),
    *family("pareto", _shaped(PART, [0.3, 1.0, 3.5, 60.0]),
            ppf=lambda q, b: mp.exp(-mp.log1p(-q) / b)),
    *family("uniform", {"inside": (SHARES,)}, **density(lambda z: mp.mpf(0)),
            cdf=lambda z: z),
    *family("gamma", {
        "tiny": ([1e-300, 1e-30, 1e-8], [1e-8, 0.3, 1.0, 5.5, 40.0]),
        "moderate": (MIDDLE[3:], [1e-8, 0.3, 1.0, 5.5, 14.0]),
        "large": (TENS, [0.3, 5.5, 17.0, 40.0, 100.0]),
        "huge": ([900.0, 1e3, 1.1e3, 9.9e5, 1e6, 1.001e6], [1e3, 1e6])},
        **density(exact.gamma_density), **sides(lambda x, a: exact.gammainc(a, x),
                                               lambda x, a: exact.gammaincc(a, x))),
    *family("chi2", {
        "moderate": (MIDDLE[3:], [0.3, 1.0, 2.0, 5.5, 14.0]),
        "large": (TENS, [2.0, 17.0, 40.0, 100.0]),
        "huge": ([900.0, 1e3, 9.9e5, 1e6], [1e3, 1e6])},
        **density(lambda x, k: exact.gamma_density(x / 2, k / 2) - mp.ln2),
        **sides(lambda x, k: exact.gammainc(k / 2, x / 2),
                lambda x, k: exact.gammaincc(k / 2, x / 2))),
    *family("beta", {
        "moderate": (SHARES, [0.3, 1.0, 5.5], [0.7, 2.0, 9.0]),
        "ends": ([1e-30, 1e-8, 1 - 1e-5], [0.3, 1.0, 5.5], [0.7, 2.0, 9.0]),
        "large": (SHARES, [17.0, 80.0], [3.0, 55.0, 1e3]),
        "huge": ([0.1, 0.499, 0.5, 0.503], [1e4, 1e6], [1e4, 1e6])},
        **density(exact.beta_density),
        **sides(lambda x, a, b: exact.beta_parts(a, b, x)[0],
                lambda x, a, b: exact.beta_parts(a, b, x)[1])),
    *family("t", {
        "moderate": (MIDDLE + minus(MIDDLE), [0.3, 1.0, 4.5, 30.0]),
        "tail": (FAR + HUGE, [0.3, 1.0, 4.5, 30.0]),
        "huge": (MIDDLE + TENS, [1e3, 1e6, 1e10])}, **density(exact.t_density)),
    *family("gennorm", {
        "moderate": (MIDDLE + minus(MIDDLE), [0.3, 1.0, 2.5, 7.0]),
        "tail": (minus(TENS), [0.3, 1.0, 2.5])},
        **density(lambda x, b: mp.log(b / 2) - mp.loggamma(1 / b) - abs(x) ** b),
        cdf=lambda x, b: (exact.gammaincc(1 / b, abs(x) ** b) / 2 if x < 0 else
                          1 - exact.gammaincc(1 / b, abs(x) ** b) / 2)),
    *family("truncnorm", {
        "moderate": ([-0.9, -0.2, 0.01, 0.5, 1.2], [-1.0, -3.0], [1.3, 4.0]),
        "narrow": ([1e-4, 3e-4], [1e-5, -1e-3], [1e-3, 0.5]),
        "tail": ([10.2, 10.9, 12.0], [10.0, 3.0], [13.0, 40.0]),
        "left tail": ([-10.2, -10.9, -12.0], [-13.0, -40.0], [-10.0, -3.0])},
        logpdf=lambda x, a, b: exact.norm(x) - mp.log(exact.truncated(x, a, b)[2]),
        pdf=lambda x, a, b: mp.exp(exact.norm(x)) / exact.truncated(x, a, b)[2],
        **sides(lambda *v: exact.truncated(*v)[0] / exact.truncated(*v)[2],
                lambda *v: exact.truncated(*v)[1] / exact.truncated(*v)[2])),
    *family("vonmises", {
        "moderate": (MIDDLE[:11], [1e-8, 0.3, 2.0, 10.0]),
        "concentrated": ([1e-5, 1e-3, 0.1, 1.0], [100.0, 1e4, 1e6])},
        **density(exact.vonmises)),
    *family("wrapcauchy", {
        "moderate": (MIDDLE, [1e-8, 0.3, 0.7]),
        "concentrated": ([1e-5, 1e-3, 0.1, 1.0, 6.28], [0.99, 1 - 1e-6])},
        **density(exact.wrapcauchy)),
    *family("bernoulli", {"all": ([0.0, 1.0], UNIT["tiny"] + SHARES + ENDS)}, 1,
            pmf=lambda k, p: p if k else 1 - p,
            logpmf=lambda k, p: mp.log(p) if k else mp.log1p(-p)),
    *family("geom", {"all": ([1.0, 2.0, 9.0, 100.0], [1e-8, *SHARES, 1 - 1e-5])}, 1,
            pmf=lambda k, p: (1 - p) ** (k - 1) * p,
            logpmf=lambda k, p: exact.xlog1py(k - 1, -p) + mp.log(p)),
]  # fmt: skip


def _mass(log):
    return {"logpmf": log, "pmf": lambda *args: mp.exp(log(*args))}


STATS += [
    *family("poisson", {
        "moderate": (COUNTS, [1e-8, *PLACES]),
        "huge": ([900.0, 1e3, 999e3, 1e6], [1e3, 1e6])}, 1,
        **_mass(exact.log_poisson), cdf=lambda k, m: exact.gammaincc(k + 1, m)),
    *family("binom", {
        "moderate": (COUNTS[:4], [17.0, 40.0], [1e-8, *SHARES, 1 - 1e-5]),
        "huge": ([400.0, 500.0, 501e3], [1e3, 1e6], [1e-4, 0.4, 0.5])}, 2,
        **_mass(lambda k, n, p: exact.log_binomial(k, n - k, p)
                if k <= n else -mp.inf)),
    *family("nbinom", {
        "moderate": (COUNTS, [0.3, 1.0, 5.5], SHARES),
        "huge": ([1e3, 1e6], [5.5, 1e3, 1e6], [1e-3, 0.5])}, 1,
        **_mass(exact.nbinom)),
    *family("betabinom", {
        "moderate": (COUNTS[:4], [17.0, 40.0], [0.3, 2.0, 12.0], [0.7, 30.0]),
        "huge": ([400.0, 500.0], [1e3, 1e6], [0.3, 20.0, 1e4], [7.0, 1e4])}, 2,
        **_mass(exact.betabinom)),
]  # fmt: skip
FUNCTIONS = [
    *GAMMAS,
    *ERRORS,
    *INTEGRALS,
    *OTHERS,
    Swept("numpy.sinc", exact.sinc, {"tiny": ([0.0, *TINY],), "moderate":
          (MIDDLE + minus(MIDDLE),), "large": (FAR,)}, module=""),
    *STATS,
]  # fmt: skip
