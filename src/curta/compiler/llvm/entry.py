"""The one native function of a program.

`i64 entry(ptr table)`: the table holds the addresses of the program's results,
arguments and constants; of `parallel_for` (or null: no threads), of the arena and of
the cancellation token; then of the programs that it calls (with their constants) and of
the code of the library. It runs all of them in order, and returns DONE.

Native code asks nobody for memory: who calls an entry provides its arena, in which the
programs that it calls have theirs. So only Python can fail. Then every entry returns
STOPPED at once, as it does where long loops have seen that the call was cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from curta.compiler.dot_code import call_at_sizes
from curta.compiler.graph.items import LibraryItem
from curta.compiler.library.contraction import Contraction
from curta.compiler.library.gemm import Dot
from curta.compiler.library.routine import Routine, run_chunks
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.emit import emit_kernel
from curta.compiler.llvm.polls import is_cancelled
from curta.compiler.llvm.program_calls import Callee
from curta.compiler.llvm.regions import emit_region, run_region
from curta.compiler.llvm.types import I8, I64, PTR, Value
from curta.compiler.loops.bufferize import Arena, BufferPlacement
from curta.compiler.loops.nodes import Buffer, Call, Kernel, Region, memory_of
from curta.compiler.loops.schedule import Schedule, is_cancellable
from curta.compiler.native import DONE, STOPPED, NativeProgram
from curta.compiler.routine_code import LibraryCall
from curta.config import config
from curta.lazy_dataclass import dataclass

ENTRY = "entry"
SERVICES = 3  # parallel_for, the arena, the cancellation token


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A kernel or a region with all that is decided about it."""

    kernel: Kernel | Region
    plan: Schedule
    placement: BufferPlacement


Work = Scheduled | LibraryItem


def buffers(work: Work) -> tuple[Buffer, ...]:
    """The buffers in memory that a piece of work touches."""
    if isinstance(work, LibraryItem):
        return *work.results, *work.operands, *work.temporaries
    return tuple(map(memory_of, work.placement.arguments))


LibraryKey = Dot | Contraction | Routine
"""What the library computes."""


def library_keys(works: Sequence[Work]) -> list[LibraryKey]:
    """The products and the routines that are called, each once, in table order."""
    return list(dict.fromkeys(w.routine for w in works if isinstance(w, LibraryItem)))


def called_programs(works: Sequence[Work]) -> list[NativeProgram]:
    """The programs that are called, each once, in table order."""
    return list(dict.fromkeys(p for w in works for p in _programs(w)))


def _programs(work: Work) -> tuple[NativeProgram, ...]:
    region = work.kernel if isinstance(work, Scheduled) else None
    return region.programs if isinstance(region, Region) else ()


def in_entry(work: Work) -> Region | None:
    """The region that is no function of its own, as it calls programs in order."""
    region = work.kernel if isinstance(work, Scheduled) else None
    if not isinstance(region, Region) or not region.programs or region.parts:
        return None
    return region


def emit_entry(
    module: Module,
    works: Sequence[Work],
    pointers: Sequence[Buffer],
    arena: Arena,
    functions: Mapping[Work, str],
    library: Mapping[LibraryKey, LibraryCall],
    parallel: bool,
) -> None:
    """Add the entry to the module; the code of kernels is in these `functions`."""
    programs = _numbered(called_programs(works))
    if parallel:
        _emit_serial_for(module)
    # A loop around programs is worth good code; calls one after the other are not.
    own = [in_entry(w) for w in works]
    loops = any(r is not None and not isinstance(r.body[0], Call) for r in own)
    b = module.function(ENTRY, [PTR], I64, quick=not loops)
    (table,) = b.arguments
    launcher, base, token = (
        _word(b, table, len(pointers) + i) for i in range(SERVICES)
    )
    if parallel:
        serial = b.function_address(_SERIAL)
        launcher = b.select(b.is_null(launcher), serial, launcher)
    base = b.scratch(max(arena.size, 1)) if arena.on_stack else base
    addresses = _Addresses(b, _numbered(pointers), arena, table, base)
    launch = _Launch(b, launcher, works)
    first_program = len(pointers) + SERVICES
    calls = _LibraryCalls(b, table, first_program + 2 * len(programs), library)
    b.sizes_word = calls.end
    for work in works:
        address = addresses.of(work)
        given = [address[x] for x in buffers(work)]
        if not isinstance(work, Scheduled):
            calls(work.routine, [*given, launcher])
            continue
        at = {p: first_program + 2 * programs[p] for p in _programs(work)}
        code: dict[NativeProgram, Callee] = {
            p: (_word(b, table, i), _word(b, table, i + 1)) for p, i in at.items()
        }
        region = in_entry(work)
        if region is not None:
            run_region(b, region, work.plan, address, code, token)
        else:
            words = [*given, *(word for callee in code.values() for word in callee)]
            if is_cancellable(work.kernel):
                words.append(token)
            launch(functions[work], words, work.plan.chunks)
        if is_cancellable(work.kernel):
            b.return_when(is_cancelled(b, token), STOPPED)
    b.ret(b.const(I64, DONE))


