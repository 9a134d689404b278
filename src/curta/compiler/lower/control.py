"""Scans, while loops and conditionals as work items over compiled programs."""

from __future__ import annotations

from functools import reduce
from typing import cast

import numpy as np

from curta.compiler.callee import SIGNALS, Callee
from curta.compiler.loops import nodes
from curta.compiler.loops.bufferize import ALIGNMENT
from curta.compiler.loops.index import ZERO, LoopVar, as_index
from curta.compiler.loops.nodes import (
    Block,
    Buffer,
    Call,
    Carry,
    Copy,
    For,
    If,
    Load,
    LoopNest,
    Region,
    Store,
    View,
    memory_of,
)
from curta.compiler.lower.batch_vectorisation import lane_code
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.items import RegionItem
from curta.compiler.lower.loop_parts import Parts, parts_of
from curta.compiler.lower.registers import register_code
from curta.compiler.lower.routines import in_memory
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.dim import is_same, is_symbolic_dim, max_dim, may_exceed
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr

LINE = 64  # elements, at least a cache line
_BYTE = np.dtype(np.uint8)


def control_item(lowering: ItemBuilder, eqn: Eqn, results: tuple[Buffer, ...]) -> None:
    """Add the item of a control-flow eqn.

    Small values need no programs: all of their loop is one piece of code in registers.
    """
    operands = tuple(in_memory(lowering, a) for a in eqn.invars)
    code = register_code(eqn, operands, results, lowering.target)
    if code is not None:
        _tie_carries(lowering, eqn, operands, results)
        return lowering.items.append(RegionItem(eqn, operands, results, code))
    code = lane_code(eqn, operands, results, lowering.target)
    if code is not None:
        return lowering.items.append(RegionItem(eqn, operands, results, code))
    parts = parts_of(eqn, lowering.tuning)
    if parts is not None:
        program = lowering.lower_part(parts.body, _in_place(eqn), True)
        if not program.runs_python:  # only the caller's thread may run Python
            return _ProgramLoop(
                lowering, eqn, operands, results, (program,), parts
            ).add()
    if eqn.op.loop is None:
        return _add_branches(lowering, eqn, operands, results)
    *others, body = eqn.op.regions
    programs = [lowering.lower_part(jaxpr, {}, True) for jaxpr in others]
    programs.append(lowering.lower_part(body, _in_place(eqn), True))
    return _ProgramLoop(lowering, eqn, operands, results, tuple(programs), None).add()


def python_item(
    eqn: Eqn,
    operands: tuple[Buffer, ...],
    results: tuple[Buffer, ...],
    program: Callee,
) -> RegionItem:
    """The item of an eqn that runs in Python, where native code calls the program."""
    call = Call(program, results, operands)
    return RegionItem(eqn, operands, results, Region((call,)))


def _tie_carries(
    lowering: ItemBuilder,
    eqn: Eqn,
    operands: tuple[Buffer, ...],
    results: tuple[Buffer, ...],
) -> None:
    """Tie the large carries of a loop in registers to what they begin as."""
    loop, most = eqn.op.loop, lowering.tuning.register_elements
    starts = loop.initial(operands) if loop else ()
    for var, result, start in zip(eqn.outvars, results, starts, strict=False):
        if may_exceed(var.aval.size, most):
            lowering.ties[result] = start


