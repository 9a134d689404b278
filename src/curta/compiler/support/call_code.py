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
this host, `run_on_device` (device_call_code.py) on those of a plugin, `run_python` for
what Python computes, with NumPy.

Fields of objects are read where `native_call` has found them.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.functions import Function, function
from curta.compiler.llvm.types import I1, I64, PTR, Value
from curta.compiler.support import invoke_code
from curta.compiler.support.argument_code import (
    collect,
    collect_kept,
    keep_leaves,
    match_array,
    release,
    taking,
)
from curta.compiler.support.call_record import (
    ARGUMENTS,
    BUILD,
    DONATED,
    HELD_AT,
    KEPT_AT,
    KEYWORDS,
    MADE_AT,
    MAKERS,
    RECORD,
    RINGS,
    SIZE,
    CallRecord,
)
from curta.compiler.support.donation_code import claim, claim_kept, hand_over
from curta.compiler.support.invoke_code import invoke
from curta.compiler.support.objects import (
    at,
    drop,
    hold,
    is_none,
    item_of,
    pointer,
    word,
    words,
)
from curta.compiler.support.result_code import result, results

# Words of a table that may lie on the stack: threads have little.
_STACK_WORDS = 1 << 12


@function(PTR, PTR, I64, PTR, result=PTR)
def fast_call(
    b: Builder, entries: Value, arguments: Value, given: Value, names: Value
) -> Value:
    """The results of the first entry that fits, or MISS."""
    miss = b.external("miss")
    trace = attribute(b, b.external("thread_state"), b.external("trace_name"))
    with b.when(b.eq(trace, b.external("base_trace"))):
        context = attribute(b, b.external("config"), b.external("context_name"))
        out = first_that_fits(b, entries, arguments, given, names, context)
        b.return_when(b.ne(out, miss), out)
    return hold(miss)


@function(PTR, PTR, result=PTR)
def attribute(b: Builder, item: Value, name: Value) -> Value:
    """Read an attribute, for its address alone: the reference is given back."""
    found = b.call("PyObject_GetAttr", PTR, item, name)
    with b.when(b.is_null(found)):
        b.call("PyErr_Clear", None)
        b.ret(found)
    drop(found)
    return found


@function(PTR, PTR, I64, PTR, PTR, result=PTR)
def first_that_fits(
    b: Builder,
    entries: Value,
    arguments: Value,
    given: Value,
    names: Value,
    context: Value,
) -> Value:
    miss = b.external("miss")
    with b.forever([b.const(I64, 0)]) as loop:
        (i,) = loop.carried
        # Asked every time: the list may change while an entry runs.
        b.return_unless(i < b.call("PyList_Size", I64, entries), miss)
        entry = hold(b.call("PyList_GetItem", PTR, entries, i))
        first = b.call("PyBytes_AsString", PTR, item_of(entry, RECORD))
        run, record = pointer(first, 0), at(first, 1)
        out = b.call(run, PTR, entry, record, arguments, given, names, context)
        drop(entry)
        b.return_when(b.ne(out, miss), out)
        loop.next(i + 1)
    return b.null


def attempting(name: str, match_array: Function, compute: Function) -> Function:
    """The function that takes the arguments, and returns the results if they match."""
    take = taking(match_array)

    @function(PTR, PTR, PTR, PTR, result=PTR, name=f"attempt_{name}")
    def attempt(
        b: Builder, entry: Value, record: Value, arguments: Value, table: Value
    ) -> Value:
        out = b.choose(
            take(b, record, arguments, table),
            lambda: compute(b, entry, record, arguments, table),
            lambda: b.external("miss"),
        )
        release(b, CallRecord(record).area(table, KEPT_AT))
        release(b, CallRecord(record).area(table, HELD_AT))
        return out

    return attempt


