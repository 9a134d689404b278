"""How results reach memory: from which element on, and past the caches or not."""

from __future__ import annotations

from curta.compiler.llvm.expressions import Streams
from curta.compiler.llvm.vectors import LINE
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Kernel, LoopNest, Store
from curta.compiler.loops.schedule import Schedule
from curta.config import config
from curta.core.dim import is_multiple, typical


def unaligned_head(nest: LoopNest, lane: LoopVar, vector_bytes: int) -> int:
    """How many elements come before the first store at the start of a cache line.

    Vectors that each cross into the next line are stored at half the speed. 0 if the
    stores are aligned, if they differ, or if there is little to store.
    """
    short = typical(lane.extent) < config.tuning.aligned_row
    if nest.folds or nest.ordered or short:
        return 0
    heads = set()
    for store in nest.stores:
        offset, aligned = (
            store.offset,
            vector_bytes // max(1, store.buffer.dtype.itemsize),
        )
        others = (k for atom, k in offset.terms.items() if atom != lane)
        if offset.coefficient(lane) != 1 or not all(
            is_multiple(k, aligned) for k in others
        ):
            return 0
        heads.add(-offset.const % aligned)
    return heads.pop() if len(heads) == 1 else 0


def streamed(
    kernel: Kernel, plan: Schedule, nest: LoopNest, lane: LoopVar, vector_bytes: int
) -> Streams:
    """The stores of whole vectors that go past the caches.

    Each writes a whole cache line that need not be read first, which takes a third off
    the traffic of a copy. The addresses are aligned if their buffer is.
    """
    if nest.folds or nest.ordered or not any(map(_is_large, nest.stores)):
        return frozenset()
    read = {load.buffer for load in kernel.loads()}
    head = unaligned_head(nest, lane, vector_bytes)
    step = plan.piece if lane == plan.split else 0
    result = set()
    for store in nest.stores:
        offset, aligned = store.offset, LINE // max(1, store.buffer.dtype.itemsize)
        steps = [k for atom, k in offset.terms.items() if atom != lane]
        steps += [step, offset.const + head]
        contiguous = offset.coefficient(lane) == 1 and store.where is None
        if (
            contiguous
            and _is_large(store)
            and all(is_multiple(k, aligned) for k in steps)
        ):
            result.add((store.buffer, store.offset))
    return frozenset(p for p in result if p[0] not in read)


def _is_large(store: Store) -> bool:
    return typical(store.buffer.nbytes) >= config.tuning.streamed_bytes
