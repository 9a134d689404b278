"""Collectives as calls by address, of a function that stands for one of MPI."""

import ctypes
import secrets
from types import SimpleNamespace

import numpy as np
import pytest

import curta
from curta._settings.tuning import Tuning
from curta.config import tuning
from curta.hosts import mpi, mpi_symbols
from curta.hosts.collectives import CollectiveCall
from curta.hosts.engine import set_thread_engine
from curta.hosts.failures import HostsError
from curta.hosts.group import HostGroup
from curta.hosts.mpi import MPIEngine
from curta.hosts.started import AtOnce
from curta.hosts.traffic import Traffic
from curta.primitives.host_collectives import HostReduce

POINTER = ctypes.c_void_p
OPERATION = [POINTER, POINTER, ctypes.c_int, POINTER, POINTER, POINTER]
CALL = CollectiveCall("all_reduce", "sum", "float32", (4,), (0, 1))
NULL = 77  # a request that is none


class FakeMPI:
    """Stands for an all-reduce between two processes that have the same.

    A started collective runs at once, or, if it is `lazy`, when it is awaited.
    """

    def __init__(self, engine):
        self.engine = engine
        self.seen = []
        self.said = []
        self.status = 0
        self.lazy = False
        self.begun = {}
        self.functions = {
            "MPI_Allreduce": self._function(self.reduce, *OPERATION),
            "MPI_Iallreduce": self._function(self.begin, *OPERATION, POINTER),
            "MPI_Wait": self._function(self.wait, POINTER, POINTER),
            "MPI_Test": self._function(self.test, POINTER, POINTER, POINTER),
        }

    def _function(self, python, *types):
        return ctypes.CFUNCTYPE(ctypes.c_int, *types)(python)

    def address(self, name):
        return ctypes.cast(self.functions[name], POINTER).value

    def reduce(self, operand, result, count, *handles):
        self.seen.append((count, handles, self.engine._waiting()))
        x = (ctypes.c_float * count).from_address(operand)
        y = (ctypes.c_float * count).from_address(result)
        y[:] = [2 * v for v in x]
        return self.status

    def begin(self, operand, result, count, type_, op, comm, request):
        self.said.append("begin")
        word = ctypes.c_uint64.from_address(request)
        assert word.value == NULL
        word.value = len(self.said)
        self.begun[request] = lambda: self.reduce(operand, result, count)
        if not self.lazy:
            self.begun.pop(request)()
            self.begun[request] = lambda: 0
        return self.status

    def wait(self, request, status):
        self.said.append("wait")
        ctypes.c_uint64.from_address(request).value = NULL
        return self.begun.pop(request, lambda: 0)()

    def test(self, request, flag, status):
        self.said.append("test")
        ctypes.c_int.from_address(flag).value = 0
        return 0


@pytest.fixture
def fake(monkeypatch):
    engine = object.__new__(MPIEngine)
    engine.index, engine.count, engine.traffic = 0, 2, Traffic()
    engine._sites, engine._site, engine._waits = [], np.zeros(1, np.int64), None
    engine.started, engine._requests = AtOnce(), {}
    fake = FakeMPI(engine)
    library = SimpleNamespace(**fake.functions)
    for module in (mpi, mpi_symbols):
        monkeypatch.setattr(module, "library", lambda: library)
    said = SimpleNamespace(
        Get_error_string=lambda status: f"error {status}",
        Get_library_version=lambda: f"made up {secrets.token_hex()}",
        REQUEST_NULL=NULL,
        **{"FLOAT": 5, "SUM": 6, "COMM_WORLD": 0},
        _sizeof=lambda x: 8,
        _handleof=int,
        Request=SimpleNamespace(fromhandle=Request),
    )
    for module in (mpi, mpi_symbols):
        monkeypatch.setattr(module, "MPI", said)
    monkeypatch.setattr(
        engine, "in_thread_order", lambda members, run, what="": run(), raising=False
    )
    monkeypatch.setattr(engine, "comm", lambda members: 1 << 40, raising=False)
    set_thread_engine(engine)
    yield fake
    set_thread_engine(None)


