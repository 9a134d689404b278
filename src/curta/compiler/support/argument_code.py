"""Native code that recognises the arguments of a call.

    i1 match(ptr record, ptr table)               stores the arrays among them
    i1 collect(ptr record, ptr given, ptr table)  stores the addresses of their data

`match` walks through the arguments as the record says, in the manner of a stack
machine. Nodes of other classes than Python's own are taken apart by functions of
Python, which may change any container: so children are held until the end of the call.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I32, I64, PTR, Value
from curta.compiler.support import entry_code
from curta.compiler.support.call_record import (
    ARGUMENTS,
    ARRAY,
    CLASS,
    DICT,
    HELD_AT,
    INSTRUCTION_WORDS,
    INSTRUCTIONS,
    LEAVES_AT,
    LIST,
    METADATA,
    METADATA_COUNT,
    NODE,
    NONE,
    PARTS,
    STACK_AT,
    TUPLE,
    CallRecord,
    ObjectLayout,
    load,
)
from curta.compiler.support.invoke_code import at, word

_EQUAL = 2  # Py_EQ
_USABLE = entry_code.C_CONTIGUOUS | entry_code.ALIGNED


class Arguments:
    """What recognises the arguments; that for arrays on devices derives from it."""

    def __init__(self, layout: ObjectLayout) -> None:
        self.layout = layout

    def emit(self, module: Module) -> None:
        """Add `match` and `collect` to a module."""
        self._match(module.function("match", [PTR, PTR], I1, exported=False))
        self._collect(module.function("collect", [PTR, PTR, PTR], I1, exported=False))

    def kind(self, b: Builder, item: Value) -> Value:
        """The class of an object."""
        return load(b, item, self.layout.header - 8)

    def _match(self, b: Builder) -> None:
        """Whether the stack of arguments is as the record says.

        The arrays are stored one after the other.
        """
        record, table = b.arguments
        head = CallRecord(b, record)
        count, code = head.word(INSTRUCTIONS), head.instructions
        held = head.area(table, HELD_AT)
        stack, arrays = head.area(table, STACK_AT), head.area(table, LEAVES_AT)
        zero, given = b.const(I64, 0), head.word(ARGUMENTS)
        b.store(zero, held)

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
                b.store(item, at(b, arrays, leaves))
                good = self.match_array(b, item, record, instruction)
                return [depth - 1, good]

            def container() -> Values:
                size = word(b, instruction, 1)
                own = self.kind(b, item)
                node = _Container(b, item, own, instruction, (record, top, held))
                return [depth - 1 + size, node.match(kind)]

            below, good = b.if_(array, leaf, container)
            return [step + 1, below, leaves + b.convert(array, "i64"), good]

        start = [zero, given, zero, b.const(I1, 1)]
        b.ret(b.while_loop(start, expected, check)[3])

    def match_array(
        self, b: Builder, item: Value, record: Value, instruction: Value
    ) -> Value:
        """Whether an object is the array that an instruction expects."""

        def fields() -> Values:
            aval = load(b, item, self.layout.aval, I64)
            device = load(b, item, self.layout.device)
            good = b.eq(aval, word(b, instruction, 2))
            return [good & b.eq(device, b.external("none"))]

        is_array = b.eq(self.kind(b, item), b.external("array_type"))
        return b.if_(is_array, fields, lambda: [b.const(I1, 0)])[0]

    def _collect(self, b: Builder) -> None:
        """Store where the arrays' elements are; whether all are at hand."""
        record, _, table = b.arguments
        head = CallRecord(b, record)
        inputs, arrays = at(b, table, head.results), head.area(table, LEAVES_AT)
        with b.loop(0, head.arrays, carried=[b.const(I1, 1)]) as loop:
            item = b.load(PTR, at(b, arrays, loop.index))
            good = self.store_data(b, item, at(b, inputs, loop.index))
            loop.next(loop.carried[0] & good)
        b.ret(loop.results[0])

    def store_data(self, b: Builder, item: Value, slot: Value) -> Value:
        """Store the address of an array's elements; whether they are at hand."""
        data, header = load(b, item, self.layout.data), self.layout.header

        def storage() -> Values:
            address = load(b, data, header + entry_code.DATA, I64)
            flags = load(b, data, header + entry_code.FLAGS, I32)
            b.store(address, slot)
            return [b.eq(flags & _USABLE, _USABLE)]

        gone = b.eq(data, b.external("none"))
        return b.if_(gone, lambda: [b.const(I1, 0)], storage)[0]


