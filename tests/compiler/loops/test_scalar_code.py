"""The scalar code of elements: complex numbers, integers, known indices, reductions."""

import numpy as np
import pytest
from tests.compiler.printing import SHORT, scalar_code

from curta.compiler.loops import (
    complex_exponentials,
    complex_inverses,
    complexes,
    integers,
    known_indices,
    value_bounds,
)
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.element_types import (
    component,
    computed_dtype,
    is_float,
    is_native,
    wide_dtype,
)
from curta.compiler.loops.folds import columns_of, fold_code, is_fold, reduced_index
from curta.compiler.loops.functions import FUNCTIONS, LONG
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.nodes import Const
from curta.primitives.elementwise import sin
from curta.primitives.reduction import ArgMax, ReduceMax
from curta.primitives.structure import ReduceSum

# ------------------------------------------------------------------ complex numbers


def test_a_complex_product_rounds_its_second_products(prints):
    """Contracted into both, they would depend on the code around them."""
    prints(
        scalar_code(complexes.mul, "c64", "c64"),
        """
        t0:float32 = x[2*i]
        t1:float32 = y[2*i]
        t2:float32 = x[2*i + 1]
        t3:float32 = y[2*i + 1]
        t4:float32 = product t2, t3
        t5:float32 = neg t4
        t6:float32 = muladd t0, t1, t5
        out0[i] = t6
        t7:float32 = product t2, t1
        t8:float32 = muladd t0, t3, t7
        out1[i] = t8
        """,
    )


def test_a_complex_quotient_divides_by_the_larger_part(contains):
    """Smith's division: no square of the divisor can overflow."""
    text = scalar_code(complexes.div, "c64", "c64")
    contains(text, "...\nt...:bool = compare.ge ...\n...")
    assert text.count("= div ") == 3


def test_exponentials_and_inverses_have_code_for_both_parts():
    """Each function of a complex number stores two parts, without complex code."""
    tables = complexes.FUNCTIONS, complex_exponentials.FUNCTIONS
    tables += (complex_inverses.FUNCTIONS,)
    for table in tables:
        for name in table:
            if name in ("atan2", "pow"):
                continue
            text = scalar_code(lambda b, z, name=name: b.math(name, z), "c64")
            assert "out1[i] = " in text and "complex" not in text, name


def test_the_exponential_of_a_complex_number(contains):
    contains(
        scalar_code(lambda b, z: b.math("exp", z), "c64"),
        """
        ...
        t...:float32 = math.exp ...
        ...
        """,
    )


# ------------------------------------------------------------------ integers


def test_division_by_zero_gives_all_bits(prints):
    """Nor does the least integer trap that is divided by -1."""
    prints(
        scalar_code(lambda b, x, y: integers.division(b, x, y), "i32", "i32"),
        """
        t0:int32 = y[i]
        t1:bool = compare.eq t0, 0
        t2:int32 = x[i]
        t3:float64 = convert t2
        t4:float64 = convert t0
        t5:float64 = div t3, t4
        t6:int64 = to_int t5
        t7:int32 = convert t6
        t8:int32 = select t1, 0, t7
        t9:int32 = select t1, -1, t8
        out0[i] = t9
        t10:int32 = mul t8, t0
        t11:int32 = sub t2, t10
        out1[i] = t11
        """,
    )


def test_shifts_out_of_range(prints):
    """A count that is negative or too large gives `outside`."""

    def shifted(b, x, y):
        return integers.shift(b, "shl", x, y, b.const(0, np.dtype("int32")))

    prints(
        scalar_code(shifted, "i32", "i32"),
        """
        t0:int32 = y[i]
        t1:uint32 = bitcast t0
        t2:bool = compare.lt t1, 32
        t3:int32 = x[i]
        t4:int32 = shl t3, t0
        t5:int32 = select t2, t4, 0
        out0[i] = t5
        """,
    )
    three = np.dtype("int32")
    assert "select" not in scalar_code(
        lambda b, x: integers.shift(b, "shl", x, b.const(3, three), x), "i32"
    )


def test_powers_of_integers_are_products():
    """A product for each bit of the exponent, and a square between them."""
    text = scalar_code(integers.power, "i8", "i8")
    assert text.count("= mul ") == 2 * 8 - 1 and "math" not in text


# ------------------------------------------------------------------ indices


