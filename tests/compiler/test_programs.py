"""Whole programs: shapes, dtypes, outputs, steps in Python, threads, dumps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.compiler.programs import InPython, assert_compiles, staged

import curta
from curta.compiler.host_target import host
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.rewrite import passes
from curta.compiler.support.entry import native_entry
from curta.compiler.support.threads import parallel_for_address
from curta.core.jaxpr import Jaxpr
from curta.errors import JaxprTypeError
from curta.primitives import elementwise as ops
from curta.primitives.cumulative import CumMax, CumMin, CumProd, CumSum
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.indexing.gather import Gather, ScatterAdd
from curta.primitives.indexing.numbers import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)
from curta.primitives.joining import Concatenate
from curta.primitives.reduction import ArgMax, ArgMin, ReduceMax, ReduceOr
from curta.primitives.shape import Iota
from curta.primitives.structure import BroadcastInDim, ReduceSum, Reshape, Transpose

RNG = np.random.default_rng(0)
FLOAT32, INT32 = np.dtype("float32"), np.dtype("int32")
NUMBERS = ["int8", "uint8", "int16", "uint32", "int64", "uint64", "float16", "float32",
           "float64", "complex64", "complex128"]  # fmt: skip


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "dtype", [*map(np.dtype, NUMBERS), np.dtype(ml_dtypes.bfloat16)], ids=str
)
@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (3, 1, 7), (130, 17), (0, 4)], ids=str
)
def test_sums_and_maps_of_every_dtype(dtype: Any, shape: tuple[int, ...]) -> None:
    x = (RNG.standard_normal(shape) * 4).astype(dtype)

    def fun(x: Any) -> list[Any]:
        y = ops.add(ops.mul(x, x), x)
        return [y, *(ReduceSum((k,))(y) for k in range(len(shape)))]

    tolerance = {2: 2e-2, 1: 0}.get(dtype.itemsize, 1e-4)
    assert_compiles(staged(fun, x), x, rtol=tolerance)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((100_000,), (0,)), ((3, 70_001), (1,)), ((70_001, 3), (0,)),
     ((9, 2000, 33), (1,)), ((600, 1100), (0,)), ((40, 50, 60), (0, 2)),
     ((40, 50, 60), (0, 1, 2)),
     ((2, 3, 2, 3, 2, 3, 2), (1, 3, 5))],
    ids=str,
)  # fmt: skip
def test_long_folds(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = normal(*shape)

    def fun(x: Any) -> list[Any]:
        return [ReduceSum(axes)(ops.mul(x, x)), ReduceMax(axes)(x)]

    assert_compiles(staged(fun, x), x)


def test_folds_of_bools_and_places() -> None:
    x = normal(60, 45)
    x[3, 7] = x[3, 9] = x[10, 0] = np.nan
    x[5] = 1.0

    def fun(x: Any) -> list[Any]:
        positive = ops.gt(x, BroadcastInDim((60, 45), ())(np.float32(2)))
        return [
            ArgMax((1,), INT32)(x), ArgMin((0,), np.dtype("int64"))(x),
            ReduceOr((0,))(positive), ReduceOr((0, 1))(positive),
        ]  # fmt: skip

    assert_compiles(staged(fun, x), x)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x = normal(300, 4000)

    def fun(x: Any) -> list[Any]:
        e = ops.exp(ops.sub(x, BroadcastInDim(x.aval.shape, (0,))(ReduceMax((1,))(x))))
        return [e, ReduceSum((0,))(e), ReduceSum((1,))(e), ReduceSum((0, 1))(e)]

    closed = staged(fun, x)
    alone = compile_jaxpr(closed)(x)
    together = compile_jaxpr(closed, parallel_for=parallel_for_address)(x)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int32", "complex64", "float16"]
)
@pytest.mark.parametrize(
    ("shapes", "numbers"),
    [
        (((7, 5), (5, 9)), (((1,), (0,)), ((), ()))),
        (((5, 7), (9, 5)), (((0,), (1,)), ((), ()))),
        (((33, 64), (64, 129)), (((1,), (0,)), ((), ()))),
        (((4, 7, 5), (4, 5, 9)), (((2,), (1,)), ((0,), (0,)))),
        (((7, 4, 5), (5, 9, 4)), (((2,), (0,)), ((1,), (2,)))),
        (((6, 5), (5,)), (((1,), (0,)), ((), ()))),
        (((5,), (5, 6)), (((0,), (0,)), ((), ()))),
        (((5,), (5,)), (((0,), (0,)), ((), ()))),
        (((3,), (4,)), (((), ()), ((), ()))),
        (((2, 3, 4), (4, 3, 5)), (((1, 2), (1, 0)), ((), ()))),
        (((3, 0), (0, 2)), (((1,), (0,)), ((), ()))),
        (((0, 3), (3, 2)), (((1,), (0,)), ((), ()))),
    ],
    ids=str,
)
def test_products(dtype: str, shapes: Any, numbers: Any) -> None:
    x, y = ((RNG.standard_normal(s) * 4).astype(dtype) for s in shapes)
    op = DotGeneral(numbers)
    closed = staged(lambda x, y: [ops.neg(op(x, ops.neg(y)))], x, y)
    assert_compiles(closed, x, y, rtol=5e-3 if dtype == "float16" else 1e-4)


def test_gather_and_scatter() -> None:
    table, places = normal(50, 24), RNG.integers(-3, 55, (70, 1)).astype(np.int32)
    rows = Gather(GatherDimensionNumbers((1,), (0,), (0,)), (1, 24), fill_value=0)
    add = ScatterAdd.of(FLOAT32, ScatterDimensionNumbers((1,), (0,), (0,)))
    single = ScatterAdd.of(FLOAT32, ScatterDimensionNumbers((), (0,), (0,)))

    def fun(table: Any, places: Any) -> list[Any]:
        found = rows(table, places)
        column = ReduceSum((1,))(found)
        return [
            ops.exp(found),
            add(table, places, found),
            single(column, places, column),
        ]

    assert_compiles(staged(fun, table, places), table, places)


def test_outputs_of_every_origin() -> None:
    """An argument, the same value twice, a literal, a constant, a reshaped result."""
    x, constant = normal(6, 4), normal(3)

    def fun(x: Any) -> list[Any]:
        y = ops.exp(x)
        flat = Reshape((24,))(y)
        return [
            x,
            x,
            y,
            y,
            flat,
            ops.neg(flat),
            np.float32(3),
            constant,
            Iota(INT32, (3,), 0)(),
        ]

    closed = staged(fun, x)
    assert_compiles(closed, x)
    got = compile_jaxpr(closed)(x)
    assert len({a.ctypes.data for a in got}) == len(got)
    assert all(not np.shares_memory(a, x) for a in got)


def test_python_between_kernels() -> None:
    x = normal(40, 30)

    def fun(x: Any) -> list[Any]:
        y = ops.exp(x)
        z = InPython()(y)
        return [ops.add(z, y), ReduceSum((0,))(z), Transpose((1, 0))(z)]

    closed = staged(fun, x)
    compiled = assert_compiles(closed, x)
    assert compiled.native.runs_python


def test_many_operands_and_long_chains() -> None:
    x = normal(11)

    def fun(x: Any) -> list[Any]:
        y = x
        for _ in range(400):
            y = ops.sub(ops.mul(y, np.float32(0.99)), np.float32(0.01))
        many = Concatenate(0)(*[ops.mul(x, np.float32(i)) for i in range(40)])
        return [y, ReduceSum((0,))(many)]

    assert_compiles(staged(fun, x), x)


def test_the_native_program_can_be_called_directly() -> None:
    x, bias = normal(20, 8), normal(8)
    closed = staged(
        lambda x: [ops.add(x, BroadcastInDim((20, 8), (1,))(bias)), ReduceSum((0,))(x)],
        x,
    )
    program = compile_jaxpr(closed).native
    assert program is not None
    entry = native_entry(program)
    outs = [np.empty(shape, dtype) for dtype, shape in program.signature[:2]]
    assert entry(*outs, x)
    np.testing.assert_array_equal(outs[0], x + bias)
    np.testing.assert_allclose(outs[1], x.sum(0), rtol=1e-5)


def test_conversions_meet_in_one_kernel() -> None:
    x = normal(1000)

    def fun(x: Any) -> list[Any]:
        whole = ConvertElementType(np.dtype("int8"))(x)
        half = ConvertElementType(np.dtype("float16"))(x)
        wide = ConvertElementType(np.dtype("float64"))(x)
        return [whole, ops.add(half, half), ops.exp(wide), ops.gt(x, ops.neg(x))]

    assert_compiles(staged(fun, x), x, rtol=1e-3)


def test_dumps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CURTA_DUMP", "jaxpr,simplify,prepared,fuse,kernels,llvm")
    compile_jaxpr(staged(lambda x: [ops.exp(x)], normal(16)))
    text = capsys.readouterr().err
    for part in (
        "--- jaxpr",
        "--- simplify",
        "--- prepared",
        "--- fuse",
        "exp over i0:16",
        "math.exp",
        "define i64 @entry",
    ):
        assert part in text


def test_every_pass_is_printed_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {p.name for p in (*passes.PROGRAM, *passes.LOOPS)}
    monkeypatch.setenv("CURTA_DUMP", ",".join(names))
    loop = curta.make_jaxpr(lambda x: curta.lax.fori_loop(0, 3, lambda _, x: x + 1, x))
    compile_jaxpr(loop(normal(16)))
    printed = {x[4:] for x in capsys.readouterr().err.splitlines() if x[:3] == "---"}
    assert printed == names


def test_a_pass_that_breaks_a_program_is_named() -> None:
    def drop_eqns(jaxpr: Jaxpr) -> Jaxpr:
        return jaxpr.replace(eqns=[])

    jaxpr = staged(lambda x: [ops.exp(x)], normal(16)).jaxpr
    broken = (
        passes.Pass("same", lambda x, _: x),
        passes.Pass("drop", lambda x, _: drop_eqns(x)),
    )
    with pytest.raises(JaxprTypeError, match="after the pass 'drop'"):
        passes.run_passes(broken, jaxpr, host())


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int8", "bool", "complex64", "float16"]
)
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((64, 48), (1, 0)),
        ((37, 50), (1, 0)),
        ((3, 40, 33), (2, 0, 1)),
        ((20, 3, 20), (2, 1, 0)),
    ],
    ids=str,
)
def test_transposes(dtype: str, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    x = (RNG.standard_normal(shape) * 4).astype(dtype)
    other = np.ascontiguousarray(x.transpose(order))

    def fun(x: Any, y: Any) -> list[Any]:
        return [Transpose(order)(x), ops.eq(Transpose(order)(x), y)]

    assert_compiles(staged(fun, x, other), x, other)


@pytest.mark.parametrize("op", [CumSum, CumProd, CumMax, CumMin])
@pytest.mark.parametrize(
    "shape", [(1,), (1000,), (40, 37), (7, 3, 50), (0, 3)], ids=str
)
def test_cumulative(op: Any, shape: tuple[int, ...]) -> None:
    x = np.tanh(normal(*shape)) + np.float32(0.5)

    def fun(x: Any) -> list[Any]:
        axes = range(len(shape))
        return [op(k, back)(ops.neg(x)) for k in axes for back in (False, True)]

    assert_compiles(staged(fun, x), x, rtol=1e-4)


def test_a_running_sum_shares_its_rows_with_neighbours() -> None:
    x = normal(50, 70)

    def fun(x: Any) -> list[Any]:
        sums = CumSum(1)(ops.exp(x))
        total = BroadcastInDim((50, 70), (0,))(ReduceSum((1,))(sums))
        return [ops.div(sums, total)]

    assert_compiles(staged(fun, x), x, rtol=1e-4)


def test_equal_layers_compile_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = normal(32, 32), normal(32, 32) / 8
    matmul = DotGeneral((((1,), (0,)), ((), ())))

    def fun(x: Any, w: Any) -> list[Any]:
        for _ in range(6):
            x = ops.tanh(matmul(x, w))
        return [x]

    closed = staged(fun, x, w)
    assert_compiles(closed, x, w, rtol=1e-4)
    monkeypatch.setenv("CURTA_DUMP", "llvm")
    compile_jaxpr(closed)
    assert capsys.readouterr().err.count("define internal void @kernel") == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_large_concatenations(axis: int) -> None:
    x, y, empty = (
        normal(150, 130),
        normal(150, 130),
        normal(*((0, 130) if not axis else (150, 0))),
    )

    def fun(x: Any, y: Any, empty: Any) -> list[Any]:
        joined = Concatenate(axis)(ops.exp(x), empty, y, ops.neg(ops.exp(x)))
        return [joined, ReduceSum((axis,))(joined), ops.add(joined, joined)]

    assert_compiles(staged(fun, x, y, empty), x, y, empty)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_side_by_side(dtype: str) -> None:
    z = (RNG.standard_normal((37, 91)) + 1j * RNG.standard_normal((37, 91))).astype(
        dtype
    )

    def fun(z: Any) -> list[Any]:
        w = ops.mul(z, z)
        return [w, ops.add(w, z), ReduceSum((0,))(w), Transpose((1, 0))(z)]

    assert_compiles(staged(fun, z), z)


def test_threads_call_a_program_at_the_same_time() -> None:
    """Its temporaries are large enough to live in the arena that calls leave behind."""
    x = normal(400, 300)

    def fun(x: Any) -> list[Any]:
        e = ops.exp(x)
        return [ops.add(ReduceSum((0,))(Transpose((1, 0))(e)), ReduceSum((1,))(e))]

    compiled = compile_jaxpr(staged(fun, x), parallel_for=parallel_for_address)
    inputs = [x + np.float32(k) for k in range(8)]
    expected = [compiled(a)[0] for a in inputs]

    def work(k: int) -> bool:
        return all(
            np.array_equal(compiled(inputs[k])[0], expected[k]) for _ in range(30)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))
