"""The worker pool: every chunk once, from any thread, nested, forked, and at exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from curta.compiler.support import threads

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


# A shell's background jobs ignore it, and what they start inherits that.
HEED_INTERRUPTS = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
)


def run_script(text, **environment):
    """Run a script in a process of its own; its output."""
    text = HEED_INTERRUPTS + text
    done = subprocess.run(
        # Python warns of any fork while there are threads.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100, 1000])
def test_every_chunk_runs_once(count):
    seen = []
    threads.parallel_for(seen.append, count)
    assert sorted(seen) == list(range(count))


def test_many_jobs_in_a_row():
    total = []
    for _ in range(200):
        threads.parallel_for(total.append, 4)
    assert len(total) == 800


def test_nested_jobs_run_inline():
    seen = []

    def outer(i):
        threads.parallel_for(lambda j: seen.append((i, j)), 5)

    threads.parallel_for(outer, 6)
    assert sorted(seen) == [(i, j) for i in range(6) for j in range(5)]


def test_jobs_of_several_python_threads():
    seen = [[] for _ in range(4)]

    def work(k):
        for _ in range(20):
            threads.parallel_for(seen[k].append, 10)

    callers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert all(sorted(s) == sorted(list(range(10)) * 20) for s in seen)


SHOW_THREADS = """
import threading, time
from curta.compiler.support import threads
ids = set()
def work(i):
    ids.add(threading.get_native_id())
    time.sleep(0.01)
threads.parallel_for(work, 64)
print(len(ids), threads.num_threads())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the pool is for Linux")
@pytest.mark.parametrize("count", ["1", "3", "16"])
def test_the_number_of_threads_can_be_set(count):
    assert run_script(SHOW_THREADS, CURTA_NUM_THREADS=count).split() == [count] * 2


STEP_BACK = """
import threading, time
from curta.compiler.support import threads
inside, over = threading.Event(), threading.Event()

def other():
    threads.parallel_for(lambda i: (inside.set(), over.wait(10)), 2)

second = threading.Thread(target=other)
caller, beside = threading.get_native_id(), []

def work(i):
    if i == 0:
        second.start()
    inside.wait(10)
    if threading.get_native_id() != caller:
        beside.append(i)
    time.sleep(0.001)

threads.parallel_for(work, 60)
over.set()
second.join()
print(len(beside))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the pool is for Linux")
def test_workers_leave_a_processor_to_each_thread_that_calls():
    # Two callers need both threads. The worker may have a chunk by then.
    assert int(run_script(STEP_BACK, CURTA_NUM_THREADS="2")) <= 1


def test_more_threads_than_processors_do_not_hang():
    script = """
from curta.compiler.support import threads
for _ in range(300):
    threads.parallel_for(lambda i: None, 40)
print("done")
"""
    start = time.monotonic()
    assert run_script(script, CURTA_NUM_THREADS="32") == "done\n"
    assert time.monotonic() - start < 30


@needs_fork
def test_a_forked_process_has_a_pool_of_its_own():
    script = """
import os
from curta.compiler.support import threads
seen = []
threads.parallel_for(seen.append, 50)
child = os.fork()
seen.clear()
for _ in range(20):
    threads.parallel_for(seen.append, 50)
assert sorted(seen) == sorted(list(range(50)) * 20)
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("done")
"""
    assert run_script(script, CURTA_NUM_THREADS="4") == "done\n"


def test_exit_is_silent_while_workers_spin():
    script = """
from curta.compiler.support import threads
threads.parallel_for(lambda i: None, 8)
"""
    for _ in range(3):
        assert run_script(script, CURTA_NUM_THREADS="4") == ""


def test_without_llvm_jobs_run_on_the_caller(monkeypatch):
    address, keep = threads._serial()
    monkeypatch.setattr(threads, "parallel_for_address", lambda: address)
    seen = []
    threads.parallel_for(seen.append, 7)
    assert seen == list(range(7)) and keep is not None
