"""Native code that takes donated arguments over.

    i1 claim(ptr record, ptr arguments, ptr table)   before the program
    void hand_over(ptr record, ptr rings, ptr table)  after it

`claim` looks at the arguments once more, and then deletes the donated arrays: their
storage lies in the table, and results that are to lie there get its address. It does
nothing where one is used besides, donated twice, or seen by somebody else: for those
the call is made in Python. That one array is given twice shows when it is found
deleted, so that there is nothing to search.

No Python runs between the two. `hand_over` gives the storage to the results, or keeps
it for those of the next call.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.support import entry_code
from curta.compiler.support.call_record import (
    DONATED,
    DONATION_WORDS,
    LEAF,
    LEAVES_AT,
    MADE_AT,
    OVERWRITTEN,
    RESULT,
    RING,
    TAKEN_AT,
    CallRecord,
    ObjectLayout,
    field,
    load,
)
from curta.compiler.support.invoke_code import at, word
from curta.compiler.support.result_code import is_alone

# What the memory of an array belongs to that is no part of another one's.
OWNERS = ("block_type", "bytearray_type", "mmap_type")


def emit_donation(module: Module, layout: ObjectLayout) -> None:
    """Add `claim` and `hand_over` to a module that has `collect`."""
    code = _Donation(layout)
    code.is_free(module.function("is_free", [PTR], I1, exported=False))
    code.claim(module.function("claim", [PTR, PTR, PTR], I1, exported=False))
    code.hand_over(module.function("hand_over", [PTR] * 3, I64, exported=False))


class _Donation:
    def __init__(self, layout: ObjectLayout) -> None:
        self.layout = layout

    def is_free(self, b: Builder) -> None:
        """Whether an array may be deleted, and its memory be written to.

        If this call overwrites none of it, results of later ones lie there.
        """
        (array,) = b.arguments
        header, none = self.layout.header, b.external("none")
        data = load(b, array, self.layout.data)
        pending = load(b, array, self.layout.pending)
        free = ~b.eq(data, none) & is_alone(b, data)
        free = free & (b.is_null(pending) | b.eq(pending, none))

        def owned() -> Values:
            flags = load(b, data, header + entry_code.FLAGS, I32)
            base = load(b, data, header + entry_code.BASE)
            own = b.if_(
                b.is_null(base),
                lambda: [b.const(I1, 1)],
                lambda: [_is_owner(b, load(b, base, header - 8))],
            )[0]
            return [own & b.ne(flags & entry_code.WRITEABLE, 0)]

        b.ret(b.if_(free, owned, lambda: [free])[0])

    def claim(self, b: Builder) -> None:
        head, _, table = b.arguments
        taken = b.call("collect", I1, *b.arguments)
        record = CallRecord(b, head)
        areas, donated = _Areas(record, table), record.word(DONATED)

        def more(carried: Values) -> Value:
            return carried[1] & b.compare("lt", carried[0], donated)

        def claim(carried: Values) -> Values:
            return self._claim_one(b, areas, carried[0])

        count, good = b.while_loop([b.const(I64, 0), taken], more, claim)

        def not_used() -> Values:
            return [b.eq(self._count_deleted(b, areas, record.arrays), donated)]

        good = b.if_(good, not_used, lambda: [good])[0]
        with b.when(~good), b.loop(0, count) as loop:
            self._restore(b, areas, loop.index)
        b.ret(good)

    def _claim_one(self, b: Builder, areas: _Areas, number: Value) -> Values:
        """Delete a donated array; the number of the next one, and whether it was."""
        donation = areas.donation(number)
        leaf = word(b, donation, LEAF)
        overwritten = word(b, donation, OVERWRITTEN)
        array = b.load(PTR, at(b, areas.leaves, leaf))

        def delete() -> Values:
            data = field(b, array, self.layout.data)
            b.store(b.load(PTR, data), at(b, areas.taken, number))
            none = b.external("none")
            b.call("Py_IncRef", None, none)
            b.store(none, data)
            with b.when(b.ne(overwritten, 0)):
                address = word(b, areas.inputs, leaf)
                b.store(address, at(b, areas.table, word(b, donation, RESULT)))
            return [number + 1, b.const(I1, 1)]

        free = b.call("is_free", I1, array)
        return b.if_(free, delete, lambda: [number, free])

    def _count_deleted(self, b: Builder, areas: _Areas, leaves: Value) -> Value:
        """How many arguments are deleted: more than donated, if one is used besides."""
        none = b.external("none")
        with b.loop(0, leaves, carried=[b.const(I64, 0)]) as loop:
            array = b.load(PTR, at(b, areas.leaves, loop.index))
            gone = b.eq(load(b, array, self.layout.data), none)
            loop.next(loop.carried[0] + b.convert(gone, "i64"))
        return loop.results[0]

    def _restore(self, b: Builder, areas: _Areas, number: Value) -> None:
        leaf = word(b, areas.donation(number), LEAF)
        array = b.load(PTR, at(b, areas.leaves, leaf))
        self._fill(b, array, b.load(PTR, at(b, areas.taken, number)))

    def _fill(self, b: Builder, array: Value, storage: Value) -> None:
        """Give an array new storage, and release the old."""
        data = field(b, array, self.layout.data)
        before = b.load(PTR, data)
        b.store(storage, data)
        b.call("Py_DecRef", None, before)

    def hand_over(self, b: Builder) -> None:
        head, rings, table = b.arguments
        record = CallRecord(b, head)
        areas, spares = _Areas(record, table), record.results * RING
        made = record.area(table, MADE_AT)
        with b.loop(0, record.word(DONATED)) as loop:
            donation = areas.donation(loop.index)
            result = word(b, donation, RESULT)
            storage = b.load(PTR, at(b, areas.taken, loop.index))

            def fill() -> Values:
                self._fill(b, b.load(PTR, at(b, made, result)), storage)
                return []

            def keep() -> Values:
                b.call("PyList_SetItem", I32, rings, spares + result, storage)
                return []

            b.if_(b.ne(word(b, donation, OVERWRITTEN), 0), fill, keep)
        b.ret(b.const(I64, 0))


class _Areas:
    """What is read for each donated argument."""

    def __init__(self, record: CallRecord, table: Value) -> None:
        b = record.b
        self.table = table
        self.inputs: Value = at(b, table, record.results)
        self.leaves: Value = record.area(table, LEAVES_AT)
        self.taken: Value = record.area(table, TAKEN_AT)
        self._donations: Value = record.donations

    def donation(self, number: Value) -> Value:
        """The address of the words of a donated argument."""
        b = self._donations.builder
        return at(b, self._donations, number * DONATION_WORDS)


def _is_owner(b: Builder, kind: Value) -> Value:
    first, *others = (b.eq(kind, b.external(name)) for name in OWNERS)
    for other in others:
        first = first | other
    return first
