"""Programs of Schur form and of eigenvectors: accuracy, form, and special cases."""

from functools import cache

import numpy as np
import pytest

import curta
from curta.compiler.stablehlo.linalg.programs import program
from curta.config import enable_x64
from curta.core.avals import ShapedArray
from curta.extend.core import jaxpr_as_fun
from curta.primitives.linalg import Eig, Schur

NUMBERS = np.random.default_rng(5)


@cache
def compiled(op, shape, dtype):
    return curta.jit(jaxpr_as_fun(program(op, [ShapedArray(shape, dtype)])))


def run(op, x):
    """The outputs of the program, compiled."""
    with enable_x64(True):
        return [np.asarray(out) for out in compiled(op, x.shape, x.dtype)(x)]


def random(*shape, dtype="float64"):
    found = NUMBERS.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * NUMBERS.normal(size=shape)
    return found.astype(dtype)


@pytest.fixture(autouse=True)
def numbers():
    """Each test has the same numbers, whatever ran before it."""
    NUMBERS.bit_generator.state = np.random.default_rng(3).bit_generator.state


def companion(*roots):
    return np.diag(np.ones(len(roots) - 1), -1) - np.pad(
        np.poly(roots)[None, 1:], ((0, len(roots) - 1), (0, 0))
    )


def off_diagonal(n, k):
    return np.diag(np.ones(n - abs(k)), k)


GRADES = 10.0 ** np.linspace(-8, 8, 9)
BLOCKS = np.zeros((6, 6))
BLOCKS[:2, :2] = [[1, 2], [-3, 1]]
BLOCKS[2:4, 2:4] = [[1, 1e-8], [-1e8, 1]]
BLOCKS[4:, 4:] = [[1, 2], [3, 1]]

# Of few sizes, each of which is compiled once.
MATRICES = {
    "random": random(12, 12),
    "zero": np.zeros((4, 4)),
    "unit": np.eye(4),
    "nilpotent": off_diagonal(9, 1),
    "nilpotent below": off_diagonal(9, -1),
    "defective": 2 * np.eye(9) + off_diagonal(9, 1),
    "defective below": 2 * np.eye(9) + off_diagonal(9, -1),
    "companion": companion(*range(1, 10)),
    "cyclic": np.roll(np.eye(4), 1, 0),
    "longer cycle": np.roll(np.eye(9), 1, 0),
    "scaled": random(9, 9) * GRADES / GRADES[:, None],
    "graded": random(9, 9) * GRADES,
    "huge": random(6, 6) * 1e300,
    "tiny": random(6, 6) * 1e-300,
    "subnormal beside one": np.array([[1, 1e-320], [1e-320, 1]]),
    "symmetric": off_diagonal(12, 1) + off_diagonal(12, -1),
    "skew": off_diagonal(9, 1) - off_diagonal(9, -1),
    "orthogonal": np.linalg.qr(random(12, 12))[0],
    "upper": np.triu(random(9, 9)),
    "lower": np.tril(random(9, 9)),
    "blocks": BLOCKS,
    "ones": np.ones((9, 9)),
    "almost the unit": np.eye(12) + 1e-12 * random(12, 12),
    "Grcar": np.triu(np.tril(np.ones((20, 20)), 3)) - off_diagonal(20, -1),
    "two by two": np.array([[0.0, 1.0], [0.0, 0.0]]),
}


def error(found, wanted, like):
    """The greatest difference, in rounding errors of the greatest element."""
    size = np.abs(like).max() or 1
    unit = np.finfo(like.dtype).eps * len(like)
    return np.abs(found / size - wanted / size).max(initial=0) / unit


def check_schur(a, limit):
    """T is (quasi-)triangular in LAPACK's form, Z unitary, and a is Z T Z^H."""
    t, z = run(Schur(), a)
    size = np.abs(a).max() or 1
    assert error(z @ (t / size) @ np.conj(z.T) * size, a, a) < limit
    assert error(z @ np.conj(z.T), np.eye(len(a)), np.eye(len(a), dtype=a.dtype)) < 9
    assert not np.tril(t, -1 if a.dtype.kind == "c" else -2).any()
    starts = np.flatnonzero(np.diag(t, -1))
    assert (np.diff(starts) > 1).all()
    for k in starts:
        assert t[k, k] == t[k + 1, k + 1]
        assert np.sign(t[k, k + 1]) * np.sign(t[k + 1, k]) < 0


