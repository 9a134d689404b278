"""Reductions as folds: accumulators, how they start and how they are combined."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.element_types import computed_dtype
from curta.compiler.loops.nodes import Order
from curta.core.dim import is_same
from curta.core.op import Op
from curta.primitives.cumulative import Cumulative
from curta.primitives.families import Folding, Reduction
from curta.primitives.monoids import PROD, SUM
from curta.primitives.reduction import ArgReduction

Scalars = tuple[Any, ...]

_INT32 = np.dtype(np.int32)


@dataclass(frozen=True)
class FoldCode:
    """Scalar code of a reduction; there may be several accumulators.

    `in_order` combines where all on the left comes before all on the right. `order` is
    that of `Fold`: rounding shows in which order floats are added or multiplied.
    """

    initial: Scalars
    inputs: Callable[[Any, Any], Scalars]
    combine: Callable[[Scalars, Scalars], Scalars]
    result: Callable[[Scalars], Any]
    in_order: Callable[[Scalars, Scalars], Scalars] | None = None
    order: Order = "any"


def is_fold(op: Op) -> bool:
    """Whether the op is a reduction that loops can do."""
    return isinstance(op, (Reduction, ArgReduction))


def reduced_index(axes: list[int], along: Scalars, kept: Scalars) -> Scalars:
    """The index of an element, from those along the reduced dims and the others."""
    places, rest = dict(zip(axes, along, strict=True)), iter(kept)
    rank = len(along) + len(kept)
    return tuple(places[k] if k in places else next(rest) for k in range(rank))


def columns_of(shape: Sequence[int], axes: Sequence[int]) -> int:
    """The elements of the dims behind the last one that is reduced."""
    last = max((a for a in axes if not is_same(shape[a], 1)), default=len(shape))
    return math.prod(shape[last + 1 :])


def fold_code(op: Op, b: ScalarBuilder, dtype: Any) -> FoldCode:
    """The code of a reduction of elements of a dtype.

    `inputs` takes an element and its index along the reduced dim. Half floats
    accumulate in float32 and are rounded once; indices that the index dtype may not
    hold are compared as int32.
    """
    if isinstance(op, ArgReduction):
        wide = np.dtype(op.index_dtype).itemsize >= 4
        index_dtype = op.index_dtype if wide else _INT32
        # If all elements equal the identity none beats it: the index stays 0.
        return FoldCode(
            (b.const(op.identity(dtype), dtype), b.const(0, index_dtype)),
            lambda x, index: (x, b.index_value(index, index_dtype)),
            lambda left, right: op.combine(b, left, right),
            lambda final: b.convert(final[1], op.index_dtype),
            lambda left, right: op.combine_in_order(b, left, right),
        )
    return folding(cast(Reduction, op), b, computed_dtype(dtype), dtype)


def folding(op: Folding, b: ScalarBuilder, working: Any, dtype: Any) -> FoldCode:
    """The code of a fold by the operation of `op`, in the dtype `working`."""
    rounded = {SUM: b.sum, PROD: b.product}.get(op.monoid)
    combine = rounded or partial(op.combine, b)
    return simple_fold(b, working, dtype, combine, op.identity(dtype))


def cumulative_fold(
    op: Cumulative, b: ScalarBuilder, working: Any, dtype: Any
) -> FoldCode:
    """The code of a cumulative reduction."""
    if hasattr(op, "monoid"):
        return folding(op, b, working, dtype)
    # The logarithm of a sum of exponentials is of no monoid.
    code = simple_fold(b, working, dtype, partial(op.combine, b), op.identity(dtype))
    return dataclasses.replace(code, order="chain")


def simple_fold(
    b: ScalarBuilder,
    working: Any,
    dtype: Any,
    combine: Callable[[Any, Any], Any],
    identity: Any = 0,
) -> FoldCode:
    """The code of a fold in the dtype `working`, whose result is rounded to `dtype`."""
    rounds = combine in (b.sum, b.product) and working.kind in "fc"
    return FoldCode(
        (b.const(identity, working),),
        lambda x, _: (b.convert(x, working),),
        lambda x, y: (combine(x[0], y[0]),),
        lambda final: b.convert(final[0], dtype),
        order="blocks" if rounds else "any",
    )
