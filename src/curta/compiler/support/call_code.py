"""The native code behind calls of jitted functions: from arguments to results.

`fast_call` is a built-in function whose `self` is a list of entries, one for each
signature that was called. An entry is a tuple

    (record, rings, makers, spares, build, what the record points to ...)

`record` is a bytes object of 64-bit words (call_record.py), `rings` a list of the
results of earlier calls, `makers` make result arrays to be kept there, `spares` ones
for when those kept are in use (result_code.py), `build` puts results into a tree (or is
None for a single one). A call walks its arguments as the record says, in the manner of
a stack machine; if every container and every array is as expected, it runs the compiled
function and returns the results. Otherwise it returns the object MISS and has done
nothing. Donated arrays are deleted just before the program runs (donation_code.py).

The first word of a record is the function that runs the entry: `run_entry` on arrays of
this host, `run_on_device` (device_call_code.py) on those of a plugin.

Fields of objects are read where `native_call` has found them.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.support import entry_code, invoke_code
from curta.compiler.support.call_record import (
    ARGUMENTS,
    ARRAY,
    BUILD,
    DICT,
    DONATED,
    INSTRUCTION_WORDS,
    INSTRUCTIONS,
    LEAVES_AT,
    LIST,
    MADE_AT,
    NONE,
    RECORD,
    RINGS,
    SIZE,
    STACK_AT,
    TUPLE,
    CallRecord,
    ObjectLayout,
    item_of,
    kept_object,
    load,
)
from curta.compiler.support.donation_code import OWNERS, emit_donation
from curta.compiler.support.invoke_code import (
    at,
    emit_invoke,
    is_null,
    null,
    same,
    word,
    words,
)
from curta.compiler.support.result_code import emit_results

# Words of a table that may lie on the stack: threads have little.
_STACK_WORDS = 1 << 12

EXPORTS = ("fast_call", "run_entry")
CALLS = (
    *invoke_code.CALLS,
    "PyBytes_AsString",
    "PyDict_GetItemWithError",
    "PyDict_Size",
    "PyErr_Clear",
    "PyErr_NoMemory",
    "PyList_GetItem",
    "PyList_SetItem",
    "PyList_Size",
    "PyMem_RawFree",
    "PyMem_RawMalloc",
    "PyObject_CallNoArgs",
    "PyObject_CallOneArg",
    "PyObject_GetAttr",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_Size",
    "Py_DecRef",
    "Py_IncRef",
)
# Python objects that the code compares with or uses, by the names it has for them.
OBJECTS = (
    *OWNERS,
    "array_type",
    "base_trace",
    "config",
    "context_name",
    "dict_type",
    "list_type",
    "miss",
    "none",
    "thread_state",
    "trace_name",
    "tuple_type",
)
# The parameters of what runs an entry: it, its record after the first word, the
# arguments, how many there are, the settings.
_RUN = [PTR, PTR, PTR, I64, PTR]
_USABLE = entry_code.C_CONTIGUOUS | entry_code.ALIGNED


def call_module(module: Module, layout: ObjectLayout) -> str:
    """IR with `fast_call`."""
    CallCode(module, layout).emit()
    declared = "".join(f"@{name} = external global i8\n" for name in OBJECTS)
    return declared + module.text()


class CallCode:
    """The functions of a module; those for devices derive from it."""

    def __init__(self, module: Module, layout: ObjectLayout) -> None:
        self.module = module
        self.layout = layout

    def emit(self) -> None:
        emit_invoke(self.module)
        self._attribute()
        emit_results(self.module, self.layout)
        self._match()
        self._take()
        emit_donation(self.module, self.layout)
        self._run()
        self._fast_call()

    # ---- small pieces

    def _kind(self, b: Builder, item: Value) -> Value:
        return load(b, item, self.layout.header - 8)

    def _attribute(self) -> None:
        """Read an attribute, for its address alone: the reference is given back."""
        b = self.module.function("attribute", [PTR, PTR], PTR, exported=False)
        result = b.call("PyObject_GetAttr", PTR, *b.arguments)

        def none() -> Values:
            b.call("PyErr_Clear", None)
            return [result]

        def some() -> Values:
            b.call("Py_DecRef", None, result)
            return [result]

        b.ret(b.if_(is_null(b, result), none, some)[0])

    # ---- arguments

    def _match(self) -> None:
        """Whether the stack of arguments is as the record says.

        The arrays and the addresses of their data are stored one after the other.
        """
        b = self.module.function("match", [PTR, PTR], I1, exported=False)
        record, table = b.arguments
        head = CallRecord(b, record)
        count, code = head.word(INSTRUCTIONS), head.instructions
        inputs = at(b, table, head.results)
        stack, arrays = head.area(table, STACK_AT), head.area(table, LEAVES_AT)
        zero, given = b.const(I64, 0), head.word(ARGUMENTS)

        def expected(carried: Values) -> Value:
            step, _, _, good = carried
            return good & b.compare("lt", step, count)

        def check(carried: Values) -> Values:
            step, depth, leaves, _ = carried
            instruction = at(b, code, step * INSTRUCTION_WORDS)
            kind = word(b, instruction, 0)
            top = at(b, stack, depth - 1)
            item = b.load(PTR, top)
            array = b.eq(kind, ARRAY)

            def leaf() -> Values:
                address = at(b, inputs, leaves)
                b.store(item, at(b, arrays, leaves))
                good = self._match_array(b, item, record, instruction, address)
                return [depth - 1, good]

            def container() -> Values:
                size = word(b, instruction, 1)
                good = self._match_container(b, item, kind, instruction, record, top)
                return [depth - 1 + size, good]

            below, good = b.if_(array, leaf, container)
            return [step + 1, below, leaves + b.convert(array, "i64"), good]

        start = [zero, given, zero, b.const(I1, 1)]
        b.ret(b.while_loop(start, expected, check)[3])

    def _match_array(
        self,
        b: Builder,
        item: Value,
        record: Value,
        instruction: Value,
        leaf_address: Value,
    ) -> Value:
        """Store the address of the data of an array, if it is as expected."""
        layout = self.layout

        def fields() -> Values:
            aval = load(b, item, layout.aval, I64)
            device = load(b, item, layout.device)
            data = load(b, item, layout.data)
            good = b.eq(aval, word(b, instruction, 2))
            good = good & same(b, device, kept_object(b, "none"))
            good = good & ~same(b, data, kept_object(b, "none"))
            return [b.if_(good, lambda: [storage(data)], lambda: [good])[0]]

        def storage(data: Value) -> Value:
            address = load(b, data, layout.header + entry_code.DATA, I64)
            flags = load(b, data, layout.header + entry_code.FLAGS, I32)
            b.store(address, leaf_address)
            return b.eq(flags & _USABLE, _USABLE)

        is_array = same(b, self._kind(b, item), kept_object(b, "array_type"))
        return b.if_(is_array, fields, lambda: [b.const(I1, 0)])[0]

    def _match_container(
        self, b: Builder, item: Value, kind: Value, instruction: Value,
        record: Value, top: Value,
    ) -> Value:  # fmt: skip
        """Replace the container on the stack by its children, the first on top."""
        size = word(b, instruction, 1)
        own = self._kind(b, item)
        no = b.const(I1, 0)

        def children(get: Callable[[Value], Value]) -> Value:
            with b.loop(0, size, carried=[b.const(I1, 1)]) as loop:
                child = get(loop.index)
                b.store(child, at(b, top, size - 1 - loop.index))
                loop.next(loop.carried[0] & ~is_null(b, child))
            return loop.results[0]

        def sequence(name: str, prefix: str) -> Value:
            def of_size() -> Values:
                right = b.eq(b.call(f"{prefix}_Size", I64, item), size)

                def get(i: Value) -> Value:
                    return b.call(f"{prefix}_GetItem", PTR, item, i)

                return [b.if_(right, lambda: [children(get)], lambda: [no])[0]]

            return b.if_(same(b, own, kept_object(b, name)), of_size, lambda: [no])[0]

        def dictionary() -> Value:
            def of_size() -> Values:
                right = b.eq(b.call("PyDict_Size", I64, item), size)
                keys = at(b, record, word(b, instruction, 2))

                def get(i: Value) -> Value:
                    key = b.load(PTR, at(b, keys, i))
                    return b.call("PyDict_GetItemWithError", PTR, item, key)

                return [b.if_(right, lambda: [children(get)], lambda: [no])[0]]

            is_dict = same(b, own, kept_object(b, "dict_type"))
            return b.if_(is_dict, of_size, lambda: [no])[0]

        cases: list[Case] = [
            (DICT, dictionary),
            (TUPLE, lambda: sequence("tuple_type", "PyTuple")),
            (LIST, lambda: sequence("list_type", "PyList")),
            (NONE, lambda: same(b, item, kept_object(b, "none"))),
        ]
        return _select(b, kind, cases, no)

    # ---- the call

    def _take(self) -> None:
        """Store the arrays and their addresses; whether all is as expected."""
        b = self.module.function("take", [PTR, PTR, PTR], I1, exported=False)
        record, arguments, table = b.arguments
        head = CallRecord(b, record)
        given, stack = head.word(ARGUMENTS), head.area(table, STACK_AT)
        with b.loop(0, given) as loop:
            argument = b.load(PTR, at(b, arguments, loop.index))
            b.store(argument, at(b, stack, given - 1 - loop.index))
        b.ret(b.call("match", I1, record, table))

    def _run(self, name: str = "run_entry") -> None:
        """Run an entry on its arguments; MISS if they are not of its signature.

        They are looked at twice: making results, or room for temporaries, may run
        Python code, which may change anything.
        """
        b = self.module.function(name, _RUN, PTR)
        entry, record, arguments, given, context = b.arguments
        head, miss = CallRecord(b, record), kept_object(b, "miss")
        fits = b.eq(head.word(ARGUMENTS), given)
        fits = fits & same(b, head.context, context)
        fits = fits & self._is_ready(b, head)

        def attempt(table: Value) -> Values:
            taken = b.call("take", I1, record, arguments, table)

            def compute() -> Values:
                return [self._compute(b, entry, record, arguments, table)]

            return [b.if_(taken, compute, lambda: [miss])[0]]

        def attempt_with_room() -> Values:
            size = head.word(SIZE)

            def on_heap() -> Values:
                room = b.call("PyMem_RawMalloc", PTR, size * 8)

                def use() -> Values:
                    (out,) = attempt(room)
                    b.call("PyMem_RawFree", None, room)
                    return [out]

                def refuse() -> Values:
                    return [b.call("PyErr_NoMemory", PTR)]

                return b.if_(is_null(b, room), refuse, use)

            small = b.compare("le", size, _STACK_WORDS)
            return b.if_(small, lambda: attempt(words(b, size)), on_heap)

        b.ret(b.if_(fits, attempt_with_room, lambda: [miss])[0])

    def _is_ready(self, b: Builder, head: CallRecord) -> Value:
        """Whether the program may be called now."""
        return b.const(I1, 1)

    def _compute(
        self, b: Builder, entry: Value, record: Value, arguments: Value, table: Value
    ) -> Value:
        build = item_of(b, entry, BUILD)
        head = CallRecord(b, record)
        donates = b.ne(head.word(DONATED), 0)

        def call(outs: Value, finish: Callable[[], Value]) -> Values:
            def run() -> Values:
                take, claim = b.function_address("take"), b.function_address("claim")
                collect = b.select(donates, claim, take)
                status = b.call("invoke", I64, record, table, collect, arguments)

                def drop() -> Values:
                    b.call("Py_DecRef", None, outs)
                    missed = b.eq(status, invoke_code.MISSED)
                    return [b.select(missed, kept_object(b, "miss"), null(b))]

                def give() -> Values:
                    with b.when(donates):
                        rings = item_of(b, entry, RINGS)
                        b.call("hand_over", I64, record, rings, table)
                    return [finish()]

                return b.if_(b.eq(status, invoke_code.RAN), give, drop)

            return b.if_(is_null(b, outs), lambda: [null(b)], run)

        def single() -> Values:
            made, waits = head.area(table, MADE_AT), word(b, head.waiting, 0)
            given = entry, table, made, waits, b.const(I64, 0)
            made = b.call("result", PTR, *given)
            return call(made, lambda: made)

        def several() -> Values:
            outs = b.call("results", PTR, entry, record, table)

            def finish() -> Value:
                tree = b.call("PyObject_CallOneArg", PTR, build, outs)
                b.call("Py_DecRef", None, outs)
                return tree

            return call(outs, finish)

        return b.if_(same(b, build, kept_object(b, "none")), single, several)[0]

    def _fast_call(self) -> None:
        b = self.module.function("fast_call", [PTR, PTR, I64], PTR)
        entries, arguments, given = b.arguments
        miss = kept_object(b, "miss")
        state = kept_object(b, "thread_state")
        trace = b.call("attribute", PTR, state, kept_object(b, "trace_name"))
        evaluating = same(b, trace, kept_object(b, "base_trace"))

        def search() -> Values:
            config = kept_object(b, "config")
            context = b.call("attribute", PTR, config, kept_object(b, "context_name"))

            def missing(carried: Values) -> Value:
                # Asked every time: the list may change while an entry runs.
                count = b.call("PyList_Size", I64, entries)
                return b.compare("lt", carried[0], count) & same(b, carried[1], miss)

            def attempt(carried: Values) -> Values:
                entry = b.call("PyList_GetItem", PTR, entries, carried[0])
                b.call("Py_IncRef", None, entry)
                first = b.call("PyBytes_AsString", PTR, item_of(b, entry, RECORD))
                run, record = b.load(PTR, first), at(b, first, 1)
                out = b.call(run, PTR, entry, record, arguments, given, context)
                b.call("Py_DecRef", None, entry)
                return [carried[0] + 1, out]

            return [b.while_loop([b.const(I64, 0), miss], missing, attempt)[1]]

        out = b.if_(evaluating, search, lambda: [miss])[0]
        with b.when(same(b, out, miss)):
            b.call("Py_IncRef", None, miss)
        b.ret(out)


Case = tuple[int, Callable[[], Value]]


def _select(b: Builder, kind: Value, cases: list[Case], default: Value) -> Value:
    if not cases:
        return default
    (number, run), *others = cases
    return b.if_(
        b.eq(kind, number),
        lambda: [run()],
        lambda: [_select(b, kind, others, default)],
    )[0]
