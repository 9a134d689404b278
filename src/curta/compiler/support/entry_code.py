"""The native functions behind entries: check arrays, collect addresses, call.

They are compiled once for all entries. `self` of the built-in function is a tuple whose
first item is a bytes object, the record of one entry: what `invoke_code` wants of the
program and its constants, then for each array: dtype object, rank, dimensions.

A call returns True if it was made and False if the arguments are not as promised. It
raises OutOfMemoryError, and calls nothing, if there is no memory for the arena. If a
signal handler canceled the function, it raises the handler's exception.

`table_entry` calls nothing: it gives the table for a call by somebody else, as a
bytearray that is empty if the arguments are not as promised.

Fields of an array object are read where this NumPy keeps them, which `entry.py`
verifies before it uses any of this.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.support.invoke_code import (
    ARRAYS,
    CONSTANTS,
    FAILED,
    HEAD_WORDS,
    MISSED,
    RAN,
    RESULTS,
    invoke,
    put_constants,
)
from curta.compiler.support.objects import (
    at,
    field,
    is_of,
    item_of,
    pointer,
    put,
    word,
    words,
)

HEADER = object.__basicsize__
# Fields of an array object.
DATA, RANK, DIMENSIONS = HEADER, HEADER + 8, HEADER + 16
BASE, DTYPE, FLAGS = HEADER + 32, HEADER + 40, HEADER + 48
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

ARRAY_TYPE = "array_type"


@function(PTR, PTR, I64, result=PTR)
def call_entry(b: Builder, owner: Value, arguments: Value, given: Value) -> Value:
    record = record_of(owner)
    arrays, status = word(record, ARRAYS), b.scratch(8, align=8)
    put(status, 0, MISSED)
    with b.when(b.eq(given, arrays)):
        table = words(b, arrays + word(record, CONSTANTS))
        put(status, 0, invoke(b, record, table, collect.address(b), arguments))
    b.return_when(b.eq(word(status, 0), FAILED), b.null)
    ran = b.convert(b.eq(word(status, 0), RAN), "i64")
    return b.call("PyBool_FromLong", PTR, ran)


@function(PTR, PTR, I64, result=PTR)
def table_entry(b: Builder, owner: Value, arguments: Value, given: Value) -> Value:
    record = record_of(owner)
    count = word(record, ARRAYS) + word(record, CONSTANTS)
    make, nothing = "PyByteArray_FromStringAndSize", b.const(I64, 0)
    with b.when(b.ne(given, word(record, ARRAYS))):
        b.ret(b.call(make, PTR, b.null, nothing))
    table = words(b, count)
    fits = collect(b, record, arguments, table)
    put_constants(record, table)
    return b.call(make, PTR, table, b.select(fits, count * 8, nothing))


def record_of(owner: Value, index: int = 0) -> Value:
    """The words of a bytes object in a tuple."""
    return owner.builder.call("PyBytes_AsString", PTR, item_of(owner, index))


@function(PTR, PTR, PTR, result=I1)
def collect(b: Builder, record: Value, arguments: Value, table: Value) -> int:
    """Store the data addresses; whether every array is as its signature says."""
    results = word(record, RESULTS)
    start = at(record, word(record, CONSTANTS) + HEAD_WORDS)
    with b.loop(0, word(record, ARRAYS), carried=[start]) as loop:
        (signature,), item = loop.carried, pointer(arguments, loop.index)
        b.return_unless(is_of(item, ARRAY_TYPE))
        b.return_unless(b.eq(field(item, DTYPE, I64), word(signature, 0)))
        usable = b.const(I32, C_CONTIGUOUS | ALIGNED)
        needed = b.select(loop.index < results, usable | WRITEABLE, usable)
        b.return_unless(b.eq(field(item, FLAGS, I32) & needed, needed))
        rank, own = word(signature, 1), field(item, DIMENSIONS)
        b.return_unless(b.eq(b.convert(field(item, RANK, I32), "i64"), rank))
        with b.loop(0, rank) as dim:
            expected = word(signature, dim.index + 2)
            b.return_unless(b.eq(word(own, dim.index), expected))
        put(table, loop.index, field(item, DATA))
        loop.next(at(signature, rank + 2))
    return 1


EXPORTS = (call_entry, table_entry)
