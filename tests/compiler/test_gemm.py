"""Matrix products: every kind of tile and edge, both layouts, any order of chunks."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools

import numpy as np
import pytest
from tests.compiler.native import Native

import curta
import curta.numpy as jnp
from curta.compiler import code_generator
from curta.compiler.host_target import host
from curta.compiler.library import blas
from curta.compiler.library.contraction import Contraction, contraction_plan
from curta.compiler.library.gemm import Blocking, Dot, dot_plan
from curta.compiler.library.packing import even_parts
from curta.compiler.library.product import Loops
from curta.compiler.library.product_plan import Axis
from curta.compiler.library.tile import emit_tile
from curta.compiler.library.tile_calls import tile_calls
from curta.compiler.library.tile_shape import Tile
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.transposes import RowTranspose
from curta.compiler.llvm.types import Type
from curta.config import config, tuning

DTYPES = {"f32": np.float32, "f64": np.float64}
_LAUNCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def launcher(order):
    """A `parallel_for` that runs the chunks in some order."""

    def run(function, context, count):
        for i in order(range(count)):
            _CHUNK(function)(context, i)

    return _LAUNCH(run)


def assembles(vector_bytes):
    """Whether tiles are in assembly for the processor at hand."""
    machine = host()
    return machine.assembles and vector_bytes <= machine.vector_bytes


@functools.cache
def native(plan_of, product, vector_bytes, assembly):
    """The function of a product, its plan and the addresses of its code."""
    plan = plan_of(product, vector_bytes, config.tuning)
    turn = turn_code(product.kind, vector_bytes)
    imports = {turn.name: turn.address}
    module = Module(host().has_fma, vector_bytes, assembles=assembly)
    for code in plan.code:
        if isinstance(code, Tile):
            emit_tile(module, code)
        else:
            code.emit(module)
    names = [x.name for x in plan.code]
    f = Native(module, names[0], imports, code_generator.GOOD)
    code = [f.code.address(name) for name in names]
    return f, np.array(plan.numbers, np.int64), np.array(code, np.int64)


@functools.cache
def turn_code(kind, vector_bytes):
    vector = Type(kind, vector_bytes // np.dtype(DTYPES[kind]).itemsize)
    module = Module(vector_bytes=vector_bytes)
    RowTranspose(vector).emit(module)
    return Native(module, RowTranspose(vector).name)


def operands(dot):
    rng = np.random.default_rng(0)
    a = (dot.batch, *((dot.k, dot.m) if dot.a_transposed else (dot.m, dot.k)))
    b = (dot.batch, *((dot.n, dot.k) if dot.b_transposed else (dot.k, dot.n)))
    dtype = DTYPES[dot.kind]
    return rng.standard_normal(a).astype(dtype), rng.standard_normal(b).astype(dtype)


def product(dot, a, b, order=list, vector_bytes=None, assembly=None):
    """The result of the native code, with guards around the array."""
    guarded = np.full(dot.batch * dot.m * dot.n + 64, 77, DTYPES[dot.kind])
    result = guarded[32:-32].reshape(dot.batch, dot.m, dot.n)
    launch = launcher(order)
    address = ctypes.cast(launch, ctypes.c_void_p).value
    vector_bytes = vector_bytes or host().vector_bytes
    if assembly is None:
        assembly = assembles(vector_bytes)
    f, numbers, code = native(dot_plan, dot, vector_bytes, assembly)
    f(result, a, b, address, numbers, code)
    assert (guarded[:32] == 77).all() and (guarded[-32:] == 77).all()
    return result


def check(dot, **options):
    a, b = operands(dot)
    left = a.swapaxes(1, 2) if dot.a_transposed else a
    right = b.swapaxes(1, 2) if dot.b_transposed else b
    exact = left.astype("f8") @ right.astype("f8")
    error = abs(product(dot, a, b, **options) - exact).max() / np.sqrt(dot.k)
    assert error < 64 * np.finfo(DTYPES[dot.kind]).eps, dot


SHAPES = [
    (1, 1, 1, 1), (1, 2, 3, 4), (1, 5, 17, 3), (1, 12, 32, 8), (1, 13, 33, 16),
    (1, 24, 16, 20), (1, 32, 10, 64), (1, 64, 64, 64), (1, 100, 100, 100),
    (3, 8, 8, 8), (5, 7, 40, 9), (1, 200, 31, 33), (1, 3, 130, 400), (1, 40, 600, 70),
]  # fmt: skip


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape, kind):
    for flips in itertools.product([False, True], repeat=2):
        check(Dot(*shape, kind, *flips))


@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("shape", [(1, 390, 520, 700), (2, 30, 50, 1031)], ids=str)
def test_blocks_of_k_and_packed_panels(shape, flips):
    check(Dot(*shape, "f32", *flips))


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("flips", [(False, False), (True, True)])
def test_other_vector_widths(vector_bytes, flips):
    check(Dot(2, 29, 45, 19, "f32", *flips), vector_bytes=vector_bytes)
    check(Dot(1, 29, 45, 19, "f64", *flips), vector_bytes=vector_bytes)


def test_the_order_of_chunks_does_not_matter():
    dot = Dot(2, 150, 200, 300, "f32")
    cut = Blocking(dot, host().vector_bytes, config.tuning)
    assert cut.units > cut.units_per_chunk
    a, b = operands(dot)
    first = product(dot, a, b).copy()
    np.testing.assert_array_equal(product(dot, a, b, order=reversed), first)


def test_nan_and_infinity_stay_in_their_row_and_column():
    dot = Dot(1, 20, 20, 20, "f32")
    a, b = operands(dot)
    a[0, 3, 4] = np.nan
    b[0, 5, 6] = np.inf
    bad = ~np.isfinite(product(dot, a, b)[0])
    want = np.zeros((20, 20), bool)
    want[3, :] = want[:, 6] = True
    np.testing.assert_array_equal(bad, want)


def test_impossible_products_are_refused():
    for wrong in (Dot(1, 0, 2, 2, "f32"), Dot(1, 2, 2, 2, "c64")):
        with pytest.raises(ValueError, match="no tiles"):
            dot_plan(wrong, 64, config.tuning)


def test_even_parts():
    for total, most in itertools.product(range(1, 60), range(1, 14)):
        parts = even_parts(total, most)
        assert sum(parts) == total and max(parts) <= most
        assert max(parts) - min(parts) <= 1 and len(parts) == -(-total // most)


@pytest.mark.parametrize("vector_bytes", [32, 64])
def test_assembly_and_ir_give_the_same_bits(vector_bytes):
    if not assembles(vector_bytes):
        pytest.skip("there is no assembly for this processor")
    for shape, kind, flips in itertools.product(
        [(1, 25, 70, 300), (3, 7, 5, 9), (1, 14, 12, 1), (2, 13, 33, 2)],
        DTYPES,
        [(False, False), (True, True)],
    ):
        dot = Dot(*shape, kind, *flips)
        a, b = operands(dot)
        mine, general = (
            product(dot, a, b, vector_bytes=vector_bytes, assembly=assembly)
            for assembly in (True, False)
        )
        np.testing.assert_array_equal(mine, general, err_msg=f"{dot}")


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("vector_bytes", [32, 64])
def test_loops_of_steps(steps, vector_bytes):
    """Sums over several dims that cannot be merged with a neighbor."""
    rng = np.random.default_rng(steps)
    extents = (2, 3, 4, 2)[:steps]
    a = rng.integers(-9, 9, (5, 7, *(n + 1 for n in extents))).astype("f4")
    b = rng.integers(-9, 9, (*(n + 1 for n in extents), 19)).astype("f4")
    strides = [(x.strides[0] // 4, *(n // 4 for n in x.strides[1:])) for x in (a, b)]
    product = Contraction(
        "f32",
        (Axis(5, 7 * 19, strides[0][0]),),
        Axis(7, 19, strides[0][1]),
        19,
        tuple(
            Axis(n, 0, strides[0][2 + i], strides[1][i]) for i, n in enumerate(extents)
        ),
        2 * vector_bytes // 4,
        packed=False,
    )
    taken = tuple(slice(n) for n in extents)
    sums = list(range(2, 2 + steps)), list(range(steps))
    want = np.tensordot(a[:, :, *taken], b[taken], axes=sums)
    launch = launcher(list)
    for assembly in {assembles(vector_bytes), False}:
        f, numbers, code = native(contraction_plan, product, vector_bytes, assembly)
        result = np.full((5, 7, 19), np.nan, "f4")
        f(result, a, b, ctypes.cast(launch, ctypes.c_void_p).value, numbers, code)
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("features", [48, 20, 7])
def test_taps_of_a_gradient_read_a_block_of_steps_together(features, limits):
    """Chunks have some rows and all taps, where both operands leave the cache."""
    rng = np.random.default_rng(features)
    a = rng.integers(-9, 9, (3, 12, 10, features)).astype("f4")
    b = rng.integers(-9, 9, (3, 10, 8, 40)).astype("f4")
    far = [n // 4 for n in a.strides]
    steps = [Axis(n, 0, x, y // 4) for n, x, y in zip((3, 10, 8), far, b.strides[:3])]
    taps = Axis(3, 3 * features * 40, far[1]), Axis(3, features * 40, far[2])
    panel = 2 * host().vector_bytes // 4
    rows = Axis(features, 40, 1)
    product = Contraction("f32", taps, rows, 40, tuple(steps), panel, packed=False)
    want = [
        np.tensordot(a[:, i : i + 10, j : j + 8], b, ([0, 1, 2], [0, 1, 2]))
        for i, j in np.ndindex(3, 3)
    ]
    width = host().vector_bytes
    limits(contraction_cached_bytes=1 << 30, contraction_serial_work=1)
    apart = contraction_plan(product, width, config.tuning)
    limits(contraction_cached_bytes=1 << 12, contraction_serial_work=1)
    together = contraction_plan(product, width, config.tuning)
    assert apart.ranges.outer == 9 and together.ranges.outer_each > 1
    if features == 48:  # a whole number of tiles
        assert together.ranges.outer > 9
    launch = ctypes.cast(launcher(reversed), ctypes.c_void_p)
    f, numbers, code = native.__wrapped__(
        contraction_plan, product, width, assembles(width)
    )
    result = np.full((9, features, 40), np.nan, "f4")
    f(result, a, b, launch.value, numbers, code)
    np.testing.assert_array_equal(result, want)


def test_one_shape_of_tile_serves_many_products():
    """The compiled code does not depend on sizes, strides and layouts."""
    shapes = [(1, 36, 64, 20), (7, 12, 96, 300), (1, 240, 32, 5)]
    codes = {dot_plan(Dot(*shape, "f32"), 64, config.tuning).code for shape in shapes}
    flipped = Dot(1, 36, 64, 20, "f32", a_transposed=True)
    codes.add(dot_plan(flipped, 64, config.tuning).code)
    assert codes == {
        (
            Loops(),
            Tile("f32", 12, 2, whole=True),
        )
    }


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("flips", [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (3, 25, 17, 12), (2, 300, 270, 33)])
def test_complex_products_are_four_real_ones(shape, flips, dtype):
    a, b = operands(Dot(*shape, "f64", *flips))
    a, b = (a + 1j * a[::-1]).astype(dtype), (b - 2j * b[::-1]).astype(dtype)
    left = a.swapaxes(1, 2) if flips[0] else a
    right = b.swapaxes(1, 2) if flips[1] else b
    numbers = ((1 if flips[0] else 2,), (2 if flips[1] else 1,)), ((0,), (0,))
    with curta.enable_x64():
        result = curta.jit(lambda a, b: curta.lax.dot_general(a, b, numbers))(a, b)
    assert result.dtype == dtype
    tolerance = 1e-3 if dtype == np.complex64 else 1e-11
    np.testing.assert_allclose(result, left @ right, atol=tolerance)


@pytest.mark.skipif(not blas.available(), reason="needs scipy-openblas32")
class TestBlas:
    """OpenBLAS, called as Fortran calls it."""

    def test_a_routine_runs(self):
        n, one = ctypes.c_int32(3), ctypes.c_int32(1)
        x, y = np.arange(3.0), np.ones(3)
        alpha = ctypes.c_double(2.0)
        size, step, factor = map(ctypes.addressof, (n, one, alpha))
        blas.call("daxpy", size, factor, x.ctypes.data, step, y.ctypes.data, step)
        assert y.tolist() == [1.0, 3.0, 5.0]

    def test_addresses(self):
        names = ["sgemm", "zgemm", "dgetrf", "spotrf", "cgeqrf", "dsyevd", "dgesdd"]
        found = blas.addresses(names)
        assert len(set(found.values())) == len(names) + 2  # to enter and leave
        with pytest.raises(AttributeError):
            blas.address("nothing")

    def test_the_kernels_are_those_of_the_processor(self):
        if host().vector_bytes == 64:
            assert blas.core_type() in ("SkylakeX", "Cooperlake", "SapphireRapids")


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ij,jk->ik", [(13, 5), (5, 40)]),
        ("ji,kj->ki", [(7, 24), (3, 7)]),
        ("bij,bjk->bik", [(3, 12, 9), (3, 9, 8)]),
        ("ij,jk->ik", [(600, 3), (3, 33)]),  # more tiles than an entry calls
    ],
)
def test_tiles_that_entries_call(equation, shapes):
    """The same tiles in the same order as `product` runs, so the same bits."""
    x, y = (np.sin(np.arange(np.prod(s), dtype="f4")).reshape(s) for s in shapes)
    results = []
    for most in (-1, 4):
        limits = dataclasses.replace(config.tuning, tiles_in_entry=most)
        with tuning(limits):
            results.append(curta.jit(lambda x, y: jnp.einsum(equation, x, y))(x, y))
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], np.einsum(equation, x, y), atol=1e-5)


def test_tiles_are_called_where_they_are_few():
    few = dot_plan(Dot(1, 13, 16, 5, "f32"), 64, config.tuning)
    calls = tile_calls(few.numbers, 4)
    tiles = few.code[1:]
    assert sum(tiles[c.code].rows * c.count for c in calls) == 13
    assert tile_calls(few.numbers, len(calls) - 1) is None
    threads, packed = (
        Dot(1, 600, 600, 600, "f32"),
        Dot(1, 40, 40, 8, "f32", False, True),
    )
    assert tile_calls(dot_plan(threads, 64, config.tuning).numbers, 1000) is None
    assert tile_calls(dot_plan(packed, 64, config.tuning).numbers, 1000) is None
