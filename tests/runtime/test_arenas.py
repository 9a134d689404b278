"""The memory of temporaries: one pool for all programs, and errors where it ends."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta._base.once import has_gil
from curta.compiler.support.arenas import _arenas
from curta.config import async_dispatch
from curta.core import buffers
from curta.errors import OutOfMemoryError
from curta.runtime.backends import executable


def program(n, scale=1.0):
    """A function of a scalar with 8n bytes of temporaries."""
    return lambda s: jnp.flip(jnp.cumsum(jnp.arange(n) * s)).at[::2].add(scale).sum()


def in_loop(n):
    return lambda s: lax.fori_loop(0, 3, lambda i, s: program(n)(s) * 1e-12, s)


def in_branch(n):
    return lambda s: lax.cond(s > 0, program(n), program(n, 2.0), s)


def in_parts(n):
    """A loop over rows that are cut into parts, whose bodies need arenas."""
    rows = n // 1000

    def fun(s):
        def step(c, x):
            return jnp.cumsum(jnp.sort(c, 1), 1) * 1e-3 + x, None

        start = jnp.full((rows, 1000), s)
        return lax.scan(step, start, jnp.arange(8.0))[0].sum()

    return fun


def in_python(n):
    """A program with a step in Python between native ones."""

    def fun(s):
        shape = curta.ShapeDtypeStruct((), np.float32)
        half = curta.pure_callback(lambda x: np.float32(x / 2), shape, program(n)(s))
        return program(n)(half)

    return fun


PROGRAMS = [program, in_loop, in_branch, in_parts, in_python]


@pytest.fixture
def limited(monkeypatch):
    """Sets the largest piece of memory that the system gives from now on."""
    buffers.trim()
    given = buffers.from_system

    def limit(most):
        def from_system(size):
            if size > most:
                raise MemoryError
            return given(size)

        monkeypatch.setattr(buffers, "from_system", from_system)

    yield limit
    buffers.trim()


@pytest.mark.parametrize("make", PROGRAMS)
@pytest.mark.parametrize("queued", [False, True])
def test_want_of_memory_is_an_error_and_no_more(make, queued, limited):
    """In every way of calling, also once the fast ways are made; then all goes on."""
    fun = make(300_000)
    x = jnp.float32(1)
    with async_dispatch(queued):
        calls = [curta.jit(fun), curta.jit(fun).lower(x).compile(), curta.jit(fun)]
        for call in calls[:2]:
            expected = [call(x).tolist() for _ in range(3)][0]
        buffers.trim()
        limited(1 << 20)
        for call in calls:
            for _ in range(3):
                with pytest.raises(
                    OutOfMemoryError, match="RESOURCE_EXHAUSTED: Out of"
                ):
                    call(x)
        limited(1 << 40)
        for call in calls:
            assert call(x).tolist() == expected


@pytest.mark.parametrize("make", PROGRAMS[:4])
@pytest.mark.parametrize("queued", [False, True])
def test_a_call_that_did_not_run_leaves_what_was_donated(make, queued, limited):
    fun = make(300_000)
    given = jnp.arange(300_000, dtype=jnp.float32)

    def step(x, y):
        return x + fun(y).sum()

    with async_dispatch(queued):
        call = curta.jit(step, donate_argnums=0)
        expected = [np.asarray(call(given.copy(), jnp.float32(1))) for _ in range(2)][0]
        x, y = given.copy(), jnp.float32(1)
        buffers.trim()
        limited(1 << 20)
        for _ in range(3):
            with pytest.raises(OutOfMemoryError):
                call(x, y)
        limited(1 << 40)
        np.testing.assert_array_equal(x, given)
        at = x.unsafe_buffer_pointer()
        out = call(x, y)
        assert x.is_deleted()
        np.testing.assert_array_equal(out, expected)
        # Without the GIL memory of donated arrays is not used in place.
        assert out.unsafe_buffer_pointer() == at or not has_gil()


def test_no_room_for_the_copy_of_what_was_donated(limited):
    call = curta.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1))
    a, b = jnp.arange(5.0), jnp.arange(600_000.0)
    seen = np.asarray(b)  # so that `b` must be copied
    call(a.copy(), b.copy())
    buffers.trim()
    limited(1 << 20)
    with pytest.raises(OutOfMemoryError):
        call(a, b)
    limited(1 << 40)
    assert not a.is_deleted()
    np.testing.assert_array_equal(b, seen)


def test_the_error_names_the_bytes(limited):
    fun = curta.jit(program(300_000))
    x = jnp.float32(1)
    size = fun.lower(x).compile().memory_analysis().temp_size_in_bytes
    assert size > 2_400_000
    limited(1 << 20)
    with pytest.raises(OutOfMemoryError) as caught:
        fun(x)
    named = int(str(caught.value).split("allocating ")[1].split(" ")[0])
    assert size <= named <= size + 64


def test_idle_memory_makes_room_before_a_call_fails(monkeypatch):
    buffers.trim()
    given, held = buffers.from_system, []

    def from_system(size):
        if size > 1 << 20 and buffers.idle_bytes():
            held.append(buffers.idle_bytes())
            raise OSError
        return given(size)

    dead = buffers.empty((2_000_000,), np.float32)
    del dead
    monkeypatch.setattr(buffers, "from_system", from_system)
    assert buffers.empty((5_000_000,), np.float32).size == 5_000_000
    assert held


LIMITED = """
import resource
import curta
import curta.numpy as jnp
from curta.errors import OutOfMemoryError

