"""Choices of the schedule: vectors, unrolling, rows that run together."""

import pytest
from tests.compiler.printing import AVX2, AVX512, first_kernel

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.schedule.kernels import kernel_schedule
from curta.compiler.schedule.pretty import pretty_schedule
from curta.compiler.schedule.row_blocks import with_rows_together
from curta.compiler.schedule.vectors import chains_of, may_repeat, vectors_of


def schedule(fun, *types, target=AVX2):
    kernel, _ = first_kernel(fun, *types, target=target)
    return pretty_schedule(kernel, kernel_schedule(kernel, target))


def test_a_map_has_as_many_lanes_as_a_vector(prints):
    prints(
        schedule(lambda x: x * 2, "f32[1000]"),
        """
        nest 0: v1
          vector i0:1000 by 8
        """,
    )
    prints(
        schedule(lambda x: x * 2, "f32[1000]", target=AVX512),
        """
        nest 0: v1
          vector i0:1000 by 16, tail masked in the loop
        """,
    )


def test_a_sum_of_rows_has_accumulators(prints):
    prints(
        schedule(lambda x: x.sum(1), "f32[64,1000]"),
        """
        parallel i0:64
        2 chunks of 33 iterations
        nest 0: v1
          vector i1:1000 by 32, tail masked
          accumulators: lanes
        """,
    )


def test_a_sum_of_columns_has_a_lane_for_each_column(prints):
    prints(
        schedule(lambda x: x.sum(0), "f32[64,1000]"),
        """
        nest 0: v1
          serial i1:64
          vector i0:1000 by 8
          accumulators: tile, 8 rows at once
        """,
    )


def test_a_running_sum_is_serial_along_its_rows(prints):
    prints(
        schedule(lambda x: lax.cumsum(x, axis=1), "f32[4,1000]"),
        """
        parallel i0:4
        nest 0: v1
          vector i1:1000 by 16, tail masked in the loop
          accumulators: lanes
        """,
    )


def test_short_rows_run_together(prints):
    """Their reductions end in one vector instead of a shuffle for each row."""
    prints(
        schedule(lambda x: curta.nn.softmax(x), "f32[512,16]"),
        """
        parallel together i0:512 by 8
        5 chunks of 15 iterations
        nest 0: v1
          vector i1:16 by 16
          accumulators: lanes, 8 rows at once
        nest 1: v2, v3
          vector i1:16 by 16
          accumulators: lanes, 4 rows at once
        nest 2: v4
          vector i1:16 by 16
        """,
    )


def test_rows_that_are_long_run_alone():
    kernel, _ = first_kernel(lambda x: jnp.exp(x).sum(1), "f32[64,5000]")
    plan = kernel_schedule(kernel, AVX2)
    assert with_rows_together(kernel, plan, AVX2).block == plan.block


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["avx2", "avx512"])
def test_vectors_of_a_nest(target):
    kernel, _ = first_kernel(lambda x: x * 2, "f32[1000]", target=target)
    (nest,) = kernel.nests
    few, many = (
        vectors_of(nest, 1000, target, little, False, None, True)
        for little in (True, False)
    )
    assert few.lanes == target.vector_bytes // 4
    assert many.lanes == 4 * few.lanes
    assert few.repeats and many.repeats


def test_which_elements_may_be_computed_twice():
    """Not one that may replace its operand, nor a term of a sum."""
    for fun, expected in (
        (lambda x: x[::-1] * 2, True),
        (lambda x: x * 2, False),
        (lambda x: x.sum(), False),
    ):
        kernel, _ = first_kernel(fun, "f32[1000]")
        assert may_repeat(kernel.nests[0], kernel) is expected


def test_light_work_has_more_chains():
    """Several chains hide the latency of an instruction."""
    light, heavy = chains_of(1, AVX2), chains_of(1000, AVX2)
    assert light > heavy == 1
