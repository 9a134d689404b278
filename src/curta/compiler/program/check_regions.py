"""The check of regions: calls of programs in loops and branches.

Statements are replayed for a few iterations of each loop: as many as keep the parity of
a known trip count, since the two buffers of a carry alternate. In the end each result
must hold what the last call of the body, or of the branch, has stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from curta.compiler.loops.index import Affine
from curta.compiler.loops.nodes import (
    Block,
    Buffer,
    Call,
    Copy,
    For,
    If,
    Region,
    View,
    While,
    memory_of,
    statements_in,
)
from curta.compiler.lower.items import RegionItem
from curta.compiler.memory.accesses import statement_accesses
from curta.compiler.memory.places import Place, Places
from curta.compiler.program.program import Program
from curta.core.dim import is_symbolic_dim

Names = Mapping[Buffer, Buffer]
"""The buffers whose addresses a loop carries under other names."""


Part = tuple[Place, Affine | None]
"""A place, and the first element of the part of it that an iteration has."""


def region_problems(
    region: Region, item: RegionItem | None, places: Places
) -> Iterator[str]:
    """Yield what is wrong with the calls of a region, which runs an item."""
    calls = _Calls(places)
    yield from dict.fromkeys(calls.block(region.body, {}))
    if item is None or not item.eqn.op.regions:
        return
    loop = item.eqn.op.loop
    for i, result in enumerate(item.results if loop is None else ()):
        if any(at[i] != (places.of(result), None) for at in calls.branches):
            yield f"a branch does not store {result.name}"
    held: dict[Place, set[object]] = {}
    for (place, _), value in calls.holds.items():
        held.setdefault(place, set()).add(value)
    for i, result in enumerate(item.results[: loop.carry] if loop else ()):
        stored = held.get(places.of(result), set())
        if calls.last is not None and stored != {(calls.last, i)}:
            yield f"{result.name} is not what the last iteration has stored"


def reads_before_writes(region: Region, old: Buffer, new: Buffer) -> bool:
    """Return True if statements read `old` before the first that writes `new`.

    Precondition: the region has no calls.
    """
    if region.parts is not None or region.lane is not None:
        return False
    read, first = -1, len(region.body)
    for at, statement in enumerate(region.body):
        if isinstance(statement, Copy) and statement.unless_same:
            continue  # it writes what is there if both have one address
        for inner in statements_in((statement,)):
            reads, writes = statement_accesses(inner)
            read = at if old in reads else read
            first = min(first, at) if new in writes else first
    return read < first


class _Calls:
    """The calls of a region, with the memory that they are handed.

    Fields:
        holds: the call, and its result, that was stored last in each part of memory.
        last: the last call of the body of a loop.
        branches: where the calls of branches store their results.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.holds: dict[Part, tuple[object, int]] = {}
        self.last: object = None
        self.branches: list[list[Part]] = []

    def block(self, block: Block, names: dict[Buffer, Buffer]) -> Iterator[str]:
        """Replay a block; `names` gets what its loops leave."""
        for statement in block:
            if isinstance(statement, Call):
                yield from self._call(statement, names)
            elif isinstance(statement, Copy):
                ends = self._at(statement.to, names), self._at(statement.source, names)
                if ends[0] != ends[1] and _overlap(*ends):
                    yield f"a copy of {statement.source.name} overlaps its source"
                self.holds[ends[0]] = self.holds.get(ends[1], (ends[1], 0))
            elif isinstance(statement, (For, While)):
                yield from self._loop(statement, names)
            elif isinstance(statement, If):
                for inner in statement.blocks:
                    yield from self.block(inner, dict(names))

    def _loop(self, loop: For | While, names: dict[Buffer, Buffer]) -> Iterator[str]:
        carries = [c for c in loop.carries if c.now.storage == "carried"]
        now = [names.get(c.first, c.first) for c in carries]
        body = [s for s in loop.body if isinstance(s, Call) and s.results]
        for _ in range(_few(loop)):
            self.last = object() if body else None
            names.update((c.now, b) for c, b in zip(carries, now, strict=True))
            if isinstance(loop, While):
                yield from self.block(loop.condition, names)
            yield from self.block(loop.body, names)
            now = [names.get(c.then, c.then) for c in carries]
        names.update((c.last, b) for c, b in zip(carries, now, strict=True))

    def _at(self, buffer: Buffer, names: Names) -> Part:
        """Where a buffer lies, and its first element if it is a part of that."""
        buffer = names.get(buffer, buffer)
        storage = buffer.storage
        first = storage.first if isinstance(storage, View) else None
        if storage == "stack":
            return Place(buffer, 0, buffer.nbytes), None
        return self.places.of(memory_of(buffer)), first

    def _call(self, call: Call, names: Names) -> Iterator[str]:
        callee = call.program
        results = [self._at(b, names) for b in call.results]
        self.holds.update((at, (self.last, o)) for o, at in enumerate(results))
        self.branches.append(results)
        operands = [self._at(b, names) for b in call.operands]
        pairs = callee.shared if isinstance(callee, Program) else set()
        name = "Python" if callee.is_host_call else "a callee"
        by_base: dict[object, list[tuple[Part, int]]] = {}
        for i, operand in enumerate(operands):
            by_base.setdefault(operand[0].base, []).append((operand, i))
        for o, result in enumerate(results):
            for operand, i in by_base.get(result[0].base, ()):
                same = result == operand and (o, i) in pairs
                if _overlap(result, operand) and not same:
                    yield (
                        f"{name} writes {call.results[o].name} over its operand"
                        f" {call.operands[i].name}"
                    )
        made: dict[object, list[Part]] = {}
        for o, result in enumerate(results):
            others = made.setdefault(result[0].base, [])
            if any(_overlap(result, other) for other in others):
                yield f"{name} writes two results to {call.results[o].name}"
            others.append(result)
        if call.arena is not None:
            arena = self._at(call.arena, names)
            if any(_overlap(arena, x) for x in (*results, *operands)):
                yield f"the arena of {name} overlaps its arrays"


def _few(loop: For | While) -> int:
    """How many iterations to replay."""
    if isinstance(loop, While) or is_symbolic_dim(loop.var.extent):
        return 3
    count = int(loop.var.extent)
    return count if count < 3 else 2 + count % 2


def _overlap(a: Part, b: Part) -> bool:
    """Whether two may have bytes in common; parts of one array are alike or apart."""
    (at, first), (other, second) = a, b
    if at.base != other.base or at.start >= other.end or other.start >= at.end:
        return False
    return first is None or second is None or at != other or first == second
