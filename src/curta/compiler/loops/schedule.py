"""When and how wide: the order in which a kernel's indices are walked.

A kernel walks its `iterations` one by one: every index of its outer dims and, where a
long dim is split, every piece of that. `grain` iterations make a chunk, the unit that
threads take; it depends on shapes alone, never on how many threads there are, and so do
the results. Inside, one variable is walked by vectors, `lane`:

*rows*: the last inner dim of each nest; folds end in scalars, in registers.
*columns*: the last outer dim, for folds over the other dims of row-major arrays; they
are kept in rows of memory that stay in the first-level cache.

A region over examples is split into pieces of as many as its vectors have lanes.

A vector is usually wider than a register of the machine: LLVM cuts it into several,
which are the independent chains that keep the arithmetic units busy.
"""

from __future__ import annotations

import math

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.costs import (
    STORE,
    block_cost,
    compute_size,
    kernel_cost,
    weight,
)
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import (
    Buffer,
    Expr,
    Instr,
    Kernel,
    Load,
    LoopNest,
    Region,
    index_operands,
    statements_in,
    walk,
)
from curta.compiler.loops.summation import BLOCKED, SumOrder, count_of, sum_order
from curta.config import config
from curta.core.dim import (
    is_multiple,
    is_same,
    is_symbolic_dim,
    max_dim,
    min_dim,
    typical,
)


@dataclass(frozen=True)
class Vectors:
    """How a nest walks its lane variable.

    What is left after whole vectors is done by one more vector that ends where the dim
    does, if the nest `repeats` elements without harm; else under a mask. It is code of
    its own or, if `short`, the same code, which takes half as long to compile.

    Vectors that are not as wide as the order of a sum asks for, or go along rows that
    are no multiples of it, are `staged`: a block of elements goes to memory first.
    """

    lanes: int
    short: bool
    repeats: bool = False
    staged: bool = False


