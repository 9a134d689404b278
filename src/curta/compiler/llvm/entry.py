"""The one native function of a segment of a program.

`void entry(ptr table)`: the table holds the addresses of the segment's results,
arguments and constants, then those of `parallel_for` (or null: no threads), `malloc`
and `free`. It runs the kernels in order, with no Python in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.emit import emit_kernel
from curta.compiler.llvm.types import I1, I8, I64, PTR, Value
from curta.compiler.loops.bufferize import Arena, Placement
from curta.compiler.loops.nodes import Buffer, Kernel
from curta.compiler.loops.schedule import Schedule

ENTRY = "entry"
STACK_ARENA = 1 << 14  # a smaller arena lies on the stack


@dataclass(frozen=True)
class Scheduled:
    """A kernel with all that is decided about it."""

    kernel: Kernel
    plan: Schedule
    placement: Placement


def emit_entry(
    module: Module, kernels: Sequence[Scheduled], pointers: Sequence[Buffer], arena: Arena
) -> None:
    """Add the kernels and the entry that runs them to the module."""
    names: list[str] = []
    for i, scheduled in enumerate(kernels):
        names.append(f"kernel{i}")
        emit_kernel(
            module, names[-1], scheduled.kernel, scheduled.plan, scheduled.placement
        )
    b = module.function(ENTRY, [PTR], None)
    (table,) = b.arguments
    address = {
        buffer: b.load(PTR, b.offset(table, i, PTR)) for i, buffer in enumerate(pointers)
    }
    launcher, malloc, free = (
        b.load(PTR, b.offset(table, len(pointers) + i, PTR)) for i in range(3)
    )
    block = _arena(b, arena, malloc)
    for buffer, offset in arena.offsets.items():
        address[buffer] = b.offset(block, _ALIGNMENT + offset, I8)
    for name, scheduled in zip(names, kernels, strict=True):
        _launch(b, name, scheduled, address, launcher)
    if arena.size > STACK_ARENA:
        b.call(free, None, block)
    b.ret()


_ALIGNMENT = 64


def _arena(b: Builder, arena: Arena, malloc: Value) -> Value:
    """Memory for the temporaries, with some room in front to align what follows."""
    if arena.size <= STACK_ARENA:
        return b.scratch(arena.size + _ALIGNMENT)
    return b.call(malloc, PTR, b.const(I64, arena.size + 2 * _ALIGNMENT))


def _launch(
    b: Builder,
    name: str,
    scheduled: Scheduled,
    address: Mapping[Buffer, Value],
    launcher: Value,
) -> None:
    arguments = scheduled.placement.arguments
    table = b.scratch(8 * max(1, len(arguments)), align=8)
    for i, buffer in enumerate(arguments):
        b.store(address[buffer], b.offset(table, i, PTR))
    chunks = scheduled.plan.chunks
    if chunks == 1:
        b.call(name, None, table, b.const(I64, 0))
    else:
        alone = b.instruction(f"icmp eq ptr {launcher}, null", I1)
        with b.when(alone), b.loop(0, chunks) as loop:
            b.call(name, None, table, loop.index)
        with b.when(b.not_(alone)):
            kernel = b.function_address(name)
            b.call(launcher, None, kernel, table, b.const(I64, chunks))
