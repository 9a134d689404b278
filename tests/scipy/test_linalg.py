"""Linear algebra against SciPy: factors, solutions, functions, named matrices."""

import numpy as np
import pytest
import scipy.linalg

import curta
import curta.numpy as jnp
from curta.scipy import linalg
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


@pytest.fixture(autouse=True)
def double():
    with curta.enable_x64(True):
        yield


def random(*shape, dtype=np.float64):
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(got, want, dtype=np.float64, scale=500):
    tolerance = scale * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def positive(n, dtype, *batch):
    a = random(*batch, n, n, dtype=dtype)
    return (a @ adjoint(a) + np.eye(n)).astype(dtype)


# --- factorisations -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(dtype, lower):
    a = positive(4, dtype)
    close(linalg.cholesky(a, lower), scipy.linalg.cholesky(a, lower), dtype)
    b = random(4, 2, dtype=dtype)
    x = linalg.cho_solve(linalg.cho_factor(a, lower), b)
    close(a @ x, b, dtype, 5000)
    close(linalg.cho_solve(linalg.cho_factor(a, lower), b[:, 0]), x[:, 0], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 4), (2, 3, 3)])
def test_lu(dtype, shape):
    a = random(*shape, dtype=dtype)
    for got, want in zip(linalg.lu(a), scipy.linalg.lu(a)):
        close(got, want, dtype)
    for got, want in zip(linalg.lu(a, permute_l=True), scipy.linalg.lu(a, True)):
        close(got, want, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trans", [0, 1, 2])
def test_lu_solve(dtype, trans):
    a, b = random(4, 4, dtype=dtype), random(4, 2, dtype=dtype)
    turned = [a, a.T, adjoint(a)][trans]
    x = linalg.lu_solve(linalg.lu_factor(a), b, trans)
    close(turned @ x, b, dtype, 5000)
    close(linalg.lu_solve(linalg.lu_factor(a), b[:, 1], trans), x[:, 1], dtype, 5000)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("mode", ["full", "economic", "r"])
@pytest.mark.parametrize("pivoting", [False, True])
def test_qr(dtype, shape, mode, pivoting):
    a = random(*shape, dtype=dtype)
    got = linalg.qr(a, mode=mode, pivoting=pivoting)
    want = scipy.linalg.qr(a, mode=mode, pivoting=pivoting)
    assert len(got) == len(want)
    if pivoting:
        np.testing.assert_array_equal(got[-1], want[-1])
    if mode != "r":
        columns = a[:, got[-1]] if pivoting else a
        close(np.asarray(got[0]) @ np.asarray(got[1]), columns, dtype)


@pytest.mark.parametrize("mode", ["left", "right"])
@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5)])
def test_qr_multiply(mode, conjugate, pivoting, shape):
    a = random(*shape, dtype=np.complex128)
    k = min(shape)
    c = random(*((k, 2) if mode == "left" else (2, shape[0])), dtype=np.complex128)
    got = linalg.qr_multiply(a, c, mode, pivoting, conjugate)
    q = np.asarray(linalg.qr(a, mode="economic", pivoting=pivoting)[0])
    q = q.conj() if conjugate else q
    close(got[0], q @ c if mode == "left" else c @ q)
    assert len(got) == 2 + pivoting


@pytest.mark.parametrize("dtype", DTYPES)
def test_hessenberg_and_schur(dtype):
    a = random(5, 5, dtype=dtype)
    h, q = map(np.asarray, linalg.hessenberg(a, calc_q=True))
    assert not np.tril(h, -2).any()
    close(q @ h @ adjoint(q), a, dtype)
    for output in "real", "complex":
        t, z = map(np.asarray, linalg.schur(a, output))
        close(z @ t @ adjoint(z), a, dtype)
    t, z = map(np.asarray, linalg.rsf2csf(*linalg.schur(a)))
    assert not np.tril(t, -1).any()
    close(z @ t @ adjoint(z), a, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape, side", [((4, 4), "right"), ((5, 3), "right"), ((3, 5), "left")]
)
def test_polar(dtype, shape, side):
    a = random(*shape, dtype=dtype)
    for method in "qdwh", "svd":
        for got, want in zip(
            linalg.polar(a, side, method=method), scipy.linalg.polar(a, side)
        ):
            close(got, want, dtype)


@pytest.mark.parametrize("shape, side", [((5, 3), "right"), ((2, 3, 5), "left")])
def test_polar_takes_as_many_steps_as_are_asked_for(shape, side):
    a = random(*shape, dtype=np.float32)
    want = linalg.polar(a, side, method="svd")
    for settings in {"eps": 1e-7}, {"max_iterations": 12}:
        for got, wanted in zip(linalg.polar(a, side, **settings), want):
            np.testing.assert_allclose(got, wanted, atol=2e-5)
    u, _ = linalg.polar(a, side, max_iterations=1)
    assert abs(np.asarray(u - want[0])).max() > 1e-3
    ignored = linalg.polar(a, side, method="svd", max_iterations=1)
    np.testing.assert_array_equal(ignored[0], want[0])


