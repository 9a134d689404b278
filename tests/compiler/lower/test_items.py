"""From eqns to work: a program in, the loops, calls and regions out.

All are lowered for a given target, without machine code.
"""

import sys

import numpy as np
import pytest
from tests.compiler.printing import AVX2, aval, avx2, program, program_text, ready

import curta.numpy as jnp
from curta import lax
from curta.compiler.loops.build import CannotUseRegisters
from curta.compiler.loops.index import as_index
from curta.compiler.loops.nodes import Buffer, Copy, Region
from curta.compiler.lower import unrolled
from curta.compiler.lower.convolutions import conv_items
from curta.compiler.lower.cumulative import cumulative_items
from curta.compiler.lower.dots import (
    dot_items,
    is_matrix_product,
    summing_dtype,
    words_of,
)
from curta.compiler.lower.in_place_carries import may_be_in_place
from curta.compiler.lower.interiors import interiors_first
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.item_lowering import ITEMS, lower_to_items
from curta.compiler.lower.matrix_loops import matrix_loop_item
from curta.compiler.lower.register_blocks import (
    constant_of,
    numbers,
    require_small,
    stores,
)
from curta.compiler.lower.routines import in_memory, routine_item
from curta.compiler.lower.small_matrices import decomposed
from curta.compiler.lower.ties import first_of, without_idle_copies
from curta.compiler.lower.unrolled import unroll
from curta.compiler.lower.updates import update_items
from curta.compiler.lower.windows import choice_items, window_items
from curta.compiler.rewrite.matrix_loops import MatrixLoops
from curta.core.jaxpr import Literal


def items_of(fun, *types):
    return lower_to_items(ready(fun, *types).jaxpr, AVX2)


@pytest.fixture
def written_by(monkeypatch):
    """`written_by(writer, fun, *types)`: the text of a program that it writes."""

    def check(writer, fun, *types):
        seen = []

        def note(*args, **kwargs):
            seen.append(writer)
            return writer(*args, **kwargs)

        for where in list(_users_of(writer)):
            monkeypatch.setattr(where, writer.__name__, note)
        text = program_text(fun, *types)
        assert seen, f"{writer.__name__} is not used"
        return text

    return check


def _users_of(function):
    """The modules of `lower` that call a function by its name."""
    for name, module in sys.modules.items():
        if name.startswith("curta.compiler.lower."):
            if getattr(module, function.__name__, None) is function:
                yield module


# ------------------------------------------------------------------ loops


def test_a_convolution_of_features_is_a_contraction(contains):
    """The padded input and the kernel are packed; the result is put in order."""
    contains(
        program_text(
            lambda x, k: lax.conv(x, k, (1,), "SAME"), "f32[1,2,8]", "f32[3,2,3]"
        ),
        """
        kernel i0:2, 2 iterations, 1 chunks
        memory padded0 kernel1 in0 in1
        for i1:10 by 8 lanes of i1:
        t0:bool = compare.ge (i1 - 1), 0
        t1:bool = compare.lt (i1 - 1), 8
        t2:bool = and_ t0, t1
        t3:uint32 = in0[i1 + 8*i0 - 1] where t2
        t4:uint32 = select t2, t3, 0
        padded0[i1 + 10*i0] = t4
        for i1:3 i2:8 by 8 lanes of i2:
        t0:bool = compare.lt (i2), 3
        t1:uint32 = in1[i1 + 3*i0 + 6*i2] where t0
        t2:uint32 = select t0, t1, 0
        kernel1[i2 + 8*i1 + 24*i0] = t2
        v2.product = Contraction(kind='f32', ..., columns=3, ...) of padded0 kernel1
        kernel i0:3, 3 iterations, 1 chunks
        memory v2 v2.product
        for i1:8 by 8 lanes of i1:
        t0:uint32 = v2.product[i0 + 3*i1]
        v2[i1 + 8*i0] = t0
        """,
    )


def test_a_cumulative_sum_is_a_fold_that_stores_all_it_has(prints):
    prints(
        program_text(lambda x: lax.cumsum(x, axis=1), "f32[3,50]"),
        """
        kernel i0:3, 3 iterations, 1 chunks
          memory v1 in0
          for i1:50 by 16 lanes of i1:
            t0:float32 = in0[i1 + 50*i0]
            fold t0 from 0.0
              t0:float32 = sum left0, right0
              left = t0
              v1[i1 + 50*i0] = left0
        """,
    )


