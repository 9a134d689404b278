"""Functions of many short rows, and products of many small matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.cases import F32, random_array
from benchmarks.harness import Case, Thunk

_ROWS = 100_000

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "log_softmax": lambda lib, x: lib.nn.log_softmax(x),
    "softmax": lambda lib, x: lib.nn.softmax(x),
    "argmax": lambda lib, x: lib.numpy.argmax(x, -1),
    "max": lambda lib, x: lib.numpy.max(x, -1),
    "sum": lambda lib, x: lib.numpy.sum(x, -1),
}


def rows(name: str, columns: int, lib: Any) -> Thunk:
    f = lib.jit(lambda x: FUNCTIONS[name](lib, x))
    x = random_array(lib, _ROWS, columns)
    return lambda: f(x)


def small_products(count: int, size: int, lib: Any) -> Thunk:
    """x @ y.T of many small matrices."""
    f = lib.jit(lambda x, y: x @ lib.numpy.swapaxes(y, -1, -2))
    x, y = random_array(lib, count, size, size), random_array(lib, count, size, size)
    return lambda: f(x, y)


def _row_case(name: str, columns: int) -> Case:
    title = f"{name} of rows, ({_ROWS}, {columns})"
    read = F32 * _ROWS * columns
    return Case(title, partial(rows, name, columns), 0.9, read, atol=1e-4)


def _product_case(count: int, size: int) -> Case:
    title = f"x @ y.T of {count} matrices, {size}x{size}"
    flops = 2 * count * size**3
    make = partial(small_products, count, size)
    return Case(title, make, 0.9, 2 * F32 * count * size**2, 0, flops, atol=1e-4)


SHORT_ROW_CASES = [
    *(_row_case(name, n) for name in FUNCTIONS for n in (4, 10, 20)),
    *(_product_case(*sizes) for sizes in ((10_000, 3), (1000, 4), (1000, 8))),
]
