"""Algorithms of `compiler/linalg` as ops, written out and in loops, against `eval`.

Those in lanes of vectors are in `test_batched_matrix_loops.py`.
"""

import numpy as np
import pytest
from tests.conformance.checks import assert_close, evaluate as run_eval
from tests.conformance.samples import cases

from curta.compiler.linalg.programs import algorithm, staged
from curta.config import enable_x64
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate
from curta.primitives.linalg import (
    LU,
    Cholesky,
    Geqrf,
    HouseholderProduct,
    LUPivotsToPermutation,
    TriangularSolve,
    TridiagonalSolve,
)

OPS = [Cholesky, LU, LUPivotsToPermutation, TriangularSolve]
OPS += [Geqrf, HouseholderProduct, TridiagonalSolve]


def check(op, unrolled, *args):
    avals = [ShapedArray(x.shape, x.dtype) for x in args]
    with np.errstate(all="ignore"):
        closed = staged(algorithm(type(op), unrolled), op, avals)
        found = evaluate(closed.jaxpr, closed.consts, args)
    for n, (got, want) in enumerate(zip(found, run_eval(op, args), strict=True)):
        assert_close(got, want, f"{op}, output {n}")


@pytest.mark.parametrize("unrolled", [True, False])
@pytest.mark.parametrize("cls", OPS, ids=lambda c: c.__name__)
def test_samples(cls, unrolled):
    with enable_x64(True):
        for case in cases(cls):
            check(case.op, unrolled, *case.args)


@pytest.mark.parametrize("unrolled", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (5, 3), (3, 5), (2, 4, 4)])
def test_rectangular_matrices(shape, unrolled):
    x = np.random.default_rng(0).normal(size=shape)
    with enable_x64(True):
        for op in (LU(), Geqrf()):
            check(op, unrolled, x)
            check(op, unrolled, (x + 1j * x[::-1]).astype("complex64"))


@pytest.mark.parametrize("unrolled", [True, False])
def test_what_is_exchanged_and_what_is_singular(unrolled):
    x = np.array([[0.0, 1, 2], [0, 3, 4], [5, 6, 7]])
    with enable_x64(True):
        check(LU(), unrolled, x)
        check(LU(), unrolled, np.zeros((3, 3)))
        check(Cholesky(), unrolled, np.array([[1.0, 9], [2.0, 1.0]]))
        zero = np.zeros(4)
        check(TridiagonalSolve(), unrolled, zero, zero, zero, np.ones((4, 2)))
        check(
            TridiagonalSolve(),
            unrolled,
            zero + 3,
            zero + 1,
            zero + 2,
            np.arange(4.0)[:, None],
        )
