"""Each differentiable function against finite differences: both modes, two orders."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import image, lax, nn, ops
from curta.scipy import fft, integrate, linalg as sla, signal, special, stats
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
REAL = RNG.uniform(-2.0, 2.0, (2, 3))
UNIT = RNG.uniform(0.15, 0.85, (2, 3))
POSITIVE = RNG.uniform(0.6, 3.0, (2, 3))
ABOVE_ONE = RNG.uniform(1.2, 3.0, (2, 3))
COMPLEX = REAL + 1j * RNG.uniform(0.3, 2.0, (2, 3))
SQUARE = RNG.uniform(-1.0, 1.0, (3, 3)) + 3 * np.eye(3)

# By the set on which a function is smooth, apart from isolated points.
UNARY = {
    "real": (
        REAL,
        [
            *(jnp.sin, jnp.cos, jnp.tan, jnp.arctan, jnp.sinh, jnp.cosh, jnp.tanh),
            *(jnp.arcsinh, jnp.exp, jnp.exp2, jnp.expm1, jnp.square, jnp.abs, jnp.fabs),
            *(jnp.negative, jnp.positive, jnp.sinc, jnp.cbrt, jnp.i0, jnp.reciprocal),
            *(jnp.deg2rad, jnp.rad2deg, jnp.nan_to_num, jnp.sum, jnp.prod, jnp.mean),
            *(jnp.max, jnp.min, jnp.std, jnp.var, jnp.median, jnp.ptp, jnp.cumsum),
            *(jnp.cumprod, jnp.diff, jnp.ediff1d, jnp.gradient, jnp.nansum),
            *(jnp.nanprod, jnp.nanmean, jnp.nanstd, jnp.nanvar, jnp.nanmedian),
            *(jnp.nanmax, jnp.nanmin, jnp.nancumsum, jnp.nancumprod, jnp.sort),
            *(jnp.trapezoid, jnp.transpose, jnp.flip, jnp.ravel, jnp.tril, jnp.triu),
            *(jnp.cov, jnp.corrcoef, jnp.unwrap, jnp.average, jnp.trace, jnp.rot90),
            *(lax.erf, lax.erfc, lax.logistic, lax.bessel_i0e, lax.bessel_i1e),
            *(lax.sin, lax.cos, lax.tan, lax.tanh, lax.exp, lax.neg, lax.square),
            *(nn.celu, nn.elu, nn.gelu, nn.hard_tanh, nn.leaky_relu, nn.log_sigmoid),
            *(nn.log_softmax, nn.logsumexp, nn.logmeanexp, nn.mish, nn.relu, nn.selu),
            *(nn.sigmoid, nn.silu, nn.soft_sign, nn.softmax, nn.softplus, nn.relu6),
            *(nn.sparse_plus, nn.sparse_sigmoid, nn.squareplus, nn.standardize),
            *(nn.hard_sigmoid, nn.hard_silu, nn.identity),
            *(special.erf, special.erfc, special.erfcx, special.expit, special.dawsn),
            *(special.i0, special.i0e, special.i1, special.i1e, special.log_ndtr),
            *(special.log_softmax, special.logsumexp, special.ndtr, special.softmax),
            *(special.sici, special.fresnel, fft.dct, fft.idct, fft.dctn, fft.idctn),
            *(stats.norm.cdf, stats.norm.logcdf, stats.norm.logpdf, stats.norm.logsf),
            *(stats.norm.pdf, stats.norm.sf, stats.cauchy.cdf, stats.cauchy.logpdf),
            *(stats.laplace.logpdf, stats.logistic.logpdf, stats.logistic.cdf),
            *(stats.gumbel_l.logpdf, stats.gumbel_r.logpdf, stats.sem),
            *(integrate.trapezoid, signal.detrend),
        ],
    ),
    "unit": (
        UNIT,
        [
            *(jnp.arcsin, jnp.arccos, jnp.arctanh, lax.erf_inv, nn.log1mexp),
            *(special.erfinv, special.logit, special.ndtri, special.entr),
            *(special.spence, stats.logistic.ppf, stats.cauchy.ppf),
            *(stats.expon.ppf, stats.gumbel_r.ppf),
        ],
    ),
    "positive": (
        POSITIVE,
        [
            *(jnp.log, jnp.log2, jnp.log10, jnp.log1p, jnp.sqrt, lax.rsqrt),
            *(lax.lgamma, lax.digamma, special.gamma, special.gammaln, special.expi),
            *(special.exp1, special.factorial, special.loggamma, special.digamma),
            *(stats.expon.logpdf, stats.expon.cdf, stats.expon.logsf),
        ],
    ),
    "above one": (ABOVE_ONE, [jnp.arccosh, lax.acosh]),
    "complex": (
        COMPLEX,
        [
            *(jnp.sin, jnp.cos, jnp.tan, jnp.sinh, jnp.cosh, jnp.tanh, jnp.exp),
            *(jnp.expm1, jnp.log, jnp.log1p, jnp.sqrt, jnp.square, jnp.reciprocal),
            *(jnp.arcsin, jnp.arccos, jnp.arctan, jnp.arcsinh, jnp.arctanh, jnp.conj),
            *(jnp.real, jnp.imag, jnp.abs, jnp.angle, jnp.sum, jnp.prod, jnp.cumsum),
            *(special.gamma, special.loggamma, jnp.sinc, jnp.exp2, lax.rsqrt),
        ],
    ),
}
UNARY_CASES = [
    pytest.param(f, x, id=f"{f.__module__.split('.')[1]}.{f.__name__} {kind}")
    for kind, (x, functions) in UNARY.items()
    for f in functions
]

BINARY = {
    "real": (
        (REAL, REAL[::-1] + 0.3),
        [
            *(jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.arctan2, jnp.hypot),
            *(jnp.logaddexp, jnp.logaddexp2, jnp.maximum, jnp.minimum, jnp.fmax),
            *(jnp.fmin, jnp.copysign, jnp.remainder, jnp.fmod, jnp.inner, jnp.outer),
            *(jnp.vdot, jnp.kron, jnp.cross, jnp.vecdot, lax.sub, lax.div, lax.rem),
            *(signal.convolve, signal.correlate, signal.convolve2d),
        ],
    ),
    "positive": (
        (POSITIVE, POSITIVE[::-1] + 0.25),
        [
            *(jnp.power, jnp.float_power, special.betaln),
            *(special.xlogy, special.xlog1py, special.rel_entr, special.kl_div),
            *(special.boxcox, special.boxcox1p, special.poch, special.owens_t),
        ],
    ),
    "complex": (
        (COMPLEX, COMPLEX[::-1] + 0.2),
        [jnp.add, jnp.multiply, jnp.divide, jnp.power, jnp.vdot, jnp.outer],
    ),
}
BINARY_CASES = [
    pytest.param(f, args, id=f"{f.__module__.split('.')[1]}.{f.__name__} {kind}")
    for kind, (args, functions) in BINARY.items()
    for f in functions
]

IDS = np.array([1, 0])
OTHERS = {
    "matmul": (lambda x: x @ x.T, REAL),
    "einsum": (lambda x: jnp.einsum("ij,kj->ik", x, x), REAL),
    "tensordot": (lambda x: jnp.tensordot(x, x, 2), REAL),
    "convolve": (lambda x: jnp.convolve(x[0], x[1]), REAL),
    "polyval": (lambda x: jnp.polyval(x[0], x[1]), REAL),
    "interp": (lambda x: jnp.interp(x, np.arange(-3.0, 4), np.arange(7.0) ** 2), REAL),
    "quantile": (lambda x: jnp.quantile(x, 0.3, axis=1), REAL),
    "clip": (lambda x: jnp.clip(x, -1, 1), REAL),
    "where": (lambda x: jnp.where(x > 0, jnp.sin(x), x * x), REAL),
    "take": (lambda x: jnp.take(x * x, np.array([2, 0, 2]), axis=1), REAL),
    "gather": (lambda x: (x * x)[IDS, np.array([2, 2])], REAL),
    "update": (lambda x: jnp.square(x).at[0].set(x[1] ** 3), REAL),
    "scatter add": (lambda x: jnp.square(x).at[np.array([0, 0])].add(x), REAL),
    "scatter multiply": (
        lambda x: jnp.sin(x).at[0].mul(x[1], unique_indices=True),
        REAL,
    ),
    "scatter max": (lambda x: jnp.sin(x).at[0].max(x[1] ** 3), REAL),
    "dynamic slice": (lambda x: lax.dynamic_slice(x * x, (0, 1), (2, 2)), REAL),
    "pad": (lambda x: jnp.pad(x * x, 1, mode="reflect"), REAL),
    "norm": (jnp.linalg.norm, REAL),
    "norm 3": (lambda x: jnp.linalg.norm(x, 3, axis=1), REAL),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), REAL),
    "cummax": (lambda x: lax.cummax(x, 1), REAL),
    "reduce": (lambda x: lax.reduce(x, 1.0, lax.mul, (1,)), REAL),
    "reduce window": (
        lambda x: lax.reduce_window(x * x, 0.0, lax.add, (1, 2), (1, 1), "VALID"),
        REAL,
    ),
    "max pooling": (
        lambda x: lax.reduce_window(x * x, -np.inf, lax.max, (1, 2), (1, 1), "VALID"),
        REAL,
    ),
    "convolution": (
        lambda x: lax.conv(x[None, None], x[None, None], (1, 1), "SAME"),
        REAL,
    ),
    "integer power": (lambda x: lax.integer_pow(x, -2), POSITIVE),
    "scan": (lambda x: lax.scan(lambda c, y: (c * y, c + y), x[0], x), REAL),
    "cond": (lambda x: lax.cond(True, jnp.sin, jnp.cos, x), REAL),
    "associative scan": (lambda x: lax.associative_scan(jnp.multiply, x), REAL),
    "sort pairs": (lambda x: lax.sort((x[0], x[1]), num_keys=1), REAL),
    "top k": (lambda x: lax.top_k(x * x, 2)[0], REAL),
    "segments": (lambda x: ops.segment_sum(x * x, IDS, 2), REAL),
    "segment maxima": (lambda x: ops.segment_max(x * x, IDS, 2), REAL),
    "attention": (
        lambda x: nn.dot_product_attention(*[x[None, :, None]] * 3),
        REAL,
    ),
    "glu": (lambda x: nn.glu(x.T), REAL),
    "resize": (lambda x: image.resize(x * x, (3, 4), "linear"), REAL),
    "fft": (lambda x: jnp.fft.fft(x * x), REAL),
    "rfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x * x), 3), REAL),
    "polygamma": (lambda x: special.polygamma(1, x), POSITIVE),
    "zeta": (lambda x: special.zeta(3.0, x), POSITIVE),
    "multigammaln": (lambda x: special.multigammaln(x, 2), ABOVE_ONE),
    "expn": (lambda x: special.expn(2, x), POSITIVE),
    "gammainc": (lambda x: special.gammainc(2.0, x), POSITIVE),
    "gammaincc": (lambda x: special.gammaincc(2.0, x), POSITIVE),
    "betainc": (lambda x: special.betainc(2.0, 3.0, x), UNIT),
    "cholesky": (lambda x: sla.cholesky(x @ x.T), SQUARE),
    "lu": (lambda x: sla.lu(x), SQUARE),
    "solve": (lambda x: sla.solve(x, x[0]), SQUARE),
    "triangular solve": (lambda x: sla.solve_triangular(x, x[0]), SQUARE),
    "det": (sla.det, SQUARE),
    "inv": (sla.inv, SQUARE),
    "toeplitz": (sla.toeplitz, REAL[0]),
    "multivariate normal": (
        lambda x: stats.multivariate_normal.logpdf(x, np.ones(3), np.eye(3)),
        REAL,
    ),
    "beta": (lambda x: stats.beta.logpdf(x, 2.0, 3.0), UNIT),
    "gamma": (lambda x: stats.gamma.logpdf(x, 2.0), POSITIVE),
    "student t": (lambda x: stats.t.logpdf(x, 3.0), REAL),
    "pareto": (lambda x: stats.pareto.logpdf(x + 1, 2.0), POSITIVE),
    "chi2": (lambda x: stats.chi2.logpdf(x, 3.0), POSITIVE),
    "von Mises": (lambda x: stats.vonmises.logpdf(x, 2.0), REAL),
    "poisson": (lambda x: stats.poisson.logpmf(2, x), POSITIVE),
    "binomial": (lambda x: stats.binom.logpmf(2, 5, x), UNIT),
    "truncated normal": (lambda x: stats.truncnorm.logpdf(x, -3.0, 3.0), REAL),
}


def check(f, args):
    with curta.enable_x64(True):
        check_grads(f, args, 2, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("f, x", UNARY_CASES)
def test_of_one_argument(f, x):
    check(f, (x,))


@pytest.mark.parametrize("f, args", BINARY_CASES)
def test_of_two_arguments(f, args):
    check(f, args)


@pytest.mark.parametrize("name", OTHERS)
def test_of_others(name):
    f, x = OTHERS[name]
    check(f, (x,))


def test_of_matrix_functions():
    with curta.enable_x64(True):
        check_grads(sla.expm, (SQUARE[:2, :2],), 1, atol=1e-3, rtol=1e-3)
