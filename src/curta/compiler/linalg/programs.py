"""Ops on matrices as programs of other ops, and what libraries say of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.dtypes import working_dtype
from curta.primitives.elementwise.arithmetic import neg, sub
from curta.primitives.elementwise.comparison import eq, gt, lt
from curta.primitives.elementwise.complex import complex_
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.select import select
from curta.primitives.linalg.family import not_a_number
from curta.primitives.linalg.matrices import columns, rows, triu
from curta.primitives.reduction import ReduceAnd
from curta.primitives.slicing import Pad
from curta.primitives.structure import (
    BroadcastInDim,
    full,
    zeros,
)


def qr(
    op: Any,
    a: Any,
    reduce: Callable[..., Sequence[Any]],
    product: Callable[..., Any],
) -> list[Any]:
    """Q and R of `QR` by reflections, and what `reduce` gives besides.

    `reduce` gives what `Geqrf` does, `product` what `HouseholderProduct` does.
    """
    *_, m, n = typeof(a).shape
    k = m if op.full_matrices else min(m, n)
    packed, taus, *others = reduce(a)
    r = triu(rows(packed, 0, k))
    if k > n:
        padding = (*[(0, 0, 0)] * (typeof(a).ndim - 1), (0, k - n, 0))
        packed = Pad(padding)(packed, np.zeros((), typeof(a).dtype))
    return [product(columns(packed, 0, k), taus), r, *others]


def staged_in_single(
    rule: Callable[..., Sequence[Any]], op: Any, avals: Sequence[ShapedArray]
) -> ClosedJaxpr:
    """The jaxpr of `rule(op, *args)`, which works on halves in single precision."""

    def run(*args: Any) -> Sequence[Any]:
        results = rule(op, *map(_in_single, args))
        pairs = zip(results, outs_of(op, avals), strict=True)
        return [convert_element_type(x, a.dtype) for x, a in pairs]

    return stage(run, avals)


def outs_of(op: Any, avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    outs = op.aval(*avals)
    return list(outs) if op.multiple_results else [outs]


def _in_single(x: Any) -> Any:
    return convert_element_type(x, working_dtype(typeof(x).dtype))


def conjugate_pairs(imaginary: Any, v: Any) -> Any:
    """Eigenvectors of real matrices, as complex ones.

    Those of a pair are conjugate: the first column has their real part, the second the
    imaginary one. The first eigenvalue of a pair is the one above the real axis.
    """
    aval = typeof(v)
    along = (*range(aval.ndim - 2), aval.ndim - 1)

    def masked(compare: Any) -> Any:
        mask = compare(imaginary, zeros(typeof(imaginary)))
        return BroadcastInDim(aval.shape, along)(mask)

    def shifted(by: int) -> Any:
        edges = (*[(0, 0, 0)] * (aval.ndim - 1), (by, -by, 0))
        return Pad(edges)(v, np.zeros((), aval.dtype))

    first, second = masked(gt), masked(lt)
    real = select(second, shifted(1), v)
    rest = select(first, shifted(-1), select(second, neg(v), zeros(aval)))
    return complex_(real, rest)


# ------------------------------------------------------------- what libraries say


def succeeded(info: Any) -> Any:
    """For which matrices a routine gave 0."""
    return eq(info, zeros(typeof(info)))


def nan_unless(ok: Any, *values: Any) -> list[Any]:
    """Values of a batch of matrices, NaN for those that are not `ok`."""
    result = []
    for x in values:
        aval = typeof(x)
        nan = full(aval.strip_weak_type(), not_a_number(aval.dtype))
        result.append(select(_for_each(ok, aval), x, nan))
    return result


def only_finite(a: Any) -> tuple[Any, Any]:
    """Matrices, 0 where they have an element that is not finite, and which have none.

    Of others routines may come to no end.
    """
    aval = typeof(a)
    nothing = sub(a, a)  # NaN for infinities, too
    finite = ReduceAnd((aval.ndim - 2, aval.ndim - 1))(eq(nothing, nothing))
    return select(_for_each(finite, aval), a, zeros(aval)), finite


def _for_each(flags: Any, aval: ShapedArray) -> Any:
    """What holds of each matrix of a batch, for every element."""
    return BroadcastInDim(aval.shape, tuple(range(typeof(flags).ndim)))(flags)
