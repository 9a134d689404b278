"""The native function behind every entry: checks arrays, collects addresses, calls.

It is compiled once for all entries. `self` of the built-in function is a tuple whose
first item is a bytes object, the record of one entry:

    word 0  address of the native function, `void f(ptr table)`
         1  number of arrays
         2  number of results among them, which come first
         3  what to do: CALL, CALL_WITHOUT_GIL, CALL_CANCELLABLE, or give the TABLE as
            a bytes object
         4  number of constants
         5  bytes of the arena that the function needs, 0 for none
         6  the place of the arena's address among the constants
         7  the place of the cancellation token's address among them
         8  the constants; then for each array: dtype object, rank, dimensions

A call returns True if it was made and False if the arguments are not as promised. It
raises OutOfMemoryError, and calls nothing, if there is no memory for the arena. If the
function was cancelled by the handler of a signal, it raises what that raised.

Fields of an array object are read where this NumPy keeps them, which `native_entry`
verifies before it uses any of this.
"""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import I1, I8, I32, I64, PTR, Type, Value

FIXED_WORDS = 8
CALL, CALL_WITHOUT_GIL, CALL_CANCELLABLE, TABLE = range(4)
# Fields of an array object, from the end of the object's header.
DATA, RANK, DIMENSIONS, DTYPE, FLAGS = 0, 8, 16, 40, 48
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400

# What the code imports: functions of Python by name, and two addresses.
FUNCTIONS = (
    "PyTuple_GetItem",
    "PyBytes_AsString",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyErr_Fetch",
    "PyErr_Occurred",
    "PyErr_Restore",
    "PyBool_FromLong",
    "PyBytes_FromStringAndSize",
)
ARRAY_TYPE = "array_type"
ARENAS = ("take_arena", "give_arena")  # of arena_code
CANCELLATION = "call_cancellable"  # of cancellation_code


def entry_module(module: Module, header: int) -> str:
    """IR with `call_entry`, for arrays whose object header has this many bytes."""
    _run(module)
    b = module.function("call_entry", [PTR, PTR, I64], PTR)
    owner, arguments, given = b.arguments
    item = b.call("PyTuple_GetItem", PTR, owner, b.const(I64, 0))
    record = b.call("PyBytes_AsString", PTR, item)
    expected = _word(b, record, 1)

    def run() -> Values:
        constants = _word(b, record, 4)
        size = b.add(expected, constants)
        table = b.instruction(f"alloca i64, i64 {size}, align 16", PTR)
        signature = _place(b, record, b.add(constants, FIXED_WORDS))
        matched = _collect(b, arguments, expected, record, signature, table, header)

        def fitting() -> Values:
            with b.loop(0, constants) as loop:
                word = _word(b, record, b.add(loop.index, FIXED_WORDS))
                b.store(word, _place(b, table, b.add(expected, loop.index)))
            return [_call(b, record, table, expected, size)]

        return b.if_(matched, fitting, refuse)

    def refuse() -> Values:
        return [b.call("PyBool_FromLong", PTR, b.const(I64, 0))]

    b.ret(b.if_(b.eq(given, expected), run, refuse)[0])
    return f"@{ARRAY_TYPE} = external global i8\n" + module.text()


def _place(b: Builder, base: Value, index: Value | int) -> Value:
    return b.offset(base, index, I64)


def _word(b: Builder, base: Value, index: Value | int) -> Value:
    return b.load(I64, _place(b, base, index))


def _field(b: Builder, item: Value, offset: int, type_: Type) -> Value:
    return b.load(type_, b.offset(item, offset, I8))


