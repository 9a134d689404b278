"""First calls of ordinary operations: `python -m benchmarks.ordinary_first_calls`.

Search for slow first calls: each of `CALLS` is compiled and called once, in fresh
processes of both libraries alternately. Curta's processes have an empty cache. One-time
work of a process (importing, its first call) is done before. The output has medians of
processor time of all threads, their ratio, and the ratio by wall clock, which depends
on other load; then the slowest calls again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

# What calls name: vectors `v`, `r` and `p` (above zero) of a thousand numbers, indices
# `i`, complex `z`, matrices `a`, `b`, `w`, square `s` and `d` (positive definite),
# a stack of small ones `k`, an image `im`, filters `f`, a signal `g`, heads `q`.
PROGRAM = """
import importlib, sys, time
import numpy as np
name, call = sys.argv[1:3]
lib = importlib.import_module(name)
jnp = importlib.import_module(name + ".numpy")
for module in ("special", "linalg", "signal", "stats"):
    globals()[module] = importlib.import_module(name + ".scipy." + module)
lax, nn, random, image, ops = lib.lax, lib.nn, lib.random, lib.image, lib.ops
grad, vmap = lib.grad, lib.vmap

def conv(x, w, strides=(1, 1), padding="SAME", **options):
    dims = ("NWC", "WIO", "NWC") if x.ndim == 3 else ("NHWC", "HWIO", "NHWC")
    strides, options = strides[2 - x.ndim :], options | {"dimension_numbers": dims}
    return lax.conv_general_dilated(x, w, strides, padding, **options)

def pool(x):
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

draw = np.random.default_rng(0)

def normal(*shape):
    return draw.normal(size=shape).astype(np.float32)

names = dict(
    v=normal(1000), r=normal(1000), p=abs(normal(1000)) + 1,
    i=draw.integers(0, 64, 1000).astype(np.int32), c=normal(1000) > 0,
    z=normal(1000) + 1j * normal(1000).astype(np.complex64),
    a=normal(64, 48), b=normal(64, 48), w=normal(48, 32), s=normal(24, 24),
    d=np.eye(24, dtype=np.float32) * 30 + 1, k=normal(50, 4, 4),
    im=normal(4, 16, 16, 8), f=normal(3, 3, 8, 16), g=normal(2, 100, 4),
    h=normal(5, 4, 8), q=normal(4, 32, 16), n8=normal(32, 64).astype(np.int8),
    m8=normal(64, 32).astype(np.int8),
)
code = compile(call, call, "eval")

def used(code):
    inner = [used(c) for c in code.co_consts if hasattr(c, "co_names")]
    return set(code.co_names).union(*inner)

given = {x: jnp.asarray(names[x]) for x in used(code) & names.keys()}
if "key" in used(code):
    given["key"] = random.key(0)
lib.block_until_ready(lib.jit(lambda x: x * 2)(jnp.ones(7)))
lib.block_until_ready(given)
wall, processor = time.perf_counter(), time.process_time()
lib.block_until_ready(lib.jit(lambda given: eval(code, globals() | given))(given))
print(time.process_time() - processor, time.perf_counter() - wall)
"""

CALLS = [
    call.strip()
    for call in """
