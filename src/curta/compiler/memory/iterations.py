"""The order of loads and stores within a kernel.

An iteration of the outer dims may run concurrently with any other; its nests run in
order. A kernel may overwrite a buffer that it reads if each load is at the index of the
store, or in the row of the same iteration and in an earlier nest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.index import ZERO, Affine, LoopVar
from curta.compiler.loops.nodes import (
    Buffer,
    Kernel,
    Load,
    LoopNest,
    Store,
    View,
    memory_of,
)
from curta.core.dim import is_symbolic_dim, max_dim, min_dim, surely, typical


class IterationOrder:
    """The loads and stores of a kernel, by the buffers that they touch."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.loads: dict[Buffer, list[tuple[int, int, Load]]] = {}
        self.stores: dict[Buffer, list[_Stored]] = {}
        for at, nest in enumerate(kernel.nests):
            order = {e: i for i, e in enumerate(nest.body)}
            for load in nest.loads:
                place = self.loads.setdefault(memory_of(load.buffer), [])
                place.append((at, order[load], load))
            now = -1
            for store in nest.stores:
                now = max(now, *(order[e] for e in store.operands()))
                self._add(_Stored(at, now, nest, store))
            for fold in nest.folds:
                for store in fold.stores:  # when all is loaded
                    self._add(_Stored(at, len(order), nest, store))

    def _add(self, stored: _Stored) -> None:
        self.stores.setdefault(memory_of(stored.store.buffer), []).append(stored)

    def loads_first(self, old: Iterable[Buffer], new: Iterable[Buffer]) -> bool:
        """Return True if each element of `old` is loaded before `new` is stored there.

        Precondition: both begin at one address. The answer may be False where the order
        does not follow from the form of the indices.
        """
        loads = [x for b in old for x in self.loads.get(b, ())]
        stores = [x for b in new for x in self.stores.get(b, ())]
        if not loads or not stores or self._runs_once():
            return True
        if self.kernel.piece or any(x.nest.ordered for x in stores):
            return False
        first = min((x.at, x.now) for x in stores)
        return all(
            (at, now) <= first
            and all(_is_apart(at, load, x, self.kernel) for x in stores)
            for at, now, load in loads
        )

    def _runs_once(self) -> bool:
        """Whether there is one iteration, which loads before it stores."""
        nests = self.kernel.nests
        return not self.kernel.dims and len(nests) == 1 and not nests[0].dims


@dataclass(frozen=True, eq=False)
class _Stored:
    """A store, its nest, and how much of the body of that is computed before it."""

    at: int
    now: int
    nest: LoopNest
    store: Store


def _alike(a: Buffer, b: Buffer) -> bool:
    """Whether equal offsets into two buffers at one address are the same bytes."""
    first, second = (
        x.storage.first if isinstance(x.storage, View) else ZERO for x in (a, b)
    )
    return a.dtype.itemsize == b.dtype.itemsize and first == second


def _is_apart(at: int, load: Load, stored: _Stored, kernel: Kernel) -> bool:
    """Whether no other iteration stores to an element before it is loaded."""
    nest, store, outer = stored.nest, stored.store, kernel.dims
    if not _alike(load.buffer, store.buffer):
        return False
    if at == stored.at:
        folded = store not in nest.stores
        outer = (*outer, *(nest.dims[: nest.kept] if folded else nest.dims))
        if any(f.running and store in f.stores for f in nest.folds):
            return False
    return _same_row(load.offset, store.offset, outer)


def _same_row(read: Affine, stored: Affine, outer: tuple[LoopVar, ...]) -> bool:
    """Whether two offsets are in the row of memory that an iteration has to itself."""
    outer = tuple(v for v in outer if is_symbolic_dim(v.extent) or v.extent > 1)
    steps = [stored.coefficient(v) for v in outer]
    if any(read.coefficient(v) != k for v, k in zip(outer, steps, strict=True)):
        return False
    bounds: list[Any] = []
    for offset in (read, stored):
        rest = (t.as_index() for t in offset.terms if t not in outer)
        if any(a in outer for t in rest for a in t.atoms()):
            return False
        bounds += offset.substitute(lambda a: 0 if a in outer else None).bounds
    return surely(lambda: _rows_apart(bounds, steps, outer))


def _rows_apart(
    bounds: Sequence[Any], steps: Sequence[Any], dims: Sequence[LoopVar]
) -> bool:
    """Whether rows between bounds do not overlap: steps are longer than shorter reach.

    Raises:
        InconclusiveDimensionOperation: if that depends on sizes.
    """
    reach = reduce(max_dim, bounds) - reduce(min_dim, bounds)
    lengths = [step if typical(step) > 0 else -step for step in steps]
    loops = sorted(zip(lengths, dims, strict=True), key=lambda x: typical(x[0]))
    for step, v in loops:
        if step <= reach:
            return False
        reach += step * (v.extent - 1)
    return True
