"""Arrays and calls where Python has no global interpreter lock.

The programs run in a process that says so before it imports Curta; on a free-threaded
build it is true. `make stress-threads` and `make test-pythons` test such builds.
"""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

from curta.core.leases import LeasedBlock, Leases

PREAMBLE = """
import sys, threading
sys._is_gil_enabled = lambda: False
import numpy as np
import curta
import curta.numpy as jnp
"""

LEASES = """
from curta.core import buffers
make = buffers.allocator((100_000,), np.dtype(np.float32))
x = make()
view, address = x[5:], x.ctypes.data
del x
y = make()
assert y.ctypes.data != address  # a view is enough to hold it
del view
assert make().ctypes.data == address
assert buffers.idle_bytes() >= 400_000
buffers.trim()
assert buffers.idle_bytes() == 0
print("right")
"""

DONATION = """
f = curta.jit(lambda x: x * 2, donate_argnums=0)
for n in (10, 100_000):
    x = jnp.ones(n)
    seen = np.asarray(x)
    out = f(x)
    assert x.is_deleted() and (seen == 1).all() and (np.asarray(out) == 2).all()
print("right")
"""

THREADS = """
@curta.jit
def step(x):
    return jnp.tanh(x) @ x.T, x.sum()

expected = [np.asarray(step(jnp.full((n, 40), 0.5))[0]) for n in range(2, 10)]
start, wrong = threading.Barrier(16), []

def work(seed):
    start.wait()
    kept = []
    for i in range(40):
        n = 2 + (seed + i) % 8
        x = jnp.full((n, 40), 0.5)
        product, total = step(x)
        fresh = curta.jit(lambda x: (x + seed) * i)(x)
        kept = [*kept[-5:], (n, product, fresh, seed, i)]
        for n, product, fresh, s, k in kept:
            if not (np.asarray(product) == expected[n - 2]).all():
                wrong.append((s, k, "product"))
            if not (np.asarray(fresh) == np.float32((0.5 + s) * k)).all():
                wrong.append((s, k, "fresh"))
        large = curta.numpy.arange(30_000.0) + seed
        if float(large[-1]) != 29_999 + seed:
            wrong.append((seed, i, "large"))

threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong, wrong[:5]
print("right")
"""


@pytest.mark.parametrize("program", [LEASES, DONATION, THREADS])
def test_without_the_lock(program):
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + program],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.split() == ["right"], done.stderr[-2000:]


def make_leases():
    def make(size):
        return np.empty(size, np.uint8).view(LeasedBlock)

    return Leases(make, lambda size: size)


def test_a_lease_returns_when_the_last_view_is_gone():
    leases = make_leases()
    array = np.ndarray((25,), np.float32, leases.take(100))
    view = memoryview(array[::2])
    del array
    gc.collect()
    assert leases.idle() == 0
    del view
    gc.collect()
    assert leases.idle() == 100


def test_a_fitting_lease_is_at_most_twice_as_large():
    leases = make_leases()
    leases.take(100), leases.take(300)
    assert leases.idle() == 400
    assert leases.take_fitting(120).size == 120  # 100 is too small, and goes
    assert leases.idle() == 420
    assert leases.take_fitting(150).size == 300


def test_threads_never_share_a_lease():
    leases, wrong = make_leases(), []

    def work(mark):
        for _ in range(300):
            lease = leases.take(64)
            lease[:] = mark
            if not (lease == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
