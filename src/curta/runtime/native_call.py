"""Calls of jitted functions in native code, for signatures that are ready.

    call = native_caller(table.entries)  # of a PlanTable
    call(*args, **kwargs)  # the results, or MISS
    entry_of_call(given, leaves, compiled, build)  # makes such calls fast, among those
    entry_of_function(given, compute)  # the same where Python computes, with NumPy

Where objects are not laid out as the native code needs, or there is no native code,
`call` always answers MISS, and the caller goes the longer way.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
import weakref
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import late
from curta._base.once import has_gil, once
from curta.compiler.machine_code import calls
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.support import (
    argument_code,
    call_code,
    call_record,
    cancellation,
    donation_code,
    entry_code,
    invoke_code,
    objects,
    result_code,
)
from curta.compiler.support.arenas import native_arenas
from curta.compiler.support.entry import arrays_are_known, builtin_function
from curta.compiler.support.loader import native_module
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.buffers import allocator, unpooled, when_trimmed
from curta.core.leases import LeasedBlock
from curta.core.trace import thread_state, typeof
from curta.runtime.array import ArrayImpl
from curta.runtime.dispatch import CompiledCall
from curta.runtime.eager import BASE
from curta.runtime.plans import plan_tables
from curta.tree.kinds import CustomKind, Kind, NamedTupleKind, kind_of

# Few programs run on devices of plugins.
device_entry: Any = late("curta.runtime.device_entry")

MISS: Any = object()


def native_caller(entries: list[Any]) -> Callable[..., Any]:
    """A function that calls the first of the entries that fits; MISS if none does."""
    make = _maker()
    return _miss if make is None else make(entries)


def _miss(*args: Any, **kwargs: Any) -> Any:
    return MISS


def _trim_all() -> None:
    """Forget the results that are kept to be used again."""
    for table in plan_tables():
        for _, rings, *_ in list(table.entries):
            rings[:] = [None] * len(rings)


when_trimmed(_trim_all)


# ---- entries


@dataclass(frozen=True, eq=False)
class CallArguments:
    """The arguments of a call, of which some are static.

    `static_argnums` are not negative; those beyond the arguments do not count.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    static_argnums: Collection[int] = ()
    static_argnames: Collection[str] = ()

    def order(self) -> list[int]:
        """The numbers of the arguments in the order of their leaves."""
        first, names = len(self.args), [*self.kwargs]
        return [*range(first), *[first + names.index(name) for name in sorted(names)]]

    def of_number(self, i: int) -> tuple[Any, bool]:
        """An argument, those by keyword last, and whether it is static."""
        if i < len(self.args):
            return self.args[i], i in self.static_argnums
        name = [*self.kwargs][i - len(self.args)]
        return self.kwargs[name], name in self.static_argnames


def entry_of_function(
    given: CallArguments, compute: Callable[..., Any]
) -> tuple[Any, ...] | None:
    """What native code needs to call a function of Python on the leaves of arguments.

    `compute` takes NumPy arrays, and numbers of Python as they are. None if there is no
    native code, or it does not do such calls.
    """
    if _maker() is None:
        return None
    try:
        walk = Walk(given, _seen_here, numbers=True)
    except NotReady:
        return None
    head = [0] * invoke_code.HEAD_WORDS
    head[invoke_code.ARRAYS] = walk.leaves
    words = record_words(head, walk, (walk.leaves, 0, 0))
    record = array("Q", [_code().address("run_python"), *words]).tobytes()
    return record, [], compute, None, None, config.context, walk.kept


def _seen_here(x: ArrayImpl) -> tuple[Any, ...]:
    return (x.aval,)


