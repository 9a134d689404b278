"""The native code that hands out arenas, the memory of a program's temporaries.

The arena that was returned last is *parked*: its address is in one word, and the next
call takes it, for any program. If no arena is parked, or it is too small, Python
provides one (`arenas`), which keeps all other arenas. The word before an arena says how
large it is.

Callers hold the GIL, if there is one.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I8, I64, PTR, Value
from curta.compiler.support.objects import drop, field
from curta.config import config

HEADER = 64  # bytes before an arena; its size is the first word

PARKED = "parked"  # the word
TAKE, GIVE = "take", "give"  # Python functions


@function(PTR, result=PTR)
def exchange_arena(b: Builder, new: Value) -> Value:
    """Park an arena, or none; what was parked."""
    text = f"atomicrmw xchg ptr {b.external(PARKED)}, ptr {new} seq_cst"
    return b.instruction(text, PTR)


@function(I64, result=PTR)
def take_arena(b: Builder, size: Value) -> Value:
    """The address of an arena, or null where a Python exception is set."""
    parked = exchange_arena(b, b.null)
    with b.when(~b.is_null(parked)):
        b.return_when(b.compare("le", size, _size(parked), unsigned=True), parked)
    given = b.instruction(f"ptrtoint ptr {parked} to i64", I64)
    answer = _call(b, TAKE, "KK", given, size)
    b.return_when(b.is_null(answer), b.null)
    address = b.call("PyLong_AsUnsignedLongLong", I64, answer)
    drop(answer)
    return b.instruction(f"inttoptr i64 {address} to ptr", PTR)


@function(PTR)
def give_arena(b: Builder, arena: Value) -> None:
    """Give an arena back; none of more than so many bytes is parked."""
    most = config.tuning.idle_bytes
    small = b.compare("le", _size(arena), most, unsigned=True)
    left = b.choose(small, lambda: exchange_arena(b, arena), lambda: arena)
    b.return_when(b.is_null(left))
    address = b.instruction(f"ptrtoint ptr {left} to i64", I64)
    answer = _call(b, GIVE, "K", address)
    with b.when(b.is_null(answer)):
        b.call("PyErr_Clear", None)
        b.ret()
    drop(answer)


def _call(b: Builder, name: str, kinds: str, *words: Value) -> Value:
    """Call a Python function with unsigned words; null if it raised."""
    b.module.declare_variadic("PyObject_CallFunction", PTR, [PTR, PTR])
    kinds_at = b.table(I8, [*kinds.encode(), 0])
    values = ", ".join(f"i64 {word}" for word in words)
    text = f"@PyObject_CallFunction(ptr {b.external(name)}, ptr {kinds_at}, {values})"
    return b.instruction(f"call ptr (ptr, ptr, ...) {text}", PTR)


def _size(arena: Value) -> Value:
    return field(arena, -HEADER, I64)


EXPORTS = (take_arena, give_arena, exchange_arena)
