"""Cases measured in one process, with the target ratio Curta/JAX."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.harness import Case, Thunk

DIGITS = Path(__file__).parents[1] / "examples" / "digits.py"
F32 = 4  # bytes


def random_array(lib: Any, *shape: int, low: float = -3.0, high: float = 3.0) -> Any:
    values = np.random.default_rng(0).uniform(low, high, shape)
    return lib.numpy.asarray(values.astype(np.float32))


def ten_ops(lib: Any, x: Any) -> Any:
    jnp = lib.numpy
    y = jnp.sin(x) * 2 + jnp.exp(-x * x)
    return jnp.tanh(y) / (1 + y * y) - x


# --- dispatch -------------------------------------------------------------------------


def jit_small(lib: Any) -> Thunk:
    f, x = lib.jit(lambda x: x + 1), random_array(lib, 10)
    return lambda: f(x)


def jit_dict(lib: Any) -> Thunk:
    f = lib.jit(lambda tree: {name: x + 1 for name, x in tree.items()})
    tree = {name: random_array(lib, 10) for name in "abcdefgh"}
    return lambda: f(tree)


def eager_add(lib: Any) -> Thunk:
    x, y = random_array(lib, 10), random_array(lib, 10)
    return lambda: x + y


def eager_element(lib: Any) -> Thunk:
    x = random_array(lib, 10)
    return lambda: x[3]


def eager_slice(lib: Any) -> Thunk:
    x = random_array(lib, 10)
    return lambda: x[2:5]


def eager_at_set(lib: Any) -> Thunk:
    x = random_array(lib, 10)
    return lambda: x.at[3].set(1.0)


def eager_grad(lib: Any) -> Thunk:
    df, x = lib.grad(partial(ten_ops, lib)), lib.numpy.asarray(0.7)
    return lambda: df(x)


def eager_vmap(lib: Any) -> Thunk:
    f, x = lib.vmap(partial(ten_ops, lib)), random_array(lib, 10)
    return lambda: f(x)


DISPATCH = [
    Case("jit(x + 1), (10,)", jit_small, 0.15, wait_each=False),
    Case("jit, dict of 8 leaves in and out", jit_dict, 0.35, wait_each=False),
    Case("eager x + y, (10,)", eager_add, 0.2, wait_each=False),
    Case("eager x[3]", eager_element, 0.1, wait_each=False),
    Case("eager x[2:5]", eager_slice, 0.1, wait_each=False),
    Case("eager x.at[3].set(1.0)", eager_at_set, 0.1, wait_each=False),
    Case("eager grad of ten ops", eager_grad, 0.3, wait_each=False),
    Case("eager vmap of ten ops", eager_vmap, 0.3, wait_each=False),
]


# --- elementwise ----------------------------------------------------------------------


def elementwise(name: str, size: int, low: float, lib: Any) -> Thunk:
    functions = {"selu": lib.nn.selu, "gelu": lib.nn.gelu, "erf": lib.lax.erf}
    function = functions.get(name) or getattr(lib.numpy, name)
    f, x = lib.jit(lambda x: function(x)), random_array(lib, size, low=low, high=9.0)
    return lambda: f(x)


def elementwise_cases() -> Iterator[Case]:
    targets = dict.fromkeys(("selu", "gelu", "exp", "log", "sin"), 0.6)
    targets |= {"tanh": 0.9, "erf": 0.9}
    for name, target in targets.items():
        for power in (5, 6, 7):
            size = 10**power
            make = partial(elementwise, name, size, 0.1 if name == "log" else -9.0)
            yield Case(f"{name}, 1e{power}", make, target, F32 * size, F32 * size)


# --- reductions and normalisations ----------------------------------------------------


def total(axis: int | None, lib: Any) -> Thunk:
    f, x = lib.jit(lambda x: lib.numpy.sum(x, axis)), random_array(lib, 4096, 4096)
    return lambda: f(x)


def softmax(lib: Any) -> Thunk:
    f, x = lib.jit(lambda x: lib.nn.softmax(x)), random_array(lib, 8192, 1024)
    return lambda: f(x)


def layernorm(lib: Any) -> Thunk:
    @lib.jit
    def f(x, scale, bias):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        return centred / lib.numpy.sqrt(variance + 1e-5) * scale + bias

    x = random_array(lib, 8192, 1024)
    scale, bias = random_array(lib, 1024), random_array(lib, 1024)
    return lambda: f(x, scale, bias)


SQUARE = F32 * 4096**2
ROWS = F32 * 8192 * 1024

REDUCTIONS = [
    # Rounding: each library sums 16 million numbers in its own order.
    Case("sum over axis 0, 4096²", partial(total, 0), 0.75, SQUARE, atol=1e-2),
    Case("sum over axis 1, 4096²", partial(total, 1), 0.75, SQUARE, atol=1e-2),
    Case("sum of all, 4096²", partial(total, None), 0.75, SQUARE, atol=1.0),
    Case("softmax, (8192, 1024)", softmax, 0.15, ROWS, ROWS),
    Case("layernorm, (8192, 1024)", layernorm, 0.15, ROWS, ROWS),
]


# --- dots -----------------------------------------------------------------------------


def dot(m: int, k: int, n: int, lib: Any) -> Thunk:
    f = lib.jit(lambda x, y: x @ y)
    x, y = random_array(lib, m, k), random_array(lib, k, n)
    return lambda: f(x, y)


def batched_dot(lib: Any) -> Thunk:
    f = lib.jit(lambda x, y: x @ y)
    x, y = random_array(lib, 1024, 32, 32), random_array(lib, 1024, 32, 32)
    return lambda: f(x, y)


def dot_case(m: int, k: int, n: int, target: float) -> Case:
    read, written = F32 * (m * k + k * n), F32 * m * n
    name, make = f"dot, ({m}, {k})·({k}, {n})", partial(dot, m, k, n)
    return Case(name, make, target, read, written, 2 * m * k * n, atol=1e-4 * k)


BATCHED = F32 * 1024 * 32 * 32

DOTS = [
    dot_case(64, 64, 64, 0.4),
    dot_case(128, 128, 128, 0.4),
    dot_case(1024, 1024, 1024, 0.8),
    dot_case(2048, 2048, 2048, 0.8),
    dot_case(32, 784, 128, 0.5),
    Case(
        "dot, 1024 batched (32, 32)·(32, 32)",
        batched_dot,
        0.6,
        2 * BATCHED,
        BATCHED,
        2 * 1024 * 32**3,
        atol=1e-3,
    ),
]


# --- random numbers and the main job --------------------------------------------------


def normal(lib: Any) -> Thunk:
    f = lib.jit(lambda key: lib.random.normal(key, (10**6,)))
    key = lib.random.key(0)
    return lambda: f(key)


def load_digits(lib: Any) -> ModuleType:
    """The example as a module, over `lib`."""
    module = ModuleType(f"digits_{lib.__name__}")
    module.__file__ = str(DIGITS)
    source = DIGITS.read_text().replace("import curta", f"import {lib.__name__}")
    exec(compile(source, str(DIGITS), "exec"), vars(module))
    return module


def demo_step(lib: Any) -> Thunk:
    digits = load_digits(lib)
    key = lib.random.key(0)
    (images, labels), _ = digits.load(key)
    params = digits.init_params(key)
    batch = images[: digits.BATCH], labels[: digits.BATCH]
    state = digits.init_adam(params)
    return lambda: digits.train_step(params, state, key, *batch, 0.5)


OTHERS = [
    Case("random.normal, 1e6", normal, 0.6, written=F32 * 10**6),
    Case("training step of the demo", demo_step, 0.6, atol=1e-4),
]

CASES = [*DISPATCH, *elementwise_cases(), *REDUCTIONS, *DOTS, *OTHERS]