class _Container:
    """A container on top of the stack, to be replaced there by its children.

    `places` are those of the record, of the top of the stack, and of held objects.
    """

    def __init__(
        self, b: Builder, item: Value, own: Value, instruction: Value,
        addresses: tuple[Value, Value, Value],
    ) -> None:  # fmt: skip
        self.b = b
        self.item = item
        self.own = own
        self.size: Value = word(b, instruction, 1)
        self.operand: Value = word(b, instruction, 2)
        self.wanted: Value = b.load(PTR, at(b, instruction, 2))
        self.record, self.top, self.held = addresses

    def match(self, kind: Value) -> Value:
        """Whether it is what the instruction expects."""
        b, none = self.b, self.b.external("none")
        cases: list[Case] = [
            (DICT, self._dictionary),
            (TUPLE, lambda: self._sequence("PyTuple")),
            (LIST, lambda: self._sequence("PyList")),
            (NODE, self._node),
            (NONE, lambda: b.eq(self.item, none)),
        ]
        return _select(b, kind, cases, b.const(I1, 0))

    def _when(self, condition: Value, then: Callable[[], Value]) -> Value:
        b = self.b
        return b.if_(condition, lambda: [then()], lambda: [b.const(I1, 0)])[0]

    def _children(self, get: Callable[[Value], Value]) -> Value:
        b = self.b
        with b.loop(0, self.size, carried=[b.const(I1, 1)]) as loop:
            child = get(loop.index)
            b.store(child, at(b, self.top, self.size - 1 - loop.index))
            there = ~b.is_null(child)
            with b.when(there):
                b.call("Py_IncRef", None, child)
                self._hold(child)
            loop.next(loop.carried[0] & there)
        return loop.results[0]

    def _hold(self, item: Value) -> None:
        """Keep a reference until the end of the call."""
        b, held = self.b, self.held
        count = word(b, held, 0) + 1
        b.store(item, at(b, held, count))
        b.store(count, held)

    def _sequence(self, prefix: str) -> Value:
        b, item = self.b, self.item

        def of_class() -> Value:
            right = b.eq(b.call(f"{prefix}_Size", I64, item), self.size)
            return self._when(right, lambda: self._children(get))

        def get(i: Value) -> Value:
            return b.call(f"{prefix}_GetItem", PTR, item, i)

        return self._when(b.eq(self.own, self.wanted), of_class)

    def _dictionary(self) -> Value:
        b, item = self.b, self.item

        def of_class() -> Value:
            right = b.eq(b.call("PyDict_Size", I64, item), self.size)
            return self._when(right, lambda: self._children(get))

        keys = at(b, self.record, self.operand)

        def get(i: Value) -> Value:
            key = b.load(PTR, at(b, keys, i))
            return b.call("PyDict_GetItemWithError", PTR, item, key)

        return self._when(b.eq(self.own, b.external("dict_type")), of_class)

    def _node(self) -> Value:
        b = self.b
        known = at(b, self.record, self.operand)

        def take_apart() -> Value:
            flatten = b.load(PTR, at(b, known, PARTS))
            parts = b.call("PyObject_CallOneArg", PTR, flatten, self.item)
            return self._when(~b.is_null(parts), lambda: read(parts))

        def read(parts: Value) -> Value:
            self._hold(parts)

            def get(i: Value) -> Value:
                return b.call("PyTuple_GetItem", PTR, parts, i)

            alike = _same_metadata(b, parts, self.size, known)
            return self._when(alike, lambda: self._children(get))

        of_class = b.eq(self.own, b.load(PTR, at(b, known, CLASS)))
        good = self._when(of_class, take_apart)
        with b.when(~good):
            b.call("PyErr_Clear", None)
        return good


def _same_metadata(b: Builder, parts: Value, size: Value, known: Value) -> Value:
    """Whether a tuple has so many children, and then the metadata of a node."""
    count = word(b, known, METADATA_COUNT)

    def rest(carried: Values) -> Value:
        return carried[1] & b.compare("lt", carried[0], count)

    def compare(carried: Values) -> Values:
        i, _ = carried
        own = b.call("PyTuple_GetItem", PTR, parts, size + i)
        other = b.load(PTR, at(b, known, i + METADATA))
        how = b.const(I32, _EQUAL)
        equal = b.call("PyObject_RichCompareBool", I32, own, other, how)
        return [i + 1, b.eq(equal, 1)]

    right = b.eq(b.call("PyTuple_Size", I64, parts), size + count)
    return b.while_loop([b.const(I64, 0), right], rest, compare)[1]


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
