"""Ordinary calls at three sizes: `python -m benchmarks.ordinary_calls --dtype int32`.

Search for slow calls: each of `CALLS` is compiled by both libraries, on the same
operands, original or transposed. Results are compared before calls are timed. The
slowest calls and all differences are printed. Names: `x`, `y` and `p` (above zero) are
matrices of the size, `u` has values within (-1, 1), `row` is one row of them, `i` are
numbers of rows, `c` are booleans, `k` is a square matrix of at most 300 rows.

The first ratio is of processor time of all threads. The second is of the fastest calls
by wall clock, which depends on other load.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.__main__ import library

SHAPES = {"small": (10, 10), "middle": (200, 150), "large": (2000, 2000)}
SCIPY = ("special", "stats", "linalg", "signal", "ndimage")
DTYPES = ("float32", "int32", "bool", "bfloat16", "complex64", "float64")

_MAPS = """
x + y; x * row; x - y; x / y; x // p; x % p; jnp.divmod(x, p)[0]; p**2; p**0.5; p**u
-x; abs(x); jnp.maximum(x, y); jnp.minimum(x, 0); jnp.clip(x, -1, 1)
jnp.where(c, x, y); x > y; x == y; jnp.sqrt(p); lax.rsqrt(p); jnp.cbrt(x)
jnp.square(x); jnp.reciprocal(p); jnp.sign(x); jnp.exp(u); jnp.exp2(u); jnp.expm1(u)
jnp.log(p); jnp.log2(p); jnp.log10(p); jnp.log1p(p); jnp.sin(x); jnp.cos(x)
jnp.tan(u); jnp.arcsin(u); jnp.arccos(u); jnp.arctan(x); jnp.sinh(u); jnp.cosh(u)
jnp.tanh(x); jnp.arcsinh(x); jnp.arccosh(p + 1); jnp.arctanh(u); jnp.arctan2(x, y)
jnp.hypot(x, y); jnp.logaddexp(x, y); jnp.floor(x); jnp.round(x, 1); jnp.trunc(x)
jnp.isnan(x); jnp.isfinite(x); jnp.nan_to_num(x); jnp.signbit(x); jnp.copysign(x, y)
jnp.nextafter(x, y); jnp.heaviside(x, y); jnp.fmod(x, p); x.astype("float32")
x.astype("int32"); x.astype("bfloat16"); x.astype("float16"); x.astype("bool")
x.astype("int8"); x & y; x | y; x ^ y; ~x; x << 2; x >> 1; lax.population_count(x)
lax.clz(x); jnp.logical_and(x, c); jnp.logical_not(x); jnp.real(x); jnp.imag(x)
jnp.conj(x); jnp.angle(x); nn.relu(x); nn.gelu(x); nn.gelu(x, approximate=False)
nn.silu(x); nn.sigmoid(x); nn.softplus(x); nn.elu(x); nn.leaky_relu(x)
nn.log_sigmoid(x); nn.mish(x); nn.relu6(x); nn.hard_swish(x); nn.hard_tanh(x)
nn.soft_sign(x); nn.glu(x); nn.one_hot(i, 64); special.erf(x); special.erfc(x)
special.erfinv(u); special.gammaln(p); special.digamma(p); special.gamma(p)
special.i0e(x); special.i1e(x); special.ndtr(x); special.ndtri(abs(u))
special.log_ndtr(x); special.expit(x); special.logit(abs(u)); special.entr(p)
special.xlogy(p, p); special.betaln(p, p); special.gammainc(p, p)
special.zeta(p + 2, p); special.betainc(p, p, abs(u)); special.polygamma(1, p)
special.i0(x); stats.norm.logpdf(x); stats.norm.cdf(x); stats.gamma.logpdf(p, 2.0)
stats.t.logpdf(x, 3.0); stats.poisson.logpmf(i, 3.0)
stats.beta.logpdf(abs(u), 2.0, 3.0)
"""

_REDUCTIONS = """
jnp.sum; jnp.mean; jnp.prod; jnp.max; jnp.min; jnp.argmax; jnp.argmin; jnp.var
jnp.std; jnp.any; jnp.all; jnp.nansum; jnp.nanmean; jnp.nanmax; jnp.median; jnp.ptp
jnp.count_nonzero; special.logsumexp; jnp.linalg.norm; jnp.cumsum; jnp.cumprod
"""

_OF_AXES = """
nn.softmax(x, {0}); nn.log_softmax(x, {0}); nn.standardize(x, {0}); jnp.flip(x, {0})
jnp.sort(x, {0}); jnp.argsort(x, {0}); jnp.diff(x, axis={0}); jnp.roll(x, 3, {0})
jnp.repeat(x, 2, {0}); jnp.concatenate([x, y], {0}); jnp.stack([x, y], {0})
jnp.take(x, i[:7], {0}); jnp.quantile(x, 0.3, {0}); lax.cummax(x, {0})
lax.cumlogsumexp(x, {0}); jnp.split(x, 2, {0})[1]; jnp.gradient(x, axis={0})
jnp.trapezoid(x, axis={0}); jnp.take_along_axis(x, jnp.argsort(x, {0}), {0})
lax.top_k(jnp.moveaxis(x, {0}, -1), 3)[0]; jnp.fft.fft(x, axis={0})
jnp.average(x, {0}, c); jnp.percentile(x, 70.0, axis={0}); jnp.unwrap(x, axis={0})
jnp.nancumsum(x, {0})
"""

_OTHERS = """
x.T; x.T + y.T; jnp.ravel(x); x.T.ravel(); x.reshape(x.shape[::-1]); x[::2]; x[:, ::2]
x[3:, 2:]; x[:, 0]; x[i]; x[:, i[: x.shape[1] // 2]]; x[i, i % x.shape[1]]; x[::-1]
x.at[i].set(0); x.at[i].add(1); x.at[:, 3].set(0); x.at[2:5].multiply(2)
x.at[i].max(1); jnp.pad(x, 3); jnp.pad(x, 3, mode="edge")
jnp.pad(x, 3, mode="reflect"); jnp.tile(x, (2, 2)); jnp.broadcast_to(row, x.shape)
jnp.tril(x); jnp.triu(x, 1); jnp.trace(x); jnp.diag(row); jnp.diagonal(x)
jnp.eye(x.shape[0]); jnp.arange(x.size); jnp.linspace(0, 1, x.size)
jnp.meshgrid(row, row)[0]; jnp.full_like(x, 2); jnp.zeros_like(x); jnp.outer(row, row)
x @ y.T; x.T @ y; x @ row; row @ x.T; jnp.vdot(x, y); jnp.einsum("ij,ij->i", x, y)
jnp.einsum("ij,kj->ik", x, y); jnp.einsum("ij->j", x); jnp.einsum("ij,j->i", x, row)
jnp.tensordot(x, y, 2); jnp.kron(x[:5, :5], y[:9, :9]); jnp.cross(x[:, :3], y[:, :3])
jnp.inner(x, row); jnp.cov(x[:100]); jnp.corrcoef(x[:100])
jnp.convolve(row, row[:9], "same"); jnp.convolve(x.ravel(), row[:9])
jnp.correlate(x.ravel(), row[:9], "same"); jnp.interp(x.ravel(), row.cumsum(), row)
jnp.polyval(row[:5], x); jnp.digitize(x.ravel(), jnp.sort(row))
jnp.searchsorted(jnp.sort(row), x.ravel()); jnp.histogram(x.ravel(), 20)[0]
jnp.bincount(i, length=100); jnp.unique(i, size=50); jnp.nonzero(c, size=10)[0]
jnp.isin(i, i[:5]); jnp.lexsort((x[0], y[0])); jnp.partition(x, 3)[:, 3]
jnp.where(c, x, 0).sum(); jnp.allclose(x, y); jnp.array_equal(x, y)
jnp.vander(row, 4); ops.segment_sum(x, i, x.shape[0])
ops.segment_max(x, i, x.shape[0])
lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID")
lax.reduce_window(x, 0.0, lax.add, (3, 3), (1, 1), "SAME")
lax.map(lambda r: r.sum(), x); lax.scan(lambda s, r: (s + r, s.sum()), x[0] * 0, x)
lax.associative_scan(jnp.add, x); lax.fori_loop(0, 10, lambda n, x: x * 0.9 + 1, x)
vmap(lambda r: jnp.dot(r, r))(x); vmap(lambda r: jnp.convolve(r, r[:5]))(x)
grad(lambda x: jnp.sum(jnp.tanh(x) ** 2))(x)
grad(lambda x: nn.logsumexp(x, 1).sum())(x); grad(lambda x: (x @ x.T).sum())(x)
grad(lambda x: jnp.sort(x).prod(0).sum())(u); grad(lambda x: jnp.linalg.norm(x))(x)
grad(lambda x: x[i].sum())(x); jnp.linalg.det(k); jnp.linalg.inv(k)
jnp.linalg.solve(k, k[0]); jnp.linalg.svd(k)[1]; jnp.linalg.qr(k)[1] ** 2
jnp.linalg.cholesky(k @ k.T + 9 * jnp.eye(len(k))); jnp.linalg.eigvalsh(k + k.T)
jnp.linalg.matrix_power(k, 5); jnp.linalg.slogdet(k)[1]
jnp.linalg.lstsq(x[:, :10], x[:, 0])[0]; linalg.expm(k / 99); linalg.lu(k)[2] ** 2
linalg.solve_triangular(k, k[0], lower=True); jnp.linalg.pinv(k[:30, :20])
jnp.fft.rfft(x.ravel()); jnp.fft.fft2(x); jnp.fft.irfft(x); jnp.fft.fftshift(x)
signal.convolve2d(x, x[:3, :3], "same"); signal.fftconvolve(x[0], x[1])
image.resize(x, (x.shape[0] * 2, x.shape[1]), "linear")
ndimage.map_coordinates(x, [p, p], 1); random.normal(key, x.shape)
random.uniform(key, x.shape); random.permutation(key, i); random.categorical(key, x)
random.choice(key, row, (100,)); random.bernoulli(key, 0.3, x.shape)
random.gamma(key, p); random.beta(key, p, p); random.dirichlet(key, p)
random.laplace(key, x.shape); random.randint(key, x.shape, 0, 100)
random.multivariate_normal(key, k[0], k @ k.T)
"""


def _calls() -> list[str]:
    reductions = _separated(_REDUCTIONS)
    over = [f"{f}(x, axis={axis})" for f in reductions for axis in ("0", "1", "None")]
    moved = [line.format(axis) for line in _separated(_OF_AXES) for axis in (0, 1)]
    return [*_separated(_MAPS), *over, *moved, *_separated(_OTHERS)]


def _separated(text: str) -> list[str]:
    return [call.strip() for call in text.replace("\n", ";").split(";") if call.strip()]


CALLS = _calls()


@dataclass(frozen=True)
class Found:
    """The ratio of a call, or what is wrong with it."""

    call: str
    ratio: float = 0.0
    wall: float = 0.0
    seconds: float = 0.0
    problem: str = ""

    def line(self) -> str:
        if self.problem:
            return f"{self.call:60} {self.problem}"
        text = f"{self.ratio:6.2f} {self.wall:6.2f} {self.seconds * 1e6:10.1f} us"
        return f"{self.call:60} {text}"


def operands(shape: tuple[int, int], dtype: str) -> dict[str, np.ndarray]:
    """The arrays that calls name, as NumPy has them (float32 for bfloat16)."""
    rng = np.random.default_rng(0)
    kind = "float32" if dtype == "bfloat16" else dtype

    def drawn(low: float, high: float, *shape: int) -> np.ndarray:
        values = rng.uniform(low, high, shape)
        if dtype == "complex64":
            return (values + 1j * rng.uniform(low, high, shape)).astype(kind)
        if dtype == "bool":
            return values > (low + high) / 2
        return values.astype(kind)

    side = min(300, shape[0])
    return {
        "x": drawn(-3, 3, *shape),
        "y": drawn(-3, 3, *shape),
        "u": drawn(-0.99, 0.99, *shape),
        "p": drawn(1 if dtype == "int32" else 0.1, 5, *shape),
        "row": drawn(-3, 3, shape[1]),
        "k": drawn(-1, 1, side, side),
        "c": rng.uniform(0, 1, shape) > 0.5,
        "i": rng.integers(0, shape[0], shape[0]).astype("int32"),
    }


def program(lib: Any, call: str, transposed: bool) -> Callable[..., Any]:
    """The compiled function of the operands that a call names."""
    names = {name: getattr(lib, name) for name in ("lax", "nn", "ops", "random")}
    names |= {name: getattr(lib.scipy, name) for name in SCIPY}
    names |= {"jnp": lib.numpy, "vmap": lib.vmap, "grad": lib.grad, "np": np}
    names |= {"image": lib.image, "key": lib.random.key(0)}
    code = compile(call, call, "eval")

    def of(arrays: dict[str, Any]) -> Any:
        if transposed:
            arrays = arrays | {
                name: arrays[name].T for name in "xyup" if name in arrays
            }
        return eval(code, names | arrays)

    return lib.jit(of)


def look_at(call: str, libs: tuple[Any, Any], arrays: Any, transposed: bool) -> Found:
    """One call of both libraries: compared, then timed in turns."""
    code = compile(call, call, "eval")
    wanted = _names(code) & arrays[0].keys()
    given = [{name: all_of[name] for name in wanted} for all_of in arrays]
    if transposed and not wanted & set("xyup"):
        return Found(call)
    ours, theirs = (program(lib, call, transposed) for lib in libs)
    try:
        expected = theirs(given[1])
    except Exception:  # the call is not for this dtype or shape
        return Found(call)
    try:
        problem = difference(libs[0], ours(given[0]), libs[1], expected)
    except Exception as error:
        problem = f"raises {type(error).__name__}: {str(error)[:90]}"
    if problem:
        return Found(call, problem=problem)
    runs = [
        lambda: libs[0].block_until_ready(ours(given[0])),
        lambda: libs[1].block_until_ready(theirs(given[1])),
    ]
    return timed_in_turns(call, runs)


def _names(code: Any) -> set[str]:
    inner = [_names(c) for c in code.co_consts if hasattr(c, "co_names")]
    return set(code.co_names).union(*inner)


def timed_in_turns(call: str, runs: list[Callable[[], Any]]) -> Found:
    repeats, spent, quickest = [], ([], []), [float("inf")] * 2
    for run in runs:
        run()
        start = time.perf_counter()
        run()
        repeats.append(max(1, min(300, int(1e-3 / (time.perf_counter() - start)))))
    end, rounds = time.perf_counter() + 0.3, 0
    while rounds < 3 or (time.perf_counter() < end and rounds < 15):
        rounds += 1
        for which, run in enumerate(runs):
            start = time.process_time()
            for _ in range(repeats[which]):
                begun = time.perf_counter()
                run()
                quickest[which] = min(quickest[which], time.perf_counter() - begun)
            spent[which].append((time.process_time() - start) / repeats[which])
    mine, other = (statistics.median(times) for times in spent)
    return Found(call, mine / max(other, 1e-9), quickest[0] / quickest[1], mine)


TOLERANCES = {"float16": 2e-2, "bfloat16": 5e-2, "float64": 1e-7, "complex128": 1e-7}


def difference(lib: Any, ours: Any, other: Any, theirs: Any) -> str:
    """How results differ, "" where they do not."""
    first, second = lib.tree.leaves(ours), other.tree.leaves(theirs)
    for a, b in zip(first, second, strict=True):
        if (a.shape, str(a.dtype)) != (b.shape, str(b.dtype)):
            return f"is {a.dtype}{a.shape}, of JAX {b.dtype}{b.shape}"
        rtol = TOLERANCES.get(str(a.dtype), 1e-3)
        mine, its = (as_numpy(array) for array in (a, b))
        with np.errstate(all="ignore"):
            finite = np.isfinite(its)
            scale = np.abs(its[finite]).max() if finite.any() else 1
            close = np.isclose(mine, its, rtol, rtol * scale * 1e-2, equal_nan=True)
        if not close.all():
            place = tuple(int(n[0]) for n in np.nonzero(~close)) if close.ndim else ()
            share = 1 - close.mean()
            return f"differs in {share:.1%}: {mine[place]} of JAX {its[place]}"
    return ""


def as_numpy(array: Any) -> np.ndarray:
    values = np.asarray(array)
    return values.astype("float32") if values.dtype.kind == "V" or \
        values.dtype.name in ("bfloat16", "float16") else values  # fmt: skip


def as_array(lib: Any, array: np.ndarray, dtype: str) -> Any:
    narrow = dtype == "bfloat16" and array.dtype == np.float32
    return lib.numpy.asarray(array, dtype=dtype if narrow else None)


def survey(
    only: str, sizes: list[str], dtype: str, transposed: bool
) -> Iterator[Found]:
    libs = library("curta"), library("jax")
    for lib in libs:
        for module in SCIPY:
            importlib.import_module(f"{lib.__name__}.scipy.{module}")
    for size in sizes:
        plain = operands(SHAPES[size], dtype)
        arrays = [
            {name: as_array(lib, a, dtype) for name, a in plain.items()} for lib in libs
        ]
        for call in CALLS:
            if only in call:
                found = look_at(call, libs, arrays, transposed)
                yield Found(**{**vars(found), "call": f"{call}, {size}"})
        gc.collect()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", nargs="*", default=[*SHAPES], choices=SHAPES)
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--transposed", action="store_true")
    parser.add_argument(
        "--above", type=float, default=0.8, help="ratios shown at the end"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.dtype == "float64":
        for name in ("curta", "jax"):
            library(name).config.update("jax_enable_x64", True)
    done = []
    for found in survey(options.only, options.sizes, options.dtype, options.transposed):
        if found.problem or found.ratio:
            done.append(found)
            print(found.line(), flush=True)
    timed = [found for found in done if not found.problem]
    print()
    slow = sorted((f for f in timed if f.ratio > options.above), key=lambda f: -f.ratio)
    for found in slow:
        print(found.line())
    if timed:
        mean = statistics.geometric_mean(found.ratio for found in timed)
        print(f"{len(timed)} calls, geometric mean {mean:.3f}, {len(slow)} shown")
    print(*(found.line() for found in done if found.problem), sep="\n")


if __name__ == "__main__":
    main()
