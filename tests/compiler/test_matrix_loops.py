"""Matrices decomposed by loops, many at a time in lanes, against the `eval` rules."""

import numpy as np
import pytest
from tests.compiler.test_decompositions import (
    adjoint,
    assert_close,
    assert_same,
    native,
    numbers,
    positive,
    run,
)

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.linalg.loop_matrices import MemoryMatrix
from curta.compiler.linalg.loops import LoopMachine
from curta.compiler.linalg.parts import MatrixView
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.regions import emit_region
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.check import check_region
from curta.compiler.loops.nodes import Buffer, Region
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.rewrite.matrix_loops import matrix_loop
from curta.compiler.schedule.regions import region_schedule
from curta.primitives.linalg import (
    LU,
    QR,
    Cholesky,
    Geqrf,
    HouseholderProduct,
    LUPivotsToPermutation,
    TriangularSolve,
    TridiagonalSolve,
)

DTYPES = ["float32", "float64", "complex64", "complex128"]
BATCH = 37  # no multiple of the lanes, and more than twice as many


@pytest.fixture(autouse=True)
def _wide():
    with curta.enable_x64(True):
        yield


def assert_by_loops(op, *args):
    if host().lanes("f64") > 1:
        assert matrix_loop(op, [curta.typeof(a) for a in args], host()) is not None
    assert_same(op, *args)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 5, 17])
def test_factorisations(dtype, n):
    assert_by_loops(Cholesky(), positive((BATCH, n, n), dtype))
    for m in (n, n + 3):
        for shape in ((m, n), (n, m)):
            x = numbers((BATCH, *shape), dtype)
            assert_by_loops(LU(), x)
            assert_by_loops(Geqrf(), x)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_orthogonal_factors(dtype):
    for shape in ((6, 6), (7, 5), (5, 7)):
        x = numbers((4, 10, *shape), dtype)
        for full in (True, False):
            assert_by_loops(QR(False, full), x)
    packed, taus = Geqrf().eval(numbers((BATCH, 7, 5), dtype))
    assert_by_loops(HouseholderProduct(), packed, taus)
    assert_by_loops(HouseholderProduct(), packed, taus[:, :2])
    assert matrix_loop(QR(True), [curta.typeof(packed)], host()) is None


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("width", [1, 6])
def test_triangular_solves(dtype, left, width):
    a = numbers((BATCH, 5, 5), dtype) + 4 * np.eye(5, dtype=dtype)
    b = numbers((BATCH, 5, width) if left else (BATCH, width, 5), dtype, 1)
    for lower in (True, False):
        for transposed, conjugated in ((0, 0), (1, 0), (1, 1), (0, 1)):
            how = bool(transposed), bool(conjugated), transposed == conjugated
            assert_by_loops(TriangularSolve(left, lower, *how), a, b)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("shape", [(1, 3), (3, 2), (4, 4), (2, 5, 3), (3, 3, 3)])
def test_few_small_matrices(dtype, shape):
    x = numbers(shape, dtype)
    assert_by_loops(LU(), x)
    assert_by_loops(QR(False, False), x)
    *batch, m, n = shape
    if m == n:
        assert_by_loops(Cholesky(), positive(shape, dtype))
        for left in (True, False):
            b = numbers((*batch, *((n, 2) if left else (2, n))), dtype, 1)
            assert_by_loops(TriangularSolve(left, True), x, b)
            assert_by_loops(TriangularSolve(left, False, True, True, True), x, b)