def entry_of_call(
    given: CallArguments,
    leaves: Sequence[Any],
    compiled: CompiledCall,
    build: Callable[[tuple[Any, ...]], Any] | None,
) -> tuple[Any, ...] | None:
    """What native code needs to call a program on arguments like these.

    `build` puts the results into a tree; None for a single result. None if there is no
    native code, or it does not do such calls.
    """
    if _maker() is None or len(leaves) > config.tuning.native_leaves:
        return None
    where = compiled.call_on_device(leaves)
    if where is not None:
        where[0].told += 1
        made: tuple[Any, ...] | None = device_entry.entry(given, leaves, *where, build)
        return made
    if not compiled.on_host:
        return None
    run = compiled.run
    program = run.native
    if program is None or compiled.known_destinations:
        return None
    results = program.signature[: program.results]
    overwrites, tuning = run.overwrites, config.tuning
    sizes = [
        np.dtype(dtype).itemsize * math.prod(shape)
        for k, (dtype, shape) in enumerate(results)
        if k not in overwrites
    ]
    large = max(sizes, default=0) > tuning.native_result_bytes
    large = large or sum(sizes) > tuning.native_results_bytes
    # What may be queued, or be waited for by a thread that answers signals.
    waits = run.is_async or run.measured or run.lingers or program.cancellable
    if waits or large:
        return None
    try:
        walk = Walk(given, _seen_here, numbers=True)
    except NotReady:
        return None
    kept, spare = _makers(program, overwrites, compiled.out_avals)
    record = _record(program, overwrites, compiled.consumed, walk)
    rings = [None] * ((call_record.RING + 1) * len(results))
    return (
        record, rings, tuple(kept), tuple(spare), build,
        run, config.context, walk.kept,
    )  # fmt: skip


def _makers(
    program: NativeProgram, overwrites: Mapping[int, int], avals: Sequence[ShapedArray]
) -> tuple[list[Any], list[Any]]:
    """What makes arrays for the results: those to be kept, and others."""
    kept: list[Any] = []
    spare: list[Any] = []
    for k, (dtype, shape) in enumerate(program.signature[: program.results]):
        aval, dtype = avals[k], np.dtype(dtype)
        if k in overwrites:
            kept.append(partial(ArrayImpl, None, aval))
            spare.append(kept[-1])
            continue
        spare.append(partial(_new, allocator(shape, dtype), aval))
        kept.append(_kept_maker(shape, dtype, aval))
    return kept, spare


def _kept_maker(shape: Any, dtype: np.dtype[Any], aval: ShapedArray) -> Any:
    """What makes results of which some are kept; None for large ones."""
    if dtype.itemsize * math.prod(shape) > config.tuning.native_kept_bytes:
        return None
    return partial(_new, partial(unpooled, shape, dtype), aval)


def _new(make: Callable[[], Any], aval: ShapedArray) -> ArrayImpl:
    return ArrayImpl(make(), aval)


# The numbers of Python that native code reads, by their class and dtype.
_NUMBERS: dict[type, dict[str, int]] = {
    bool: {"bool": call_record.BOOL},
    int: {"int32": call_record.INT32, "int64": call_record.INT64},
    float: {"float32": call_record.FLOAT32, "float64": call_record.FLOAT64},
}


class NotReady(Exception):
    """An argument that native code does not walk through."""


