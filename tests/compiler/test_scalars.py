"""Scalar arithmetic: compiled against NumPy, element by element."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.compiler.programs import assert_compiles, staged

from curta.primitives import elementwise as ops
from curta.primitives.elementwise.convert import ConvertElementType

INTS = [np.dtype(f"{s}int{n}") for s in ("", "u") for n in (8, 16, 32, 64)]
FLOATS = [np.dtype(ml_dtypes.bfloat16), *(np.dtype(f"float{n}") for n in (16, 32, 64))]


def edges(dtype: Any) -> Any:
    """Values at which arithmetic goes wrong, of an integer dtype."""
    info = np.iinfo(dtype)
    values = [info.min, info.min + 1, 0, 1, 2, 7, 31, 32, 63, info.max - 1, info.max]
    values += [-1, -7] if info.min < 0 else [200 % info.max]
    return np.array([v for v in values if info.min <= v <= info.max], dtype)


def pairs(values: Any) -> tuple[Any, Any]:
    x, y = np.meshgrid(values, values)
    return x.ravel(), y.ravel()


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize(
    "name",
    ["Add", "Sub", "Mul", "Div", "Rem", "Max", "Min", "ShiftLeft",
     "ShiftRightLogical", "ShiftRightArithmetic"],
)  # fmt: skip
def test_integer_arithmetic_at_the_edges(dtype: Any, name: str) -> None:
    op = getattr(ops, name)()
    x, y = pairs(edges(dtype))
    assert_compiles(staged(lambda a, b: [op(a, b)], x, y), x, y)


def special(dtype: Any) -> Any:
    values = [0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan, 1e-3, 300.25, -7e4]
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
def test_float_arithmetic_is_bit_for_bit_that_of_numpy(dtype: Any, name: str) -> None:
    op = getattr(ops, name)()
    x, y = pairs(special(dtype))
    zeros = (x == 0) & (y == 0)  # which zero is the larger is left open
    compiled = assert_compiles(staged(lambda a, b: [op(a, b)], x, y), x, y)
    (got,) = compiled(x, y)
    with np.errstate(all="ignore"):
        want = np.asarray(op.eval(x, y))
    word = np.dtype(f"u{dtype.itemsize}")
    same = (got.view(word) == want.view(word)) | (np.isnan(got) & np.isnan(want))
    assert np.all(same | (zeros & (name in ("Max", "Min"))))


@pytest.mark.parametrize("source", [*INTS, *FLOATS, np.dtype(bool)], ids=str)
@pytest.mark.parametrize("target", [*INTS, *FLOATS, np.dtype(bool)], ids=str)
def test_conversions(source: Any, target: Any) -> None:
    values = special(source) if source in FLOATS else np.array([0, 1, 1], source)
    if source in INTS:
        values = edges(source)
    op = ConvertElementType(target)
    assert_compiles(staged(lambda x: [op(x)], values), values, rtol=1e-2)


@pytest.mark.parametrize(
    "dtype", [np.dtype("complex64"), np.dtype("complex128")], ids=str
)
@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div", "Pow"])
def test_complex_arithmetic(dtype: Any, name: str) -> None:
    op = getattr(ops, name)()
    parts = np.array([0.5, -1.5, 2, 3e3, -1e-3])
    values = (parts[:, None] + 1j * parts).ravel().astype(dtype)
    x, y = pairs(values) if name != "Pow" else (values, values[::-1].copy() / 1e3)
    rtol = 1e-3 if name == "Pow" else 1e-5
    assert_compiles(staged(lambda a, b: [op(a, b)], x, y), x, y, rtol=rtol)
