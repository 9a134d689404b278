"""Kernels to LLVM IR, as FileCheck tests: lines in order, registers by placeholders."""

import numpy as np
from tests.compiler.llvm.numpy_math import NumPyMath
from tests.compiler.printing import (
    AVX2,
    AVX512,
    avx2,
    first_kernel,
    kernel_ir,
    region_ir,
)

import curta.numpy as jnp
from curta import lax
from curta.compiler.llvm import folding, half, polls
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.column_nests import ColumnNests
from curta.compiler.llvm.columns import Columns
from curta.compiler.llvm.control_flow import ControlFlow
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.index_values import IndexValues
from curta.compiler.llvm.nest_body import NestLoops, by_fold, wide
from curta.compiler.llvm.program_calls import CallTarget
from curta.compiler.llvm.register_values import RegisterValues
from curta.compiler.llvm.row_nests import RowNests
from curta.compiler.llvm.scalar_instructions import kind, memory_kind
from curta.compiler.llvm.scopes import Scopes
from curta.compiler.llvm.selection import slot_for_choice
from curta.compiler.llvm.summing_columns import SummingColumns
from curta.compiler.llvm.summing_rows import SummingRows
from curta.compiler.llvm.tiles import transposable
from curta.compiler.llvm.transpose_assembly import has_assembly, transpose_assembly
from curta.compiler.llvm.types import F32, I64, PTR
from curta.compiler.llvm.vectors import VectorInstructions
from curta.compiler.loops.index import LoopVar, as_index


def builder(*parameters, target=AVX2, result=None):
    """A module with a function, and the builder of the function."""
    module = Module.of(target)
    return module, module.function("f", parameters, result)


# ------------------------------------------------------------------ maps


def test_a_map_is_a_loop_over_vectors_whose_tail_is_masked(contains):
    contains(
        kernel_ir(lambda x: x * 2, "f32[100]"),
        """
        ...
        %{i} = phi i64 [ 0, %entry ], [ %{next}, %{block} ]
        %{left} = sub i64 100, %{i}
        ...
        %{mask} = icmp slt <8 x i32> <i32 0, ..., i32 7>, %...
        %{p} = getelementptr float, ptr %{in}, i64 %{i}
        %{x} = call <8 x float> @llvm.masked.load.v8f32.p0(... <8 x i1> %{mask}, ...)
        %{y} = fmul contract <8 x float> %{x}, splat (float 0x4000000000000000)
        %{q} = getelementptr float, ptr %{out}, i64 %{i}
        call void @llvm.masked.store.v8f32.p0(<8 x float> %{y}, ptr ..., ...)
        %{next} = add nsw i64 %{i}, 8
        ...
        """,
    )


def test_whole_vectors_need_no_mask():
    text = kernel_ir(lambda x: x * 2, "f32[64]")
    assert "masked" not in text
    assert "<16 x float>" in kernel_ir(lambda x: x * 2, "f32[64]", target=AVX512)


def test_an_address_is_an_affine_sum(contains):
    """The offset of element (i, j) of a slice of columns is 40 i + j + 8."""
    contains(
        kernel_ir(lambda x: x[:, 8:24] + 1, "f32[5,40]"),
        """
        ...
        %{row} = mul i64 %{i}, 40
        %{p} = getelementptr float, ptr %{in}, i64 %{row}
        ...
        %{column} = add i64 %{j}, 8
        %{q} = getelementptr float, ptr %{p}, i64 %{column}
        %{x} = load <8 x float>, ptr %{q}, align 4
        %{y} = fadd contract <8 x float> %{x}, splat (float 0x3FF0000000000000)
        %{place} = mul i64 %{i}, 16
        ...
        """,
    )


def test_large_results_bypass_the_caches():
    """Their stores are nontemporal, and a fence publishes them to other threads."""
    text = kernel_ir(lambda x: x + 1, "f32[33554432]")
    assert "store <32 x float>" in text and "!nontemporal" in text
    assert "fence seq_cst" in text
    text = kernel_ir(lambda x: x + 1, "f32[1024]")
    assert "!nontemporal" not in text and "fence" not in text


# ------------------------------------------------------------------ sums


