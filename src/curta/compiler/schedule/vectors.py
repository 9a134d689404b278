"""The width of a nest's vectors, and what may become of its tail.

Light bodies take several registers a vector, as independent chains hide the latency of
instructions. Heavy bodies take one, as they would spill.
"""

from __future__ import annotations

from collections.abc import Iterable

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.costs import compute_size, weight
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import Buffer, Expr, Instr, Kernel, Load, LoopNest
from curta.compiler.loops.summation import sum_order
from curta.compiler.loops.walks import in_blocks, is_running, order_of, varies
from curta.compiler.targets import Target
from curta.core.dim import is_multiple, is_same, is_symbolic_dim, typical


@dataclass(frozen=True)
class Vectors:
    """The vectors of a nest.

    Fields:
        lanes: their width.
        short: True if the tail is part of the loop, which compiles in half the time.
        repeats: True if elements may be computed twice, so that vectors may overlap.
        staged: True if the elements of a block of a sum go to the stack first.
    """

    lanes: int
    short: bool = False
    repeats: bool = False
    staged: bool = False


def vectors_of(
    nest: LoopNest,
    extent: int,
    target: Target,
    little: bool,
    quick: bool,
    column: LoopVar | None,
    repeats: bool,
) -> Vectors:
    """As many lanes as make independent chains without spilling registers.

    Where there is little to do, one register is enough: that compiles fastest. But the
    sums of long rows wait for one another, the more so in quickly made code, which has
    them in memory. A width that divides the extent needs no mask. Masks make shorter
    code, and slower, above all on AMD's processors: for what need not be `quick`ly made
    they are for the rest alone.
    """
    if nest.ordered and not _in_order(nest):
        return Vectors(1)
    ordered = any(f.order in ("chain", "joined") for f in nest.folds)
    if ordered and is_running(nest):
        lanes = sum_order(target).running
        while lanes > 1 and lanes >= 2 * typical(extent):
            lanes //= 2
        return Vectors(lanes, little or typical(extent) < 4 * lanes)
    if ordered and column is None:
        return Vectors(1)
    tuning = target.tuning
    body = nest.body
    widest = max(
        (compute_size(e) for e in body if isinstance(e, (Instr, Load))), default=4
    )
    native = max(1, target.vector_bytes // widest)
    heavy = sum(weight(e) for e in body)
    heavy += 0 if column else _shuffles(nest, target)
    chains = min(2 if _calls_math(body) else 4, chains_of(heavy, target))
    wide = native * (1 if is_running(nest) else chains)
    if column is None and in_blocks(nest):
        return _summing(nest, heavy, native, native * chains, little, target)
    is_long = typical(extent) >= 8 * wide
    waits = column is None and bool(nest.folds) and is_long
    little = little and not waits
    lanes = native if little else wide
    usual = typical(extent)
    while lanes > 1 and lanes >= (usual + 1 if repeats else 2 * usual):
        lanes //= 2
    if not is_symbolic_dim(extent):
        while lanes > native and extent % lanes and not repeats:
            lanes //= 2
    if repeats:
        return Vectors(lanes, quick, repeats=True)
    if waits or (not is_multiple(extent, lanes) and not little and is_long):
        lanes = wide
    short = little or heavy > tuning.light_body or typical(extent) < 4 * lanes
    return Vectors(
        lanes, quick and short and not (column is None and _shuffles_lanes(nest))
    )


def _summing(
    nest: LoopNest, heavy: int, native: int, wide: int, little: bool, target: Target
) -> Vectors:
    """The vectors of a nest that adds up along its last dim.

    Their lanes are the accumulators that the order of sums asks for, if all dims are
    one and the body is light enough for so many; or else the elements are staged.
    """
    tuning, order = target.tuning, order_of(nest, target)
    light = tuning.light_body if order.lanes > 1 else -1
    dims = nest.dims[nest.kept :]
    last = dims[-1]
    if len(dims) > 1 and is_multiple(last.extent, order.lanes) and heavy <= light:
        return Vectors(order.lanes)
    if len(dims) == 1 and order.lanes > 1:
        widths = order.widths(last.extent)
        # Of one element for each accumulator a second vector has what is left.
        if len(widths) > 1 and widths[0] != last.extent:
            widths = widths[1:]
        most = order.lanes if heavy <= tuning.shared_cost else wide
        if typical(last.extent) <= tuning.short_row or widths[-1] <= most:
            lanes = next((n for n in widths if n <= most), widths[-1])
            quick = little or typical(last.extent) < 4 * lanes
            return Vectors(lanes, quick and not _shuffles_lanes(nest))
    lanes = native if little else wide
    while lanes > 1 and lanes >= 2 * typical(last.extent):
        lanes //= 2
    # The end of each row of several takes a vector of its own.
    while len(dims) > 1 and native < lanes and lanes >= typical(last.extent) // 8:
        lanes //= 2
    return Vectors(lanes, staged=True)


def may_repeat(nest: LoopNest, kernel: Kernel) -> bool:
    """Whether elements may be computed twice: they read nothing that may be replaced.

    That is what the nest stores, unless it has just been stored, or an argument at the
    element that is stored: its memory may be that of the result (memory/analysis.py).
    """
    if nest.ordered or nest.folds or not nest.dims:
        return False
    inside = {s.buffer for g in kernel.nests for s in g.written()}
    own, offsets = {s.buffer for s in nest.stores}, {s.offset for s in nest.stores}
    order, now = {e: i for i, e in enumerate(nest.body)}, -1
    stored: dict[tuple[Buffer, Affine], int] = {}
    for s in nest.stores:
        now = max(now, *(order[e] for e in s.operands()))
        stored.setdefault((s.buffer, s.offset), now)
    return not any(
        x.buffer in own or (x.buffer not in inside and x.offset in offsets)
        for x in nest.loads
        if order[x] <= stored.get((x.buffer, x.offset), order[x])
    )


def _shuffles_lanes(nest: LoopNest) -> bool:
    """Whether lanes lie side by side in another order: shuffled where all are there.

    Under a mask each is read or written by itself.
    """
    if not nest.dims:
        return False
    last = nest.dims[-1]
    columns = any(typical(s.offset.coefficient(last)) > 1 for s in nest.stores)
    steps = [x.offset.coefficient(last) for x in nest.loads]
    reversed_rows = any(is_same(k, -1) or is_same(k, 2) for k in steps)
    return columns or reversed_rows


def _shuffles(nest: LoopNest, target: Target) -> int:
    """What it costs to pick lanes that lie apart, and to put columns together.

    Of narrow elements LLVM takes long to find instructions for more registers at once.
    """
    if not nest.dims:
        return 0
    addresses = {(x.buffer, x.offset) for x in nest.loads}
    addresses |= {(s.buffer, s.offset) for s in nest.stores}
    total = 0
    for buffer, offset in addresses:
        apart = typical(abs(offset.coefficient(nest.dims[-1])))
        if 2 < apart <= target.tuning.few_apart:
            total += (apart - 1) * max(1, 4 // buffer.dtype.itemsize)
    return total


def chains_of(weight: int, target: Target) -> int:
    """How many registers a vector takes, for a body of that weight: independent chains.

    Light bodies hide the latency of instructions so; heavy ones would spill.
    """
    tuning = target.tuning
    return 4 if weight <= tuning.light_body else 2 if weight <= tuning.heavy_body else 1


def _calls_math(body: Iterable[Expr]) -> bool:
    """Whether a body calls vector math.

    Its functions are long enough for the processor to overlap steps of a loop, and
    need registers for their constants: four registers a vector would spill.
    """
    return any(isinstance(e, Instr) and e.name.startswith("math.") for e in body)


def _in_order(nest: LoopNest) -> bool:
    """Whether updates along the last dim go to neighbours, each to its own element.

    What a step reads of its result must lie a whole row or more away.
    """
    last = nest.dims[-1] if nest.dims else None
    if last is None:
        return False
    for store in nest.stores:
        for load in nest.loads:
            if load.buffer is store.buffer and load.offset != store.offset:
                distance = load.offset - store.offset
                if distance.terms or abs(distance.const) < last.extent:
                    return False
    return all(
        s.offset.coefficient(last) == 1
        and not any(last in varies(e) for e in s.operands()[1:])
        for s in nest.stores
    )
