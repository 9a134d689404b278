"""The same reduction in many contexts: its bits must not depend on any of them.

    python -m tests.stress.reductions                      # 200 programs, a new seed
    python -m tests.stress.reductions --count 5000 --seed 1
    python -m tests.stress.reductions --threads        # and with one thread, by digests
    CURTA_CPU=x86-64-v3 python -m tests.stress.reductions  # narrower vectors

A program is a reduction of some kind, dtype, shape and axes of an elementwise body. It
is computed with its operand fused, held in memory, in a scan, in a `fori_loop`, in a
branch, next to other uses of operand and result, with other kernels around, by itself,
under `vmap` of the same layout, and op by op, each op compiled. The exit status is 1 if
a bit differs (NaNs are equal).
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import config, tuning

Function = Callable[..., Any]

BODIES: dict[str, Function] = {
    "x": lambda x: x,
    "x * x": lambda x: x * x,
    "abs(x) + 1": lambda x: abs(x) + 1,
    "sin(x)": jnp.sin,
    "-x": lambda x: -x,
    "tanh(x) ** 3": lambda x: jnp.tanh(x) ** 3,
    "exp(-abs(x))": lambda x: jnp.exp(-abs(x)),
    "sqrt(abs(x)) / 3": lambda x: jnp.sqrt(abs(x)) / 3,
    "where(x > 0, x, 0)": lambda x: jnp.where(x.real > 0, x, 0),
}
ENDS_IN_PRODUCT = ("x * x", "tanh(x) ** 3")
DTYPES = (
    "float32",
    "float32",
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "complex64",
)
FOLDS: dict[str, Function] = {
    "sum": lambda x, axes: x.sum(axes),
    "mean": lambda x, axes: x.mean(axes),
    "prod": lambda x, axes: x.prod(axes),
    "norm": lambda x, axes: jnp.sqrt((x * x).sum(axes)),
    "var": lambda x, axes: x.var(axes),
    "sum and max": lambda x, axes: x.sum(axes) + abs(x).max(axes),
    "logsumexp": lambda x, axes: jnp.log(jnp.exp(-abs(x)).sum(axes)),
}
RUNNING: dict[str, Function] = {
    "cumsum": lax.cumsum, "cumprod": lax.cumprod, "cummax": lax.cummax,
    "cumlogsumexp": lax.cumlogsumexp,
}  # fmt: skip
PRODUCTS: dict[str, Function] = {
    "x @ v": lambda x, v: x @ v,
    "v @ x": lambda x, v: v @ x,
    "x.T @ v": lambda x, v: x.T @ v,
    "dot": lambda x, v: jnp.vdot(x.ravel(), x.ravel()[::-1]),
    "x @ x.T": lambda x, v: x @ x.T,
    "batched": lambda x, v: jnp.einsum("ij,ij->i", x, x),
    "columns": lambda x, v: jnp.einsum("ij,ij->j", x, x),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A reduction of the body of an array."""

    name: str
    body: str
    reduce: Function
    operand: np.ndarray[Any, Any]

    def __str__(self) -> str:
        x = self.operand
        return f"{self.name} of {self.body}, {x.dtype}{list(x.shape)}"


def case(seed: int, most: int = 200_000) -> Case:
    """A random reduction of at most so many elements."""
    r = np.random.default_rng(seed)
    dtype, body = str(r.choice(DTYPES)), str(r.choice(list(BODIES)))
    size = int(np.exp(r.uniform(0, np.log(most))))
    rank = int(r.integers(1, 4))
    kind = r.choice(["fold", "fold", "fold", "running", "product", "scatter"])
    if kind == "product":
        rank = 2
    shape = _shape(r, size, rank)
    x = r.standard_normal(shape)
    if dtype == "complex64":
        x = x + 1j * r.standard_normal(shape)
    operand = np.asarray(jnp.asarray(x).astype(dtype))
    name, reduce = _reduction(r, str(kind), dtype, operand)
    if name.startswith("var") and body in ENDS_IN_PRODUCT:
        body = "sin(x)"  # x * x - mean may be one fused multiply-add (numerics.md)
    return Case(name, body, reduce, operand)


