"""Routines of the library: what they are chosen for, and the IR of their code."""

import numpy as np
import pytest
from tests.compiler.llvm.numpy_math import Array, NumPyMath
from tests.compiler.printing import AVX2, AVX512, program_text, scalar_code

from curta import lax
from curta.compiler.library import blas_buffers, blas_buffers_code
from curta.compiler.library.clock import AddElapsed, ReadClock
from curta.compiler.library.fourier import FourierRoutine
from curta.compiler.library.fourier_code import FourierCode
from curta.compiler.library.gemm import Dot
from curta.compiler.library.lapack_calls import SIZES, BatchedCall
from curta.compiler.library.products import product_plan
from curta.compiler.library.radix import DIGITS, RadixSort
from curta.compiler.library.routine import Routine, part, share
from curta.compiler.library.select import FirstIndices
from curta.compiler.library.sort import RowSort
from curta.compiler.library.sort_code import InsertionSort, SortCode
from curta.compiler.library.sort_keys import bits_of, is_float, kind_of
from curta.compiler.library.tile_assembly import tile_assembly
from curta.compiler.library.tile_shape import Tile
from curta.compiler.library.vector_sort import VectorSort
from curta.compiler.linalg import factors, reflections
from curta.compiler.linalg.algorithms import ALGORITHMS
from curta.compiler.linalg.numbers import FUNCTIONS, conj
from curta.compiler.linalg.programs import conjugate_pairs, nan_unless, succeeded
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import I64, PTR
from curta.core.avals import ShapedArray
from curta.core.stage import stage
from curta.primitives.linalg import LU, Cholesky, Geqrf, TriangularSolve


def code(routine: Routine, target=AVX2) -> str:
    """The IR of a routine."""
    module = Module.of(target)
    routine.emit(module, "routine")
    return module.text()


# ------------------------------------------------------------------ sorts


