"""The native code that hands out arenas, the memory of a program's temporaries.

The arena that was given back last is *parked*: its address lies in one word, from which
the next call takes it. That is all there is to most calls, whichever program they are
of. Where nothing is parked, or too little, Python is asked (`arenas`), which keeps all
other arenas. The word before an arena says how large it is.

Callers hold the GIL, if there is one.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I8, I64, PTR, Value

HEADER = 64  # bytes before an arena; its size is the first word

EXPORTS = ("take_arena", "give_arena", "exchange_arena")
PARKED = "parked"  # the word
TAKE, GIVE = "take", "give"  # Python functions


def arena_module(module: Module, most_parked: int) -> None:
    """IR with the functions; no arena of more than so many bytes is parked.

    `ptr take_arena(i64 size)` gives the address of an arena, or null where a Python
    exception is set. `void give_arena(ptr)` gives one back. `ptr exchange_arena(ptr)`
    parks an arena, or none, and returns what was parked.
    """
    _exchange_arena(module)
    _take_arena(module)
    _give_arena(module, most_parked)


def _exchange_arena(module: Module) -> None:
    b = module.function("exchange_arena", [PTR], PTR)
    b.ret(_exchange(b, b.arguments[0]))


def _take_arena(module: Module) -> None:
    b = module.function("take_arena", [I64], PTR)
    (size,) = b.arguments
    result = _exchange(b, b.null)

    def there() -> Values:
        return [b.compare("le", size, _size(b, result), unsigned=True)]

    def ask() -> Values:
        given = b.instruction(f"ptrtoint ptr {result} to i64", I64)
        answer = _call(b, TAKE, "KK", given, size)

        def read() -> Values:
            address = b.call("PyLong_AsUnsignedLongLong", I64, answer)
            b.call("Py_DecRef", None, answer)
            return [b.instruction(f"inttoptr i64 {address} to ptr", PTR)]

        return b.if_(b.is_null(answer), lambda: [b.null], read)

    none = b.is_null(result)
    fits = b.if_(none, lambda: [b.const(I1, 0)], there)[0]
    b.ret(b.if_(fits, lambda: [result], ask)[0])


def _give_arena(module: Module, most_parked: int) -> None:
    b = module.function("give_arena", [PTR])
    (arena,) = b.arguments
    small = b.compare("le", _size(b, arena), most_parked, unsigned=True)
    left = b.if_(small, lambda: [_exchange(b, arena)], lambda: [arena])[0]
    with b.when(~b.is_null(left)):
        address = b.instruction(f"ptrtoint ptr {left} to i64", I64)
        answer = _call(b, GIVE, "K", address)
        b.if_(
            b.is_null(answer),
            lambda: [b.call("PyErr_Clear", None)],
            lambda: [b.call("Py_DecRef", None, answer)],
        )
    b.ret()


def _call(b: Builder, name: str, kinds: str, *words: Value) -> Value:
    """Call a Python function with unsigned words; null if it raised."""
    b.module.declare_variadic("PyObject_CallFunction", PTR, [PTR, PTR])
    kinds_at = b.table(I8, [*kinds.encode(), 0])
    values = ", ".join(f"i64 {word}" for word in words)
    text = f"@PyObject_CallFunction(ptr {b.external(name)}, ptr {kinds_at}, {values})"
    return b.instruction(f"call ptr (ptr, ptr, ...) {text}", PTR)


def _exchange(b: Builder, new: Value) -> Value:
    parked = b.external(PARKED)
    return b.instruction(f"atomicrmw xchg ptr {parked}, ptr {new} seq_cst", PTR)


def _size(b: Builder, arena: Value) -> Value:
    return b.load(I64, b.offset(arena, -HEADER, I8))
