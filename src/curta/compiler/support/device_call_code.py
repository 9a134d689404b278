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

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.support.argument_code import Arguments
from curta.compiler.support.call_code import CallCode
from curta.compiler.support.call_record import (
    DONATED,
    DONATIONS,
    LEAVES_AT,
    TAKEN_AT,
    CallRecord,
    ObjectLayout,
    field,
    item_of,
    load,
)
from curta.compiler.support.invoke_code import at, word, words
from curta.lazy_dataclass import dataclass

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

EXPORTS = ("await_buffer", "free_buffer", "run_on_device")


@dataclass(frozen=True)
class DeviceLayout:
    """Where fields lie: of arrays, and of what they hold on devices."""

    array: ObjectLayout
    sharding: int
    buffers: int
    handle: int


def device_call_module(module: Module, layout: DeviceLayout) -> None:
    """IR with `run_on_device`, `free_buffer` and `await_buffer`."""
    _DeviceCode(module, layout).emit()


class _DeviceArguments(Arguments):
    def __init__(self, layout: DeviceLayout) -> None:
        super().__init__(layout.array)
        self.on_device = layout

    def match_array(
        self, b: Builder, item: Value, record: Value, instruction: Value
    ) -> Value:
        """Whether an array lies where it is expected."""
        layout, no = self.layout, b.const(I1, 0)
        wanted = at(b, record, word(b, instruction, 2))

        def is_(value: Value, index: int) -> Value:
            return b.eq(value, b.load(PTR, at(b, wanted, index)))

        def fields() -> Values:
            good = is_(load(b, item, layout.aval), 0)
            good = good & is_(load(b, item, layout.device), 1)
            good = good & self._is_held(b, item)
            return [b.if_(good, sharding, lambda: [no])[0]]

        def sharding() -> Values:
            data = load(b, item, layout.pending)
            return [is_(load(b, data, self.on_device.sharding), 2)]

        is_array = b.eq(self.kind(b, item), b.external("array_type"))
        return b.if_(is_array, fields, lambda: [no])[0]

    def _is_held(self, b: Builder, item: Value) -> Value:
        """Whether the elements of an array lie in a buffer."""
        data = load(b, item, self.layout.pending)

        def known() -> Values:
            return [b.eq(self.kind(b, data), b.external("device_data_type"))]

        return b.if_(b.is_null(data), lambda: [b.const(I1, 0)], known)[0]

    def _collect(self, b: Builder) -> None:
        """Store the arrays' buffers, a row for each device; whether all have some."""
        record, _, table = b.arguments
        head = CallRecord(b, record)
        more = at(b, record, head.word(DONATIONS))
        operands, arrays = word(b, more, OPERANDS), head.area(table, LEAVES_AT)
        with b.loop(0, operands, carried=[b.const(I1, 1)]) as loop:
            item = b.load(PTR, at(b, arrays, loop.index))
            held = self._is_held(b, item)
            with b.when(held):
                data = load(b, item, self.layout.pending)
                buffers = load(b, data, self.on_device.buffers)
                first = field(b, buffers, self.layout.items)
                column = at(b, table, head.results + loop.index)
                with b.loop(0, word(b, more, DEVICES)) as row:
                    cell = at(b, column, row.index * operands)
                    b.store(b.load(PTR, at(b, first, row.index)), cell)
            loop.next(loop.carried[0] & held)
        b.ret(loop.results[0])