@pytest.mark.parametrize(
    ("routine", "target", "method"),
    [
        (RowSort(3, 8, ("f32",), tuning=AVX2.tuning), AVX2, "insertion"),
        (RowSort(3, 5000, ("f32",), tuning=AVX2.tuning), AVX2, "radix"),
        (
            RowSort(3, 5000, ("f32",), wide_vectors=True, tuning=AVX2.tuning),
            AVX512,
            "vectors",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_rows_are_sorted_by_length_and_machine(routine, target, method):
    text = code(routine, target)
    assert "define void @routine(" in text
    assert routine.by_vectors == (method == "vectors")
    assert (routine.scratch > 0) == (method != "insertion") or method == "insertion"
    assert routine.work > 0


def test_sorts_share_their_base():
    for kind in (InsertionSort, RadixSort, VectorSort):
        assert issubclass(kind, SortCode)
    assert DIGITS == 256  # of a byte


def test_kinds_of_keys():
    assert [kind_of(np.dtype(d)) for d in ("f4", "u1", "i8", "c8")] == [
        *("f32", "u8", "i64", None)
    ]
    assert bits_of("u16") == 16
    assert is_float("f32") and not is_float("i32")


def test_the_greatest_few_are_selected():
    routine = FirstIndices(2, 1000, 5, "f32", tuning=AVX2.tuning)
    assert routine.room >= 2 * routine.count
    assert "define void @routine(" in code(routine)


# ------------------------------------------------------------------ transforms, dots


def test_a_transform_has_code_for_lanes_of_the_machine():
    for width, lanes in ((32, "<8 x float>"), (64, "<16 x float>")):
        target = AVX2 if width == 32 else AVX512
        routine = FourierRoutine(16, 64, 1, "f32", False, width, tuning=target.tuning)
        assert lanes in code(routine, target)
    assert FourierCode.__doc__


def test_a_product_is_planned_for_the_vectors_of_a_target():
    product = Dot(1, 512, 512, 512, "f32")
    narrow, wide = (product_plan(product, t) for t in (AVX2, AVX512))
    assert narrow != wide
    assert narrow is product_plan(product, AVX2)


def test_a_tile_in_assembly_multiplies_and_adds():
    text = "\n".join(tile_assembly(Tile("f32", 6, 2, whole=True), 32))
    assert "vfmadd231ps" in text and "ymm" in text and "zmm" not in text
    assert text.count("vfmadd231ps") % (6 * 2) == 0


# ------------------------------------------------------------------ calls


def test_a_clock_is_read_by_a_call(contains):
    contains(
        code(ReadClock()),
        """
        ...
        %{f} = load ptr, ptr %a1, align 8
        ...call i32 %{f}(i32 1, ptr %a0)
        ret void
        ...
        """,
    )
    assert AddElapsed().work == ReadClock().work == 0


def test_calls_of_openblas_wait_for_a_buffer():
    module = Module.of(AVX2)
    b = module.function("f", [])
    blas_buffers_code.enter(b)
    blas_buffers_code.leave(b)
    b.ret()
    body = module.text()
    assert body.index(f"@{blas_buffers_code.ENTER}()") < body.index(
        f"@{blas_buffers_code.LEAVE}()"
    )
    assert blas_buffers.BYTES == 1 << 25


def test_a_range_is_shared_out_in_equal_parts():
    """The parts of 10 by 3 begin at 0, 3 and 6."""
    module = Module.of(AVX2)
    b = module.function("f", [PTR, I64, PTR])
    share(b, b.arguments[0], "each", 3, b.arguments[2:], lambda f, n, out: None)
    first, last = part(b.const(I64, 1), 10, 3)
    assert (first.text, last.text) == ("3", "6")
    b.ret()
    assert "define internal void @each(ptr %a0, i64 %a1)" in module.text()


def test_lapack_is_called_for_each_matrix():
    assert issubclass(BatchedCall, Routine)
    assert SIZES["z"] == 2 * SIZES["d"] == 2 * SIZES["c"]


# ------------------------------------------------------------------ matrices


def test_algorithms_by_class_of_op():
    """A triangular matrix from the right is one from the left, seen transposed."""
    algorithm = ALGORITHMS[Cholesky](Cholesky(), (4, 4))
    assert algorithm.function is factors.cholesky
    assert (algorithm.operands, algorithm.results) == ((0,), (0,))
    assert ALGORITHMS[LU](LU(), (4, 3)).function is factors.lu
    assert ALGORITHMS[Geqrf](Geqrf(), (4, 3)).function is reflections.reflections
    solve = ALGORITHMS[TriangularSolve](TriangularSolve(False, True), (4, 4), (2, 4))
    assert solve.arrays[1].view.transposed


def test_a_factor_is_a_loop_over_lanes_of_matrices():
    text = program_text(lax.linalg.cholesky, "f32[64,3,3]")
    assert "region for block:8" in text and "sqrt" in text


def test_numbers_of_algorithms_are_real_or_complex(prints):
    prints(
        scalar_code(lambda b, x, z: FUNCTIONS["mul"](b, x, z), "f32", "c64"),
        """
        t0:float32 = y[2*i]
        t1:float32 = x[i]
        t2:float32 = mul t0, t1
        out0[i] = t2
        t3:float32 = y[2*i + 1]
        t4:float32 = mul t3, t1
        out1[i] = t4
        """,
    )
    assert scalar_code(conj, "f32") == "t0:float32 = x[i]\nout0[i] = t0"


def test_failed_decompositions_are_nan(prints):
    def f(info, x):
        return nan_unless(succeeded(info), x)

    avals = ShapedArray((5,), np.dtype("int32")), ShapedArray((5, 2, 2), np.dtype("f4"))
    prints(
        stage(f, avals).jaxpr,
        """
        { lambda ; a:i32[5] b:f32[5,2,2]. let
            c:i32[5] = broadcast_in_dim 0:i32[]
            d:bool[5] = eq a c
            e:f32[5,2,2] = broadcast_in_dim nan:f32[]
            f:bool[5,2,2] = broadcast_in_dim[broadcast_dimensions=(0,)] d
            g:f32[5,2,2] = select_n f e b
          in (g,) }
        """,
    )


def test_vectors_of_conjugate_eigenvalues_share_their_parts():
    """Columns of a pair are the real and the imaginary part of both vectors."""
    imaginary = np.float32([[1, -1, 0]])
    vectors = np.float32([[[1, 2, 3], [4, 5, 6], [7, 8, 9]]])
    avals = [ShapedArray(x.shape, x.dtype) for x in (imaginary, vectors)]
    closed = stage(lambda i, v: [conjugate_pairs(i, v)], avals)
    (out,) = closed.out_avals
    assert (out.shape, out.dtype) == ((1, 3, 3), np.complex64)
    assert Array(NumPyMath(), imaginary).lanes == 3
