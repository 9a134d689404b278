"""Objects that exist once per process, and the rule that all are made by `once`."""

from __future__ import annotations

import os
import threading
import time

import pytest
from tests.runtime.test_threads import needs_fork, run_script

import curta
from curta._base.once import Interned, Lock, once, snapshot
from curta.compiler.support import entry, threads
from curta.core.mesh import AbstractMesh
from curta.core.mesh_scope import scope
from curta.core.partition_spec import PartitionSpec
from curta.runtime import devices, native_call, queue


def at_once(count, function):
    """The results of `function(i)` in threads that start together."""
    results, start = [None] * count, threading.Barrier(count)

    def run(i):
        start.wait()
        results[i] = function(i)

    running = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    return results


# ---- the decorator


def test_one_object_however_many_threads_come_first():
    made = []

    @once
    def slowly():
        made.append(None)
        time.sleep(0.05)
        return object()

    assert len(set(at_once(8, lambda i: slowly()))) == 1
    assert len(made) == 1


def test_one_object_for_each_argument():
    @once
    def slowly(name):
        time.sleep(0.02)
        return [name]

    found = at_once(8, lambda i: slowly(i % 2))
    assert [x[0] for x in found] == [i % 2 for i in range(8)]
    assert len({id(x) for x in found}) == 2


def test_a_maker_that_fails_is_called_again():
    outcomes = iter([OSError("not now"), 7])

    @once
    def sometimes():
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with pytest.raises(OSError, match="not now"):
        sometimes()
    assert sometimes() == sometimes() == 7


def test_a_signal_handler_that_comes_between_makes_no_second_object():
    calls = []

    @once
    def make():
        calls.append(None)
        if len(calls) == 1:
            inner.append(make())
        return object()

    inner: list[object] = []
    assert make() is inner[0]


@needs_fork
def test_a_child_does_not_wait_for_a_thread_that_it_has_not():
    script = """
import os, threading, time
from curta._base.once import Lock, cached_property, once, snapshot

lock, begun, forked = Lock(), threading.Event(), threading.Event()

@once
def make():
    if threading.current_thread() is not threading.main_thread():
        begun.set()
        forked.wait()
    return object()

class Maker:
    @cached_property
    def made(self):
        return make()

maker = Maker()

def hold():
    with lock:
        maker.made

thread = threading.Thread(target=hold)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    with lock:
        assert make() is make() is maker.made
    os._exit(7)
forked.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_script(script) == "7\n"


@needs_fork
def test_who_forks_while_holding_a_lock_holds_it_in_the_child():
    lock = Lock()
    with lock:
        child = os.fork()
        if child == 0:
            lock.release()
            os._exit(0 if not lock._is_owned() else 1)
    assert os.waitpid(child, 0)[1] == 0


class Slow:
    """A key that lets other threads run whenever it is looked for."""

    def __hash__(self):
        time.sleep(0.01)
        return 1

    def __eq__(self, other):
        return type(other) is Slow


class Value:
    pass


def test_equal_values_are_one_object_in_all_threads():
    table = Interned()
    assert len(set(at_once(6, lambda i: table.shared(Slow(), Value())))) == 1


def test_interned_values_go_with_their_last_user():
    table = Interned()
    table.shared("x", Value())
    assert table.get("x") is None


def test_a_snapshot_survives_changes():
    changes = iter([RuntimeError, None])

    class Changing:
        def __iter__(self):
            error = next(changes)
            yield 1
            if error:
                raise error("changed size during iteration")

    assert snapshot(Changing()) == [1]


# ---- what is made with it


def test_objects_of_the_runtime_are_the_same_in_all_threads():
    makers = [
        queue.queue, threads._pool, devices._cpu_devices, native_call._maker,
        entry._builtin_makers, lambda: devices.client("cpu"),
    ]  # fmt: skip
    for make in makers:
        found = at_once(4, lambda i, make=make: make())
        assert len({*map(id, found)}) == 1


def test_meshes_and_specs_are_the_same_in_all_threads():
    def made(i):
        spec = PartitionSpec(f"axis{time.monotonic_ns() >> 24}")
        return AbstractMesh((2,), spec[0]), spec

    found = at_once(8, made)
    assert len({id(x) for pair in found for x in pair}) == 2 * len({*found})


def blocks():
    [device] = curta.devices()[:1]
    return [
        (curta.sharding.Mesh([device], "x"), lambda: scope().resources is not None),
        (curta.enable_x64(True), lambda: curta.config.jax_enable_x64),
    ]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.filterwarnings("ignore:.with mesh:DeprecationWarning")
def test_a_block_that_two_threads_are_in_ends_for_each(which):
    block, inside = blocks()[which]
    entered, left = threading.Event(), threading.Event()
    seen = []

    def other():
        with block:
            with block:
                entered.set()
                left.wait(60)
            seen.append(inside())
        seen.append(inside())

    thread = threading.Thread(target=other)
    with block:
        thread.start()
        entered.wait(60)
    assert not inside()
    left.set()
    thread.join(60)
    assert seen == [True, False]


FIRST_LONG_CALLS = """
import threading, time
import numpy as np
import curta
from curta.runtime.queue import _Queue

made = []

def make_slowly(queue, make=_Queue.__init__):
    made.append(queue)
    time.sleep(0.1)
    make(queue)

_Queue.__init__ = make_slowly
COUNT = 4
x = np.ones(1 << 22, np.float32)  # so many bytes that nobody waits for the result
start, wrong = threading.Barrier(COUNT), []

def call(k):
    f = curta.jit(lambda x: x * 0.5 + (k + 0.5)).lower(x).compile()
    start.wait()
    y = f(x)
    z = f(y)
    if z.is_ready() and np.asarray(z)[-1] != 1.5 * k + 1:
        wrong.append((k, "ready"))
    for i, (array, right) in enumerate([(y, k + 1.0), (z, 1.5 * k + 1)]):
        if not (np.asarray(array) == right).all():
            wrong.append((k, i))

running = [threading.Thread(target=call, args=(k,)) for k in range(COUNT)]
for t in running: t.start()
for t in running: t.join()
print(len(made), "queue, wrong:", wrong)
"""


def test_first_long_calls_of_several_threads_with_nothing_in_the_cache(tmp_path):
    folder = str(tmp_path / "cache")
    output = run_script(FIRST_LONG_CALLS, CURTA_CACHE_DIR=folder)
    assert output == "1 queue, wrong: []\n"
