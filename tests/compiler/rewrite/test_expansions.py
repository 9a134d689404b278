"""Legalisation: ops replaced by others for which a target has code, or better code.

Every case is an op and the program that it stands for. Where that is long, its ops are
counted by name. The values are compared with those of the op by tests/conformance.
"""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from tests.compiler.printing import AVX2, aval, avx2, program

import curta
from curta import lax
from curta.compiler.rewrite.buckets import together
from curta.compiler.rewrite.complex_products import (
    convolution_by_parts,
    product_by_parts,
)
from curta.compiler.rewrite.eigenproblems import eig
from curta.compiler.rewrite.expansions import expansions
from curta.compiler.rewrite.fourier import TransformAlong, transformed
from curta.compiler.rewrite.gamma import by_draws
from curta.compiler.rewrite.scans import in_blocks
from curta.compiler.rewrite.scatters import many_to_few
from curta.compiler.rewrite.winograd import by_winograd
from curta.compiler.rewrite.written_out import written_out
from curta.core.stage import stage
from curta.primitives.cumulative import CumSum
from curta.primitives.host_collectives import HostBucket


def only(closed):
    """The one op of a program, and the types of its operands."""
    (eqn,) = closed.eqns
    return eqn.op, [v.aval for v in eqn.invars]


def expanded(rule, op, avals):
    """The program that a rule replaces an op by; None if the op stays."""
    function = rule(op, avals, avx2())
    return function and stage(function, avals).jaxpr


def counts(jaxpr) -> str:
    """The ops of a program with their numbers, in the order of their first use."""
    names = Counter(e.op.name for e in jaxpr.eqns)
    return " ".join(f"{name}:{n}" if n > 1 else name for name, n in names.items())


# ------------------------------------------------------------------ complex numbers


def test_a_complex_product_is_four_real_ones(prints):
    op, avals = only(program(lax.dot, "c64[64,64]", "c64[64,64]"))
    prints(
        expanded(product_by_parts, op, avals),
        """
        { lambda ; a:c64[64,64] b:c64[64,64]. let
            c:f32[64,64] = real a
            d:f32[64,64] = imag a
            e:f32[64,64] = real b
            f:f32[64,64] = imag b
            g:f32[64,64] = dot_general[
              dimension_numbers=(([1], [0]), ([], []))
              preferred_element_type=float32
            ] c e
            h:f32[64,64] = dot_general[
              dimension_numbers=(([1], [0]), ([], []))
              preferred_element_type=float32
            ] d f
            i:f32[64,64] = sub g h
            j:f32[64,64] = dot_general[
              dimension_numbers=(([1], [0]), ([], []))
              preferred_element_type=float32
            ] c f
            k:f32[64,64] = dot_general[
              dimension_numbers=(([1], [0]), ([], []))
              preferred_element_type=float32
            ] d e
            l:f32[64,64] = add j k
            m:c64[64,64] = complex i l
          in (m,) }
        """,
    )


@pytest.mark.parametrize("types", [("f32[64,64]",) * 2, ("c64[64]",) * 2])
def test_real_products_and_reductions_stay(types):
    op, avals = only(program(lax.dot, *types))
    assert expanded(product_by_parts, op, avals) is None


def test_a_large_complex_convolution_is_four_real_ones():
    def f(x, kernel):
        return lax.conv(x, kernel, (1, 1), "SAME")

    op, avals = only(program(f, "c64[2,16,32,32]", "c64[16,16,3,3]"))
    assert "conv_general_dilated:4" in counts(expanded(convolution_by_parts, op, avals))
    op, avals = only(program(f, "c64[1,1,4,4]", "c64[1,1,3,3]"))
    assert expanded(convolution_by_parts, op, avals) is None


# ------------------------------------------------------------------ long sums


def test_a_long_cumulative_sum_is_made_in_blocks(prints, limits):
    """Sums within rows of 4, plus the sum of all rows before each."""
    limits(scan_long=8, scan_block=4)
    prints(
        expanded(in_blocks, CumSum(0, False), [aval("f32[10]")]),
        """
        { lambda ; a:f32[10]. let
            b:f32[12] = pad[padding_config=((0, 2, 0),)] a 0.0:f32[]
            c:f32[3,4] = reshape[new_sizes=(3, 4)] b
            d:f32[3,4] = cumsum[axis=1 reverse=False] c
            e:f32[3,1] = slice[limit_indices=(3, 4) start_indices=(0, 3) strides=None] d
            f:f32[3] = reshape[new_sizes=(3,)] e
            g:f32[3] = cumsum[axis=0 reverse=False] f
            h:f32[3] = pad[padding_config=((1, -1, 0),)] g 0.0:f32[]
            i:f32[3,4] = broadcast_in_dim[broadcast_dimensions=(0,)] h
            j:i32[3,4] = iota[dimension=0 dtype=int32 shape=(3, 4)]
            k:i32[3,4] = broadcast_in_dim 0:i32[]
            l:bool[3,4] = eq j k
            m:f32[3,4] = add i d
            n:f32[3,4] = select_n l m d
            o:f32[12] = reshape[new_sizes=(12,)] n
            p:f32[10] = slice[limit_indices=(10,) start_indices=(0,) strides=None] o
          in (p,) }
        """,
    )