def test_products_of_vectors_are_folds_and_of_matrices_library_code(prints):
    prints(
        program_text(jnp.dot, "f32[50]", "f32[50]"),
        """
        kernel , 1 iterations, 1 chunks
          memory v2 in0 in1
          for i0:50 by 32 lanes of i0:
            t0:float32 = in0[i0]
            t1:float32 = in1[i0]
            t2:float32 = product t0, t1
            fold t2 from 0.0
              t0:float32 = sum left0, right0
              left = t0
              v2[0] = left0
        """,
    )
    text = program_text(jnp.dot, "f32[50,60]", "f32[60,70]")
    assert text.startswith("v2 = Dot(batch=1, m=50, n=70, k=60, kind='f32', ")


def test_sums_over_windows(prints):
    prints(
        program_text(
            lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (2,), "VALID"),
            "f32[9]",
        ),
        """
        kernel , 1 iterations, 1 chunks
          memory v1 in0
          for i0:4 by 4 lanes of i0:
            t0:float32 = in0[2*i0]
            t1:float32 = sum 0.0, t0
            t2:float32 = in0[2*i0 + 1]
            t3:float32 = sum t1, t2
            t4:float32 = in0[2*i0 + 2]
            t5:float32 = sum t3, t4
            v1[i0] = t5
        """,
    )


def test_the_gradient_of_a_greatest_of_a_window_scatters_to_the_chosen(prints):
    """The first kernel finds where the greatest elements are, the other adds there."""

    def f(source, x):
        return lax.select_and_scatter_add_p.bind(
            source, x, select_prim=lax.ge_p, window_dimensions=(3,),
            window_strides=(3,), padding=((0, 0),),
        )  # fmt: skip

    prints(
        program_text(f, "f32[3]", "f32[9]"),
        """
        kernel , 1 iterations, 1 chunks
          memory v2 in1 in0
          row v2.chosen: 12 bytes
          for i0:3 by 2 lanes of i0:
            t0:float32 = in1[3*i0]
            t1:float32 = in1[3*i0 + 1]
            t2:bool = compare.ge t0, t1
            t3:float32 = select t2, t0, t1
            t4:float32 = in1[3*i0 + 2]
            t5:bool = compare.ge t3, t4
            t6:int32 = select t2, 0, 1
            t7:int32 = select t5, t6, 2
            v2.chosen[i0] = t7
          for i0:9 by 8 lanes of i0:
            t0:int32 = v2.chosen[((i0) // 3)]
            t1:int32 = convert (((i0) % 3))
            t2:bool = compare.eq t0, t1
            t3:float32 = in0[((i0) // 3)]
            t4:float32 = select t2, t3, 0.0
            t5:float32 = add 0.0, t4
            v2[i0] = t5
        """,
    )


def test_an_update_is_a_copy_and_ordered_stores(prints):
    prints(
        program_text(
            lambda x, i, u: x.at[i].add(u, mode="promise_in_bounds"),
            *("f32[100]", "i32[5]", "f32[5]"),
        ),
        """
        kernel , 1 iterations, 1 chunks
          memory v3 in0
          for i0:100 by 8 lanes of i0:
            t0:uint32 = in0[i0]
            v3[i0] = t0
        kernel , 1 iterations, 1 chunks
          memory v3 in1 in2
          for i0:5 by 1 lanes of i0:
            t0:int32 = in1[i0]
            t1:bool = compare.lt t0, 0
            t2:int32 = add t0, 100
            t3:int32 = select t1, t2, t0
            t4:uint32 = convert t3
            t5:bool = compare.le t4, 99
            t6:float32 = v3[t3] where t5
            t7:float32 = in2[i0]
            t8:float32 = sum t6, t7
            v3[t3] = t8 where t5
        """,
    )


# ------------------------------------------------------------------ library, registers


def test_a_sort_is_a_routine_of_the_library():
    text = program_text(lambda x: jnp.sort(x), "f32[3,50]")
    assert text.startswith("v1 = RowSort(rows=3, size=50, kinds=('f32',), ")
    assert text.endswith(" of in0") and "\n" not in text


