"""Compiled decompositions: LAPACK called by native code, against the `eval` rules."""

import numpy as np
import pytest
from tests.compiler.programs import native

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.rewrite.decompositions import decomposed
from curta.compiler.rewrite.lapack_ops import Lapack
from curta.compiler.rewrite.matrix_loops import matrix_loop
from curta.compiler.rewrite.prepare import prepare
from curta.primitives.linalg import (
    LU,
    QR,
    SVD,
    Cholesky,
    CholeskyUpdate,
    Eig,
    Eigh,
    Geqrf,
    Hessenberg,
    HouseholderProduct,
    LUPivotsToPermutation,
    Ormqr,
    Schur,
    SymmetricProduct,
    TriangularSolve,
    Tridiagonal,
    TridiagonalSolve,
)

DTYPES = ["float32", "float64", "complex64", "complex128"]


@pytest.fixture(autouse=True)
def _wide():
    with curta.enable_x64(True):
        yield


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def adjoint(x):
    return x.conj().swapaxes(-1, -2)


def positive(shape, dtype):
    x = numbers(shape, dtype)
    return (x @ adjoint(x) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def run(op, *args):
    outs = native(lambda *args: op(*args), *args)
    return [np.asarray(x) for x in (outs if op.multiple_results else [outs])]


def evaluated(op, *args):
    outs = op.eval(*args)
    return list(outs) if op.multiple_results else [outs]


def assert_close(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    single = found.dtype in (np.float32, np.complex64)
    bound = (1e-4 if single else 1e-12) * max(1, np.nanmax(abs(expected), initial=0))
    np.testing.assert_allclose(found, expected, atol=bound, rtol=0)


def assert_same(op, *args):
    for x, y in zip(run(op, *args), evaluated(op, *args), strict=True):
        assert_close(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_factorisations(dtype, batch):
    assert_same(Cholesky(), positive((*batch, 9, 9), dtype))
    for m, n in ((9, 9), (11, 3), (3, 10)):
        x = numbers((*batch, m, n), dtype)
        assert_same(LU(), x)
        assert_same(Geqrf(), x)
    packed, taus = Geqrf().eval(numbers((*batch, 9, 4), dtype))
    assert_same(HouseholderProduct(), packed, taus)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_triangular_solves(dtype, left, lower):
    a = numbers((2, 9, 9), dtype) + 9 * np.eye(9, dtype=dtype)
    b = numbers((2, 9, 3) if left else (2, 5, 9), dtype, 1)
    for transposed, conjugated in ((0, 0), (1, 0), (1, 1), (0, 1)):
        for unit in (False, True):
            how = bool(transposed), bool(conjugated), unit
            assert_same(TriangularSolve(left, lower, *how), a, b)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5)])