def test_expm_takes_at_most_the_squarings_allowed():
    a = np.diag([3.0, 7.0]).astype(np.float32)
    want = scipy.linalg.expm(a)
    np.testing.assert_allclose(linalg.expm(a, max_squarings=1), want, rtol=1e-5)
    np.testing.assert_allclose(linalg.expm(a, max_squarings=0), want, rtol=1e-2)
    assert np.isnan(linalg.expm(a * 4, max_squarings=0)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype):
    a = positive(5, dtype)
    w, v = map(np.asarray, linalg.eigh(a))
    close(a @ v, v * w, dtype, 5000)
    close(linalg.eigh(a, eigvals_only=True), w, dtype)
    d, e = random(6, dtype=dtype), random(5, dtype=dtype)
    t = np.diag(d.real) + np.diag(e, 1) + np.diag(e.conj(), -1)
    w, v = map(np.asarray, linalg.eigh_tridiagonal(d, e))
    close(w, np.linalg.eigvalsh(t), dtype)
    close(t @ v, v * w, dtype)
    some = linalg.eigh_tridiagonal(
        d, e, eigvals_only=True, select="i", select_range=(1, 3)
    )
    close(some, w[1:4], dtype)


def test_svd_det_inv():
    a = random(2, 3, 3)
    u, s, vh = map(np.asarray, linalg.svd(a))
    close((u * s[:, None]) @ vh, a)
    close(linalg.det(a), np.linalg.det(a))
    close(linalg.inv(a), np.linalg.inv(a))


# --- solutions ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("assume_a", ["gen", "sym", "her", "pos"])
def test_solve(dtype, assume_a):
    a, b = positive(4, dtype, 2), random(2, 4, 3, dtype=dtype)
    close(linalg.solve(a, b, assume_a=assume_a), np.linalg.solve(a, b), dtype, 5000)
    one = linalg.solve(a[0], b[0, :, 0], assume_a=assume_a)
    close(one, np.linalg.solve(a[0], b[0, :, 0]), dtype, 5000)


