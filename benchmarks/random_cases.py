"""Random draws of a million: bits, distributions, permutations."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.cases import F32, random_array
from benchmarks.harness import Case, Thunk

SIZE = 10**6


def draws(draw: Callable[[Any, Any], Any], lib: Any) -> Thunk:
    """Jitted draws; `draw(lib.random, key)` makes them."""
    f = lib.jit(lambda key: draw(lib.random, key))
    key = lib.random.key(0)
    return lambda: f(key)


def categorical(lib: Any) -> Thunk:
    """One of ten for each of 1e5 rows."""
    f = lib.jit(lambda key, logits: lib.random.categorical(key, logits))
    key, logits = lib.random.key(0), random_array(lib, SIZE // 10, 10)
    return lambda: f(key, logits)


DRAWS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "bits": (lambda r, key: r.bits(key, (SIZE,)), 0.5),
    "uniform": (lambda r, key: r.uniform(key, (SIZE,)), 0.5),
    "exponential": (lambda r, key: r.exponential(key, (SIZE,)), 0.5),
    "gumbel": (lambda r, key: r.gumbel(key, (SIZE,)), 0.5),
    "randint": (lambda r, key: r.randint(key, (SIZE,), 0, 1000), 0.5),
    "bernoulli": (lambda r, key: r.bernoulli(key, 0.3, (SIZE,)), 0.5),
    "truncated_normal": (lambda r, key: r.truncated_normal(key, -2, 2, (SIZE,)), 0.5),
    "permutation": (lambda r, key: r.permutation(key, SIZE), 0.5),
    "split": (lambda r, key: r.key_data(r.split(key, SIZE)), 0.5),
    "gamma, 1e5 of": (lambda r, key: r.gamma(key, 2.5, (SIZE // 10,)), 0.6),
    "poisson, 1e5 of": (lambda r, key: r.poisson(key, 4.0, (SIZE // 10,)), 0.6),
}

RANDOM_CASES = [
    *(
        Case(
            f"random.{name}, 1e6",
            partial(draws, draw),
            target,
            written=F32 * SIZE,
            rtol=1e-3,
            atol=1e-4,
        )
        for name, (draw, target) in DRAWS.items()
    ),
    Case("random.categorical, (1e5, 10)", categorical, 0.5, read=F32 * SIZE),
]
