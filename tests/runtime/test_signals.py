"""Ctrl-C: answered while native code runs or compiles, and everything stays usable."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
from tests.runtime.test_threads import run_script

import curta
import curta.numpy as jnp
from curta import lax
from curta.runtime import queue
from curta.runtime.executables import executable
from curta.signals import answering

needs_queue = pytest.mark.skipif(
    not queue.is_known_system(), reason="needs a thread of the queue's own"
)

# The signal comes while `run` is at it. How long it takes to be answered depends on
# the machine; it is much less than what `run` would take.
INTERRUPTED = """
import os, signal, threading, time
import numpy as np
import curta, curta.numpy as jnp
from curta import lax

{setup}

def interrupt():
    time.sleep(0.3)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

sent = []
threading.Thread(target=interrupt).start()
begin = time.monotonic()
try:
    run()
except KeyboardInterrupt:
    late = time.monotonic() - sent[0]
    print("interrupted" if late < 2 else f"after {{late}} s")
else:
    print(f"not interrupted in {{time.monotonic() - begin}} s")
assert curta.jit(lambda x: x + 1)(jnp.ones(3)).tolist() == [2, 2, 2]
assert float(jnp.sum(jnp.ones(3000, "int32"))) == 3000
os._exit(0)
"""

LOOP = """
def loop(x):
    return lax.fori_loop(0, 2_000_000_000, lambda i, y: y * 0.5 + 1.0, x)

f = curta.jit(loop).lower(np.float32(1)).compile()
"""
CASES = {
    "a loop": LOOP + "run = lambda: f(np.float32(1)).block_until_ready()",
    "a loop that is read": LOOP + "run = lambda: float(f(np.float32(1)))",
    "a call that is not queued": LOOP
    + "curta.config.update('jax_cpu_enable_async_dispatch', False)\n"
    + "run = lambda: f(np.float32(1))",
    "large arrays": """
f = curta.jit(lambda x: lax.fori_loop(0, 2000, lambda i, y: jnp.sin(y) + y, x))
x = jnp.ones(4_000_000)
f = f.lower(x).compile()
run = lambda: f(x).block_until_ready()
""",
    "many calls": """
f = curta.jit(lambda x: lax.fori_loop(0, 50, lambda i, y: jnp.sin(y) + y, x))
x = jnp.ones(4_000_000)
f = f.lower(x).compile()
def run():
    y = x
    while True:
        y = f(y)
""",
    "a decomposition": """
x = jnp.asarray(np.random.default_rng(0).normal(size=(3000, 3000)))
f = curta.jit(jnp.linalg.svd).lower(x).compile()
run = lambda: f(x)[1].block_until_ready()
""",
    "compiling": """
curta.config.update("jax_enable_compilation_cache", False)
def many(x):
    for i in range(20_000):
        x = jnp.sin(x) * (i + 0.5) + jnp.exp(x)
    return x
run = lambda: curta.jit(many)(np.ones(37, np.float32))
""",
}


@needs_queue
@pytest.mark.parametrize("case", CASES)
def test_an_interrupt_is_answered(case):
    assert run_script(INTERRUPTED.format(setup=CASES[case])) == "interrupted\n"


@needs_queue
def test_a_process_ends_though_an_interrupted_loop_does_not():
    endless = """
f = curta.jit(lambda x: lax.while_loop(lambda c: c < 2, lambda c: c * 0.5, x))
f = f.lower(np.float32(1)).compile()
run = lambda: f(np.float32(1)).block_until_ready()
"""
    script = INTERRUPTED.format(setup=endless).replace("os._exit(0)", "")
    assert run_script(script) == "interrupted\n"


@needs_queue
def test_with_a_single_thread_too():
    script = INTERRUPTED.format(setup=CASES["a loop"])
    assert run_script(script, CURTA_NUM_THREADS="1") == "interrupted\n"


def test_a_loop_over_many_elements_is_known_to_take_long():
    f = curta.jit(lambda x: lax.fori_loop(0, 99, lambda i, y: jnp.sin(y) + y, x))
    closed = f.trace(jnp.ones(100_000)).jaxpr
    assert executable(closed).program.cost > 99 * 100_000


def test_a_call_in_another_thread_gives_what_it_gives():
    assert answering(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        answering(divmod, 1, 0)
    found = []
    thread = threading.Thread(
        target=lambda: found.append(answering(threading.get_ident))
    )
    thread.start()
    thread.join()
    assert found != [threading.get_ident()]  # its own, which answers no signals


def test_a_handler_that_raises_ends_the_waiting():
    released = threading.Event()

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(TimeoutError):
            answering(released.wait, 20)
    finally:
        signal.signal(signal.SIGALRM, before)
        released.set()
    assert np.ones(1) == 1
