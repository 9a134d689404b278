"""The native functions behind entries: check arrays, collect addresses, call.

They are compiled once for all entries. `self` of the built-in function is a tuple whose
first item is a bytes object, the record of one entry: what `invoke_code` wants of the
program and its constants, then for each array: dtype object, rank, dimensions.

A call returns True if it was made and False if the arguments are not as promised. It
raises OutOfMemoryError, and calls nothing, if there is no memory for the arena. If the
function was cancelled by the handler of a signal, it raises what that raised.

`table_entry` calls nothing: it gives the table for a call by somebody else, as a
bytearray that is empty if the arguments are not as promised.

Fields of an array object are read where this NumPy keeps them, which `entry.py`
verifies before it uses any of this.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I8, I32, I64, PTR, Type, Value
from curta.compiler.support import invoke_code
from curta.compiler.support.invoke_code import (
    ARRAYS,
    CONSTANTS,
    HEAD_WORDS,
    RESULTS,
    at,
    emit_constants,
    emit_invoke,
    word,
    words,
)

# Fields of an array object, from the end of the object's header.
DATA, RANK, DIMENSIONS, BASE, DTYPE, FLAGS = 0, 8, 16, 32, 40, 48
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

EXPORTS = ("call_entry", "table_entry")
ARRAY_TYPE = "array_type"


def entry_module(module: Module, header: int) -> None:
    """IR of both functions, for arrays whose object header has this many bytes."""
    emit_invoke(module)
    _collect(module, header)
    _table_entry(module)
    b = module.function("call_entry", [PTR, PTR, I64], PTR)
    owner, arguments, given = b.arguments
    record = _record(b, owner)
    arrays = word(b, record, ARRAYS)

    def run() -> Values:
        table = words(b, arrays + word(b, record, CONSTANTS))
        collect = b.function_address("collect")
        return [b.call("invoke", I64, record, table, collect, arguments)]

    missed = b.const(I64, invoke_code.MISSED)
    status = b.if_(b.eq(given, arrays), run, lambda: [missed])[0]

    def answer() -> Values:
        ran = b.convert(b.eq(status, invoke_code.RAN), "i64")
        return [b.call("PyBool_FromLong", PTR, ran)]

    failed = b.eq(status, invoke_code.FAILED)
    b.ret(b.if_(failed, lambda: [b.null], answer)[0])


def _record(b: Builder, owner: Value) -> Value:
    item = b.call("PyTuple_GetItem", PTR, owner, b.const(I64, 0))
    return b.call("PyBytes_AsString", PTR, item)


def _table_entry(module: Module) -> None:
    b = module.function("table_entry", [PTR, PTR, I64], PTR)
    owner, arguments, given = b.arguments
    record = _record(b, owner)
    arrays, constants = word(b, record, ARRAYS), word(b, record, CONSTANTS)

    def fill() -> Values:
        count = arrays + constants
        table = words(b, count)
        fits = b.call("collect", I1, record, arguments, table)
        emit_constants(b, record, table)
        size = b.select(fits, count * 8, 0)
        return [b.call("PyByteArray_FromStringAndSize", PTR, table, size)]

    def missed() -> Values:
        name, zero = "PyByteArray_FromStringAndSize", b.const(I64, 0)
        return [b.call(name, PTR, b.null, zero)]

    b.ret(b.if_(b.eq(given, arrays), fill, missed)[0])


def _field(b: Builder, item: Value, offset: int, type_: Type) -> Value:
    return b.load(type_, b.offset(item, offset, I8))


def _collect(module: Module, header: int) -> None:
    """Store the data addresses; whether every array is as its signature says."""
    b = module.function("collect", [PTR, PTR, PTR], I1, exported=False)
    record, arguments, table = b.arguments
    results = word(b, record, RESULTS)
    signature = at(b, record, word(b, record, CONSTANTS) + HEAD_WORDS)
    start = [b.const(I1, 1), b.const(I64, 0)]
    with b.loop(0, word(b, record, ARRAYS), carried=start) as loop:
        good, word_number = loop.carried
        item = b.load(PTR, b.offset(arguments, loop.index, PTR))
        kind = _field(b, item, header - 8, PTR)
        is_array = b.eq(kind, b.external(ARRAY_TYPE))
        rank = word(b, signature, word_number + 1)
        dimensions = at(b, signature, word_number + 2)

        def check() -> Values:
            dtype = _field(b, item, header + DTYPE, I64)
            flags = _field(b, item, header + FLAGS, I32)
            is_result = b.compare("lt", loop.index, results)
            needed = b.select(
                is_result,
                b.const(I32, C_CONTIGUOUS | ALIGNED | WRITEABLE),
                C_CONTIGUOUS | ALIGNED,
            )
            right = b.eq(dtype, word(b, signature, word_number))
            right = right & b.eq(flags & needed, needed)
            own_rank = b.convert(_field(b, item, header + RANK, I32), "i64")
            right = right & b.eq(own_rank, rank)
            own = _field(b, item, header + DIMENSIONS, PTR)
            right = b.if_(
                right,
                lambda: [_equal_words(b, own, dimensions, rank)],
                lambda: [b.const(I1, 0)],
            )[0]
            data = _field(b, item, header + DATA, I64)
            b.store(data, at(b, table, loop.index))
            return [right]

        right = b.if_(is_array, check, lambda: [b.const(I1, 0)])[0]
        loop.next(good & right, word_number + rank + 2)
    b.ret(loop.results[0])


def _equal_words(b: Builder, x: Value, y: Value, count: Value) -> Value:
    with b.loop(0, count, carried=[b.const(I1, 1)]) as loop:
        equal = b.eq(word(b, x, loop.index), word(b, y, loop.index))
        loop.next(loop.carried[0] & equal)
    return loop.results[0]
