"""Iterative solvers, on matrices and on functions of pytrees."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.scipy.sparse.linalg import bicgstab, cg, gmres
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
N = 20


def system(dtype, definite):
    a = RNG.normal(size=(N, N))
    if np.dtype(dtype).kind == "c":
        a = a + 1j * RNG.normal(size=(N, N))
    a = a @ a.conj().T / N + np.eye(N) if definite else a / np.sqrt(N) + 3 * np.eye(N)
    return a.astype(dtype), RNG.normal(size=N).astype(dtype)


SOLVERS = {
    "cg": cg,
    "bicgstab": bicgstab,
    "gmres": gmres,
    "incremental": lambda *a, **k: gmres(*a, solve_method="incremental", **k),
    "restarted": lambda *a, **k: gmres(*a, restart=5, **k),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("given", ["matrix", "function", "preconditioned"])
def test_solves(name, dtype, given):
    a, b = system(dtype, definite=name == "cg")
    options = {}
    if given == "preconditioned":
        options["M"] = np.linalg.inv(a + 0.1 * np.eye(N)).astype(dtype)
    operator = (lambda x: jnp.dot(a, x)) if given == "function" else a
    x, _ = SOLVERS[name](operator, b, tol=1e-5, **options)
    assert x.dtype == dtype
    np.testing.assert_allclose(x, np.linalg.solve(a, b), atol=2e-3)
    y, _ = curta.jit(lambda b: SOLVERS[name](operator, b, **options))(b)
    np.testing.assert_allclose(y, x, atol=2e-3)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_pytrees(name):
    b = {"a": jnp.arange(3.0), "b": jnp.array([[4.0]])}

    def double(tree):
        return curta.tree.map(lambda x: 2 * x, tree)

    x, _ = SOLVERS[name](double, b)
    assert x.keys() == b.keys()
    np.testing.assert_allclose(x["a"], [0, 0.5, 1], atol=1e-6)
    np.testing.assert_allclose(x["b"], [[2.0]], atol=1e-6)


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_derivatives(name):
    a, b = system(np.float64, definite=True)
    with curta.enable_x64(True):

        def solve(a, b):
            return SOLVERS[name](a + a.T, b, tol=1e-13)[0]

        check_grads(curta.jit(solve), (a, b), 1, rtol=1e-4, atol=1e-4)


def test_zero_right_hand_side_and_exact_start():
    a, b = system(np.float32, definite=True)
    for solver in SOLVERS.values():
        assert not np.any(solver(a, np.zeros_like(b))[0])
        x = np.linalg.solve(a, b)
        np.testing.assert_allclose(solver(a, b, x0=x)[0], x, atol=1e-5)


def test_gmres_ends_early_in_an_invariant_space():
    x, info = gmres(2 * np.eye(3, dtype=np.float32), np.ones(3, np.float32))
    np.testing.assert_allclose(x, 0.5 * np.ones(3))
    assert info == 0


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: cg(np.ones((2, 3)), np.ones(2)),
            ValueError,
            "must be a square matrix",
        ),
        (lambda: cg(3, np.ones(2)), TypeError, "must be either a function or ndarray"),
        (
            lambda: cg(np.eye(2), np.ones(2), (np.ones(2),)),
            ValueError,
            "x0 and b must have matching tree structure",
        ),
        (
            lambda: cg(np.eye(2), np.ones(2), np.ones(3)),
            ValueError,
            "arrays in x0 and b must have matching shapes",
        ),
        (
            lambda: gmres(np.eye(2), np.ones(2), solve_method="best"),
            ValueError,
            "invalid solve_method best",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()
