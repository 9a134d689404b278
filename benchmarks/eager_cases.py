"""Everyday calls outside `jit`, and the process that times them for one library.

Each line of `CALLS` is a Python expression that users write. `names(lib)` has the
arrays and functions that the expressions use. `python -m benchmarks.eager_cases LIB`
answers requests of `benchmarks.eager` over pipes: the results of a call as NumPy
arrays and text, or the seconds of a block of calls.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import timeit
from typing import Any

import numpy as np

CALLS_TEXT = """
jnp.zeros(10); jnp.arange(10); jnp.array([1.0, 2.0, 3.0]); jnp.asarray(numbers)
jax.device_put(numbers); jnp.stack([x, x]); jnp.concatenate([x, x]); x.astype("int32")
x[0]; x[1:3]; x.at[1].set(2.0); m.reshape(-1); m.T; list(x)
x + x; x + 1; x * 2.0; x**2; -x; x == x; x @ x; m @ m; jnp.where(x > 2, x, 0.0)
jnp.sin(x); nn.relu(x); nn.softmax(x); nn.one_hot(3, 10)
jnp.sum(x); x.sum(); m.mean(axis=0); jnp.argmax(x); jnp.sort(x)
jnp.linalg.norm(x); jnp.linalg.norm(m); jnp.einsum("ij,jk->ik", m, m)
jnp.einsum("i,i->", x, x)
random.key(0); random.split(key); random.fold_in(key, 3); random.uniform(key)
random.normal(key, (10,)); random.bits(key, (10,)); random.randint(key, (10,), 0, 9)
random.bernoulli(key); random.permutation(key, 10)
jax.tree.flatten(d); jax.tree.leaves(d); jax.tree.map(lambda a: a, d)
x.block_until_ready(); jax.block_until_ready(d); jax.block_until_ready(d900)
float(s); s.item(); bool(s > 1); x.tolist(); np.asarray(x); str(x); len(x)
x.shape; x.dtype; isinstance(x, jax.Array)
jax.grad(square)(x); jax.vmap(double)(x)
f(x); f(numbers); f(2.0); f(s); static(x, 3); by_name(x, y=x); of_dict(d); sum_of(d900)
step(p300)
"""

CALLS = [call.strip() for call in CALLS_TEXT.replace("\n", ";").split(";")]
CALLS = [call for call in CALLS if call]


def names(lib: Any) -> dict[str, Any]:
    """The arrays and functions of the calls."""
    for module in ("nn", "numpy", "random", "tree"):
        importlib.import_module(f"{lib.__name__}.{module}")
    jnp = lib.numpy
    x = jnp.arange(10.0)
    return {
        **{"jax": lib, "jnp": jnp, "nn": lib.nn, "random": lib.random, "np": np},
        "x": x,
        "s": jnp.float32(2.5),
        "m": jnp.ones((100, 100)),
        "d": {"a": x, "b": (x, x)},
        "d900": {f"layer{i}": {"w": x, "b": x, "c": x} for i in range(300)},
        "p300": [jnp.full((16, 32), float(i)) for i in range(300)],
        "numbers": np.arange(10, dtype=np.float32),
        "key": lib.random.key(0),
        "square": lambda x: jnp.sum(x * x),
        "double": lambda a: a * 2,
        "f": lib.jit(lambda x: x + 1),
        "static": lib.jit(lambda x, n: x * n, static_argnums=1),
        "by_name": lib.jit(lambda x, *, y: x + y),
        "of_dict": lib.jit(lambda d: lib.tree.map(lambda a: a + 1, d)),
        "sum_of": lib.jit(lambda d: sum(a.sum() for a in lib.tree.leaves(d))),
        "step": lib.jit(lambda p: lib.tree.map(lambda a: a - 0.1 * a, p)),
    }


def known(lib: Any, out: Any) -> list[Any]:
    """A result as NumPy arrays and text, to be compared with those of another."""
    found: list[Any] = []
    for leaf in lib.tree.leaves(out):
        if isinstance(leaf, lib.Array):
            is_key = lib.numpy.issubdtype(leaf.dtype, lib.dtypes.prng_key)
            found.append(np.asarray(lib.random.key_data(leaf) if is_key else leaf))
        elif isinstance(leaf, (bool, int, float, np.ndarray)):
            found.append(np.asarray(leaf))
        elif isinstance(leaf, str):
            found.append(leaf)
    return found


class Worker:
    """The calls of one library in this process."""

    def __init__(self, name: str) -> None:
        self.lib: Any = importlib.import_module(name)
        importlib.import_module(f"{name}.dtypes")
        self.names: dict[str, Any] = names(self.lib)
        self.timers: dict[str, tuple[timeit.Timer, int]] = {}

    def result(self, call: str) -> list[Any]:
        """The result of a call; ValueError and others as the library raises them."""
        return known(self.lib, eval(call, self.names))

    def version(self, _: str) -> str:
        return str(self.lib.__version__)

    def seconds(self, call: str) -> float:
        """Seconds per call in a block that lasts about a millisecond."""
        timer, repeats = self.timers.get(call) or self._calibrated(call)
        return timer.timeit(repeats) / repeats

    def _calibrated(self, call: str) -> tuple[timeit.Timer, int]:
        timer = timeit.Timer(call, globals=self.names)
        timer.timeit(20)
        least = min(timer.timeit(3) for _ in range(5)) / 3
        made = timer, max(1, min(20_000, int(1e-3 / least)))
        self.timers[call] = made
        return made


def main() -> None:
    worker = Worker(sys.argv[1])
    given, back = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    while True:
        try:
            asked, call = pickle.load(given)
        except EOFError:
            return
        try:
            answer = getattr(worker, asked)(call)
        except Exception as error:
            answer = error
        pickle.dump(answer, back)
        back.flush()


if __name__ == "__main__":
    main()
