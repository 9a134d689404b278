"""Native code that matches the arguments of a call.

`take` stores the arrays among them in a table, `collect` the addresses of their data.
Arguments are walked through as the record says, in the manner of a stack machine. Nodes
of other classes than Python's own are flattened by functions of Python, which may
change any container: so children are held until the end of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import Function, function
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

    It stores the arrays one after the other. Whether one is as expected says `i1
    match_array(ptr array, ptr record, ptr instruction)`.
    """

    @function(PTR, PTR, PTR, result=I1)
    def take(b: Builder, record: Value, arguments: Value, table: Value) -> int:
        head = CallRecord(record)
        given, stack = head.word(ARGUMENTS), head.area(table, STACK_AT)
        with b.loop(0, given) as loop:
            put(stack, given - 1 - loop.index, pointer(arguments, loop.index))
        held, leaves = head.area(table, HELD_AT), head.area(table, LEAVES_AT)
        put(held, 0, 0)
        start = [given, leaves]
        with b.loop(0, head.word(INSTRUCTIONS), carried=start) as loop:
            depth, leaf = loop.carried
            instruction = at(head.instructions, loop.index * INSTRUCTION_WORDS)
            top = at(stack, depth - 1)
            is_array = b.eq(word(instruction, 0), ARRAY)
            with b.when(is_array):
                array = pointer(top, 0)
                put(leaf, 0, array)
                b.return_unless(match_array(b, array, record, instruction))
            with b.when(~is_array):
                b.return_unless(match_container(b, top, record, instruction, held))
            after = at(leaf, b.convert(is_array, "i64", unsigned=True))
            loop.next(depth - 1 + word(instruction, 1), after)
        return 1

    return take


@function(PTR)
def release(b: Builder, held: Value) -> None:
    """Let go of what is held for a call."""
    drop_all(at(held, 1), word(held, 0))


@function(PTR, PTR, PTR, result=I1)
def match_array(b: Builder, array: Value, record: Value, instruction: Value) -> Value:
    """Whether an object is the array that an instruction expects."""
    layout = b.module.layout
    b.return_unless(is_of(array, "array_type"))
    b.return_unless(b.eq(field(array, layout.aval, I64), word(instruction, 2)))
    return is_none(field(array, layout.device))


@function(PTR, PTR, PTR, result=I1)
def collect(b: Builder, record: Value, _: Value, table: Value) -> int:
    """Store where the arrays' elements are; whether all are at hand."""
    head = CallRecord(record)
    inputs, arrays = at(table, head.results), head.area(table, LEAVES_AT)
    with b.loop(0, head.arrays) as loop:
        data = field(pointer(arrays, loop.index), b.module.layout.data)
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
            _keep(held, hold(child))

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
    for code, match in cases:
        with b.when(b.eq(kind, code)):
            match()
            b.ret(b.const(I1, 1))
    return b.eq(kind, NONE) & is_none(item)


def _keep(held: Value, item: Value) -> None:
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
    _keep(held, parts)
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