def test_solve_of_positive_matrices_has_derivatives():
    a, b = positive(3, np.float64), random(3, 2)
    check_grads(
        lambda a, b: linalg.solve(a + a.T, b, assume_a="pos"), (a, b), 2, rtol=1e-4
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit_diagonal", [True, False])
def test_solve_triangular(dtype, trans, lower, unit_diagonal):
    a, b = (
        random(4, 4, dtype=dtype) + 3 * np.eye(4, dtype=dtype),
        random(4, dtype=dtype),
    )
    got = linalg.solve_triangular(a, b, trans, lower, unit_diagonal)
    want = scipy.linalg.solve_triangular(a, b, trans, lower, unit_diagonal)
    close(got, want, dtype, 5000)
    batch = linalg.solve_triangular(np.stack([a, a]), b[:, None])
    close(batch[1, :, 0], scipy.linalg.solve_triangular(a, b), dtype, 5000)


@pytest.mark.parametrize("method", ["schur", "eigen"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_solve_sylvester(method, dtype):
    a, b, c = (random(*s, dtype=dtype) for s in [(4, 4), (3, 3), (2, 4, 3)])
    got = np.asarray(linalg.solve_sylvester(a, b, c, method=method))
    assert got.dtype == dtype
    close(a @ got + got @ b, c, scale=1e5)
    assert np.isnan(linalg.solve_sylvester(a, -a, a, method=method)).all()


# --- functions of matrices ----------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0.01, 0.2, 0.8, 2.0, 5.0, 20.0])
def test_expm(dtype, size):
    a = random(4, 4, dtype=dtype)
    a = (a * (size / np.linalg.norm(a, 1))).astype(dtype)
    want = scipy.linalg.expm(a)
    scale = 5000 * max(1, np.abs(want).max())
    close(linalg.expm(a), want, dtype, scale)
    upper = np.triu(a)
    got = linalg.expm(upper, upper_triangular=True)
    close(got, scipy.linalg.expm(upper), dtype, scale)


def test_expm_batches_derivatives_and_limits():
    a, e = random(2, 3, 3), random(2, 3, 3)
    value, slope = linalg.expm_frechet(a, e)
    for i in range(2):
        want = scipy.linalg.expm_frechet(a[i], e[i])
        close(value[i], want[0], scale=1e4)
        close(slope[i], want[1], scale=1e5)
    check_grads(curta.jit(linalg.expm), (a[0],), 1, modes=["fwd"])
    assert np.isnan(linalg.expm(1e9 * a[0])).all()
    assert linalg.expm(np.zeros((0, 0))).shape == (0, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sqrtm(dtype):
    a = positive(4, dtype)
    root = np.asarray(linalg.sqrtm(a))
    close(root @ root, a, dtype, 5000)
    a = random(4, 4, dtype=dtype)
    root = np.asarray(linalg.sqrtm(a))
    close(root @ root, a, dtype, 5000)


def test_funm():
    a = positive(4, np.float64)
    got, error = linalg.funm(a, jnp.log, disp=False)
    close(got.real, scipy.linalg.logm(a), scale=1e5)
    assert error < 1e-10


# --- named matrices -----------------------------------------------------------------

A = RNG.integers(-4, 5, 5)
NAMED = {
    "block_diag": [(np.ones((2, 1)), A[:3], 4.0)],
    "circulant": [(A,), (A[:1],)],
    "companion": [(A + 9.0,)],
    "convolution_matrix": [
        (A, n, mode) for n in (1, 3, 8) for mode in ("full", "same", "valid")
    ],
    "dft": [(5,), (4, "sqrtn"), (4, "n")],
    "fiedler": [(A,)],
    "fiedler_companion": [(A[:n] + 9.0,) for n in (2, 3, 4, 5)],
    "hadamard": [(1,), (8,)],
    "hankel": [(A,), (A, A + 1), (A[:2], A)],
    "helmert": [(4,), (4, True)],
    "hilbert": [(5,)],
    "invhilbert": [(4,)],
    "invpascal": [(5,), (5, "lower"), (5, "upper")],
    "leslie": [(A, A[1:])],
    "pascal": [(6,), (6, "lower"), (6, "upper")],
    "toeplitz": [(A,), (A + 1j,), (A, A + 1), (A[:2], A)],
}


@pytest.mark.parametrize("name", NAMED)
def test_named_matrices(name):
    for args in NAMED[name]:
        want = getattr(scipy.linalg, name)(*args)
        got = getattr(linalg, name)(*args)
        close(got, want, np.float32 if name == "pascal" else np.float64, 1e4)


def test_named_matrices_of_batches():
    batch = np.stack([A, A + 1])
    for name in "toeplitz", "hankel", "circulant", "fiedler":
        f = getattr(linalg, name)
        for row, want in zip(batch, f(batch)):
            np.testing.assert_array_equal(f(row), want)
    close(linalg.companion(batch + 9.0)[1], scipy.linalg.companion(A + 10.0))


# --- mistakes -----------------------------------------------------------------------

E2, R23 = np.eye(2), np.ones((2, 3))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: linalg.eigh(E2, E2), NotImplementedError, "Only the b=None case"),
        (lambda: linalg.schur(E2, "both"), ValueError, "either 'real' or 'complex'"),
        (lambda: linalg.rsf2csf(R23, E2), ValueError, "Input 'T' must be square"),
        (lambda: linalg.qr(E2, mode="x"), ValueError, "Unsupported QR decomposition"),
        (lambda: linalg.qr_multiply(E2, R23), ValueError, "not compatible for c @ Q"),
        (
            lambda: linalg.qr_multiply(E2[0], E2),
            ValueError,
            r"takes matrices a, .*got a of shape \(2,\) and c of shape \(2, 2\)",
        ),
        (
            lambda: linalg.solve(E2, E2, assume_a="x"),
            ValueError,
            "Expected assume_a to",
        ),
        (
            lambda: linalg.solve_triangular(E2, E2, 7),
            ValueError,
            "Invalid 'trans' value",
        ),
        (
            lambda: linalg.lu_solve(linalg.lu_factor(E2), E2, 3),
            ValueError,
            "must be 0, 1",
        ),
        (
            lambda: linalg.solve_sylvester(E2, E2, R23),
            ValueError,
            "Incompatible shapes",
        ),
        (lambda: linalg.expm(R23), ValueError, "to be a .batched. square matrix"),
        (lambda: linalg.sqrtm(E2, 2), NotImplementedError, "Blocked version is not"),
        (lambda: linalg.polar(R23), NotImplementedError, "method='qdwh' only supports"),
        (
            lambda: linalg.polar(E2, "up"),
            ValueError,
            "must be either 'right' or 'left'",
        ),
        (lambda: linalg.hadamard(3), ValueError, "positive power of 2; got 3"),
        (lambda: linalg.dft(3, "x"), ValueError, "scale must be None, 'sqrtn', or 'n'"),
        (lambda: linalg.leslie(A, A), ValueError, "Incorrect lengths for f and s"),
        (lambda: linalg.companion(A[:1]), ValueError, "must be at least 2"),
        (lambda: linalg.hankel(3), ValueError, "at least 1-dimensional, got a scalar"),
        (lambda: linalg.block_diag(np.ones((1, 1, 1))), ValueError, "at most 2 dim"),
        (
            lambda: linalg.convolution_matrix(A, 0),
            ValueError,
            "a positive integer; got",
        ),
        (
            lambda: linalg.eigh_tridiagonal(np.ones(2), np.ones(1, np.float32)),
            TypeError,
            "must have same dtype",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()
