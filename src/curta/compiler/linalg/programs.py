"""Ops on matrices as programs of other ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler.linalg.algorithms import ALGORITHMS
from curta.compiler.linalg.ops import OpMachine
from curta.compiler.linalg.parts import MatrixView
from curta.compiler.linalg.tensors import EXAMPLES, INT, Tensor, filled
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
    Reshape,
    batch_dim_at,
    full,
    zeros,
)
from curta.transforms.vmap import BatchAxis, batch

Program = Callable[..., Sequence[Tensor]]
"""From an op and matrices, vectors as columns, to matrices."""


def algorithm(cls: type, unrolled: bool) -> Program:
    """The program of an op of a class, with its loops written out or not."""
    describe = ALGORITHMS[cls]

    def run(op: Any, *args: Tensor) -> Sequence[Tensor]:
        found = describe(op, *(x.shape for x in args))
        p = OpMachine(args[0].dtype, unrolled)
        given = dict(zip(found.operands, args, strict=True))
        matrices = [
            p.matrix(_seen(given[i], array.view))
            if i in given
            else p.matrix(filled(*array.shape, INT if array.integer else p.dtype))
            for i, array in enumerate(found.arrays)
        ]
        found.function(p, *matrices, *found.options)
        return [_unseen(matrices[i].value, found.arrays[i].view) for i in found.results]

    return run


def _seen(x: Tensor, view: MatrixView) -> Tensor:
    x = x.conj() if view.conjugated else x
    return _reversed(x.T if view.transposed else x, view)


def _unseen(x: Tensor, view: MatrixView) -> Tensor:
    x = _reversed(x, view)
    x = x.T if view.transposed else x
    return x.conj() if view.conjugated else x


def _reversed(x: Tensor, view: MatrixView) -> Tensor:
    axes = [axis for axis, reverses in enumerate(view.reversed) if reverses]
    return x.reversed(*axes) if axes else x


def staged(function: Program, op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The jaxpr of a program on a batch of matrices, halves in single precision.

    The batch may be of symbolic sizes.
    """
    outs = _outs(op, avals)
    lead = avals[0].shape[: avals[0].ndim - op.ranks[0]]

    def one(*args: Any) -> list[Any]:
        return [x.value for x in function(op, *map(_matrix, args))]

    def run(op: Any, *args: Any) -> list[Any]:
        if not any(a.size for a in outs):
            return [zeros(a) for a in outs]
        result = _mapped(one, math.prod(lead), len(lead), args) if lead else one(*args)
        return [Reshape(a.shape)(x) for x, a in zip(result, outs, strict=True)]

    return staged_in_single(run, op, [a.strip_weak_type() for a in avals])


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
        pairs = zip(results, _outs(op, avals), strict=True)
        return [convert_element_type(x, a.dtype) for x, a in pairs]

    return stage(run, avals)


def _outs(op: Any, avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    outs = op.aval(*avals)
    return list(outs) if op.multiple_results else [outs]


def _in_single(x: Any) -> Any:
    return convert_element_type(x, working_dtype(typeof(x).dtype))


def _matrix(x: Any) -> Tensor:
    shape = typeof(x).shape
    return Tensor(x if len(shape) == 2 else Reshape((*shape, 1))(x))


def _mapped(
    one: Callable[..., list[Any]], count: int, rank: int, args: Sequence[Any]
) -> list[Any]:
    """A function of single matrices on a batch, as one of `count`."""
    flat = [Reshape((count, *typeof(x).shape[rank:]))(x) for x in args]
    outs, dims = batch(one, BatchAxis(count, EXAMPLES), flat, [0] * len(flat))
    return [batch_dim_at(x, d, count, 0) for x, d in zip(outs, dims, strict=True)]


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