def test_a_row_is_summed_in_a_register_and_then_across_its_lanes(contains):
    """Halves are added until a vector of the machine is left, then shuffled lanes."""
    contains(
        kernel_ir(lambda x: x.sum(1), "f32[4,32]"),
        """
        ...
        %{x} = load <32 x float>, ptr %...
        %{a} = fadd <32 x float> splat (float 0x0000000000000000), %{x}
        %{low} = shufflevector <32 x float> %{a}, <32 x float> poison, <16 x i32> ...
        %{high} = shufflevector <32 x float> %{a}, <32 x float> poison, <16 x i32> ...
        %{b} = fadd <16 x float> %{low}, %{high}
        ...
        %{s} = fadd <8 x float> %...
        %{e} = extractelement <8 x float> %{s}, i64 0
        %{p} = getelementptr float, ptr %{out}, i64 %{i}
        store float %{e}, ptr %{p}, align 4
        ...
        """,
    )


def test_columns_are_summed_several_rows_at_once(contains):
    """Eight rows are added up in registers before the row of sums is touched."""
    text = kernel_ir(lambda x: x.sum(0), "f32[40,64]")
    contains(
        text,
        """
        ...
        %{end} = add i64 %{row}, 8
        ...
        %{x0} = load <8 x float>, ptr %...
        %{s0} = fadd <8 x float> splat (float 0x0000000000000000), %{x0}
        ...
        %{x1} = load <8 x float>, ptr %...
        %{s1} = fadd <8 x float> %{s0}, %{x1}
        ...
        """,
    )
    assert text.count("alloca") == 2


def test_rows_and_columns_share_the_body_of_a_nest():
    assert issubclass(RowNests, SummingRows) and issubclass(SummingRows, NestLoops)
    assert issubclass(ColumnNests, SummingColumns)
    assert issubclass(SummingColumns, NestLoops)
    assert issubclass(RegisterValues, Evaluator)
    assert issubclass(Evaluator, IndexValues) and issubclass(IndexValues, Scopes)
    assert issubclass(ControlFlow, VectorInstructions)


def test_accumulators_are_listed_by_fold():
    kernel, _ = first_kernel(lambda x: x.argmax(1), "f32[4,32]")
    (fold,) = kernel.nests[0].folds
    assert by_fold((fold, fold), [1, 2, 3, 4]) == [[1, 2], [3, 4]]
    _, b = builder(PTR)
    vector, one = b.const(F32.with_lanes(8), 0), b.const(F32, 0)
    assert [x.type.text for x in wide([vector, one])] == ["<8 x double>", "double"]


# ------------------------------------------------------------------ transposes


def test_a_transpose_loads_a_square_tile():
    text = kernel_ir(lambda x: x.T * 2, "f32[64,64]")
    assert text.count("= load <16 x float>") == 16
    assert "store <16 x float>" in text and "gather" not in text


def test_which_loads_a_tile_transposes():
    kernel, _ = first_kernel(lambda x: x.T * 2, "f32[64,64]")
    (nest,) = kernel.nests
    (row,) = kernel.dims
    assert len(transposable(nest, row, nest.dims[-1])) == 1
    plain, _ = first_kernel(lambda x: x[:, None] * 2, "f32[64]")
    row, lane = LoopVar("r", 64), LoopVar("l", 64)
    assert transposable(plain.nests[0], row, lane) == []


def test_transposes_in_assembly():
    """Rows of 4 bytes, for 256 bits and 512; of one byte there are none."""
    assert has_assembly(4, 32) and not has_assembly(4, 16)
    lines = transpose_assembly("turned", 4, 32)
    text = "\n".join(lines)
    assert "turned:" in text and "vunpcklps" in text and "zmm" not in text
    assert "zmm" in "\n".join(transpose_assembly("turned", 4, 64))


def test_every_second_element_is_picked_out_of_two_vectors(contains):
    module, b = builder(PTR, PTR)
    columns = Columns(b, F32.with_lanes(4), b.arguments[0], 2)
    b.store(columns.column(1), b.arguments[1])
    b.ret()
    contains(
        module.text(),
        """
        ...
        %{x} = load <4 x float>, ptr %...
        ...
        %{y} = load <4 x float>, ptr %...
        %{odd} = shufflevector <4 x float> %{x}, ... <i32 1, i32 3, i32 5, i32 7>
        store <4 x float> %{odd}, ptr %...
        ...
        """,
    )