x = jnp.ones(14_000_000)
fun = curta.jit(lambda x: jnp.flip(jnp.cumsum(x)).at[::2].add(1.0).sum())
run = fun.lower(x).compile()
assert run.memory_analysis().temp_size_in_bytes > 100_000_000
expected = float(run(x))
curta.core.buffers.trim()
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (20 << 20), limits[1]))
for call in (run, fun, fun):
    try:
        call(x).block_until_ready()
        raise SystemExit("no error")
    except OutOfMemoryError as error:
        assert isinstance(error, curta.errors.JaxRuntimeError)
        assert "RESOURCE_EXHAUSTED: Out of memory allocating" in str(error)
resource.setrlimit(resource.RLIMIT_AS, limits)
assert float(run(x)) == float(fun(x)) == expected
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs limits of Linux")
def test_a_process_that_may_not_grow_gets_an_error():
    done = subprocess.run([sys.executable, "-c", LIMITED], timeout=300)
    assert done.returncode == 0


MANY = """
import curta
import curta.numpy as jnp
from curta.config import async_dispatch
from curta.core import buffers

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def run(n):
    fun = lambda s: jnp.flip(jnp.cumsum(jnp.arange(n) * s)).at[::2].add(1.0).sum()
    fun = curta.jit(fun)
    kept.append(fun)
    for _ in range(2):
        fun(jnp.float32(1)).block_until_ready()

kept = []
sizes = [4_000_000 + i % 3 * 1_000_000 + i * 1000 for i in range(10)]
run(max(sizes))
one = resident()
for n in sizes:
    run(n)
many = resident()
assert many < one + (30 << 20), (one, many)
assert buffers.idle_bytes() < 60 << 20
buffers.trim()
assert buffers.idle_bytes() == 0
assert resident() < many - (40 << 20), (many, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_programs_take_the_memory_of_one():
    done = subprocess.run([sys.executable, "-c", MANY], timeout=300)
    assert done.returncode == 0


def small_program(n):
    x = np.ones(n, np.float32)
    run = executable(
        curta.make_jaxpr(lambda x: jnp.flip(jnp.cumsum(x)).at[::2].add(1.0).sum())(x)
    )
    assert run.program.arena_bytes >= 4 * n
    return run, x


def test_programs_share_the_arena():
    buffers.trim()
    runs = [small_program(n) for n in (20_000, 60_000, 40_000, 30_000)]
    for run, x in runs * 3:
        run(x)
    (arena,) = _arenas()._blocks.values()
    assert 240_000 <= arena.size <= 2 * 300_000
    before = _arenas()._parked.value
    for run, x in runs * 3:
        run(x)
        assert _arenas()._parked.value == before
    buffers.trim()
    assert not _arenas()._blocks and _arenas()._parked.value is None


def test_threads_have_arenas_of_their_own():
    runs = [small_program(n) for n in (30_000, 100_000, 300_000)]
    expected = [run(x)[0].tolist() for run, x in runs]
    wrong = []

    def work(first):
        for i in range(60):
            run, x = runs[(first + i) % 3]
            if run(x)[0].tolist() != expected[(first + i) % 3]:
                wrong.append((first, i))
            if i % 20 == 7:
                buffers.trim()

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert wrong == []
    buffers.trim()
    assert not _arenas()._blocks
