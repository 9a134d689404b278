"""The order of loads and stores within a kernel.

An iteration of the outer dims may run concurrently with any other; its nests run in
order. A kernel may overwrite a buffer that it reads if each load is at the index of the
store, or in the row of the same iteration and in an earlier nest.
"""

from __future__ import annotations

from collections.abc import Collection

from curta.compiler.loops.index import ZERO, Affine, LoopVar
from curta.compiler.loops.nodes import (
    Buffer,
    Kernel,
    Load,
    LoopNest,
    Store,
    View,
    memory_of,
    walk,
)
from curta.core.dim import is_symbolic_dim


def loads_before_stores(
    kernel: Kernel, old: Collection[Buffer], new: Collection[Buffer]
) -> bool:
    """Return True if each element of `old` is loaded before `new` is stored over it.

    Precondition: both begin at one address. The answer may be False where the order
    does not follow from the form of the indices.
    """
    stores = [
        (i, nest, s)
        for i, nest in enumerate(kernel.nests)
        for s in nest.written()
        if memory_of(s.buffer) in new
    ]
    loads = [
        (i, e)
        for i, nest in enumerate(kernel.nests)
        for e in nest.loads
        if memory_of(e.buffer) in old
    ]
    if not loads or not stores or _runs_once(kernel):
        return True
    at, nest, first = stores[0]
    later = _loaded_after(nest, first)
    if kernel.piece or any(nest.ordered for _, nest, _ in stores):
        return False
    return all(
        (i < at or (i == at and load not in later))
        and all(_is_apart(i, load, *store, kernel) for store in stores)
        for i, load in loads
    )


def _runs_once(kernel: Kernel) -> bool:
    """Whether there is one iteration, which loads before it stores."""
    return not kernel.dims and len(kernel.nests) == 1 and not kernel.nests[0].dims


def _alike(a: Buffer, b: Buffer) -> bool:
    """Whether equal offsets into two buffers at one address are the same bytes."""
    first, second = (
        x.storage.first if isinstance(x.storage, View) else ZERO for x in (a, b)
    )
    return a.dtype.itemsize == b.dtype.itemsize and first == second


def _is_apart(
    at: int, load: Load, stored_at: int, nest: LoopNest, store: Store, kernel: Kernel
) -> bool:
    """Whether no other iteration stores to an element before it is loaded."""
    if not _alike(load.buffer, store.buffer):
        return False
    outer = kernel.dims
    if at == stored_at:
        folded = store not in nest.stores
        outer = (*outer, *(nest.dims[: nest.kept] if folded else nest.dims))
        if any(f.running and store in f.stores for f in nest.folds):
            return False
    return _same_row(load.offset, store.offset, outer)


def _loaded_after(nest: LoopNest, store: Store) -> set[Load]:
    """The loads of a nest that an iteration does not need before a store."""
    if store not in nest.stores:
        return set()  # results of folds are stored when all is loaded
    until = nest.stores[: nest.stores.index(store) + 1]
    before = set(walk([e for s in until for e in s.operands()]))
    return {e for e in nest.loads if e not in before}


def _same_row(read: Affine, stored: Affine, outer: tuple[LoopVar, ...]) -> bool:
    """Whether two offsets are in the row of memory that an iteration has to itself."""
    outer = tuple(v for v in outer if is_symbolic_dim(v.extent) or v.extent > 1)
    steps = [stored.coefficient(v) for v in outer]
    if read == stored and all(steps):
        return True
    if any(read.coefficient(v) != k for v, k in zip(outer, steps, strict=True)):
        return False
    span = min(map(abs, steps), default=None)
    for offset in (read, stored):
        row = offset.substitute(lambda a: 0 if a in outer else None)
        rest = (t.as_index() for t in offset.terms if t not in outer)
        low, high = row.bounds
        if any(a in outer for t in rest for a in t.atoms()):
            return False
        if low < 0 or (span is not None and high >= span):
            return False
    return True
