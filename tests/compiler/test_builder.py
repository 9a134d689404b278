"""The IR builder: what is emitted compiles and computes what it says."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tests.compiler.native import Native, elementwise

from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.functions import function as native_function
from curta.compiler.llvm.types import F32, F64, I1, I8, I32, I64, PTR, Type, literal

X = np.array([0.0, -0.0, 1.5, -2.5, 3e9, -3e9, np.inf, -np.inf, np.nan, 7.0], "f4")
Y = np.array([1.0, 2.0, -1.5, -2.5, 0.5, np.nan, 1.0, np.inf, 2.0, -0.0], "f4")
INTS = np.array([0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 100, 5, 3], "i4")
OTHERS = np.array([3, 1, 4, -7, 8, 2, 5, -9, 31, 7], "i4")


def test_literals():
    assert literal(F64, 1.0) == "0x3FF0000000000000"
    assert literal(F32, 0.1) == "0x3FB99999A0000000"
    assert literal(F32, 1e300) == literal(F32, float("inf"))
    assert literal(I8, 255) == "-1"
    assert literal(I1, 2) == "true"
    assert literal(I32.with_lanes(4), 7) == "splat (i32 7)"


FLOAT_RULES = {
    "add": (lambda b, x, y: x + y, np.add),
    "sub": (lambda b, x, y: x - y, np.subtract),
    "mul": (lambda b, x, y: x * y, np.multiply),
    "div": (lambda b, x, y: x / y, np.divide),
    "neg": (lambda b, x, y: -x, lambda x, y: -x),
    "max": (lambda b, x, y: b.max(x, y), np.maximum),
    "min": (lambda b, x, y: b.min(x, y), np.minimum),
    "number on the left": (lambda b, x, y: 1.0 - x, lambda x, y: 1 - x),
    "copysign": (lambda b, x, y: b.copysign(x, y), np.copysign),
    "select": (
        lambda b, x, y: b.select(x < y, x, y),
        lambda x, y: np.where(x < y, x, y),
    ),
    "floor": (lambda b, x, y: b.floor(x), lambda x, y: np.floor(x)),
    "round": (lambda b, x, y: b.round_even(x), lambda x, y: np.rint(x)),
    "fma": (
        lambda b, x, y: b.fma(x, x, y),
        lambda x, y: (x.astype("f8") ** 2 + y).astype("f4"),
    ),
    "horner": (
        lambda b, x, y: b.horner(x, [2.0, y, 1.0]),
        lambda x, y: (2 * x + y) * x + 1,
    ),
}


@pytest.mark.parametrize("lanes", [1, 4, 16, 32])
@pytest.mark.parametrize("name", FLOAT_RULES)
def test_float_instructions(name, lanes):
    emit, expected = FLOAT_RULES[name]
    with np.errstate(all="ignore"):
        want = expected(X, Y)
    got = elementwise(emit, ["f32", "f32"], "f32", lanes)(X, Y)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_array_equal(
        np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(want)])
    )


INT_RULES = {
    "add": (lambda b, x, y: x + y, lambda x, y: x + y),
    "mul": (lambda b, x, y: x * y, lambda x, y: x * y),
    "and": (lambda b, x, y: x & y, np.bitwise_and),
    "or": (lambda b, x, y: x | y, np.bitwise_or),
    "xor": (lambda b, x, y: x ^ y, np.bitwise_xor),
    "not": (lambda b, x, y: ~x, lambda x, y: ~x),
    "shift": (lambda b, x, y: x << (y & 31), lambda x, y: x << (y & 31)),
    "arithmetic shift": (lambda b, x, y: x >> (y & 31), lambda x, y: x >> (y & 31)),
    "quotient": (
        lambda b, x, y: b.div(x, y),
        lambda x, y: np.trunc(x / y.astype("f8")).astype("i4"),
    ),
    "max": (lambda b, x, y: b.max(x, y), np.maximum),
    "min": (lambda b, x, y: b.min(x, y), np.minimum),
    "unsigned max": (
        lambda b, x, y: b.max(x, y, unsigned=True),
        lambda x, y: np.maximum(x.view("u4"), y.view("u4")).view("i4"),
    ),
    "population": (
        lambda b, x, y: b.population_count(x),
        lambda x, y: np.bitwise_count(x.view("u4")).astype("i4"),
    ),
}


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("name", INT_RULES)
def test_integer_instructions(name, lanes):
    emit, expected = INT_RULES[name]
    divisor = 1 if name == "quotient" and lanes > 1 else None
    rule = (
        emit
        if divisor is None
        else lambda b, x, y: b.div(x, b.select(b.eq(y, 0), 1, y))
    )
    with np.errstate(all="ignore"):
        want = expected(INTS, OTHERS)
    np.testing.assert_array_equal(
        elementwise(rule, ["i32", "i32"], "i32", lanes)(INTS, OTHERS), want
    )


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(predicate, lanes):
    numpy_name = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
                  "gt": "greater", "ge": "greater_equal"}[predicate]  # fmt: skip
    want = getattr(np, numpy_name)
    emit = elementwise(
        lambda b, x, y: b.compare(predicate, x, y), ["f32", "f32"], "i1", lanes
    )
    np.testing.assert_array_equal(emit(X, Y), want(X, Y))
    emit = elementwise(
        lambda b, x, y: b.compare(predicate, x, y, unsigned=True),
        ["i32", "i32"], "i1", lanes,
    )  # fmt: skip
    np.testing.assert_array_equal(
        emit(INTS, OTHERS), want(INTS.view("u4"), OTHERS.view("u4"))
    )


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_floats_saturate_when_they_become_integers(kind, bits, unsigned):
    x = np.concatenate([X, Y]).astype({"f32": "f4", "f64": "f8"}[kind])
    info = np.iinfo(f"{'u' if unsigned else 'i'}{bits // 8}")
    limited = [0 if np.isnan(v) else int(min(max(v, -1e30), 1e30)) for v in x.tolist()]
    want = [min(max(v, info.min), info.max) for v in limited]
    for lanes in (1, 16):
        emit = elementwise(
            lambda b, x: b.convert(x, f"i{bits}", unsigned), [kind], f"i{bits}", lanes
        )
        got = emit(x)
        assert (got.view(info.dtype) if unsigned else got).tolist() == want


@pytest.mark.parametrize(("unsigned", "view"), [(False, "i4"), (True, "u4")])
@pytest.mark.parametrize("to", ["f64", "i64"])
def test_integers_widen(to, unsigned, view):
    emit = elementwise(lambda b, x: b.convert(x, to, unsigned), ["i32"], to, 8)
    want = INTS.view(view).astype({"f64": "f8", "i64": "i8"}[to])
    np.testing.assert_array_equal(emit(INTS), want)


def test_truth_of_floats():
    emit = elementwise(
        lambda b, x: b.convert(b.convert(x, "i1"), "f32"), ["f32"], "f32", 8
    )
    np.testing.assert_array_equal(emit(X), (X != 0).astype("f4"))


def test_loops_carry_values():
    m = Module()
    b = m.function("f", [PTR, I64, I64, I64])
    out, start, stop, _ = b.arguments
    with b.loop(start, stop, 3, carried=[b.const(I64, 10), b.const(I64, 1)]) as loop:
        total, count = loop.carried
        loop.next(total + loop.index, count)
    for i, value in enumerate(loop.results):
        b.store(value, b.offset(out, i, I64))
    b.ret()
    f = Native(m, "f")
    for first, last in ((0, 10), (5, 5), (9, 2), (0, 1), (-4, 4)):
        got = np.zeros(2, "i8")
        f(got, first, last, 0)
        assert got.tolist() == [10 + sum(range(first, last, 3)), 1]


@pytest.mark.parametrize("stop", [0, 1, 4, 5])
def test_loops_of_known_length(stop):
    m = Module()
    b = m.function("f", [], I64)
    with b.loop(0, stop, 4, carried=[b.const(I64, 0)]) as loop:
        loop.next(loop.carried[0] + loop.index + 1)
    b.ret(loop.results[0])
    assert Native(m, "f")(result=ctypes.c_int64) == sum(
        i + 1 for i in range(0, stop, 4)
    )


def test_control_flow():
    """Collatz steps, which nest a branch in a loop that ends on a condition."""
    m = Module()
    b = m.function("f", [I64], I64)

    def step(values):
        n, count = values
        half, more = (lambda: [b.lshr(n, 1)]), (lambda: [n * 3 + 1])
        return [*b.if_(b.eq(n & 1, 0), half, more), count + 1]

    _, count = b.while_loop(
        [b.arguments[0], b.const(I64, 0)], lambda v: b.ne(v[0], 1), step
    )
    with b.when(count > 1000):
        b.call("f", I64, b.const(I64, 1))
    b.ret(count)
    assert Native(m, "f")(27, result=ctypes.c_int64) == 111


@pytest.mark.parametrize(
    ("length", "most", "expected"),
    [(0, 9, 0), (2, 9, 2), (3, 9, 1003), (10, 9, 3010), (10, 2, 3009), (10, 0, 1003)],
)
def test_a_loop_that_asks_after_blocks_of_turns(length, most, expected):
    """It trips `length` times, or until it has asked more often than `most`."""
    m = Module.of(host())
    b = m.function("f", [I64, I64], I64)
    asked = b.scratch(8)
    b.store(b.const(I64, 0), asked)

    def goes_on():
        before = b.load(I64, asked)
        b.store(before + 1, asked)
        return before < b.arguments[1]

    trips = b.while_in_blocks(
        [b.const(I64, 0)], lambda v: v[0] < b.arguments[0], lambda v: [v[0] + 1], 3,
        goes_on,
    )  # fmt: skip
    b.ret(b.load(I64, asked) * 1000 + trips[0])
    assert Native(m, "f")(length, most, result=ctypes.c_int64) == expected


def test_lanes():
    m = Module.of(host())
    b = m.function("f", [PTR, PTR])
    out, source = b.arguments
    v = b.load(F32.with_lanes(8), source)
    b.store(b.shuffle(v, None, range(7, -1, -1)), out)
    total = b.reduce_lanes(v, b.add)
    b.store(b.splat(total, 8), b.offset(out, 8, F32))
    b.store(b.insert(v, b.extract(v, 2), 5), b.offset(out, 16, F32))
    every = b.gather(F32.with_lanes(8), b.strided(source, 2, F32.with_lanes(8)))
    b.store(every, b.offset(out, 24, F32))
    b.scatter(v, b.strided(b.offset(out, 32, F32), 3, F32.with_lanes(8)))
    b.ret()
    x = np.arange(16, dtype="f4")
    got = np.zeros(56, "f4")
    Native(m, "f")(got, x)
    assert got[:8].tolist() == x[7::-1].tolist()
    assert set(got[8:16]) == {28.0}
    assert got[16:24].tolist() == [0, 1, 2, 3, 4, 2, 6, 7]
    assert got[24:32].tolist() == x[::2].tolist()
    assert got[32:56:3].tolist() == x[:8].tolist()


def test_masks_keep_away_from_other_memory():
    page = 4096
    memory = np.zeros(3 * page, np.uint8)
    emit = elementwise(lambda b, x: x + 1.0, ["f32"], "f32", 16)
    x = memory[page : page + 4 * 5].view("f4")
    assert emit(x).tolist() == [1.0] * 5
    assert not memory.any()


def test_tables_are_shared_and_readable():
    m = Module()
    b = m.function("f", [I64], F64)
    place = b.table(F64, [1.5, 2.5])
    assert b.table(F64, [1.5, 2.5]).text == place.text
    b.ret(b.load(F64, b.offset(place, b.arguments[0], F64)))
    f = Native(m, "f")
    assert [f(i, result=ctypes.c_double) for i in (0, 1)] == [1.5, 2.5]


def test_mistakes_are_noticed():
    m = Module()
    b = m.function("f", [I64, Type("f32", 4)])
    n, v = b.arguments
    with pytest.raises(TypeError, match="expected i64"):
        b.add(n, v)
    with pytest.raises(TypeError, match="more than one lane"):
        b.masked_load(F32, n, b.const(I1, 1))
    with pytest.raises(ValueError, match="already in the module"):
        m.function("f", [])
    with (
        pytest.raises(TypeError, match="loop carries"),
        b.loop(0, 2, carried=[n]) as loop,
    ):
        loop.next(v)


@pytest.fixture
def function():
    return Module.of(host()).function("f", [PTR, I64])


def test_constants_are_folded(function):
    """LLVM's code generator would compute them at run time."""
    b = function
    _, n = b.arguments
    two, seven = b.const(I64, 2), b.const(I64, 7)
    known = {
        "9": [two + seven, b.sub(11, two), b.max(b.const(I64, 9), two)],
        "2": [b.min(two, 7), b.urem(b.const(I64, 9), seven), b.udiv(seven, 3)],
        str(-(2**63)): [b.const(I64, 2**63 - 1) + 1],
        n.text: [n + 0, 0 + n, n - 0, n * 1, 1 * n, b.udiv(n, 1)],
        "true": [b.compare("lt", two, seven), b.ne(two, 7)],
        "false": [b.compare("ge", two, seven), b.eq(two, 7)],
    }
    for text, values in known.items():
        assert [v.text for v in values] == [text] * len(values)
    pointer = b.arguments[0]
    assert b.offset(pointer, 0, F32) is pointer
    assert b.select(b.eq(two, 2), n, two) is n
    assert b.text().count("\n") == 2  # no instruction


