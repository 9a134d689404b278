"""Collectives keep the order of the local program through all passes."""

import dataclasses

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401
from tests.hosts.test_partition import mesh_of, normal, parted

import curta
import curta.numpy as jnp
from curta import P, lax
from curta._settings.tuning import Tuning
from curta.compiler.collective_sequence import check_in_order, collectives_of
from curta.compiler.host_target import host
from curta.compiler.pipeline import compile_jaxpr, lower
from curta.compiler.program.program import Program
from curta.compiler.rewrite.passes import Pass, for_all, run_passes
from curta.config import tuning
from curta.control.scan import Scan
from curta.errors import JaxprTypeError
from curta.hosts.failures import HostsError
from curta.hosts.group import HostGroup
from curta.hosts.transport import Transport
from curta.partition.collective_order import number_of, numbered, numbers_in
from curta.partition.own_host import one_program
from curta.primitives.host_collectives import HostGather, HostReduce

LINE = HostGroup(("x",), (2,), (0, 1), ("x",))
TOTAL, LARGEST = HostReduce(LINE, "sum"), HostReduce(LINE, "max")
BEGUN = Transport("MPI", frozenset({"MPI_Isendrecv", "MPI_Iallreduce"}))


@pytest.fixture(autouse=True)
def checks_between_passes(monkeypatch):
    monkeypatch.setenv("CURTA_CHECK", "1")


def in_all_places(x):
    """Collectives in a row, in loops, in branches, and with nothing between them."""
    total, largest = TOTAL(x), LARGEST(x)

    def body(c, _):
        return TOTAL(jnp.sin(c)), LARGEST(c + 1)

    carry, ys = lax.scan(body, total, None, length=3)
    chosen = lax.cond(
        x[0] > 0, lambda x: TOTAL(x) * LARGEST(x + 1), lambda x: LARGEST(x * 2), carry
    )
    done = lax.while_loop(
        lambda c: LARGEST(c)[0] < 5, lambda c: TOTAL(c) + LARGEST(c * 2), chosen
    )
    return HostGather(LINE, 0)(ys), largest, done


X = np.ones(4, np.float32)
CLOSED = numbered(curta.make_jaxpr(in_all_places)(X))


def test_numbers_count_through_loops_and_branches():
    assert [*numbers_in(CLOSED.jaxpr)] == [*range(1, 12)]


@pytest.mark.parametrize("transport", [Transport(), BEGUN], ids=["python", "mpi"])
def test_passes_keep_the_order(transport):
    """Collectives that start early start in the same order, in loops and branches
    too."""
    target = dataclasses.replace(host(), transport=transport)
    with tuning(Tuning(overlapped_bytes=1, overlapped_cost=1)):
        program = lower(CLOSED, target)
    numbers = called_numbers(program)
    assert numbers == sorted({*numbers}) and len(numbers) >= 10


def called_numbers(program):
    """The numbers of collectives in the order in which works call them."""
    result = []
    for callee in program.callees:
        if isinstance(callee, Program):
            result += called_numbers(callee)
        elif callee.eqn is not None and number_of(callee.eqn.op):
            result.append(number_of(callee.eqn.op))
    return result


def swapped(jaxpr):
    eqns = [*jaxpr.eqns]
    eqns[:2] = eqns[1::-1]
    return jaxpr.replace(eqns=eqns)


def copied(jaxpr):
    return jaxpr.replace(eqns=[jaxpr.eqns[0].replace(outvars=(V,)), *jaxpr.eqns])


V = curta.make_jaxpr(TOTAL)(X).jaxpr.outvars[0]


def swapped_in_loop(jaxpr):
    eqns = []
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, Scan):
            body = eqn.op.jaxpr
            order = [e for e in body.eqns if "host" in e.op.name]
            rest = [e for e in body.eqns if "host" not in e.op.name]
            body = body.replace(jaxpr=body.jaxpr.replace(eqns=[*rest, *order[::-1]]))
            eqn = eqn.replace(op=dataclasses.replace(eqn.op, jaxpr=body))
        eqns.append(eqn)
    return jaxpr.replace(eqns=eqns)


@pytest.mark.parametrize("broken", [swapped, copied, swapped_in_loop])
def test_a_pass_that_breaks_the_order_is_named(broken):
    passes = Pass("same", for_all(lambda x: x)), Pass("broken", for_all(broken))
    with pytest.raises(JaxprTypeError, match="after the pass 'broken': collectives"):
        run_passes(passes, CLOSED.jaxpr, host())


def test_a_pass_that_drops_a_collective_is_right():
    def without_last(jaxpr):
        return jaxpr.replace(eqns=jaxpr.eqns[:-1], outvars=jaxpr.outvars[1:])

    run_passes([Pass("drop", for_all(without_last))], CLOSED.jaxpr, host())


def test_compiled_code_in_another_order_is_refused():
    closed = numbered(curta.make_jaxpr(lambda x: (TOTAL(x), LARGEST(x)))(X))
    eqns = collectives_of(compile_jaxpr(closed))
    check_in_order(eqns)
    with pytest.raises(HostsError, match="number 1 begins behind number 2"):
        check_in_order(eqns[::-1])


PROGRAMS = {
    "order": lambda x: (jnp.cumsum(x, 0), x.max(0), jnp.argsort(x, 0)),
    "gradient": curta.grad(lambda x: jnp.sum(jnp.cumsum(x, 0) ** 2) + jnp.max(x)),
    "loop": lambda x: lax.fori_loop(
        0, 4, lambda i, c: jnp.tanh(jnp.roll(c, 1, 0) - c.mean(0)), x
    ),
    "branch": lambda x: lax.cond(
        x.sum() > 0, lambda x: jnp.cumsum(x, 0), lambda x: jnp.sort(x, 0), x
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_partitioned_programs_keep_the_order(name):
    local = parted(PROGRAMS[name], [normal(16, 3)], mesh_of(x=8), [P("x")], 4)
    closed = one_program(local.closed).closed
    numbers = [*numbers_in(closed.jaxpr)]
    assert numbers == [*range(1, len(numbers) + 1)] and numbers
    check_in_order(collectives_of(compile_jaxpr(closed)))
