"""Sorts and selections in compiled programs: native, equal to `eval` bit for bit."""

import dataclasses

import numpy as np
import pytest
from tests.compiler.programs import native

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler import code_generator, pipeline
from curta.compiler.emit.levels import routine_level
from curta.compiler.emit.routine_code import routine_call
from curta.compiler.host_target import host
from curta.compiler.library.quicksort import Quicksort
from curta.compiler.library.sort import RowSort
from curta.compiler.llvm.types import I32
from curta.compiler.rewrite.sorting import GreatestOfRows, OrderOfRows, SortedRows
from curta.primitives.sorting import Sort, TopK
from curta.runtime import backends

DTYPES = [
    *("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64"),
]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0]


def numbers(shape, dtype, seed=0):
    """Numbers of a dtype, many of them equal; floats with zeros, infinities, NaNs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * 50
    if dtype.startswith(("float", "bf", "complex")):
        x = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), x.round())
    elif dtype[0] == "u":
        x = abs(x)
    with np.errstate(invalid="ignore"):
        x = np.asarray(jnp.asarray(x).astype(dtype))
    return x


def compiled(fun, *args):
    """The result of the compiled function, which must have no steps in Python."""
    return curta.tree.leaves(native(fun, *args))


def with_one_nan(x):
    """`x` with the same NaN everywhere: NumPy's sorts do not keep their bits."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return np.where(x != x, np.asarray(np.nan, x.dtype), x)


def stable_order(x, axis):
    return np.argsort(np.where(x == 0, 0, x), axis, kind="stable")


def assert_same(found, expected):
    for x, y in zip(found, expected, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype and x.shape == y.shape
        assert with_one_nan(x).tobytes() == with_one_nan(y).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 32), (2, 33), (300,)])
def test_sort_of_every_dtype(dtype, shape):
    with curta.enable_x64(True):
        x, axis = numbers(shape, dtype), len(shape) - 1
        assert_same(compiled(lambda x: lax.sort(x), x), Sort(axis).eval(x))
        places = np.broadcast_to(np.arange(shape[-1], dtype=np.int32), shape)
        pair = compiled(lambda x, p: lax.sort((x, p), num_keys=1), x, places)
        assert_same(pair, Sort(axis).eval(x, places))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "complex64"])
@pytest.mark.parametrize(("size", "k"), [(7, 3), (40, 30), (100, 1), (900, 300)])
def test_top_k_of_every_dtype(dtype, size, k):
    with curta.enable_x64(True):
        x = numbers((3, size), dtype)
        found = compiled(lambda x: lax.top_k(x, k), x)
    assert_same(found, TopK(k, 1).eval(x))


@pytest.mark.parametrize("order", ["ascending", "descending", "equal"])
def test_top_k_of_long_rows(order):
    x = np.sort(numbers((400_000,), "float32"))
    x = {"ascending": x, "descending": x[::-1].copy(), "equal": np.ones_like(x)}[order]
    for k in (5, 1000):
        assert_same(compiled(lambda x, k=k: lax.top_k(x, k), x), TopK(k, 0).eval(x))


def test_other_axes_and_several_keys():
    x, y = numbers((20, 40, 3), "float32"), numbers((20, 40, 3), "int8", 1)
    found = compiled(lambda x, y: lax.sort((y, x, x), dimension=1, num_keys=2), x, y)
    assert_same(found, Sort(1, num_keys=2).eval(y, x, x))
    assert_same(compiled(lambda x: lax.top_k(x, 3, axis=0), x), TopK(3, 0).eval(x))
    order = compiled(lambda x: jnp.argsort(x, axis=0), x)[0]
    np.testing.assert_array_equal(order, stable_order(x, 0))


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_long_rows_are_cut_into_pieces(dtype):
    x = numbers((100_003,), dtype)
    assert SortedRows().routine(host(), curta.typeof(x)).pieces > 1
    assert_same(compiled(lambda x: jnp.sort(x), x), Sort(0).eval(x))
    order = compiled(lambda x: jnp.argsort(x), x)[0]
    np.testing.assert_array_equal(order, stable_order(x, 0))


