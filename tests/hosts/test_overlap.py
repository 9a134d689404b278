"""Collectives that are begun early and done late."""

import dataclasses
import threading

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401
from tests.hosts.test_partition import check, mesh_of, normal

import curta
import curta.numpy as jnp
from curta import P, lax
from curta._settings.tuning import Tuning
from curta.compiler.host_target import host
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.lower.items import LoopItem, RegionItem
from curta.compiler.rewrite.overlap import overlapped
from curta.compiler.rewrite.prepare import prepare
from curta.config import tuning
from curta.core.check import check_jaxpr
from curta.hosts.failures import HostsError
from curta.hosts.group import HostGroup
from curta.hosts.simulated import run_on_hosts
from curta.hosts.transport import IN_PYTHON, Transport
from curta.primitives.host_collectives import HostPermute, HostReduce

from .test_tcp import everyone, together

__all__ = ["together"]

LINE = HostGroup(("x",), (2,), (0, 1), ("x",))
TOTAL = HostReduce(LINE, "sum")
SMALL = Tuning(overlapped_bytes=1, overlapped_cost=1, bucketed_bytes=0)


def names(f, *args, limits=SMALL, transport=IN_PYTHON):
    """The ops of a program in the order in which they are compiled."""
    with tuning(limits):
        flat = prepare(curta.make_jaxpr(f)(*args), host()).jaxpr
        jaxpr = overlapped(flat, dataclasses.replace(host(), transport=transport))
    check_jaxpr(jaxpr)
    return [e.op.name for e in jaxpr.eqns]


def test_what_is_begun_is_done_when_nothing_else_is_left():
    def f(x, w):
        a = TOTAL(x)
        b = w @ w
        c = TOTAL(b)
        return a + 1, b @ w, c * 2

    x = np.ones((4, 4), np.float32)
    assert names(f, x, x) == [
        *("host_start", "dot_general", "host_start", "dot_general"),
        *("host_done", "add", "host_done", "mul"),
    ]


def test_small_arrays_are_not_begun():
    x = np.ones(4, np.float32)
    assert names(lambda x: TOTAL(x) + 1, x, limits=Tuning()) == ["host_reduce", "add"]


def test_rows_for_neighbours_are_begun_where_that_costs_little():
    f = lambda x: HostPermute(LINE, ((0, 1),))(x) + 1  # noqa: E731
    x = np.ones(4, np.float32)
    found = names(f, x, limits=Tuning(), transport=Transport("MPI"))
    assert found == ["host_start", "host_done", "add"]


def test_the_interior_of_a_stencil_comes_before_the_wait_for_halos():
    def f(x):
        above = HostPermute(LINE, ((0, 1),))(x[-1:])
        below = HostPermute(LINE, ((1, 0),))(x[:1])
        around = jnp.pad(jnp.concatenate([above, x, below]), ((0, 0), (1, 1)))
        return around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, 2:]

    with tuning(dataclasses.replace(SMALL, large_join=1)):
        flat = prepare(curta.make_jaxpr(f)(normal(8, 9)), host()).jaxpr
        jaxpr = overlapped(flat, dataclasses.replace(host(), transport=IN_PYTHON))
        items = lower_to_items(jaxpr, host()).items
    order = [
        tuple(v.extent for v in i.dims) if isinstance(i, LoopItem) else i.eqn.op.name
        for i in items
        if isinstance(i, RegionItem) or i.partial
    ]
    assert order == [
        *("host_start", "host_start", (6, 8), (6,)),
        *("host_done", (8,), (), "host_done", (8,), ()),
    ]


def test_collectives_keep_their_order():
    """Also where one is ready before: hosts may not differ in what is ready."""
    other = HostReduce(LINE, "max")

    def f(x):
        return other(TOTAL(x)), HostPermute(LINE, ((0, 1),))(x)

    x = np.ones((4, 4), np.float32)
    assert names(f, x) == [
        *("host_start", "host_done", "host_start", "host_start"),
        *("host_done", "host_done"),
    ]


def test_calls_of_python_keep_their_place():
    def f(x, y):
        a = TOTAL(x) + 1
        curta.debug.callback(print, a)
        return a, TOTAL(y)

    x = np.ones((4, 4), np.float32)
    assert names(f, x, x) == [
        *("host_start", "host_done", "add", "debug_callback"),
        *("host_start", "host_done"),
    ]


def test_loops_with_collectives_keep_their_place():
    def f(x, y):
        a = lax.fori_loop(0, 3, lambda i, x: TOTAL(x), TOTAL(x))
        return a, TOTAL(y)

    x = np.ones((4, 4), np.float32)
    assert names(f, x, x) == [
        *("host_start", "host_done", "scan", "host_start", "host_done"),
    ]


def test_collectives_that_become_equal_are_one():
    """All hosts compile the same program, and so all run one of them."""
    x = np.ones(4, np.float32)
    f = lambda x: TOTAL(x * np.float32(1)) + TOTAL(x)  # noqa: E731
    closed = prepare(curta.make_jaxpr(f)(x), host())
    assert [e.op.name for e in closed.eqns] == ["host_reduce", "add"]


