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
from curta._base.signals import answering
from curta.runtime import queue
from curta.runtime.backends import executable

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
    begun.wait()  # on a busy machine a thread may take longer to start than it sleeps
    time.sleep(0.3)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

sent, begun = [], threading.Event()
threading.Thread(target=interrupt).start()
begin = time.monotonic()
try:
    begun.set()
    run()
except KeyboardInterrupt:
    late = time.monotonic() - sent[0]
    print("interrupted" if late < 2 else f"after {{late}} s", flush=True)
else:
    print(f"not interrupted in {{time.monotonic() - begin}} s", flush=True)
assert curta.jit(lambda x: x + 1)(jnp.ones(3)).tolist() == [2, 2, 2]
assert float(jnp.sum(jnp.ones(3000, "int32"))) == 3000
{then}
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
x = jnp.asarray(np.random.default_rng(0).normal(size=(3000, 3000)).astype("f4"))
f = curta.jit(jnp.linalg.svd).lower(x).compile()
run = lambda: f(x)[1].block_until_ready()
""",
    "a condition that may call Python": """
v = np.ones(5, np.float32)
asked = curta.ShapeDtypeStruct((), bool)
def seldom(c):
    ask = lambda c: curta.pure_callback(lambda a: np.asarray(a)[0] > -1, asked, c)
    return lax.cond(c[0] < 0, ask, lambda c: c[0] > -2, c)
f = curta.jit(lambda v: lax.while_loop(seldom, lambda c: jnp.sort(c)[::-1], v))
f = f.lower(v).compile()
run = lambda: f(v).block_until_ready()
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
    assert run_script(INTERRUPTED.format(setup=CASES[case], then="")) == "interrupted\n"


# A loop that was short, so that nobody expects it to be long; then it is endless.
SUDDENLY = """
def halves(x, until):
    return lax.while_loop(lambda c: c[0] > until, lambda c: (c[0] * 0.5, c[1]), (x, x))

def large(x, until):
    turn = lambda c: jnp.sort(c, axis=1) * 0.5
    return lax.while_loop(lambda c: c[0, 0] > until, turn, jnp.full((64, 99), x))

def fun(x, until):
    {body}

f = curta.jit(fun)
x, short, endless = jnp.ones({shape}), jnp.full({shape}, 0.5), jnp.full({shape}, -1.0)
for _ in range(3):
    f(x, short)
run = lambda: curta.block_until_ready(f(x, endless))
"""
SUDDEN_LOOPS = {
    "numbers": "return halves(x, until)",
    "arrays": "return large(x, until)",
    "in a loop": """
    return lax.fori_loop(0, 3, lambda i, c: halves(x, until)[0] + c, x)""",
    "in a loop over arrays": """
    return lax.fori_loop(0, 3, lambda i, c: large(x, until) + c, large(x, x))""",
    "in a branch": """
    return lax.cond(until < 2, lambda: large(x, until), lambda: jnp.ones((64, 99)))""",
    "a loop around a short one": """
    turn = lambda c: c * halves(c * 0 + 1.0, 0.25)[0]
    return lax.while_loop(lambda c: c > until, turn, x)""",
    "after a callback": """
    curta.debug.callback(lambda x: None, x)
    return halves(x, until)""",
    "over arrays after a callback": """
    curta.debug.callback(lambda x: None, x)
    return large(x, until)""",
}


def ended(setup, then="f(x, short)"):
    """Whether `run` was interrupted, and the process came to its end."""
    script = INTERRUPTED.format(setup=setup, then=then).replace("os._exit(0)", "")
    return run_script(script) == "interrupted\n"


@pytest.mark.parametrize("case", SUDDEN_LOOPS)
def test_a_loop_that_suddenly_is_endless_is_cancelled(case):
    assert ended(SUDDENLY.format(body=SUDDEN_LOOPS[case], shape=()))


@pytest.mark.parametrize("endless", [0, -1])
def test_one_of_many_examples_is_endless(endless):
    """Also if that runs in a thread of the pool, which answers no signals."""
    setup = SUDDENLY.format(body="return curta.vmap(halves)(x, until)", shape=4000)
    assert ended(f"{setup}\nendless = short.at[{endless}].set(-1.0)")


@needs_queue
def test_queued_work_that_was_interrupted_ends():
    """An endless loop in the queue would keep all that is queued later waiting."""
    setup = SUDDENLY.format(body="return halves(x, until)[0]", shape=())
    setup += """
slow = curta.jit(lambda x: lax.fori_loop(0, 30_000_000, lambda i, y: y + 1.0, x))
run = lambda: f(slow(x), endless).block_until_ready()
"""
    then = "assert float(slow(x)) == 2**24 and float(f(slow(x), short)) <= 0.5"
    assert ended(setup, then)


def test_other_handlers_run_and_the_loop_goes_on():
    script = """
import os, signal, threading, time
import curta, curta.numpy as jnp
from curta import lax
f = curta.jit(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 1, 0))
for _ in range(3):
    f(5)
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(int(f(5))))
threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
print(f(2_000_000_000), seen)
"""
    assert run_script(script) == "2000000000 [5]\n"


@needs_queue
def test_a_process_ends_though_an_interrupted_loop_does_not():
    endless = """
f = curta.jit(lambda x: lax.while_loop(lambda c: c < 2, lambda c: c * 0.5, x))
f = f.lower(np.float32(1)).compile()
run = lambda: f(np.float32(1)).block_until_ready()
"""
    script = INTERRUPTED.format(setup=endless, then="").replace("os._exit(0)", "")
    assert run_script(script) == "interrupted\n"


@needs_queue
def test_with_a_single_thread_too():
    script = INTERRUPTED.format(setup=CASES["a loop"], then="")
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
