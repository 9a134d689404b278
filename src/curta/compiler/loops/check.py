"""Invariants of kernels and regions; checked if `CURTA_CHECK` is set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import (
    Block,
    Buffer,
    Call,
    Copy,
    DataIndex,
    Expr,
    Fold,
    For,
    If,
    Instr,
    Kernel,
    Load,
    LoopNest,
    Pack,
    Placeholder,
    Region,
    Store,
    Table,
    While,
    memory_of,
)
from curta.core.dim import is_symbolic_dim

_PREDICATES = frozenset({"compare"})
_CHANGES_DTYPE = frozenset({"convert", "bitcast", "to_int", "select"})


class InvalidKernel(AssertionError):
    """A pass made an invalid kernel or region: an error of the compiler."""


def check_kernel(kernel: Kernel, pieces: tuple[LoopVar, ...] = ()) -> None:
    """Raise InvalidKernel unless variables are bound, dtypes fit, indices are inside.

    `pieces` are further variables that the schedule binds.
    """
    if kernel.piece and len(kernel.nests) != 1:
        raise InvalidKernel("only a kernel of one nest is cut into pieces")
    for nest in kernel.nests:
        bound = {*kernel.dims, *nest.dims, *pieces}
        if len(bound) != len(kernel.dims) + len(nest.dims) + len(pieces):
            raise InvalidKernel(f"a variable is bound twice: {kernel.dims} {nest.dims}")
        if not 0 <= nest.kept <= len(nest.dims):
            raise InvalidKernel(f"{nest.kept} of {len(nest.dims)} dims kept")
        for problem in _problems(nest, bound):
            raise InvalidKernel(problem)


def check_region(region: Region, arrays: Iterable[Buffer]) -> None:
    """Raise InvalidKernel unless what statements use is there, of the right dtype.

    `arrays` are there from the beginning.
    """
    bound = {v for v in (region.lane, region.parts, region.chunk) if v is not None}
    for problem in _block(region.body, bound, set(arrays)):
        raise InvalidKernel(problem)


def _block(block: Block, bound: set[LoopVar], there: set[Buffer]) -> Iterator[str]:
    """The problems of a block; adds the buffers it defines to `there`."""
    for s in block:
        if isinstance(s, LoopNest):
            yield from _problems(s, bound.union(s.dims))
            yield from _missing((e.buffer for e in s.loads), there)
            there.update(x.buffer for x in s.stores)
        elif isinstance(s, Copy):
            yield from _missing((s.to, s.source), there)
            if s.to.nbytes != s.source.nbytes:
                yield f"{s.source.name} is copied to {s.to.name}"
        elif isinstance(s, Pack):
            yield from _missing((s.rows, s.columns), there)
            if s.rows.dtype != s.columns.dtype or s.columns.size < s.size * s.lanes:
                yield f"{s.rows.name} is packed as {s.columns.name}"
        elif isinstance(s, Call):
            arrays = *s.results, *s.operands
            yield from _missing(arrays, there)
            if any(x.nbytes != s.program.array_bytes(i) for i, x in enumerate(arrays)):
                yield f"a program of {s.program.signature} is called with {arrays}"
        elif isinstance(s, If):
            yield from _missing((s.index,), there)
            for inner, yields in zip(s.blocks, s.yields, strict=True):
                own = set(there)
                yield from _block(inner, bound, own)
                yield from _same(zip(yields, s.results, strict=True), own)
            there.update(s.results)
        else:
            yield from _loop(s, bound, there)


def _loop(loop: For | While, bound: set[LoopVar], there: set[Buffer]) -> Iterator[str]:
    carries, inside = loop.carries, {*there, *(c.now for c in loop.carries)}
    yield from _same(((c.first, c.now) for c in carries), there)
    if isinstance(loop, While):
        yield from _block(loop.condition, bound, inside)
        yield from _missing((loop.goes_on,), inside)
        yield from _block(loop.body, bound, inside)
    else:
        yield from _block(loop.body, {*bound, loop.var}, inside)
    yield from _same(((c.then, c.last) for c in carries), inside)
    there.update(c.last for c in carries)


def _same(pairs: Iterable[tuple[Buffer, Buffer]], there: set[Buffer]) -> Iterator[str]:
    """What is wrong where the first of each pair becomes the second."""
    for value, name in pairs:
        yield from _missing((value,), there)
        if (value.dtype, value.size) != (name.dtype, name.size):
            yield f"{value.name} becomes {name.name}"


def _missing(buffers: Iterable[Buffer], there: set[Buffer]) -> Iterator[str]:
    for buffer in buffers:
        buffer = memory_of(buffer)
        known = isinstance(buffer.storage, Table) or buffer.storage == "stack"
        if not known and buffer not in there:
            yield f"{buffer.name} is not there yet"


def _problems(nest: LoopNest, bound: set[LoopVar]) -> Iterator[str]:
    for expr in nest.body:
        yield from _expression(expr, bound)
    for store in nest.stores:
        yield from _store(store, bound)
    kept = bound - set(nest.dims[nest.kept :])
    for fold in nest.folds:
        yield from _fold(fold, bound if fold.running else kept)


def _expression(expr: Expr, bound: set[LoopVar]) -> Iterator[str]:
    if isinstance(expr, Placeholder):
        yield f"{expr.name} stands outside of a fold"
    if isinstance(expr, Load):
        yield from _access(expr.buffer, expr.offset, bound, expr.where is not None)
        if expr.dtype != expr.buffer.dtype:
            yield f"{expr.buffer.name} of {expr.buffer.dtype} is loaded as {expr.dtype}"
    if isinstance(expr, Instr):
        name = expr.name.partition(".")[0]
        dtypes = {a.dtype for a in expr.args}
        if name in _PREDICATES and expr.dtype.kind != "b":
            yield f"{expr.name} gives {expr.dtype}"
        if name not in _CHANGES_DTYPE and len(dtypes) > 1:
            yield f"{expr.name} of {dtypes}"


def _store(store: Store, bound: set[LoopVar]) -> Iterator[str]:
    yield from _access(store.buffer, store.offset, bound, store.where is not None)
    if store.value.dtype != store.buffer.dtype:
        yield f"{store.value.dtype} is stored in {store.buffer.name}"


def _fold(fold: Fold, bound: set[LoopVar]) -> Iterator[str]:
    groups = (
        fold.inputs,
        fold.initial,
        fold.left,
        fold.right,
        fold.combined,
        fold.in_order,
    )
    dtypes = [[e.dtype for e in group] for group in groups]
    if any(d != dtypes[0] for d in dtypes):
        yield f"a fold of {dtypes}"
    for store in fold.stores:
        yield from _store(store, bound)


def _access(
    buffer: Buffer, offset: Affine, bound: set[LoopVar], guarded: bool
) -> Iterator[str]:
    atoms = list(offset.atoms())
    indices = {a for a in atoms if isinstance(a, LoopVar)}
    if unbound := indices - bound:
        yield f"{buffer.name}[{offset}] uses {unbound}"
    if guarded or any(isinstance(a, DataIndex) for a in atoms):
        return
    if any(not is_symbolic_dim(v.extent) and v.extent == 0 for v in indices):
        return  # a loop without iterations
    low, high = offset.bounds
    if low < 0 or high >= buffer.size:
        yield f"{buffer.name}[{offset}] leaves its {buffer.size} elements"
