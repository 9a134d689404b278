"""Programs that take memory in all the ways there are: `calls()`, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import lax

N = 20_000  # elements: more than lie on the stack or in a ring of small arrays


def with_arena(s: Any) -> Any:
    """16 bytes of temporaries for each element."""
    return jnp.flip(jnp.cumsum(jnp.arange(N) * s)).at[::2].add(1.0).sum()


def _loop(s: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, s: with_arena(s) * 1e-8, s)


def _branch(s: Any) -> Any:
    return lax.cond(s > 0, with_arena, lambda s: -with_arena(s), s)


def _parts(x: Any) -> Any:
    """A loop over rows whose parts have arenas of their own."""

    def step(c: Any, x: Any) -> Any:
        return jnp.cumsum(jnp.sort(c, 1), 1) * 1e-3 + x, None

    return lax.scan(step, x.reshape(-1, 500), jnp.arange(300.0))[0]


def _in_python(s: Any) -> Any:
    """Native code, a step in Python, native code."""
    kind = curta.ShapeDtypeStruct((), np.float32)
    return with_arena(curta.pure_callback(np.cos, kind, with_arena(s)))


def _trained(w: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.sum(jnp.tanh(w @ w.T) ** 2)

    return lax.scan(lambda w, _: (w - 0.01 * curta.grad(loss)(w), None), w, None, 3)[0]


def _chained(s: Any) -> Any:
    """Jobs of the queue, more than have room in it."""
    run = curta.jit(lambda x: jnp.sin(jnp.cumsum(x) * s))
    x = jnp.ones(50 * N)
    for _ in range(40):
        x = run(x)
    return x[::1000]


def _donated(x: Any) -> Any:
    run = curta.jit(lambda x: x.at[3].set(1.0) + 1, donate_argnums=0)
    for _ in range(3):
        x = run(run(jnp.copy(x)))
    return x


def _eager(x: Any) -> Any:
    y = x * 2 + jnp.flip(x)
    return jnp.concatenate([y[:5], y.at[1].set(0.0)[5:] ** 2, y.reshape(2, -1)[0]])


def _tree(x: Any) -> Any:
    return {"a": x + 1, "b": [x.sum(), (x[:3], x * x)]}


def calls() -> dict[str, Callable[[], Callable[[], Any]]]:
    """Makers of calls. The first call of each result is traced."""
    one, row = jnp.float32(1), jnp.linspace(0, 1, N)
    square = jnp.eye(40) * 3 + jnp.linspace(0, 1, 1600).reshape(40, 40)
    jitted: dict[str, tuple[Callable[..., Any], Any]] = {
        "small": (lambda x: x + 1, row[:5]),
        "arena": (with_arena, one),
        "loop": (_loop, one),
        "branch": (_branch, one),
        "parts": (_parts, row),
        "python": (_in_python, one),
        "trained": (_trained, square),
        "tree": (_tree, row),
        "sort": (lambda x: jnp.sort(jnp.sin(99 * x)), row),
        "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), row),
        "solve": (lambda a: jnp.linalg.solve(a, a.T), square),
        "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), square),
        "random": (lambda s: curta.random.normal(curta.random.key(3), (N,)) * s, one),
        "batch": (curta.vmap(lambda a: jnp.linalg.cholesky(a @ a.T)), square[None] + 1),
    }
    made: dict[str, Callable[[], Callable[[], Any]]] = {
        name: partial(lambda fun, x: partial(curta.jit(lambda x: fun(x)), x), fun, x)
        for name, (fun, x) in jitted.items()
    }
    eager = {
        "chained": (_chained, one),
        "donated": (_donated, row),
        "eager": (_eager, row),
    }
    return made | {n: partial(lambda f, x: partial(f, x), *c) for n, c in eager.items()}