def _collect(
    b: Builder, arguments: Value, count: Value, record: Value, signature: Value,
    table: Value, header: int,
) -> Value:  # fmt: skip
    """Write the data addresses; whether every array is as its signature says."""
    results = _word(b, record, 2)
    start = [b.const(I1, 1), b.const(I64, 0)]
    with b.loop(0, count, carried=start) as loop:
        good, at = loop.carried
        item = b.load(PTR, b.offset(arguments, loop.index, PTR))
        kind = _field(b, item, header - 8, PTR)
        is_array = _same(b, kind, Value(f"@{ARRAY_TYPE}", PTR, b))
        rank = _word(b, signature, b.add(at, 1))
        dimensions = _place(b, signature, b.add(at, 2))

        def check() -> Values:
            dtype = _field(b, item, header + DTYPE, I64)
            flags = _field(b, item, header + FLAGS, I32)
            is_result = b.compare("lt", loop.index, results)
            needed = b.select(
                is_result,
                b.const(I32, _C_CONTIGUOUS | _ALIGNED | _WRITEABLE),
                _C_CONTIGUOUS | _ALIGNED,
            )
            right = b.eq(dtype, _word(b, signature, at)) & b.eq(flags & needed, needed)
            own_rank = b.convert(_field(b, item, header + RANK, I32), "i64")
            right = right & b.eq(own_rank, rank)
            own = _field(b, item, header + DIMENSIONS, PTR)
            right = b.if_(
                right,
                lambda: [_equal_words(b, own, dimensions, rank)],
                lambda: [b.const(I1, 0)],
            )[0]
            data = _field(b, item, header + DATA, I64)
            b.store(data, _place(b, table, loop.index))
            return [right]

        right = b.if_(is_array, check, lambda: [b.const(I1, 0)])[0]
        loop.next(good & right, b.add(at, b.add(rank, 2)))
    return loop.results[0]


def _same(b: Builder, x: Value, y: Value) -> Value:
    return b.instruction(f"icmp eq ptr {x}, {y}", I1)


def _equal_words(b: Builder, x: Value, y: Value, count: Value) -> Value:
    with b.loop(0, count, carried=[b.const(I1, 1)]) as loop:
        same = b.eq(_word(b, x, loop.index), _word(b, y, loop.index))
        loop.next(loop.carried[0] & same)
    return loop.results[0]


def _run(module: Module) -> None:
    """Call the function of a record on a table, as it says; the object to return."""
    b = module.function("run", [PTR, PTR, I64], PTR, exported=False)
    record, table, arrays = b.arguments
    function, mode = b.load(PTR, record), _word(b, record, 3)

    def done() -> Value:
        return b.call("PyBool_FromLong", PTR, b.const(I64, 1))

    def with_gil() -> Values:
        b.call(function, None, table)
        return [done()]

    def without_gil() -> Values:
        state = b.call("PyEval_SaveThread", PTR)
        b.call(function, None, table)
        b.call("PyEval_RestoreThread", None, state)
        return [done()]

    def cancellable() -> Values:
        place = b.add(arrays, _word(b, record, 7))
        b.call(CANCELLATION, None, function, table, place)
        null = Value("null", PTR, b)
        raised = b.call("PyErr_Occurred", PTR)
        return b.if_(_same(b, raised, null), lambda: [done()], lambda: [null])

    def released() -> Values:
        return b.if_(b.eq(mode, CALL_CANCELLABLE), cancellable, without_gil)

    b.ret(b.if_(b.eq(mode, CALL), with_gil, released)[0])


def _call(b: Builder, record: Value, table: Value, arrays: Value, size: Value) -> Value:
    """Do with the complete table what the record says; the object to return."""
    arena_bytes = _word(b, record, 5)

    def call() -> Values:
        return [b.call("run", PTR, record, table, arrays)]

    def call_with_arena() -> Values:
        arena = b.call("take_arena", PTR, arena_bytes)

        def go() -> Values:
            place = b.add(arrays, _word(b, record, 6))
            b.store(arena, _place(b, table, place))
            (out,) = call()
            raised = _same(b, out, null)
            place = b.scratch(24, align=8)
            error = [b.offset(place, i, PTR) for i in range(3)]
            with b.when(raised):  # Python may be called
                b.call("PyErr_Fetch", None, *error)
            b.call("give_arena", None, arena)
            with b.when(raised):
                b.call("PyErr_Restore", None, *(b.load(PTR, x) for x in error))
            return [out]

        null = Value("null", PTR, b)
        return b.if_(_same(b, arena, null), lambda: [null], go)

    def give() -> Values:
        return [b.call("PyBytes_FromStringAndSize", PTR, table, b.mul(size, 8))]

    def run() -> Values:
        return b.if_(b.eq(arena_bytes, 0), call, call_with_arena)

    return b.if_(b.eq(_word(b, record, 3), TABLE), give, run)[0]
