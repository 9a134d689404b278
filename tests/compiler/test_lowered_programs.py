"""Lowering gives a program that is data; code is made of it afterwards."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax
from curta.compiler import callee
from curta.compiler.emit.emission import emit
from curta.compiler.host_target import host
from curta.compiler.loading import load
from curta.compiler.machine_code import linked
from curta.compiler.pipeline import lower
from curta.compiler.pretty import pretty_program
from curta.compiler.targets import describe
from curta.compiler.triples import named
from curta.config import tuning
from curta.hosts import mpi
from curta.hosts.engine import Engine, set_thread_engine
from curta.hosts.group import HostGroup
from curta.hosts.mpi_calls import operation
from curta.hosts.transport import Transport
from curta.partition.destinations import Destinations
from curta.partition.host_mesh import grouped
from curta.partition.own_host import one_program
from curta.partition.partition import partition
from curta.primitives.host_collectives import HostGather, HostPermute, HostReduce

# A given target: what the machine at hand has does not matter.
LEVEL = describe("x86_64", "x86-64-v3", ["sse4_2", "avx2", "fma", "f16c"], "linux")
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def looped(x):
    return lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ x) + i, x).sum(0)


def branched(x):
    return lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: jnp.sort(x), x)


def called_back(x):
    double = lambda x: curta.pure_callback(lambda a: 2 * a, x, x)  # noqa: E731
    return lax.fori_loop(0, 2, lambda _, c: double(c) + 1, x)


PROGRAMS = [looped, branched, called_back, lambda x: curta.nn.softmax(x)]


def lowered(fun, limits):
    limits(register_elements=2, written_out_eqns=0)  # loops call their bodies
    return lower(curta.make_jaxpr(fun)(X), host())


@pytest.mark.parametrize("fun", PROGRAMS)
def test_lowering_and_emission_link_nothing(fun, limits, monkeypatch):
    def refuse(*_):
        raise AssertionError("code was made while a program was lowered or emitted")

    with monkeypatch.context() as patch:
        patch.setattr(linked, "load", refuse)
        patch.setattr(linked.cache, "object_files", refuse)
        codes = emit(lowered(fun, limits))
    (out,) = load(codes, None)(X)
    np.testing.assert_allclose(out, curta.jit(fun)(X), rtol=1e-6)


# ---- collectives by MPI

LINE = HostGroup(("x",), (2,), (0, 1), ("x",))
BY_MPI = Transport("MPI", frozenset({"MPI_Isendrecv"}))


def between_hosts(x):
    x = HostPermute(LINE, ((0, 1),))(x)
    body = lambda _, c: HostReduce(LINE, "sum")(jnp.tanh(c))  # noqa: E731
    return HostGather(LINE, 0)(lax.fori_loop(0, 3, body, x))


def test_lowering_and_emission_ask_nothing_of_mpi(limits, monkeypatch):
    """The program is equal on all hosts; its symbols are found by the loader."""

    def refuse(*_):
        raise AssertionError("MPI was asked, or code loaded, before the loader")

    monkeypatch.setattr(linked, "load", refuse)
    monkeypatch.setattr(linked.cache, "object_files", refuse)
    for name in ("library", "MPIEngine"):
        monkeypatch.setattr(mpi, name, refuse)
    monkeypatch.setattr(mpi, "MPI", None)
    limits(register_elements=2, written_out_eqns=0)
    texts = []
    for index in range(2):
        engine = Engine()
        engine.index, engine.count = index, 2
        set_thread_engine(engine)
        try:
            target = dataclasses.replace(LEVEL, transport=BY_MPI)
            program = lower(curta.make_jaxpr(between_hosts)(X), target)
            codes = emit(program)
        finally:
            set_thread_engine(None)
        stubs = [s.write() for code in codes for s in code.stubs]
        texts.append((pretty_program(program), stubs))
    assert texts[0] == texts[1] and len(stubs) == 4
    called = [
        "MPI_Isendrecv(operand, 1, 1x256 bytes of 1 parts, target, 0, result, 1,",
        "MPI_Wait(begun, status)",
        "MPI_Allreduce(operand, result, 64, FLOAT, SUM, hosts along x)",
        "MPI_Allgather(operand, 1, 1x256 bytes of 1 parts, result, 1,",
    ]
    assert all(text in texts[0][0] for text in called)


def test_mpi_does_not_add_integers_that_it_would_saturate():
    assert operation("sum", np.dtype("int32"), False) == ("INT32_T", "SUM")
    assert operation("max", np.dtype("uint8"), False) == ("UINT8_T", "MAX")
    for dtype in ("int8", "uint8", "int16", "uint16"):
        assert operation("sum", np.dtype(dtype), False) is None


def test_a_body_is_a_program_that_its_caller_names(limits):
    program = lowered(looped, limits)
    body, whole = program.inner_first()
    assert whole is program and program.callees == [body] and body.often
    assert isinstance(body, callee.Callee) and not hasattr(body, "address")
    assert [shape for _, shape in body.signature] == [(), (8, 8), (8, 8), (), (8, 8)]


def test_the_printed_program_has_its_works_in_order(limits):
    program = lower(curta.make_jaxpr(lambda x: jnp.exp(x) @ x)(X), LEVEL)
    assert pretty_program(program) == PRINTED


PRINTED = """\
main(in0: float32[8, 8]) -> (v2: float32[8, 8]):
  256 bytes on the stack:
    v1 at 0
  kernel , 1 iterations, 1 chunks
    memory v1 in0
    for i0i1:64 by 8 lanes of i0i1:
      t0:float32 = in0[i0i1]
      t1:float32 = math.exp t0
      v1[i0i1] = t1
  v2 = Dot(batch=1, m=8, n=8, k=8, kind='f32', a_transposed=False, \
b_transposed=False, in_parts=False) of v1 in0"""


IN_ANOTHER_PROCESS = """
import curta, json
curta.config.update("jax_num_cpu_devices", 4)
from tests.compiler import test_lowered_programs as tests
programs = [*tests.PROGRAMS, tests.many]
texts = [tests.printed(f, name) for f in programs for name in (None, *tests.NAMES)]
print(json.dumps([*texts, tests.printed_on_hosts()]))
"""


def printed(fun, name=None):
    """The program and its IR, for a level of x86-64 or a target by name."""
    target = LEVEL if name is None else named(name)
    program = lower(curta.make_jaxpr(fun)(X), target)
    codes = emit(program)
    texts = [s.write() for c in codes for s in all_modules(c)]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return f"{pretty_program(program)}\n{len(texts)} modules {digest}"


def all_modules(code):
    """The modules of a program's code, with those that they call."""
    found = [code.entry, *code.library, *code.stubs]
    for source in found:
        found += (c for c in source.callees if c not in found)
    return found


