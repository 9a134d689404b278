"""Loops over arrays: recurrent networks, arrays being filled; data-parallel steps."""

import tempfile
from functools import partial
from typing import Any

from benchmarks.cases import F32, random_array
from benchmarks.harness import Case, Thunk, Timing
from benchmarks.processes import in_turns

STEPS, WIDTH = 512, 128


def weights(lib: Any, *shape: int) -> Any:
    return random_array(lib, *shape, low=-0.1, high=0.1)


def rnn_params(lib: Any) -> tuple[Any, ...]:
    square = (WIDTH, WIDTH)
    return weights(lib, *square), weights(lib, *square), weights(lib, WIDTH)


def rnn(lib: Any, params: Any, h: Any, xs: Any) -> Any:
    """The states of tanh(x·Wx + h·Wh + b)."""
    wx, wh, bias = params

    def step(h: Any, x: Any) -> tuple[Any, Any]:
        h = lib.numpy.tanh(x @ wx + h @ wh + bias)
        return h, h

    return lib.lax.scan(step, h, xs)[1]


def gru_params(lib: Any) -> tuple[Any, ...]:
    wide = (WIDTH, 3 * WIDTH)
    return weights(lib, *wide), weights(lib, *wide), weights(lib, 3 * WIDTH)


def gru(lib: Any, params: Any, h: Any, xs: Any) -> Any:
    """The states of a gated recurrent unit (Cho et al., 2014)."""
    wx, wh, bias = params
    jnp = lib.numpy

    def step(h: Any, x: Any) -> tuple[Any, Any]:
        xr, xz, xn = jnp.split(x @ wx + bias, 3, axis=-1)
        hr, hz, hn = jnp.split(h @ wh, 3, axis=-1)
        r, z = lib.nn.sigmoid(xr + hr), lib.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        return h, h

    return lib.lax.scan(step, h, xs)[1]


NETWORKS = {"RNN": (rnn, rnn_params), "GRU": (gru, gru_params)}


def network(name: str, batch: int, backward: bool, lib: Any) -> Thunk:
    run, make_params = NETWORKS[name]
    params, h = make_params(lib), weights(lib, batch, WIDTH)
    xs = random_array(lib, STEPS, batch, WIDTH)
    f = partial(run, lib)
    if backward:
        f = lib.grad(lambda *args: lib.numpy.mean(run(lib, *args) ** 2))
    compiled = lib.jit(f)
    return lambda: compiled(params, h, xs)


def fill(lib: Any) -> Thunk:
    """An array filled element by element, each from the one before."""
    size = 10**5

    def step(i: Any, x: Any) -> Any:
        return x.at[i].set(0.5 * x[i - 1] + 1)

    f = lib.jit(lambda x: lib.lax.fori_loop(1, size, step, x))
    x = random_array(lib, size)
    return lambda: f(x)


def fill_rows(lib: Any) -> Thunk:
    """A matrix filled row by row."""
    rows, columns = 2000, 256

    def step(i: Any, x: Any) -> Any:
        return x.at[i].set(lib.numpy.sin(x[i - 1] + 1))

    f = lib.jit(lambda x: lib.lax.fori_loop(1, rows, step, x))
    x = random_array(lib, rows, columns)
    return lambda: f(x)


def network_cases() -> list[Case]:
    cases = []
    for name in NETWORKS:
        gates = 3 if name == "GRU" else 1
        for batch in (32, 1):
            for backward in (False, True):
                flops = 2 * STEPS * batch * 2 * WIDTH * gates * WIDTH
                read = F32 * (STEPS * batch * WIDTH + 2 * gates * WIDTH**2)
                kind = "gradient" if backward else "forward"
                title = f"{name}-{WIDTH}, {STEPS} steps, batch {batch}, {kind}"
                make = partial(network, name, batch, backward)
                times = 3 if backward else 1
                cases.append(Case(title, make, 0.6, read, read, times * flops))
    return cases


RNN_CASES = [
    *network_cases(),
    Case("array of 1e5 filled by a loop", fill, 1.0, F32 * 10**5, F32 * 10**5),
    Case("matrix filled row by row", fill_rows, 0.4),
]


# --- two devices: the number of devices is set before a library is imported ----------

DATA_PARALLEL = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import statistics, time
import numpy as np
import {lib} as lib, {lib}.numpy as jnp

def loss(params, x, y):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return jnp.mean((x - y) ** 2)

def step(params, x, y):
    grads = lib.lax.pmean(lib.grad(loss)(params, x, y), "devices")
    return lib.tree.map(lambda p, g: p - 0.1 * g, params, grads)

assert lib.device_count() == 2
rng = np.random.default_rng(0)
normal = lambda *shape: jnp.asarray(rng.normal(size=(2, *shape)).astype(np.float32))
widths = 784, 512, 256, 10
params = [(normal(m, n) / 30, normal(n)) for m, n in zip(widths, widths[1:])]
x, y = normal(128, 784), normal(128, 10)
step = lib.pmap(step, axis_name="devices")
times = []
for _ in range(40):
    start = time.perf_counter()
    params = lib.block_until_ready(step(params, x, y))
    times.append(time.perf_counter() - start)
print(statistics.median(times[10:]))
"""


def data_parallel_step() -> Timing:
    """A training step of 128 examples on each of two devices of this machine."""
    with tempfile.TemporaryDirectory() as cache:
        return in_turns(DATA_PARALLEL, cache)


RNN_PROCESSES = [("training step on two devices", data_parallel_step, 0.9)]