def test_a_small_loop_is_code_in_registers(prints):
    """Its carry is two scalars; nothing is in memory but the operands and results."""

    def f(x, n):
        return lax.fori_loop(0, n, lambda i, c: (c[1], c[0] + c[1] * x), (x, x))

    prints(
        program_text(f, "f32[]", "i32[]"),
        """
        kernel , 1 iterations, 1 chunks
          memory literal5
          once:
            literal5[0] = 0
        region, 1 iterations, 1 chunks
          memory v2 v3 v4 in1 in0 literal5
          t0:int32 = in1[0]
          r1[0] = t0
          t0:float32 = in0[0]
          r2[0] = t0
          t0:int32 = literal5[0]
          r3[0] = t0
          while:
              carry r4 = r3, then r8, at last r11
              carry r5 = r2, then r6, at last r12
              carry r6 = r2, then r10, at last r13
              t0:int32 = r4[0]
              t1:int32 = r1[0]
              t2:bool = compare.lt t0, t1
              r7[0] = t2
          goes on if r7, with:
              t0:int32 = r4[0]
              t1:int32 = add t0, 1
              r8[0] = t1
              t0:float32 = r6[0]
              t1:float32 = r2[0]
              t2:float32 = mul t0, t1
              r9[0] = t2
              t0:float32 = r5[0]
              t1:float32 = r9[0]
              t2:float32 = add t0, t1
              r10[0] = t2
          t0:int32 = r11[0]
          v2[0] = t0
          t0:float32 = r12[0]
          v3[0] = t0
          t0:float32 = r13[0]
          v4[0] = t0
        """,
    )


def test_an_array_that_a_loop_updates_stays_in_memory(prints):
    """Each iteration stores one element."""

    def f(x):
        return lax.fori_loop(1, 100, lambda i, x: x.at[i].add(x[i - 1]), x)

    prints(
        program_text(f, "f32[100]"),
        """
        kernel , 1 iterations, 1 chunks
          memory literal3
          once:
            literal3[0] = 1
        region, 1 iterations, 1 chunks
          memory v1 v2 literal3 in0
          t0:int32 = literal3[0]
          r1[0] = t0
          lanes of lane100:100:
              t0:float32 = in0[lane100]
              r2[lane100] = t0
          v2 = in0
          for iteration3:99:
              carry r4 = r1, then r6, at last r16
              t0:int32 = r4[0]
              t1:int32 = add t0, 1
              r6[0] = t1
              t0:int32 = r4[0]
              t1:int32 = sub t0, 1
              r7[0] = t1
              t0:int32 = r7[0]
              t1:bool = compare.lt t0, 0
              r8[0] = t1
              t0:int32 = r7[0]
              t1:int32 = add t0, 100
              r9[0] = t1
              t0:bool = r8[0]
              t1:int32 = r9[0]
              t2:int32 = r7[0]
              t3:int32 = select t0, t1, t2
              r10[0] = t3
              t0:int32 = r10[0]
              t1:int32 = max t0, 0
              t2:int32 = min t1, 99
              t3:float32 = v2[t2]
              r11[0] = t3
              t0:int32 = r4[0]
              t1:bool = compare.lt t0, 0
              r12[0] = t1
              t0:int32 = r4[0]
              t1:int32 = add t0, 100
              r13[0] = t1
              t0:bool = r12[0]
              t1:int32 = r13[0]
              t2:int32 = r4[0]
              t3:int32 = select t0, t1, t2
              r14[0] = t3
              t0:int32 = r14[0]
              t1:uint32 = convert t0
              t2:bool = compare.le t1, 99
              t3:float32 = v2[t0] where t2
              t4:float32 = r11[0]
              t5:float32 = sum t3, t4
              v2[t0] = t5 where t2
          t0:int32 = r16[0]
          v1[0] = t0
        """,
    )
    (loop,) = (e for e in ready(f, "f32[100]").eqns if e.op.loop is not None)
    assert may_be_in_place(loop.op.regions[-1], AVX2.tuning)


def test_folds_and_products_of_few_elements_are_written_out():
    """A product of 2 by 2 is eight multiplications, without a loop."""

    def f(x, n):
        return lax.fori_loop(0, n, lambda _, c: c @ x / c.sum(), x)

    text = program_text(f, "f32[2,2]", "i32[]")
    assert text.count("for ") + text.count("while") == 1
    assert "call" not in text


@pytest.mark.parametrize(
    ("text", "dtype", "count"), [("f32[2,3]", "float32", 6), ("c64[4]", "float32", 8)]
)
def test_values_in_registers_are_numbers(text, dtype, count):
    assert numbers(aval(text)) == (np.dtype(dtype), count)