class _DeviceCode(CallCode):
    def __init__(self, module: Module, layout: DeviceLayout) -> None:
        super().__init__(module, layout.array)
        self.on_device = layout
        self.arguments = _DeviceArguments(layout)

    def emit(self) -> None:
        self.arguments.emit(self.module)
        self._take()
        self._release()
        self._hold()
        self._finish()
        self._delete()
        self._execute()
        self._run("run_on_device")
        self._call_plugin()
        self._free_buffer()
        self._await_buffer()

    def _is_ready(self, b: Builder, head: CallRecord) -> Value:
        """Whether the client is open, and nobody else uses memory of it."""
        more = at(b, head.address, head.word(DONATIONS))
        borrowed = b.call("PySet_Size", I64, b.load(PTR, at(b, more, BORROWED)))
        closed = b.load(I64, b.load(PTR, at(b, more, CLOSED)))
        return b.eq(borrowed, 0) & b.eq(closed, 0)

    def _hold(self) -> None:
        """Store the handles of buffers, which are kept for the call."""
        b = self.module.function("hold", [PTR, I64, PTR], I64, exported=False)
        buffers, count, handles = b.arguments
        with b.loop(0, count) as loop:
            buffer = b.load(PTR, at(b, buffers, loop.index))
            b.call("Py_IncRef", None, buffer)
            number = load(b, buffer, self.on_device.handle)
            handle = b.call("PyLong_AsVoidPtr", PTR, number)
            b.store(handle, at(b, handles, loop.index))
        b.ret(count)

    # ---- the call

    def _compute(
        self, b: Builder, entry: Value, record: Value, arguments: Value, table: Value
    ) -> Value:
        there = b.call("collect", I1, record, arguments, table)

        def execute() -> Values:
            return [b.call("execute", PTR, entry, record, table)]

        return b.if_(there, execute, lambda: [b.external("miss")])[0]

    def _execute(self) -> None:
        """The results of the program on these buffers; null if an exception is set.

        Handles of results are stored where others have the addresses of results.
        """
        b = self.module.function("execute", [PTR, PTR, PTR], PTR, exported=False)
        entry, record, outs = b.arguments
        head = CallRecord(b, record)
        held, results = head.arrays, head.results
        buffers, handles = at(b, outs, results), head.area(outs, TAKEN_AT)
        more = at(b, record, head.word(DONATIONS))
        size, devices = word(b, more, STRUCT_WORDS), word(b, more, DEVICES)
        struct, lists = words(b, size), words(b, devices * 2)
        with b.loop(0, size) as loop:
            given = word(b, more, loop.index + STRUCT)
            b.store(given, at(b, struct, loop.index))
        operands, outputs = word(b, more, OPERANDS), word(b, more, OUTPUTS)
        with b.loop(0, devices) as loop:
            row, slot = loop.index, at(b, lists, loop.index)
            b.store(at(b, handles, row * operands), slot)
            b.store(at(b, outs, row * outputs), at(b, slot, devices))
        b.store(lists, at(b, struct, ARGUMENT_LISTS))
        b.store(at(b, lists, devices), at(b, struct, OUTPUT_LISTS))
        b.call("hold", I64, buffers, held, handles)
        state = b.call("PyEval_SaveThread", PTR)
        error = b.call(b.load(PTR, record), PTR, struct)
        b.call("PyEval_RestoreThread", None, state)
        with b.loop(0, held) as loop:
            b.call("Py_DecRef", None, b.load(PTR, at(b, buffers, loop.index)))

        def good() -> Values:
            with b.loop(0, head.word(DONATED)) as loop:
                leaf = word(b, more, size + loop.index + STRUCT)
                array = b.load(PTR, at(b, head.area(outs, LEAVES_AT), leaf))
                b.call("delete", None, array)
            maker = item_of(b, entry, MAKER)
            return [b.call("finish", PTR, maker, outs, results)]

        def failed() -> Values:
            return [self._raise(b, item_of(b, entry, FAILED), error, lists)]

        b.ret(b.if_(b.is_null(error), good, failed)[0])

    def _delete(self) -> None:
        """Take the elements from a donated array, which the program has taken over."""
        b = self.module.function("delete", [PTR], exported=False)
        (array,) = b.arguments
        slot = field(b, array, self.layout.pending)
        before, none = b.load(PTR, slot), b.external("none")
        b.call("Py_IncRef", None, none)
        b.store(none, slot)
        with b.when(~b.is_null(before)):
            b.call("Py_DecRef", None, before)
        b.ret()

    def _raise(self, b: Builder, function: Value, error: Value, slot: Value) -> Value:
        """Hand an error of the plugin to a function that raises it."""
        b.store(error, slot)
        return b.call("finish", PTR, function, slot, b.const(I64, 1))

    def _finish(self) -> None:
        """What a function of Python makes of addresses."""
        b = self.module.function("finish", [PTR, PTR, I64], PTR, exported=False)
        function, addresses, count = b.arguments
        # They are replaced by the numbers that they are.
        with b.loop(0, count) as loop:
            slot = at(b, addresses, loop.index)
            b.store(b.call("PyLong_FromVoidPtr", PTR, b.load(PTR, slot)), slot)
        out = b.call("PyObject_Vectorcall", PTR, function, addresses, count, b.null)
        with b.loop(0, count) as loop:
            b.call("Py_DecRef", None, b.load(PTR, at(b, addresses, loop.index)))
        b.ret(out)

    # ---- buffers one by one

    def _call_plugin(self) -> None:
        """Call a function of the plugin on a handle; its error. A result is stored."""
        b = self.module.function("call_plugin", [PTR, PTR, PTR], PTR, exported=False)
        record, handle, result = b.arguments
        size = word(b, record, FUNCTION_WORDS)
        struct = words(b, size + 2)
        with b.loop(0, size) as loop:
            given = word(b, record, loop.index + FUNCTION_STRUCT)
            b.store(given, at(b, struct, loop.index))
        b.store(handle, at(b, struct, HANDLE))
        error = b.call(b.load(PTR, at(b, record, FUNCTION)), PTR, struct)
        b.store(b.load(PTR, at(b, struct, RESULT)), result)
        b.ret(error)

    def _free_buffer(self) -> None:
        b = self.module.function("free_buffer", [PTR, PTR, I64], PTR)
        owner, arguments, _ = b.arguments
        number = b.load(PTR, arguments)
        running = b.call("PySet_Size", I64, item_of(b, owner, RUNNING))

        def later() -> Values:
            function = item_of(b, owner, FREE_LATER)
            return [b.call("PyObject_CallOneArg", PTR, function, number)]

        def now() -> Values:
            record = _record(b, owner, FREE_RECORD)
            handle = b.call("PyLong_AsVoidPtr", PTR, number)
            # First: other threads may get the same handle as soon as it is free.
            b.call("PySet_Discard", I32, item_of(b, owner, HANDLES), number)
            state = b.call("PyEval_SaveThread", PTR)
            unused = words(b, b.const(I64, 1))
            error = b.call("call_plugin", PTR, record, handle, unused)
            b.call("PyEval_RestoreThread", None, state)
            return [b.if_(b.is_null(error), lambda: [_none(b)], later)[0]]

        b.ret(b.if_(b.eq(running, 0), now, later)[0])

    def _await_buffer(self) -> None:
        b = self.module.function("await_buffer", [PTR, PTR, I64], PTR)
        owner, arguments, _ = b.arguments
        handle = b.call("PyLong_AsVoidPtr", PTR, b.load(PTR, arguments))
        records = [_record(b, owner, i) for i in (READY_EVENT, AWAIT, DESTROY_EVENT)]
        slot, unused = words(b, b.const(I64, 1)), words(b, b.const(I64, 1))
        state = b.call("PyEval_SaveThread", PTR)
        error = b.call("call_plugin", PTR, records[0], handle, slot)

        def wait() -> Values:
            event = b.load(PTR, slot)
            failed = b.call("call_plugin", PTR, records[1], event, unused)
            b.call("call_plugin", PTR, records[2], event, unused)
            return [failed]

        error = b.if_(b.is_null(error), wait, lambda: [error])[0]
        b.call("PyEval_RestoreThread", None, state)

        def failed() -> Values:
            return [self._raise(b, item_of(b, owner, AWAIT_FAILED), error, slot)]

        b.ret(b.if_(b.is_null(error), lambda: [_none(b)], failed)[0])


def _none(b: Builder) -> Value:
    """A new reference to None."""
    result = b.external("none")
    b.call("Py_IncRef", None, result)
    return result


def _record(b: Builder, owner: Value, index: int) -> Value:
    return b.call("PyBytes_AsString", PTR, item_of(b, owner, index))