@pytest.mark.parametrize("full", [True, False])
def test_orthogonal_factors(dtype, shape, full):
    x = numbers(shape, dtype)
    least = min(shape[-2:])
    assert_same(QR(False, full), x)
    q, r, order = run(QR(True, full), x)
    assert_close(q @ r, np.take_along_axis(x, order[..., None, :], -1))
    s, u, vh = run(SVD(full), x)
    assert_close(s, evaluated(SVD(full), x)[0])
    assert [x.shape for x in (s, u, vh)] == [
        out.shape for out in evaluated(SVD(full), x)
    ]
    assert_close(
        (u[..., :least] * s[..., None, :].astype(dtype)) @ vh[..., :least, :], x
    )
    assert_same(SVD(compute_uv=False), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues(dtype):
    x = positive((2, 5, 5), dtype)
    for lower in (True, False):
        given = np.tril(x) if lower else np.triu(x)
        v, w = run(Eigh(lower), given)
        assert_close(w, evaluated(Eigh(lower), given)[1])
        assert_close((v * w[:, None, :].astype(dtype)) @ adjoint(v), x)
    part = Eigh(subset_by_index=(1, 3))
    assert_close(run(part, x)[1], evaluated(part, x)[1])
    x = numbers((2, 4, 4), dtype)
    t, z = run(Schur(), x)
    assert_close(z @ t @ adjoint(z), x)
    assert len(run(Schur(False), x)) == 1


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_eigenvalues_of_any_matrices(dtype):
    x = numbers((2, 5, 5), dtype)
    w, left, right = run(Eig(), x)
    assert_close(x @ right, right * w[:, None, :])
    assert_close(adjoint(left) @ x, adjoint(left * w.conj()[:, None, :]))
    assert_close(np.linalg.norm(left, axis=-2), np.ones((2, 5), left.real.dtype))
    assert_close(run(Eig(False, False), x)[0], w)
    x[0, 1, 2] = np.inf
    w, right = run(Eig(False), x)
    assert np.isnan(w[0]).all() and np.isnan(right[0]).all()
    assert_close(x[1] @ right[1], right[1] * w[1])


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_condensed_forms_and_reflections(dtype):
    x = positive((2, 5, 5), dtype)
    assert_same(Hessenberg(), numbers((2, 5, 5), dtype))
    for lower in (True, False):
        assert_same(Tridiagonal(lower), x)
    packed, taus = Geqrf().eval(numbers((2, 6, 4), dtype))
    for left in (True, False):
        c = numbers((2, 6, 3) if left else (2, 3, 6), dtype, 1)
        for transposed in (True, False):
            assert_same(Ormqr(left, transposed), packed, taus, c)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_tridiagonal_solves(dtype):
    lower, diagonal, upper = (numbers((2, 6), dtype, i) for i in range(3))
    b = numbers((2, 6, 3), dtype, 3)
    assert_same(TridiagonalSolve(), lower, diagonal + 4, upper, b)
    found = run(TridiagonalSolve(), 0 * lower, 0 * diagonal, upper, b)[0]
    assert not np.isfinite(found).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_updates(dtype, batch):
    a, c = numbers((*batch, 5, 3), dtype), numbers((*batch, 5, 5), dtype, 1)
    assert_same(SymmetricProduct(2.0, 0.5), a, c)
    for n in (1, 5, 40):
        r = np.triu(numbers((*batch, n, n), dtype)) + 5 * np.eye(n, dtype=dtype)
        assert_same(CholeskyUpdate(), r, numbers((*batch, n), dtype))


def test_updates_by_nothing_and_of_zeros():
    r = np.triu(numbers((2, 3, 3), "float64"))
    r[:, 0, 0], r[1, 1, 1] = -2, 0
    assert_close(run(CholeskyUpdate(), r, np.zeros((2, 3)))[0], r)
    w = np.array([[3e200, 1, 1], [np.nan, 0, 1]])
    found = run(CholeskyUpdate(), r, w)[0]
    np.testing.assert_allclose(found[0, 0, 0], -0.0 + 3e200)
    assert np.isnan(found[1]).any()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("batch", [(130,), (40, 7)])
@pytest.mark.parametrize("n", [1, 3, 4])
def test_many_small_matrices_are_lanes(dtype, batch, n):
    x, b = positive((*batch, n, n), dtype), numbers((*batch, n, 2), dtype)
    factors, pivots, _ = run(LU(), x)
    x[-1] = -x[-1]
    for op, args in (
        (Cholesky(), (x,)),
        (LU(), (x,)),
        (LUPivotsToPermutation(n), (pivots,)),
        (TriangularSolve(True, True), (factors, b)),
    ):
        assert matrix_loop(op, [curta.typeof(a) for a in args], host()) is not None
        assert_same(op, *args)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("shape", [(128, 33), (33, 128), (2, 65, 64)])
def test_orthogonal_factors_by_blocks(dtype, shape):
    assert_same(QR(False, False), numbers(shape, dtype))


def test_columns_a_power_of_two_apart():
    x = numbers((128, 20), "float64")
    assert_same(Geqrf(), x)
    assert_same(SVD(False, False), x)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_vectors_that_nobody_wants_are_not_computed(dtype):
    x = numbers((20, 20), dtype)
    for take, wanted in (
        (lambda x: Eigh()(x + adjoint(x))[1], np.linalg.eigvalsh(x + adjoint(x))),
        (lambda x: SVD(True, True)(x)[0], np.linalg.svd(x)[1]),
        (lambda x: jnp.sort(Eig()(x)[0]), np.sort(np.linalg.eigvals(x))),
    ):
        closed = curta.make_jaxpr(take)(x)
        (call,) = [
            e.op for e in prepare(closed, host()).eqns if isinstance(e.op, Lapack)
        ]
        assert b"N" in call.arguments and b"V" not in call.arguments
        assert_close(np.asarray(native(take, x)), wanted)


def test_pivots_to_permutations():
    pivots = np.array([[2, 1, 2], [0, 3, 3]], np.int32)
    assert_same(LUPivotsToPermutation(4), pivots)
    wild = np.array([-1, 9], np.int32)  # no memory but that of the result is touched
    assert sorted(run(LUPivotsToPermutation(3), wild)[0]) == [0, 1, 2]


def test_what_fails_is_nan():
    x = positive((3, 9, 9), "float64")
    x[1] = -x[1]
    x[2, 0, 0] = np.nan
    factor = run(Cholesky(), x)[0]
    assert np.isnan(factor[1]).all() and not np.isnan(factor[0]).any()
    assert np.isnan(factor[2]).any()
    for op in (SVD(), Eigh()):
        outs = run(op, x)
        assert all(np.isnan(out[2]).all() for out in outs)
        assert not any(np.isnan(out[:2]).any() for out in outs)


def test_singular_matrices():
    assert_same(LU(), np.ones((2, 9, 9)))
    singular, b = np.array([[0.0, 0.0], [1.0, 2.0]]), np.ones((2, 1))
    found = run(TriangularSolve(True, True), singular, b)[0]
    assert not np.isfinite(found).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_factored_as_singles(dtype):
    x = jnp.asarray(positive((3, 3), "float32"), dtype)
    factor = native(lambda x: Cholesky()(x), x)
    assert factor.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(
        factor.astype("float32"), np.linalg.cholesky(x.astype("float32")), rtol=2e-2
    )


def test_empty_matrices_have_no_routine():
    for op, shape in ((Cholesky(), (2, 0, 0)), (QR(), (0, 3, 2)), (LU(), (0, 2))):
        x = np.zeros(shape, "float32")
        assert decomposed(op, [curta.typeof(x)], host()) is None
        outs = curta.jit(lambda x, op=op: op(x))(x)
        expected = evaluated(op, x)
        outs = outs if op.multiple_results else [outs]
        assert [o.shape for o in outs] == [e.shape for e in expected]


def test_batches_are_cut_by_shape():
    x = positive((600, 30, 30), "float32")
    arguments = decomposed(Cholesky(), [curta.typeof(x)], host()).eqns
    op = next(e.op for e in arguments if isinstance(e.op, Lapack))
    assert 1 < op.routine(host(), curta.typeof(x)).chunks <= 16
    assert_same(Cholesky(), x)
    order = LUPivotsToPermutation(3)
    assert_same(order, np.array([[1, 2], [0, 1], [2, 2]], np.int32))


def test_filters_and_solves_inside_loops_are_native():
    a, b = positive((12, 12), "float64"), numbers((3, 12, 10), "float64")

    def filtered(a, bs):
        def step(covariance, b):
            gain = jnp.linalg.solve(covariance + b @ b.T, b)
            return covariance - gain @ gain.T * 0.01, jnp.linalg.cholesky(covariance)

        return lax.scan(step, a, bs)

    def expected(a, bs):
        factors = []
        for b in bs:
            factors.append(np.linalg.cholesky(a))
            gain = np.linalg.solve(a + b @ b.T, b)
            a = a - gain @ gain.T * 0.01
        return a, np.stack(factors)

    for x, y in zip(native(filtered, a, b), expected(a, b), strict=True):
        assert_close(np.asarray(x), y)
    slope = native(curta.grad(lambda a: filtered(a, b)[0].sum()), a)
    step = np.zeros((12, 12))
    step[3, 3] = 1e-6
    values = [expected(a + s, b)[0].sum() for s in (step, -step)]
    np.testing.assert_allclose(slope[3, 3], (values[0] - values[1]) / 2e-6, rtol=1e-5)


def test_vmap_of_solves():
    a, b = positive((50, 3, 3), "float32"), numbers((50, 3), "float32")
    found = native(curta.vmap(jnp.linalg.solve), a, b)
    assert_close(np.asarray(found), np.linalg.solve(a, b[..., None])[..., 0])


@pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
@pytest.mark.parametrize("count", [1, 63, 200])
def test_permutations_of_rows_that_were_exchanged_before(n, count):
    """LAPACK's pivots never precede their row; those of users may."""
    pivots = np.random.default_rng(n).integers(0, n, (count, n)).astype(np.int32)
    want = np.tile(np.arange(n), (count, 1))
    for row, order in zip(pivots, want, strict=True):
        for i, p in enumerate(row):
            order[[i, p]] = order[[p, i]]
    f = curta.jit(lambda p: curta.lax.linalg.lu_pivots_to_permutation(p, n))
    np.testing.assert_array_equal(f(pivots), want)
    looped = curta.jit(lambda p: curta.lax.map(f, p))
    np.testing.assert_array_equal(looped(pivots), want)
