"""Ordered effects of programs on devices: in a program, and from call to call."""

import time

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax
from curta.errors import JaxRuntimeError
from curta.experimental import io_callback
from curta.sharding import AxisType


@pytest.fixture
def seen():
    yield (result := [])
    curta.effects_barrier()
    del result


def noting(seen, delay=0.0):
    """An ordered callback that notes what it is given."""

    def note(x):
        time.sleep(delay)
        seen.append(np.asarray(x).tolist())

    return lambda x: io_callback(note, None, x, ordered=True)


def test_programs_run_in_turn(seen):
    """Each is longer than the next; the caller waits for none of them."""
    programs = [curta.jit(noting(seen, 0.02 * (3 - i))) for i in range(3)]
    plain = curta.jit(noting(seen))
    for i in range(6):
        programs[i % 3](jnp.float32(i))
        plain(jnp.float32(-i))
    curta.effects_barrier()
    assert seen == [y for i in range(6) for y in (i, -i)]


def test_in_loops_and_branches(seen):
    note = noting(seen)

    def step(carry, row):
        note(carry)
        lax.cond(row > 1, note, lambda x: None, row * 10)
        return carry + 1, None

    def f(x):
        carry, _ = lax.scan(step, x, jnp.arange(4.0))
        note(carry)
        return lax.while_loop(lambda x: x < 6, lambda x: (note(-x), x + 1)[1], carry)

    assert float(curta.jit(f)(jnp.float32(0))) == 6
    curta.effects_barrier()
    assert seen == [0, 1, 2, 20, 3, 30, 4, -4, -5]


def test_printing_and_results(seen, capfd):
    def f(x):
        curta.debug.print("first {}", x, ordered=True)
        y = io_callback(lambda x: x + 1, x, x, ordered=True)
        curta.debug.callback(lambda y: print("then", y), y, ordered=True)
        return y

    for i in range(3):
        assert float(curta.jit(f)(jnp.float32(i))) == i + 1
    curta.effects_barrier()
    lines = [
        f"{w} {i + (w == 'then'):.1f}" for i in range(3) for w in ("first", "then")
    ]
    assert capfd.readouterr().out.split("\n")[:-1] == lines


def test_other_devices_and_the_host_come_in_their_turn(seen):
    slow, quick = (curta.jit(noting(seen, s)) for s in (0.05, 0.0))
    devices = [*curta.devices(), *curta.devices("cpu")]
    for i, device in enumerate(devices):
        slow(curta.device_put(jnp.float32(i), curta.devices()[0]))
        quick(curta.device_put(jnp.float32(-i), device))
        noting(seen)(curta.device_put(jnp.float32(100), devices[-1]))
    curta.effects_barrier()
    assert seen == [y for i in range(len(devices)) for y in (i, -i, 100)]


def test_what_fails_holds_nobody_up(seen):
    def bad(x):
        raise ValueError("no number today")

    with pytest.raises(JaxRuntimeError, match="no number today"):
        curta.jit(lambda x: io_callback(bad, x, x, ordered=True))(
            jnp.float32(1)
        ).block_until_ready()
    curta.jit(noting(seen))(jnp.float32(2))
    curta.effects_barrier()
    assert seen == [2]


def test_programs_that_functions_call_do_not_wait_for_them(seen):
    inner = curta.jit(lambda x: (noting(seen)(x), x)[1])

    def outer(x):
        inner(curta.device_put(jnp.float32(1), curta.devices()[0])).block_until_ready()
        seen.append("outer")

    curta.jit(lambda x: io_callback(outer, None, x, ordered=True))(jnp.float32(0))
    curta.effects_barrier()
    assert sorted(map(str, seen)) == ["1.0", "outer"]


def test_several_devices(seen):
    if len(curta.devices()) < 4:
        pytest.skip("four devices are needed")
    mesh = curta.make_mesh((4,), ("x",), (AxisType.Auto,))
    x = curta.device_put(np.arange(4, dtype=np.float32), NamedSharding(mesh, P("x")))
    f = curta.jit(noting(seen, 0.02))
    for i in range(3):
        f(x + i)
        curta.jit(noting(seen))(jnp.float32(i))
    curta.effects_barrier()
    assert seen == [y for i in range(3) for y in ([i, i + 1, i + 2, i + 3], i)]
    with pytest.raises(ValueError, match="not supported for more than 1 device"):
        curta.jit(lambda x: curta.debug.print("{}", x, ordered=True))(x)