# ------------------------------------------------------------------ control flow


def test_code_in_registers_has_no_memory_in_its_loop(contains):
    """The carry is a phi; the loop of one multiplication has no load and no store."""

    def f(x, n):
        return lax.fori_loop(0, n, lambda i, c: c * x, x)

    contains(
        region_ir(f, "f32[]", "i32[]"),
        """
        ...
        %{i} = phi i32 [ ... ], [ %{next}, %... ]
        %{c} = phi float [ ... ], [ %{product}, %... ]
        ...
        %{next} = add i32 %{i}, 1
        ...
        %{product} = fmul contract float %{c}, %{x}
        ...
        """,
    )


def test_a_branch_joins_its_values_in_a_phi(contains):
    module, b = builder(F32, result=F32)
    (x,) = b.arguments
    negative = b.compare("lt", x, 0.0)
    (y,) = b.if_(negative, lambda: [b.neg(x)], lambda: [x])
    b.ret(y)
    contains(
        module.text(),
        """
        ...
        %{c} = fcmp olt float %a0, ...
        br i1 %{c}, label %{then}, label %...
        ...
        %{n} = fneg ...float %a0
        ...
        %{y} = phi float [ %{n}, %{then} ], [ %a0, %... ]
        ret float %{y}
        ...
        """,
    )


def test_a_long_loop_polls_for_cancellation(contains):
    module, b = builder(PTR, I64, result=I64)
    token, _ = b.arguments
    (total,) = polls.polled_loop(
        b, 1000, [b.const(I64, 0)], lambda i, state: [state[0] + i], token, 100
    )
    b.ret(total)
    contains(
        module.text(),
        """
        ...
        %{end} = call i64 @llvm.smin.i64(i64 %..., i64 1000)
        ...
        %{c} = call i1 @...poll...(ptr %a0)
        ...
        """,
    )


def test_a_large_body_is_called(limits, contains):
    """The table of the callee follows its operands and results."""
    limits(register_elements=2, written_out_eqns=0)

    def f(x):
        return lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c) + i, x)

    text = region_ir(f, "f32[64]", target=avx2())
    assert "call i64 %" in text
    assert CallTarget._fields


# ------------------------------------------------------------------ instructions


def test_arithmetic_of_constants_is_done_at_once():
    _, b = builder(I64)
    (n,) = b.arguments
    three, four = b.const(I64, 3), b.const(I64, 4)
    assert folding.known(three) == 3 and folding.known(n) is None
    assert folding.folded("add", three, four) == 7
    assert folding.folded("mul", n, b.const(I64, 1)) is n
    assert folding.folded("add", b.const(I64, 0), n) is n
    assert folding.folded("sub", b.const(I64, 0), n) is None
    assert folding.folded("udiv", three, b.const(I64, 0)) is None
    assert folding.compared("lt", three, four) is True
    assert folding.compared("lt", n, four) is None


def test_halves_are_widened_in_integers():
    """All of them, NaN by being one."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found = NumPyMath().call(half.widen, every)
    np.testing.assert_array_equal(found, every.astype(np.float32))


def test_singles_are_rounded_to_halves_in_integers():
    """Numbers between two halves, at them, and beyond the largest."""
    every = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (every[:-1] + every[1:]) / 2
    near = np.nextafter(between, np.float32(0))
    x = np.concatenate([every, between, near, np.float32([65519, 65520, np.inf])])
    for sign in (1, -1):
        found = NumPyMath().call(half.narrow, sign * x)
        with np.errstate(over="ignore"):
            wanted = (sign * x).astype(np.float16)
        np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


def test_kinds_of_dtypes():
    assert [kind(np.dtype(d)) for d in ("f4", "i8", "u2", "?")] == [
        *("f32", "i64", "i16", "i1")
    ]
    assert memory_kind(np.dtype("?")) == "i8"


def test_a_choice_has_room_for_all_lanes(contains):
    module, b = builder(I64)
    slot = slot_for_choice(b, b.arguments[0])
    b.store(b.const(I64, 1), slot)
    b.ret()
    contains(module.text(), "...\nstore i64 1, ptr %{slot}, align 8\n...")
    assert as_index(3).const == 3
