"""The native code behind calls of jitted functions: from arguments to results.

`fast_call` is a built-in function whose `self` is a list of entries, one for each
signature that was called. An entry is a tuple

    (record, rings, makers, spares, build, what the record points to ...)

`record` is a bytes object of 64-bit words, `rings` a list of the results of earlier
calls, `makers` make result arrays to be kept there, `spares` ones for when those kept
are in use, `build` puts results into a tree (or is None for a single one). A call
walks its arguments as the record says, in the manner of a stack machine; if every
container and every array is as expected, it runs the compiled function and returns
the results. Otherwise it returns the object MISS and has done nothing.

Results that nobody holds any more are used again, the array objects included: that is
what makes a small call cheap.

Fields of objects are read where `native_call` has found them.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I8, I32, I64, PTR, Type, Value
from curta.compiler.support import entry_code, invoke_code
from curta.compiler.support.invoke_code import (
    ARRAYS,
    CONSTANTS,
    HEAD_WORDS,
    RESULTS,
    at,
    emit_invoke,
    is_null,
    null,
    same,
    word,
    words,
)
from curta.lazy_dataclass import dataclass

# Words of a record, after what `invoke_code` wants of the program and its constants.
# Then come the instructions, and the keys of dicts.
ARGUMENTS, CONTEXT, INSTRUCTIONS, STACK = range(4)
OWN_WORDS = 4
# Instructions: what is expected, how many children, and a word: the address of the
# aval of an array, or the place in the record of the keys of a dict.
ARRAY, DICT, TUPLE, LIST, NONE = range(5)
INSTRUCTION_WORDS = 3
# Items of an entry.
RECORD, RINGS, MAKERS, SPARES, BUILD = range(5)
RING = 4  # results kept for each output

EXPORTS = ("fast_call",)
CALLS = (
    *invoke_code.CALLS,
    "PyBytes_AsString",
    "PyDict_GetItemWithError",
    "PyDict_Size",
    "PyErr_Clear",
    "PyList_GetItem",
    "PyList_SetItem",
    "PyList_Size",
    "PyObject_CallNoArgs",
    "PyObject_CallOneArg",
    "PyObject_GetAttr",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "Py_DecRef",
    "Py_IncRef",
)
# Python objects that the code compares with or uses, by the names it has for them.
OBJECTS = (
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
_USABLE = 0x1 | 0x100  # C-contiguous and aligned


@dataclass(frozen=True)
class ObjectLayout:
    """Where the fields of objects lie: bytes from the beginning of the object."""

    header: int
    data: int
    aval: int
    device: int
    weak_references: int


def call_module(module: Module, layout: ObjectLayout) -> str:
    """IR with `fast_call`."""
    _Code(module, layout).emit()
    declared = "".join(f"@{name} = external global i8\n" for name in OBJECTS)
    return declared + module.text()


class _Code:
    def __init__(self, module: Module, layout: ObjectLayout) -> None:
        self.module = module
        self.layout = layout

    def emit(self) -> None:
        emit_invoke(self.module)
        self._attribute()
        self._result()
        self._match()
        self._take()
        self._results()
        self._run()
        self._fast_call()

    # ---- small pieces

    def _kind(self, b: Builder, item: Value) -> Value:
        return _load(b, item, self.layout.header - 8)

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

    # ---- results

    def _result(self) -> None:
        """A result array that nobody else holds; its address of data is stored."""
        b = self.module.function("result", [PTR, PTR, I64], PTR, exported=False)
        entry, place, output = b.arguments
        rings = _item(b, entry, RINGS)
        first = output * RING
        start = [b.const(I64, 0), null(b)]

        def searching(carried: Values) -> Value:
            return b.compare("lt", carried[0], RING) & is_null(b, carried[1])

        def look(carried: Values) -> Values:
            slot, _ = carried
            kept = b.call("PyList_GetItem", PTR, rings, first + slot)
            is_none = same(b, kept, _object(b, "none"))
            result = b.if_(
                is_none,
                lambda: [self._new_result(b, entry, output, rings, first + slot)],
                lambda: [self._if_dead(b, kept)],
            )
            return [slot + 1, result[0]]

        _, result = b.while_loop(start, searching, look)
        made = b.if_(
            is_null(b, result),
            lambda: [_make(b, entry, SPARES, output)],
            lambda: [result],
        )[0]

        def store() -> Values:
            data = _load(b, made, self.layout.data)
            b.store(_load(b, data, self.layout.header, I64), place)
            return []

        b.if_(is_null(b, made), lambda: [], store)
        b.ret(made)

    def _new_result(
        self, b: Builder, entry: Value, output: Value, rings: Value, slot: Value
    ) -> Value:
        made = _make(b, entry, MAKERS, output)

        def keep() -> Values:
            b.call("Py_IncRef", None, made)
            b.call("PyList_SetItem", I32, rings, slot, made)
            return []

        b.if_(is_null(b, made), lambda: [], keep)
        return made

    def _if_dead(self, b: Builder, kept: Value) -> Value:
        """A new reference to `kept` if only the ring and its array have any."""
        layout = self.layout
        data = _load(b, kept, layout.data)
        dead = b.eq(_load(b, kept, 0, I32), 1)
        dead = dead & b.eq(_load(b, data, 0, I32), 1)
        dead = dead & is_null(b, _load(b, kept, layout.weak_references))
        dead = dead & ~same(b, data, _object(b, "none"))

        def take() -> Values:
            b.call("Py_IncRef", None, kept)
            return [kept]

        return b.if_(dead, take, lambda: [null(b)])[0]

    # ---- arguments

    def _match(self) -> None:
        """Whether the stack of arguments is as the record says.

        The addresses of the arrays' data are stored one after the other.
        """
        b = self.module.function("match", [PTR, PTR, PTR], I1, exported=False)
        record, stack, table = b.arguments
        own = _own_words(b, record)
        count, code = word(b, own, INSTRUCTIONS), at(b, own, OWN_WORDS)
        zero, given = b.const(I64, 0), word(b, own, ARGUMENTS)

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
                place = at(b, table, leaves)
                return [depth - 1, self._match_array(b, item, instruction, place)]

            def container() -> Values:
                size = word(b, instruction, 1)
                good = self._match_container(b, item, kind, instruction, record, top)
                return [depth - 1 + size, good]

            below, good = b.if_(array, leaf, container)
            return [step + 1, below, leaves + b.convert(array, "i64"), good]

        start = [zero, given, zero, b.const(I1, 1)]
        b.ret(b.while_loop(start, expected, check)[3])

    def _match_array(
        self, b: Builder, item: Value, instruction: Value, place: Value
    ) -> Value:
        layout = self.layout

        def fields() -> Values:
            aval = _load(b, item, layout.aval, I64)
            device = _load(b, item, layout.device)
            data = _load(b, item, layout.data)
            good = b.eq(aval, word(b, instruction, 2))
            good = good & same(b, device, _object(b, "none"))
            good = good & ~same(b, data, _object(b, "none"))
            return [b.if_(good, lambda: [storage(data)], lambda: [good])[0]]

        def storage(data: Value) -> Value:
            address = _load(b, data, layout.header + entry_code.DATA, I64)
            flags = _load(b, data, layout.header + entry_code.FLAGS, I32)
            b.store(address, place)
            return b.eq(flags & _USABLE, _USABLE)

        is_array = same(b, self._kind(b, item), _object(b, "array_type"))
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

            return b.if_(same(b, own, _object(b, name)), of_size, lambda: [no])[0]

        def dictionary() -> Value:
            def of_size() -> Values:
                right = b.eq(b.call("PyDict_Size", I64, item), size)
                keys = at(b, record, word(b, instruction, 2))

                def get(i: Value) -> Value:
                    key = b.load(PTR, at(b, keys, i))
                    return b.call("PyDict_GetItemWithError", PTR, item, key)

                return [b.if_(right, lambda: [children(get)], lambda: [no])[0]]

            return b.if_(same(b, own, _object(b, "dict_type")), of_size, lambda: [no])[
                0
            ]

        cases: list[Case] = [
            (DICT, dictionary),
            (TUPLE, lambda: sequence("tuple_type", "PyTuple")),
            (LIST, lambda: sequence("list_type", "PyList")),
            (NONE, lambda: same(b, item, _object(b, "none"))),
        ]
        return _select(b, kind, cases, no)

    # ---- the call

    def _take(self) -> None:
        """Store the addresses of the arguments' data; whether all is as expected."""
        b = self.module.function("take", [PTR, PTR, PTR], I1, exported=False)
        record, arguments, table = b.arguments
        own = _own_words(b, record)
        given = word(b, own, ARGUMENTS)
        stack = words(b, word(b, own, STACK))
        with b.loop(0, given) as loop:
            argument = b.load(PTR, at(b, arguments, loop.index))
            b.store(argument, at(b, stack, given - 1 - loop.index))
        inputs = at(b, table, word(b, record, RESULTS))
        b.ret(b.call("match", I1, record, stack, inputs))

    def _run(self) -> None:
        """Run an entry on its arguments; MISS if they are not of its signature.

        They are looked at twice: making results, or room for temporaries, may run
        Python code, which may change anything.
        """
        b = self.module.function("run_entry", [PTR, PTR, I64, PTR], PTR, exported=False)
        entry, arguments, given, context = b.arguments
        record = b.call("PyBytes_AsString", PTR, _item(b, entry, RECORD))
        own, miss = _own_words(b, record), _object(b, "miss")
        fits = b.eq(word(b, own, ARGUMENTS), given)
        fits = fits & same(b, b.load(PTR, at(b, own, CONTEXT)), context)

        def attempt() -> Values:
            table = words(b, word(b, record, ARRAYS) + word(b, record, CONSTANTS))
            taken = b.call("take", I1, record, arguments, table)

            def compute() -> Values:
                return [self._compute(b, entry, record, arguments, table)]

            return [b.if_(taken, compute, lambda: [miss])[0]]

        b.ret(b.if_(fits, attempt, lambda: [miss])[0])

    def _results(self) -> None:
        """A tuple of results; null if an exception is set."""
        b = self.module.function("results", [PTR, PTR, PTR], PTR, exported=False)
        entry, record, table = b.arguments
        count = word(b, record, RESULTS)
        outs = b.call("PyTuple_New", PTR, count)

        def missing(carried: Values) -> Value:
            return b.compare("lt", carried[0], count) & carried[1]

        def make(carried: Values) -> Values:
            i, _ = carried
            made = b.call("result", PTR, entry, at(b, table, i), i)
            b.call("PyTuple_SetItem", I32, outs, i, made)
            return [i + 1, ~is_null(b, made)]

        start = [b.const(I64, 0), ~is_null(b, outs)]
        good = b.while_loop(start, missing, make)[1]
        with b.when(~good & ~is_null(b, outs)):
            b.call("Py_DecRef", None, outs)
        b.ret(b.select(good, outs, null(b)))

    def _compute(
        self, b: Builder, entry: Value, record: Value, arguments: Value, table: Value
    ) -> Value:
        build = _item(b, entry, BUILD)

        def call(outs: Value, finish: Callable[[], Value]) -> Values:
            def run() -> Values:
                take = b.function_address("take")
                status = b.call("invoke", I64, record, table, take, arguments)

                def drop() -> Values:
                    b.call("Py_DecRef", None, outs)
                    missed = b.eq(status, invoke_code.MISSED)
                    return [b.select(missed, _object(b, "miss"), null(b))]

                ran = b.eq(status, invoke_code.RAN)
                return b.if_(ran, lambda: [finish()], drop)

            return b.if_(is_null(b, outs), lambda: [null(b)], run)

        def single() -> Values:
            made = b.call("result", PTR, entry, table, b.const(I64, 0))
            return call(made, lambda: made)

        def several() -> Values:
            outs = b.call("results", PTR, entry, record, table)

            def finish() -> Value:
                tree = b.call("PyObject_CallOneArg", PTR, build, outs)
                b.call("Py_DecRef", None, outs)
                return tree

            return call(outs, finish)

        return b.if_(same(b, build, _object(b, "none")), single, several)[0]

    def _fast_call(self) -> None:
        b = self.module.function("fast_call", [PTR, PTR, I64], PTR)
        entries, arguments, given = b.arguments
        miss = _object(b, "miss")
        trace = b.call(
            "attribute", PTR, _object(b, "thread_state"), _object(b, "trace_name")
        )
        evaluating = same(b, trace, _object(b, "base_trace"))

        def search() -> Values:
            context = b.call(
                "attribute", PTR, _object(b, "config"), _object(b, "context_name")
            )

            def missing(carried: Values) -> Value:
                # Asked every time: the list may change while an entry runs.
                count = b.call("PyList_Size", I64, entries)
                return b.compare("lt", carried[0], count) & same(b, carried[1], miss)

            def attempt(carried: Values) -> Values:
                entry = b.call("PyList_GetItem", PTR, entries, carried[0])
                b.call("Py_IncRef", None, entry)
                out = b.call("run_entry", PTR, entry, arguments, given, context)
                b.call("Py_DecRef", None, entry)
                return [carried[0] + 1, out]

            return [b.while_loop([b.const(I64, 0), miss], missing, attempt)[1]]

        out = b.if_(evaluating, search, lambda: [miss])[0]
        with b.when(same(b, out, miss)):
            b.call("Py_IncRef", None, miss)
        b.ret(out)


def _object(b: Builder, name: str) -> Value:
    return Value(f"@{name}", PTR, b)


def _own_words(b: Builder, record: Value) -> Value:
    """The address of the words that are not of `invoke_code`."""
    return at(b, record, word(b, record, CONSTANTS) + HEAD_WORDS)


def _load(b: Builder, item: Value, offset: int, type_: Type = PTR) -> Value:
    return b.load(type_, b.offset(item, offset, I8))


def _item(b: Builder, entry: Value, index: int) -> Value:
    return b.call("PyTuple_GetItem", PTR, entry, b.const(I64, index))


def _make(b: Builder, entry: Value, makers: int, output: Value) -> Value:
    maker = b.call("PyTuple_GetItem", PTR, _item(b, entry, makers), output)
    return b.call("PyObject_CallNoArgs", PTR, maker)


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