def test_the_rest_of_an_index_is_an_index():
    """Sums and products of an index are affine; the rest of i < 4 by 4 is i."""
    b, i = ScalarBuilder(), as_index(LoopVar("i", 4))
    int32 = np.dtype("int32")
    x, four = b.index_value(i, int32), b.const(4, int32)
    assert known_indices.known(known_indices.arithmetic(b, "add", x, four)) == i + 4
    assert known_indices.known(known_indices.arithmetic(b, "mul", x, four)) == i * 4
    assert known_indices.known(known_indices.arithmetic(b, "rem", x, four)) == i


@pytest.mark.parametrize(
    ("direction", "by", "expected"),
    [("lt", 4, True), ("lt", 3, None), ("ge", 0, True), ("eq", 9, False)],
)
def test_bounds_decide_comparisons(direction, by, expected):
    i = as_index(LoopVar("i", 4))
    assert known_indices.order(direction, i, as_index(by)) is expected


def test_a_comparison_bounds_the_values_that_it_selects():
    """`where(i < 2, i + 4, i)` lies from 2 to 5."""
    b, i = ScalarBuilder(), as_index(LoopVar("i", 6))
    int32 = np.dtype("int32")
    x = b.index_value(i, int32)
    below = b.compare("lt", x, b.const(2, int32))
    chosen = (below, b.add(x, b.const(4, int32)), x)
    assert value_bounds.cases(chosen) == [(4, 5), (2, 5)]
    assert value_bounds.limits("select", chosen, int32) == (2, 5)
    variable, cuts = value_bounds.decided_by(below)
    assert (variable.name, cuts) == ("i", {2})
    assert value_bounds.compared(below, holds=False) == (i - 2, (0, 3))
    assert value_bounds.is_select(b.select(below, *chosen[1:]))


# ------------------------------------------------------------------ types, folds


@pytest.mark.parametrize(
    ("dtype", "computed", "wide", "native"),
    [
        ("f32", "float32", "float64", True),
        ("bf16", "float32", "float64", True),
        ("f16", "float32", "float64", True),
        ("i8", "int8", "float64", True),
        ("c64", "complex64", "complex128", False),
    ],
)
def test_types_that_instructions_compute_in(dtype, computed, wide, native):
    given = np.dtype(SHORT[dtype])
    assert computed_dtype(given) == computed
    assert wide_dtype(given) == wide
    assert is_native(given) is native
    assert is_float(given) is (dtype not in ("i8", "c64"))
    assert component(np.dtype("complex64")) == "float32"


def test_a_sum_of_halves_is_rounded_once(prints):
    """Its accumulator has 32 bits."""

    def fold(b, x, y):
        code = fold_code(ReduceSum((0,)), b, x.dtype)
        assert code.order == "blocks"
        (start,) = code.initial
        assert start.value == 0
        return code.result(code.combine(code.inputs(x, None), code.inputs(y, None)))

    prints(
        scalar_code(fold, "f16", "f16"),
        """
        t0:float16 = x[i]
        t1:float32 = convert t0
        t2:float16 = y[i]
        t3:float32 = convert t2
        t4:float32 = sum t1, t3
        t5:float16 = convert t4
        out0[i] = t5
        """,
    )


def test_the_index_of_the_greatest_is_a_second_accumulator(prints):
    """NaN is the greatest; of equal elements the first one counts."""

    def fold(b, x, y):
        code = fold_code(ArgMax((0,), np.dtype("int32")), b, x.dtype)
        assert isinstance(code.initial[0], Const) and len(code.initial) == 2
        first, second = (code.inputs(v, k) for k, v in enumerate((x, y)))
        return code.result(code.combine(first, second))

    prints(
        scalar_code(fold, "f32", "f32"),
        """
        t0:float32 = y[i]
        t1:float32 = x[i]
        t2:bool = compare.gt t0, t1
        t3:bool = compare.ne t0, t0
        t4:bool = compare.ne t1, t1
        t5:bool = not_ t4
        t6:bool = and_ t3, t5
        t7:bool = or_ t2, t6
        t8:bool = or_ t7, False
        t9:int32 = select t8, 1, 0
        out0[i] = t9
        """,
    )


def test_folds_and_their_indices():
    assert is_fold(ReduceMax((0,))) and is_fold(ReduceSum((0,))) and not is_fold(sin)
    assert reduced_index([0, 2], ("a", "b"), ("k",)) == ("a", "k", "b")
    assert columns_of((4, 5, 6), (1,)) == 6
    assert columns_of((4, 5, 6), (0, 2)) == 1
    assert LONG <= FUNCTIONS
