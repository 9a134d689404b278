"""Native code that finds or makes the arrays of results.

Results that nobody holds any more are used again, the array objects included: that is
what makes a small call cheap. `rings` of an entry has RING results of earlier calls for
each output, and then the storage of a donated argument for each, or None. An array in a
ring may have no storage: it was donated, or waits for that of an argument, in whose
memory its result lies. Of large results, for which there are only spare ones, none is
kept: their memory comes from the pool, which all programs share.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.support import entry_code
from curta.compiler.support.call_record import (
    MADE_AT,
    MAKERS,
    RING,
    RINGS,
    SPARES,
    CallRecord,
    ObjectLayout,
    field,
    item_of,
    load,
)
from curta.compiler.support.invoke_code import at, word


def emit_results(module: Module, layout: ObjectLayout) -> None:
    """Add `result` and `results` to a module.

    Both give new references, or null if an exception is set, and store the arrays.
    """
    parts = [PTR, PTR, I64], PTR, False
    code = _Results(layout)
    code.refilled(module.function("refilled", *parts))
    code.full(module.function("full", [PTR, PTR, I64], PTR, False))
    code.bare(module.function("bare", [PTR, I64], PTR, False))
    _result(module)
    _results(module, layout)


def is_alone(b: Builder, item: Value) -> Value:
    """Whether an object has one reference."""
    return b.eq(load(b, item, 0, I32), 1)


_TRIED = RING + 1  # a slot beyond all: nothing more is to be looked at


class _Results:
    def __init__(self, layout: ObjectLayout) -> None:
        self.layout = layout

    def full(self, b: Builder) -> None:
        """An array with storage that nobody else holds; the address of its data."""
        entry, address, output = b.arguments

        def refilled() -> Value:
            return b.call("refilled", PTR, entry, item_of(b, entry, RINGS), output)

        maker = b.call("PyTuple_GetItem", PTR, item_of(b, entry, MAKERS), output)
        made = b.if_(
            b.eq(maker, b.external("none")),
            lambda: [_make(b, entry, SPARES, output)],
            lambda: [self._search(b, entry, output, self._if_dead, refilled)],
        )[0]
        with b.when(~b.is_null(made)):
            data = load(b, made, self.layout.data)
            b.store(load(b, data, self.layout.header + entry_code.DATA, I64), address)
        b.ret(made)

    def bare(self, b: Builder) -> None:
        """An array that nobody holds, of which the storage is to be replaced."""
        entry, output = b.arguments

        def spare() -> Value:
            return _make(b, entry, SPARES, output)

        b.ret(self._search(b, entry, output, self._if_unheld, spare))

    def _search(
        self,
        b: Builder,
        entry: Value,
        output: Value,
        usable: Callable[[Builder, Value], Value],
        otherwise: Callable[[], Value],
    ) -> Value:
        """A new reference to an array of the ring, or to a new one in an empty slot.

        What is `otherwise` if all are in use; null if an exception is set.
        """
        rings = item_of(b, entry, RINGS)
        first = output * RING

        def searching(carried: Values) -> Value:
            return b.compare("lt", carried[0], RING) & b.is_null(carried[1])

        def look(carried: Values) -> Values:
            slot, _ = carried
            kept = b.call("PyList_GetItem", PTR, rings, first + slot)
            is_none = b.eq(kept, b.external("none"))
            return b.if_(
                is_none,
                lambda: [b.const(I64, _TRIED), _new(b, entry, output, first + slot)],
                lambda: [slot + 1, self._taken_if(b, kept, usable(b, kept))],
            )

        slot, memory = b.while_loop([b.const(I64, 0), b.null], searching, look)
        in_use = b.is_null(memory) & b.ne(slot, _TRIED)
        return b.if_(in_use, lambda: [otherwise()], lambda: [memory])[0]

    def _taken_if(self, b: Builder, kept: Value, usable: Value) -> Value:
        def take() -> Values:
            b.call("Py_IncRef", None, kept)
            return [kept]

        return b.if_(usable, take, lambda: [b.null])[0]

    def _if_unheld(self, b: Builder, kept: Value) -> Value:
        """Whether nobody but the ring has an array."""
        weak = load(b, kept, self.layout.weak_references)
        return is_alone(b, kept) & b.is_null(weak)

    def _if_dead(self, b: Builder, kept: Value) -> Value:
        """Whether only the ring refers to an array and its storage."""
        data = load(b, kept, self.layout.data)
        there = ~b.eq(data, b.external("none"))
        return self._if_unheld(b, kept) & is_alone(b, data) & there

    def refilled(self, b: Builder) -> None:
        """An array in the slot of one that is unreferenced and has lost its storage.

        That which is kept of a donated argument becomes its own. Where there is no such
        array, it is one that is not kept.
        """
        entry, rings, output = b.arguments
        first, none = output * RING, b.external("none")

        def searching(carried: Values) -> Value:
            return b.compare("lt", carried[0], RING) & b.is_null(carried[1])

        def look(carried: Values) -> Values:
            kept = b.call("PyList_GetItem", PTR, rings, first + carried[0])
            lost = b.eq(load(b, kept, self.layout.data), none)
            usable = ~b.eq(kept, none)
            usable = b.if_(usable, lambda: [lost & self._if_unheld(b, kept)], no)[0]
            return [carried[0] + 1, b.select(usable, kept, b.null)]

        def no() -> Values:
            return [b.const(I1, 0)]

        start = [b.const(I64, 0), b.null]
        slot, kept = b.while_loop(start, searching, look)

        def refill() -> Values:
            outputs = b.instruction(
                f"udiv i64 {b.call('PyList_Size', I64, rings)}, {RING + 1}", I64
            )
            spare = outputs * RING + output
            storage = b.call("PyList_GetItem", PTR, rings, spare)
            usable = ~b.eq(storage, none) & is_alone(b, storage)

            def fill() -> Values:
                b.call("Py_IncRef", None, storage)
                b.store(storage, field(b, kept, self.layout.data))
                b.call("PyList_SetItem", I32, rings, spare, none)  # kept's reference
                b.call("Py_IncRef", None, kept)
                return [kept]

            return b.if_(
                usable, fill, lambda: [_new(b, entry, output, first + slot - 1)]
            )

        def unkept() -> Values:
            return [_make(b, entry, SPARES, output)]

        b.ret(b.if_(b.is_null(kept), unkept, refill)[0])


def _make(b: Builder, entry: Value, makers: int, output: Value) -> Value:
    """A new array for a result; null if an exception is set."""
    maker = b.call("PyTuple_GetItem", PTR, item_of(b, entry, makers), output)
    return b.call("PyObject_CallNoArgs", PTR, maker)


def _new(b: Builder, entry: Value, output: Value, slot: Value) -> Value:
    """A new array, which gets a slot in the rings."""
    made = _make(b, entry, MAKERS, output)
    with b.when(~b.is_null(made)):
        b.call("Py_IncRef", None, made)
        b.call("PyList_SetItem", I32, item_of(b, entry, RINGS), slot, made)
    return made


def _result(module: Module) -> None:
    """An array for a result, with the address of its data if it has its own."""
    b = module.function("result", [PTR, PTR, PTR, I64, I64], PTR, exported=False)
    entry, address, slot, waits, output = b.arguments
    made = b.if_(
        b.eq(waits, 0),
        lambda: [b.call("full", PTR, entry, address, output)],
        lambda: [b.call("bare", PTR, entry, output)],
    )[0]
    b.store(made, slot)
    b.ret(made)


def _results(module: Module, layout: ObjectLayout) -> None:
    """A tuple of results; null if an exception is set."""
    b = module.function("results", [PTR, PTR, PTR], PTR, exported=False)
    entry, record, table = b.arguments
    head = CallRecord(b, record)
    count, arrays, waiting = head.results, head.area(table, MADE_AT), head.waiting
    outs = b.call("PyTuple_New", PTR, count)
    items = field(b, outs, layout.items)

    def missing(carried: Values) -> Value:
        return b.compare("lt", carried[0], count) & carried[1]

    def add(carried: Values) -> Values:
        i, _ = carried
        waits = word(b, waiting, i)
        made = b.call("result", PTR, entry, at(b, table, i), at(b, arrays, i), waits, i)
        b.store(made, at(b, items, i))
        return [i + 1, ~b.is_null(made)]

    start = [b.const(I64, 0), ~b.is_null(outs)]
    good = b.while_loop(start, missing, add)[1]
    with b.when(~good & ~b.is_null(outs)):
        b.call("Py_DecRef", None, outs)
    b.ret(b.select(good, outs, b.null))