def many(x):
    """Work that limits decide on: sums, products, sorts, scatters, scans, loops."""
    rows = jnp.cumsum(jnp.sort(x, 0), 1) + jnp.linspace(0, 1, 8)
    at = jnp.arange(512) % 7
    counts = jnp.zeros(8).at[at].add(jnp.tile(x.reshape(-1), 8))
    image = jnp.tile(x, (1, 3, 8, 8)).astype(jnp.float32)
    kernel = jnp.tile(x[:3, :3], (8, 3, 1, 1))
    waves = jnp.abs(jnp.fft.fft(x.reshape(-1)))
    wide = jnp.concatenate([jnp.tile(x, (40, 40)), jnp.ones((8, 320))])
    solved = jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(8))
    outs = lax.scan(lambda c, row: (jnp.tanh(c @ rows) + row, c.sum()), x[0], x)
    best = lax.top_k(x.reshape(-1), 5)
    conv = lax.conv(image, kernel, (1, 1), "SAME")
    return rows, counts, conv, waves, wide.sum(0), wide.sum(1), solved, outs, best


def printed_on_hosts():
    """A local program with many collectives that do not need one another."""

    def f(x):
        many = [jnp.roll(x, i, 0).max() + jnp.cumsum(x * i, 0) for i in range(4)]
        return [*many, x.min(0), jnp.sort(x, 0)]

    mesh = curta.sharding.Mesh(np.array(curta.devices()), ("x",))
    split = NamedSharding(mesh, P("x"))
    closed = curta.make_jaxpr(f)(X)
    found = Destinations(closed, (), ()).results([split])
    with tuning("default"):  # which collectives are joined
        local = partition(closed, mesh, [split], found, grouped(mesh, (0, 0, 1, 1)))
    target = dataclasses.replace(LEVEL, transport=BY_MPI)
    return pretty_program(lower(one_program(local.closed).closed, target))


# Settings of two machines; none of them is a part of a given target.
SETTINGS = (
    {"PYTHONHASHSEED": "1", "CURTA_CPU": "host", "CURTA_TUNING": "default"},
    {
        "PYTHONHASHSEED": "2", "CURTA_CPU": "x86-64-v2", "CURTA_TUNING": "shrunk",
        "CURTA_NUM_THREADS": "3",
    },
)  # fmt: skip
NAMES = ("aarch64-linux-gnu",)


def test_a_program_for_a_target_is_equal_in_two_processes_on_two_machines():
    texts = []
    for settings in SETTINGS:
        environment = {**os.environ, **settings}
        made = subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        texts.append(json.loads(made.stdout))
    assert texts[0] == texts[1] and len(texts[0]) == 2 * (len(PROGRAMS) + 1) + 1
    assert texts[0][-1].count("MPI_") > 5
