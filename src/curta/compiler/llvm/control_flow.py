"""Structured control flow: loops, branches and returns, with carried values as phis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from curta.compiler.llvm.folding import HOLDS, known
from curta.compiler.llvm.types import I64, Operand, Type, Value
from curta.compiler.llvm.vectors import VectorInstructions

Values = list[Value]


class LoopBuilder:
    """A counted loop in the making: what its body reads and hands on."""

    def __init__(self, index: Value, carried: Values) -> None:
        self.index = index
        self.carried = carried
        self.results: Values = []
        self._next: Values = carried

    def next(self, *values: Value) -> None:
        """The carried values of the next iteration (unless called, they stay)."""
        if [v.type for v in values] != [v.type for v in self.carried]:
            raise TypeError(f"the loop carries {self.carried}, not {list(values)}")
        self._next = list(values)


class ControlFlow(VectorInstructions, ABC):
    """The blocks of one function."""

    def __init__(self, result: Type | None) -> None:
        super().__init__()
        self._result = result
        self._lines: list[str] = []
        self._count = 0
        self._block = "entry"

    @abstractmethod
    def ret(self, value: Value | None = None) -> None:
        """Return from the function; nothing may follow in this block."""

    def _new(self, type_: Type) -> Value:
        self._count += 1
        return Value(f"%v{self._count}", type_, self)

    def _label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def _begin(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label

    def _jump(self, label: str) -> None:
        self._lines.append(f"  br label %{label}")

    def _branch(self, condition: Value, yes: str, no: str) -> None:
        text = f"  br i1 {condition.text}, label %{yes}, label %{no}"
        self._lines.append(text)

    def _phi(self, result: Value, *incoming: tuple[Value, str]) -> str:
        pairs = ", ".join(f"[ {v.text}, %{block} ]" for v, block in incoming)
        return f"  {result.text} = phi {result.type} {pairs}"

    @contextmanager
    def loop(
        self,
        start: Operand,
        stop: Operand,
        step: int = 1,
        carried: Sequence[Value] = (),
        runs: bool = False,
    ) -> Iterator[LoopBuilder]:
        """Run the `with` body for index = start, start + step, ... while below stop.

        Bounds are i64 values or ints. `loop.carried` are the values from the iteration
        before; the body says what follows by `loop.next(...)`; after it, `loop.results`
        are the last ones (the given ones when there was no iteration). A loop known to
        run once is not emitted as a loop, and one known never to run is dropped. `runs`
        says that it runs at least once.
        """
        first, last = self.operand(start, I64), self.operand(stop, I64)
        begin, end = known(first), known(last)
        if begin is not None and end is not None:
            runs = begin < end
            if end <= begin + step:
                once = LoopBuilder(first, list(carried))
                with self._kept_if(runs):
                    yield once
                once.results = once._next if runs else list(carried)
                return
        body, done, before = self._label(), self._label(), self._block
        if runs:
            self._jump(body)
        else:
            self._branch(self.compare("lt", first, last), body, done)
        self._begin(body)
        hole = len(self._lines)
        loop = LoopBuilder(self._new(I64), [self._new(v.type) for v in carried])
        yield loop
        after = self._new(I64)
        self.emit(f"  {after.text} = add nsw i64 {loop.index.text}, {step}")
        self._branch(self.compare("lt", after, last), body, done)
        latch = self._block
        inputs = zip([loop.index, *loop.carried], [first, *carried],
                     [after, *loop._next], strict=True)  # fmt: skip
        phis = [self._phi(r, (a, before), (b, latch)) for r, a, b in inputs]
        self._lines[hole:hole] = phis
        self._begin(done)
        loop.results = loop._next
        if not runs:
            joined = zip(carried, loop._next, strict=True)
            loop.results = [self._join((a, before), (b, latch)) for a, b in joined]

    @contextmanager
    def _kept_if(self, runs: bool) -> Iterator[None]:
        """Keep the lines that the `with` body adds, or drop them."""
        count, block = len(self._lines), self._block
        yield
        if not runs:
            del self._lines[count:]
            self._block = block

    def _join(self, *incoming: tuple[Value, str]) -> Value:
        result = self._new(incoming[0][0].type)
        self.emit(self._phi(result, *incoming))
        return result

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the `with` body only if the condition, one `i1`, holds.

        It may end with a return.
        """
        if (holds := HOLDS.get(condition.text)) is not None:
            with self._kept_if(holds):
                yield
            if self._has_returned:
                self._begin(self._label())  # of what is never reached
            return
        body, done = self._label(), self._label()
        self._branch(condition, body, done)
        self._begin(body)
        yield
        if not self._has_returned:
            self._jump(done)
        self._begin(done)

    @property
    def _has_returned(self) -> bool:
        """Whether the current block ends with a return."""
        return bool(self._lines) and self._lines[-1].startswith("  ret ")

    def return_when(self, condition: Value, result: Operand = 0) -> None:
        """Return from the function, with a result if it has one, if that holds."""
        with self.when(condition):
            self.ret(self.operand(result, self._result) if self._result else None)

    def return_unless(self, condition: Value, result: Operand = 0) -> None:
        """Return from the function, with a result if it has one, unless that holds."""
        self.return_when(self.not_(condition), result)

    def if_(
        self,
        condition: Value,
        then: Callable[[], Values],
        otherwise: Callable[[], Values],
    ) -> Values:
        """Run one of two bodies; they give values of the same types."""
        yes, no, done = self._label(), self._label(), self._label()
        self._branch(condition, yes, no)
        ends: list[tuple[Values, str]] = []
        for label, body in ((yes, then), (no, otherwise)):
            self._begin(label)
            ends.append((body(), self._block))
            self._jump(done)
        self._begin(done)
        (left, from_left), (right, from_right) = ends
        pairs = zip(left, right, strict=True)
        return [self._join((a, from_left), (b, from_right)) for a, b in pairs]

    def choose(
        self,
        condition: Value,
        then: Callable[[], Value],
        otherwise: Callable[[], Value],
    ) -> Value:
        """The values of one of two bodies; only that one runs."""
        return self.if_(condition, lambda: [then()], lambda: [otherwise()])[0]

    @contextmanager
    def forever(self, carried: Sequence[Value] = ()) -> Iterator[LoopBuilder]:
        """Repeat the `with` body, from which only a return leads out."""
        again, before = self._label(), self._block
        self._jump(again)
        self._begin(again)
        hole = len(self._lines)
        loop = LoopBuilder(self.const(I64, 0), [self._new(v.type) for v in carried])
        yield loop
        self._jump(again)
        self._fill(hole, loop.carried, (carried, before), (loop._next, self._block))
        self._begin(self._label())  # of what is never reached

    def while_loop(
        self,
        initial: Sequence[Value],
        condition: Callable[[Values], Value],
        body: Callable[[Values], Values],
    ) -> Values:
        """Repeat the body on the carried values while the condition, one `i1`, holds.

        The condition is tested before the first iteration.
        """
        test, iteration, done = self._label(), self._label(), self._label()
        before = self._block
        self._jump(test)
        self._begin(test)
        hole = len(self._lines)
        carried = [self._new(v.type) for v in initial]
        self._branch(condition(carried), iteration, done)
        self._begin(iteration)
        following = body(carried)
        self._jump(test)
        self._fill(hole, carried, (initial, before), (following, self._block))
        self._begin(done)
        return carried

    def while_in_blocks(
        self,
        initial: Sequence[Value],
        condition: Callable[[Values], Value],
        body: Callable[[Values], Values],
        iterations: int,
        goes_on: Callable[[], Value],
    ) -> Values:
        """`while_loop`, which after every so many iterations asks whether to go on.

        Two nested loops. The inner one is left by one branch when the condition fails,
        so polling does not slow down a short loop.
        """
        block, test, iteration, ask, done = (self._label() for _ in range(5))
        before = self._block
        self._jump(block)
        self._begin(block)
        outer_hole, start = len(self._lines), [self._new(v.type) for v in initial]
        self._jump(test)
        self._begin(test)
        hole, carried = len(self._lines), [self._new(v.type) for v in initial]
        left = self._new(I64)
        self._branch(condition(carried), iteration, done)
        tested = self._block
        self._begin(iteration)
        following = body(carried)
        rest = left - 1
        self._branch(self.compare("gt", rest, 0), test, ask)
        latch = self._block
        self._begin(ask)
        self._branch(goes_on(), block, done)
        asked = self._block
        full = self.const(I64, iterations)
        inner = ([*start, full], block), ([*following, rest], latch)
        self._fill(hole, [*carried, left], *inner)
        self._fill(outer_hole, start, (initial, before), (following, asked))
        self._begin(done)
        pairs = zip(carried, following, strict=True)
        return [self._join((a, tested), (b, asked)) for a, b in pairs]

    def _fill(
        self, hole: int, results: Values, *incoming: tuple[Sequence[Value], str]
    ) -> None:
        """Put phis of values from several blocks to where the lines were so many."""
        (left, from_left), (right, from_right) = incoming
        self._lines[hole:hole] = [
            self._phi(r, (a, from_left), (b, from_right))
            for r, a, b in zip(results, left, right, strict=True)
        ]
