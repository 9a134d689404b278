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
nothing (argument_code.py). Donated arrays are deleted just before the program runs
(donation_code.py).

The first word of a record is the function that runs the entry: `run_entry` on arrays of
this host, `run_on_device` (device_call_code.py) on those of a plugin.

Fields of objects are read where `native_call` has found them.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I64, PTR, Value
from curta.compiler.support import invoke_code
from curta.compiler.support.argument_code import Arguments
from curta.compiler.support.call_record import (
    ARGUMENTS,
    BUILD,
    DONATED,
    HELD_AT,
    MADE_AT,
    RECORD,
    RINGS,
    SIZE,
    STACK_AT,
    CallRecord,
    ObjectLayout,
    item_of,
)
from curta.compiler.support.donation_code import emit_donation
from curta.compiler.support.invoke_code import (
    at,
    emit_invoke,
    word,
    words,
)
from curta.compiler.support.result_code import emit_results

# Words of a table that may lie on the stack: threads have little.
_STACK_WORDS = 1 << 12

EXPORTS = ("fast_call", "run_entry")
# The parameters of what runs an entry: it, its record after the first word, the
# arguments, how many there are, the settings.
_RUN = [PTR, PTR, PTR, I64, PTR]


def call_module(module: Module, layout: ObjectLayout) -> None:
    """IR with `fast_call`."""
    CallCode(module, layout).emit()


class CallCode:
    """The functions of a module; those for devices derive from it."""

    def __init__(self, module: Module, layout: ObjectLayout) -> None:
        self.module = module
        self.layout = layout
        self.arguments: Arguments = Arguments(layout)

    def emit(self) -> None:
        emit_invoke(self.module)
        self._attribute()
        emit_results(self.module, self.layout)
        self.arguments.emit(self.module)
        self._take()
        self._release()
        emit_donation(self.module, self.layout)
        self._run()
        self._fast_call()

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

        b.ret(b.if_(b.is_null(result), none, some)[0])

    # ---- the call

    def _take(self) -> None:
        """Store the arrays; whether all is as expected."""
        b = self.module.function("take", [PTR, PTR, PTR], I1, exported=False)
        record, arguments, table = b.arguments
        head = CallRecord(b, record)
        given, stack = head.word(ARGUMENTS), head.area(table, STACK_AT)
        with b.loop(0, given) as loop:
            argument = b.load(PTR, at(b, arguments, loop.index))
            b.store(argument, at(b, stack, given - 1 - loop.index))
        b.ret(b.call("match", I1, record, table))

    def _release(self) -> None:
        """Let go of what is held for a call."""
        b = self.module.function("release", [PTR], exported=False)
        (held,) = b.arguments
        with b.loop(0, word(b, held, 0)) as loop:
            b.call("Py_DecRef", None, b.load(PTR, at(b, held, loop.index + 1)))
        b.ret()

    def _run(self, name: str = "run_entry") -> None:
        """Run an entry on its arguments; MISS if they are not of its signature.

        Arrays are looked at twice: making results, or room for temporaries, may run
        Python code, which may delete them.
        """
        b = self.module.function(name, _RUN, PTR)
        entry, record, arguments, given, context = b.arguments
        head, miss = CallRecord(b, record), b.external("miss")
        fits = b.eq(head.word(ARGUMENTS), given)
        fits = fits & b.eq(head.context, context)
        fits = fits & self._is_ready(b, head)

        def attempt(table: Value) -> Values:
            taken = b.call("take", I1, record, arguments, table)

            def compute() -> Values:
                return [self._compute(b, entry, record, arguments, table)]

            out = b.if_(taken, compute, lambda: [miss])[0]
            b.call("release", None, head.area(table, HELD_AT))
            return [out]

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

                return b.if_(b.is_null(room), refuse, use)

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
                collect = b.function_address("collect")
                collect = b.select(donates, b.function_address("claim"), collect)
                status = b.call("invoke", I64, record, table, collect, arguments)

                def drop() -> Values:
                    b.call("Py_DecRef", None, outs)
                    missed = b.eq(status, invoke_code.MISSED)
                    return [b.select(missed, b.external("miss"), b.null)]

                def give() -> Values:
                    with b.when(donates):
                        rings = item_of(b, entry, RINGS)
                        b.call("hand_over", I64, record, rings, table)
                    return [finish()]

                return b.if_(b.eq(status, invoke_code.RAN), give, drop)

            return b.if_(b.is_null(outs), lambda: [b.null], run)

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

        return b.if_(b.eq(build, b.external("none")), single, several)[0]

    def _fast_call(self) -> None:
        b = self.module.function("fast_call", [PTR, PTR, I64], PTR)
        entries, arguments, given = b.arguments
        miss = b.external("miss")
        state = b.external("thread_state")
        trace = b.call("attribute", PTR, state, b.external("trace_name"))
        evaluating = b.eq(trace, b.external("base_trace"))

        def search() -> Values:
            config = b.external("config")
            context = b.call("attribute", PTR, config, b.external("context_name"))

            def missing(carried: Values) -> Value:
                # Asked every time: the list may change while an entry runs.
                count = b.call("PyList_Size", I64, entries)
                return b.compare("lt", carried[0], count) & b.eq(carried[1], miss)

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
        with b.when(b.eq(out, miss)):
            b.call("Py_IncRef", None, miss)
        b.ret(out)