def _add_branches(
    lowering: ItemBuilder,
    eqn: Eqn,
    operands: tuple[Buffer, ...],
    results: tuple[Buffer, ...],
) -> None:
    """Add a conditional; a result is tied to what all branches update in place."""
    pairs = _updated(eqn.op.regions)
    programs = tuple(lowering.lower_part(b, pairs, False) for b in eqn.op.regions)
    common = frozenset(pairs.values()).intersection(*(p.in_place for p in programs))
    lowering.ties.update(
        (results[out], operands[1 + i]) for i, out in pairs.items() if out in common
    )
    arena = _arena(lowering, eqn, programs)
    which, loaded = _loaded(operands[0])
    blocks = tuple((Call(p, results, operands[1:], arena),) for p in programs)
    region = Region((loaded, If(which, blocks, ((),) * len(blocks), ())))
    temporaries = () if arena is None else (arena,)
    lowering.items.append(RegionItem(eqn, operands, results, region, temporaries))


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
    """For each result the argument that it is an update of, if any."""
    root: dict[Atom, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    for eqn in jaxpr.eqns:
        for out, operand in _sources(eqn).items():
            if eqn.invars[operand] in root:
                root[eqn.outvars[out]] = root[eqn.invars[operand]]
    return [root.get(v) for v in jaxpr.outvars]


def _sources(eqn: Eqn) -> dict[int, int]:
    """Results that may share an operand's memory, being updates of it."""
    if eqn.op.updates_first or eqn.op.renames_memory:
        return {i: i for i in range(len(eqn.outvars))}
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


class _ProgramLoop:
    """A loop around programs.

    A part of the carry has two buffers, which iterations read and write alternately, or
    one, if the body may overwrite it.
    """

    def __init__(
        self,
        lowering: ItemBuilder,
        eqn: Eqn,
        operands: tuple[Buffer, ...],
        results: tuple[Buffer, ...],
        programs: tuple[Callee, ...],
        parts: Parts | None,
    ) -> None:
        assert eqn.op.loop is not None
        self.lowering, self.eqn, self.view = lowering, eqn, eqn.op.loop
        self.programs, self.body, self.parts = programs, programs[-1], parts
        self.operands, self.results = operands, results
        self.temporaries: list[Buffer] = []
        self.part: LoopVar | None = None
        self.chunk: LoopVar | None = None
        if parts:
            most = lowering.tuning.part_arenas if self.body.arena_bytes else parts.count
            self.part = LoopVar("part", parts.count)
            self.chunk = LoopVar("chunk", min(parts.count, most))

    def add(self) -> None:
        """Add the item of the loop."""
        count = self.view.iterations
        known = count is not None and not is_symbolic_dim(count)
        self.arena = self._arena()
        before: list[Copy] = []
        after: list[Copy] = []
        carries: list[Carry] = []
        now: list[Buffer] = []
        then: list[Buffer] = []
        for i, start in enumerate(self.view.initial(self.operands)):
            first, second = self._carry_buffers(i)
            number = self.body.results + self.view.consts + i
            before.append(Copy(first, self._own(start, number)))
            before_it, after_it, last = first, first, first
            if first is not second:
                before_it, after_it, last, other = (
                    Buffer(f"{first.name}.{x}", first.dtype, first.size, "carried")
                    for x in ("now", "then", "last", "other")
                )
                carries.append(Carry(first, before_it, after_it, last))
                carries.append(Carry(second, after_it, before_it, other))
            now.append(before_it)
            then.append(after_it)
            there = self.results[i] in (memory_of(first), memory_of(second))
            if not there or not (known or first is second):
                # A result that is the same in all parts is stored by each of them.
                after.append(Copy(self._own(self.results[i], i), last))
        loop = self._while if count is None else self._for
        body = (*before, loop(tuple(carries), now, then), *after)
        region = Region(body, None, self.part, self.chunk)
        item = RegionItem(
            self.eqn, self.operands, self.results, region, tuple(self.temporaries)
        )
        self.lowering.items.append(item)

    def _carry_buffers(self, i: int) -> tuple[Buffer, Buffer]:
        """Where a part of the carry lies before the first iteration, and after it."""
        lowering, in_place = self.lowering, i in self.body.in_place
        aval = self.eqn.outvars[i].aval
        if self.parts and not self.parts.results[i]:
            # Memory for each part, no two of them in one cache line.
            aval = aval.update(shape=(self.parts.count, LINE))
            names = ("carry",) if in_place else ("carry", "next")
            two = [self._temporary(aval, f"{n}{i}") for n in names]
            size, stride = self.body.array_bytes(i), two[0].nbytes // self.parts.count
            own = [_rows(x, size, (self.part, stride)) for x in two]
            return own[0], own[-1]
        if in_place:
            lowering.ties[self.results[i]] = self.operands[self.view.start + i]
            own_rows = self._own(self.results[i], i)
            return own_rows, own_rows
        other = self._own(self._temporary(aval, f"next{i}"), i)
        result = self._own(self.results[i], i)
        # The last iteration writes the result, if that is known.
        return (other, result) if self.is_odd else (result, other)

    @property
    def is_odd(self) -> bool:
        """Whether the number of iterations is known, and odd."""
        count = self.view.iterations
        return not is_symbolic_dim(count) and (count or 0) % 2 == 1

    def _temporary(self, aval: ShapedArray, name: str) -> Buffer:
        self.temporaries.append(self.lowering.new_buffer(aval, name))
        return self.temporaries[-1]

    def _arena(self) -> Buffer | None:
        arena = _arena(self.lowering, self.eqn, self.programs, self.chunk)
        if arena is not None:
            self.temporaries.append(memory_of(arena))
        return arena

    def _own(self, array: Buffer, number: int, at: LoopVar | None = None) -> Buffer:
        """What the part, at an iteration, has of a result or (counting on) argument."""
        size, parts = self.body.array_bytes(number), self.parts
        if parts is None or not (*parts.results, *parts.arguments)[number]:
            return _rows(array, size, (at, size))
        return _rows(array, size, (at, size * parts.count), (self.part, size))

    def _for(
        self, carries: tuple[Carry, ...], now: list[Buffer], then: list[Buffer]
    ) -> For:
        op, body = cast(Scan, self.eqn.op), self.body
        consts, _, xs = op.parts(self.operands)
        iteration, n = LoopVar("iteration", op.length), body.results
        own = [self._own(x, n + i) for i, x in enumerate(consts)]
        first, stacked = n + len(consts) + len(now), self.results[len(then) :]
        rows = [self._own(x, first + i, iteration) for i, x in enumerate(xs)]
        outs = [self._own(x, len(then) + i, iteration) for i, x in enumerate(stacked)]
        call = Call(body, (*then, *outs), (*own, *now, *rows), self.arena)
        return For(iteration, carries, (call, *self._signals()), op.reverse)

    def _while(
        self, carries: tuple[Carry, ...], now: list[Buffer], then: list[Buffer]
    ) -> nodes.While:
        test, body = self.programs
        test_consts, consts, _ = cast(While, self.eqn.op).parts(self.operands)
        flag = Buffer("goes_on", np.dtype(bool), 1, "stack")
        goes_on, loaded = _loaded(flag)
        condition = Call(test, (flag,), (*test_consts, *now), self.arena), loaded
        call = Call(body, tuple(then), (*consts, *now), self.arena)
        return nodes.While(carries, condition, goes_on, (call, *self._signals()))

    def _signals(self) -> Block:
        """A call that answers signals, in loops that call Python, now and then."""
        if not any(p.runs_python for p in self.programs):
            return ()
        most = self.lowering.tuning.interruptible_cost // 4
        cost = sum(p.cost for p in self.programs)
        calls = -(-most // max(cost, 1))  # the estimate may be 0
        every = 1 << max(calls - 1, 0).bit_length()
        return (Call(SIGNALS, every=every),)


def _rows(array: Buffer, size: int, *walked: tuple[LoopVar | None, int]) -> Buffer:
    """So many bytes of an array, at distances along loops; all without a loop."""
    strides = [as_index(v) * stride for v, stride in walked if v is not None]
    if not strides:
        return array
    return Buffer(array.name, _BYTE, size, View(array, sum(strides, ZERO)))


def _loaded(array: Buffer) -> tuple[Buffer, LoopNest]:
    """A number from memory, and the nest that loads it."""
    value = Buffer(array.name, array.dtype, 1, "register")
    load = Load(array, ZERO, None, array.dtype)
    return value, LoopNest((), (Store(value, ZERO, load),), ())


def _arena(
    lowering: ItemBuilder,
    eqn: Eqn,
    programs: tuple[Callee, ...],
    chunk: LoopVar | None = None,
) -> Buffer | None:
    """An arena for programs of which each chunk runs one after the other."""
    size = reduce(max_dim, [p.arena_bytes for p in programs])
    if is_same(size, 0):
        return None
    row = -(-size // ALIGNMENT) * ALIGNMENT
    arenas = ShapedArray((chunk.extent if chunk else 1, row), _BYTE)
    memory = lowering.new_buffer(arenas, f"{eqn.op.name}.memory")
    return _rows(memory, row, (chunk, row))


def _in_place(eqn: Eqn) -> dict[int, int]:
    """The arguments that a loop's body may overwrite: its carry."""
    loop = eqn.op.loop
    return {loop.consts + i: i for i in range(loop.carry)} if loop else {}
