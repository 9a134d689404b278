"""`trim` also releases small arrays and kept results."""

import gc
import weakref

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta._base.once import has_gil
from curta.core import buffers
from curta.errors import OutOfMemoryError, as_out_of_memory


def jitted(x):
    run = curta.jit(lambda x: x + 1)
    return run, run._plans


def compiled_ahead_of_time(x):
    run = curta.jit(lambda x: x + 1).lower(x).compile()
    return run, run._calls


by_counts = pytest.mark.skipif(
    not has_gil(), reason="arrays are kept if reference counts are exact"
)


@by_counts
@pytest.mark.parametrize("make", [jitted, compiled_ahead_of_time])
def test_results_kept_for_fast_calls_are_given_back(make):
    x = jnp.ones(1000)
    run, calls = make(x)
    for _ in range(8):
        out = run(x)
    rings = [entry[1] for entry in calls.entries]
    kept = [r for ring in rings for r in ring if r is not None]
    assert kept
    alive = [weakref.ref(r) for r in kept]
    del kept, out, rings
    buffers.trim()
    gc.collect()
    assert all(r() is None for r in alive)
    assert run(x).tolist() == [2.0] * 1000


def test_clear_caches_gives_idle_memory_back():
    buffers.empty((3000, 3000), np.float32)
    assert buffers.idle_bytes() >= 3000 * 3000 * 4
    curta.clear_caches()
    assert buffers.idle_bytes() == 0


@by_counts
def test_small_arrays_are_given_back():
    make = buffers.allocator((50,), np.dtype(np.float32))
    make()
    assert make._kept
    buffers.trim()
    assert not make._kept
    assert make().shape == (50,)


def test_numpys_want_of_memory_is_ours():
    try:
        np.empty(1 << 60, np.uint8)
    except MemoryError as error:
        ours = as_out_of_memory(error)
        assert type(ours) is OutOfMemoryError and str(1 << 60) in str(ours)
    other = MemoryError()
    assert as_out_of_memory(other) is other