def _shape(r: Any, size: int, rank: int) -> tuple[int, ...]:
    """About as many elements, the longest dim anywhere."""
    dims = [int(np.exp(r.uniform(0, np.log(min(size, 300) + 1)))) for _ in range(rank)]
    dims[int(r.integers(rank))] = max(1, size // max(1, int(np.prod(dims[1:]))))
    while np.prod(dims) > 4 * size + 4:
        longest = int(np.argmax(dims))
        dims[longest] = max(1, dims[longest] // 2)
    return tuple(max(1, d) for d in dims)


def _reduction(
    r: Any, kind: str, dtype: str, x: np.ndarray[Any, Any]
) -> tuple[str, Function]:
    if kind == "fold":
        axes = tuple(a for a in range(x.ndim) if r.random() < 0.6) or (x.ndim - 1,)
        name = str(r.choice([*FOLDS][:4] if dtype == "complex64" else [*FOLDS]))
        return f"{name}{list(axes)}", lambda y: FOLDS[name](y, axes)
    if kind == "running":
        axis, reverse = int(r.integers(x.ndim)), bool(r.integers(2))
        name = str(r.choice([*RUNNING][:2] if dtype == "complex64" else [*RUNNING]))
        back = " back" if reverse else ""
        return (
            f"{name}[{axis}]{back}",
            lambda y: RUNNING[name](y, axis, reverse=reverse),
        )
    if kind == "product":
        name = str(r.choice([*PRODUCTS]))
        if name == "x @ x.T" and x.shape[0] ** 2 * x.shape[1] > 1 << 22:
            name = "x @ v"
        length = x.shape[1] if name == "x @ v" else x.shape[0]
        v = np.asarray(jnp.asarray(r.standard_normal(length)).astype(dtype))
        return name, lambda y: PRODUCTS[name](y, v.astype(y.dtype))
    places = int(r.integers(1, 50))
    index = r.integers(0, places, x.size)
    zero = np.zeros(places, x.dtype)
    return "scatter-add", lambda y: jnp.asarray(zero).at[index].add(y.ravel())


def contexts(found: Case) -> Iterator[tuple[str, Function]]:
    """The result of a case, or of several, by the name of the context."""
    body, reduce = BODIES[found.body], found.reduce

    def whole(x: Any) -> Any:
        return reduce(body(x))

    def scanned(x: Any) -> Any:
        return lax.scan(lambda c, _: (c, whole(x + c)), x[:0].sum() * 0, None, 2)[1][1]

    def looped(x: Any) -> Any:
        start = curta.eval_shape(whole, x)
        again = lambda i, old: whole(x)  # noqa: E731
        return lax.fori_loop(0, 2, again, jnp.zeros(start.shape, start.dtype))

    def used(x: Any) -> Any:
        y = body(x)
        out = reduce(y)
        return out, y + 1, abs(y).max(), abs(out).sum()

    def around(x: Any) -> Any:
        other = jnp.cos(x).sum() + jnp.sort(abs(x).ravel())[0]
        out = whole(x)
        return out, jnp.tanh(out) + other

    yield "held", lambda x: reduce(lax.optimization_barrier(body(x)))
    yield "scan", scanned
    yield "fori_loop", looped
    yield "branch", lambda x: lax.cond(abs(x.ravel()[0]) >= 0, whole, looped, x)
    yield "used", used
    yield "around", around


def results(found: Case) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The result in each context; the fused one comes first."""
    x, body = found.operand, BODIES[found.body]
    whole = lambda x: found.reduce(body(x))  # noqa: E731
    yield "fused", np.asarray(curta.jit(whole)(x))
    for name, function in contexts(found):
        out = curta.jit(function)(x)
        yield name, np.asarray(out[0] if isinstance(out, tuple) else out)
    alone = curta.jit(found.reduce)(curta.jit(body)(x))
    yield "alone", np.asarray(alone)
    if found.name.startswith(("sum", "mean", "prod", "norm", "var", "cum", "log")):
        rows = np.asarray(curta.jit(curta.vmap(whole))(np.stack([x, x, x])))
        yield "vmap", rows[0]
        yield "vmap, last", rows[2]
    if found.name == "x.T @ v":
        return  # op by op, the product has an operand with other axes (numerics.md)
    compiled = dataclasses.replace(
        config.tuning, compiled_elements=0, compiled_special=0, compiled_transform=0
    )
    with tuning(compiled):
        # Products of complex numbers are sums, which may be contracted in a kernel.
        y = curta.jit(body)(x) if x.dtype.kind == "c" else body(jnp.asarray(x))
        yield "op by op", np.asarray(found.reduce(y))


def bits(x: np.ndarray[Any, Any]) -> bytes:
    """The bytes of an array, in which all NaNs are one."""
    y = np.array(x)
    with np.errstate(all="ignore"):
        y[y != y] = np.nan
    return y.tobytes()


def differing(found: Case) -> tuple[list[str], str]:
    """The contexts whose bits are not those of the first one; and a digest."""
    given = results(found)
    _, first = next(given)
    wanted = bits(first)
    wrong = []
    for name, value in given:
        if bits(value) != wanted:
            count = int(np.sum(value != first))
            wrong.append(f"{name}: {count} of {first.size}")
    return wrong, hashlib.sha256(wanted).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--most", type=int, default=200_000, help="elements")
    parser.add_argument("--threads", action="store_true", help="one thread as well")
    parser.add_argument("--digests", action="store_true", help="print only these")
    options = parser.parse_args()
    seed = options.seed
    if seed is None:
        seed = int(np.random.SeedSequence().entropy % 2**32)
    config.update("jax_enable_x64", True)
    digests, bad = [], 0
    if not options.digests:
        print(f"{options.count} programs from seed {seed}", flush=True)
    for number in range(seed, seed + options.count):
        found = case(number, options.most)
        if options.digests:
            whole = curta.jit(lambda x, c=found: c.reduce(BODIES[c.body](x)))
            value = np.asarray(whole(found.operand))
            print(hashlib.sha256(bits(value)).hexdigest()[:16], flush=True)
            continue
        wrong, digest = differing(found)
        digests.append(digest)
        if wrong:
            bad += 1
            print(f"{number}: {found}: {'; '.join(wrong)}", flush=True)
    if options.digests:
        return 0
    if options.threads:
        bad += _with_one_thread(options.count, seed, options.most, digests)
    print(f"{bad} of {options.count} programs differ")
    return int(bad > 0)


def _with_one_thread(count: int, seed: int, most: int, digests: list[str]) -> int:
    """How many programs have other bits in a process with one thread."""
    command = [sys.executable, "-m", "tests.stress.reductions", "--digests"]
    command += [f"--count={count}", f"--seed={seed}", f"--most={most}"]
    env = {**os.environ, "CURTA_NUM_THREADS": "1"}
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    pairs = enumerate(zip(digests, run.stdout.split(), strict=True), seed)
    other = [number for number, (a, b) in pairs if a != b]
    for number in other:
        print(f"{number}: {case(number, most)}: other bits with one thread")
    return len(other)


if __name__ == "__main__":
    sys.exit(main())
