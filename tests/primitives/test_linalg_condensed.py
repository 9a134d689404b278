"""Schur, Hessenberg and tridiagonal forms, reflections applied, updated factors."""

import numpy as np
import pytest
import scipy.linalg

import curta
from curta import lax
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.complex64, np.float64, np.complex128]


@pytest.fixture(autouse=True)
def double():
    with curta.enable_x64(True):
        yield


def random(*shape, dtype):
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def close(got, want, dtype, scale=50):
    tolerance = scale * np.finfo(dtype).eps
    np.testing.assert_allclose(got, want, tolerance, tolerance)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (2, 3, 4, 4), (0, 3, 3), (0, 0)])
def test_schur(shape, dtype):
    a = random(*shape, dtype=dtype)
    t, z = map(np.asarray, lax.linalg.schur(a))
    assert t.dtype == z.dtype == dtype
    close(z @ t @ adjoint(z), a, dtype)
    close(z @ adjoint(z), np.broadcast_to(np.eye(shape[-1]), shape), dtype)
    assert not np.tril(t, -1 if np.dtype(dtype).kind == "c" else -2).any()
    (alone,) = lax.linalg.schur(a, compute_schur_vectors=False)
    np.testing.assert_array_equal(alone, t)
    np.testing.assert_array_equal(curta.jit(lax.linalg.schur)(a)[0], t)


@pytest.mark.parametrize("dtype", DTYPES)
def test_hessenberg(dtype):
    a = random(2, 5, 5, dtype=dtype)
    packed, taus = map(np.asarray, lax.linalg.hessenberg(a))
    h = np.triu(packed, -1)
    q = np.zeros_like(a)
    q[:, 0, 0] = 1
    reflections = lax.linalg.householder_product(packed[:, 1:, :-1], taus)
    q[:, 1:, 1:] = reflections
    close(q @ h @ adjoint(q), a, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_tridiagonal(dtype, lower):
    a = random(5, 5, dtype=dtype)
    a = a + adjoint(a)
    _, d, e, taus = map(np.asarray, lax.linalg.tridiagonal(a, lower=lower))
    assert d.dtype == e.dtype == a.real.dtype and taus.dtype == dtype
    t = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    close(np.linalg.eigvalsh(t), np.linalg.eigvalsh(a), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 7])
def test_tridiagonal_solve(dtype, size):
    dl, d, du = random(3, 2, size, dtype=dtype)
    b = random(2, size, 3, dtype=dtype)
    a = np.stack(
        [
            np.diag(d[i]) + np.diag(dl[i, 1:], -1) + np.diag(du[i, :-1], 1)
            for i in range(2)
        ]
    )
    want = np.linalg.solve(a, b)
    for solve in lax.linalg.tridiagonal_solve, curta.vmap(lax.linalg.tridiagonal_solve):
        close(solve(dl, d, du, b), want, dtype, 2000)


def test_tridiagonal_solve_needs_row_exchanges():
    one, zero = np.ones(3), np.zeros(3)
    a = np.diag(one[1:], 1) + np.diag(one[1:], -1) + np.diag([0.0, 0, 1])
    x = lax.linalg.tridiagonal_solve(one, np.array([0.0, 0, 1]), one, one[:, None])
    np.testing.assert_allclose(a @ x, one[:, None], atol=1e-12)
    singular = lax.linalg.tridiagonal_solve(zero, zero, zero, one[:, None])
    assert not np.isfinite(singular).any()
    perturbed = lax.linalg.tridiagonal_solve(
        zero, zero, zero, one[:, None], perturb_singular=True
    )
    assert np.isfinite(perturbed).all()


