"""The native code behind calls of jitted functions on a device of a plugin.

`run_on_device` runs an entry of `call_code` whose arguments lie on a device: it
recognises them by their avals and shardings, takes the handles of their buffers, and
calls the plugin's Execute without Python's lock. What `record` has for the program is
Execute; `maker` makes results of handles, `failed` raises the plugin's error:

    (record, rings, maker, failed, ...)

`free_buffer` is a built-in function that frees the handle of a buffer, for finalizers.
Its `self` is a tuple of a record (the plugin's Destroy, and the struct of its
arguments), the set of callbacks that run now, the set of all handles, and the function
of Python that frees handles while callbacks run, and where Destroy fails.
`await_buffer` waits for a buffer; its `self` is a tuple of the records of ReadyEvent,
Await and Destroy of events, and `failed`.

Fields of objects are read where `runtime/device_entry.py` has found them.
"""

from __future__ import annotations

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I1, I32, I64, PTR, Operand, Value
from curta.compiler.support.call_code import running
from curta.compiler.support.call_record import (
    DONATED,
    LEAVES_AT,
    TAKEN_AT,
    CallRecord,
    ObjectLayout,
)
from curta.compiler.support.entry_code import record_of
from curta.compiler.support.objects import (
    ITEMS,
    at,
    copy_words,
    drop,
    drop_all,
    field,
    hold,
    is_of,
    item_of,
    none,
    pointer,
    put,
    set_field,
    word,
    words,
)

# Words of a record that stand where others have what is donated: the set of handles
# that other libraries use, a word that is not 0 once the client is closed, how many
# devices, operands and results of each there are, and the struct of Execute's
# arguments, its size in words first. Then come the numbers of donated arguments. An
# instruction for an array takes three words: its aval, its sharding, and
# that of its elements.
BORROWED, CLOSED, DEVICES, OPERANDS, OUTPUTS, STRUCT_WORDS, STRUCT = range(7)
# The words of PJRT_LoadedExecutable_Execute_Args that are written at each call.
ARGUMENT_LISTS, OUTPUT_LISTS = 4, 7
# Items of an entry, after its record and the rings.
MAKER, FAILED = 2, 3
# Words of a record of another function of the plugin; then comes the struct of its
# arguments, with the indices of a handle and of a result.
FUNCTION, FUNCTION_WORDS, FUNCTION_STRUCT = range(3)
HANDLE, RESULT = 2, 3
# Items of what `free_buffer` and `await_buffer` belong to.
FREE_RECORD, RUNNING, HANDLES, FREE_LATER = range(4)
READY_EVENT, AWAIT, DESTROY_EVENT, AWAIT_FAILED = range(4)


@dataclass(frozen=True)
class DeviceLayout:
    """Where fields lie: of arrays, and of what they hold on devices."""

    array: ObjectLayout
    sharding: int
    buffers: int
    handle: int


@function(PTR, PTR, PTR, result=I1)
def match_array(b: Builder, array: Value, record: Value, instruction: Value) -> Value:
    """Whether an array lies where it is expected."""
    layout, wanted = b.module.layout, at(record, word(instruction, 2))
    b.return_unless(is_of(array, "array_type"))
    b.return_unless(b.eq(field(array, layout.array.aval), pointer(wanted, 0)))
    b.return_unless(b.eq(field(array, layout.array.device), pointer(wanted, 1)))
    data = field(array, layout.array.pending)
    b.return_unless(is_held(b, data))
    return b.eq(field(data, layout.sharding), pointer(wanted, 2))


@function(PTR, result=I1)
def is_held(b: Builder, data: Value) -> Value:
    """Whether the elements of an array are in a buffer."""
    b.return_when(b.is_null(data))
    return is_of(data, "device_data_type")


def _is_ready(head: CallRecord) -> Value:
    """Whether the client is open, and nobody else uses memory of it."""
    b: Builder = head.address.builder
    borrowed = b.call("PySet_Size", I64, pointer(head.said, BORROWED))
    closed = word(pointer(head.said, CLOSED), 0)
    return b.eq(borrowed, 0) & b.eq(closed, 0)


# ---- the call


