"""Ops on matrices as programs of other ops: the table by op class."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler.linalg import factors, reflections
from curta.compiler.linalg.ops import OpMachine
from curta.compiler.linalg.tensors import EXAMPLES, INT, Tensor
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.dtypes import working_dtype
from curta.primitives.elementwise.arithmetic import neg
from curta.primitives.elementwise.comparison import gt, lt
from curta.primitives.elementwise.complex import complex_
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.select import select
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.qr import Geqrf, HouseholderProduct
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.slicing import Pad
from curta.primitives.structure import BroadcastInDim, Reshape, batch_dim_at, zeros
from curta.transforms.vmap import BatchAxis, batch

Program = Callable[..., Sequence[Tensor]]
"""From an op and matrices, vectors as columns, to matrices."""


def _cholesky(p: OpMachine, op: Any, a: Tensor) -> Sequence[Any]:
    factor = p.matrix(a)
    factors.cholesky(p, factor)
    return [factor]


def _lu(p: OpMachine, op: Any, a: Tensor) -> Sequence[Any]:
    m, n = a.shape
    results = p.matrix(a), p.zeros(min(m, n), 1, INT), p.zeros(m, 1, INT)
    factors.lu(p, *results)
    return results


def _permutation(p: OpMachine, op: Any, pivots: Tensor) -> Sequence[Any]:
    order = p.zeros(op.permutation_size, 1, INT)
    factors.permutation(p, p.fixed(pivots), order)
    return [order]


def _triangular(p: OpMachine, op: Any, a: Tensor, b: Tensor) -> Sequence[Any]:
    a = a.conj() if op.conjugate_a else a
    lower = op.lower_triangle != op.transpose_a
    if op.transpose_a:
        a = a.T
    if not op.left_side:  # x a = b is a^T x^T = b^T
        a, b, lower = a.T, b.T, not lower
    if not lower:  # in reverse order the upper triangle is a lower one
        a, b = a.reversed(0, 1), b.reversed(0)
    x = p.matrix(b)
    factors.substitute(p, p.fixed(a), x, op.unit_diagonal)
    if not lower:
        x.value = x.value.reversed(0)
    if not op.left_side:
        x.value = x.value.T
    return [x]


def _geqrf(p: OpMachine, op: Any, a: Tensor) -> Sequence[Any]:
    results = p.matrix(a), p.zeros(min(a.shape), 1, a.dtype)
    reflections.reflections(p, *results)
    return results


def _product(p: OpMachine, op: Any, a: Tensor, taus: Tensor) -> Sequence[Any]:
    q = p.matrix(a)
    reflections.product_of_reflections(p, q, p.fixed(taus))
    return [q]


def _tridiagonal(
    p: OpMachine, op: Any, dl: Tensor, d: Tensor, du: Tensor, b: Tensor
) -> Sequence[Any]:
    n = d.shape[0]
    first, second, x = map(p.matrix, (d, du, b))
    if n:
        third = p.zeros(n, 1, d.dtype)
        lower, perturb = p.fixed(dl), op.perturb_singular
        factors.tridiagonal(p, lower, first, second, x, third, perturb)
    return [x]


_ALGORITHMS: dict[type, Callable[..., Sequence[Any]]] = {
    Cholesky: _cholesky,
    LU: _lu,
    LUPivotsToPermutation: _permutation,
    TriangularSolve: _triangular,
    Geqrf: _geqrf,
    HouseholderProduct: _product,
    TridiagonalSolve: _tridiagonal,
}


def algorithm(cls: type, unrolled: bool) -> Program:
    """The program of an op of a class, with its loops written out or not."""
    function = _ALGORITHMS[cls]

    def run(op: Any, *args: Tensor) -> Sequence[Tensor]:
        machine = OpMachine(args[0].dtype, unrolled)
        return [matrix.value for matrix in function(machine, op, *args)]

    return run


def staged(function: Program, op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The jaxpr of a program on a batch of matrices, halves in single precision.

    The batch may be of symbolic sizes.
    """
    outs = op.aval(*avals)
    outs = list(outs) if op.multiple_results else [outs]
    lead = avals[0].shape[: avals[0].ndim - op.ranks[0]]

    def one(*args: Any) -> list[Any]:
        return [x.value for x in function(op, *map(_matrix, args))]

    def run(*args: Any) -> list[Any]:
        if not any(a.size for a in outs):
            return [zeros(a) for a in outs]
        if lead:
            result = _mapped(one, math.prod(lead), len(lead), args)
        else:
            result = one(*map(_in_single, args))
        return [
            convert_element_type(Reshape(a.shape)(x), a.dtype)
            for x, a in zip(result, outs, strict=True)
        ]

    return stage(run, [a.strip_weak_type() for a in avals])


def staged_in_single(
    rule: Callable[..., Sequence[Any]], op: Any, avals: Sequence[ShapedArray]
) -> ClosedJaxpr:
    """The jaxpr of `rule(op, *args)`, which works on halves in single precision."""
    outs = op.aval(*avals)
    given = outs if op.multiple_results else [outs]

    def run(*args: Any) -> Sequence[Any]:
        return [
            convert_element_type(x, a.dtype)
            for x, a in zip(rule(op, *map(_in_single, args)), given, strict=True)
        ]

    return stage(run, avals)


def _in_single(x: Any) -> Any:
    return convert_element_type(x, working_dtype(typeof(x).dtype))


def _matrix(x: Any) -> Tensor:
    shape = typeof(x).shape
    return Tensor(x if len(shape) == 2 else Reshape((*shape, 1))(x))


def _mapped(
    one: Callable[..., list[Any]], count: int, rank: int, args: Sequence[Any]
) -> list[Any]:
    """A function of single matrices on a batch, as one of `count`."""
    flat = [Reshape((count, *typeof(x).shape[rank:]))(_in_single(x)) for x in args]
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
