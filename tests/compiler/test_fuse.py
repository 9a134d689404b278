"""The fusion plan: what shares a kernel, and what the plan says of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.compiler.programs import assert_compiles, staged

from curta.compiler.fuse.fuse import FusionPlan, fuse
from curta.compiler.host_target import host
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.lower.items import Item, written
from curta.compiler.rewrite.simplify import simplify
from curta.core.jaxpr import ClosedJaxpr
from curta.primitives import elementwise as ops
from curta.primitives.dot import DotGeneral
from curta.primitives.reduction import ReduceMax
from curta.primitives.structure import BroadcastInDim, ReduceSum, Transpose
from curta.transforms.dce import dce_jaxpr

ROWS = np.random.default_rng(0).standard_normal((512, 256)).astype(np.float32)


def plan_of(closed: ClosedJaxpr) -> FusionPlan:
    return fuse(lower_to_items(dce_jaxpr(simplify(closed.jaxpr, host())), host()))


def labels(plan: FusionPlan) -> list[list[str]]:
    return [[getattr(i, "label", "other") for i in g.items] for g in plan.groups]


def item(plan: FusionPlan, label: str) -> Item:
    return next(
        i for g in plan.groups for i in g.items if getattr(i, "label", "") == label
    )


def along_rows(x: Any, rows: Any) -> Any:
    return BroadcastInDim(x.aval.shape, (0,))(rows)


def softmax(x: Any) -> list[Any]:
    e = ops.exp(ops.sub(x, along_rows(x, ReduceMax((1,))(x))))
    return [ops.div(e, along_rows(x, ReduceSum((1,))(e)))]


def layernorm(x: Any) -> list[Any]:
    scale = np.float32(1 / 256)
    mean = ops.mul(ReduceSum((1,))(x), scale)
    centred = ops.sub(x, along_rows(x, mean))
    variance = ops.mul(ReduceSum((1,))(ops.mul(centred, centred)), scale)
    return [
        ops.mul(centred, along_rows(x, ops.rsqrt(ops.add(variance, np.float32(1e-5)))))
    ]


def test_softmax_is_one_kernel_and_keeps_its_rows_in_the_cache() -> None:
    closed = staged(softmax, ROWS)
    plan = plan_of(closed)
    assert labels(plan) == [["reduce_max", "exp", "reduce_sum", "div"]]
    assert plan.groups[0].shared == 1
    assert_compiles(closed, ROWS)


def test_layernorm_is_one_kernel() -> None:
    closed = staged(layernorm, ROWS)
    assert len(plan_of(closed).groups) == 1
    assert_compiles(closed, ROWS)


def test_siblings_over_one_argument_share_a_pass() -> None:
    def moments(x: Any) -> list[Any]:
        return [ReduceSum((0,))(x), ReduceSum((0,))(ops.mul(x, x)), ReduceMax((0,))(x)]

    closed = staged(moments, ROWS)
    assert labels(plan_of(closed)) == [["reduce_sum", "reduce_sum", "reduce_max"]]
    assert_compiles(closed, ROWS)


def test_a_map_and_the_sum_of_its_result_share_a_pass() -> None:
    closed = staged(lambda x: (y := ops.exp(x),) and [y, ReduceSum((0, 1))(y)], ROWS)
    assert labels(plan_of(closed)) == [["exp", "reduce_sum"]]
    assert_compiles(closed, ROWS)


def test_cheap_producers_are_computed_again() -> None:
    def two(x: Any) -> list[Any]:
        y = ops.add(x, np.float32(1))
        return [ReduceSum((0,))(y), ReduceSum((1,))(y)]

    assert labels(plan_of(staged(two, ROWS))) == [["reduce_sum"], ["reduce_sum"]]


def test_the_plan_explains_itself() -> None:
    def transposed_sum(x: Any) -> list[Any]:
        e = ops.exp(x)
        return [e, ReduceSum((1,))(Transpose((1, 0))(e))]

    plan = plan_of(staged(transposed_sum, ROWS))
    assert "independent" in plan.explain(item(plan, "exp"), item(plan, "reduce_sum"))
    plan = plan_of(staged(softmax, ROWS))
    assert "fused" in plan.explain(item(plan, "exp"), item(plan, "div"))


def test_nothing_moves_before_what_it_reads() -> None:
    matmul = DotGeneral((((1,), (0,)), ((), ())))

    def network(x: Any, w: Any) -> list[Any]:
        hidden = ops.tanh(matmul(x, w))
        return [ops.add(hidden, x), ops.exp(x), matmul(hidden, w)]

    w = ROWS[:256] / 16
    closed = staged(network, ROWS, w)
    plan = plan_of(closed)
    place = {
        b: i for i, g in enumerate(plan.groups) for it in g.items for b in written(it)
    }
    for i, group in enumerate(plan.groups):
        for member in group.items:
            for load in getattr(member, "loads", ()):
                assert place.get(load.buffer, -1) <= i
    assert_compiles(closed, ROWS, w, rtol=1e-4)


def test_a_sum_over_everything_does_not_take_the_turns_of_others_away() -> None:
    closed = staged(lambda x: [*softmax(x), ReduceSum((0, 1))(x)], ROWS)
    plan = plan_of(closed)
    assert labels(plan) == [["reduce_max", "exp", "reduce_sum", "div"], ["reduce_sum"]]
    assert_compiles(closed, ROWS)


def test_the_logarithm_of_each_rows_sum_is_computed_by_vectors() -> None:
    def logsumexp(x: Any) -> list[Any]:
        return [ops.log(ReduceSum((1,))(ops.exp(x)))]

    closed = staged(logsumexp, ROWS)
    plan = plan_of(closed)
    assert labels(plan) == [["reduce_sum"], ["log"]]
    reason = plan.explain(item(plan, "reduce_sum"), item(plan, "log"))
    assert "vectorised apart" in reason
    assert_compiles(closed, ROWS)


def test_a_function_of_each_row_stays_if_the_row_needs_it() -> None:
    def centred(x: Any) -> list[Any]:
        return [ops.sub(x, along_rows(x, ops.log(ReduceSum((1,))(ops.exp(x)))))]

    closed = staged(centred, ROWS)
    assert len(plan_of(closed).groups) == 1
    assert_compiles(closed, ROWS)


def test_a_function_of_rows_goes_by_vectors_if_a_sum_over_rows_needs_it() -> None:
    def gradient(x: Any, w: Any) -> list[Any]:
        scores = ReduceSum((1,))(ops.mul(x, BroadcastInDim(x.aval.shape, (1,))(w)))
        chances = ops.logistic(scores)
        return [ReduceSum((0,))(ops.mul(x, along_rows(x, chances)))]

    closed = staged(gradient, ROWS, ROWS[0])
    assert len(plan_of(closed).groups) == 3
    assert_compiles(closed, ROWS, ROWS[0])


def test_functions_of_rows_come_before_what_spreads_them() -> None:
    def spread(x: Any, rows: Any) -> list[Any]:
        return [ops.mul(x, along_rows(x, ops.exp(rows)))]

    closed = staged(spread, ROWS, ROWS[:, 0])
    assert_compiles(closed, ROWS, ROWS[:, 0])
    plan = plan_of(closed)
    assert len(plan.groups) == len([i for g in plan.groups for i in g.items])