@function(PTR, PTR, PTR, PTR, result=PTR)
def compute(b: Builder, entry: Value, record: Value, _: Value, table: Value) -> Value:
    """Store the arrays' buffers, a row for each device, and run the program on them."""
    layout, head = b.module.layout, CallRecord(record)
    operands = word(head.said, OPERANDS)
    with b.loop(0, operands) as loop:
        array = pointer(head.area(table, LEAVES_AT), loop.index)
        data = field(array, layout.array.pending)
        b.return_unless(is_held(b, data), b.external("miss"))
        first = at(field(data, layout.buffers), ITEMS // 8)
        column = at(table, head.results + loop.index)
        with b.loop(0, word(head.said, DEVICES)) as row:
            put(column, row.index * operands, pointer(first, row.index))
    return execute(b, entry, record, table)


@function(PTR, PTR, PTR, result=PTR)
def execute(b: Builder, entry: Value, record: Value, outs: Value) -> Value:
    """The results of the program on these buffers; null if an exception is set.

    Handles of results are stored where others have the addresses of results.
    """
    head = CallRecord(record)
    held, results, said = head.arrays, head.results, head.said
    buffers, handles = at(outs, results), head.area(outs, TAKEN_AT)
    size, devices = word(said, STRUCT_WORDS), word(said, DEVICES)
    struct, lists = words(b, size), words(b, devices * 2)
    copy_words(struct, at(said, STRUCT), size)
    operands, outputs = word(said, OPERANDS), word(said, OUTPUTS)
    with b.loop(0, devices) as loop:
        row = loop.index
        put(lists, row, at(handles, row * operands))
        put(lists, row + devices, at(outs, row * outputs))
    put(struct, ARGUMENT_LISTS, lists)
    put(struct, OUTPUT_LISTS, at(lists, devices))
    with b.loop(0, held) as loop:  # the buffers are kept for the call
        buffer = hold(pointer(buffers, loop.index))
        number = field(buffer, b.module.layout.handle)
        put(handles, loop.index, b.call("PyLong_AsVoidPtr", PTR, number))
    state = b.call("PyEval_SaveThread", PTR)
    error = b.call(pointer(record, 0), PTR, struct)
    b.call("PyEval_RestoreThread", None, state)
    drop_all(buffers, held)
    with b.when(~b.is_null(error)):
        b.ret(_raised(item_of(entry, FAILED), error, lists))
    with b.loop(0, head.word(DONATED)) as loop:
        leaf = word(said, size + loop.index + STRUCT)
        delete(b, pointer(head.area(outs, LEAVES_AT), leaf))
    return finish(b, item_of(entry, MAKER), outs, results)


@function(PTR)
def delete(b: Builder, array: Value) -> None:
    """Take the elements from a donated array, which the program has taken over."""
    pending: int = b.module.layout.array.pending
    before = field(array, pending)
    set_field(array, pending, hold(none(b)))
    with b.when(~b.is_null(before)):
        drop(before)


def _raised(function: Value, error: Value, slot: Value) -> Value:
    """Hand an error of the plugin to a function that raises it."""
    put(slot, 0, error)
    return finish(function.builder, function, slot, 1)


@function(PTR, PTR, I64, result=PTR)
def finish(b: Builder, function: Value, addresses: Value, count: Value) -> Value:
    """The result of a Python function of addresses."""
    with b.loop(0, count) as loop:  # they are replaced by the numbers that they are
        address = pointer(addresses, loop.index)
        put(addresses, loop.index, b.call("PyLong_FromVoidPtr", PTR, address))
    out = b.call("PyObject_Vectorcall", PTR, function, addresses, count, b.null)
    drop_all(addresses, count)
    return out


# ---- buffers one by one


@function(PTR, PTR, PTR, result=PTR)
def call_plugin(b: Builder, record: Value, handle: Value, result: Value) -> Value:
    """Call a function of the plugin on a handle; its error. A result is stored."""
    size = word(record, FUNCTION_WORDS)
    struct = words(b, size + 2)
    copy_words(struct, at(record, FUNCTION_STRUCT), size)
    put(struct, HANDLE, handle)
    error = b.call(pointer(record, FUNCTION), PTR, struct)
    put(result, 0, pointer(struct, RESULT))
    return error


@function(PTR, PTR, I64, result=PTR)
def free_buffer(b: Builder, owner: Value, arguments: Value, _: Operand) -> Value:
    number = pointer(arguments, 0)
    running = b.call("PySet_Size", I64, item_of(owner, RUNNING))
    with b.when(b.eq(running, 0)):
        record = record_of(owner, FREE_RECORD)
        handle = b.call("PyLong_AsVoidPtr", PTR, number)
        # First: other threads may get the same handle as soon as it is free.
        b.call("PySet_Discard", I32, item_of(owner, HANDLES), number)
        state = b.call("PyEval_SaveThread", PTR)
        error = call_plugin(b, record, handle, words(b, 1))
        b.call("PyEval_RestoreThread", None, state)
        with b.when(b.is_null(error)):
            b.ret(hold(none(b)))
    return b.call("PyObject_CallOneArg", PTR, item_of(owner, FREE_LATER), number)


@function(PTR, PTR, I64, result=PTR)
def await_buffer(b: Builder, owner: Value, arguments: Value, _: Operand) -> Value:
    handle = b.call("PyLong_AsVoidPtr", PTR, pointer(arguments, 0))
    ready, wait, destroy = (
        record_of(owner, i) for i in (READY_EVENT, AWAIT, DESTROY_EVENT)
    )
    slot, unused = words(b, 1), words(b, 1)
    state = b.call("PyEval_SaveThread", PTR)
    error = call_plugin(b, ready, handle, slot)

    def awaited() -> Value:
        event = pointer(slot, 0)
        failed = call_plugin(b, wait, event, unused)
        call_plugin(b, destroy, event, unused)
        return failed

    error = b.choose(b.is_null(error), awaited, lambda: error)
    b.call("PyEval_RestoreThread", None, state)
    with b.when(b.is_null(error)):
        b.ret(hold(none(b)))
    return _raised(item_of(owner, AWAIT_FAILED), error, slot)


EXPORTS = (
    await_buffer,
    free_buffer,
    running("run_on_device", match_array, compute, _is_ready),
)