class Request:
    """A request as mpi4py has it."""

    waited: list[int] = []

    def __init__(self, handle):
        self.handle = handle

    def __eq__(self, other):
        return self.handle == other

    def Wait(self):
        self.waited.append(self.handle)


def total(axis):
    return HostReduce(HostGroup((axis,), (2,), (0, 1), (axis,)), "sum")


def test_a_call(fake):
    x = np.arange(4, dtype=np.float32)
    found = curta.jit(lambda x: total("a")(x + 1) - 1)(x)
    np.testing.assert_array_equal(found, 2 * x + 1)
    ((count, handles, where),) = fake.seen
    assert (count, handles) == (4, (5, 6, 1 << 40))
    assert where.startswith(f"{CALL}, at test_mpi_call.py:")
    assert fake.engine._waiting() is None
    assert fake.engine.traffic.words[0].tolist() == [16, 1]


def test_calls_in_a_loop(fake):
    program = curta.jit(
        lambda x: curta.lax.fori_loop(0, 5, lambda i, x: total("b")(x), x)
    )
    np.testing.assert_array_equal(program(np.ones(4, np.float32)), np.full(4, 32.0))
    assert fake.engine.traffic.words[0].tolist() == [80, 5]


def test_errors_of_mpi_are_raised(fake):
    program = curta.jit(
        lambda x: curta.lax.fori_loop(0, 5, lambda i, x: total("c")(x), x)
    )
    fake.status = 7
    with pytest.raises(HostsError, match="MPI: error 7"):
        program(np.ones(4, np.float32))
    assert len(fake.seen) == 1
    fake.status = 0
    np.testing.assert_array_equal(program(np.ones(4, np.float32)), np.full(4, 32.0))


# ---- begun, and done later


SMALL = Tuning(overlapped_bytes=1, overlapped_cost=1)


@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_begun_goes_on(fake, lazy):
    """The result has its memory from the start, the operand until it is done."""
    fake.lazy = lazy

    def f(x):
        y = curta.numpy.sin(x)
        sums = total("d")(y)
        for _ in range(5):
            y = curta.numpy.cos(y[::-1] @ curta.numpy.outer(y, y))
        return sums - 1, y

    x = np.arange(4, dtype=np.float32)
    with tuning(SMALL):
        sums, y = curta.jit(f)(x)
    np.testing.assert_allclose(sums, 2 * np.sin(x) - 1, rtol=1e-6)
    assert np.isfinite(y).all()
    assert fake.said[:2] == ["begin", "test"] and fake.said[-1] == "wait"
    assert fake.engine.traffic.words[0].tolist() == [16, 1]
    assert fake.engine._waiting() is None


@pytest.mark.parametrize("lazy", [False, True])
def test_begun_in_a_loop(fake, lazy):
    fake.lazy = lazy
    program = curta.jit(
        lambda x: curta.lax.fori_loop(0, 5, lambda i, x: total("e")(x) + 1, x)
    )
    with tuning(SMALL):
        np.testing.assert_array_equal(program(np.zeros(4, np.float32)), [31.0] * 4)
    assert fake.said == ["begin", "wait"] * 5


def test_a_program_that_ends_early_waits_for_what_it_has_begun(fake):
    def stop(x):
        raise ValueError("stop")

    def f(x):
        sums = total("f")(x)
        y = curta.pure_callback(stop, curta.ShapeDtypeStruct(x.shape, x.dtype), x)
        return sums, y

    Request.waited.clear()
    with tuning(SMALL), pytest.raises(curta.errors.JaxRuntimeError, match="stop"):
        curta.jit(f)(np.ones(4, np.float32))
    assert fake.said == ["begin"] and Request.waited == [1]
    assert [int(word[0]) for word, _ in fake.engine._requests.values()] == [NULL]


def test_errors_of_what_was_begun_are_raised(fake):
    fake.lazy, fake.status = True, 0
    program = curta.jit(lambda x: total("g")(x) + 1)
    fake.reduce = lambda *_: 7
    with tuning(SMALL), pytest.raises(HostsError, match="MPI: error 7"):
        program(np.ones(4, np.float32))
