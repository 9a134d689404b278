"""Large matrices, failures and mistakes, which the conformance tests do not cover."""

import numpy as np
import pytest
import scipy.linalg

import curta
import curta.numpy as jnp
from curta import lax
from curta.test_util import check_grads

RNG = np.random.default_rng(0)


def random(*shape, dtype="float64"):
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("shape", [(80, 80), (70, 40), (40, 70)], ids=str)
def test_lu_in_blocks_is_lapacks(shape, dtype):
    x = random(*shape, dtype=dtype)
    factors, pivots, permutation = lax.linalg.lu(x)
    wanted, wanted_pivots = scipy.linalg.lu_factor(x)
    np.testing.assert_array_equal(pivots, wanted_pivots)
    np.testing.assert_allclose(factors, wanted, 1e-2, 1e-3)
    lower = np.tril(factors, -1)[:, : min(shape)] + np.eye(shape[0], min(shape))
    upper = np.triu(factors)[: min(shape)]
    np.testing.assert_allclose(lower @ upper, x[np.asarray(permutation)], 1e-3, 1e-3)


@pytest.mark.parametrize("transpose", [0, 1, 2])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_solve_in_blocks_is_lapacks(lower, transpose):
    a = (random(80, 80, dtype="complex64") / 80 + 2 * np.eye(80)).astype("complex64")
    b = random(80, 3, dtype="complex64")
    got = lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=lower,
        transpose_a=transpose > 0,
        conjugate_a=transpose == 2,
    )
    wanted = scipy.linalg.solve_triangular(a, b, transpose, lower)
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-5)


def test_one_triangular_matrix_for_a_batch_is_not_repeated():
    a, b = np.eye(3, dtype=np.float32), np.ones((5, 3), np.float32)
    solve = curta.vmap(lambda x: lax.linalg.triangular_solve(a, x, left_side=True))
    assert "f32[5,3,3]" not in str(curta.make_jaxpr(solve)(b))
    np.testing.assert_array_equal(solve(b), b)


def test_only_the_matrices_that_fail_are_nan():
    good = np.eye(2, dtype=np.float32)
    x = np.stack([good, -good, good])
    got = np.asarray(lax.linalg.cholesky(x))
    assert np.isnan(got[1]).any()
    np.testing.assert_array_equal(got[[0, 2]], x[[0, 2]])
    x[1] = np.nan
    for out in lax.linalg.svd(x) + tuple(lax.linalg.eig(x)):
        assert np.isnan(out[1]).all()
        assert np.isfinite(out[0]).all()


@pytest.mark.parametrize("n", [2, 9])
@pytest.mark.parametrize("wrap", [curta.jit, lambda f: f])
def test_both_parts_of_complex_numbers_are_nan(n, wrap):
    x = np.full((n, n), np.nan, np.complex64)
    for function in lax.linalg.cholesky, lax.linalg.eig, lax.linalg.schur:
        for out in curta.tree_util.tree_leaves(wrap(function)(x)):
            some = out[..., -1, :1] if out.ndim > 1 else out
            assert np.isnan(some.real).all() and np.isnan(some.imag).all()


def test_pivoting_takes_the_greatest_columns_first():
    x = random(5, 4, dtype="float32")
    q, r, order = lax.linalg.qr(x, pivoting=True, full_matrices=False)
    wanted = scipy.linalg.qr(x, mode="economic", pivoting=True)
    for got, want in zip((q, r, order), wanted, strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)


def test_left_eigenvectors():
    x = random(4, 4, dtype="float32")
    w, left, right = (np.asarray(y) for y in lax.linalg.eig(x))
    np.testing.assert_allclose(x @ right, right * w, 1e-3, 1e-3)
    rows = left.conj().T
    np.testing.assert_allclose(rows @ x, w[:, None] * rows, 1e-3, 1e-3)
    np.testing.assert_allclose(np.linalg.norm(left, axis=0), 1, 1e-4)


def test_householder_product_makes_q():
    x = random(4, 3, dtype="complex64")
    q = lax.linalg.householder_product(*lax.linalg.geqrf(x))
    np.testing.assert_allclose(q, np.linalg.qr(x)[0], 1e-4, 1e-5)


def test_symmetric_product():
    a, c = random(3, 2, dtype="float32"), np.eye(3, dtype=np.float32)
    settings = {"alpha": 2.0, "beta": 3.0, "symmetrize_output": True}
    got = lax.linalg.symmetric_product(a, c, **settings)
    np.testing.assert_allclose(got, 2 * a @ a.T + 3 * c, 1e-5, 1e-5)


def test_parts_of_decompositions():
    x = random(3, 3, dtype="float32")
    h = x + x.T
    v, w = lax.linalg.eigh(h, subset_by_index=(1, 3))
    np.testing.assert_allclose(w, np.linalg.eigvalsh(h)[1:], 1e-4, 1e-4)
    assert v.shape == (3, 2)
    with pytest.raises(NotImplementedError, match="partial eigen decomposition"):
        curta.jvp(lambda x: lax.linalg.eigh(x, subset_by_index=(1, 3)), (h,), (h,))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lax.linalg.lu(x)[0],
        lambda x: lax.linalg.triangular_solve(x, x, lower=True, unit_diagonal=True),
        lambda x: lax.linalg.qr(x[:, :2], full_matrices=True),
        lambda x: lax.linalg.qr(x, pivoting=True)[1],
    ],
)
def test_second_derivatives(function):
    with curta.enable_x64(True):
        x = random(3, 3) + 3 * np.eye(3)
        check_grads(function, (x,), 2, atol=1e-3, rtol=1e-3)


def test_they_run_in_loops_of_compiled_code():
    def body(x, _):
        return lax.linalg.cholesky(x @ x.T + jnp.eye(2)), None

    start = np.eye(2, dtype=np.float32)
    out, _ = curta.jit(lambda x: lax.scan(body, x, length=3))(start)
    for _ in range(3):
        start = np.linalg.cholesky(start @ start.T + np.eye(2))
    np.testing.assert_allclose(out, start, 1e-5)


ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: lax.linalg.cholesky(ONES, symmetrize_input=False),
            ValueError,
            "The input to cholesky must be a square matrix",
        ),
        (lambda: lax.linalg.eig(ONES), ValueError, "The input to eig must be a square"),
        (lambda: lax.linalg.qr(ONES[0]), TypeError, "must have rank at least 2"),
        (
            lambda: lax.linalg.qr(np.ones((2, 2), int)),
            TypeError,
            "qr does not accept dtype int",
        ),
        (
            lambda: lax.linalg.triangular_solve(ONES, ONES),
            ValueError,
            "The first input to triangular_solve must be a square",
        ),
        (
            lambda: lax.linalg.triangular_solve(np.eye(2, dtype="float32"), ONES),
            ValueError,
            "Incompatible shapes",
        ),
        (
            lambda: lax.linalg.svd(ONES, subset_by_index=(0, 1)),
            ValueError,
            "full_matrices and subset_by_index",
        ),
        (
            lambda: lax.linalg.lu_pivots_to_permutation(np.zeros(3, np.int32), 2),
            ValueError,
            "Output permutation size 2",
        ),
        (
            lambda: curta.jvp(lax.linalg.eig, (np.eye(2),), (np.eye(2),)),
            NotImplementedError,
            "enable_eigvec_derivs",
        ),
        (
            lambda: curta.jvp(lax.linalg.svd, (ONES,), (ONES,)),
            NotImplementedError,
            "not implemented for full matrices",
        ),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()