@pytest.mark.parametrize(("x", "y"), [(7, 0), (-7, 2), (7, -2)])
def test_divisions_that_are_not_folded(function, x, y):
    """Of what is undefined, or rounds otherwise for negative numbers."""
    b = function
    assert b.urem(b.const(I64, x), y).text.startswith("%")
    assert b.udiv(b.const(I64, x), y).text.startswith("%")


def test_loops_of_known_bounds(function):
    """One that never runs leaves no code, one that runs once no loop."""
    b = function
    pointer, n = b.arguments
    before = b.text()
    with b.loop(b.const(I64, 5), 5, carried=[n]) as never:
        b.store(never.index, pointer)
        never.next(never.carried[0] + 1)
    with b.when(b.eq(b.const(I64, 1), 2)):
        b.store(n, pointer)
    assert b.text() == before
    assert never.results == [n]
    with b.loop(b.const(I64, 4), b.const(I64, 5), carried=[n]) as once:
        once.next(once.carried[0] + once.index)
    assert "br " not in b.text()
    assert once.index.text == "4"
    assert once.results[0] is not n


def test_masks_of_known_lanes(function):
    mask = function.first_lanes(function.const(I64, 2), 4)
    assert mask.text == "<i1 true, i1 true, i1 false, i1 false>"


