"""Reductions as folds: accumulators, how they start and how they are combined."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.element_types import computed_dtype
from curta.core.op import Op
from curta.lazy_dataclass import dataclass
from curta.primitives.families import Reduction
from curta.primitives.reduction import ArgReduction

Scalars = tuple[Any, ...]

_INT32 = np.dtype(np.int32)


@dataclass(frozen=True)
class FoldCode:
    """Scalar code of a reduction; there may be several accumulators.

    `in_order` combines where all on the left comes before all on the right.
    """

    initial: Scalars
    inputs: Callable[[Any, Any], Scalars]
    combine: Callable[[Scalars, Scalars], Scalars]
    result: Callable[[Scalars], Any]
    in_order: Callable[[Scalars, Scalars], Scalars] | None = None


def is_fold(op: Op) -> bool:
    """Whether the op is a reduction that loops can do."""
    return isinstance(op, (Reduction, ArgReduction))


def reduced_index(axes: list[int], along: Scalars, kept: Scalars) -> Scalars:
    """The index of an element, from those along the reduced dims and the others."""
    places, rest = dict(zip(axes, along, strict=True)), iter(kept)
    rank = len(along) + len(kept)
    return tuple(places[k] if k in places else next(rest) for k in range(rank))


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
    fold = cast(Reduction, op)
    combine, wide = partial(fold.combine, b), computed_dtype(dtype)
    return simple_fold(b, wide, dtype, combine, fold.identity(dtype))


def simple_fold(
    b: ScalarBuilder,
    working: Any,
    dtype: Any,
    combine: Callable[[Any, Any], Any],
    identity: Any = 0,
) -> FoldCode:
    """The code of a fold in the dtype `working`, whose result is rounded to `dtype`."""
    return FoldCode(
        (b.const(identity, working),),
        lambda x, _: (b.convert(x, working),),
        lambda x, y: (combine(x[0], y[0]),),
        lambda final: b.convert(final[0], dtype),
    )
