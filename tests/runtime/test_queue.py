"""The queue: long calls return at once; reading a result waits for it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest
from tests.runtime.test_threads import needs_fork, run_script

import curta
import curta.numpy as jnp
from curta import lax
from curta._base.once import has_gil
from curta.compiler.support.cancellation import CancellationToken
from curta.errors import JaxRuntimeError
from curta.runtime import queue
from curta.runtime.array import wrap

needs_queue = pytest.mark.skipif(not queue.is_available(), reason="needs threads")
TURNS = 6_000_000
HOLD = """
import ctypes, threading
from curta.compiler.support.cancellation import CancellationToken
from curta.runtime import queue

class Hold:
    # A job that is not done, nor any after it, until it is released.
    def __init__(self):
        self.begun, self.released = threading.Event(), threading.Event()
        self.call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.run)
        address = ctypes.cast(self.call, ctypes.c_void_p).value
        call = queue.QueuedCall(None, CancellationToken(), (), self)
        queue.queue().submit(address, b"", 0, call)

    def run(self, _):
        self.begun.set()
        self.released.wait()

    def release_soon(self):
        threading.Timer(0.02, self.released.set).start()
"""
exec(HOLD)


@curta.jit
def slowly(x):
    """x + TURNS / 8, after a while."""
    return lax.fori_loop(0, TURNS, lambda i, y: y + 0.125, x)


@curta.jit
def double(x):
    return 2.0 * x


START = np.float64(0.0)
DONE = TURNS / 8


@pytest.fixture(autouse=True)
def wide_numbers():
    with curta.enable_x64(True):
        slowly(START).block_until_ready()
        double(jnp.float64(1)).block_until_ready()
        yield


@pytest.fixture
def hold():
    job = Hold()  # noqa: F821
    yield job
    job.released.set()


@needs_queue
def test_a_long_call_returns_before_it_is_done(hold):
    y = slowly(START)
    assert not y.is_ready()
    assert not y.is_deleted()
    assert (y.shape, y.dtype) == ((), np.float64)
    hold.release_soon()
    assert y.block_until_ready() is y
    assert y.is_ready()
    assert y == DONE


@needs_queue
def test_calls_on_results_that_are_not_there_wait_in_the_queue_too(hold):
    y = slowly(START)
    z = double(slowly(y))
    assert not z.is_ready()
    hold.release_soon()
    assert z.block_until_ready() == 4 * DONE
    assert y.is_ready()


@needs_queue
@pytest.mark.parametrize(
    "read",
    [
        np.asarray,
        float,
        lambda y: y + 0,
        lambda y: y[None][0],
        lambda y: np.from_dlpack(y),
        lambda y: pickle.loads(pickle.dumps(y)),
        lambda y: float(str(y)),
        lambda y: y.at[()].set(y),
        lambda y: jnp.where(y > 0, y, 0),
        lambda y: y.item(),
        lambda y: curta.device_put(y),
        lambda y: curta.jit(lambda: y)(),
    ],
)
def test_reading_waits(read, hold):
    y = slowly(START)
    assert not y.is_ready()
    hold.release_soon()
    assert read(y) == DONE


@needs_queue
def test_a_result_may_be_dropped_before_it_is_there(hold):
    y = slowly(START)
    z = double(y)
    y.delete()
    assert y.is_deleted()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        y.is_ready()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        np.asarray(y)
    gc.collect()
    unrelated = [jnp.full((), k, jnp.float64) for k in range(100)]
    hold.release_soon()
    assert z == 2 * DONE
    assert [float(x) for x in unrelated] == list(range(100))


@needs_queue
@pytest.mark.parametrize("read", [np.asarray, double, lambda x: x + 1])
def test_reading_what_another_thread_donates(read, hold, monkeypatch):
    """The reader comes between the look for readers and the job that overwrites."""
    f = curta.jit(lambda x: x * 0.0 - 1.0, donate_argnums=0)
    expected = np.asarray(read(jnp.full(5, DONE)))
    f(jnp.zeros(5)).block_until_ready()
    y = slowly(jnp.zeros(5))
    seen = wrap(y._buffer(), y.aval)  # as a reader sees it that has begun
    found = []

    def reader():
        try:
            with curta.enable_x64(True):
                found.append(np.asarray(read(seen)))
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=reader)
    given = queue.is_last_reference

    def looked(*args):
        alone = given(*args)
        hold.released.set()
        thread.start()
        thread.join()
        return alone

    monkeypatch.setattr(queue, "is_last_reference", looked)
    z = f(y)
    assert (np.asarray(z) == -1).all()
    if isinstance(found[0], str):
        assert found[0] == "Array has been deleted with shape=float64[5]."
    else:
        np.testing.assert_array_equal(found[0], expected)


@needs_queue
@pytest.mark.skipif(not has_gil(), reason="donated memory is not used again")
def test_what_is_donated_twice_at_once_is_taken_once(hold):
    y = slowly(jnp.zeros(5))
    place = y._pending
    assert place.donate()
    assert not place.donate()
    with pytest.raises(RuntimeError, match=r"deleted with shape=float64\[5\]"):
        place.memory()
    place.take_back()
    hold.release_soon()
    assert (np.asarray(y) == DONE).all()


@needs_queue
def test_the_setting_turns_it_off():
    curta.config.update("jax_cpu_enable_async_dispatch", False)
    try:
        assert slowly(START).is_ready()
    finally:
        curta.config.update("jax_cpu_enable_async_dispatch", True)


@needs_queue
def test_an_argument_in_numpy_may_change_after_the_call(hold):
    x = np.zeros(4, np.float32)
    f = curta.jit(lambda x: lax.fori_loop(0, TURNS // 4, lambda i, y: y + 1.0, x))
    y = f(x)
    x[:] = -1
    hold.release_soon()
    assert (np.asarray(y) == TURNS // 4).all()


@needs_queue
def test_large_numpy_arguments_are_read_where_they_are():
    f = curta.jit(lambda x: jnp.sin(x).sum())
    x = np.zeros(5_000_000, np.float32)
    assert f(x).is_ready()
    assert not f(jnp.asarray(x)).is_deleted()


def test_many_short_results_in_a_row():
    f = curta.jit(lambda x: lax.fori_loop(0, 100_000, lambda i, y: y + 1.0, x))
    x = START
    for _ in range(100):  # more than there is room for
        x = f(x)
    assert x == 100 * 100_000


@needs_queue
def test_large_eager_operators_are_queued():
    x = jnp.ones((1000, 1000), jnp.float32)
    x.block_until_ready()
    hold = Hold()  # noqa: F821
    z = x @ x
    assert not z.is_ready()
    hold.release_soon()
    assert (np.asarray(z) == 1000).all()
    z = (x @ x) * jnp.float32(slowly(START))
    assert (np.asarray(z) == np.float32(1000 * DONE)).all()


@needs_queue
def test_calls_with_many_arrays_are_queued_if_they_take_as_much_longer():
    def asked(count, size):
        f = curta.jit(lambda xs: [x + 1 for x in xs])
        xs = [jnp.ones(size, jnp.float32) for _ in range(count)]
        curta.block_until_ready(f(xs))
        hold = Hold()  # noqa: F821
        ready = f(xs)[-1].is_ready()
        hold.release_soon()
        return not ready

    assert asked(1, 2_500_000)
    assert not asked(100, 25_000)
    assert asked(100, 250_000)


@needs_queue
def test_loops_of_unknown_length_are_judged_by_their_last_call():
    f = curta.jit(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 1, 0))
    few, many = jnp.asarray(10), jnp.asarray(50_000_000)
    assert f(few).is_ready()
    assert f(many).is_ready()
    hold = Hold()  # noqa: F821
    y = f(many)
    assert not y.is_ready()
    hold.release_soon()
    assert y == 50_000_000


@needs_queue
def test_callbacks_see_results_and_keep_their_order():
    seen = []

    @curta.jit
    def report(x):
        curta.debug.callback(lambda v: seen.append(float(v)), x, ordered=True)

    report(slowly(START))
    report(START)
    curta.effects_barrier()
    assert seen == [DONE, 0.0]


class InterruptedAt:
    """Raise KeyboardInterrupt before the n-th instruction of a function's frame."""

    def __init__(self, function, n):
        self.code, self.left, self.reached = function.__code__, n, False

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)

    def __exit__(self, *error):
        sys.settrace(self.before)

    def trace(self, frame, event, arg):
        if frame.f_code is not self.code:
            return None
        frame.f_trace_opcodes = True
        self.left -= event == "opcode"
        if self.left < 0 and not self.reached:
            self.reached = True
            raise KeyboardInterrupt
        return self.trace


