"""Native code that matches the arguments of a call.

`take` stores the leaves among them, arrays and numbers of Python, in a table,
`collect` the addresses of their data.
Arguments are walked through as the record says, in the manner of a stack machine. Nodes
of other classes than Python's own are flattened by functions of Python, which may
change any container: so children are held until the end of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import Function, function
from curta.compiler.llvm.types import F32, F64, I1, I8, I32, I64, PTR, Value
from curta.compiler.support import entry_code
from curta.compiler.support.call_record import (
    ARRAY,
    BOOL,
    CLASS,
    DICT,
    FLOAT32,
    FLOAT64,
    HELD_AT,
    INSTRUCTION_WORDS,
    INSTRUCTIONS,
    INT32,
    INT64,
    KEPT_AT,
    KIND,
    LEAVES_AT,
    LIST,
    METADATA,
    METADATA_COUNT,
    NODE,
    NONE,
    NUMBER,
    PARTS,
    SCALAR,
    STACK_AT,
    STATIC,
    TUPLE,
    VALUE,
    VALUES_AT,
    CallRecord,
)
from curta.compiler.support.objects import (
    at,
    class_of,
    drop_all,
    field,
    hold,
    is_none,
    is_of,
    item_of,
    pointer,
    put,
    word,
)

_EQUAL = 2  # Py_EQ
_USABLE = entry_code.C_CONTIGUOUS | entry_code.ALIGNED


def taking(match_array: Function) -> Function:
    """`i1 take(ptr record, ptr arguments, ptr table)`: whether all is as expected.

    It stores the leaves one after the other, and the values of numbers. Whether an
    array is as expected says `i1 match_array(ptr array, ptr record, ptr instruction)`.
    """

    @function(PTR, PTR, PTR, result=I1)
    def take(b: Builder, record: Value, arguments: Value, table: Value) -> int:
        head = CallRecord(record)
        given, stack = head.given, head.area(table, STACK_AT)
        with b.loop(0, given) as loop:
            argument = pointer(arguments, word(head.order, loop.index))
            put(stack, given - 1 - loop.index, argument)
        held, leaves = head.area(table, HELD_AT), head.area(table, LEAVES_AT)
        to_values = head.word(VALUES_AT) - head.word(LEAVES_AT)
        put(held, 0, 0)
        put(head.area(table, KEPT_AT), 0, 0)
        start = [given, leaves]
        with b.loop(0, head.word(INSTRUCTIONS), carried=start) as loop:
            depth, leaf = loop.carried
            instruction = at(head.instructions, loop.index * INSTRUCTION_WORDS)
            top, kind = at(stack, depth - 1), word(instruction, 0)
            is_array, is_scalar = b.eq(kind, ARRAY), b.eq(kind, SCALAR)
            with b.when(is_array):
                array = pointer(top, 0)
                put(leaf, 0, array)
                b.return_unless(match_array(b, array, record, instruction))
            with b.when(is_scalar):
                number, known = pointer(top, 0), at(record, word(instruction, 2))
                put(leaf, 0, b.offset(number, NUMBER, I8))
                b.return_unless(match_scalar(b, number, known, at(leaf, to_values)))
            with b.when(~(is_array | is_scalar)):
                b.return_unless(match_container(b, top, record, instruction, held))
            is_leaf = b.convert(is_array | is_scalar, "i64", unsigned=True)
            loop.next(depth - 1 + word(instruction, 1), at(leaf, is_leaf))
        return 1

    return take


@function(PTR)
def release(b: Builder, held: Value) -> None:
    """Let go of what is held for a call."""
    drop_all(at(held, 1), word(held, 0))


@function(PTR, PTR, PTR, result=I1)
def match_scalar(b: Builder, number: Value, known: Value, slot: Value) -> Value:
    """Whether an object is a number of a class; its value goes to a slot.

    Numbers that the dtype cannot hold do not match: Python says what becomes of them.
    """
    b.return_unless(b.eq(class_of(number), pointer(known, KIND)))
    dtype = word(known, VALUE)
    is_float = b.eq(dtype, FLOAT32) | b.eq(dtype, FLOAT64)
    with b.when(is_float):
        value = b.call("PyFloat_AsDouble", F64, number)
        with b.when(b.eq(dtype, FLOAT64)):
            b.store(value, slot)
            b.ret(b.const(I1, 1))
        narrow = b.convert(value, "f32")
        b.store(narrow, slot)
        finite = b.compare("lt", b.abs(narrow), b.const(F32, float("inf")))
        b.ret(finite | b.is_nan(value))
    with b.when(b.eq(dtype, BOOL)):
        truth = b.call("PyObject_IsTrue", I32, number)
        b.store(b.cast("trunc", truth, I8), slot)
        b.ret(b.const(I1, 1))
    value = b.call("PyLong_AsLongLong", I64, number)
    with b.when(b.eq(value, -1)):
        with b.when(~b.is_null(b.call("PyErr_Occurred", PTR))):
            b.call("PyErr_Clear", None)
            b.ret(b.const(I1, 0))
    b.store(value, slot)  # the first half of it is the number of 32 bits
    fits = b.eq(b.cast("sext", b.cast("trunc", value, I32), I64), value)
    return b.eq(dtype, INT64) | (b.eq(dtype, INT32) & fits)


@function(PTR, PTR, result=I1)
def keep_leaves(b: Builder, record: Value, table: Value) -> int:
    """Hold the storage of arrays, and numbers, for the call; whether all are there."""
    head = CallRecord(record)
    leaves, kept = head.area(table, LEAVES_AT), head.area(table, KEPT_AT)
    with b.loop(0, head.arrays) as loop:
        leaf = pointer(leaves, loop.index)
        is_number = b.ne(word(leaves, loop.index) & NUMBER, 0)
        found = b.choose(
            is_number,
            lambda: b.offset(leaf, -NUMBER, I8),
            lambda: field(leaf, b.module.layout.data),
        )
        b.return_when(is_none(found))
        keep(kept, hold(found))
    return 1


@function(PTR, PTR, PTR, result=I1)
def collect_kept(b: Builder, record: Value, given: Value, table: Value) -> Value:
    """As `collect`, for calls without the GIL: the storage is held."""
    b.return_unless(keep_leaves(b, record, table))
    return collect(b, record, given, table)


@function(PTR, PTR, PTR, result=I1)
def match_array(b: Builder, array: Value, record: Value, instruction: Value) -> Value:
    """Whether an object is the array that an instruction expects."""
    layout = b.module.layout
    b.return_unless(is_of(array, "array_type"))
    b.return_unless(b.eq(field(array, layout.aval, I64), word(instruction, 2)))
    return is_none(field(array, layout.device))


@function(PTR, PTR, PTR, result=I1)
def collect(b: Builder, record: Value, _: Value, table: Value) -> int:
    """Store where the elements of leaves are; whether all are at hand."""
    head = CallRecord(record)
    inputs, leaves = at(table, head.results), head.area(table, LEAVES_AT)
    values = head.area(table, VALUES_AT)
    with b.loop(0, head.arrays) as loop:
        is_number = b.ne(word(leaves, loop.index) & NUMBER, 0)
        with b.when(is_number):
            put(inputs, loop.index, at(values, loop.index))
        with b.when(~is_number):
            data = field(pointer(leaves, loop.index), b.module.layout.data)
            b.return_when(is_none(data))
            usable = b.eq(field(data, entry_code.FLAGS, I32) & _USABLE, _USABLE)
            b.return_unless(usable)
            put(inputs, loop.index, field(data, entry_code.DATA))
    return 1


# ---- containers, which are replaced on the stack by their children


@function(PTR, PTR, PTR, PTR, result=I1)
def match_container(
    b: Builder, top: Value, record: Value, instruction: Value, held: Value
) -> Value:
    """Whether a container is what an instruction expects.

    It lies on `top` of the stack; `held` are the objects held, after their number.
    """
    item, kind = pointer(top, 0), word(instruction, 0)
    size, wanted = word(instruction, 1), pointer(instruction, 2)
    operand = at(record, word(instruction, 2))

    def push(get: Callable[[Value], Value]) -> None:
        with b.loop(0, size) as loop:
            child = get(loop.index)
            b.return_when(b.is_null(child))
            put(top, size - 1 - loop.index, child)
            keep(held, hold(child))

    def sequence(prefix: str) -> None:
        b.return_unless(b.eq(class_of(item), wanted))
        b.return_unless(b.eq(b.call(f"{prefix}_Size", I64, item), size))
        push(lambda i: b.call(f"{prefix}_GetItem", PTR, item, i))

    def dictionary() -> None:
        b.return_unless(is_of(item, "dict_type"))
        b.return_unless(b.eq(b.call("PyDict_Size", I64, item), size))
        name = "PyDict_GetItemWithError"
        push(lambda i: b.call(name, PTR, item, pointer(operand, i)))

    def node() -> None:
        parts = parts_of(b, item, size, operand, held)
        b.return_when(b.is_null(parts))
        push(lambda i: item_of(parts, i))

    tuple_, list_ = partial(sequence, "PyTuple"), partial(sequence, "PyList")
    cases = (DICT, dictionary), (TUPLE, tuple_), (LIST, list_), (NODE, node)
    with b.when(b.eq(kind, STATIC)):
        b.ret(is_static(b, item, operand))
    for code, match in cases:
        with b.when(b.eq(kind, code)):
            match()
            b.ret(b.const(I1, 1))
    return b.eq(kind, NONE) & is_none(item)


@function(PTR, PTR, result=I1)
def is_static(b: Builder, item: Value, known: Value) -> Value:
    """Whether an object is of the class of a static argument, and equal to it."""
    b.return_unless(b.eq(class_of(item), pointer(known, KIND)))
    wanted, how = pointer(known, VALUE), b.const(I32, _EQUAL)
    equal = b.call("PyObject_RichCompareBool", I32, item, wanted, how)
    with b.when(b.eq(equal, -1)):
        b.call("PyErr_Clear", None)
    return b.eq(equal, 1)


def keep(held: Value, item: Value) -> None:
    """Keep a reference until the end of the call."""
    count = word(held, 0) + 1
    put(held, count, item)
    put(held, 0, count)


@function(PTR, I64, PTR, PTR, result=PTR)
def parts_of(b: Builder, item: Value, size: Value, known: Value, held: Value) -> Value:
    """A tuple that has a node's children, which are held, and its metadata.

    Null if it is not of the class, or not with the metadata, that is known.
    """
    b.return_unless(b.eq(class_of(item), pointer(known, CLASS)), b.null)
    parts = b.call("PyObject_CallOneArg", PTR, pointer(known, PARTS), item)
    with b.when(b.is_null(parts)):
        b.call("PyErr_Clear", None)
        b.ret(b.null)
    keep(held, parts)
    count = word(known, METADATA_COUNT)
    b.return_unless(b.eq(b.call("PyTuple_Size", I64, parts), size + count), b.null)
    with b.loop(0, count) as loop:
        own = item_of(parts, size + loop.index)
        other, how = pointer(known, loop.index + METADATA), b.const(I32, _EQUAL)
        equal = b.call("PyObject_RichCompareBool", I32, own, other, how)
        with b.when(b.ne(equal, 1)):
            b.call("PyErr_Clear", None)
            b.ret(b.null)
    return parts