def test_short_and_inner_sums_stay(limits):
    limits(scan_long=8, scan_block=4)
    assert expanded(in_blocks, CumSum(0, False), [aval("f32[7]")]) is None
    assert expanded(in_blocks, CumSum(0, False), [aval("f32[10,2]")]) is None
    assert expanded(in_blocks, CumSum(0, False), [aval("f16[10]")]) is None


def test_many_additions_to_few_elements_go_in_pieces(prints, limits):
    """Each piece adds to zeros of its own, -0.0; then the sums are added in order."""
    limits(scatter_per_element=2, scatter_pieces=2, scatter_pieces_work=8)
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    op, avals = only(
        program(
            lambda x, i, u: lax.scatter_add(x, i, u, numbers),
            *("f64[2]", "i32[9,1]", "f64[9]"),
        )
    )
    prints(
        expanded(many_to_few, op, avals),
        """
        let jaxpr = { lambda ; a:f64[] b:f64[]. let c:f64[] = add a b in (c,) } in
        { lambda d:f64[]; e:f64[2] f:i32[9,1] g:f64[9]. let
            h:f64[2,2] = broadcast_in_dim d
            i:i32[8,1] = slice[limit_indices=(8, 1) start_indices=(0, 0) strides=None] f
            j:i32[2,4,1] = reshape[new_sizes=(2, 4, 1)] i
            k:f64[8] = slice[limit_indices=(8,) start_indices=(0,) strides=None] g
            l:f64[2,4] = reshape[new_sizes=(2, 4)] k
            m:f64[2,2] = scatter-add[
              numbers=(inserted=(1,), scattered=(1,), batch=(0,), index_batch=(0,))
              mode=GatherScatterMode.FILL_OR_DROP
              update_consts=()
              update_jaxpr=jaxpr
            ] h j l
            n:f64[1,2] = slice[limit_indices=(1, 2) start_indices=(0, 0) strides=None] m
            o:f64[2] = reshape[new_sizes=(2,)] n
            p:f64[2] = add e o
            q:f64[1,2] = slice[limit_indices=(2, 2) start_indices=(1, 0) strides=None] m
            r:f64[2] = reshape[new_sizes=(2,)] q
            s:f64[2] = add p r
            t:i32[1,1] = slice[limit_indices=(9, 1) start_indices=(8, 0) strides=None] f
            u:f64[1] = slice[limit_indices=(9,) start_indices=(8,) strides=None] g
            v:f64[2] = scatter-add[
              numbers=(inserted=(0,), scattered=(0,))
              mode=GatherScatterMode.FILL_OR_DROP
              update_consts=()
              update_jaxpr=jaxpr
            ] s t u
          in (v,) }
        """,
    )
    (zero,) = stage(many_to_few(op, avals, avx2()), avals).consts
    assert np.signbit(zero)  # adding 0.0 would change -0.0
    limits(scatter_pieces_work=100)
    assert expanded(many_to_few, op, avals) is None


def test_sums_of_many_terms_are_wide(limits):
    limits(scatter_per_element=2, scatter_pieces=1)
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    op, avals = only(
        program(
            lambda x, i, u: lax.scatter_add(x, i, u, numbers),
            *("f32[2]", "i32[99,1]", "f32[99]"),
        )
    )
    with curta.enable_x64(True):
        jaxpr = expanded(many_to_few, op, avals)
    assert counts(jaxpr) == "convert_element_type:3 scatter-add"
    assert jaxpr.eqns[2].outvars[0].aval.dtype == np.float64


# ------------------------------------------------------------------ loops, buckets


def test_a_short_loop_over_large_arrays_is_written_out(prints):
    """`unroll` asks for all iterations; then they share one loop over elements."""

    def f(x, rows):
        return lax.scan(lambda h, r: (h * r + 1, None), x, rows, unroll=2)[0]

    op, avals = only(program(f, "f32[3000]", "f32[2,3000]"))
    prints(
        expanded(written_out, op, avals),
        """
        { lambda ; a:f32[3000] b:f32[2,3000]. let
            c:f32[1,3000] = slice[
              limit_indices=(1, 3000)
              start_indices=(0, 0)
              strides=None
            ] b
            d:f32[3000] = reshape[new_sizes=(3000,)] c
            e:f32[3000] = mul a d
            f:f32[3000] = add e 1.0:f32[]
            g:f32[1,3000] = slice[
              limit_indices=(2, 3000)
              start_indices=(1, 0)
              strides=None
            ] b
            h:f32[3000] = reshape[new_sizes=(3000,)] g
            i:f32[3000] = mul f h
            j:f32[3000] = add i 1.0:f32[]
          in (j,) }
        """,
    )
    assert expanded(written_out, dataclasses.replace(op, unroll=1), avals) is None


