"""Factorizations and solutions of linear equations."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Case, Thunk

SIZE = 256


def matrix(*batch: int) -> np.ndarray:
    """Random matrices whose singular values are well apart."""
    drawn = np.random.default_rng(0).standard_normal(batch)
    return (drawn / batch[-1] ** 0.5 + np.eye(batch[-1])).astype(np.float32)


def positive(*batch: int) -> np.ndarray:
    """Random symmetric positive definite matrices."""
    a = matrix(*batch)
    return a @ np.swapaxes(a, -1, -2) + np.eye(batch[-1], dtype=np.float32)


def unary(function: Callable[[Any, Any], Any], operand: np.ndarray, lib: Any) -> Thunk:
    f, x = lib.jit(lambda x: function(lib, x)), lib.numpy.asarray(operand)
    return lambda: f(x)


def solution(batch: tuple[int, ...], columns: int, lib: Any) -> Thunk:
    f = lib.jit(lib.numpy.linalg.solve)
    a = lib.numpy.asarray(matrix(*batch))
    b = lib.numpy.asarray(matrix(*batch)[..., :columns])
    return lambda: f(a, b)


def without_signs(lib: Any, *factors: Any) -> Any:
    """Singular vectors are known up to their sign, so their sizes are compared."""
    return [lib.numpy.abs(x) for x in factors]


Unary = dict[str, tuple[Callable[[Any, Any], Any], np.ndarray, int]]
UNARY: Unary = {
    "cholesky, 256²": (
        lambda lib, x: lib.numpy.linalg.cholesky(x), positive(SIZE, SIZE), SIZE**3 // 3,
    ),
    "gradient of cholesky, 256²": (
        lambda lib, x: lib.grad(lambda x: lib.numpy.linalg.cholesky(x).sum())(x),
        positive(SIZE, SIZE), SIZE**3,
    ),
    "inverse, 256²": (
        lambda lib, x: lib.numpy.linalg.inv(x), matrix(SIZE, SIZE), 2 * SIZE**3,
    ),
    "qr, 256²": (
        lambda lib, x: without_signs(lib, *lib.numpy.linalg.qr(x)),
        matrix(SIZE, SIZE), 8 * SIZE**3 // 3,
    ),
    "svd, 256²": (
        lambda lib, x: without_signs(lib, *lib.numpy.linalg.svd(x)),
        matrix(SIZE, SIZE), 0,
    ),
    "singular values, 256²": (
        lambda lib, x: lib.numpy.linalg.svd(x, compute_uv=False), matrix(SIZE, SIZE), 0,
    ),
    "eigh, 256²": (
        lambda lib, x: without_signs(lib, *lib.numpy.linalg.eigh(x)),
        positive(SIZE, SIZE), 0,
    ),
    "cholesky, 1000 of 16²": (
        lambda lib, x: lib.numpy.linalg.cholesky(x), positive(1000, 16, 16), 0,
    ),
}  # fmt: skip

LINALG_CASES = [
    *(
        Case(name, partial(unary, f, x), 1.0, flops=flops, rtol=1e-2, atol=1e-2)
        for name, (f, x, flops) in UNARY.items()
    ),
    Case("solve, 256², 1 column", partial(solution, (SIZE, SIZE), 1), 1.0, rtol=1e-2),
    Case("solve, 256², 256 columns", partial(solution, (SIZE, SIZE), SIZE), 1.0,
         flops=8 * SIZE**3 // 3, rtol=1e-2, atol=1e-2),
    Case("solve, 1000 of 16²", partial(solution, (1000, 16, 16), 1), 1.0, rtol=1e-2,
         atol=1e-2),
]  # fmt: skip
