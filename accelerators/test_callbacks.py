"""Tier A: programs that call Python functions, which `Program.callbacks` has."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from accelerators import xla
from curta import lax
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.entry import Entry, lower_program
from curta.experimental import io_callback

X = np.arange(3, dtype=np.float32)


def run(fun, *args, platform="cpu"):
    """The results, run by XLA."""
    closed = curta.make_jaxpr(fun)(*args)
    program = lower_program(closed, Entry("f", platforms=(platform,)))
    text = module_text(program.module)
    if platform != "cpu":
        return xla.parse(text), program
    return xla.run(text, args, [c.run for c in program.callbacks])


def test_results():
    def fun(x):
        y = curta.pure_callback(np.sin, x, x)
        return y * 2, io_callback(lambda a, b: a + b, x, x, y)

    twice, total = run(fun, X)
    np.testing.assert_allclose(twice, 2 * np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(total, X + np.sin(X), rtol=1e-6)


def test_calls_in_loops():
    seen = []

    def body(i, x):
        curta.debug.callback(lambda i: seen.append(int(i)), i)
        return x + 1

    (out,) = run(lambda x: lax.fori_loop(0, 4, body, x), X)
    np.testing.assert_array_equal(out, X + 4)
    assert sorted(seen) == [0, 1, 2, 3]


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_messages_are_valid(platform):
    def fun(x):
        curta.debug.print("now", ordered=True)
        curta.debug.print("{}", x)
        return curta.pure_callback(np.sin, x, x), lax.cond(
            x[0] > 0, lambda x: io_callback(np.cos, x, x, ordered=True), jnp.cos, x
        )

    _, program = run(fun, X, platform=platform)
    channels = [(len(c.sends), len(c.receives)) for c in program.callbacks]
    assert channels == [(1, 1), (1, 0), (1, 1), (1, 1)]
