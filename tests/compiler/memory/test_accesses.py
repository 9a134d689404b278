"""Memory: what works read and write, what shares memory, and where it lies."""

from dataclasses import replace

import numpy as np
from tests.compiler.printing import AVX2, first_kernel, program, ready

import curta.numpy as jnp
from curta import lax
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.nodes import Buffer, Copy, For, Region, View
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.memory.accesses import (
    Accesses,
    accesses_of,
    carried_memory,
    statement_accesses,
)
from curta.compiler.memory.analysis import MemoryAliases
from curta.compiler.memory.places import ARENA, Place, Places
from curta.compiler.pipeline import lower
from curta.compiler.pretty import pretty_memory
from curta.compiler.program.check_regions import reads_before_writes

FLOAT32 = np.dtype("float32")


def names(buffers) -> str:
    return " ".join(sorted(b.name for b in buffers))


def shown(accesses: Accesses) -> str:
    return (
        f"reads {names(accesses.reads)}; writes {names(accesses.writes)};"
        f" updates {names(accesses.updates)}"
    )


def test_accesses_of_a_kernel(prints):
    kernel, _ = first_kernel(lambda x, y: x + y, "f32[8]", "f32[8]")
    prints(
        shown(accesses_of(kernel)),
        """
        reads in0 in1; writes v2; updates
        """,
    )


def test_accesses_of_items(prints):
    """A sort reads its operand; a loop that updates an array reads what it wrote."""

    def f(x):
        y = jnp.sort(x)
        return lax.fori_loop(1, 100, lambda i, y: y.at[i].add(y[i - 1]), y)

    items = lower_to_items(ready(f, "f32[100]").jaxpr, AVX2).items
    steps = [i for i in items if not hasattr(i, "outer")]
    prints(
        "\n".join(shown(accesses_of(step)) for step in steps),
        """
        reads in0; writes v1 v1.memory; updates
        reads literal5 v1 v4; writes v3 v4; updates
        """,
    )


def test_accesses_of_a_copy():
    a, b = Buffer("a", FLOAT32, 4), Buffer("b", FLOAT32, 4)
    assert accesses_of(Region((Copy(b, a),))) == Accesses((a,), (b,))
    assert statement_accesses(Copy(b, a)) == ({a}, {b})
    assert Accesses((a,), (a, b)).buffers == (a, b)


def test_a_loop_carries_no_memory_without_carries():
    loop = For(LoopVar("i", 3), (), ())
    assert dict(carried_memory((loop,))) == {}


def test_a_buffer_has_the_memory_of_its_root():
    a, b, c = (Buffer(n, FLOAT32, 4) for n in "abc")
    program = lower(ready(lambda x: x + 1, "f32[4]"), AVX2)
    aliases = program.memory
    assert isinstance(aliases, MemoryAliases)
    assert [aliases.root(x) for x in (a, b, c)] == [a, b, c]


def test_an_update_takes_the_memory_of_a_dead_operand(prints):
    def f(x):
        y = jnp.sin(x)
        return y.at[3].set(0.0).sum() + y[0]

    prints(
        pretty_memory(lower(program(f, "f32[64]"), AVX2)),
        """
        v2 begins as a copy of v1: v1 is read later
        v1: works 0 to 3, 256 bytes at 0
        v2: works 1 to 3, 256 bytes at 256
        """,
    )


def test_places_are_ranges_of_bytes():
    """Buffers overlap if their ranges do; a view has the place of its array."""
    program = lower(ready(lambda x: x + 1, "f32[64]"), AVX2)
    a, b, c = (Buffer(n, FLOAT32, 8) for n in "abc")
    view = Buffer("part", FLOAT32, 4, View(a, as_index(0)))
    arena = replace(program.arena, offsets={a: 0, b: 16, c: 64})
    places = Places(program.items, program.memory, arena, {})
    assert places.of(a) == Place(ARENA, 0, 32) and places.of(a).size == 32
    assert places.of(view) == places.of(a)
    found = places.overlapping([a, c], [b])
    assert [(x.name, y.name) for x, y in found] == [("a", "b")]


def test_a_region_reads_before_it_writes():
    """It may then write to the memory of what it read."""
    a, b, c = (Buffer(n, FLOAT32, 4) for n in "abc")
    assert reads_before_writes(Region((Copy(b, a), Copy(c, b))), a, c)
    assert not reads_before_writes(Region((Copy(c, b), Copy(b, a))), a, c)