def test_sorts_inside_loops_are_native():
    def step(carry, x):
        return jnp.sort(carry * 1.5 - x), lax.top_k(x, 2)[1]

    x = numbers((4, 50), "int8").astype(np.float32)
    carry, places = compiled(lambda x: lax.scan(step, x[0], x), x)
    expected, each = x[0], []
    for row in x:
        expected = np.sort(expected * np.float32(1.5) - row)
        each.append(TopK(2, 0).eval(row)[1])
    np.testing.assert_allclose(carry, expected, rtol=1e-6)
    np.testing.assert_array_equal(places, each)


def test_dtypes_without_native_code():
    x = numbers((3, 40), "float8_e4m3fn")
    assert_same([curta.jit(lambda x: jnp.sort(x))(x)], Sort(1).eval(x))
    assert_same(curta.jit(lambda x: lax.top_k(x, 3))(x), TopK(3, 1).eval(x))


def test_empty_and_single():
    for size in (0, 1):
        x = np.ones((2, size), np.float32)
        assert curta.jit(lambda x: jnp.sort(x))(x).shape == (2, size)
        assert curta.jit(lax.top_k, static_argnums=1)(x, size)[0].shape == (2, size)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("values", ["random", "sorted", "equal", "few", "skewed"])
def test_both_ways_to_sort_a_long_row(monkeypatch, wide, values):
    """By radix and by vectors, whatever the machine prefers."""
    target = dataclasses.replace(host(), vector_bytes=64 if wide else 32)
    monkeypatch.setattr(pipeline, "host", lambda: target)
    monkeypatch.setattr(backends, "host_with", lambda transport: target)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**32, 70_001, dtype=np.uint32)
    x = {
        "random": x, "sorted": np.sort(x), "equal": x * 0 + 7, "few": x % 5,
        "skewed": (rng.exponential(size=x.size) ** 8).astype(np.uint32),
    }[values]  # fmt: skip
    assert SortedRows().routine(target, curta.typeof(x)).by_vectors is wide
    assert_same(compiled(lambda x: jnp.sort(x), x), [np.sort(x)])
    order = compiled(lambda x: jnp.argsort(x), x)[0]
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    for dtype in "uint32", "uint8":
        y = x.astype(dtype)
        assert_same(compiled(lambda y: lax.top_k(y, 200), y), TopK(200, 0).eval(y))


def test_the_ops_of_the_library_evaluate():
    x = numbers((3, 50), "float32")
    assert_same([SortedRows().eval(x)], Sort(1).eval(x))
    assert_same([GreatestOfRows(4).eval(x)], TopK(4, 1).eval(x)[1:])
    assert_same([OrderOfRows(True).eval(x)], TopK(50, 1).eval(x)[1:])
    order = OrderOfRows().eval(x)
    np.testing.assert_array_equal(order, stable_order(x, 1))


def test_sorts_of_rows_of_any_size_share_the_code_of_quicksort():
    sorts = [
        RowSort(
            1,
            size,
            ("f32",),
            gives_order=False,
            wide_vectors=True,
            tuning=host().tuning,
        )
        for size in (1000, 1001)
    ]
    codes = [routine_call(s, code_generator.GOOD, host()).code[0] for s in sorts]
    assert codes[0].file != codes[1].file
    assert [c.file for c in codes[0].callees] == [c.file for c in codes[1].callees]
    assert codes[0].callees[0].names == Quicksort.tuned(I32, False, host().tuning).names


@pytest.mark.parametrize(
    ("size", "often", "level"),
    [
        (1000, False, code_generator.QUICK),
        (1000, True, code_generator.GOOD),
        (10**6, False, code_generator.GOOD),
    ],
)
def test_level_by_what_it_saves(size, often, level):
    sort = RowSort(1, size, ("f32",), gives_order=False, tuning=host().tuning)
    assert routine_level(sort, often, host().tuning) == level
