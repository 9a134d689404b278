"""The limits by which a program takes one path or another: one frozen object.

A limit says from what size, number or cost on something is done differently: work is
cut into chunks, a sort goes by digits, a result is stored past the caches. Whatever
they are, results stay right; what changes is speed, and the order of sums. The numbers
of an algorithm's mathematics (coefficients, bits of a hash), of the machine (bytes of a
cache line) and of an interface (an index has 32 bits) are not limits and stay where
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

from curta._base.lazy_dataclass import dataclass


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

    # ---- parallel chunks and vectors of a kernel (compiler/schedule/)

    # Minimum operations of a chunk.
    chunk_cost: int = limit(1 << 16, shrunk=1)
    # The same in the body of a loop, where threads synchronise at every iteration.
    chunk_cost_in_loop: int = limit(1 << 19, shrunk=1)
    # Maximum chunks of a kernel: more do not balance better.
    most_chunks: int = limit(64, shrunk=5)
    # Minimum operations of kernels that run side by side (compiler/program/jobs.py).
    job_cost: int = limit(1 << 22, shrunk=1)
    # Maximum chunks of them.
    job_tasks: int = limit(256, shrunk=12)
    # A map's long dim is strip-mined into iterations of this many indices.
    piece_of_map: int = limit(1 << 14, shrunk=16)
    # The same where the strip, in L1, is walked once for each of a few neighbors.
    piece_of_neighbours: int = limit(512, shrunk=8)
    # Columns per iteration of a reduction over rows, 4 KiB of float32; a power of two.
    piece_of_columns: int = limit(1024, shrunk=8)
    # Rows and columns of a tile of a transpose; a power of two.
    tile: int = limit(16, shrunk=4)
    # Maximum operands and conditions of a select that is compiled as a move of bits.
    moved_choices: int = limit(32, shrunk=4)
    # Strides, in elements, above this put neighbors into different cache lines.
    far_apart: int = limit(8, shrunk=1)
    # Strides up to this are read as whole vectors and shuffled, not gathered by lane.
    few_apart: int = limit(9, shrunk=2)
    # Maximum operations of a body that is unrolled to four vectors: independent chains
    # hide the latency of instructions.
    light_body: int = limit(24, shrunk=4)
    # The same for two vectors: heavier bodies would spill.
    heavy_body: int = limit(160, shrunk=12)
    # Registers of accumulators, elements and sums that each adds up, elements staged.
    sum_vectors: int = limit(4, shrunk=2)
    sum_steps: int = limit(8, shrunk=2)
    sum_groups: int = limit(16, shrunk=2)
    sum_staged: int = limit(1024, shrunk=2)
    # Maximum elements of rows of which a block ends its folds together.
    short_row: int = limit(64, shrunk=8)
    # Minimum blocks of such rows.
    row_blocks: int = limit(4, shrunk=0)
    # Kernels of fewer operations run sooner than the optimiser would be done.
    little_cost: int = limit(1 << 17, shrunk=0)

    # ---- long reductions split into pieces (compiler/loops/split.py, narrow_rows.py)

    # Minimum operations of a piece.
    fold_piece_cost: int = limit(1 << 17, shrunk=8)
    # Outer iterations from which on threads share these, and nothing is split.
    fold_few_iterations: int = limit(16, shrunk=1 << 30)
    # Maximum pieces of a fold.
    most_fold_pieces: int = limit(64, shrunk=3)
    # Rows of fewer elements are joined, this many at a time, into long ones.
    narrow_row: int = limit(64, shrunk=8)
    # Not where their length is a multiple of this: such rows fill vectors.
    filled_row: int = limit(16, shrunk=4)
    # Minimum operations of a kernel for which that is done.
    narrow_cost: int = limit(1 << 15, shrunk=1)
    # Pieces of contiguous elements are multiples of so many.
    fold_piece_multiple: int = limit(512, shrunk=2)

    # ---- rows of intermediate values on the stack (compiler/loops/bufferize.py)

    # Maximum bytes of a row that is kept there.
    row_bytes: int = limit(1 << 15, shrunk=64)
    # Maximum bytes of all such rows of a kernel.
    rows_bytes: int = limit(1 << 16, shrunk=96)

    # ---- non-temporal stores (compiler/schedule/nests.py)

    # Minimum bytes of results that are written by non-temporal stores.
    streamed_bytes: int = limit(1 << 26, shrunk=64)
    # Minimum elements of a row whose stores are aligned to cache lines for that.
    aligned_row: int = limit(1 << 12, shrunk=16)

    # ---- which values are inlined into their users (compiler/rewrite/values.py)

    # Maximum operations of a value that each of its users recomputes.
    shared_cost: int = limit(4, shrunk=1)
    # Maximum operations of a value that is recomputed along a broadcast.
    spread_cost: int = limit(10, shrunk=2)
    # Maximum operations of one expression.
    expression_cost: int = limit(400, shrunk=40)
    # Maximum depth of ops inlined into each other: so deep do rules recurse.
    expression_depth: int = limit(24, shrunk=2)
    # A concatenation of so many elements is copied operand by operand.
    large_join: int = limit(1 << 14, shrunk=8)
    # Maximum columns of a row that a map stores together.
    side_by_side: int = limit(8, shrunk=3)
    # Maximum operands of a concatenation that are interleaved by one loop.
    joined_columns: int = limit(64, shrunk=2)

    # ---- which items share a kernel (compiler/fuse/fuse.py)

    # Minimum iterations of the shared loops, enough for every thread.
    shared_iterations: int = limit(8, shrunk=3)
    # Groups of fewer iterations are fused without that: one thread would be done before
    # others could start.
    shared_little: int = limit(1 << 14, shrunk=2)
    # Maximum items of a kernel.
    most_items: int = limit(48, shrunk=3)
    # Minimum rows for which a costly function of each is vectorised in a kernel apart.
    many_rows: int = limit(64, shrunk=2)

    # Maximum eqns, over all iterations, of a scan that is unrolled completely.
    written_out_eqns: int = limit(256, shrunk=16)

    # ---- loops in registers (compiler/lower/registers.py and others)

    # Maximum elements of a value in registers.
    register_elements: int = limit(64, shrunk=2)
    # Values of up to this many elements are scalars, larger ones a vector.
    register_scalars: int = limit(4, shrunk=1)
    # Maximum carried values: registers for more take long to allocate, and spill.
    register_carries: int = limit(512, shrunk=12)
    # The trip count that cost estimates assume for a while loop.
    assumed_trip_count: int = limit(16, shrunk=3)
    # Maximum steps of a loop's code.
    register_steps: int = limit(4096, shrunk=40)
    # Minimum examples of a batch that become lanes: more than register_elements, so
    # that no value known beforehand has a batch dim.
    fewest_lanes: int = limit(128, shrunk=3)
    # Maximum vectors per value of a block of examples.
    lane_vectors: int = limit(16, shrunk=9)
    # Maximum values computed per example.
    lane_values: int = limit(2048, shrunk=60)
    # Maximum elements that one update of an array in memory writes.
    in_place_updates: int = limit(16, shrunk=3)
    # Maximum terms of a sum of products, or sequential updates, that are unrolled.
    unrolled_terms: int = limit(32, shrunk=2)
    # Rows of a reduction that are combined in one expression.
    unrolled_rows: int = limit(4, shrunk=1)
    # Maximum multiplications of a matrix product that is unrolled.
    unrolled_products: int = limit(1024, shrunk=16)
    # Maximum registers for which vector math is inlined; above, it is called.
    inlined_math: int = limit(32, shrunk=2)

    # ---- windows, convolutions, products (compiler/lower/)

    # Maximum elements of a window that is unrolled.
    window_taps: int = limit(32, shrunk=2)
    # Minimum output features of a group that are vectorised.
    vector_features: int = limit(4, shrunk=1)
    # Maximum products of a sum that is a single expression.
    written_products: int = limit(64, shrunk=2)
    # Maximum products of a sum for one output feature that is a fold, not a GEMM.
    short_sum: int = limit(32, shrunk=2)
    # Panels of the kernel with rows further apart, in bytes, are packed.
    kernel_row_bytes: int = limit(512, shrunk=8)
    # Minimum products for which complex convolutions are split into real ones.
    complex_convolution_work: int = limit(1 << 10, shrunk=1)
    # Maximum elements of a batch's right-hand matrices that are copied when transposed.
    upright_matrix: int = limit(64, shrunk=4)
    # Minimum inputs of an output feature for vectorising along them.
    many_inputs: int = limit(16, shrunk=4)
    # Maximum jumps along a dim of a constant index array that becomes iotas.
    index_jumps: int = limit(2, shrunk=1)
    # Minimum multiplications, complex or integer, for which a routine is called.
    called_dot_work: int = limit(4096, shrunk=1)
    # Minimum rows, columns and steps for which narrow numbers are packed in words.
    packed_dot: int = limit(8, shrunk=3)
    # Minimum multiplications of the direct sum for Winograd's algorithm.
    winograd_work: int = limit(1 << 26, shrunk=1)
    # Minimum input and output features for it.
    winograd_features: int = limit(96, shrunk=1)
    # Maximum bytes of its temporaries, four times its inputs and outputs.
    winograd_bytes: int = limit(1 << 28, shrunk=1 << 16)

    # ---- loops over rows (compiler/rewrite/loop_*.py)

    # Maximum operations of an op that the backward loop recomputes.
    recomputed_cost: int = limit(4, shrunk=1)
    # The same of all ops for one row.
    recomputed_cost_of_row: int = limit(8, shrunk=2)
    # Products of fewer rows are hoisted out of loops, and computed at once.
    moved_product_rows: int = limit(16, shrunk=2)
    # Bytes of a block of iterations, which stay in L2.
    loop_block_bytes: int = limit(1 << 20, shrunk=64)
    # Maximum bytes of all iterations of a loop that cannot be strip-mined.
    loop_bytes: int = limit(1 << 26, shrunk=1 << 10)
    # Minimum iterations of a block.
    loop_block_iterations: int = limit(4, shrunk=2)
    # Minimum rows of a part: products of fewer would waste registers.
    part_rows: int = limit(8, shrunk=1)
    # Minimum bytes that a part carries.
    part_bytes: int = limit(1 << 12, shrunk=1)
    # Minimum operations of a loop that are worth waking a thread.
    part_work: int = limit(1 << 22, shrunk=1)
    # Maximum elements of a value that every part computes for itself.
    part_own: int = limit(16, shrunk=1)
    # Maximum parts with an arena at the same time.
    part_arenas: int = limit(64, shrunk=3)

    # ---- cumulative reductions and scatters (compiler/lower/)

    # Elements of a block of a cumulative reduction.
    scan_block: int = limit(1024, shrunk=4)
    # Minimum elements for which there are blocks.
    scan_long: int = limit(1 << 15, shrunk=5)
    # Maximum pieces into which the updates of a sum are split; a power of two.
    scatter_pieces: int = limit(8, shrunk=4)
    # Minimum elements of updates for that.
    scatter_pieces_work: int = limit(1 << 16, shrunk=2)
    # Minimum updates of a piece per row that they are added to.
    scatter_per_element: int = limit(4, shrunk=1)
    # Minimum elements of updates that several threads share.
    update_work: int = limit(1 << 16, shrunk=2)
    # Maximum blocks of columns.
    update_blocks: int = limit(4, shrunk=3)
    # Minimum bytes of a row of such a block.
    update_block_bytes: int = limit(128, shrunk=4)
    # Minimum bytes of an operand whose parts threads own.
    owned_bytes: int = limit(1 << 18, shrunk=8)
    # Bytes of an owner's part, which stay in L2.
    owner_bytes: int = limit(1 << 21, shrunk=16)
    # Maximum owners.
    most_owners: int = limit(4, shrunk=3)
    # Maximum operations of an update's index, which each owner recomputes.
    owner_cost: int = limit(24, shrunk=1000)

    # ---- small matrices, batches of matrices, transforms

    # Maximum rows and columns of a matrix whose decomposition is unrolled.
    small_matrix: int = limit(8, shrunk=2)
    # Maximum rows and columns of a batch's matrices that are kept in registers.
    register_matrix: int = limit(3, shrunk=2)
    # Maximum rows and columns of matrices decomposed one per lane.
    lane_matrix: int = limit(32, shrunk=6)
    # Maximum elements of a banded one with its right-hand side.
    lane_matrix_elements: int = limit(1 << 12, shrunk=64)
    # Minimum matrices of the batch, in vectors of lanes.
    lane_blocks: int = limit(2, shrunk=0)
    # Minimum columns that are transformed without a transpose.
    fourier_columns: int = limit(8, shrunk=1)

    # ---- products of matrices (compiler/library/gemm.py, contraction.py)

    # Minimum multiplications of a chunk.
    gemm_chunk_work: int = limit(1 << 20, shrunk=64)
    # Maximum multiplications for which no thread is woken.
    gemm_serial_work: int = limit(1 << 20, shrunk=1)
    # Bytes of a panel, which stays in L1.
    gemm_panel_bytes: int = limit(16 << 10, shrunk=256)
    # Maximum bytes of a row of A in a block along k, beside which a panel of B stays in
    # L1.
    gemm_step_bytes: int = limit(1024, shrunk=256)
    # Rows of so many bytes compete for few sets of the cache.
    gemm_long_row: int = limit(2048, shrunk=16)
    # Minimum rows of A that reuse a packed panel.
    gemm_packed_rows: int = limit(32, shrunk=1)
    # Maximum rows of a unit with a narrow panel.
    gemm_rows: int = limit(192, shrunk=5)
    # The same with a wide one.
    gemm_wide_rows: int = limit(512, shrunk=12)
    # Maximum calls of tiles that a program makes itself, without the loops around them.
    tiles_in_entry: int = limit(4, shrunk=1)
    # Minimum multiplications of a chunk of a convolution.
    contraction_chunk_work: int = limit(1 << 22, shrunk=8)
    # Maximum multiplications for which no thread is woken.
    contraction_serial_work: int = limit(1 << 20, shrunk=1)
    # Contracted elements per tile, so that a panel of B stays in L1.
    contraction_steps: int = limit(256, shrunk=4)
    # Bytes that the outer indices of a chunk read, which stay in L2.
    contraction_cached_bytes: int = limit(1 << 19, shrunk=256)

    # ---- sorting and selecting (compiler/library/)

    # Maximum elements of a row that is sorted by insertion.
    sorted_by_insertion: int = limit(32, shrunk=2)
    # Rows from which on threads share these, and none is split.
    sort_rows: int = limit(4, shrunk=1 << 30)
    # Minimum elements of a piece of a row.
    sort_piece: int = limit(1 << 15, shrunk=4)
    # Maximum pieces of a row.
    sort_pieces: int = limit(32, shrunk=3)
    # Maximum chunks of rows: each has its own memory.
    sort_chunks: int = limit(16, shrunk=3)
    # A pivot is bad if one side has less than 1 / this of the elements.
    bad_split: int = limit(16, shrunk=3)
    # Maximum segments of a row that threads share.
    sort_segments: int = limit(256, shrunk=2)
    # A thread sorts a segment alone if it has at most 1 / this of the row.
    sort_share: int = limit(16, shrunk=2)
    # Rows from which on threads share these, and none is split.
    select_rows: int = limit(4, shrunk=1 << 30)
    # Minimum elements of a piece of a row.
    select_piece: int = limit(1 << 17, shrunk=8)
    # Maximum pieces of a row.
    select_pieces: int = limit(16, shrunk=3)
    # Maximum chunks of rows.
    select_chunks: int = limit(16, shrunk=3)
    # Minimum candidates collected between two cuts to the best k.
    select_room: int = limit(256, shrunk=1)

    # ---- transforms and matrices of the library (compiler/library/)

    # Maximum length of transforms of columns that stay in the caches.
    fourier_block: int = limit(1 << 13, shrunk=16)
    # Maximum length without butterflies that is a product with the DFT matrix.
    fourier_product: int = limit(256, shrunk=40)
    # Maximum length of it per row: of few rows, the matrix takes as long to read.
    fourier_product_rows: int = limit(8, shrunk=40)
    # Maximum length of rows of real numbers that are such a product anyway.
    fourier_real_product: int = limit(32, shrunk=3)
    # Bytes of a block of rows, which stays in L1.
    fourier_rows_bytes: int = limit(1 << 16, shrunk=64)
    # Maximum operations for which no thread is woken.
    fourier_serial_work: int = limit(1 << 20, shrunk=1)
    # Minimum operations of a chunk of transforms.
    fourier_chunk_work: int = limit(1 << 18, shrunk=16)
    # Maximum chunks: each has its own memory.
    fourier_chunks: int = limit(16, shrunk=3)
    # Minimum elements of Q for which the reflections of QR are kept in blocks.
    compact_wy: int = limit(1 << 12, shrunk=6)
    # Reflections of a panel of QR.
    lapack_block: int = limit(32, shrunk=2)
    # Minimum operations of a chunk of LAPACK calls.
    lapack_chunk_work: int = limit(1 << 16, shrunk=1)
    # Maximum chunks.
    lapack_chunks: int = limit(16, shrunk=3)
    # Calls of fewer operations contend for the lock on OpenBLAS's buffers.
    lapack_short: int = limit(1 << 12, shrunk=1 << 8)
    # Maximum chunks of such calls.
    lapack_short_chunks: int = limit(4, shrunk=2)
    # Maximum buffers that OpenBLAS allocates when loaded: one per concurrent call.
    blas_buffers: int = limit(64, shrunk=2)
    # Minimum operations of a chunk of matrices, one per lane.
    lane_chunk_work: int = limit(1 << 18, shrunk=1)
    # Maximum chunks: each has its own memory.
    lane_chunks: int = limit(16, shrunk=3)
    # Minimum quotients by one divisor for which its reciprocal is taken.
    lane_quotients: int = limit(4, shrunk=1)
    # Partial sums, independent to hide the latency of additions.
    lane_sums: int = limit(4, shrunk=2)

    # ---- code of kernels (compiler/llvm/, compiler/steps.py)

    # Minimum operations of a fold in registers, or of updates, that are compiled at
    # level 1, which triples their speed.
    optimised_fold: int = limit(1 << 16, shrunk=0)
    # The same of a map, or a fold of columns, whose sums are in memory: a third faster.
    optimised_map: int = limit(1 << 21, shrunk=0)
    # The same of a map of a heavy body: some percent faster.
    optimised_heavy_map: int = limit(1 << 28, shrunk=0)
    # Minimum operations that level 0 would add to a routine of the library, for
    # compiling it at level 1.
    optimised_routine: int = limit(1 << 19, shrunk=0)
    # The same for a region in parts.
    optimised_parts: int = limit(1 << 20, shrunk=0)
    # Minimum operations of a heavy body.
    heavy_map: int = limit(16, shrunk=3)
    # Maximum operations of a body of a fold of columns that gains nothing from it.
    plain_fold: int = limit(8, shrunk=0)
    # Minimum sequential updates whose loop is unrolled.
    many_updates: int = limit(64, shrunk=2)
    # Maximum operations of one.
    light_update: int = limit(24, shrunk=3)
    # Indices among which an owner selects its own at a time; a multiple of a vector.
    indices_at_once: int = limit(1024, shrunk=16)
    # Updates of an unrolled iteration.
    updates_at_once: int = limit(4, shrunk=2)
    # Rows that a fold of columns sums up in registers before it touches memory.
    rows_at_once: int = limit(8, shrunk=3)
    # Modules of so many characters together are compiled on several threads.
    parallel_ir: int = limit(1 << 14, shrunk=0)
    # Characters of a module after which kernels go to the next one.
    module_ir: int = limit(1 << 16, shrunk=1 << 10)
    # Maximum steps of an entry that is compiled in the module of its kernels.
    short_entry: int = limit(32, shrunk=1)
    # Maximum bytes of an arena on the stack.
    stack_arena: int = limit(1 << 14, shrunk=0)
    # Registers per operand of vector math that is called, not inlined.
    apart_registers: int = limit(2, shrunk=1)
    # Minimum operations of a program for which the GIL is released.
    released_cost: int = limit(1 << 20, shrunk=0)
    # Maximum operations for which a program's first call starts no threads: 2 ms.
    alone_cost: int = limit(1 << 27, shrunk=1 << 6)
    # Maximum bytes of constants that are hashed into a program's name.
    named_bytes: int = limit(1 << 28, shrunk=8)
    # Maximum bytes of constants, folded by the compiler, that are kept in the cache.
    kept_bytes: int = limit(1 << 20, shrunk=8)

    # ---- eager ops that are compiled (runtime/eager.py)

    # Larger arrays are computed by compiled kernels, smaller ones by NumPy.
    compiled_elements: int = limit(1 << 15, shrunk=0)
    # The same for Fourier transforms and sums.
    compiled_transform: int = limit(1 << 11, shrunk=0)
    # The same for special functions, at which NumPy is slow.
    compiled_special: int = limit(64, shrunk=0)

    # ---- asynchronous calls (runtime/native_executable.py, queue.py)

    # Minimum operations of a call that is queued: about a millisecond.
    queued_cost: int = limit(1 << 26, shrunk=-1)
    # Minimum bytes read and written by one.
    queued_bytes: int = limit(1 << 24, shrunk=-1)
    # Arrays whose handling takes as long as the least call that is queued.
    queued_arrays: int = limit(64, shrunk=1)
    # Minimum seconds that a loop took the last time.
    queued_seconds: float = limit(1e-3, shrunk=-1.0)
    # Maximum bytes of arguments that are copied so that a call can be queued.
    copied_bytes: int = limit(1 << 20, shrunk=8)
    # First calls of more operations leave the main thread, which could not answer
    # signals: a tenth of a second of loops without vectors.
    interruptible_cost: int = limit(1 << 27, shrunk=-1)
    # Operations of a loop between two checks for cancellation.
    polled_cost: int = limit(1 << 18, shrunk=1)
    # Maximum iterations between them, and of a loop around one that checks itself;
    # powers of two.
    polled_iterations: int = limit(1 << 20, shrunk=2)
    polled_iterations_outside: int = limit(64, shrunk=1)
    # Seconds of a call from which on the next ones leave the main thread.
    answer_seconds: float = limit(0.05, shrunk=-1.0)
    # The same for compiling, in characters of a module: a twentieth of a second.
    interruptible_ir: int = limit(1 << 16, shrunk=0)
    # Maximum bytes of results that are not computed yet.
    waiting_bytes: int = limit(1 << 28, shrunk=1 << 10)

    # ---- collectives between hosts (partition/collectives.py)

    # Maximum bytes of an all-reduce that waits to be bucketed with others.
    bucketed_bytes: int = limit(1 << 18, shrunk=64)
    # Maximum bytes of a bucket.
    bucket_bytes: int = limit(1 << 22, shrunk=256)
    # Maximum eqns that wait for one.
    bucket_eqns: int = limit(256, shrunk=4)
    # Minimum bytes of a collective that overlaps with computation.
    overlapped_bytes: int = limit(1 << 16, shrunk=1)
    # Operations of an eqn after which progress of collectives is polled.
    overlapped_cost: int = limit(1 << 18, shrunk=1)

    # ---- the allocator of arrays (core/buffers.py), which takes these when it is made

    # Maximum bytes of an array that comes from the ring of its shape.
    small_array_bytes: int = limit(16 << 10, shrunk=64)
    # Maximum bytes of a ring.
    ring_bytes: int = limit(64 << 10, shrunk=256)
    # Maximum arrays of a ring.
    ring_arrays: int = limit(64, shrunk=5)
    # Maximum arrays that are allocated at once.
    ring_batch: int = limit(16, shrunk=3)
    # Minimum bytes of a block that is mapped from the system.
    page_bytes: int = limit(64 << 10, shrunk=1 << 13)
    # Maximum blocks that are examined for one that nobody uses.
    block_tries: int = limit(16, shrunk=2)
    # Maximum bytes of blocks, dead and alive, in the pool.
    pool_bytes: int = limit(1 << 30, shrunk=1 << 20)
    # Maximum bytes of dead blocks when new ones are allocated, and of an arena that is
    # kept for the next call.
    idle_bytes: int = limit(1 << 28, shrunk=1 << 18)

    # ---- calls by native code, and tables (runtime/)

    # Maximum signatures of a jitted function that native code recognises.
    native_entries: int = limit(6, shrunk=1)
    # Maximum arrays among the arguments of a native call.
    native_leaves: int = limit(20_000, shrunk=2)
    # Maximum bytes of a result of such a call.
    native_result_bytes: int = limit(1 << 22, shrunk=128)
    # Maximum bytes of a result whose memory the program keeps for reuse.
    native_kept_bytes: int = limit(1 << 16, shrunk=32)
    # Maximum bytes of all results that are not in donated memory.
    native_results_bytes: int = limit(1 << 26, shrunk=64)
    # Minimum elements of a NumPy array that is copied to aligned memory.
    aligned_elements: int = limit(1024, shrunk=1)
    # Views of less than half of an array this large, in bytes, are copies, lest they
    # keep it alive.
    alive_bytes: int = limit(1 << 16, shrunk=8)
    # Maximum plans of each operator and function, and of all eager ops.
    plans: int = limit(1 << 14, shrunk=2)
    # Maximum results that are cached with a jaxpr.
    jaxpr_results: int = limit(256, shrunk=16)
    # Minimum elements of keys that are packed with their indices for NumPy's sort.
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