def test_a_small_matrix_without_factors():
    x = np.array([[0.0, 1, 2], [0, 3, 4], [5, 6, 7]])
    assert_by_loops(LU(), x)
    assert_by_loops(LU(), np.zeros((3, 3)))
    assert_by_loops(LU(), np.full((3, 3), np.nan))
    assert_by_loops(Cholesky(), np.array([[1.0, 9], [2.0, 1.0]]))
    assert_by_loops(LUPivotsToPermutation(4), np.array([3, 1, 2], np.int32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("perturb", [True, False])
def test_tridiagonal_solves(dtype, perturb):
    for n, width in ((1, 2), (2, 1), (7, 3)):
        lower, diagonal, upper = (numbers((BATCH, n), dtype, i) for i in range(3))
        b = numbers((BATCH, n, width), dtype, 3)
        upper[:, -1] = lower[:, 0] = np.nan  # outside of the matrix
        op = TridiagonalSolve(perturb)
        assert_by_loops(op, lower, diagonal, upper, b)
        if perturb:  # LAPACK does not, so that few matrices are lanes as well
            assert_by_loops(op, lower[0], diagonal[0], upper[0], b[0])
            assert_by_loops(op, lower[:3], diagonal[:3], upper[:3], b[:3])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_tridiagonal_matrices_without_an_inverse(dtype):
    zero, one = np.zeros((BATCH, 5), dtype), np.ones((BATCH, 5), dtype)
    b = numbers((BATCH, 5, 1), dtype)
    d = one.copy()
    d[4] = 0
    found = run(TridiagonalSolve(), zero, d, zero, b)[0]
    assert np.isnan(found[4]).all()
    assert_close(np.delete(found, 4, 0), np.delete(b, 4, 0))
    assert np.isfinite(run(TridiagonalSolve(True), zero, d, zero, b)[0]).all()
    d[7, 2] = np.nan
    found = run(TridiagonalSolve(True), one, d, one, b)[0]
    assert np.isnan(found[7]).any() and np.isfinite(np.delete(found, 7, 0)).all()


def test_only_a_triangle_is_read():
    x = positive((BATCH, 6, 6), "float64")
    spoilt = np.where(np.tri(6, dtype=bool), x, np.nan)
    assert_close(run(Cholesky(), spoilt)[0], run(Cholesky(), x)[0])
    b = numbers((BATCH, 6, 2), "float64")
    unit = spoilt.copy()
    unit[:, range(6), range(6)] = np.nan
    solve = TriangularSolve(True, True, unit_diagonal=True)
    assert_close(run(solve, unit, b)[0], run(solve, x, b)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_fails_is_nan(dtype):
    x = positive((BATCH, 5, 5), dtype)
    x[3] = -x[3]
    x[20, 2, 1] = np.nan
    x[36, 4, 4] = 0
    factor = run(Cholesky(), x)[0]
    failed = np.isnan(factor).all((-1, -2))
    assert np.flatnonzero(failed).tolist() == [3, 20, 36]
    assert not np.isnan(factor[~failed]).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_matrices(dtype):
    x = numbers((BATCH, 5, 5), dtype)
    x[0], x[1, :, 2], x[2, 4] = 0, 0, x[2, 1]
    assert_by_loops(LU(), x)
    x[5, 1, 1] = np.nan
    factors, pivots, order = run(LU(), x)
    assert np.isnan(factors[5]).any() and not np.isnan(np.delete(factors, 5, 0)).any()
    assert (np.sort(order) == np.arange(5)).all()
    assert (pivots >= np.arange(5)).all() and (pivots < 5).all()
    b = numbers((BATCH, 5, 1), dtype)
    found = np.asarray(native(jnp.linalg.solve, x, b))
    assert not np.isfinite(found[0]).any() and np.isfinite(found[6:]).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_reflections_of_extreme_numbers(dtype):
    limits = np.finfo(dtype)
    x = numbers((BATCH, 5, 5), dtype)
    x[0] *= limits.max / 100
    x[1] *= limits.tiny
    x[2] = np.triu(x[2])
    x[3, :, 0] = [1, limits.tiny, 0, 0, 0]
    x[4] = 0
    x[5, 2, 2] = np.nan
    packed, taus = run(Geqrf(), x)
    expected, factors = Geqrf().eval(x)
    scale = abs(np.where(np.isnan(expected), 1, expected)).max((-1, -2), keepdims=True)
    bound = 300 * limits.eps
    scale = np.maximum(scale, limits.tiny)
    np.testing.assert_allclose(packed / scale, expected / scale, atol=bound, rtol=0)
    np.testing.assert_allclose(taus, factors, atol=bound, rtol=0)


def test_few_lanes_are_a_vector_that_a_loop_carries():
    double, lanes = np.dtype("float64"), 4  # as many are else kept one by one
    machine = LoopMachine(ScalarBuilder(), double, host().tuning, False, lanes, lanes)
    memory = Buffer("matrix", double, 3 * lanes)
    matrix = MemoryMatrix(memory, machine, (3, 1), double, MatrixView())
    matrix[0, 0] = matrix[:, 0].sum()
    region, module = Region(tuple(machine.body)), Module.of(host())
    check_region(region, [memory])
    emit_region(module, "sums", region, region_schedule(region, host()), [memory], {})
    assert "phi <4 x double>" in module.text()


def test_few_or_large_matrices_go_to_lapack():
    for shape in ((3, 9, 9), (100, 40, 40), (9, 9), (0, 6, 6), (100, 0, 0)):
        aval = curta.typeof(np.zeros(shape, "float32"))
        assert matrix_loop(Cholesky(), [aval], host()) is None


def test_batches_are_cut_by_shape():
    x = positive((700, 20, 20), "float32")
    closed = matrix_loop(Cholesky(), [curta.typeof(x)], host())
    (item,) = lower_to_items(closed.jaxpr, host()).items
    assert 1 < item.region.chunk.extent <= 16
    assert_same(Cholesky(), x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_factored_as_singles(dtype):
    x = jnp.asarray(positive((BATCH, 5, 5), "float32"), dtype)
    factor = native(lambda x: Cholesky()(x), x)
    assert factor.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(
        factor.astype("float32"), np.linalg.cholesky(x.astype("float32")), rtol=3e-2
    )


def test_operands_that_do_not_lie_in_order():
    x = numbers((6, BATCH, 6), "float64").swapaxes(0, 1)
    x = x @ adjoint(x) + np.eye(6)
    turned = np.asfortranarray(x)
    found = native(lambda x: jnp.linalg.inv(x[::-1].mT), turned)
    assert_close(np.asarray(found), np.linalg.inv(x[::-1].swapaxes(1, 2)))


def test_loops_vmap_and_gradients():
    a, b = positive((BATCH, 9, 9), "float64"), numbers((3, BATCH, 9), "float64")

    def total(a):
        def step(x, b):
            return curta.vmap(jnp.linalg.solve)(a, x + b), None

        return lax.scan(step, jnp.zeros_like(b[0]), b)[0].sum()

    def expected(a):
        x = np.zeros_like(b[0])
        for part in b:
            x = np.linalg.solve(a, (x + part)[..., None])[..., 0]
        return x.sum()

    slope = native(curta.grad(total), a)
    step = np.zeros_like(a)
    step[5, 2, 3] = 1e-5
    difference = (expected(a + step) - expected(a - step)) / 2e-5
    np.testing.assert_allclose(slope[5, 2, 3], difference, rtol=1e-5)
