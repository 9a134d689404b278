"""Native code that takes donated arguments over.

`claim`, before the program, looks at the arguments once more, and then deletes the
donated arrays: their storage lies in the table, and results that are to lie there get
its address. It does nothing where one is used besides, donated twice, or seen by
somebody else: for those the call is made in Python. That one array is given twice shows
when it is found deleted, so that there is nothing to search.

No Python runs between that and `hand_over`, after the program, which gives the storage
to the results, or keeps it for those of the next call.
"""

from __future__ import annotations

from functools import reduce

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.support import entry_code
from curta.compiler.support.argument_code import collect, keep
from curta.compiler.support.call_record import (
    DONATED,
    DONATION_WORDS,
    KEPT_AT,
    LEAF,
    LEAVES_AT,
    MADE_AT,
    NUMBER,
    OVERWRITTEN,
    RESULT,
    RING,
    TAKEN_AT,
    CallRecord,
)
from curta.compiler.support.objects import (
    at,
    drop,
    field,
    hold,
    is_alone,
    is_none,
    is_of,
    none,
    pointer,
    put,
    set_field,
    word,
)

# What the memory of an array belongs to that is no part of another one's.
OWNERS = ("block_type", "bytearray_type", "mmap_type")


@function(PTR, result=I1)
def is_free(b: Builder, array: Value) -> int:
    """Whether an array may be deleted, and its memory be written to.

    If this call does not overwrite it, results of later calls use it.
    """
    data = field(array, b.module.layout.data)
    pending = field(array, b.module.layout.pending)
    b.return_when(is_none(data) | ~is_alone(data))
    b.return_unless(b.is_null(pending) | is_none(pending))
    writeable = field(data, entry_code.FLAGS, I32) & entry_code.WRITEABLE
    b.return_when(b.eq(writeable, 0))
    base = field(data, entry_code.BASE)
    with b.when(~b.is_null(base)):
        b.return_unless(reduce(b.or_, [is_of(base, owner) for owner in OWNERS]))
    return 1


@function(PTR, PTR, PTR, result=I1)
def claim(b: Builder, record: Value, arguments: Value, table: Value) -> int:
    """Delete the donated arguments; whether that may be."""
    b.return_unless(collect(b, record, arguments, table))
    head = CallRecord(record)
    donated, leaves = head.word(DONATED), head.area(table, LEAVES_AT)
    with b.loop(0, donated) as loop:
        donation = _donation(head, loop.index)
        leaf = word(donation, LEAF)
        array = pointer(leaves, leaf)
        with b.when(~is_free(b, array)):
            restore(b, record, table, loop.index)
            b.ret(b.const(I1, 0))
        data = field(array, b.module.layout.data)
        put(head.area(table, TAKEN_AT), loop.index, data)
        set_field(array, b.module.layout.data, hold(none(b)))
        with b.when(b.ne(word(donation, OVERWRITTEN), 0)):
            address = word(at(table, head.results), leaf)
            put(table, word(donation, RESULT), address)
    # More are deleted than were donated if one is used besides.
    with b.loop(0, head.arrays, carried=[b.const(I64, 0)]) as loop:
        gone = b.choose(
            b.ne(word(leaves, loop.index) & NUMBER, 0),
            lambda: b.const(I64, 0),
            lambda: _is_gone(pointer(leaves, loop.index)),
        )
        loop.next(loop.carried[0] + gone)
    with b.when(b.ne(loop.results[0], donated)):
        restore(b, record, table, donated)
        b.ret(b.const(I1, 0))
    return 1


@function(PTR, PTR, PTR, result=I1)
def claim_kept(b: Builder, record: Value, arguments: Value, table: Value) -> Value:
    """As `claim`, for calls without the GIL: the storage of other leaves is held."""
    b.return_unless(claim(b, record, arguments, table))
    head = CallRecord(record)
    leaves, kept = head.area(table, LEAVES_AT), head.area(table, KEPT_AT)
    with b.loop(0, head.arrays) as loop:
        with b.when(b.eq(word(leaves, loop.index) & NUMBER, 0)):
            data = field(pointer(leaves, loop.index), b.module.layout.data)
            keep(kept, hold(data))
    return b.const(I1, 1)


def _is_gone(array: Value) -> Value:
    """1 for an array without storage, 0 for another one."""
    b: Builder = array.builder
    data = field(array, b.module.layout.data)
    return b.convert(is_none(data), "i64", unsigned=True)


@function(PTR, PTR, I64)
def restore(b: Builder, record: Value, table: Value, count: Value) -> None:
    """Give the first of the donated arrays back what was taken from them."""
    head = CallRecord(record)
    with b.loop(0, count) as loop:
        leaf = word(_donation(head, loop.index), LEAF)
        array = pointer(head.area(table, LEAVES_AT), leaf)
        _fill(array, pointer(head.area(table, TAKEN_AT), loop.index))


@function(PTR, PTR, PTR)
def hand_over(b: Builder, record: Value, rings: Value, table: Value) -> None:
    head = CallRecord(record)
    spares, made = head.results * RING, head.area(table, MADE_AT)
    with b.loop(0, head.word(DONATED)) as loop:
        donation = _donation(head, loop.index)
        result = word(donation, RESULT)
        storage = pointer(head.area(table, TAKEN_AT), loop.index)
        overwritten = b.ne(word(donation, OVERWRITTEN), 0)
        with b.when(overwritten):
            _fill(pointer(made, result), storage)
        with b.when(~overwritten):
            b.call("PyList_SetItem", I32, rings, spares + result, storage)


def _donation(head: CallRecord, number: Value) -> Value:
    """The address of the words of a donated argument."""
    return at(head.donations, number * DONATION_WORDS)


def _fill(array: Value, storage: Value) -> None:
    """Give an array new storage, and release the old."""
    data: int = array.builder.module.layout.data
    before = field(array, data)
    set_field(array, data, storage)
    drop(before)