def test_large_values_are_in_no_registers(limits):
    limits(register_elements=8)
    require_small(aval("f32[8]"), avx2().tuning)
    with pytest.raises(CannotUseRegisters, match="9 elements"):
        require_small(aval("f32[9]"), avx2().tuning)
    with pytest.raises(CannotUseRegisters, match="0 elements"):
        require_small(aval("f32[0]"), avx2().tuning)


def test_stores_of_neighbors():
    x = Buffer("x", np.dtype("float32"), 8)
    found = stores(x, as_index(2), ["a", "b"])
    assert [(s.offset, s.value) for s in found] == [
        (as_index(2), "a"),
        (as_index(3), "b"),
    ]
    assert constant_of(Literal(np.float32(2), aval("f32[]"))) == 2


def test_small_matrices_in_a_loop_are_written_out(monkeypatch):
    """A Cholesky factor of 2 by 2 in registers: roots, and no call of LAPACK."""
    seen = []
    rule = lambda *args: seen.append(args) or decomposed(*args)  # noqa: E731
    monkeypatch.setitem(unrolled._RULES, MatrixLoops, rule)

    def f(x, n):
        return lax.fori_loop(0, n, lambda _, c: jnp.linalg.cholesky(c @ x), x)

    text = program_text(f, "f32[2,2]", "i32[]")
    assert seen and "sqrt" in text and "lapack" not in text.lower()


def test_many_matrices_are_loops_over_lanes(written_by):
    types = ("f32[64,3,3]",)
    (eqn,) = (
        e
        for e in ready(lax.linalg.cholesky, *types).eqns
        if isinstance(e.op, MatrixLoops)
    )
    assert eqn.outvars[0].aval.shape == (64, 3, 3)
    assert ITEMS[MatrixLoops] is matrix_loop_item
    text = program_text(lax.linalg.cholesky, *types)
    assert text.startswith("region") or "region" in text


# ------------------------------------------------------------------ who writes what


@pytest.mark.parametrize(
    ("writer", "fun", "types"),
    [
        (unroll, lambda x, n: lax.fori_loop(0, n, lambda i, c: c[::-1] * c.sum(), x),
         ("f32[3]", "i32[]")),
        (in_memory, lambda x: jnp.sort(x * 2), ("f32[3,50]",)),
    ],
)  # fmt: skip
def test_writers(writer, fun, types, written_by):
    assert written_by(writer, fun, *types)


def test_each_op_with_a_loop_has_one_writer():
    """The rows of `ITEMS`; the wrapper gives all of them one buffer for the result."""
    wrapped = {
        cell.cell_contents
        for add in ITEMS.values()
        for cell in getattr(add, "__closure__", None) or ()
    }
    assert {
        conv_items, cumulative_items, dot_items, window_items, choice_items,
    } <= wrapped  # fmt: skip
    names = {getattr(add, "__name__", "") for add in ITEMS.values()}
    assert {"_routine", "_update"} <= names
    assert callable(routine_item) and callable(update_items)


# ------------------------------------------------------------------ products


def test_which_products_library_code_multiplies():
    float32 = np.dtype("float32")
    for left, right, expected in (
        ("f32[4,5]", "f32[5,6]", True),
        ("f32[1,5]", "f32[5,6]", False),
        ("f32[4,5]", "f32[5,1]", False),
    ):
        (eqn,) = program(jnp.dot, left, right).eqns
        given = eqn.op, aval(left), aval(right)
        assert is_matrix_product(*given, float32) is expected
        assert words_of(*given, float32, AVX2) is None
    assert summing_dtype(np.dtype("int8")) == "int32"
    assert summing_dtype(np.dtype("uint64")) == "int64"
    assert summing_dtype(np.dtype("float16")) == "float32"


# ------------------------------------------------------------------ ties, order


def test_a_result_begins_as_the_first_of_a_chain_of_operands():
    a, b, c = (Buffer(n, np.dtype("float32"), 4) for n in "abc")
    assert first_of({b: a, c: b}) == {b: a, c: a}


def test_copies_within_one_memory_are_dropped():
    a, b, c = (Buffer(n, np.dtype("float32"), 4) for n in "abc")
    region = Region((Copy(b, a), Copy(c, a)))
    left = without_idle_copies(region, {b: a}, {a: a, b: a, c: c}.get)
    assert left.body == region.body[1:]


def test_items_without_halos_keep_their_order():
    items = items_of(lambda x: (x.sum(), jnp.sort(x)), "f32[50]")
    assert interiors_first(items.items, {}) == tuple(items.items)
    assert issubclass(type(items.builder), object) and ItemBuilder.stored
