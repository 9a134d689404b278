"""Eigenpairs by LOBPCG and sparse systems, against NumPy."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.config import enable_x64
from curta.experimental.sparse import linalg
from curta.experimental.sparse.linalg import lobpcg_standard, spsolve


def symmetric(eigenvalues, seed=0):
    rng = np.random.RandomState(seed)
    Q, _ = np.linalg.qr(rng.randn(len(eigenvalues), len(eigenvalues)))
    return (Q * eigenvalues) @ Q.T


@pytest.mark.parametrize(
    "eigenvalues",
    [
        np.linspace(1, 1000, 60),
        np.logspace(0, 5, 60),
        -np.linspace(1, 50, 60),  # the largest are negative
        np.array([1.0] * 57 + [9.0] * 3),  # in clusters
        np.ones(60),
    ],
)
def test_the_largest_eigenpairs_of_a_matrix_are_found(eigenvalues):
    A = symmetric(eigenvalues).astype(np.float32)
    start = np.random.RandomState(1).randn(60, 5).astype(np.float32)
    values, U, steps = lobpcg_standard(A, start, m=80)
    size = np.abs(eigenvalues).max()
    expected = np.sort(eigenvalues)[::-1][:5]
    np.testing.assert_allclose(values, expected, atol=2e-5 * size)
    np.testing.assert_allclose(U.T @ U, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(A @ U, U * values, atol=1e-3 * size)
    assert steps <= 80


def test_an_operator_in_double_precision():
    with enable_x64(True):
        weights = jnp.linspace(1, 100, 50)
        start = np.random.RandomState(0).randn(50, 3)
        values, _, steps = lobpcg_standard(lambda V: weights[:, None] * V, start, m=99)
        np.testing.assert_allclose(values, weights[:-4:-1], rtol=1e-12)
        assert 0 < steps < 99


@pytest.mark.parametrize("x64", [False, True])
def test_pairs_that_converged_stay(x64):
    eigenvalues = np.array([1000.0] * 9 + [1.0] * 91)
    with enable_x64(x64):
        start = jnp.asarray(np.random.RandomState(0).randn(100, 10), float)
        A = jnp.diag(jnp.asarray(eigenvalues, float))
        values, U, steps = lobpcg_standard(A, start, m=40)
        left = abs(A @ U - U * values).max()
        assert steps < 40 or not x64
        eps = 1000 * jnp.finfo(start.dtype).eps
        assert max(abs(values - eigenvalues[:10]).max(), left) < 100 * eps


def test_the_steps_of_lobpcg_can_be_looked_at():
    A = jnp.diag(jnp.arange(1.0, 31.0))
    X = jnp.asarray(np.random.RandomState(0).rand(30, 2), dtype=jnp.float32)
    values, _, steps, figures = linalg._lobpcg_standard_matrix(A, X, 25, 0, debug=True)
    assert steps == 25
    np.testing.assert_allclose(values, [30, 29], rtol=1e-5)
    history = figures["lambda history"]
    assert history.shape == (25, 2) and abs(history[-1] - 30).max() < 2
    assert not figures["X zeros"].any() and figures["X orth"].max() < 1e-4
    assert figures["adjusted residual max"][-1] < figures["adjusted residual max"][0]


def test_arguments_of_lobpcg_are_checked():
    A = jnp.eye(10)
    with pytest.raises(ValueError, match="search dim > 0"):
        lobpcg_standard(A, jnp.ones((10, 0)))
    with pytest.raises(ValueError, match=r"search dim \* 5 < matrix dim \(got 10, 10"):
        lobpcg_standard(A, jnp.ones((10, 2)))
    with pytest.raises(ValueError, match="must have same dtypes"):
        lobpcg_standard(lambda V: V.astype(jnp.float16), jnp.ones((10, 1)))
    with pytest.raises(ValueError, match=r"must be \(10, 10\) matrix A, got output"):
        lobpcg_standard(jnp.ones((9, 10)), jnp.ones((10, 1)))


def test_spsolve_solves_and_differentiates():
    dense = np.array([[4.0, 1, 0], [0, 3, 2], [1, 0, 5]], np.float32)
    rows, columns = dense.nonzero()
    data = dense[rows, columns]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows))])
    b = np.array([1.0, 2, 3], np.float32)
    x = spsolve(data, columns, indptr, b)
    np.testing.assert_allclose(x, np.linalg.solve(dense, b), rtol=1e-5)

    def total(data, b):
        return spsolve(data, columns, indptr, b).sum()

    d_data, d_b = curta.grad(total, (0, 1))(data, b)
    back = np.linalg.solve(dense.T, np.ones(3))
    np.testing.assert_allclose(d_b, back, rtol=1e-5)
    np.testing.assert_allclose(d_data, -back[rows] * np.asarray(x)[columns], rtol=1e-4)


def test_spsolve_checks_its_operands():
    data, places, starts, b = jnp.ones(2), jnp.arange(2), jnp.arange(3), jnp.ones(2)
    for arguments, words in [
        ((data, places, starts, b.astype("float16")), "data types do not match"),
        ((data, places * 1.0, starts, b), "index arrays must be integer typed"),
        ((data, places, starts, b[None]), "Arrays must be one-dimensional"),
        ((data, places, starts[1:], b), "Invalid CSR buffer sizes"),
    ]:
        with pytest.raises(ValueError, match=words):
            spsolve(*arguments)
