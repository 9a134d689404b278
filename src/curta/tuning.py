"""The limits by which a program takes one path or another: one frozen object.

A limit says from what size, number or cost on something is done differently: work is
cut into chunks, a sort goes by digits, a result is stored past the caches. Whatever
they are, results stay right; what changes is speed, and the order of sums. The numbers
of an algorithm's mathematics (coefficients, bits of a hash), of the machine (bytes of a
cache line) and of an interface (an index has 32 bits) are no limits and stay where
they are used.

`config.tuning` is the current object, to be read where a decision is made. It
is a setting like any other: part of the keys of everything that is kept (traces,
programs in memory and on disk), changed for a block by `with tuning("shrunk"):`
(curta.config) and for a process by `CURTA_TUNING=shrunk`.

Each limit has a second, *shrunk* value with which small arrays take the paths of
large ones. `make test-shrunk` runs the tests of values under them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from curta.lazy_dataclass import dataclass


def limit(default: float, shrunk: float) -> Any:
    """A field with the number that users get and the one for small arrays in tests."""
    return dataclasses.field(default=default, metadata={"shrunk": shrunk})


@dataclass(frozen=True, eq=False)
class Tuning:
    """All limits. Objects are compared by identity: make one and keep it.

    "Operations" are simple scalar ones, such as an addition.

    Example:
        >>> import dataclasses
        >>> from curta.config import config, tuning
        >>> few_chunks = dataclasses.replace(config.tuning, most_chunks=2)
        >>> with tuning(few_chunks):
        ...     config.tuning.most_chunks
        2
    """

    # ---- chunks of a kernel, which threads share out (compiler/loops/schedule.py)

    # Operations that a chunk is worth at least.
    chunk_cost: int = limit(1 << 16, shrunk=1)
    # The same in the body of a loop, where threads meet in every iteration.
    chunk_cost_in_loop: int = limit(1 << 19, shrunk=1)
    # Chunks of a kernel at most: more do not balance better.
    most_chunks: int = limit(64, shrunk=5)
    # Operations that kernels which run side by side are worth (compiler/jobs.py).
    job_cost: int = limit(1 << 22, shrunk=1)
    # Chunks of them at most.
    job_tasks: int = limit(256, shrunk=12)
    # Indices of a map's long dim that are an iteration.
    piece_of_map: int = limit(1 << 14, shrunk=16)
    # The same where it is walked for each of a few neighbours, whose lines of the cache
    # stay in the first level from one to the next.
    piece_of_neighbours: int = limit(512, shrunk=8)
    # Columns that an iteration of a fold by columns takes, 4 KiB of float32; a power of
    # two.
    piece_of_columns: int = limit(1024, shrunk=8)
    # Rows and columns of the tile of a transpose; a power of two.
    tile: int = limit(16, shrunk=4)
    # Elements from which one is chosen, and conditions, of a move that needs no dtype.
    moved_choices: int = limit(32, shrunk=4)
    # Elements between neighbours from which on they lie in different cache lines.
    far_apart: int = limit(8, shrunk=1)
    # The same up to which vectors of all that lies between are read instead of a lane
    # at a time.
    few_apart: int = limit(9, shrunk=2)
    # Operations of a body for which a vector takes four registers: independent chains,
    # which hide the latency of instructions.
    light_body: int = limit(24, shrunk=4)
    # The same for two registers: heavier bodies would spill.
    heavy_body: int = limit(160, shrunk=12)
    # Elements of a row whose vectors go across rows at most.
    outer_row: int = limit(64, shrunk=8)
    # As many times as there are lanes there are such rows at least.
    outer_blocks: int = limit(4, shrunk=0)
    # Bytes on a thread's stack that such rows have at most, as columns.
    outer_bytes: int = limit(1 << 16, shrunk=1 << 12)
    # Operations below which a kernel is quicker to run than to optimise.
    little_cost: int = limit(1 << 17, shrunk=0)

    # ---- long folds in pieces with sums of their own (compiler/loops/split.py)

    # Operations that a piece is worth at least.
    fold_piece_cost: int = limit(1 << 17, shrunk=8)
    # Iterations from which on there is enough to share out without pieces.
    fold_few_iterations: int = limit(16, shrunk=1 << 30)
    # Pieces of a fold at most.
    most_fold_pieces: int = limit(64, shrunk=3)
    # Rows of an array of fewer columns that are one.
    narrow_row: int = limit(64, shrunk=8)
    # Columns that fill vectors, of an array that is not narrow, or multiples of them.
    filled_row: int = limit(16, shrunk=4)
    # Operations of such a kernel at least.
    narrow_cost: int = limit(1 << 15, shrunk=1)
    # Pieces of neighbours in memory are multiples of so many elements.
    fold_piece_multiple: int = limit(512, shrunk=2)

    # ---- rows on the stack (compiler/loops/bufferize.py)

    # Bytes of the largest row that is kept there.
    row_bytes: int = limit(1 << 15, shrunk=64)
    # Bytes of all rows of a kernel.
    rows_bytes: int = limit(1 << 16, shrunk=96)

    # ---- stores past the caches (compiler/llvm/streams.py)

    # Bytes of a result from which on the caches are no use for it.
    streamed_bytes: int = limit(1 << 26, shrunk=64)
    # Elements of a row whose vectors are worth to be stored at whole cache lines.
    aligned_row: int = limit(1 << 12, shrunk=16)

    # ---- which values are computed where they are used (compiler/graph/values.py)

    # Operations of a value that are not done twice, for two users.
    shared_cost: int = limit(4, shrunk=1)
    # Operations of a value that are not repeated along a broadcast.
    spread_cost: int = limit(10, shrunk=2)
    # Operations that are put into one expression at most.
    expression_cost: int = limit(400, shrunk=40)
    # Ops that are put into one another at most: rules call each other this deep.
    expression_depth: int = limit(24, shrunk=2)
    # Elements of a concatenation whose parts are copied one after the other.
    large_join: int = limit(1 << 14, shrunk=8)
    # Columns of which a map stores the elements of a row together at most.
    side_by_side: int = limit(8, shrunk=3)
    # Columns that a concatenation writes side by side at most.
    joined_columns: int = limit(64, shrunk=2)

    # ---- which items share a kernel (compiler/graph/fuse.py)

    # Iterations of the shared loops that have something for every thread.
    shared_iterations: int = limit(8, shrunk=3)
    # Indices that one thread visits before others could start.
    shared_little: int = limit(1 << 14, shrunk=2)
    # Items of a kernel at most.
    most_items: int = limit(48, shrunk=3)
    # Rows of which a costly function of each is worth a kernel of its own.
    many_rows: int = limit(64, shrunk=2)

    # Eqns of all iterations of a scan that is written out at most.
    written_out_eqns: int = limit(256, shrunk=16)

    # ---- loops in registers (compiler/graph/registers.py and others)

    # Elements of a value in registers at most.
    register_elements: int = limit(64, shrunk=2)
    # Elements that are kept one by one, not in one vector, at most.
    register_scalars: int = limit(4, shrunk=1)
    # Values that an iteration hands to the next at most: registers for more are
    # allocated for long, and lie on the stack all the same.
    register_carries: int = limit(512, shrunk=12)
    # Iterations that a while loop is taken to have, where work is shared out.
    assumed_trip_count: int = limit(16, shrunk=3)
    # Steps of the code of a loop at most.
    register_steps: int = limit(4096, shrunk=40)
    # Examples that run side by side at least: more than the elements of a value in
    # registers, so that what is known beforehand has no dim of examples.
    fewest_lanes: int = limit(128, shrunk=3)
    # Vectors that a value of an example takes at most.
    lane_vectors: int = limit(16, shrunk=9)
    # Values that are computed for an example at most.
    lane_values: int = limit(2048, shrunk=60)
    # Elements that one update of an array in memory writes at most.
    in_place_updates: int = limit(16, shrunk=3)
    # Terms of a sum of products, or updates one after the other, written out at most.
    unrolled_terms: int = limit(32, shrunk=2)
    # Rows of a reduction that are combined in one expression.
    unrolled_rows: int = limit(4, shrunk=1)
    # Products of a product of matrices that is written out at most.
    unrolled_products: int = limit(1024, shrunk=16)
    # Registers of vector math that are written out; beyond, it is called.
    inlined_math: int = limit(32, shrunk=2)

    # ---- windows, convolutions, products (compiler/graph/)

    # Taps of a window that are written out at most.
    window_taps: int = limit(32, shrunk=2)
    # Output features of a group from which on vectors of them are of use.
    vector_features: int = limit(4, shrunk=1)
    # Products of a sum that is one expression at most.
    written_products: int = limit(64, shrunk=2)
    # Products, of several inputs, of a sum that is as good as a product of matrices.
    short_sum: int = limit(32, shrunk=2)
    # Bytes between rows of a panel of the kernel from which on it is copied.
    kernel_row_bytes: int = limit(512, shrunk=8)
    # Products of complex numbers that are worth convolutions of their parts.
    complex_convolution_work: int = limit(1 << 10, shrunk=1)
    # Elements of the right matrices of a batch that are copied if they lie transposed.
    upright_matrix: int = limit(64, shrunk=4)
    # Inputs of one output feature from which on vectors go along them.
    many_inputs: int = limit(16, shrunk=4)
    # Products of complex numbers or integers that are worth a call.
    called_dot_work: int = limit(4096, shrunk=1)
    # Products of a direct sum from which on Winograd's filtering is worth it.
    winograd_work: int = limit(1 << 26, shrunk=1)
    # Features, of inputs and of outputs, from which on it is.
    winograd_features: int = limit(96, shrunk=1)
    # Bytes of its temporaries at most, four times the inputs and outputs.
    winograd_bytes: int = limit(1 << 28, shrunk=1 << 16)

    # ---- loops over rows (compiler/graph/loop_*.py)

    # Operations of an op that is done again in the backward loop at most.
    recomputed_cost: int = limit(4, shrunk=1)
    # The same of all ops for one row.
    recomputed_cost_of_row: int = limit(8, shrunk=2)
    # Rows from which on a product is as fast inside of a loop.
    moved_product_rows: int = limit(16, shrunk=2)
    # Bytes of a block of iterations, that stay in the second-level cache.
    loop_block_bytes: int = limit(1 << 20, shrunk=64)
    # Bytes of all iterations of a loop that cannot be cut into blocks.
    loop_bytes: int = limit(1 << 26, shrunk=1 << 10)
    # Iterations of a block at least.
    loop_block_iterations: int = limit(4, shrunk=2)
    # Rows of a part at least: products of fewer would waste registers.
    part_rows: int = limit(8, shrunk=1)
    # Bytes that a part carries at least.
    part_bytes: int = limit(1 << 12, shrunk=1)
    # Operations of a loop for which it pays to wake a thread.
    part_work: int = limit(1 << 22, shrunk=1)
    # Elements that every part may compute for itself.
    part_own: int = limit(16, shrunk=1)
    # Parts that have an arena of their own at a time.
    part_arenas: int = limit(64, shrunk=3)

    # ---- cumulative reductions and scatters (compiler/graph/)

    # Elements of a block.
    scan_block: int = limit(1024, shrunk=4)
    # Elements that are worth blocks.
    scan_long: int = limit(1 << 15, shrunk=5)
    # Pieces in which updates are added at most; a power of two.
    scatter_pieces: int = limit(8, shrunk=4)
    # Updates that are worth to be added in pieces by several threads.
    scatter_pieces_work: int = limit(1 << 16, shrunk=2)
    # How many times as many updates of a piece as elements there are.
    scatter_per_element: int = limit(4, shrunk=1)
    # Updates that are worth several threads.
    update_work: int = limit(1 << 16, shrunk=2)
    # Blocks of columns at most.
    update_blocks: int = limit(4, shrunk=3)
    # Bytes of a row of a block at least.
    update_block_bytes: int = limit(128, shrunk=4)
    # Bytes of an operand that is worth owners of its parts.
    owned_bytes: int = limit(1 << 18, shrunk=8)
    # Bytes of an owner's part, which stay in the second-level cache.
    owner_bytes: int = limit(1 << 21, shrunk=16)
    # Owners at most.
    most_owners: int = limit(4, shrunk=3)
    # Operations for which owners find the index of an update once more.
    owner_cost: int = limit(24, shrunk=1000)

    # ---- small matrices, many matrices, transforms

    # Rows and columns of a matrix whose factors are written out at most.
    small_matrix: int = limit(8, shrunk=2)
    # Those of matrices of a batch of which registers are quicker than loops over lanes.
    register_matrix: int = limit(3, shrunk=2)
    # Rows and columns of matrices that are factored side by side at most.
    lane_matrix: int = limit(32, shrunk=6)
    # Elements of the diagonals of such a matrix and of the other side.
    lane_matrix_elements: int = limit(1 << 12, shrunk=64)
    # As many times as there are lanes there are matrices at least.
    lane_blocks: int = limit(2, shrunk=0)
    # Columns that are transformed where they lie.
    fourier_columns: int = limit(8, shrunk=1)

    # ---- products of matrices (compiler/library/gemm.py, contraction.py)

    # Multiplications that are worth a chunk.
    gemm_chunk_work: int = limit(1 << 20, shrunk=64)
    # Multiplications up to which no thread is woken.
    gemm_serial_work: int = limit(1 << 20, shrunk=1)
    # Bytes of a panel that stays in the first-level cache.
    gemm_panel_bytes: int = limit(16 << 10, shrunk=256)
    # Bytes of a row of A, after which a panel of B would leave it; some vectors.
    gemm_step_bytes: int = limit(1024, shrunk=256)
    # Bytes of rows that share few sets of the cache.
    gemm_long_row: int = limit(2048, shrunk=16)
    # Rows that share a packed panel at least.
    gemm_packed_rows: int = limit(32, shrunk=1)
    # Rows of a unit at most, of a narrow panel.
    gemm_rows: int = limit(192, shrunk=5)
    # The same of a wide one.
    gemm_wide_rows: int = limit(512, shrunk=12)
    # Multiplications of a convolution that are worth a chunk.
    contraction_chunk_work: int = limit(1 << 22, shrunk=8)
    # Multiplications up to which no thread is woken.
    contraction_serial_work: int = limit(1 << 20, shrunk=1)
    # Steps of a tile, so that a panel of B stays in the first-level cache.
    contraction_steps: int = limit(256, shrunk=4)
    # Bytes that outer indices of a chunk read and keep in the second-level cache.
    contraction_cached_bytes: int = limit(1 << 19, shrunk=256)

    # ---- sorting and selecting (compiler/library/)

    # Elements of a row that is sorted by insertion at most.
    sorted_by_insertion: int = limit(32, shrunk=2)
    # Rows from which on there is enough to share out without pieces.
    sort_rows: int = limit(4, shrunk=1 << 30)
    # Elements of a row that are worth a chunk.
    sort_piece: int = limit(1 << 15, shrunk=4)
    # Pieces of a row at most.
    sort_pieces: int = limit(32, shrunk=3)
    # Chunks of rows at most: each has its own memory.
    sort_chunks: int = limit(16, shrunk=3)
    # A split is bad if one side has less than this part.
    bad_split: int = limit(16, shrunk=3)
    # Segments of a row that are shared out among threads at most.
    sort_segments: int = limit(256, shrunk=2)
    # A segment that is sorted by itself is at most this part of a row.
    sort_share: int = limit(16, shrunk=2)
    # Rows from which on there is enough to share out without pieces.
    select_rows: int = limit(4, shrunk=1 << 30)
    # Elements of a row that are worth a chunk of a selection.
    select_piece: int = limit(1 << 17, shrunk=8)
    # Pieces of a row at most.
    select_pieces: int = limit(16, shrunk=3)
    # Chunks of rows at most.
    select_chunks: int = limit(16, shrunk=3)
    # Elements that the list takes at least between two cuts.
    select_room: int = limit(256, shrunk=1)

    # ---- transforms and matrices of the library (compiler/library/)

    # Length of transforms of columns that stay in the caches at most.
    fourier_block: int = limit(1 << 13, shrunk=16)
    # Points of a transform without butterflies that is a product of matrices at most.
    fourier_product: int = limit(256, shrunk=40)
    # Points for each row of such a product at most.
    fourier_product_rows: int = limit(8, shrunk=40)
    # Bytes of blocks of rows that stay in the first-level cache.
    fourier_rows_bytes: int = limit(1 << 16, shrunk=64)
    # Operations up to which no thread is woken.
    fourier_serial_work: int = limit(1 << 20, shrunk=1)
    # Operations of a transform that are worth a chunk.
    fourier_chunk_work: int = limit(1 << 18, shrunk=16)
    # Chunks at most: each has memory of its own.
    fourier_chunks: int = limit(16, shrunk=3)
    # Operations of LAPACK that are worth a chunk.
    lapack_chunk_work: int = limit(1 << 16, shrunk=1)
    # Chunks at most.
    lapack_chunks: int = limit(16, shrunk=3)
    # Operations of calls that are soon done: they meet at the lock with which OpenBLAS
    # gives out its memory.
    lapack_short: int = limit(1 << 12, shrunk=1 << 8)
    # Chunks of such calls at most.
    lapack_short_chunks: int = limit(4, shrunk=2)
    # Buffers that OpenBLAS has when it is loaded at most, for as many calls at once.
    blas_buffers: int = limit(64, shrunk=2)
    # Operations of rotations that are worth a chunk.
    rotation_chunk_work: int = limit(1 << 16, shrunk=1)
    # Chunks at most: each has a vector of its own.
    rotation_chunks: int = limit(16, shrunk=3)
    # Operations on matrices side by side that are worth a chunk.
    lane_chunk_work: int = limit(1 << 18, shrunk=1)
    # Chunks at most: each has memory of its own.
    lane_chunks: int = limit(16, shrunk=3)
    # Quotients by one number from which on its reciprocal is taken.
    lane_quotients: int = limit(4, shrunk=1)
    # Sums that are made side by side, to hide their latency.
    lane_sums: int = limit(4, shrunk=2)

    # ---- code of kernels (compiler/llvm/, compiler/steps.py)

    # Operations of a fold in registers or of updates that are compiled at the higher
    # level, which gives them three times the speed.
    optimised_fold: int = limit(1 << 16, shrunk=0)
    # The same of a map, or a fold of columns, which keeps its sums in memory: a third.
    optimised_map: int = limit(1 << 21, shrunk=0)
    # The same of a map whose body takes longer than what is around it: some percent.
    optimised_heavy_map: int = limit(1 << 28, shrunk=0)
    # Operations that level 0 adds to a routine of the library from which on it is
    # compiled at level 1.
    optimised_routine: int = limit(1 << 19, shrunk=0)
    # Operations of a region in parts, the same.
    optimised_parts: int = limit(1 << 20, shrunk=0)
    # Operations of such a body at least.
    heavy_map: int = limit(16, shrunk=3)
    # Operations of the body of a fold of columns that gains nothing, at most.
    plain_fold: int = limit(8, shrunk=0)
    # Updates in a row of which some make an iteration of their loop.
    many_updates: int = limit(64, shrunk=2)
    # Operations of such an update at most.
    light_update: int = limit(24, shrunk=3)
    # Indices of which owners gather theirs at a time; a multiple of a vector.
    indices_at_once: int = limit(1024, shrunk=16)
    # Small updates in an iteration of their loop, if there are many.
    updates_at_once: int = limit(4, shrunk=2)
    # Rows that a fold by columns adds up before it touches memory.
    rows_at_once: int = limit(8, shrunk=3)
    # Characters of modules from which on they are compiled on several threads.
    parallel_ir: int = limit(1 << 14, shrunk=0)
    # Characters of a module from which on kernels go to the next one.
    module_ir: int = limit(1 << 16, shrunk=1 << 10)
    # Pieces of work of an entry that is compiled with its kernels at most.
    short_entry: int = limit(32, shrunk=1)
    # Bytes of an arena that lies on the stack at most.
    stack_arena: int = limit(1 << 14, shrunk=0)
    # Registers of a vector that a long function of vector math takes.
    apart_registers: int = limit(2, shrunk=1)
    # Operations from which on a program lets other Python threads run.
    released_cost: int = limit(1 << 20, shrunk=0)
    # Operations up to which the first call of a program makes no threads: 2 ms.
    alone_cost: int = limit(1 << 27, shrunk=1 << 6)
    # Bytes of constants that are worth hashing for the name of a program.
    named_bytes: int = limit(1 << 28, shrunk=8)
    # Bytes of constants that the compiler made and that are worth keeping in the cache.
    kept_bytes: int = limit(1 << 20, shrunk=8)

    # ---- eager ops that are compiled (runtime/eager.py)

    # Elements of an array up to which NumPy is done before a kernel would be found.
    compiled_elements: int = limit(1 << 15, shrunk=0)
    # The same of a Fourier transform.
    compiled_transform: int = limit(1 << 11, shrunk=0)
    # The same of a special function, which takes NumPy long.
    compiled_special: int = limit(64, shrunk=0)

    # ---- calls that are not waited for (runtime/native_executable.py, queue.py)

    # Operations from which on a call is left to the queue: about a millisecond.
    queued_cost: int = limit(1 << 26, shrunk=-1)
    # Bytes read and written from which on it is.
    queued_bytes: int = limit(1 << 24, shrunk=-1)
    # Arrays of a call that take as long to queue as what is queued takes at least.
    queued_arrays: int = limit(64, shrunk=1)
    # Seconds that a loop took the last time from which on it is.
    queued_seconds: float = limit(1e-3, shrunk=-1.0)
    # Bytes of arguments that are copied for a call that is not waited for, at most.
    copied_bytes: int = limit(1 << 20, shrunk=8)
    # Operations from which on the main thread does not make a first call itself, as it
    # could not answer a signal: of loops without vectors, a tenth of a second.
    interruptible_cost: int = limit(1 << 27, shrunk=-1)
    # Operations between two looks of a loop whether its call was cancelled.
    polled_cost: int = limit(1 << 18, shrunk=1)
    # Iterations between them at most, and of a loop around one that looks by itself;
    # powers of two.
    polled_iterations: int = limit(1 << 20, shrunk=2)
    polled_iterations_outside: int = limit(64, shrunk=1)
    # Seconds that a call took from which on it does not make the next ones.
    answer_seconds: float = limit(0.05, shrunk=-1.0)
    # The same of compiling: characters of a module, a twentieth of a second.
    interruptible_ir: int = limit(1 << 16, shrunk=0)
    # Bytes of results that are not computed yet, at most.
    waiting_bytes: int = limit(1 << 28, shrunk=1 << 10)

    # ---- collectives between hosts (partition/collectives.py)

    # Bytes of an array whose fold over hosts waits for others, to go together, at most.
    bucketed_bytes: int = limit(1 << 18, shrunk=64)
    # Bytes of folds that go together at most.
    bucket_bytes: int = limit(1 << 22, shrunk=256)
    # Eqns that wait for them at most.
    bucket_eqns: int = limit(256, shrunk=4)
    # Bytes of an array from which on a collective goes on while the program computes.
    overlapped_bytes: int = limit(1 << 16, shrunk=1)
    # Simple operations of an eqn after which it is looked after.
    overlapped_cost: int = limit(1 << 18, shrunk=1)

    # ---- memory of arrays (core/buffers.py), made under these limits from then on

    # Bytes up to which a shape keeps arrays of its own, in a ring.
    small_array_bytes: int = limit(16 << 10, shrunk=64)
    # Bytes of the arrays of a ring at most.
    ring_bytes: int = limit(64 << 10, shrunk=256)
    # Arrays of a ring at most.
    ring_arrays: int = limit(64, shrunk=5)
    # Arrays that are made at once at most.
    ring_batch: int = limit(16, shrunk=3)
    # Bytes of a block from which on the system is asked for pages.
    page_bytes: int = limit(64 << 10, shrunk=1 << 13)
    # Blocks that are looked at for one that nobody uses.
    block_tries: int = limit(16, shrunk=2)
    # Bytes of blocks that the pool keeps, dead and alive.
    pool_bytes: int = limit(1 << 30, shrunk=1 << 20)
    # Bytes of dead blocks that it keeps when it makes new ones, and of an arena that is
    # kept at hand for the next call.
    idle_bytes: int = limit(1 << 28, shrunk=1 << 18)

    # ---- calls by native code, and tables (runtime/)

    # Signatures of a jitted function that native code recognises.
    native_entries: int = limit(6, shrunk=1)
    # Arrays among the arguments of a call by native code at most.
    native_leaves: int = limit(20_000, shrunk=2)
    # Bytes of a result of such a call at most.
    native_result_bytes: int = limit(1 << 22, shrunk=128)
    # Bytes of a result of which each program keeps some to use them again.
    native_kept_bytes: int = limit(1 << 16, shrunk=32)
    # Bytes of all its results that are not in the memory of arguments at most.
    native_results_bytes: int = limit(1 << 26, shrunk=64)
    # Elements of an array from NumPy that are worth copying to aligned memory.
    aligned_elements: int = limit(1024, shrunk=1)
    # Bytes of an array that a view of less than half of it does not keep alive.
    alive_bytes: int = limit(1 << 16, shrunk=8)
    # Plans of each operator and function, and of all eager ops, that are kept.
    plans: int = limit(1 << 14, shrunk=2)
    # Results that are kept with a jaxpr.
    jaxpr_results: int = limit(256, shrunk=16)
    # Elements from which on keys are packed with their indices for NumPy's sort.
    packed_sort: int = limit(256, shrunk=4)
    # Rows of a block of a triangular solve in NumPy.
    triangular_block: int = limit(32, shrunk=2)
    # Columns of a block of an LU decomposition in NumPy.
    lu_block: int = limit(32, shrunk=2)

    def __repr__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        changed = [f"{n}={v!r}" for n, v in values.items() if v != getattr(DEFAULT, n)]
        return f"Tuning({', '.join(changed)})"

    def __post_init__(self) -> None:
        if self.fewest_lanes <= self.register_elements:
            raise ValueError("fewest_lanes must be more than register_elements")
        for name in ("tile", "piece_of_columns", "scatter_pieces"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, got {value}")


DEFAULT = Tuning()
SHRUNK = Tuning(**{f.name: f.metadata["shrunk"] for f in dataclasses.fields(DEFAULT)})
_NAMED = {"default": DEFAULT, "shrunk": SHRUNK}


def parse_tuning(value: Any) -> Tuning:
    """A tuning: the object itself, or its name."""
    result = _NAMED.get(value, value) if isinstance(value, str) else value
    if not isinstance(result, Tuning):
        raise ValueError(f"expected a Tuning or one of {list(_NAMED)}, got {value!r}")
    return result
