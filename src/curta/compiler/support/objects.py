"""Words of memory and objects of Python, as native code reads and changes them."""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import I8, I64, PTR, Operand, Type, Value

CLASS = object.__basicsize__ - 8  # where an object says of which class it is
ITEMS = tuple.__basicsize__  # where a tuple has its items


def at(base: Value, index: Operand) -> Value:
    """The address of a word."""
    return base.builder.offset(base, index, I64)


def word(base: Value, index: Operand) -> Value:
    """A word of memory that is a number."""
    return base.builder.load(I64, at(base, index))


def pointer(base: Value, index: Operand) -> Value:
    """A word of memory that is an address."""
    return base.builder.load(PTR, at(base, index))


def put(base: Value, index: Operand, value: Operand) -> None:
    """Set a word of memory."""
    b: Builder = base.builder
    b.store(value if isinstance(value, Value) else b.const(I64, value), at(base, index))


def words(b: Builder, count: Operand) -> Value:
    """Room for so many words on the stack."""
    return b.instruction(f"alloca i64, i64 {count}, align 16", PTR)


def copy_words(to: Value, source: Value, count: Operand) -> None:
    """Copy a few words."""
    with to.builder.loop(0, count) as loop:
        put(to, loop.index, word(source, loop.index))


def field(item: Value, offset: int, type_: Type = PTR) -> Value:
    """A field of an object, so many bytes from its beginning."""
    return item.builder.load(type_, item.builder.offset(item, offset, I8))


def set_field(item: Value, offset: int, value: Value) -> None:
    """Change a field of an object."""
    item.builder.store(value, item.builder.offset(item, offset, I8))


def class_of(item: Value) -> Value:
    """The class of an object."""
    return field(item, CLASS)


def is_of(item: Value, kind: str) -> Value:
    """Whether an object is of the class that the code knows by a name."""
    b: Builder = item.builder
    return b.eq(class_of(item), b.external(kind))


def none(b: Builder) -> Value:
    """The object None, which the code knows by this name."""
    return b.external("none")


def is_none(item: Value) -> Value:
    """Whether an object is None."""
    return item.builder.eq(item, none(item.builder))


def hold(item: Value) -> Value:
    """A new reference to an object."""
    item.builder.call("Py_IncRef", None, item)
    return item


def drop(item: Value) -> None:
    """Let go of a reference."""
    item.builder.call("Py_DecRef", None, item)


def drop_all(items: Value, count: Operand) -> None:
    """Let go of references that lie side by side."""
    with items.builder.loop(0, count) as loop:
        drop(pointer(items, loop.index))


def is_alone(item: Value) -> Value:
    """Whether an object has one reference."""
    return item.builder.eq(field(item, 0, Type("i32")), 1)


def item_of(items: Value, index: Operand) -> Value:
    """A borrowed reference to an item of a tuple."""
    b: Builder = items.builder
    return b.call("PyTuple_GetItem", PTR, items, b.operand(index, I64))
