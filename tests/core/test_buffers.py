"""Array memory: aligned, recycled when dead, and never while anybody can see it."""

from __future__ import annotations

import gc
import os
import pickle
import threading

import numpy as np
import pytest

from curta.core import buffers
from curta.errors import OutOfMemoryError

SHAPES = [(), (1,), (10,), (3, 5), (2000,), (70, 70), (300, 300), (1500, 1500), (0, 3)]


def address(array):
    return array.ctypes.data


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex128"])
def test_arrays_are_aligned_contiguous_and_writeable(shape, dtype):
    arrays = [buffers.empty(shape, dtype) for _ in range(5)]
    for i, a in enumerate(arrays):
        assert a.shape == shape and a.dtype == dtype and type(a) is np.ndarray
        assert address(a) % 64 == 0
        assert a.flags.c_contiguous and a.flags.writeable and a.flags.aligned
        a.fill(i)
    for i, a in enumerate(arrays):
        assert (a == np.array(i, dtype)).all()


LARGE = (300, 300)
VIEWS = {
    "slice": lambda a: a[1:],
    "element view": lambda a: a[1:2],
    "transpose": lambda a: a.T,
    "view of a view": lambda a: a[1:].T[:, ::2],
    "reshape": lambda a: a.reshape(-1),
    "other dtype": lambda a: a.view(np.int32),
    "memoryview": memoryview,
    "from buffer": lambda a: np.frombuffer(a, np.uint8),
    "dlpack": lambda a: np.from_dlpack(a),
    "interface": lambda a: np.asarray(_Interface(a)),
}


class _Interface:
    def __init__(self, array):
        self._array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("shape", [(6, 8), LARGE], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_what_a_view_shows_is_not_used_again(shape, view):
    """Any view keeps the memory, also when the array itself is gone."""
    array = buffers.empty(shape, np.float32)
    array.fill(7)
    seen = VIEWS[view](array)
    before = np.array(seen)
    del array
    gc.collect()
    others = [buffers.empty(shape, np.float32) for _ in range(100)]
    for other in others:
        other.fill(1)
    np.testing.assert_array_equal(np.array(seen), before)


@pytest.mark.parametrize("shape", [(6, 8), LARGE, (1500, 1500)], ids=str)
def test_dead_memory_is_used_again(shape):
    places = set()
    for _ in range(200):
        places.add(address(buffers.empty(shape, np.float64)))
    assert len(places) <= 64


def test_live_arrays_never_share_memory():
    alive = [buffers.empty((10,), np.int64) for _ in range(1000)]
    for i, a in enumerate(alive):
        a.fill(i)
    assert all((a == i).all() for i, a in enumerate(alive))


def test_threads_never_share_memory():
    wrong = []

    def work(k, shape):
        for i in range(1500):
            a = buffers.empty(shape, np.int64)
            a.fill(k * 10000 + i)
            b = buffers.empty(shape, np.int64)
            b.fill(-1)
            if (a != k * 10000 + i).any():
                wrong.append((k, i))

    for shape in [(4,), (5000,)]:
        workers = [threading.Thread(target=work, args=(k, shape)) for k in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
    assert wrong == []


def test_the_pool_is_bounded(monkeypatch, limits):
    limits(pool_bytes=8 << 20)
    pool = buffers._Pool()
    monkeypatch.setattr(buffers, "_pool", pool)
    buffers.allocator.cache_clear()
    alive = [buffers.empty((n << 18,), np.float32) for n in range(1, 6)]
    assert pool._bytes <= 8 << 20
    del alive
    buffers.empty((6 << 18,), np.float32)
    assert pool._bytes <= 8 << 20
    buffers.trim()
    assert pool._bytes == 0
    buffers.allocator.cache_clear()


def test_temporaries_are_recycled_beside_many_live_arrays(monkeypatch, limits):
    limits(pool_bytes=8 << 20)
    monkeypatch.setattr(buffers, "_pool", buffers._Pool())
    buffers.allocator.cache_clear()
    alive = [buffers.empty((1 << 19,), np.float32) for _ in range(9)]
    places = {address(buffers.empty((1 << 19,), np.float32)) for _ in range(20)}
    assert len(places) == 1
    assert len({address(a) for a in alive} | places) == 10
    buffers.allocator.cache_clear()


def test_too_much_is_a_memory_error():
    with pytest.raises(OutOfMemoryError, match="RESOURCE_EXHAUSTED: Out of memory"):
        buffers.empty((1 << 50,), np.float64)


def test_arrays_pickle():
    a = buffers.empty((3,), np.float32)
    a[:] = [1, 2, 3]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a)), a)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_writes_to_its_own_copy():
    array = buffers.empty((1500, 1500), np.float32)
    array.fill(1)
    child = os.fork()
    if not child:
        array.fill(2)
        os._exit(0)
    os.waitpid(child, 0)
    assert (array == 1).all()
