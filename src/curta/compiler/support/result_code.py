"""Native code that finds or makes the arrays of results.

Results without references are reused, including their array objects, which makes small
calls cheap. `rings` of an entry has RING results of earlier calls for each output, and
then the storage of a donated argument for each, or None. An array in a ring may have no
storage: it was donated, or waits for that of an argument, in whose memory its result
lies. Of large results, for which there are only spare ones, none is kept: their memory
comes from the pool, which all programs share.

All functions give new references, or null if an exception is set.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I32, I64, PTR, Value
from curta.compiler.support import entry_code
from curta.compiler.support.call_record import (
    MADE_AT,
    MAKERS,
    RING,
    RINGS,
    SPARES,
    CallRecord,
)
from curta.compiler.support.objects import (
    ITEMS,
    at,
    drop,
    field,
    hold,
    is_alone,
    is_none,
    item_of,
    none,
    put,
    set_field,
    word,
)


@function(PTR, PTR, PTR, result=PTR)
def results(b: Builder, entry: Value, record: Value, table: Value) -> Value:
    """A tuple of arrays for the results."""
    head = CallRecord(record)
    count, made = head.results, head.area(table, MADE_AT)
    outs = b.call("PyTuple_New", PTR, count)
    b.return_when(b.is_null(outs), b.null)
    items = at(outs, ITEMS // 8)
    with b.loop(0, count) as loop:
        i = loop.index
        waits = word(head.said, i)
        array = result(b, entry, at(table, i), at(made, i), waits, i)
        put(items, i, array)
        with b.when(b.is_null(array)):
            drop(outs)
            b.ret(b.null)
    return outs


@function(PTR, PTR, PTR, I64, I64, result=PTR)
def result(
    b: Builder, entry: Value, address: Value, slot: Value, waits: Value, output: Value
) -> Value:
    """An array for a result, and the address of its data unless it waits for that."""
    own = b.eq(waits, 0)
    made = b.choose(own, lambda: full(b, entry, output), lambda: bare(b, entry, output))
    put(slot, 0, made)
    with b.when(own & ~b.is_null(made)):
        data = field(made, b.module.layout.data)
        put(address, 0, field(data, entry_code.DATA))
    return made


@function(PTR, I64, result=PTR)
def full(b: Builder, entry: Value, output: Value) -> Value:
    """An array whose storage has no other references."""
    maker, first = item_of(item_of(entry, MAKERS), output), output * RING
    with b.when(is_none(maker)):
        b.ret(_make(entry, SPARES, output))
    rings, layout = item_of(entry, RINGS), b.module.layout
    with b.loop(0, RING) as loop:
        kept = _kept_or_made(entry, output, first + loop.index)
        data = field(kept, layout.data)
        with b.when(_is_unheld(kept) & is_alone(data) & ~is_none(data)):
            b.ret(hold(kept))
    with b.loop(0, RING) as loop:
        kept = b.call("PyList_GetItem", PTR, rings, first + loop.index)
        with b.when(is_none(field(kept, layout.data)) & _is_unheld(kept)):
            b.ret(refilled(b, entry, output, first + loop.index))
    return _make(entry, SPARES, output)


@function(PTR, I64, result=PTR)
def bare(b: Builder, entry: Value, output: Value) -> Value:
    """An array without references, whose storage will be replaced."""
    with b.loop(0, RING) as loop:
        kept = _kept_or_made(entry, output, output * RING + loop.index)
        with b.when(_is_unheld(kept)):
            b.ret(hold(kept))
    return _make(entry, SPARES, output)


@function(PTR, I64, I64, result=PTR)
def refilled(b: Builder, entry: Value, output: Value, slot: Value) -> Value:
    """An array in the slot of an unreferenced one without storage.

    It takes the kept storage of a donated argument, or is replaced.
    """
    rings = item_of(entry, RINGS)
    outputs = b.udiv(b.call("PyList_Size", I64, rings), RING + 1)
    spare = outputs * RING + output
    storage = b.call("PyList_GetItem", PTR, rings, spare)
    with b.when(is_none(storage) | ~is_alone(storage)):
        b.ret(new(b, entry, output, slot))
    kept = b.call("PyList_GetItem", PTR, rings, slot)
    set_field(kept, b.module.layout.data, hold(storage))
    b.call("PyList_SetItem", I32, rings, spare, none(b))  # kept's reference
    return hold(kept)


@function(PTR, I64, I64, result=PTR)
def new(b: Builder, entry: Value, output: Value, slot: Value) -> Value:
    """A new array, which gets a slot in the rings."""
    made = _make(entry, MAKERS, output)
    b.return_when(b.is_null(made), b.null)
    b.call("PyList_SetItem", I32, item_of(entry, RINGS), slot, hold(made))
    return made


def _kept_or_made(entry: Value, output: Value, slot: Value) -> Value:
    """The array in a slot of the rings; returns with a new one if there is none."""
    b: Builder = entry.builder
    kept = b.call("PyList_GetItem", PTR, item_of(entry, RINGS), slot)
    with b.when(is_none(kept)):
        b.ret(new(b, entry, output, slot))
    return kept


def _is_unheld(kept: Value) -> Value:
    """Whether nobody but the ring has an array."""
    b: Builder = kept.builder
    weak = field(kept, b.module.layout.weak_references)
    return is_alone(kept) & b.is_null(weak)


def _make(entry: Value, makers: int, output: Value) -> Value:
    """A new array for a result."""
    maker = item_of(item_of(entry, makers), output)
    return maker.builder.call("PyObject_CallNoArgs", PTR, maker)