def on_two_hosts(f, *args):
    """The results of a program on two hosts with different arguments."""
    with tuning(SMALL):
        run = curta.jit(f)
        return run_on_hosts(
            lambda host: [np.array(x) for x in run(*(a + host for a in args))], (0, 1)
        )


def test_memory_stays_until_the_collective_is_done():
    """Temporaries are not used again, and operands not updated in place, before."""

    def f(x):
        y = jnp.sin(x)
        total = TOTAL(y)
        z = y.at[3].set(7.0)
        for _ in range(4):
            z = jnp.cos(z @ z)
        return total, z

    x = normal(40, 40)
    want = np.sin(x) + np.sin(x + 1)
    for total, z in on_two_hosts(f, x):
        np.testing.assert_allclose(total, want, rtol=1e-5, atol=1e-6)
        assert np.isfinite(z).all()


def test_in_loops_and_branches():
    def f(x):
        def body(x, _):
            total = TOTAL(x)
            y = jnp.tanh(x @ x)
            return lax.cond(y[0, 0] > 2, lambda: TOTAL(y), lambda: total / 2), y

        return lax.scan(body, x, None, length=5)

    x = normal(8, 8) / 8
    a, b = x, x + 1
    ys = [[], []]
    for _ in range(5):
        total = (a + b) / 2
        for y, z in zip(ys, (a, b), strict=True):
            y.append(np.tanh(z @ z))
        a = b = total
    for (carry, rows), y in zip(on_two_hosts(f, x), ys, strict=True):
        np.testing.assert_allclose(carry, a, rtol=1e-5)
        np.testing.assert_allclose(rows, y, rtol=1e-4, atol=1e-6)


def test_a_step_of_training_on_hosts():
    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).sum()

    def step(*args):
        weights, x = args[:-1], args[-1]
        value, grads = curta.value_and_grad(loss)(list(weights), x)
        return value, *[w - 0.1 * g for w, g in zip(weights, grads, strict=True)]

    weights = [normal(16, 16) / 4 for _ in range(3)]
    specs = [P(), P(), P(), P("x")]
    with tuning(SMALL):
        found = check(step, [*weights, normal(16, 16)], mesh_of(x=8), specs, 4)
    assert found.count("host_reduce") == 4


def test_an_exception_between_forgets_what_was_begun():
    def stop(x):
        raise ValueError("stop")

    def f(x):
        total = TOTAL(x)
        y = curta.pure_callback(stop, curta.ShapeDtypeStruct(x.shape, x.dtype), x)
        return total, y

    with pytest.raises(curta.errors.JaxRuntimeError, match="stop"):
        on_two_hosts(f, np.ones(4, np.float32))
    a, b = on_two_hosts(lambda x: (TOTAL(x), x), np.ones(4, np.float32))
    np.testing.assert_array_equal(a[0], np.full(4, 3.0))


# ---- over TCP: in a thread


def start(engine, x):
    return engine.start(lambda: engine.all_reduce(everyone(engine), "sum", x))


def test_collectives_go_on_in_a_thread(together):
    def body(process):
        engine = process.engine
        numbers = [start(engine, np.full(1000, i)) for i in range(3)]
        between = engine.all_reduce(everyone(engine), "max", np.array(engine.index))
        return between, [engine.finish(n)[0] for n in numbers]

    assert together(2, body) == [(1, [0, 2, 4])] * 2


def test_a_compiled_program_over_tcp(together):
    def body(process):
        x = np.full((64, 64), process.index + 1, np.float32)
        with tuning(SMALL):
            return np.asarray(curta.jit(lambda x: TOTAL(x) + x @ x * 0)(x))[0, 0]

    assert together(2, body) == [3.0] * 2


def test_errors_come_where_the_result_is_wanted(together):
    def body(process):
        engine = process.engine
        if process.index:
            return engine.all_gather(everyone(engine), np.ones(3), 0)
        number = start(engine, np.ones(3))
        return engine.finish(number)

    for error in together(2, body):
        assert isinstance(error, HostsError)
        assert "hosts call different collectives" in str(error)


def test_nobody_touches_arrays_after_a_program_that_ended_early(together, monkeypatch):
    monkeypatch.setattr("curta.hosts.started._PATIENCE", 0.1)
    over = threading.Event()

    def body(process):
        engine = process.engine
        if process.index:
            return over.wait(30)
        start(engine, np.ones(300_000))
        engine.settle()
        assert not engine.started._jobs
        over.set()
        return engine.all_reduce(everyone(engine), "sum", np.ones(3))

    error, _ = together(2, body)
    assert isinstance(error, HostsError) and "ended in a collective" in str(error)


def test_settling_waits_for_what_ends_soon(together):
    def body(process):
        engine = process.engine
        start(engine, np.ones(300_000))
        engine.settle()
        return float(engine.all_reduce(everyone(engine), "sum", np.array(1.0)))

    assert together(2, body) == [2.0, 2.0]