@native_function(PTR, I64, I64, result=I64)
def index_of(b, words, count, number):
    with b.loop(0, count) as loop:
        word = b.load(I64, b.offset(words, loop.index, I64))
        b.return_when(b.eq(word, number), loop.index)
    return -1


@native_function(I64, result=I64)
def bits(b, number):
    with b.forever([number, b.const(I64, 0)]) as loop:
        left, count = loop.carried
        with b.when(b.eq(left, 0)):
            b.ret(count)
        loop.next(b.lshr(left, 1), count + 1)
    return 0


@native_function(PTR, I64, I64, result=I64)
def bits_of_index(b, words, count, number):
    found = index_of(b, words, count, number)
    b.return_unless(found >= 0, number)
    with b.when(b.eq(b.const(I64, 1), 1)):  # known, so that it is no branch
        b.ret(bits(b, found) + bits(b, index_of(b, words, count, 5)))
    return 7


def test_functions_that_return_early():
    module = Module.of(host())
    bits_of_index.export(module)
    run = Native(module, "bits_of_index")
    words = np.array([2, 3, 5, 8, 13])
    assert run(words, 5, 13, result=ctypes.c_int64) == 3 + 2
    assert run(words, 5, 4, result=ctypes.c_int64) == 4
    assert module.text().count("define ") == 3