def test_tridiagonal_solve_has_derivatives():
    dl, du, b = (random(4, dtype=np.float64) for _ in range(3))
    d = 4 + random(4, dtype=np.float64)
    check_grads(
        lambda *args: lax.linalg.tridiagonal_solve(*args[:3], args[3][:, None]),
        (dl, d, du, b),
        2,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr(dtype, left, transpose):
    a = random(2, 5, 3, dtype=dtype)
    c = random(2, *((5, 4) if left else (4, 5)), dtype=dtype)
    packed, taus = lax.linalg.geqrf(a)
    q = np.asarray(lax.linalg.qr(a)[0])
    q = adjoint(q) if transpose else q
    got = lax.linalg.ormqr(packed, taus, c, left=left, transpose=transpose)
    close(got, q @ c if left else c @ q, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cholesky_update(dtype):
    a, w = random(4, 4, dtype=dtype), random(4, dtype=dtype)
    a = a @ a.T + np.eye(4, dtype=dtype)
    r = np.linalg.cholesky(a).T
    got = np.asarray(lax.linalg.cholesky_update(r, w))
    close(np.triu(got), got, dtype)
    close(got.T @ got, a + np.outer(w, w), dtype, 200)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3)])
def test_qdwh(dtype, shape):
    a = random(*shape, dtype=dtype)
    u, h, _, converged = lax.linalg.qdwh(a)
    want_u, want_h = scipy.linalg.polar(a)
    close(u, want_u, dtype, 200)
    close(h, want_h, dtype, 200)
    assert converged
    part = lax.linalg.qdwh(a, dynamic_shape=(3, 2))
    close(np.asarray(part[0])[:3, :2], scipy.linalg.polar(a[:3, :2])[0], dtype, 200)


def test_qdwh_ends_when_it_is_told_to():
    a = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    steps = {n: lax.linalg.qdwh(a, max_iterations=n) for n in (0, 1, 2, 9)}
    assert [int(count) for _, _, count, _ in steps.values()] == [0, 1, 2, 4]
    assert [bool(x[3]) for x in steps.values()] == [False, False, False, True]
    want, _ = scipy.linalg.polar(a)
    off = [abs(np.asarray(x[0]) - want).max() for x in steps.values()]
    assert off == sorted(off, reverse=True)
    _, _, count, converged = lax.linalg.qdwh(a, eps=1e-2)
    assert converged and count == 2
    bad = np.array([[1.0, 2.0], [3.0, np.nan]], np.float32)
    assert not lax.linalg.qdwh(bad)[3]


def test_qdwh_of_less_than_full_rank_is_zero_beyond_the_rows():
    a = np.zeros((4, 3), np.float32)
    a[1, 1] = 3
    u, h, _, _ = lax.linalg.qdwh(a)
    np.testing.assert_array_equal(u, a / 3)
    np.testing.assert_allclose(h, np.diag([0, 3, 0]), atol=1e-6)


def test_symmetric_product_has_derivatives():
    a, c = random(3, 2, dtype=np.float64), random(3, 3, dtype=np.float64)

    def product(a, c):
        return lax.linalg.symmetric_product(a, c + c.T, alpha=2.0, beta=0.5)

    check_grads(product, (a, c), 2)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: lax.linalg.schur(np.ones((2, 3))),
            ValueError,
            "must be a square matrix",
        ),
        (
            lambda: lax.linalg.schur(np.eye(2), sort_eig_vals=True),
            NotImplementedError,
            "sort feature",
        ),
        (
            lambda: lax.linalg.hessenberg(np.ones((2, 3))),
            ValueError,
            "Argument to Hessenberg reduction must have shape",
        ),
        (
            lambda: lax.linalg.tridiagonal(np.ones((2, 3))),
            ValueError,
            "The input to tridiagonal must be a square matrix",
        ),
        (
            lambda: lax.linalg.tridiagonal_solve(
                np.ones(2), np.ones(3), np.ones(2), np.ones((3, 1))
            ),
            TypeError,
            "all diagonal arguments have the same",
        ),
        (
            lambda: lax.linalg.cholesky_update(np.eye(2), np.ones(3)),
            ValueError,
            "Rank-1 update to Cholesky decomposition",
        ),
        (
            lambda: lax.linalg.ormqr(np.eye(2), np.ones(2), np.ones((3, 2))),
            ValueError,
            "ormqr with left=True expects c",
        ),
        (lambda: lax.linalg.qdwh(np.ones((2, 3))), ValueError, "at least as many rows"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()
