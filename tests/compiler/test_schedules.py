"""Schedules: a small program in, its printed schedule out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.emit.emission import emit
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Kernel
from curta.compiler.loops.schedule import Loop, Schedule
from curta.compiler.pipeline import lower
from curta.compiler.pretty import pretty_schedules
from curta.compiler.program.work import Scheduled
from curta.compiler.schedule.check import InvalidSchedule, check_schedule
from curta.compiler.targets import Target, describe

# A given target: what the machine at hand has does not matter.
FEATURES = ["sse4_2", "avx2", "fma", "f16c"]
TARGET = describe("x86_64", "x86-64-v3", FEATURES, "linux")


def zeros(*shape: int, dtype: str = "float32") -> Any:
    return np.zeros(shape, dtype)


def works_of(
    fun: Callable[..., Any], *args: Any, target: Target = TARGET
) -> list[Scheduled]:
    works = lower(curta.make_jaxpr(fun)(*args), target).works
    return [w for w in works if isinstance(w, Scheduled)]


def assert_schedule(fun: Callable[..., Any], args: tuple[Any, ...], text: str) -> None:
    printed = pretty_schedules(works_of(fun, *args))
    assert printed == textwrap.dedent(text).strip()


def test_a_short_map_has_its_tail_in_the_loop() -> None:
    assert_schedule(
        lambda x: jnp.exp(x) * 2,
        (zeros(100),),
        """
        nest 0: v1
          vector i0:100 by 8, tail masked in the loop
        """,
    )


def test_a_long_map_is_cut_into_pieces() -> None:
    assert_schedule(
        lambda x: x + 1,
        (zeros((1 << 20) + 5),),
        """
        parallel i0:1048581 in pieces of 16384
        33 chunks of 2 iterations
        nest 0: v1
          vector i0:1048581 by 32, tail masked
        """,
    )


def test_large_results_bypass_the_caches() -> None:
    assert_schedule(
        lambda x: x + 1,
        (zeros(1 << 25),),
        """
        parallel i0:33554432 in pieces of 16384
        64 chunks of 32 iterations
        nest 0: v1
          vector i0:33554432 by 32
          bypass the caches: v1
        """,
    )


def test_vectors_begin_where_stores_are_aligned() -> None:
    (_, work) = works_of(lambda x: jnp.concatenate([x[:3], x[3:] + 1]), zeros(1 << 20))
    assert "vector i0:1048573 by 32, head 5, tail masked" in pretty_schedules([work])


def test_sums_of_rows_have_accumulators_in_the_lanes() -> None:
    assert_schedule(
        lambda x: x.sum(1),
        (zeros(512, 500),),
        """
        parallel i0:512
        8 chunks of 66 iterations
        nest 0: v1
          vector i1:500 by 32, tail masked
          accumulators: lanes
        """,
    )


def test_softmax_stages_the_exponentials_that_it_adds_up() -> None:
    assert_schedule(
        lambda x: curta.nn.softmax(x),
        (zeros(512, 256),),
        """
        parallel i0:512
        64 chunks of 8 iterations
        nest 0: v1
          vector i1:256 by 32
          accumulators: lanes
        nest 1: v2, v3
          vector i1:256 by 16, tail masked
          accumulators: staged
        nest 2: v4
          vector i1:256 by 32
        """,
    )


def test_sums_of_columns_have_tiles_of_accumulators() -> None:
    assert_schedule(
        lambda x: x.sum(0),
        (zeros(100, 5000),),
        """
        parallel i0:5000 in pieces of 1024
        5 chunks of 1 iterations
        nest 0: v1
          serial i1:100
          vector i0:5000 by 32, tail masked
          accumulators: tile, 8 rows at once
        """,
    )


def test_other_folds_of_columns_have_a_row_of_accumulators() -> None:
    assert_schedule(
        lambda x: x.max(0),
        (zeros(500, 100),),
        """
        nest 0: v1
          unrolled i1:500 by 8, tail scalar
          vector i0:100 by 8, tail by row
          accumulators: row, 8 rows at once
        """,
    )


def test_a_transpose_goes_by_tiles() -> None:
    assert_schedule(
        lambda x: x.T + 1,
        (zeros(512, 512),),
        """
        parallel tile i0:512 by 16, tail overlap
        parallel i1:512 in pieces of 16
        12 chunks of 86 iterations
        nest 0: v1
          vector i1:512 by 16, tail overlap
        """,
    )


def test_short_rows_end_together() -> None:
    assert_schedule(
        lambda x: x.max(1),
        (zeros(10_001, 10),),
        """
        parallel together i0:10001 by 8, tail overlap
        4 chunks of 410 iterations
        nest 0: v1
          vector i1:10 by 8, tail masked in the loop
          accumulators: lanes, 8 rows at once
        """,
    )


def test_owners_of_a_scatter_select_their_updates() -> None:
    assert_schedule(
        lambda x, i, u: x.at[i].add(u),
        (zeros(1 << 20), zeros(1 << 20, dtype="int32"), zeros(1 << 20)),
        """
        parallel i0:1048576 in pieces of 16384
        32 chunks of 2 iterations
        nest 0: v3
          vector i0:1048576 by 32
        parallel owner:2
        2 chunks of 1 iterations
        nest 0: v3
          selected i0:1048576 by 1024
        """,
    )


def test_small_updates_are_unrolled() -> None:
    assert_schedule(
        lambda x, i, u: x.at[i].add(u),
        (zeros(100), zeros(1000, dtype="int32"), zeros(1000)),
        """
        nest 0: v3
          vector i0:100 by 8, tail masked in the loop
        nest 0: v3
          unrolled i0:1000 by 4, tail scalar
        """,
    )


def test_examples_of_a_loop_share_vectors_which_poll() -> None:
    def doubled(x: Any) -> Any:
        return lax.while_loop(lambda c: c < 100, lambda c: 2 * c + 1, x)

    assert_schedule(
        lambda x: curta.vmap(doubled)(x),
        (zeros(10_001),),
        """
        parallel vector example:10001 by 32, tail masked in the loop
        7 chunks of 51 iterations
        polls every 64 iterations
        while polls every 1024 iterations
        """,
    )


def test_a_long_loop_polls_and_a_short_one_does_not() -> None:
    def loop(count: int) -> Callable[..., Any]:
        return lambda x: lax.fori_loop(0, count, lambda i, c: jnp.sin(c) + i, x)

    (_, long) = works_of(loop(1 << 28), zeros(4))
    assert "polls every 1024 iterations" in pretty_schedules([long])
    assert long.plan.takes_token
    (_, short) = works_of(loop(100), zeros(4))
    assert not short.plan.polls and not short.plan.takes_token


def test_the_target_carries_the_tuning() -> None:
    few = replace(TARGET.tuning, streamed_bytes=1 << 10)
    target = replace(TARGET, tuning=few)
    (work,) = works_of(lambda x: x + 1, zeros(1 << 12), target=target)
    assert work.plan.nests[0].streamed == (0,)
    assert target.identity == TARGET.identity


def test_streaming_stores_in_blocks_of_rows_are_published() -> None:
    few = replace(TARGET.tuning, streamed_bytes=1 << 10)
    target = replace(TARGET, tuning=few)
    softmax = curta.make_jaxpr(lambda x: x / x.max(1, keepdims=True))
    program = lower(softmax(zeros(8192, 64)), target)
    (work,) = (w for w in program.works if isinstance(w, Scheduled))
    assert work.plan.together
    assert any(nest.streamed for nest in work.plan.nests)
    text = emit(program)[0].entry.write()
    assert "nontemporal" in text and "fence seq_cst" in text


# ------------------------------------------------------------------------ checker


def changed(plan: Schedule, **loop: Any) -> Schedule:
    """The schedule with another last loop of its last nest."""
    *nests, nest = plan.nests
    *loops, last = nest.loops
    own = replace(nest, loops=(*loops, replace(last, **loop)))
    return replace(plan, nests=(*nests, own))


def kernel_and_plan(fun: Callable[..., Any], x: Any) -> tuple[Kernel, Schedule]:
    (work,) = works_of(fun, x)
    assert isinstance(work.kernel, Kernel)
    check_schedule(work.kernel, work.plan)
    return work.kernel, work.plan


@pytest.mark.parametrize(
    "wrong, problem",
    [
        ({"tail": "none", "tail_factor": 0}, "no tail along"),
        ({"factor": 24}, "vectors of 24 lanes"),
        ({"var": LoopVar("i7", 1000)}, "has the loops"),
        ({"tail": "scalar", "joined": True}, "in the loop, and is scalar"),
        ({"tail_factor": 0}, "a tail masked of 0 lanes"),
        ({"how": "selected"}, "no guard decides"),
        ({"how": "unrolled"}, "not ordered"),
    ],
)
def test_what_the_checker_finds_in_a_loop(wrong: Any, problem: str) -> None:
    kernel, plan = kernel_and_plan(lambda x: x.max(1), zeros(100, 1001))
    with pytest.raises(InvalidSchedule, match=problem):
        check_schedule(kernel, changed(plan, **wrong))


def test_vectors_overlap_only_where_elements_may_repeat() -> None:
    kernel, plan = kernel_and_plan(lambda x: x + 1, zeros(100_001))
    with pytest.raises(InvalidSchedule, match="may not repeat"):
        check_schedule(kernel, changed(plan, tail="overlap"))


def test_every_dim_runs_once() -> None:
    kernel, plan = kernel_and_plan(lambda x: x.max(1), zeros(100, 1001))
    with pytest.raises(InvalidSchedule, match="has the parallel loops"):
        check_schedule(kernel, replace(plan, outer=()))
    with pytest.raises(InvalidSchedule, match="a block of 4"):
        block = Loop(LoopVar("i7", 8), "together", 4)
        check_schedule(kernel, replace(plan, block=block))
