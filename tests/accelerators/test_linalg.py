"""Tier A: linear algebra on more than the samples, run by XLA, against `eval`."""

from itertools import product

import numpy as np
import pytest
from tests.accelerators.programs import run_staged
from tests.conformance.checks import assert_close, evaluate as run_eval
from tests.conformance.invariants import without_choices

from curta import dtypes
from curta.config import enable_x64
from curta.primitives.linalg import LU, QR, SVD, Cholesky, Eigh, TriangularSolve

NUMBERS = np.random.default_rng(3)


def random(*shape, dtype="float64"):
    found = NUMBERS.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * NUMBERS.normal(size=shape)
    return found.astype(dtype)


def positive_definite(*shape, dtype="float64"):
    x = random(*shape, dtype=dtype)
    unit = np.eye(shape[-1]).astype(dtype)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + unit).astype(dtype)


def check(ops, *args, scale=1.0):
    """All ops on these arguments, in one program."""

    def run(*xs):
        outs = [op(*xs) for op in ops]
        return [list(x) if op.multiple_results else [x] for op, x in zip(ops, outs)]

    counts = [len(run_eval(op, args)) for op in ops]
    with enable_x64(True):
        results = iter(run_staged(lambda *xs: sum(run(*xs), []), *args))
    for op, count in zip(ops, counts, strict=True):
        found = [np.asarray(next(results)) for _ in range(count)]
        pairs = [without_choices(op, x) for x in (found, run_eval(op, args))]
        for n, (got, want) in enumerate(zip(*pairs, strict=True)):
            assert_close(got, want, f"{op}, output {n}", scale)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "float16"])
@pytest.mark.parametrize("left", [True, False])
def test_triangular_solve_reads_what_it_is_told_to(dtype, left):
    flags = product((True, False), repeat=4)
    ops = [TriangularSolve(left, *chosen) for chosen in flags]
    a = (random(2, 3, 3, dtype=dtype) / 4 + np.eye(3)).astype(dtype)
    a += np.eye(3).astype(dtype)
    check(ops, a, random(2, 3, 3, dtype=dtype), scale=20)


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32", "float16"])
def test_what_is_not_positive_definite_becomes_nan(dtype):
    a = positive_definite(3, 4, 4, dtype=dtype)
    a[1, 2, 2] = -5
    check([Cholesky()], a, scale=20)
    check([Cholesky()], np.zeros((2, 2), dtype))
    check([Cholesky()], np.zeros((0, 2, 2), dtype))


def test_bfloat16():
    a = positive_definite(2, 3, 3).astype(dtypes.bfloat16)
    check([Cholesky(), LU(), QR(), Eigh(), SVD()], a)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
def test_larger_matrices(dtype):
    check([LU(), QR(), SVD(), SVD(False)], random(33, 20, dtype=dtype), scale=300)
    check([LU(), QR(True, False), SVD()], random(2, 9, 14, dtype=dtype), scale=300)
    check([Eigh(), Eigh(False)], random(31, 31, dtype=dtype), scale=1000)


def test_a_matrix_with_nan_leaves_others_alone():
    a = positive_definite(3, 4, 4)
    a[1, 2, 1] = np.nan
    for op in (Eigh(), SVD(), LU(), QR()):
        with enable_x64(True):
            outs = run_staged(op, a)
        for x in outs:
            assert np.isfinite(x[[0, 2]]).all()
            assert x.dtype.kind == "i" or np.isnan(x[1]).any()