@needs_queue
def test_a_job_has_what_it_needs_wherever_its_submission_is_interrupted():
    class Kept:
        pass

    jobs = queue.queue()
    gc.collect()
    gc.freeze()  # so that collections are short
    for n in itertools.count():
        kept, there = Kept(), []
        ref = weakref.ref(kept)
        hold = Hold()  # noqa: F821
        job = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            lambda _, ref=ref, there=there: there.append(ref() is not None)
        )
        address = ctypes.cast(job, ctypes.c_void_p).value
        interrupted = InterruptedAt(type(jobs).submit, n)
        with contextlib.suppress(KeyboardInterrupt), interrupted:
            jobs.submit(
                address, b"", 0, queue.QueuedCall(None, CancellationToken(), (), kept)
            )
        # Between some bytecodes, where Python looks at no signals, `with` is left open.
        while jobs._lock._is_owned():
            jobs._lock.release()
        del kept
        gc.collect()
        hold.released.set()
        jobs.wait_for_all()
        jobs.forget()
        assert not jobs._jobs, n
        assert all(there), n
        if not interrupted.reached:
            break
    assert there and n > 20


def test_checks_of_results_are_not_put_off():
    x = jnp.full((5_000_000,), np.inf, jnp.float32)
    with curta.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        curta.jit(lambda x: x - x)(x)