def check_eig(a, limit):
    """Vectors of length 1 whose greatest element is real; pairs are conjugate."""
    w, left, right = run(Eig(), a)
    size = np.abs(a).max() or 1
    scaled = a / size
    assert error(scaled @ right * size, right * (w / size) * size, a) < limit
    moved = np.conj(left.T) @ scaled * size
    assert error(moved, (w / size)[:, None] * np.conj(left.T) * size, a) < limit
    for v in (left, right):
        assert np.abs(np.linalg.norm(v, axis=0) - 1).max() < 100 * np.finfo(a.dtype).eps
        unit = 100 * np.finfo(a.dtype).eps
        great = np.abs(v) >= np.abs(v).max(0) * (1 - unit)  # one of them is real
        assert np.where(great, np.abs(v.imag), 1).min(0).max() < unit
        if a.dtype.kind != "c":
            first = np.flatnonzero(w.imag > 0)
            assert (v[:, first] == np.conj(v[:, first + 1])).all()
            assert not v[:, w.imag == 0].imag.any()
    if a.dtype.kind != "c":
        first = np.flatnonzero(w.imag > 0)
        assert (w[first] == np.conj(w[first + 1])).all()
        assert 2 * len(first) == np.count_nonzero(w.imag)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("phase", [1, np.exp(0.7j)], ids=["real", "complex"])
def test_accurate(name, phase):
    a = MATRICES[name] * phase
    check_schur(a, 20)
    # Vectors of a matrix that is far from balanced are those of the balanced one.
    check_eig(a, 1e9 if name in ("graded", "scaled") else 20)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_single_precision(dtype):
    for n in (1, 2, 3, 6, 30):
        check_schur(random(n, n, dtype=dtype), 20)
        check_eig(random(n, n, dtype=dtype), 20)
    a = (2 * np.eye(30) + off_diagonal(30, 1)).astype(dtype)
    check_eig(a, 20)  # the vectors would overflow


@pytest.mark.parametrize("phase", [1, np.exp(0.3j)], ids=["real", "complex"])
def test_eigenvalues_are_those_of_lapack(phase):
    a = random(20, 20) * phase
    (w,) = run(Eig(False, False), a)
    wanted = np.linalg.eigvals(a)
    assert np.abs(w[:, None] - wanted).min(1).max() < 1e-13
    assert np.abs(w[:, None] - wanted).min(0).max() < 1e-13
    (t,) = run(Schur(False), a)
    assert np.abs(np.linalg.eigvals(t)[:, None] - wanted).min(1).max() < 1e-13


def test_balancing_keeps_small_eigenvalues():
    a = np.array([[1, 1e6, 1e12], [1e-6, 2, 1e6], [1e-12, 1e-6, 3]])
    wanted = np.linalg.eigvalsh([[1, 1, 1], [1, 2, 1], [1, 1, 3.0]])
    w, _, right = run(Eig(), a)
    assert np.abs(np.sort(w.real) - wanted).max() < 1e-14
    lengths = np.linalg.norm(a @ right - right * w, axis=0)
    assert (lengths < 1e-3).all()
    exact = np.tril(random(6, 6))  # rows are moved until nothing is left to iterate
    assert sorted(run(Eig(False, False), exact)[0].real) == sorted(np.diag(exact))


def test_a_pole_of_defects_has_parallel_vectors():
    a = 3 * np.eye(4) + off_diagonal(4, 1)
    w, left, right = run(Eig(), a)
    assert (w == 3).all()
    assert np.abs(np.abs(right[0]) - 1).max() < 1e-15
    assert np.abs(np.abs(left[3]) - 1).max() < 1e-15


@pytest.mark.parametrize("op", [Schur(), Schur(False), Eig(), Eig(False, False)])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
def test_a_batch_is_its_matrices(op, dtype):
    """Each of them, whatever the others need, also where one is not finite."""
    a = random(2, 3, 6, 6, dtype=dtype)
    a[0, 1] = np.eye(6)
    a[1, 2, 3, 4] = np.nan
    a[1, 0, 0, 0] = np.inf
    a[0, 2] = np.roll(np.eye(6), 1, 0)
    outs = run(op, a)
    for place in np.ndindex(2, 3):
        for out, alone in zip(outs, run(op, a[place]), strict=True):
            if not np.isfinite(a[place]).all():
                assert np.isnan(out[place]).all() and np.isnan(alone).all()
                continue
            # Rounding decides on the signs of vectors; that of some other matrices
            # (one in fifty) on the order of eigenvalues, too.
            rest = np.abs(out[place]) - np.abs(alone)
            assert np.abs(rest).max() < 1e4 * np.finfo(dtype).eps


@pytest.mark.parametrize("op", [Schur(), Eig(), Eig(False, True), Eig(True, False)])
def test_nothing_and_one(op):
    for shape in ((0, 0), (3, 0, 0), (0, 2, 2), (1, 1), (2, 1, 1)):
        wanted = op.aval(ShapedArray(shape, np.dtype("float64")))
        assert [x.shape for x in run(op, random(*shape))] == [a.shape for a in wanted]
    a = np.array([[-3.0]])
    assert [x.tolist() for x in run(Eig(), a)] == [[-3], [[1]], [[1]]]


def test_half_precision():
    a = random(4, 4, dtype="float16")
    t, z = run(Schur(), a)
    assert t.dtype == z.dtype == np.float16
    assert run(Eig(), a)[0].dtype == np.complex64
