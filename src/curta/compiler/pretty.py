"""The printed form of programs, fusion plans and kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from curta.compiler.callee import Callee
from curta.compiler.fuse.fuse import FusionPlan
from curta.compiler.loops.index import ZERO, Affine, pretty_index
from curta.compiler.loops.nodes import (
    Block,
    Buffer,
    Call,
    Carry,
    Const,
    Copy,
    DataIndex,
    Expr,
    Fold,
    For,
    IndexValue,
    Instr,
    Load,
    LoopNest,
    Pack,
    Placeholder,
    Region,
    Store,
    Table,
    View,
    While,
    walk,
)
from curta.compiler.lower.items import Item, LibraryItem, LoopItem, RegionItem, written
from curta.compiler.lower.mpi_call import MPICallee
from curta.compiler.program.program import Program
from curta.compiler.program.work import Job, Scheduled, Work
from curta.compiler.schedule.pretty import pretty_schedule

Names = Mapping[Callee, str]
"""The names of callees; one without a name is printed by its equation."""


def pretty_program(program: Program) -> str:
    """Print a program and those that it calls, callees first.

    The text depends on the program alone: it is equal in every process.
    """
    parts = [*program.inner_first()]
    names: dict[Callee, str] = {p: f"body{i}" for i, p in enumerate(parts[:-1])}
    names[program] = "main"
    return "\n".join(line for p in parts for line in _program_lines(p, names))


def _program_lines(program: Program, names: Names) -> Iterator[str]:
    arrays = [f"{dtype}{list(shape)}" for dtype, shape in program.signature]
    ends = [
        f"{buffer.name}: {array}"
        for buffer, array in zip(program.pointers, arrays, strict=False)
    ]
    results, arguments = ends[: program.results], ends[program.results :]
    yield f"{names[program]}({', '.join(arguments)}) -> ({', '.join(results)}):"
    for buffer, const in zip(program.items.consts, program.consts, strict=True):
        yield f"  constant {buffer.name}: {const.dtype}{list(const.shape)}"
    for out in sorted(program.in_place):
        yield f"  in place {program.pointers[out].name}"
    yield from _arena_lines(program)
    for job in program.jobs:
        works = job.works if isinstance(job, Job) else (job,)
        if isinstance(job, Job):
            yield f"  job of {len(works)} kernels:"
        for work in works:
            yield from (f"  {line}" for line in pretty_work(work, names).split("\n"))


def pretty_memory(program: Program) -> str:
    """Print where the buffers of a program are stored, and which share memory."""
    memory, arena = program.memory, program.arena
    lines = [
        f"{new.name} takes the memory of {old.name}"
        for pairs in (memory.ties, memory.reused)
        for new, old in pairs.items()
        if new not in memory.begun
    ]
    lines += [
        f"{new.name} begins as a copy of {old.name}: {memory.reasons[new]}"
        for new, old in memory.copies.items()
    ]
    for i, o in program.may_overwrite.items():
        result, argument = program.items.outputs[o], program.items.inputs[i]
        taken = "takes" if o in memory.in_place else "does not take"
        lines.append(f"result {result.name} {taken} the memory of {argument.name}")
    for buffer, (first, last) in arena.ranges.items():
        offset = arena.offsets[buffer]
        size = f"{buffer.nbytes} bytes at {offset}"
        lines.append(f"{buffer.name}: works {first} to {last}, {size}")
    return "\n".join(lines)


def _arena_lines(program: Program) -> Iterator[str]:
    arena = program.arena
    if arena.offsets:
        where = "on the stack" if arena.on_stack else "in the arena"
        yield f"  {arena.size} bytes {where}:"
        for buffer, offset in arena.offsets.items():
            yield f"    {buffer.name} at {offset}"


def pretty_plan(plan: FusionPlan) -> str:
    """Each kernel with its items, and the refusals."""
    lines: list[str] = []
    for i, group in enumerate(plan.groups):
        lines.append(f"group {i}, {group.shared} outer dims shared:")
        lines += [f"    {pretty_item(item)}" for item in group.items]
    for (first, second), reason in plan.refusals.items():
        lines.append(f"apart: {pretty_item(first)} | {pretty_item(second)}: {reason}")
    return "\n".join(lines)


def pretty_item(item: Item, callees: Names | None = None) -> str:
    """`v3 = exp over i0:8 i1:16`."""
    names = ", ".join(b.name for b in written(item))
    if isinstance(item, RegionItem):
        code = "\n".join(_block_lines(item.region.body, "    ", callees or {}))
        return f"{names} = {item.eqn.op.name}, {item.kind}\n{code}"
    if isinstance(item, LibraryItem):
        given = " ".join(b.name for b in item.operands)
        return f"{names} = {item.routine} of {given}"
    return f"{names} = {item.label} over {_dims(item)}"


def _dims(item: LoopItem) -> str:
    kept = " ".join(f"{v.name}:{v.extent}" for v in item.outer)
    folded = " ".join(f"{v.name}:{v.extent}" for v in item.dims[len(item.outer) :])
    return f"{kept} fold {folded}" if folded else kept


def pretty_work(work: Work, callees: Names | None = None) -> str:
    """A kernel or a product, as the entry runs them."""
    if isinstance(work, Scheduled):
        return pretty_scheduled(work, callees)
    return pretty_item(work)


def pretty_schedules(works: Iterable[Work]) -> str:
    """The schedules of kernels and regions, in order."""
    scheduled = (w for w in works if isinstance(w, Scheduled))
    return "\n".join(pretty_schedule(w.kernel, w.plan) for w in scheduled)


def pretty_scheduled(scheduled: Scheduled, callees: Names | None = None) -> str:
    """A kernel as nested loops, with its schedule and where its buffers lie."""
    kernel, plan, placement = scheduled.kernel, scheduled.plan, scheduled.placement
    split = f" split {plan.split.name} by {plan.piece}" if plan.split else ""
    counts = f"{plan.iterations} iterations, {plan.chunks} chunks"
    if plan.block is not None and plan.block.how == "vector":
        split = f" split {plan.block.var.name} by {plan.block.factor}"
    if plan.block is not None and plan.together:
        counts += f", folds of {plan.block.factor} rows end together"
    memory = "  memory " + " ".join(b.name for b in placement.arguments)
    if isinstance(kernel, Region):
        body, parts = _block_lines(kernel.body, "  ", callees or {}), kernel.parts
        split += f" for {parts.name}:{parts.extent}" if parts else ""
        return "\n".join([f"region{split}, {counts}", memory, *body])
    dims = " ".join(f"{v.name}:{v.extent}" for v in kernel.dims)
    lines = [f"kernel {dims}{split}, {counts}", memory]
    if placement.registers:
        lines.append(
            "  registers " + " ".join(sorted(b.name for b in placement.registers))
        )
    for buffer, (size, _) in placement.scratch.items():
        lines.append(f"  row {buffer.name}: {size} bytes")
    for nest, vectors in zip(kernel.nests, plan.nests, strict=True):
        lane = plan.column or (nest.dims[-1] if nest.dims else None)
        loops = " ".join(f"{v.name}:{v.extent}" for v in nest.dims)
        width = f" by {vectors.lanes} lanes of {lane.name}" if lane else ""
        lines.append(f"  for {loops}{width}:" if loops else f"  once{width}:")
        lines += [f"    {line}" for line in _nest_lines(nest.stores, nest.folds)]
    return "\n".join(lines)


def _block_lines(block: Block, indent: str, callees: Names) -> Iterator[str]:
    """The statements of a region; those inside of loops are indented."""
    deeper = indent + "    "
    for s in block:
        if isinstance(s, LoopNest):
            for v in s.dims:
                yield f"{indent}lanes of {v.name}:{v.extent}:"
            inside = deeper if s.dims else indent
            yield from (f"{inside}{line}" for line in _nest_lines(s.stores, s.folds))
        elif isinstance(s, Copy):
            yield f"{indent}{_name(s.to)} = {_name(s.source)}"
        elif isinstance(s, Pack):
            to, source = (s.rows, s.columns) if s.back else (s.columns, s.rows)
            yield f"{indent}{_name(to)} = {_name(source)}, transposed"
        elif isinstance(s, Call):
            every = f" every {s.every} times" if s.every > 1 else ""
            name = callees.get(s.program) or _unnamed(s.program)
            given = " ".join([name, *map(_name, s.operands)])
            yield f"{indent}{', '.join(map(_name, s.results))} = {given}{every}"
        elif isinstance(s, For):
            order = " in reverse" if s.reverse else ""
            if s.bounds is not None:
                step = f" by {s.step}" if s.step > 1 else ""
                order = f" from {s.bounds[0]} to {s.bounds[1]}{step}{order}"
            loop = f"for {s.var.name}:{s.var.extent}{order}"
            yield from _loop_lines(loop, s.carries, s.body, indent, callees)
        elif isinstance(s, While):
            yield from _loop_lines("while", s.carries, s.condition, indent, callees)
            yield f"{indent}goes on if {_name(s.goes_on)}, with:"
            yield from _block_lines(s.body, deeper, callees)
        else:
            for i, (inner, yields) in enumerate(zip(s.blocks, s.yields, strict=True)):
                yield f"{indent}if {_name(s.index)} is {i}:"
                yield from _block_lines(inner, deeper, callees)
                for result, value in zip(s.results, yields, strict=True):
                    yield f"{deeper}{_name(result)} = {_name(value)}"


def _unnamed(callee: Callee) -> str:
    """The text for a callee that is no program."""
    if isinstance(callee, MPICallee):
        return f"{callee.call} of"
    return "call" if callee.eqn is None else callee.eqn.op.name


def _loop_lines(
    loop: str, carries: tuple[Carry, ...], body: Block, indent: str, callees: Names
) -> Iterator[str]:
    yield f"{indent}{loop}:"
    for c in carries:
        first, now, then, last = map(_name, (c.first, c.now, c.then, c.last))
        yield f"{indent}    carry {now} = {first}, then {then}, at last {last}"
    yield from _block_lines(body, indent + "    ", callees)


def _name(buffer: Buffer) -> str:
    """A buffer's name and storage."""
    storage = buffer.storage
    if isinstance(storage, View):
        at = f"[{pretty_index(storage.first)}:]" if storage.first != ZERO else ""
        return f"{_name(storage.of)}{at}"
    if isinstance(storage, Table):
        few = ", ".join(map(str, storage.numbers[:4]))
        return f"{{{few}{', ...' if buffer.size > 4 else ''}}}"
    return buffer.name


