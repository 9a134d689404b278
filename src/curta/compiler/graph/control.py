"""Scans, while loops and conditionals as work items over compiled programs."""

from __future__ import annotations

import numpy as np

from curta.compiler.graph.batch_vectorisation import lane_code
from curta.compiler.graph.item_builder import ItemBuilder
from curta.compiler.graph.items import ControlItem, RegisterItem
from curta.compiler.graph.loop_parts import Parts, parts_of
from curta.compiler.graph.registers import register_code
from curta.compiler.host_call import signals_answered
from curta.compiler.loops.bufferize import ALIGNMENT
from curta.compiler.loops.lower import loop_dims
from curta.compiler.loops.nodes import Buffer
from curta.compiler.native import UNKNOWN, NativeProgram
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr

_ITERATION = 64  # what an iteration of a loop costs besides its body
LINE = 64  # elements, at least a cache line


def control_item(lowering: ItemBuilder, eqn: Eqn, results: tuple[Buffer, ...]) -> None:
    """Add the item of a control-flow eqn.

    Small values need none: all of their loop is one piece of code in registers.
    """
    operands = tuple(_buffer(lowering, a) for a in eqn.invars)
    memory = _result_buffers(lowering, eqn, operands, results)
    code = register_code(eqn, operands, memory)
    if code is not None:
        lowering.buffers.update(zip(eqn.outvars, memory, strict=True))
        return lowering.items.append(RegisterItem(eqn, operands, memory, code))
    code = lane_code(eqn, operands, results)
    if code is not None:
        return lowering.items.append(RegisterItem(eqn, operands, results, code))
    parts = parts_of(eqn)
    if parts is not None:
        program = lowering.compile_part(parts.body, _in_place(eqn))
        if not program.runs_python:  # which threads other than the caller's must not
            return _add(lowering, eqn, operands, results, (program,), parts)
    if eqn.op.loop is None:
        return _add_branches(lowering, eqn, operands, results)
    *others, body = eqn.op.regions
    programs = [lowering.compile_part(jaxpr, {}) for jaxpr in others]
    programs.append(lowering.compile_part(body, _in_place(eqn)))
    return _add(lowering, eqn, operands, results, tuple(programs), None)


def _result_buffers(
    lowering: ItemBuilder,
    eqn: Eqn,
    operands: tuple[Buffer, ...],
    results: tuple[Buffer, ...],
) -> tuple[Buffer, ...]:
    """Where results go: a large carry stays in the memory of its operand, if it may."""
    memory = list(results)
    for i, aval in enumerate(_carried(eqn)):
        start = _first_carry(eqn) + i
        if aval.size > config.tuning.register_elements and lowering.may_overwrite(
            eqn, eqn.invars[start]
        ):
            memory[i] = operands[start]
    return tuple(memory)


def _add_branches(
    lowering: ItemBuilder,
    eqn: Eqn,
    operands: tuple[Buffer, ...],
    results: tuple[Buffer, ...],
) -> None:
    """Add a conditional; results may lie in the memory of what branches update."""
    pairs = {
        i: out
        for i, out in _updated(eqn.op.regions).items()
        if lowering.may_overwrite(eqn, eqn.invars[1 + i])
    }
    while True:
        programs = tuple(lowering.compile_part(b, pairs) for b in eqn.op.regions)
        common = frozenset(pairs.values()).intersection(*(p.in_place for p in programs))
        if len(common) == len(pairs):
            break
        pairs = {i: out for i, out in pairs.items() if out in common}
    memory = list(results)
    for i, out in pairs.items():
        memory[out] = lowering.buffers[eqn.outvars[out]] = operands[1 + i]
    scratch = _scratch(lowering, eqn, programs, 1)
    lowering.items.append(
        ControlItem(eqn, operands, tuple(memory), programs, (), scratch)
    )


def _updated(branches: tuple[ClosedJaxpr, ...]) -> dict[int, int]:
    """Arguments that branches hand on, updated or as they are, with the result."""
    result = dict[int, int]()
    for out, argument in _common_roots(branches).items():
        result.setdefault(argument, out)
    return result


def _common_roots(branches: tuple[ClosedJaxpr, ...]) -> dict[int, int]:
    """Results with the argument that branches hand on there, updated or as it is.

    Every branch does, or makes another result and does not touch the argument.
    """
    roots = [_roots(b.jaxpr) for b in branches]
    touched = [_touched(b.jaxpr) for b in branches]
    result = dict[int, int]()
    for out, each in enumerate(zip(*roots, strict=True)):
        arguments = {i for i in each if i is not None}
        (i,) = arguments if len(arguments) == 1 else (None,)
        if i is not None and all(
            root == i or i not in others
            for root, others in zip(each, touched, strict=True)
        ):
            result[out] = i
    return result


