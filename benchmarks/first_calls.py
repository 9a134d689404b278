"""First calls in fresh processes, cold and warm; compile time by the number of eqns.

Each row is a program of one line or two; what a process does once is done before.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial

from benchmarks.harness import Timing
from benchmarks.processes import in_turns, run

HEAD = """
import time
import numpy as np
import {lib} as lib, {lib}.numpy as jnp
from {lib} import lax, nn

def normal(*shape):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))

def tree(count):
    return [normal(3 + i % 50) for i in range(count)]

donated = ()
"""

_TAIL = """
lib.block_until_ready(lib.jit(lambda x: x * 2)(jnp.ones(7)))
lib.block_until_ready(args)
start = time.perf_counter()
lib.block_until_ready(lib.jit(f, donate_argnums=donated)(*args))
print(time.perf_counter() - start)
"""

_ADAM = """
def f(p, m, v, g):
    m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
    v = [0.99 * a + 0.01 * b * b for a, b in zip(v, g)]
    return [a - 0.01 * b / (jnp.sqrt(c) + 1e-8) for a, b, c in zip(p, m, v)], m, v
args = [tree(SIZE) for _ in range(4)]
"""

PROGRAMS = {
    "exp, 1e7": "f, args = jnp.exp, [normal(10**7)]",
    "sum over axis 0": "f, args = lambda x: x.sum(0), [normal(2000, 1000)]",
    "product, 8": "f, args = jnp.matmul, [normal(8, 8)] * 2",
    "product, 256": "f, args = jnp.matmul, [normal(256, 256)] * 2",
    "tanh(x @ w)": """
f, args = lambda x, w: jnp.tanh(x @ w), [normal(64, 128), normal(128, 32)]""",
    "batched matrix-vector": """
f = lambda x, y: jnp.einsum("bij,bj->bi", x, y)
args = [normal(64, 32, 32), normal(64, 32)]""",
    "convolution, 3 by 3": """
f = lambda x, w: lax.conv_general_dilated(
    x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
args = [normal(8, 28, 28, 16), normal(3, 3, 16, 32)]""",
    "attention": """
f = lambda q, k, v: nn.softmax(q @ k.swapaxes(-1, -2) / 8.0, axis=-1) @ v
args = [normal(8, 128, 64)] * 3""",
    "Adam over 300 arrays": _ADAM.replace("SIZE", "300"),
    "Adam over 300 donated arrays": _ADAM.replace("SIZE", "300")
    + "donated = (0, 1, 2)",
    "scan over 1000 leaves": """
f = lambda c: lax.scan(lambda c, _: ([jnp.sin(x) for x in c], ()), c, None, 3)[0]
args = [[normal(3) for _ in range(1000)]]""",
} | {
    f"gradient of {depth} layers": f"""
def loss(ws, x):
    for w in ws:
        x = x + jnp.tanh(nn.softmax(x @ w, axis=-1))
    return x.sum()
f, args = lib.grad(loss), [[normal(16, 16)] * {depth}, normal(4, 16)]"""
    for depth in (50, 200, 1200)  # of 44 eqns each
}


def _program(text: str) -> str:
    """The program of a row, with the braces of Python in it."""
    return HEAD + text.replace("{", "{{").replace("}", "}}") + _TAIL


def _warm(program: str) -> Timing:
    with tempfile.TemporaryDirectory() as cache:
        run(program, "curta", cache)
        return in_turns(program, cache)


def _rows() -> list[tuple[str, Callable[[], Timing], float]]:
    """Name, how to measure it, the ratio aimed at."""
    found: list[tuple[str, Callable[[], Timing], float]] = []
    for name, text in PROGRAMS.items():
        program = _program(text)
        found.append((f"cold: {name}", partial(in_turns, program, None), 0.35))
        found.append((f"warm: {name}", partial(_warm, program), 0.1))
    return found


FIRST_CALLS = _rows()
