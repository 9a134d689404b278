"""Collectives as calls by address, of a function that stands for one of MPI."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import curta
from curta.compiler import mpi_call
from curta.hosts import mpi_calls
from curta.hosts.collectives import Call
from curta.hosts.engine import set_thread_engine
from curta.hosts.failures import HostsError
from curta.hosts.group import HostGroup
from curta.hosts.mpi import MPIEngine
from curta.hosts.mpi_calls import OPERAND, RESULT, Handle, MPICall
from curta.hosts.traffic import Traffic
from curta.primitives.host_collectives import HostReduce

FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int, *[ctypes.c_void_p] * 3
)
CALL = Call("all_reduce", "sum", "float32", (4,), (0, 1))


class FakeMPI:
    """Stands for an all-reduce between two processes that have the same."""

    def __init__(self, engine):
        self.engine = engine
        self.seen = []
        self.status = 0
        self.function = FUNCTION(self)

    def __call__(self, operand, result, count, *handles):
        self.seen.append((count, handles, self.engine._waiting()))
        x = (ctypes.c_float * count).from_address(operand)
        y = (ctypes.c_float * count).from_address(result)
        y[:] = [2 * v for v in x]
        return self.status


class FakeCall(MPICall):
    place = 0

    @property
    def address(self):
        return self.place


@pytest.fixture
def fake(monkeypatch):
    engine = object.__new__(MPIEngine)
    engine.index, engine.count, engine.traffic = 0, 2, Traffic()
    engine._sites, engine._site, engine._waits = [], np.zeros(1, np.int64), None
    fake = FakeMPI(engine)
    place = ctypes.cast(fake.function, ctypes.c_void_p).value
    monkeypatch.setattr(FakeCall, "place", place)
    arguments = (OPERAND, RESULT, 4, Handle(5), Handle(6), Handle(1 << 40))
    call = FakeCall("MPI_Allreduce", arguments, CALL, "all_reduce", 16)
    monkeypatch.setattr(mpi_call, "_call", lambda engine, eqn: call)
    monkeypatch.setattr(mpi_calls, "handle_bytes", lambda: 8)
    said = SimpleNamespace(Get_error_string=lambda status: f"error {status}")
    monkeypatch.setattr(mpi_call, "MPI", said)
    set_thread_engine(engine)
    yield fake
    set_thread_engine(None)


def total(axis):
    return HostReduce(HostGroup((axis,), (2,), (0, 1), (axis,)), "sum")


def test_a_call(fake):
    x = np.arange(4, dtype=np.float32)
    found = curta.jit(lambda x: total("a")(x + 1) - 1)(x)
    np.testing.assert_array_equal(found, 2 * x + 1)
    assert fake.seen == [(4, (5, 6, 1 << 40), str(CALL))]
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
