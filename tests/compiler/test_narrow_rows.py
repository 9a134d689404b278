"""Kernels over rows of narrow arrays: several rows are one, which fills vectors."""

from functools import partial

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.compiler.pipeline import compile_jaxpr

FOLDS = {
    "sum": (lambda x: x.sum(-2), lambda x: x.sum(-2)),
    "greatest": (lambda x: x.max(-2), lambda x: x.max(-2)),
    "of absolute values": (lambda x: jnp.abs(x).sum(-2), lambda x: abs(x).sum(-2)),
    "of two operands": (
        lambda x: (x * x[::-1]).sum(-2),
        lambda x: (x * x[::-1]).sum(-2),
    ),
    "around the mean": (lambda x: x.var(-2), lambda x: x.var(-2)),
    "of both dims": (lambda x: x.sum((-3, -2)), lambda x: x.sum((-3, -2))),
    "index": (lambda x: x.argmax(-2), lambda x: x.argmax(-2)),
    "two results": (
        lambda x: (x.sum(-2), (x + 1).prod(-2)),
        lambda x: (x.sum(-2), (x + 1).prod(-2)),
    ),
}
SHAPES = [(2, 2000, 3), (1, 20011, 2), (2, 3001, 10), (3, 1999, 30), (1, 5000, 63)]


def numbers(shape, dtype):
    """Numbers whose sums and products are exact, whatever the order."""
    x = np.random.default_rng(0).integers(-2, 3, shape)
    return (x + 1j * x.T.reshape(shape) if dtype == "complex64" else x).astype(dtype)


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int8"])
def test_equals_numpy(name, shape, dtype):
    fun, by_numpy = FOLDS[name]
    x = numbers(shape, dtype)
    if name == "index":
        x = abs(x)  # complex numbers have no order
    if name == "two results":
        x = np.zeros_like(x)  # of ones, products are exact
        x[..., 7, 1] = 3
    if dtype == "int8" and name not in ("greatest", "index"):
        x = x.astype("int32")
    wide = {"float32": "float64", "complex64": "complex128"}.get(dtype, x.dtype)
    want = by_numpy(x.astype(wide))
    got = curta.jit(fun)(x)
    for a, b in zip(curta.tree.leaves(got), curta.tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b.astype(a.dtype), rtol=1e-4)


MAPS = {
    "sum": lambda x, b: x + b,
    "of what rows share": lambda x, b: (x - b) * 2 ** abs(b),
    "two results": lambda x, b: (x * b, x - b),
    "the columns": lambda x, b: x + jnp.arange(x.shape[-1], dtype=x.dtype),
    "a number for each row": lambda x, b: x * x[..., :1] + b,
    "rows reversed": lambda x, b: x[..., ::-1, :] + b,
    "part of the columns": lambda x, b: x[..., 1:] + b[1:],
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("shape", [*SHAPES, (1, 3000, 100)])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int8", "float16"])
def test_maps_equal_numpy(name, shape, dtype):
    x, b = numbers(shape, dtype), numbers(shape, dtype)[0, 0]
    got = curta.jit(MAPS[name])(x, b)
    want = MAPS[name](jnp.asarray(x[:, :100]), jnp.asarray(b))
    late = MAPS[name](jnp.asarray(x[:, -100:]), jnp.asarray(b))
    if name == "rows reversed":
        want, late = late, want
    for part, expected in ((slice(100), want), (slice(-100, None), late)):
        found = curta.tree.map(lambda y, part=part: np.asarray(y)[:, part], got)
        close = partial(np.testing.assert_allclose, rtol=1e-6)
        curta.tree.map(close, found, expected)


def test_a_costly_number_of_a_column_is_computed_once(monkeypatch, capsys):
    monkeypatch.setenv("CURTA_DUMP", "kernels")
    curta.jit(lambda x, b: x * jnp.sqrt(b))(*map(np.ones, ((500, 200), 200)))
    first, second = capsys.readouterr().err.split("kernel ")[-2:]
    assert "sqrt" in first
    assert "sqrt" not in second


COLUMNS = {
    "a number for each row": lambda x, w, i: x * w[:, None],
    "transposed": lambda x, w, i: x.reshape(x.shape[1], -1).T + w[:, None],
    "rows by their number": lambda x, w, i: x[i],
    "normalised": lambda x, w, i: x / (abs(x).max(1, keepdims=True) + 1),
    "two results": lambda x, w, i: (x * w[:, None], x - w[:, None]),
    "folded": lambda x, w, i: (x.max(1), (x * w[:, None]).sum(1).astype(x.dtype)),
    "running": lambda x, w, i: (x * 2).cumsum(1).astype(x.dtype),
    "running back": lambda x, w, i: x[:, ::-1].cumsum(1)[:, ::-1].astype(x.dtype),
    "products": lambda x, w, i: (
        x.reshape(-1, x.shape[1], x.shape[1])
        * x.reshape(-1, 1, x.shape[1] ** 2)[..., : x.shape[1]]
    ).max(2),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("columns", [2, 3, 7])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "uint8"])
def test_columns_written_out(name, columns, dtype):
    fun, rows = COLUMNS[name], 8001 * columns
    x, w = numbers((1, rows, columns), dtype)[0], numbers((1, rows, 1), dtype)[0, :, 0]
    i = np.random.default_rng(1).integers(0, rows, rows)
    for a, b in zip(
        curta.tree.leaves(curta.jit(fun)(x, w, i)),
        curta.tree.leaves(fun(x, w, i)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-3 if dtype == "float16" else 1e-6)


def test_donated_rows_are_overwritten():
    x = np.arange(9000, dtype=np.float32).reshape(3000, 3)
    add = curta.jit(lambda x, b: x + b, donate_argnums=0)
    got = add(curta.device_put(x), np.arange(3, dtype=np.float32))
    np.testing.assert_array_equal(got, x + np.arange(3))


def test_rows_fill_vectors(monkeypatch, capsys):
    monkeypatch.setenv("CURTA_DUMP", "kernels,schedule")
    curta.jit(lambda x: x.sum(0))(np.ones((20011, 3), np.float32))
    dumped = capsys.readouterr().err
    assert dumped.count("accumulators: flat") == 1
    curta.jit(lambda x: x.max(0))(np.ones((20011, 3), np.float32))
    assert "192" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [1024, 1031])
def test_values_of_one_iteration_stay_in_registers(rows):
    """Wide rows and the rest are two kernels; no value passes from one to the other."""

    def deep(x, p):
        y = x * jnp.sqrt(p)
        for i in range(40):  # read twice each: expressions too large to repeat
            y = (y + i) * (x - y * 0.5) / (1 + y * y)
        return y

    x = jnp.linspace(0.0, 1.0, rows * 11).reshape(rows, 11)
    p = jnp.arange(1.0, 12.0)
    native = compile_jaxpr(curta.make_jaxpr(deep)(x, p)).native
    assert native.temporaries < x.nbytes
    with curta.disable_jit():
        expected = deep(x, p)
    np.testing.assert_allclose(curta.jit(deep)(x, p), expected, rtol=1e-4)
