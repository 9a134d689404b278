"""The one native function of a segment of a program.

`void entry(ptr pointers)`: `pointers` holds the addresses of the segment's arguments and
results, then of the arena, then of `parallel_for`. It runs the kernels in order, with
no Python in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.emit import emit_kernel
from curta.compiler.llvm.types import I8, I64, PTR, Value
from curta.compiler.loops.bufferize import Arena, Placement
from curta.compiler.loops.nodes import Buffer, Kernel
from curta.compiler.loops.schedule import Schedule

ENTRY = "entry"


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
    names = []
    for i, scheduled in enumerate(kernels):
        names.append(f"kernel{i}")
        emit_kernel(
            module, names[-1], scheduled.kernel, scheduled.plan, scheduled.placement
        )
    b = module.function(ENTRY, [PTR], None)
    (table,) = b.arguments
    address = _addresses(b, table, pointers, arena)
    launcher = b.load(PTR, b.offset(table, len(pointers) + 1, PTR))
    for name, scheduled in zip(names, kernels, strict=True):
        _launch(b, name, scheduled, address, launcher)
    b.ret()


def _addresses(
    b: Builder, table: Value, pointers: Sequence[Buffer], arena: Arena
) -> Mapping[Buffer, Value]:
    found = {}
    for i, buffer in enumerate(pointers):
        found[buffer] = b.load(PTR, b.offset(table, i, PTR))
    base = b.load(PTR, b.offset(table, len(pointers), PTR))
    for buffer, offset in arena.offsets.items():
        found[buffer] = b.offset(base, offset, I8)
    return found


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
        kernel = b.function_address(name)
        b.call(launcher, None, kernel, table, b.const(I64, chunks))