@dataclass(frozen=True)
class Schedule:
    """How a kernel is walked; see the module's text.

    `column` is the outer dim walked by vectors, or None; `vectors` has the width of the
    vectors of each nest. With a `block` of more than one, an iteration takes so many
    indices of the last outer dim and a piece of the split dim: the tile of a transpose;
    or, `together`, rows whose folds end in one vector (row_blocks.py).
    """

    outer: tuple[LoopVar, ...]
    split: LoopVar | None
    piece: int
    column: LoopVar | None
    vectors: tuple[Vectors, ...]
    grain: int
    block: int = 1
    together: bool = False

    @property
    def pieces(self) -> int:
        return 1 if self.split is None else -(-self.split.extent // self.piece)

    @property
    def iterations(self) -> int:
        return trip_count(self.outer, self.pieces, self.block)

    @property
    def chunks(self) -> int:
        return max_dim(1, -(-self.iterations // self.grain))


def trip_count(outer: tuple[LoopVar, ...], pieces: int, block: int) -> int:
    """The number of iterations."""
    extents = [v.extent for v in outer]
    if block > 1:
        extents[-1] = -(-extents[-1] // block)
    return math.prod(extents) * pieces


def schedule(kernel: Kernel, vector_bytes: int, often: bool = False) -> Schedule:
    """The schedule of a kernel, from its shapes and what its body costs.

    `often` says that it runs many times, so that it pays to make it fast though small.
    """
    tuning = config.tuning
    column = kernel.dims[-1] if prefers_columns(kernel) else None
    outer = kernel.dims[:-1] if column else kernel.dims
    split, piece, block = *_split(kernel, column, vector_bytes), 1
    neighbours = _neighbours(kernel)
    if neighbours is not None:
        outer = (*(v for v in outer if v != neighbours), neighbours)
        split = kernel.nests[0].dims[-1]
        block = min(tuning.tile, typical(neighbours.extent))
        piece = block if block == tuning.tile else tuning.piece_of_neighbours
    total = typical(kernel_cost(kernel))
    little = total < tuning.little_cost and not often
    quick = total < tuning.optimised_map and not often
    vectors = tuple(
        _vectors(
            s,
            _lane_extent(s, column, split, piece),
            vector_bytes,
            little,
            quick,
            column,
            column is None and may_repeat(s, kernel) and _ends_far(s, neighbours),
        )
        for s in kernel.nests
    )
    pieces = 1 if split is None else -(-split.extent // piece)
    iterations = trip_count(outer, pieces, block)
    least = tuning.chunk_cost_in_loop if often else tuning.chunk_cost
    grain = -(-least * iterations // max_dim(1, kernel_cost(kernel)))
    grain = max_dim(grain, -(-iterations // tuning.most_chunks))
    grain = max_dim(1, min_dim(iterations, grain))
    return Schedule(outer, split, piece, column, vectors, grain, block)


def _neighbours(kernel: Kernel) -> LoopVar | None:
    """The outer dim along which a map reads neighbours, where the last dim jumps.

    If that dim has fewer than a tile takes, there must be much to read: otherwise the
    caches still have it for the next one. Picking elements of one or two bytes out of
    vectors takes longer than reading them again.
    """
    nest = kernel.nests[0]
    if len(kernel.nests) > 1 or nest.folds or nest.ordered or len(nest.dims) != 1:
        return None
    tuning, (last,) = config.tuning, nest.dims
    for load in kernel.loads():
        jump = abs(load.offset.coefficient(last))
        for variable in kernel.dims:
            if load.offset.coefficient(variable) != 1:
                continue
            extent = typical(variable.extent)
            tiles = min(extent, typical(last.extent)) >= tuning.tile
            if typical(jump) > tuning.far_apart and tiles:
                return variable
            wide = load.buffer.dtype.itemsize >= 4
            if jump > 1 < extent < tuning.tile and _is_long(last) and wide:
                return variable
    return None


def _is_long(variable: LoopVar) -> bool:
    """Whether a map takes the dim in pieces."""
    return typical(variable.extent) >= 2 * config.tuning.piece_of_map


def columns_at_once(kernel: Kernel, vector_bytes: int) -> int:
    """How many columns a piece has, whose accumulators stay in the caches."""
    sizes = [
        sum(c.dtype.itemsize for c in f.initial)
        for nest in kernel.nests
        for f in nest.folds
        if f.order == "blocks" and not has_few_rows(nest)
    ]
    tuning = config.tuning
    if not sizes:
        return tuning.piece_of_columns
    order = sum_order(vector_bytes)
    columns = tuning.row_bytes // (order.lanes * sum(sizes))
    most = 1 << max(0, columns.bit_length() - 1)
    return max(order.register, min(most, tuning.piece_of_columns))


def has_few_rows(nest: LoopNest) -> bool:
    """Whether the rows of columns are few enough to be added up in registers."""
    count = count_of([v.extent for v in nest.dims[nest.kept :]])
    tuning = config.tuning
    most = tuning.rows_at_once // (1 if is_light(nest) else 2)
    return not is_symbolic_dim(count) and count <= min(most, tuning.sum_steps)


def is_light(nest: LoopNest) -> bool:
    """Whether several rows of a nest fit in registers."""
    return sum(map(weight, nest.body)) <= config.tuning.light_body


def _split(
    kernel: Kernel, column: LoopVar | None, vector_bytes: int
) -> tuple[LoopVar | None, int]:
    """The long dim that iterations take a piece of, and the piece."""
    if kernel.piece:
        (nest,) = kernel.nests
        if not in_blocks(nest):
            return nest.dims[0], kernel.piece
        # Pieces of all elements, counted along all dims.
        return LoopVar(
            "elements", count_of([v.extent for v in nest.dims])
        ), kernel.piece
    tuning = config.tuning
    if column is not None:
        most = columns_at_once(kernel, vector_bytes)
        few = not is_symbolic_dim(column.extent) and column.extent <= most
        return (None, 1) if few else (column, most)
    (nest, *others) = kernel.nests
    if others or nest.folds or not nest.dims or nest.ordered:
        return None, 1
    first, *rest = nest.dims
    around = typical(math.prod(v.extent for v in rest))
    piece = max(1, tuning.piece_of_map // max(1, around))
    return (first, piece) if typical(first.extent) >= 2 * piece else (None, 1)


def _lane_extent(
    nest: LoopNest, column: LoopVar | None, split: LoopVar | None, piece: int
) -> int:
    if column is not None:
        return min_dim(column.extent, piece if split == column else column.extent)
    lane = nest.dims[-1] if nest.dims else None
    if lane is None:
        return 1
    return min_dim(lane.extent, piece) if lane == split else lane.extent


def prefers_columns(kernel: Kernel) -> bool:
    """Whether consecutive outer indices, not inner ones, are neighbours in memory."""
    if not kernel.dims or not any(s.folds for s in kernel.nests):
        return False
    if any(map(is_running, kernel.nests)):
        return False
    last = kernel.dims[-1]
    rows = columns = 0
    for nest in kernel.nests:
        for load in nest.loads if nest.dims else ():
            rows += _load_cost(load.offset, nest.dims[-1])
            columns += _load_cost(load.offset, last)
    return rows > columns


def _load_cost(offset: Affine, lane: LoopVar) -> int:
    """What a vector costs more than one load: a shuffle, or a load for each lane."""
    apart = typical(abs(offset.coefficient(lane)))
    if apart > 2 or any(lane in _varies(x) for x in index_operands(offset)):
        return 4
    return 1 if apart == 2 else 0


def is_running(nest: LoopNest) -> bool:
    """Whether a fold of the nest stores what it has so far at every index."""
    return any(f.running for f in nest.folds)


def _vectors(
    nest: LoopNest,
    extent: int,
    vector_bytes: int,
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
        return Vectors(1, False)
    ordered = any(f.order in ("chain", "joined") for f in nest.folds)
    if ordered and is_running(nest):
        lanes = sum_order(vector_bytes).running
        while lanes > 1 and lanes >= 2 * typical(extent):
            lanes //= 2
        return Vectors(lanes, little or typical(extent) < 4 * lanes)
    if ordered and column is None:
        return Vectors(1, False)
    tuning = config.tuning
    body = nest.body
    widest = max(
        (compute_size(e) for e in body if isinstance(e, (Instr, Load))), default=4
    )
    native = max(1, vector_bytes // widest)
    heavy = sum(weight(e) for e in body)
    heavy += 0 if column else _shuffles(nest)
    chains = 1 if is_running(nest) else chains_of(heavy)
    wide = native * chains
    if column is None and in_blocks(nest):
        return _summing(nest, heavy, native, little, vector_bytes)
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


def in_blocks(nest: LoopNest) -> bool:
    """Whether a fold of the nest adds up in blocks, or in strips of blocks."""
    return any(f.order in BLOCKED for f in nest.folds)


def order_of(nest: LoopNest, vector_bytes: int) -> SumOrder:
    """The order of the sums of a nest: all of them have one."""
    strips = any(f.order == "strips" for f in nest.folds)
    return sum_order(vector_bytes, "strips" if strips else "blocks")


def _summing(
    nest: LoopNest, heavy: int, native: int, little: bool, vector_bytes: int
) -> Vectors:
    """The vectors of a nest that adds up along its last dim.

    Their lanes are the accumulators that the order of sums asks for, if all dims are
    one and the body is light enough for so many; or else the elements are staged.
    """
    tuning, order = config.tuning, order_of(nest, vector_bytes)
    light = tuning.light_body if order.lanes > 1 else -1
    wide, dims = native * chains_of(heavy), nest.dims[nest.kept :]
    last = dims[-1]
    if len(dims) > 1 and is_multiple(last.extent, order.lanes) and heavy <= light:
        return Vectors(order.lanes, False)
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
    while lanes > 1 and lanes >= 2 * typical(dims[-1].extent):
        lanes //= 2
    return Vectors(lanes, False, staged=True)


def _ends_far(nest: LoopNest, neighbours: LoopVar | None) -> bool:
    """Whether dims that vectors or tiles go along are known to be as long as these."""
    along = [v for v in (*nest.dims[-1:], neighbours) if v is not None]
    return not any(is_symbolic_dim(v.extent) for v in along)


def may_repeat(nest: LoopNest, kernel: Kernel) -> bool:
    """Whether elements may be computed twice: they read nothing that may be replaced.

    That is what the nest stores, unless it has just been stored, or an argument at the
    element that is stored: its memory may be that of the result (fuse/replace.py).
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


def _shuffles(nest: LoopNest) -> int:
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
        if 2 < apart <= config.tuning.few_apart:
            total += (apart - 1) * max(1, 4 // buffer.dtype.itemsize)
    return total


def chains_of(weight: int) -> int:
    """How many registers a vector takes, for a body of that weight: independent chains.

    Light bodies hide the latency of instructions so; heavy ones would spill.
    """
    tuning = config.tuning
    return 4 if weight <= tuning.light_body else 2 if weight <= tuning.heavy_body else 1


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
        and not any(last in _varies(e) for e in s.operands()[1:])
        for s in nest.stores
    )


def _varies(expr: Expr) -> set[LoopVar]:
    """The loop variables below an expression."""
    result: set[LoopVar] = set()
    for e in walk([expr]):
        index = e.offset if isinstance(e, Load) else getattr(e, "index", None)
        if index is not None:
            result.update(a for a in index.atoms() if isinstance(a, LoopVar))
    return result


def region_schedule(region: Region, vector_bytes: int) -> Schedule:
    """The schedule of a region, from its shapes alone.

    Short code over many examples takes several registers a vector, which hides latency;
    a chunk is worth some work, and there are enough for every thread.
    """
    if region.chunk is not None and region.parts is not None:
        grain = -(-region.parts.extent // region.chunk.extent)
        return Schedule((region.parts,), None, 1, None, (), grain)
    if region.lane is None:
        return Schedule((), None, 1, None, (), 1)
    nests = (s for s in statements_in(region.body) if isinstance(s, LoopNest))
    body = walk(x.value for s in nests for x in s.stores if not x.buffer.in_memory)
    sizes = [compute_size(e) for e in body if isinstance(e, (Instr, Load))]
    heavy = sum(map(weight, body))
    lanes = max(1, vector_bytes // max(sizes, default=4)) * chains_of(heavy)
    while lanes >= 2 * region.lane.extent:
        lanes //= 2
    tuning, count = config.tuning, -(-region.lane.extent // lanes)
    cost = 2 * block_cost(region.body, tuning.assumed_trip_count) // STORE * lanes
    least = 4 * tuning.chunk_cost  # four times as much, as trip counts are guessed
    grain = max(1, -(-least // max(1, cost)), -(-count // tuning.most_chunks))
    return Schedule((), region.lane, lanes, None, (), min(grain, count))