v + r; jnp.tanh(v) * 2 + v; jnp.sin(v); v.sum(); a.sum(0); a.sum(1); a.mean(); a.var(1)
jnp.argmax(a, 1); a.T.copy(); a @ w; a @ a.T; a @ w[:, 0]; jnp.dot(v, r)
jnp.einsum("ij,kj->ik", a, b); jnp.einsum("bij,bjk->bik", k, k); jnp.outer(v[:50], r)
conv(im, f); conv(im, f, (2, 2), "VALID"); conv(im, f, rhs_dilation=(2, 2))
conv(im, f[:, :, :4], feature_group_count=2); conv(g, h)
grad(lambda h: (conv(g, h) ** 2).sum())(h); grad(lambda f: (conv(im, f) ** 2).sum())(f)
grad(lambda im: (conv(im, f) ** 2).sum())(im); pool(im)
grad(lambda im: pool(im).sum())(im); jnp.convolve(v, r[:9], "same"); jnp.sort(v)
jnp.argsort(v); jnp.sort(a, 1); lax.top_k(v, 5); jnp.median(v); jnp.quantile(a, 0.3, 0)
jnp.unique(i, size=64); jnp.searchsorted(v, r); jnp.histogram(v, 20)[0]
jnp.fft.fft(z); jnp.fft.rfft(v); jnp.fft.ifft2(a); jnp.fft.irfft(z); jnp.cumsum(v)
jnp.cumsum(a, 0); lax.cummax(v); lax.associative_scan(jnp.multiply, v)
jnp.linalg.cholesky(d); jnp.linalg.solve(d, a[:24, 0]); jnp.linalg.inv(d)
jnp.linalg.svd(s); jnp.linalg.eigh(d); jnp.linalg.qr(s); jnp.linalg.det(s)
jnp.linalg.solve(k, k); linalg.expm(s / 9); linalg.solve_triangular(d, s, lower=True)
random.uniform(key, (1000,)); random.normal(key, (1000,))
random.randint(key, (9,), 0, 5)
random.bernoulli(key, 0.3, (1000,)); random.permutation(key, v); random.gamma(key, p)
random.poisson(key, p); random.categorical(key, a); random.truncated_normal(key, -1, 1)
random.choice(key, v, (10,)); random.split(key, 5); random.dirichlet(key, p[:9])
random.beta(key, p, p); random.multivariate_normal(key, s[0], d); random.gumbel(key)
random.exponential(key, (1000,)); random.laplace(key, (1000,)); random.t(key, 3.0)
ops.segment_sum(v, i, 64); v[i]; v.at[i].add(r); v.at[i].set(r); a.at[i[:48]].add(1)
jnp.take_along_axis(a, jnp.argsort(a, 1), 1); jnp.interp(v, jnp.sort(p), r)
jnp.where(c, v, 0).sum(); jnp.nonzero(c, size=10)[0]; jnp.pad(a, 3, mode="reflect")
jnp.concatenate([a, b], 1); jnp.roll(a, 3, 1); jnp.tril(s); jnp.repeat(v, 3)
nn.relu(a @ w + w[0]); grad(lambda w: (jnp.tanh(a @ w) ** 2).sum())(w)
nn.softmax(q @ q.swapaxes(1, 2)) @ q
grad(lambda q: (nn.softmax(q @ q.swapaxes(1, 2)) @ q).sum())(q); nn.softmax(a, 1)
grad(lambda w: nn.log_softmax(a @ w, 1)[:, 0].sum())(w); nn.gelu(v); nn.logsumexp(a, 1)
nn.standardize(a, 1); grad(lambda a: (nn.standardize(a, 1) ** 3).sum())(a)
lax.scan(lambda x, y: (jnp.tanh(x @ s + y), x.sum()), s[0], s)
grad(lambda s: lax.scan(lambda x, y: (jnp.tanh(x @ s + y), 0), s[0], s)[0].sum())(s)
lax.fori_loop(0, 10, lambda n, v: v * 0.9 + 1, v)
lax.while_loop(lambda x: x.sum() < 9, lambda x: x + abs(x), abs(v))
lax.cond(v[0] > 0, jnp.sin, jnp.cos, v); lax.map(lambda r: r.sum(), a)
lax.dot(n8, m8, preferred_element_type=np.int32); special.gammaln(p)
a.astype("bfloat16") @ w.astype("bfloat16"); z * z; jnp.exp(z); abs(z); z @ z
jnp.linalg.norm(a); special.digamma(p); special.erfinv(v / 9); special.betainc(p, p, c)
stats.norm.logpdf(v).sum(); grad(lambda v: jnp.linalg.norm(v))(v)
vmap(lambda r: jnp.dot(r, r))(a); vmap(grad(lambda r: (jnp.tanh(r) @ w).sum()))(a)
image.resize(im, (4, 32, 32, 8), "linear"); signal.convolve2d(s, s[:3, :3], "same")
jnp.polyval(v[:5], r); linalg.lu(s); jnp.linalg.lstsq(a, b[:, 0])[0]; jnp.cov(a)
jnp.linalg.eigvals(s); jnp.linalg.slogdet(s)[1]; jnp.corrcoef(a); jnp.trace(s)
""".replace("\n", ";").split(";")
    if call.strip()
]


@dataclass(frozen=True)
class FirstCall:
    """The processor's seconds of both libraries, and the ratio of the wall clock."""

    call: str
    ours: float
    theirs: float
    wall: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def line(self) -> str:
        times = f"{self.ours * 1e3:7.1f} ms of {self.theirs * 1e3:7.1f}"
        return f"{self.ratio:6.2f} {self.wall:6.2f} {times}  {self.call}"


def first_call(lib: str, call: str) -> tuple[float, float]:
    """The processor's and the wall clock's seconds, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"CURTA_CACHE_DIR": cache}
        # Let the sources have bytecode, as installed packages do.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, lib, call],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    processor, wall = map(float, done.stdout.split()[-2:])
    return processor, wall


def survey(calls: list[str], rounds: int) -> Iterator[FirstCall]:
    for lib in ("curta", "jax"):
        first_call(lib, CALLS[0])  # so that bytecode and files are there
    for call in calls:
        times: dict[str, list[tuple[float, float]]] = {"curta": [], "jax": []}
        try:
            for _ in range(rounds):
                for lib, samples in times.items():
                    samples.append(first_call(lib, call))
        except RuntimeError as error:
            print(f"{call}: {error}", flush=True)
            continue
        ours, theirs = ([statistics.median(x) for x in zip(*s)] for s in times.values())
        yield FirstCall(call, ours[0], theirs[0], ours[1] / theirs[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="calls whose text contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--above", type=float, default=0.5, help="shown at the end")
    options = parser.parse_args()
    done = []
    for found in survey([c for c in CALLS if options.only in c], options.rounds):
        done.append(found)
        print(found.line(), flush=True)
    print()
    slow = [found for found in done if found.ratio > options.above]
    for found in sorted(slow, key=lambda f: -f.ratio):
        print(found.line())
    if done:
        mean = statistics.geometric_mean(found.ratio for found in done)
        print(f"geometric mean of {len(done)} first calls: {mean:.2f}")


if __name__ == "__main__":
    main()