class _Addresses:
    """The addresses of buffers, looked up anew for each piece of work.

    If an entry held all of them, of thousands, registers would be allocated for long.
    """

    def __init__(
        self,
        b: Builder,
        pointers: Mapping[Buffer, int],
        arena: Arena,
        table: Value,
        base: Value,
    ) -> None:
        self.b, self.pointers, self.arena = b, pointers, arena
        self.table, self.base = table, base

    def of(self, work: Work) -> dict[Buffer, Value]:
        """Those of the buffers that some work touches."""
        return {x: self._address(x) for x in buffers(work)}

    def _address(self, buffer: Buffer) -> Value:
        word = self.pointers.get(buffer)
        if word is None:
            return self.b.offset(self.base, self.arena.offsets[buffer], I8)
        return _word(self.b, self.table, word)


class _LibraryCalls:
    """Calls of the library, whose code the table has from an index on."""

    def __init__(
        self, b: Builder, table: Value, first: int,
        library: Mapping[LibraryKey, LibraryCall],
    ) -> None:  # fmt: skip
        self.b, self.table, self.library = b, table, library
        self.first: dict[LibraryKey, int] = {}
        for key, call in library.items():
            self.first[key] = first
            first += len(call.code)
        self.end = first

    def __call__(self, key: LibraryKey, arguments: Sequence[Value]) -> None:
        if key not in self.library:
            return self._of_sizes(key, arguments)
        b, first, numbers = self.b, self.first[key], self.library[key].numbers
        given = list(arguments)
        if numbers:
            given += [b.table(I64, numbers), b.offset(self.table, first, PTR)]
        b.call(_word(b, self.table, first), None, *given)
        return None

    def _of_sizes(self, key: LibraryKey, arguments: Sequence[Value]) -> None:
        """A call whose code and numbers are found when the sizes are known."""
        b = self.b
        slot = b.module.sizes.slots(key, call_at_sizes(key))
        words = [b.load(PTR, b.size_address(slot + i)) for i in range(3)]
        b.call(words[0], None, *arguments, *words[1:])


def _numbered(values: Sequence[Any]) -> dict[Any, int]:
    """Where each value stands."""
    return {x: i for i, x in enumerate(values)}


def _word(b: Builder, table: Value, number: int) -> Value:
    return b.load(PTR, b.offset(table, number, PTR))


@dataclass(eq=False)
class KernelModule:
    """A module of so many characters with the code of some kernels, and its level."""

    level: int
    module: Module
    functions: list[str] = field(default_factory=list)
    size: int = 0


class KernelModules:
    """The code of kernels, in modules by their levels."""

    def __init__(self, new_module: Callable[[], Module]) -> None:
        self.new_module = new_module
        self.modules: list[KernelModule] = []
        self.functions: dict[Work, str] = {}
        self._current: dict[int, KernelModule] = {}
        self._known: dict[tuple[int, str], str] = {}

    def add(self, work: Scheduled, level: int) -> None:
        """Emit a function; equal ones, as equal layers have, are one."""
        part = self._part(level)
        module, name = part.module, f"kernel{len(self._known)}"
        kernel, plan, placement = work.kernel, work.plan, work.placement
        if isinstance(kernel, Region):
            function = emit_region(module, name, kernel, plan, placement.arguments)
        else:
            function = emit_kernel(module, name, kernel, plan, placement)
        _, _, body = function.text().partition("\n")
        self.functions[work] = self._known.setdefault((level, body), name)
        if self.functions[work] != name:
            module.drop(function)
        else:
            part.functions.append(name)
            part.size += len(body)

    def _part(self, level: int) -> KernelModule:
        """The module of a level that is not full yet."""
        result = self._current.get(level)
        if result is None or result.size >= config.tuning.module_ir:
            result = self._current[level] = KernelModule(level, self.new_module())
            self.modules.append(result)
        return result


_SERIAL = "serial_for"


def _emit_serial_for(module: Module) -> None:
    """A serial `parallel_for`, for builds without threads."""
    b = module.function(_SERIAL, [PTR, PTR, I64], None, exported=False, quick=True)
    function, context, count = b.arguments
    with b.loop(0, count) as loop:
        b.call(function, None, context, loop.index)
    b.ret()


class _Launch:
    """Runs kernels, one after the other, with a table of their arguments."""

    def __init__(self, b: Builder, launcher: Value, works: Sequence[Work]) -> None:
        self.b, self.launcher = b, launcher
        counts = [
            len(buffers(w)) + 2 * len(_programs(w)) + 2
            for w in works
            if isinstance(w, Scheduled) and not in_entry(w)
        ]
        self.table = b.scratch(8 * max(counts), align=8) if counts else None

    def __call__(self, name: str, arguments: Sequence[Value], chunks: int) -> None:
        b, table = self.b, self.table
        assert table is not None
        if b.module.sizes.items:
            arguments = [*arguments, b.size_address(0)]
        for i, argument in enumerate(arguments):
            b.store(argument, b.offset(table, i, PTR))
        b.module.declare(name, None, [table, b.const(I64, 0)])
        run_chunks(b, self.launcher, name, table, chunks)
