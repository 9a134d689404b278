"""The check of memory plans: it accepts those made, and refuses wrong ones."""

import dataclasses

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.loops import nodes
from curta.compiler.pipeline import lower
from curta.compiler.program.check import MemoryPlanError, check_memory
from curta.compiler.program.work import Job

X = np.linspace(-1, 1, 300 * 300, dtype=np.float32).reshape(300, 300)


def lowered(fun, *args, in_place=None, often=False):
    closed = curta.make_jaxpr(fun)(*args)
    return lower(closed, host(), in_place=in_place, often=often)


def refused(program, reason, **changes):
    """The check accepts a program, and refuses it with other fields."""
    check_memory(program)
    with pytest.raises(MemoryPlanError, match=reason):
        check_memory(dataclasses.replace(program, **changes))


def at(program, **offsets):
    """The arena with other offsets for buffers, by their names."""
    known = program.arena.offsets
    moved = {b: offsets.get(b.name, offset) for b, offset in known.items()}
    return dataclasses.replace(program.arena, offsets=moved)


def temporaries(program):
    return {b.name: b for b in program.arena.offsets}


def test_two_buffers_that_are_alive_in_one_place():
    program = lowered(lambda x: (x @ x) @ jnp.sort(x @ x.T, 0), X)
    first, second, *_ = program.arena.offsets
    arena = at(program, **{second.name: program.arena.offsets[first]})
    refused(program, f"reads {first.name}, where {second.name}", arena=arena)
    overlapping = at(program, **{second.name: program.arena.offsets[first] + 64})
    refused(program, "where .* and .* lies", arena=overlapping)


@pytest.mark.parametrize(
    "between",
    [lambda s: s[::-1] + s, lambda s: jnp.roll(s, 1, 1) * s, lambda s: s.T + s],
)
def test_a_result_over_what_other_iterations_read(between):
    program = lowered(lambda x: between(x @ x) @ x, X)
    product, made, *_ = program.arena.offsets
    arena = at(program, **{made.name: program.arena.offsets[product]})
    refused(program, f"over {product.name}|where {made.name}", arena=arena)


def test_a_result_over_what_its_own_iteration_reads():
    program = lowered(lambda x: curta.nn.softmax(x @ x) @ x, X)
    assert len(set(program.arena.offsets.values())) == 1
    check_memory(program)


def test_an_update_over_what_is_read_later():
    def fun(x):
        y = x @ x
        return y.at[3].set(0.0) @ x, y @ x

    program = lowered(fun, X)
    names = temporaries(program)
    tied = lowered(lambda x: (x @ x).at[3].set(0.0) @ x, X)
    assert len(set(tied.arena.offsets.values())) < len(tied.items.variables)
    old, new = names["v1"], names["v2"]
    memory = dataclasses.replace(program.memory, roots={new: old})
    refused(program, "where", memory=memory)


def test_an_argument_that_nobody_gave_away():
    program = lowered(lambda x: x.at[3].set(0.0), X, in_place={0: 0})
    assert program.in_place == {0}
    memory = dataclasses.replace(program.memory, in_place=frozenset())
    kept = {"may_overwrite": {}, "in_place": frozenset(), "memory": memory}
    refused(program, "which others need", **kept)
    refused(program, "which no caller expects", in_place=frozenset())


def test_a_donated_argument_that_is_read_after_its_result_is_there():
    program = lowered(lambda x, y: (x * 2 + y, x[::-1]), X, X, in_place={1: 0})
    assert program.in_place == {0}
    check_memory(program)
    refused(program, "reads|stores", may_overwrite={0: 0})


def test_works_in_another_order():
    program = lowered(lambda x: (x @ x) @ jnp.sort(x, 0), X)
    refused(program, "is read before", jobs=program.jobs[::-1])


def test_works_side_by_side():
    program = lowered(lambda x: jnp.cumsum(jnp.cumsum(x, 0)[::-1], 0), X)
    works = tuple(program.works)
    assert len(works) > 1
    refused(program, "works side by side", jobs=(Job(works, (0, 1)),))


def looped(x):
    return lax.fori_loop(0, 5, lambda i, c: jnp.tanh(c @ x) @ c, x)


def in_regions(program, change):
    """The program with other statements in its regions."""
    jobs = []
    for work in program.works:
        if isinstance(getattr(work, "kernel", None), nodes.Region):
            body = tuple(map(change, work.kernel.body))
            region = dataclasses.replace(work.kernel, body=body)
            work = dataclasses.replace(work, kernel=region)
        jobs.append(work)
    groups = tuple((job,) for job in jobs)
    return {"jobs": tuple(jobs), "groups": groups}


def test_a_carry_that_is_overwritten_while_the_body_reads_it():
    program = lowered(looped, X)

    def same(statement):
        if not isinstance(statement, nodes.For):
            return statement
        (call,) = (s for s in statement.body if isinstance(s, nodes.Call))
        carry = next(c for c in statement.carries if c.now.storage == "carried")
        results = tuple(carry.now if b is carry.then else b for b in call.results)
        call = dataclasses.replace(call, results=results)
        return dataclasses.replace(statement, body=(call,))

    refused(program, "over its operand", **in_regions(program, same))


def test_a_loop_whose_last_iteration_stores_elsewhere():
    program = lowered(looped, X)

    def longer(statement):
        if not isinstance(statement, nodes.For):
            return statement
        var = dataclasses.replace(statement.var, extent=statement.var.extent + 1)
        return dataclasses.replace(statement, var=var)

    refused(program, "the last iteration", **in_regions(program, longer))


def test_a_body_that_does_not_update_in_place():
    program = lowered(
        lambda x: lax.fori_loop(0, 9, lambda i, c: c.at[i].set(c[i] @ x), x), X
    )
    (body,) = (p for p in program.callees if p.in_place)

    def other(statement):
        if not isinstance(statement, nodes.For):
            return statement
        kept = dataclasses.replace(body, in_place=frozenset())
        calls = tuple(
            dataclasses.replace(s, program=kept) if isinstance(s, nodes.Call) else s
            for s in statement.body
        )
        return dataclasses.replace(statement, body=calls)

    refused(program, "over its operand", **in_regions(program, other))


def test_a_branch_that_stores_its_result_elsewhere():
    def fun(p, x):
        return lax.cond(p, lambda x: x @ x, lambda x: jnp.sort(x, 0), x @ x) @ x

    program = lowered(fun, True, X)
    spare = nodes.Buffer("spare", np.dtype(np.float32), X.size, "stack")

    def other(statement):
        if not isinstance(statement, nodes.If):
            return statement
        ((call,), *rest) = statement.blocks
        call = dataclasses.replace(call, results=(spare,))
        return dataclasses.replace(statement, blocks=((call,), *rest))

    refused(program, "a branch does not store", **in_regions(program, other))