def test_a_loop_over_small_arrays_stays():
    def f(x, rows):
        return lax.scan(lambda h, r: (h * r + 1, None), x, rows, unroll=2)[0]

    op, avals = only(program(f, "f32[3]", "f32[2,3]"))
    assert expanded(written_out, op, avals) is None


def test_arrays_travel_together_as_one(prints):
    avals = [aval("f32[2,3]"), aval("f32[4]")]
    prints(
        stage(together(HostBucket(lax.neg), avals), avals).jaxpr,
        """
        { lambda ; a:f32[2,3] b:f32[4]. let
            c:f32[6] = reshape[new_sizes=(6,)] a
            d:f32[4] = reshape[new_sizes=(4,)] b
            e:f32[10] = concatenate[dimension=0] c d
            f:f32[10] = neg e
            g:f32[6] = slice[limit_indices=(6,) start_indices=(0,) strides=None] f
            h:f32[2,3] = reshape[new_sizes=(2, 3)] g
            i:f32[4] = slice[limit_indices=(10,) start_indices=(6,) strides=None] f
            j:f32[4] = reshape[new_sizes=(4,)] i
          in (h, j) }
        """,
    )


# ------------------------------------------------------------------ convolutions


def test_winograd_takes_16_products_for_36(limits):
    """Between them are additions; the direct sum takes over if a result is infinite."""
    limits(winograd_features=8, winograd_work=100)

    def f(x, kernel):
        return lax.conv(x, kernel, (1, 1), "SAME")

    op, avals = only(program(f, "f32[2,8,6,6]", "f32[8,8,3,3]"))
    text = counts(expanded(by_winograd, op, avals))
    assert "dot_general:16" in text and text.endswith("cond")
    for kernel, features in (("f32[8,3,3,3]", 3), ("f32[8,8,5,5]", 8)):
        op, avals = only(program(f, f"f32[2,{features},6,6]", kernel))
        assert expanded(by_winograd, op, avals) is None


# ------------------------------------------------------------------ Fourier transforms


@pytest.mark.parametrize(
    ("name", "n", "expected"),
    [
        ("fft", 8, "transform_along"),
        ("ifft", 8, "transform_along"),
        ("rfft", 4, "dot_general"),
        ("rfft", 256, "transform_along"),
        ("irfft", 256, "transform_along"),
        ("fft", 37, "dot_general:4"),
        ("fft", 10007, "transform_along:2"),
    ],
)
def test_transforms_by_length(name, n, expected):
    """By butterflies, by a matrix if few points are real, as products, by a chirp."""
    size = n // 2 + 1 if name == "irfft" else n
    given = f"f32[16,{size}]" if name == "rfft" else f"c64[16,{size}]"
    op, avals = only(program(lambda x: lax.fft(x, name.upper(), (n,)), given))
    found = expanded(transformed, op, avals)
    assert expected in counts(found).split()


def test_a_transform_of_pairs():
    """The op reads real numbers as pairs, and names its routine."""
    op = TransformAlong(1, inverse=False)
    assert op.aval(aval("f32[3,8]")) == aval("c64[3,4]")
    real = TransformAlong(1, inverse=True, to_real=True)
    assert real.aval(aval("c64[3,4]")) == aval("f32[3,8]")
    routine = op.routine(AVX2, aval("f32[3,8]"))
    np.testing.assert_allclose(
        op.eval(np.float32([[1, 0, 2, 0]]), routine.table()), [[3, -1]]
    )


# ------------------------------------------------------------------ others


def test_gamma_draws_are_loops():
    """A key for each element; the loop ends when the last draw is accepted."""
    closed = program(
        lambda key, a: curta.random.loggamma(curta.random.wrap_key_data(key), a),
        *("u32[2]", "f32[5]"),
    )
    (eqn,) = (e for e in closed.eqns if e.op.name == "random_gamma")
    avals = [v.aval for v in eqn.invars]
    jaxpr = expanded(lambda op, avals, _: by_draws(op, avals), eqn.op, avals)
    assert "while" in counts(jaxpr).split()
    assert by_draws(eqn.op, [avals[0], aval("i32[5]")]) is None


def test_an_eigenproblem_is_a_call_of_lapack():
    closed = program(lambda a: lax.linalg.eig(a), "f32[6,6]")
    (eqn,) = (e for e in closed.eqns if e.op.name == "eig")
    found = expansions(AVX2)(eqn.op, [v.aval for v in eqn.invars])
    assert "lapack" in str(found)
    assert callable(eig)