class Walk:
    """The instructions that recognise arguments.

    `seen` gives the objects by which an array is recognised. The addresses of several
    come after the instructions, as those of dicts' keys and what is known of nodes do.
    Leaves are arrays, and `numbers` of Python where these are wanted.
    """

    def __init__(
        self,
        given: CallArguments,
        seen: Callable[[ArrayImpl], tuple[Any, ...]],
        numbers: bool = False,
    ) -> None:
        self.code: list[tuple[int, int, Any]] = []
        self.names: list[str] = [*map(sys.intern, given.kwargs)]
        self.order: list[int] = given.order()
        self.kept: list[Any] = [self.names]
        self.items: int = 0
        self.nodes: int = 0
        self.leaves: int = 0
        self.positional: int = len(given.args)
        self._seen, self._numbers = seen, numbers
        for i in self.order:
            x, is_static = given.of_number(i)
            if is_static:
                self._known(call_record.STATIC, type(x), x)
            else:
                self._walk(x)

    def _walk(self, x: Any) -> None:
        pending = [x]
        while pending:
            inside = self._visit(pending.pop())
            self.items += len(inside)
            if self.items > 4 * config.tuning.native_leaves:
                raise NotReady
            pending.extend(reversed(inside))

    def _visit(self, x: Any) -> Sequence[Any]:
        """Recognise `x`, but for what is inside, which is returned."""
        kind = type(x)
        if kind is ArrayImpl:
            seen = self._seen(x)
            self.kept.append(seen)
            ids = [*map(id, seen)]
            self._emit(call_record.ARRAY, 0, ids if len(seen) > 1 else ids[0])
            self.leaves += 1
            return ()
        if kind in _NUMBERS and self._numbers:
            self._number(x)
            return ()
        if kind is dict and all(type(key) is str for key in x):
            keys = sorted(x)
            self.kept.append(keys)
            self._emit(call_record.DICT, len(keys), [*map(id, keys)])
            return [x[key] for key in keys]
        if kind is tuple or kind is list or type(kind_of(kind)) is NamedTupleKind:
            code = call_record.LIST if kind is list else call_record.TUPLE
            self._emit(code, len(x), id(kind))
            self.kept.append(kind)
            return x
        if x is None:
            self._emit(call_record.NONE, 0, 0)
            return ()
        return self._node(x, kind_of(kind))

    def _known(self, instruction: int, kind: type, value: Any) -> None:
        self.kept += [kind, value]
        self._emit(instruction, 0, [id(kind), id(value)])

    def _number(self, x: Any) -> None:
        """Recognise a number of Python, whatever its value."""
        dtype = _NUMBERS[type(x)].get(dtypes.physical_dtype(typeof(x).dtype).name)
        if dtype is None:
            raise NotReady
        self._emit(call_record.SCALAR, 0, [id(type(x)), dtype])
        self.leaves += 1

    def _node(self, x: Any, kind: Kind | None) -> Sequence[Any]:
        if not isinstance(kind, CustomKind):
            raise NotReady
        take_apart, count = kind.parts()
        parts = take_apart(x)
        children, metadata = parts[: len(parts) - count], parts[len(parts) - count :]
        self.nodes += 1
        self.kept += [kind.type, take_apart, metadata]
        known = [id(kind.type), id(take_apart), count, *map(id, metadata)]
        self._emit(call_record.NODE, len(children), known)
        return children

    def _emit(self, kind: int, children: int, operand: Any) -> None:
        self.code.append((kind, children, operand))


def record_words(
    head: Sequence[int],
    walk: Walk,
    sizes: tuple[int, int, int],
    donated: int = 0,
    more: Sequence[int] = (),
) -> list[int]:
    """The words of a record, of which `more` is what is said of donated arguments.

    `sizes` are those of areas of the table: of arrays among the arguments, of what is
    taken from them, of results.
    """
    arrays, taken, results = sizes
    code_at = len(head) + call_record.OWN_WORDS
    after = code_at + call_record.INSTRUCTION_WORDS * len(walk.code)
    keys: list[int] = []
    code: list[int] = []
    for kind, children, operand in walk.code:
        if not isinstance(operand, int):
            at = after + len(keys)
            keys += operand
            operand = at
        code += [kind, children, operand]
    names_at = after + len(keys)
    keys += [*map(id, walk.names), *walk.order]
    ends = [head[invoke_code.ARRAYS] + head[invoke_code.CONSTANTS]]
    held, stack = 1 + walk.items + walk.nodes, walk.items + len(walk.order) + 1
    for size in (arrays, arrays, 1 + arrays, taken, results, held, stack):
        ends.append(ends[-1] + size)
    own = [
        walk.positional, len(walk.names), names_at, id(config.context), len(walk.code),
        donated, after + len(keys), *ends,
    ]  # fmt: skip
    return [*head, *own, *code, *keys, *more]