def _nest_lines(stores: tuple[Store, ...], folds: tuple[Fold, ...]) -> list[str]:
    names: dict[Expr, str] = {}
    lines: list[str] = []
    for store in stores:
        lines += _body_lines(store.operands(), names)
        lines.append(_store_line(store, names))
    for fold in folds:
        lines += _body_lines(fold.inputs, names)
        inputs = ", ".join(names[x] for x in fold.inputs)
        inner: dict[Expr, str] = {}
        body = _body_lines([*fold.combined, *(s.value for s in fold.stores)], inner)
        lines.append(
            f"fold {inputs} from {', '.join(_text(c, {}) for c in fold.initial)}"
        )
        lines += [f"  {line}" for line in body]
        lines.append(f"  left = {', '.join(inner[e] for e in fold.combined)}")
        lines += [f"  {_store_line(s, inner)}" for s in fold.stores]
    return lines


def _store_line(store: Store, names: dict[Expr, str]) -> str:
    target = f"{_name(store.buffer)}[{_index(store.offset, names)}]"
    guard = "" if store.where is None else f" where {names[store.where]}"
    return f"{target} = {names[store.value]}{guard}"


def _body_lines(roots: Iterable[Expr], names: dict[Expr, str]) -> list[str]:
    """A line for each expression that has no name yet."""
    lines: list[str] = []
    for expr in walk(roots):
        if expr in names:
            continue
        text = _text(expr, names)
        if isinstance(expr, (Const, Placeholder, IndexValue)):
            names[expr] = text
        else:
            names[expr] = f"t{sum(n[0] == 't' for n in names.values())}"
            lines.append(f"{names[expr]}:{expr.dtype} = {text}")
    return lines


def _text(expr: Expr, names: dict[Expr, str]) -> str:
    if isinstance(expr, Const):
        return str(expr.value)
    if isinstance(expr, Placeholder):
        return expr.name
    if isinstance(expr, IndexValue):
        return f"({_index(expr.index, names)})"
    if isinstance(expr, Load):
        guard = f" where {names[expr.where]}" if expr.where is not None else ""
        return f"{_name(expr.buffer)}[{_index(expr.offset, names)}]{guard}"
    assert isinstance(expr, Instr)
    return f"{expr.name} {', '.join(names[a] for a in expr.args)}"


def _index(index: Affine, names: dict[Expr, str]) -> str:
    text = pretty_index(index)
    for atom in index.atoms():
        if isinstance(atom, DataIndex):
            text = text.replace("[data]", names[atom.value], 1)
    return text