def _roots(jaxpr: Jaxpr) -> list[int | None]:
    """For each result the argument of which updates made it, if there is one."""
    root: dict[Atom, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    for eqn in jaxpr.eqns:
        for out, operand in _sources(eqn).items():
            if eqn.invars[operand] in root:
                root[eqn.outvars[out]] = root[eqn.invars[operand]]
    return [root.get(v) for v in jaxpr.outvars]


def _sources(eqn: Eqn) -> dict[int, int]:
    """Results that may lie where an operand does, being what updates made of it."""
    if eqn.op.updates_first or eqn.op.renames_memory:
        return {0: 0}
    loop = eqn.op.loop
    if loop is not None:
        return {i: loop.start + i for i in range(loop.carry)}
    if eqn.op.regions:
        return {out: 1 + i for out, i in _common_roots(eqn.op.regions).items()}
    return {}


def _touched(jaxpr: Jaxpr) -> set[int]:
    """The arguments that a jaxpr reads or returns."""
    used = {v for e in jaxpr.eqns for v in e.invars}.union(jaxpr.outvars)
    return {i for i, v in enumerate(jaxpr.invars) if v in used}


def _add(
    lowering: ItemBuilder,
    eqn: Eqn,
    operands: tuple[Buffer, ...],
    results: tuple[Buffer, ...],
    programs: tuple[NativeProgram, ...],
    parts: Parts | None,
) -> None:
    memory, in_place = list(results), programs[-1].in_place
    carries = []
    for i, aval in enumerate(_carried(eqn)):
        if parts and not parts.results[i]:
            # Memory for each part, no two of them in one cache line.
            aval = aval.update(shape=(parts.count, LINE))
            two = [lowering.new_buffer(aval, f"{n}{i}") for n in ("carry", "next")]
            carries.append((two[0], two[0] if i in in_place else two[1]))
            continue
        if i in in_place:
            start = _first_carry(eqn) + i
            if lowering.may_overwrite(eqn, eqn.invars[start]):
                memory[i] = lowering.buffers[eqn.outvars[i]] = operands[start]
            carries.append((memory[i], memory[i]))
            continue
        other = lowering.new_buffer(aval, f"next{i}")
        if _iterations(eqn) % 2:
            carries.append((other, memory[i]))  # the last iteration writes the result
        else:
            carries.append((memory[i], other))
    chunks = parts.count if parts else 1
    if any(p.arena_bytes for p in programs):
        chunks = min(chunks, config.tuning.part_arenas)
    scratch = _scratch(lowering, eqn, programs, chunks)
    signals = signals_answered() if programs[-1].runs_python else None
    polled = _loop_cost(eqn, programs, parts) > config.tuning.interruptible_cost
    item = ControlItem(
        eqn, operands, tuple(memory), programs, tuple(carries), scratch, parts, chunks,
        signals, polled,
    )  # fmt: skip
    lowering.items.append(item)


def _scratch(
    lowering: ItemBuilder, eqn: Eqn, programs: tuple[NativeProgram, ...], chunks: int
) -> Buffer | None:
    """Arenas for programs of which each chunk runs one after the other."""
    size = max(p.arena_bytes for p in programs)
    if not size:
        return None
    row = -(-size // ALIGNMENT) * ALIGNMENT
    arenas = ShapedArray((chunks, row), np.dtype(np.uint8))
    return lowering.new_buffer(arenas, f"{eqn.op.name}.memory")


def _first_carry(eqn: Eqn) -> int:
    """The operand with which the carry of a loop begins."""
    return eqn.op.loop.start if eqn.op.loop else 0


def _in_place(eqn: Eqn) -> dict[int, int]:
    """The arguments that a loop's body may overwrite: its carry."""
    loop = eqn.op.loop
    return {loop.consts + i: i for i in range(loop.carry)} if loop else {}


def _carried(eqn: Eqn) -> list[ShapedArray]:
    count = eqn.op.loop.carry if eqn.op.loop else 0
    return [v.aval for v in eqn.outvars[:count]]


def _iterations(eqn: Eqn) -> int:
    """The iterations of a loop; 0 if nobody knows how many."""
    return (eqn.op.loop and eqn.op.loop.iterations) or 0


def control_cost(item: ControlItem) -> int:
    """What all iterations of a loop, or the longest branch, cost."""
    if item.eqn.op.loop is None:
        costs = [p.cost + _ITERATION for p in item.programs]
        return max(costs)
    return _loop_cost(item.eqn, item.programs, item.parts)


def _loop_cost(
    eqn: Eqn, programs: tuple[NativeProgram, ...], parts: Parts | None
) -> int:
    loop = eqn.op.loop
    if loop is None or loop.iterations is None:
        return UNKNOWN
    iterations = loop.iterations * (parts.count if parts else 1)
    return iterations * sum(p.cost + _ITERATION for p in programs)


def _buffer(lowering: ItemBuilder, atom: Atom) -> Buffer:
    """Where an operand lies; literals are put into memory."""
    result = lowering.buffer_of(atom)
    if result is None:
        result = lowering.new_buffer(atom.aval, f"literal{len(lowering.items)}")
        index = loop_dims(atom.aval.shape)
        lowering.emit_map(result, index, lowering.elements.at(atom, index), "literal")
    return result
