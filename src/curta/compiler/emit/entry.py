"""The one native function of a program.

`i64 entry(ptr table)`: the table holds the addresses of the program's results,
arguments and constants; of `parallel_for` (or null: no threads), of the arena and of
the cancellation token; then of the programs that it calls (with their constants) and of
the code of the library. It runs all of them in order, and returns DONE.

Native code does not allocate: the caller of an entry provides its arena, which includes
the arenas of the programs that it calls. Only calls of Python can fail. Every entry
then returns STOPPED at once, as it does if a long loop finds that the call was
canceled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.compiler.callee import DONE, STOPPED, Callee
from curta.compiler.dump import is_checked
from curta.compiler.emit.dot_code import call_at_sizes
from curta.compiler.emit.routine_code import LibraryCall
from curta.compiler.library.routine import run_chunks
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.emit import emit_kernel
from curta.compiler.llvm.polls import is_cancelled
from curta.compiler.llvm.program_calls import CallTarget
from curta.compiler.llvm.regions import emit_region, run_region
from curta.compiler.llvm.types import I8, I64, PTR, Value
from curta.compiler.loops.bufferize import BufferPlacement
from curta.compiler.loops.canonical import canonical_form, outline
from curta.compiler.loops.nodes import Buffer, Call, Copy, Kernel, Region
from curta.compiler.memory.arena import Arena
from curta.compiler.program.work import (
    Job,
    LibraryKey,
    Scheduled,
    Work,
    buffers,
    called_programs,
    in_entry,
    programs_of,
    works_in,
)
from curta.compiler.targets import Target
from curta.core.dim import is_symbolic_dim

ENTRY = "entry"
SERVICES = 3  # parallel_for, the arena, the cancellation token


def emit_entry(
    module: Module,
    jobs: Sequence[Work | Job],
    pointers: Sequence[Buffer],
    roots: Mapping[Buffer, Buffer],
    arena: Arena,
    functions: Mapping[Work, str],
    library: Mapping[LibraryKey, LibraryCall],
    constants: Mapping[Callee, int],
    parallel: bool,
    target: Target,
) -> None:
    """Add the entry: it calls `functions`, and callees of so many `constants`."""
    works = works_in(jobs)
    if parallel:
        _emit_serial_for(module)
    b = module.function(ENTRY, [PTR], I64, quick=not _has_loop(works))
    (table,) = b.arguments
    first = len(pointers) + SERVICES  # of the words of callees
    launcher, base, token = (_word(b, table, first - SERVICES + i) for i in range(3))
    if parallel:
        launcher = b.select(b.is_null(launcher), b.function_address(_SERIAL), launcher)
    base = b.scratch(max(arena.size, 1)) if arena.on_stack else base
    addresses = _Addresses(b, _numbered(pointers), roots, arena, table, base)
    launch = _Launch(b, launcher, jobs)
    callees = called_programs(works)
    places = {c: first + 2 * i for i, c in enumerate(callees)}
    calls = _LibraryCalls(b, table, first + 2 * len(callees), library, target)
    b.sizes_word = calls.end
    for work in jobs:
        if isinstance(work, Job):
            launch.together(work, functions, addresses)
            continue
        address = addresses.of(work)
        given = [address[x] for x in buffers(work)]
        if not isinstance(work, Scheduled):
            calls(work.routine, [*given, launcher])
            continue
        targets = {
            c: _target(b, table, places[c], constants[c]) for c in programs_of(work)
        }
        region = in_entry(work)
        if region is not None:
            run_region(b, region, work.plan, address, targets, token)
        else:
            own = (word for x in targets.values() for word in x[:2])
            tokens = [token] * work.plan.takes_token
            launch(functions[work], [*given, *own, *tokens], work.plan.chunks)
        if work.plan.takes_token:
            b.return_when(is_cancelled(b, token), STOPPED)
    b.ret(b.const(I64, DONE))


def _has_loop(works: Sequence[Work]) -> bool:
    """Whether there is a loop around programs, which is worth good code."""
    own = [in_entry(work) for work in works]
    return any(r is not None and not isinstance(r.body[0], (Call, Copy)) for r in own)


def _target(b: Builder, table: Value, place: int, constants: int) -> CallTarget:
    """Load the two words by which a program is called."""
    return CallTarget(_word(b, table, place), _word(b, table, place + 1), constants)


class _Addresses:
    """The addresses of buffers, looked up anew for each piece of work.

    If an entry held all of them, of thousands, registers would be allocated for long.
    """

    def __init__(
        self,
        b: Builder,
        pointers: Mapping[Buffer, int],
        roots: Mapping[Buffer, Buffer],
        arena: Arena,
        table: Value,
        base: Value,
    ) -> None:
        self.b, self.pointers, self.roots, self.arena = b, pointers, roots, arena
        self.table, self.base = table, base

    def of(self, work: Work) -> dict[Buffer, Value]:
        """Those of the buffers that some work touches."""
        return {x: self._address(x) for x in buffers(work)}

    def _address(self, buffer: Buffer) -> Value:
        root = self.roots.get(buffer, buffer)
        word = self.pointers.get(root)
        if word is None:
            return self.b.offset(self.base, self.arena.offsets[root], I8)
        return _word(self.b, self.table, word)


class _LibraryCalls:
    """Calls of the library, whose code the table has from an index on."""

    def __init__(
        self, b: Builder, table: Value, first: int,
        library: Mapping[LibraryKey, LibraryCall], target: Target,
    ) -> None:  # fmt: skip
        self.b, self.table, self.library = b, table, library
        self.target = target
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
        if self.library[key].tiles:
            return self._tiles(self.library[key], first, given)
        if numbers:
            given += [b.table(I64, numbers), b.offset(self.table, first, PTR)]
        b.call(_word(b, self.table, first), None, *given)
        return None

    def _tiles(self, call: LibraryCall, first: int, arrays: Sequence[Value]) -> None:
        """The tiles of a small product, one after the other."""
        b, numbers = self.b, self.b.table(I64, call.numbers)
        for tile in call.tiles:
            offsets = zip(arrays[:3], (tile.c, tile.a, tile.b), strict=True)
            given = [b.offset(array, by, I8) for array, by in offsets]
            given += [b.const(I64, n) for n in (tile.count, tile.begun)]
            given.append(b.offset(numbers, tile.numbers, I64))
            b.call(_word(b, self.table, first + tile.code), None, *given)

    def _of_sizes(self, key: LibraryKey, arguments: Sequence[Value]) -> None:
        """A call whose code and numbers are found when the sizes are known."""
        b = self.b
        slot = b.module.sizes.slots(key, call_at_sizes(key, self.target))
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
    """The code of kernels, in modules by level, full at `most` characters."""

    def __init__(
        self,
        new_module: Callable[[], Module],
        constants: Mapping[Callee, int],
        most: int,
    ) -> None:
        self.new_module, self.most = new_module, most
        self.constants = constants
        self.modules: list[KernelModule] = []
        self.functions: dict[Work, str] = {}
        self._current: dict[int, KernelModule] = {}
        self._known: dict[tuple[int, str], str] = {}
        self._outlines: dict[Hashable, dict[Hashable, Scheduled]] = {}

    def add(self, work: Scheduled, level: int) -> None:
        """Emit a function; equal ones, as equal layers have, are one."""
        same = self._of_same_form(work, level)
        if same is not None and not is_checked():
            self.functions[work] = self.functions[same]
            return
        part = self._part(level)
        module, name = part.module, f"kernel{len(self._known)}"
        kernel, plan, placement = work.kernel, work.plan, work.placement
        if isinstance(kernel, Region):
            arrays = placement.arguments
            function = emit_region(module, name, kernel, plan, arrays, self.constants)
        else:
            function = emit_kernel(module, name, kernel, plan, placement)
        _, _, body = function.text().partition("\n")
        self.functions[work] = self._known.setdefault((level, body), name)
        assert same is None or self.functions[work] == self.functions[same]
        if self.functions[work] != name:
            module.drop(function)
        else:
            part.functions.append(name)
            part.size += len(body)

    def _of_same_form(self, work: Scheduled, level: int) -> Scheduled | None:
        """A kernel met before whose code is the same, though it is not written yet."""
        kernel, plan = work.kernel, work.plan
        if isinstance(kernel, Region) or _depends_on_sizes(kernel, work.placement):
            return None
        alike = self._outlines.setdefault((level, outline(kernel, plan)), {})
        if not alike:  # most are alone: they need no form
            alike[None] = work
            return None
        if None in alike:
            first = alike.pop(None)
            alike[_form_of(first)] = first
        same = alike.setdefault(_form_of(work), work)
        return None if same is work else same

    def _part(self, level: int) -> KernelModule:
        """The module of a level that is not full yet."""
        result = self._current.get(level)
        if result is None or result.size >= self.most:
            result = self._current[level] = KernelModule(level, self.new_module())
            self.modules.append(result)
        return result


def _form_of(work: Scheduled) -> Hashable:
    assert isinstance(work.kernel, Kernel)
    return canonical_form(work.kernel, work.plan, work.placement)


def _depends_on_sizes(kernel: Kernel, placement: BufferPlacement) -> bool:
    """Whether sizes that are not known take part."""
    dims = [*kernel.dims, *(v for nest in kernel.nests for v in nest.dims)]
    sizes = [*(v.extent for v in dims), *(b.size for b in placement.arguments)]
    return any(map(is_symbolic_dim, sizes))


_SERIAL = "serial_for"


def _emit_serial_for(module: Module) -> None:
    """A serial `parallel_for`, for builds without threads."""
    b = module.function(_SERIAL, [PTR, PTR, I64], None, exported=False, quick=True)
    function, context, count = b.arguments
    with b.loop(0, count) as loop:
        b.call(function, None, context, loop.index)
    b.ret()


_RUN = "run_tasks"
_TASK = 3  # a function, the table of its arguments, a chunk's number; 64 bits each


def _emit_run(module: Module) -> None:
    """What a job runs for each of its starts: the tasks up to the next one."""
    b = module.function(_RUN, [PTR, I64], None, exported=False, quick=True)
    context, number = b.arguments
    tasks, starts = _word(b, context, 0), _word(b, context, 1)
    start = b.offset(starts, number, I64)
    first, end = b.load(I64, start), b.load(I64, b.offset(start, 1, I64))
    with b.loop(first, end, runs=True) as loop:
        task = b.offset(tasks, loop.index * _TASK, I64)
        function, table = (b.load(PTR, b.offset(task, i, I64)) for i in range(2))
        b.call(function, None, table, b.load(I64, b.offset(task, 2, I64)))
    b.ret()


class _Launch:
    """Runs kernels with tables of their arguments, on the stack."""

    def __init__(self, b: Builder, launcher: Value, jobs: Sequence[Work | Job]) -> None:
        self.b, self.launcher = b, launcher
        words = max(map(self._words, jobs), default=0)
        self.table = b.scratch(8 * words, align=8) if words else None
        if any(isinstance(job, Job) for job in jobs):
            _emit_run(b.module)

    def _words(self, work: Work | Job) -> int:
        """How many words of the stack it takes."""
        if isinstance(work, Job):
            return 2 + sum(_TASK * w.plan.chunks + self._words(w) for w in work.works)
        if not isinstance(work, Scheduled) or in_entry(work):
            return 0
        return len(buffers(work)) + 2 * len(programs_of(work)) + 2

    def __call__(self, name: str, arguments: Sequence[Value], chunks: int) -> None:
        """Run a kernel."""
        assert self.table is not None
        self._fill(self.table, self._arguments(arguments))
        self.b.module.declare(name, None, [self.table, self.b.const(I64, 0)])
        run_chunks(self.b, self.launcher, name, self.table, chunks)

    def together(
        self, job: Job, functions: Mapping[Work, str], addresses: _Addresses
    ) -> None:
        """Run the kernels of a job."""
        b, context = self.b, self.table
        assert context is not None
        task = tasks = b.offset(context, 2, PTR)
        table = b.offset(tasks, _TASK * job.starts[-1], I64)
        self._fill(context, [tasks, b.table(I64, job.starts)])
        for work in job.works:
            address, name = addresses.of(work), functions[work]
            arguments = self._arguments([address[x] for x in buffers(work)])
            self._fill(table, arguments)
            b.module.declare(name, None, [table, b.const(I64, 0)])
            for chunk in range(work.plan.chunks):
                words = b.function_address(name), table, b.const(I64, chunk)
                for i, word in enumerate(words):
                    b.store(word, b.offset(task, i, I64))
                task = b.offset(task, _TASK, I64)
            table = b.offset(table, len(arguments), PTR)
        run_chunks(b, self.launcher, _RUN, context, len(job.starts) - 1)

    def _arguments(self, given: Sequence[Value]) -> Sequence[Value]:
        b = self.b
        return [*given, b.size_address(0)] if b.module.sizes.items else given

    def _fill(self, table: Value, words: Sequence[Value]) -> None:
        for i, word in enumerate(words):
            self.b.store(word, self.b.offset(table, i, PTR))