def test_several_python_threads():
    """Each has its own chain of long and short calls, and drops what it read."""
    f = curta.jit(lambda x: lax.fori_loop(0, 200_000, lambda i, y: y + 1.0, x))
    found = {}

    def work(k):
        with curta.enable_x64(True):
            x = jnp.full((3,), k, jnp.float64)
            for step in range(30):
                x = f(x)
                if step % 5 == k % 5:
                    x = double(x) / 2
            found[k] = np.asarray(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {k: v.tolist() for k, v in found.items()} == {
        k: [k + 30 * 200_000.0] * 3 for k in range(6)
    }


SLOW = f"""
import curta, os, signal, sys, threading
from curta import lax
f = curta.jit(lambda x: lax.fori_loop(0, {4 * TURNS}, lambda i, y: y + 1.0, x))
"""


@needs_queue
def test_the_process_ends_when_all_is_done():
    assert run_script(SLOW + "f(0.0); print('end')") == "end\n"


@needs_queue
@needs_fork
def test_a_forked_process_has_what_was_queued_and_a_queue_of_its_own():
    script = """
y = f(0.0)
child = os.fork()
z = f(y)
if child:  # one prints after the other
    os.waitpid(child, 0)
print(float(y) == 2.0**24 and float(z) == 2.0**24, flush=True)
"""
    assert run_script(SLOW + script) == "True\nTrue\n"


@needs_queue
@needs_fork
def test_a_wait_can_be_interrupted():
    script = """
hold = Hold()
y = f(0.0)
hold.begun.wait()
threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    y.block_until_ready()
    print("not interrupted")
except KeyboardInterrupt:
    print(y.is_ready())
hold.released.set()
try:
    float(y)
except curta.errors.JaxRuntimeError as error:
    print(error)
print(float(f(0.0)) == 2.0**24)
"""
    words = "CANCELLED: the computation of an array with shape=float32[] was"
    expected = f"False\n{words} interrupted by a signal.\nTrue\n"
    assert run_script(HOLD + SLOW + script) == expected


@needs_queue
def test_what_needs_a_cancelled_result_is_cancelled_too(hold, monkeypatch):
    """Of another thread as well, whose own work goes on."""
    y = slowly(START)
    found = {}

    def other():
        with curta.enable_x64(True):
            found.update(own=slowly(START + 1), theirs=double(y))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    later = double(double(y))
    moved = slowly(START)
    given = curta.jit(lambda x: x + 1, donate_argnums=0)(moved)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(queue.queue(), "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        later.block_until_ready()
    monkeypatch.undo()
    for array in (y, found["theirs"], later, given):
        with pytest.raises(JaxRuntimeError, match="CANCELLED"):
            np.asarray(array)
    for use in (double, lambda y: y + 1, lambda y: y[None]):
        with pytest.raises(JaxRuntimeError, match="CANCELLED"):
            use(y)
    assert moved.is_deleted()
    assert not y.is_deleted()
    hold.release_soon()
    assert float(found["own"]) == DONE + 1
    assert float(slowly(START)) == DONE


@needs_queue
def test_what_was_donated_stays_if_an_argument_was_cancelled(hold, monkeypatch):
    add = curta.jit(lambda x, y: (x + 1, y + 1), donate_argnums=(0, 1))
    y, x = slowly(jnp.zeros(3)), jnp.ones(3)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(queue.queue(), "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        y.block_until_ready()
    monkeypatch.undo()
    hold.release_soon()
    with pytest.raises(JaxRuntimeError, match="CANCELLED"):
        add(x, y)
    assert x.tolist() == [1, 1, 1]
