"""Which buffers share memory: definitions, last uses and aliases of the works.

The analysis goes over the works of a program in order, before they are scheduled. A
buffer is one value. Buffers share memory in three ways:

* a *tie*: a result begins as an operand, and is stored in its memory, if nothing reads
  the operand later. A tie that must not be becomes a copy;
* a *donated argument*: a result takes the memory of an argument that the caller gives
  away, if every load of the argument comes before the store;
* a *reused temporary*: a result of a kernel takes the memory of a value that dies in
  it.

Nothing is tried and taken back: the answers are data (`MemoryAliases`), which the
arena, jobs, emission and the check read.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import field

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.nodes import Buffer, Kernel, memory_of
from curta.compiler.lower.item_builder import InPlace
from curta.compiler.lower.item_lowering import LoweredItems
from curta.compiler.lower.items import RegionItem
from curta.compiler.memory.accesses import Accesses, Step
from curta.compiler.memory.iterations import IterationOrder

END = math.inf
"""When the caller reads a result: after all works."""


@dataclass(frozen=True)
class MemoryAliases:
    """Which buffers share memory, and why others do not.

    Fields:
        ties: results that are stored where an operand was, each with that operand.
        begun: results that the caller may have put elsewhere than their argument, each
            with that; they begin as a copy of it, unless both have one address.
        copies: results that begin as a copy of an operand, each with that operand.
        reasons: why a result is a copy.
        roots: the buffer that stands for the memory of another one: an argument, else a
            result of the program, else the operand of the first tie.
        in_place: results of the program that take the memory of an argument.
        reused: roots that take the memory of another one, which dies where they are
            stored.
    """

    ties: Mapping[Buffer, Buffer]
    begun: Mapping[Buffer, Buffer]
    copies: Mapping[Buffer, Buffer]
    reasons: Mapping[Buffer, str]
    roots: Mapping[Buffer, Buffer]
    in_place: frozenset[int]
    reused: Mapping[Buffer, Buffer]

    def root(self, buffer: Buffer) -> Buffer:
        """Return the buffer that stands for the memory of a buffer."""
        return self.roots.get(buffer, buffer)


def analyze(
    flow: Mapping[Step, Accesses],
    items: LoweredItems,
    may_overwrite: InPlace,
    workspace: bool,
    apart: bool = False,
) -> MemoryAliases:
    """Return which buffers of a program share memory.

    Args:
        flow: the works in order, before they are scheduled, with their accesses.
        items: what they were made of: arguments, results and ties.
        may_overwrite: arguments that the caller gives away, each with the result that
            may take its memory.
        workspace: whether such an argument may be overwritten by anything. If not, only
            that result, and what becomes it, may be stored there.
        apart: whether the caller may also put that result elsewhere.
    """
    steps, accesses = [*flow], [*flow.values()]
    given = dict(may_overwrite)
    while True:
        sharing = _Sharing(steps, accesses, items, given)
        sharing.tie()
        in_place = sharing.donate()
        lent = sharing.lent(set() if apart else in_place)
        if workspace or not lent:
            break
        # The memory of these arguments would hold something else in the end.
        given = {i: o for i, o in given.items() if i not in lent}
    reused, begun = sharing.reuse(), sharing.begin_apart() if apart else {}
    return MemoryAliases(
        sharing.ties, begun, sharing.copies, sharing.reasons, sharing.roots(),
        frozenset(in_place), reused,
    )  # fmt: skip


@dataclass(eq=False)
class _Memory:
    """Buffers that share memory.

    Fields:
        buffers: in the order in which they are stored.
        read: the last work that reads the newest of them; END if the caller does.
        argument: the argument of the program that is one of them.
        result: the result of the program that is one of them.
    """

    buffers: list[Buffer]
    read: float
    argument: int | None = None
    result: int | None = None
    fixed: str = ""


@dataclass(eq=False)
class _Uses:
    """The works that read and write a buffer, in order."""

    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)


class _Sharing:
    """Memory as it is shared out: at first each buffer has its own."""

    def __init__(
        self,
        steps: Sequence[Step],
        accesses: Sequence[Accesses],
        items: LoweredItems,
        given: InPlace,
    ) -> None:
        self.steps, self.accesses, self.items, self.given = (
            steps,
            accesses,
            items,
            given,
        )
        self.end = len(steps)
        self.orders: dict[Step, IterationOrder] = {}
        self.spans: dict[_Memory, tuple[float, float]] = {}
        self.ties: dict[Buffer, Buffer] = {}
        self.copies: dict[Buffer, Buffer] = {}
        self.reasons: dict[Buffer, str] = {}
        self.uses: dict[Buffer, _Uses] = {}
        for at, access in enumerate(accesses):
            for buffer in access.reads:
                self.uses.setdefault(buffer, _Uses()).reads.append(at)
            for buffer in access.writes:
                self.uses.setdefault(buffer, _Uses()).writes.append(at)
        self.read: dict[Buffer, float] = {
            b: use.reads[-1] if use.reads else -1 for b, use in self.uses.items()
        }
        for result, operand in items.ties.items():
            self.read[operand] = max(self.read.get(operand, -1), self._begins(result))
        self.read.update((b, END) for b in items.outputs)
        self.memory: dict[Buffer, _Memory] = {}
        for i, b in enumerate(items.inputs):
            fixed = "" if i in given else "the caller keeps its argument"
            self.memory[b] = _Memory([b], self.read.get(b, -1), argument=i, fixed=fixed)
        for b in items.consts:
            self.memory[b] = _Memory([b], END, fixed="it is a constant")
        for o, b in enumerate(items.outputs):
            self.of(b).result = o

    def of(self, buffer: Buffer) -> _Memory:
        """The memory of a buffer."""
        if buffer not in self.memory:
            self.memory[buffer] = _Memory([buffer], self.read.get(buffer, -1))
        return self.memory[buffer]

    # ------------------------------------------------------------------- ties

    def tie(self) -> None:
        """Let results take the memory of the operands that they begin as."""
        order = sorted(self.items.ties, key=self._begins)
        for result in order:
            operand = self.items.ties[result]
            reason = self._obstacle(result, operand)
            if reason:
                self._copy(result, operand)
                self.reasons[result] = reason
                continue
            self.ties[result] = operand
            new, old = self.of(result), self.of(operand)
            old.buffers += new.buffers
            old.read, old.result = new.read, new.result
            self.memory.update((b, old) for b in new.buffers)

    def _copy(self, result: Buffer, operand: Buffer) -> None:
        """Let a result begin as a copy, before the work that stores it first."""
        self.copies[result] = operand
        at = self._begins(result)
        if at < self.end and not isinstance(self.steps[int(at)], Kernel):
            return  # regions copy for themselves
        self.uses.setdefault(result, _Uses()).writes.insert(0, at - 0.5)
        insort(self.uses.setdefault(operand, _Uses()).reads, at - 0.5)

    def _begins(self, result: Buffer) -> float:
        """The work that stores a result first; the end if none does."""
        use = self.uses.get(result)
        return use.writes[0] if use and use.writes else self.end

    def _obstacle(self, result: Buffer, operand: Buffer) -> str:
        """Why a result must not be stored where an operand is; "" if it may."""
        old, at = self.of(operand), self._begins(result)
        if old.fixed:
            return old.fixed
        if old.read > at:
            return f"{operand.name} is read later"
        end = self.of(result).result
        if old.argument is not None and end not in (None, self.given[old.argument]):
            return "another result takes the memory of the argument"
        if at < self.end and not self._only_begins(self.steps[int(at)], old):
            return f"{operand.name} is read at other elements"
        return ""

    def _only_begins(self, step: Step, old: _Memory) -> bool:
        """Whether a work reads some memory only as what its result begins as."""
        if isinstance(step, RegionItem):
            return sum(self.memory.get(b) is old for b in step.operands) == 1
        assert isinstance(step, Kernel)
        loads = {memory_of(e.buffer) for nest in step.nests for e in nest.loads}
        single = not step.dims and all(not nest.dims for nest in step.nests)
        return single or loads.isdisjoint(old.buffers)

    # -------------------------------------------------------------- arguments

    def donate(self) -> set[int]:
        """Return the results that take the memory of an argument."""
        found = set()
        for i, o in self.given.items():
            argument, result = self.items.inputs[i], self.items.outputs[o]
            if self.of(argument) is self.of(result):
                found.add(o)
            elif self._may_replace(self.of(argument), self.of(result)):
                found.add(o)
        return found

    def lent(self, in_place: set[int]) -> set[int]:
        """Return the arguments that are overwritten, but not by their result.

        Results `in_place` overwrite what is there before, whatever it is.
        """
        return {
            i
            for i, o in self.given.items()
            if len((memory := self.of(self.items.inputs[i])).buffers) > 1
            and memory.result != o
            and o not in in_place
        }

    def begin_apart(self) -> dict[Buffer, Buffer]:
        """Give results that are tied to an argument a memory of their own.

        Return what they begin as, a copy of the argument, which does nothing if the
        caller has passed one address for both. Regions copy for themselves.
        """
        begun = {}
        for i in self.given:
            old = self.of(self.items.inputs[i])
            if len(old.buffers) == 1:
                continue
            argument, first, *_ = old.buffers
            new = _Memory(old.buffers[1:], old.read, result=old.result)
            at = self._begins(first)
            if at == self.end or isinstance(self.steps[int(at)], Kernel):
                copy = Buffer(f"{first.name}.begun", first.dtype, first.size)
                begun[copy] = self.ties[copy] = argument
                self.ties[first] = copy
                new.buffers.insert(0, copy)
            self.memory.update((b, new) for b in new.buffers)
            self.memory[argument] = _Memory([argument], -1, argument=i)
        return begun

    def _may_replace(self, old: _Memory, new: _Memory) -> bool:
        """Whether all loads from some memory come before the stores to other memory."""
        reads = [x for b in old.buffers if b in self.uses for x in self.uses[b].reads]
        writes = [x for b in new.buffers if b in self.uses for x in self.uses[b].writes]
        if old.fixed or not writes:
            return False
        last, first = max(reads, default=-1), min(writes)
        if last != first or len(writes) > 1 or first != int(first):
            return last < first
        step = self.steps[int(first)]
        if not isinstance(step, Kernel):
            return False
        if step not in self.orders:
            self.orders[step] = IterationOrder(step)
        return self.orders[step].loads_first(old.buffers, new.buffers)

    # ------------------------------------------------------------ temporaries

    def reuse(self) -> dict[Buffer, Buffer]:
        """Return roots that take the memory of temporaries that die at their store."""
        result: dict[Buffer, Buffer] = {}
        for at, step in enumerate(self.steps):
            if not isinstance(step, Kernel):
                continue
            dying: dict[object, list[_Memory]] = {}
            for memory in self._each(self.accesses[at].reads):
                first, last = self._span(memory)
                if first < at == last:
                    dying.setdefault(_layout(memory), []).append(memory)
            for new in self._each(self.accesses[at].writes):
                first, last = self._span(new)
                if first < at or last in (at, END):
                    continue
                asked = dying.get(_layout(new), [])[:_ASKED]
                old = next((m for m in asked if self._may_replace(m, new)), None)
                if old is not None:
                    result[new.buffers[0]] = old.buffers[0]
                    dying[_layout(new)].remove(old)
        return result

    def _each(self, buffers: Sequence[Buffer]) -> list[_Memory]:
        return [*dict.fromkeys(map(self.of, buffers))]

    def _span(self, memory: _Memory) -> tuple[float, float]:
        """The first and the last work that touch some memory; all for the caller's."""
        if memory.fixed or memory.argument is not None or memory.result is not None:
            return -1, END
        if memory not in self.spans:
            uses = [self.uses[b] for b in memory.buffers]
            first = min(use.writes[0] for use in uses)
            last = max(x[-1] for use in uses for x in (use.reads, use.writes) if x)
            self.spans[memory] = first, last
        return self.spans[memory]

    def roots(self) -> dict[Buffer, Buffer]:
        """Return the root of each buffer that is stored in the memory of another."""
        result: dict[Buffer, Buffer] = {}
        for memory in dict.fromkeys(self.memory.values()):
            root = memory.buffers[0]
            if memory.argument is None and memory.result is not None:
                root = self.items.outputs[memory.result]
            result.update((b, root) for b in memory.buffers if b is not root)
        return result


_ASKED = 4  # maximum candidates for a result's memory


def _layout(memory: _Memory) -> object:
    """What is equal for buffers that may take each other's memory."""
    first = memory.buffers[0]
    return first.size, first.dtype.itemsize
