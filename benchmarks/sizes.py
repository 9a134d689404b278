"""`python -m benchmarks.sizes`: code for open sizes against code for each size.

Each program is compiled once with `abstracted_axes`, at the first size, and called at
others. It is compared with `jit` for each size. The output has the least processor time
of calls over some rounds, alternating, and the wall time of the first call of each
size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp

FIRST, SIZES, ROUNDS = 200, (64, 199, 256, 1000), 15
rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    """Random numbers."""
    return jnp.asarray(rng.standard_normal(shape).astype(np.float32))


def norm(x: Any) -> Any:
    """Rows of mean 0 and variance 1."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def block(w: Sequence[Any], x: Any) -> Any:
    """A transformer block of four heads."""
    batch, length, d = x.shape
    q, k, v = ((norm(x) @ p).reshape(batch, length, 4, d // 4) for p in w[:3])
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(d // 4)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", curta.nn.softmax(scores), v)
    x = x + mixed.reshape(batch, length, d) @ w[3]
    return x + curta.nn.gelu(norm(x) @ w[4]) @ w[5]


def step(w: Sequence[Any], x: Any) -> Any:
    """A step of a perceptron's training."""

    def loss(w: Sequence[Any]) -> Any:
        return curta.nn.log_softmax(jnp.tanh(x @ w[0]) @ w[1])[:, 0].mean()

    return [p - 0.1 * g for p, g in zip(w, curta.grad(loss)(w), strict=True)]


def rnn(w: Sequence[Any], x: Any) -> Any:
    """A recurrent layer over all of x."""

    def one(h: Any, x: Any) -> Any:
        h = jnp.tanh(x @ w[0] + h @ w[1])
        return h, h.sum(-1)

    return curta.lax.scan(one, jnp.zeros((x.shape[1], 64)), x)


BLOCK = [normal(64, 64) / 8 for _ in range(4)]
BLOCK += [normal(64, 256) / 8, normal(256, 64) / 16]
RNN, MLP = [normal(32, 64) / 8, normal(64, 64) / 8], [normal(256, 256), normal(256, 10)]
Program = tuple[Callable[..., Any], Callable[[int], Any], Any]
PROGRAMS: dict[str, Program] = {
    "tanh, n rows of 64": (jnp.tanh, lambda n: [normal(n, 64)], {0: "n"}),
    "sum of n x 64": (lambda x: x.sum(), lambda n: [normal(n, 64)], {0: "n"}),
    "softmax, n rows of 300": (curta.nn.softmax, lambda n: [normal(n, 300)], {0: "n"}),
    "softmax, 64 rows of n": (curta.nn.softmax, lambda n: [normal(64, n)], {1: "n"}),
    "layer norm, n rows of 256": (norm, lambda n: [normal(n, 256)], {0: "n"}),
    "product, (n, 256)(256, 256)": (
        lambda x, w: x @ w,
        lambda n: [normal(n, 256), normal(256, 256)],
        ({0: "n"}, None),
    ),
    "scan of n steps": (rnn, lambda n: [RNN, normal(n, 8, 32)], (None, {0: "n"})),
    "training step, batch n": (
        step,
        lambda n: [MLP, normal(n, 256)],
        (None, {0: "n"}),
    ),
    "block, batch n": (block, lambda n: [BLOCK, normal(n, 16, 64)], (None, {0: "n"})),
    "block, length n": (block, lambda n: [BLOCK, normal(4, n, 64)], (None, {1: "n"})),
    "gradient of a block, batch n": (
        curta.grad(lambda w, x: (block(w, x) ** 2).mean()),
        lambda n: [BLOCK, normal(n, 16, 64)],
        (None, {0: "n"}),
    ),
}


def spent(call: Callable[[], Any], times: int) -> float:
    """The processor time of a call, of some."""
    begin = time.process_time()
    for _ in range(times):
        curta.block_until_ready(call())
    return (time.process_time() - begin) / times


def first_call(call: Callable[[], Any]) -> float:
    """The wall time of a call, in ms."""
    begin = time.perf_counter()
    curta.block_until_ready(call())
    return 1e3 * (time.perf_counter() - begin)


def main() -> None:
    """Print a row for each program."""
    ratios = []
    print(f"open / fixed, processor time; compiled at n = {FIRST}")
    for name, (f, make, axes) in PROGRAMS.items():
        named, cells = curta.jit(f, abstracted_axes=axes), []
        args = make(FIRST)
        named(*args)
        for n in SIZES:
            args = make(n)
            fixed = curta.jit(lambda *a, f=f: f(*a))
            calls = [lambda a=args, g=named: g(*a), lambda a=args, g=fixed: g(*a)]
            starts = [*map(first_call, calls)]
            times = max(3, int(0.02 / max(1e-6, spent(calls[1], 3))))
            least = [math.inf, math.inf]
            for _ in range(ROUNDS):
                least = [min(t, spent(c, times)) for t, c in zip(least, calls)]
            ratios.append(least[0] / least[1])
            first = f"{starts[0]:.1f}/{starts[1]:.0f} ms"
            cells.append(f"{n}: {ratios[-1]:.2f} ({first})")
        compiled = named.cache_statistics().executables
        print(f"{name:30} {'  '.join(cells)}  compiled {compiled}", flush=True)
    mean = math.exp(np.mean(np.log(ratios)))
    print(f"geometric mean {mean:.2f}, most {max(ratios):.2f}")


if __name__ == "__main__":
    main()
