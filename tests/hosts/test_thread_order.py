"""Threads of processes that use the engine one after the other, over TCP."""

import dis
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import curta
from curta.hosts.engine import current, set_thread_engine
from curta.hosts.failures import HostsError
from curta.hosts.thread_order import ThreadOrder

from .test_tcp import everyone, together

__all__ = ["together"]


def total(engine, x):
    return engine.all_reduce(everyone(engine), "sum", np.array(x))


def in_thread(name, function, *args):
    """The result of a thread with this name, or its error."""
    found, engine = [], current()

    def run():
        set_thread_engine(engine)
        try:
            found.append(function(*args))
        except HostsError as error:
            found.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    return thread, found


def joined(name, function, *args):
    thread, found = in_thread(name, function, *args)
    thread.join()
    return found[0]


def test_threads_one_after_the_other(together):
    def body(process):
        engine = process.engine
        found = [total(engine, 1)]
        found += [joined(name, total, engine, 2) for name in ("a", "a", "b")]
        return [*found, total(engine, 3)]

    assert together(2, body) == [[2, 4, 4, 4, 6]] * 2


def test_threads_in_different_orders_are_refused(together):
    def body(process):
        first = "loads" if process.index else "trains"
        return joined(first, total, process.engine, 1)

    for error in together(2, body):
        assert isinstance(error, HostsError)
        assert "process 0 'trains', process 1 'loads'" in str(error)


def test_a_thread_is_refused_while_another_is_in_a_program(together):
    entered = [threading.Event(), threading.Event()]

    def body(process):
        engine, i = process.engine, process.index

        def run():
            entered[i].set()
            assert entered[1 - i].wait(30)
            error = joined("second", total, engine, 1)
            return str(error), total(engine, 1)

        return engine.in_thread_order((0, 1), run)

    for error, result in together(2, body):
        assert "thread 'second' runs a program over several processes while" in error
        assert result == 2


def test_after_a_refusal_the_order_is_asked_again(together):
    def body(process):
        engine = process.engine
        error = joined(f"thread {process.index}", total, engine, 1)
        return isinstance(error, HostsError), joined("same", total, engine, 1)

    assert together(2, body) == [(True, 2)] * 2


def test_pools_of_one_worker(together):
    def body(process):
        engine = process.engine

        def work(x):
            set_thread_engine(engine)
            return total(engine, x)

        with ThreadPoolExecutor(1, thread_name_prefix="loader") as pool:
            return list(pool.map(work, range(3)))

    assert together(2, body) == [[0, 2, 4]] * 2


def test_a_signal_at_any_time_leaves_the_engine_free():
    """Python looks for signals after calls, jumps back and where functions begin."""
    order = ThreadOrder(lambda members, own: np.stack([own] * len(members)))
    of_order = {f.__code__ for f in (ThreadOrder.run, ThreadOrder._agree)}
    left, before = 0, ""

    def trace(frame, event, arg):
        nonlocal left, before
        if frame.f_code not in of_order:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            looks = before.startswith(("CALL", "JUMP_BACKWARD", "RESUME"))
            before = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            left -= looks
            if looks and left == 0:
                raise KeyboardInterrupt
        return trace

    for at in range(1, 1000):
        left, before, tracer = at, "", sys.gettrace()
        sys.settrace(trace)
        try:
            order.run((0, 1), int)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(tracer)
        assert joined("other", order.run, (0, 1), int) == 0, at
        assert order.run((0, 1), int) == 0
        if not interrupted:
            break
    assert 8 < at < 999


def test_a_thread_that_comes_while_another_begins_is_refused(monkeypatch):
    order = ThreadOrder(lambda members, own: np.stack([own] * len(members)))
    current, begun = threading.current_thread, []

    def while_another_runs():
        """Between the look at who runs and the lock, another thread runs a program."""
        if not begun and current().name == "late":
            begun.append(True)
            joined("first", order.run, (0,), int)
        return current()

    monkeypatch.setattr(threading, "current_thread", while_another_runs)
    refused = joined("late", order.run, (0,), int)
    assert "thread 'late' runs a program over several processes while another" in str(
        refused
    )
    assert joined("late", order.run, (0,), int) == 0


def test_a_thread_guard_keeps_other_threads_out():
    """Of programs over several processes, as in JAX, not of its own."""
    order = ThreadOrder(lambda members, own: np.stack([own] * len(members)))

    def run(members=(0, 1)):
        return order.run(members, lambda: 1)

    def nested():
        with curta.thread_guard(True):
            return run()

    with curta.thread_guard(True):
        assert run() == 1
        with curta.thread_guard(True):
            assert run() == 1
            with curta.thread_guard(False):
                assert joined("other", run) == 1

        def without():
            with curta.thread_guard(False):
                return 1

        assert joined("other", without) == 1  # and the guard holds on
        error = joined("other", run)
        assert "thread guard was set in thread 'MainThread', and thread 'other'" in str(
            error
        )
        assert joined("other", run, (0,)) == 1
        with ThreadPoolExecutor(1) as executor:
            with pytest.raises(RuntimeError, match="Nested thread guards in different"):
                executor.submit(nested).result()
    assert joined("other", run) == 1