def running(
    name: str,
    match_array: Function,
    compute: Function,
    is_ready: Callable[[CallRecord], Value] | None = None,
) -> Function:
    """The function that runs an entry on its arguments; MISS if they do not match.

        ptr name(ptr entry, ptr record, ptr arguments, i64 given, ptr names,
                 ptr settings)

    Arrays are looked at twice: making results, or room for temporaries, may run
    Python code, which may delete them. `match_array` recognises one, `ptr compute(ptr
    entry, ptr record, ptr arguments, ptr table)` gives the results.
    """
    attempt = attempting(name, match_array, compute)

    @function(PTR, PTR, PTR, I64, PTR, PTR, result=PTR, name=name)
    def run_entry(
        b: Builder,
        entry: Value,
        record: Value,
        arguments: Value,
        given: Value,
        names: Value,
        context: Value,
    ) -> Value:
        head, miss = CallRecord(record), b.external("miss")
        b.return_unless(b.eq(head.word(ARGUMENTS), given), miss)
        b.return_unless(b.eq(head.context, context), miss)
        b.return_unless(are_names(b, record, names), miss)
        if is_ready is not None:
            b.return_unless(is_ready(head), miss)
        size = head.word(SIZE)
        with b.when(size <= _STACK_WORDS):
            b.ret(attempt(b, entry, record, arguments, words(b, size)))
        room = b.call("PyMem_RawMalloc", PTR, size * 8)
        with b.when(b.is_null(room)):
            b.ret(b.call("PyErr_NoMemory", PTR))
        out = attempt(b, entry, record, arguments, room)
        b.call("PyMem_RawFree", None, room)
        return out

    return run_entry


@function(PTR, PTR, result=I1)
def are_names(b: Builder, record: Value, names: Value) -> int:
    """Whether the keywords of a call, a tuple or null, are those of an entry."""
    head = CallRecord(record)
    count = head.word(KEYWORDS)
    with b.when(b.is_null(names)):
        b.ret(b.eq(count, 0))
    b.return_unless(b.eq(b.call("PyTuple_Size", I64, names), count))
    with b.loop(0, count) as loop:
        name = item_of(names, loop.index)
        b.return_unless(b.eq(name, pointer(head.names, loop.index)))
    return 1


@function(PTR, PTR, PTR, PTR, result=PTR)
def compute(
    b: Builder, entry: Value, record: Value, arguments: Value, table: Value
) -> Value:
    build, head = item_of(entry, BUILD), CallRecord(record)
    single = is_none(build)
    outs = b.choose(
        single,
        lambda: result(
            b, entry, table, head.area(table, MADE_AT), word(head.said, 0), 0
        ),
        lambda: results(b, entry, record, table),
    )
    b.return_when(b.is_null(outs), b.null)
    donates = b.ne(head.word(DONATED), 0)
    holds_lock = b.eq(word(record, invoke_code.MODE), invoke_code.CALL)
    collecting = b.select(
        holds_lock,
        b.select(donates, claim.address(b), collect.address(b)),
        b.select(donates, claim_kept.address(b), collect_kept.address(b)),
    )
    status = invoke(b, record, table, collecting, arguments)
    with b.when(b.ne(status, invoke_code.RAN)):
        drop(outs)
        missed = b.eq(status, invoke_code.MISSED)
        b.ret(b.select(missed, b.external("miss"), b.null))
    with b.when(donates):
        hand_over(b, record, item_of(entry, RINGS), table)
    b.return_when(single, outs)
    tree = b.call("PyObject_CallOneArg", PTR, build, outs)
    drop(outs)
    return tree


@function(PTR, PTR, PTR, PTR, result=PTR)
def compute_by_python(
    b: Builder, entry: Value, record: Value, _: Value, table: Value
) -> Value:
    """What a function of Python makes of the storage of arrays, and of numbers."""
    b.return_unless(keep_leaves(b, record, table), b.external("miss"))
    head = CallRecord(record)
    leaves, null = at(head.area(table, KEPT_AT), 1), b.null
    function = item_of(entry, MAKERS)
    return b.call("PyObject_Vectorcall", PTR, function, leaves, head.arrays, null)


EXPORTS = (
    fast_call,
    running("run_entry", match_array, compute),
    running("run_python", match_array, compute_by_python),
)