def _record(
    program: NativeProgram,
    overwrites: Mapping[int, int],
    consumed: Mapping[int, int],
    walk: Walk,
) -> bytes:
    arrays = len(program.signature) - program.results
    donations = [int(k in overwrites) for k in range(program.results)]
    for leaf, result in consumed.items():
        donations += [leaf, result, int(overwrites.get(result) == leaf)]
    sizes = arrays, len(consumed), program.results
    words = record_words(calls.head(program), walk, sizes, len(consumed), donations)
    return calls.packed(program, [_code().address("run_entry"), *words])


# ---- the built-in function


@once
def _maker() -> Callable[[list[Any]], Callable[..., Any]] | None:
    """What makes the built-in function of a list of entries, if that is possible."""
    code = _code()
    if code is None:
        return None
    return builtin_function(b"call", code, code.address("fast_call"), keywords=True)


@once
def _code() -> Any:
    """The native code, if there is any."""
    sources = donation_code, entry_code, result_code

    def functions() -> dict[str, int]:
        name = invoke_code.CANCELLATION
        return {**native_arenas(), name: cancellation.addresses()[name]}

    return code_of_calls(call_code, sources, known_layout(), OBJECTS, functions)


def code_of_calls(
    source: ModuleType,
    sources: Sequence[ModuleType],
    layout: Any,
    known: Mapping[str, Any],
    functions: Callable[[], Mapping[str, int]] = dict,
) -> Any:
    """The code of `source`, which uses objects that are laid out so.

    `sources` are modules that it uses besides those of all calls, `functions` gives the
    addresses of what it calls. None where the layout is not known, or there is no
    native code.
    """
    if layout is None:
        return None
    try:
        return native_module(
            source,
            argument_code,
            call_record,
            invoke_code,
            *sources,
            given={**{name: id(x) for name, x in known.items()}, **functions()},
            layout=layout,
        )
    except (ImportError, LookupError, OSError, ValueError):
        return None


OBJECTS: dict[str, Any] = {
    "array_type": ArrayImpl,
    "base_trace": BASE,
    "block_type": LeasedBlock,
    "bytearray_type": bytearray,
    "config": config,
    "context_name": sys.intern("context"),
    "dict_type": dict,
    "miss": MISS,
    "mmap_type": mmap.mmap,
    "none": None,
    "thread_state": thread_state,
    "trace_name": sys.intern("trace"),
}


def known_layout() -> call_record.ObjectLayout | None:
    """Where the fields of arrays lie; None if they are not found or not as needed."""
    if not arrays_are_known() or not has_gil():
        return None
    fields: tuple[Any, ...] = np.zeros(1), object(), object(), object()
    sample = object.__new__(ArrayImpl)
    sample._data, sample.aval, sample._sharding, sample._pending = fields
    offsets = [field_offset(sample, x) for x in fields]
    known_items = _word(fields, objects.ITEMS) == id(fields[0])
    if None in offsets or not known_items or not _counts_are_known():
        return None
    known = [p or 0 for p in offsets]
    weak = ArrayImpl.__weakrefoffset__
    layout: Any = call_record.ObjectLayout
    return layout(*known, weak)


def field_offset(sample: Any, field: Any) -> int | None:
    """Where an object refers to another one, after its header; None if nowhere."""
    for offset in range(object.__basicsize__, type(sample).__basicsize__, 8):
        if _word(sample, offset) == id(field):
            return offset
    return None


def _word(x: Any, offset: int) -> int:
    return ctypes.c_uint64.from_address(id(x) + offset).value


def _counts_are_known() -> bool:
    """Whether reference counts are where, and what, the native code reads."""
    if sys.byteorder != "little":
        return False
    x = ArrayImpl(np.zeros(1), ShapedArray((1,), np.dtype(np.float64)))

    def stored() -> int:
        return ctypes.c_uint32.from_address(id(x)).value

    alone = stored()
    held = [x, x, x]
    several = stored()
    reference = weakref.ref(x)
    seen = _word(x, ArrayImpl.__weakrefoffset__) == id(reference)
    return alone == 1 and several == 1 + len(held) and seen
