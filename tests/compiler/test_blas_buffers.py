"""Calls of LAPACK at once: near the limit of memory, many of them, while forking."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.library import blas
from curta.config import async_dispatch

pytestmark = pytest.mark.skipif(
    blas.location() is None or sys.platform != "linux", reason="OpenBLAS on Linux"
)

FUNCTIONS = {
    "cholesky": jnp.linalg.cholesky,
    "qr": lambda x: jnp.linalg.qr(x)[1],
    "lu": lambda x: lax.linalg.lu(x)[0],
    "solve": lambda x: jnp.linalg.solve(x, x[..., :3]),
    "svd": lambda x: jnp.linalg.svd(x)[1],
    "eigh": lambda x: jnp.linalg.eigh(x)[0],
    "schur": lambda x: curta.scipy.linalg.schur(x)[0],
    "hessenberg": lambda x: lax.linalg.hessenberg(x)[0],
    "dot": lambda x: (1j * x) @ (x + 2j),
}


def matrices(*shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return jnp.asarray(x @ x.mT + shape[-1] * np.eye(shape[-1], dtype=np.float32))


def test_no_call_has_more_than_one_buffer():
    x = matrices(120, 120)
    with async_dispatch(False):
        compiled = {name: curta.jit(f) for name, f in FUNCTIONS.items()}
        expected = {name: np.asarray(f(x)) for name, f in compiled.items()}

        def work(start):
            for i in range(2 * len(compiled)):
                name = [*compiled][(start + i) % len(compiled)]
                same = np.array_equal(compiled[name](x), expected[name])
                wrong.extend([] if same else [name])

        wrong = []
        threads = [threading.Thread(target=work, args=[i]) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    buffers = blas.buffers()
    assert 0 < buffers.wanted <= buffers.permits


LIMITED = """
import contextlib, resource, sys, threading
import numpy as np
from tests.compiler.test_blas_buffers import FUNCTIONS, matrices
import curta
import curta.numpy as jnp
from curta.compiler.library import blas
from curta.errors import OutOfMemoryError

def limit(room):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20),) * 2)

at_load, later = map(int, sys.argv[1:])
x = matrices(12, 150, 150)
jnp.sin(jnp.ones(3_000_000)).sum().block_until_ready()  # the threads of the pool
if at_load:
    limit(at_load)
names = ["cholesky", "svd", "qr", "eigh"]
runs = {n: curta.jit(FUNCTIONS[n]).lower(x).compile() for n in names}
permits = blas.buffers().permits
assert 1 <= permits <= 3 if at_load else permits > 7, permits
ready, go, outcomes = threading.Barrier(5), threading.Barrier(5), []
first_use = threading.Lock()

def work(name):
    # The C library ends a process that has no memory for the thread-local data of a
    # library which a thread uses for the first time: that comes before the limit, or
    # while no other thread takes memory.
    with first_use, contextlib.suppress(OutOfMemoryError):
        runs[name](x)
    ready.wait()
    go.wait()
    for _ in range(2):
        try:
            outcomes.append((name, np.asarray(runs[name](x))))
        except OutOfMemoryError:
            outcomes.append((name, None))

threads = [threading.Thread(target=work, args=[n]) for n in names]
for thread in threads:
    thread.start()
ready.wait()
if not at_load:
    limit(later)
go.wait()
for thread in threads:
    thread.join()
resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
values = np.linalg.eigvalsh(np.asarray(x)[0].astype(float))
for name, out in outcomes:
    if out is not None and name == "eigh":
        np.testing.assert_allclose(out[0], values, rtol=1e-4)
    if out is not None and name == "svd":
        np.testing.assert_allclose(out[0], values[::-1], rtol=1e-4)
assert len(outcomes) == 8
"""


@pytest.mark.parametrize(("at_load", "later"), [(0, 20), (200, 0)])
def test_calls_at_once_near_the_limit(at_load, later):
    """Right results or OutOfMemoryError; the library would end the process."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(at_load), str(later)],
        timeout=300,
        # One heap for all threads: those of each would take what is left of addresses.
        env={**os.environ, "CURTA_NUM_THREADS": "7", "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


FORKED = """
import os, signal, threading
import numpy as np
from tests.compiler.test_blas_buffers import FUNCTIONS, matrices
import curta
from curta.config import async_dispatch

x, stop = matrices(100, 100), False
compiled = [curta.jit(FUNCTIONS[name]) for name in ("cholesky", "qr", "dot")]
with async_dispatch(False):
    expected = [np.asarray(f(x)) for f in compiled]

def work(f):
    with async_dispatch(False):
        while not stop:
            f(x)

def child():
    signal.alarm(30)
    with async_dispatch(False):
        right = map(np.array_equal, [f(x) for f in compiled], expected)
    os._exit(0 if all(right) else 1)

threads = [threading.Thread(target=work, args=[f]) for f in compiled]
for thread in threads:
    thread.start()
try:
    for _ in range(10):
        process = os.fork()
        if not process:
            child()
        assert os.waitpid(process, 0)[1] == 0
finally:
    stop = True
"""


def test_a_fork_while_other_threads_call():
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED],
        timeout=300,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
