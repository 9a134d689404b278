"""Tier A: programs that call Python functions, which `Program.callbacks` has."""

import numpy as np
import pytest
from tests.accelerators import xla

import curta
import curta.numpy as jnp
from curta import P, lax
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.entry import MainAttributes, lower_program
from curta.compiler.stablehlo.lowering import ordered_effects
from curta.experimental import io_callback
from curta.sharding import AbstractMesh

X = np.arange(3, dtype=np.float32)


def run(fun, *args, platform="cpu"):
    """The results, run by XLA."""
    closed = curta.make_jaxpr(fun)(*args)
    program = lower_program(closed, MainAttributes("f", platforms=(platform,)))
    text = module_text(program.module)
    if platform != "cpu":
        return xla.parse(text), program
    tokens = len(ordered_effects(closed.effects))
    return xla.run(text, args, [c.run for c in program.callbacks], tokens)


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


def test_ordered_calls_in_loops_and_branches():
    seen = []

    def note(x):
        io_callback(lambda x: seen.append(float(x)), None, x, ordered=True)

    def step(x, row):
        note(x)
        lax.cond(row > 1, note, lambda x: None, row * 10)
        return x + 1, None

    def fun(x):
        x, _ = lax.scan(step, x, jnp.arange(3.0))
        note(x)
        return lax.while_loop(lambda x: x < 5, lambda x: (note(-x), x + 1)[1], x)

    (out,) = run(fun, np.float32(0))
    assert out == 5
    assert seen == [0, 1, 2, 20, 3, -3, -4]


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


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_each_device_calls(platform):
    """Under `shard_map` each dim of a result has a sharding over no axis."""
    mesh = AbstractMesh((2,), ("x",))
    like = curta.ShapeDtypeStruct((2,), np.float32)

    def body(x):
        pair = like, curta.ShapeDtypeStruct((1, 2), np.float32)
        y, _ = curta.pure_callback(lambda x: (x, x[None]), pair, x)
        curta.debug.callback(print, x)
        return y + io_callback(np.sin, like, x)

    f = curta.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    closed = curta.make_jaxpr(curta.jit(f))(np.arange(4, dtype=np.float32))
    text = module_text(
        lower_program(closed, MainAttributes("f", platforms=(platform,))).module
    )
    xla.parse(text)
    if platform == "cpu":
        assert "[<@empty_mesh, [{}]>, <@empty_mesh, [{}, {}]>]" in text
