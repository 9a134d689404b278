"""Linear algebra that StableHLO has: Cholesky and triangular systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.linalg.programs import staged_in_single
from curta.compiler.stablehlo.attributes import enum
from curta.compiler.stablehlo.factorisations import routine
from curta.compiler.stablehlo.ir import Value
from curta.compiler.stablehlo.lowering import Builder, lower_closed, rule
from curta.compiler.stablehlo.types import tensor_type
from curta.core.avals import ShapedArray
from curta.core.stage import stage
from curta.dtypes import working_dtype
from curta.primitives.elementwise.comparison import ne
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.select import select
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.family import not_a_number
from curta.primitives.linalg.matrices import conjugate, diagonal, tril
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.reduction import ReduceOr
from curta.primitives.structure import BroadcastInDim, full


def _inlined(
    b: Builder, fun: Callable[..., Any], avals: Sequence[ShapedArray], *args: Value
) -> Value:
    """A function of arrays, as other ops."""
    (result,) = lower_closed(b, stage(lambda *xs: [fun(*xs)], avals), args)
    return result


def _in_single(b: Builder) -> list[ShapedArray]:
    """The avals of the operands in a precision that compilers have routines for."""
    return [
        ShapedArray(a.shape, working_dtype(a.dtype), sharding=a.sharding) for a in b.ins
    ]


@rule(Cholesky)
def _cholesky(b: Builder, op: Cholesky, x: Value) -> Value:
    """What is not positive definite becomes NaN as a whole, on every device."""
    (given,), (aval,), (out,) = b.ins, _in_single(b), b.outs
    if not out.size:
        return x
    if library := routine(b, op):
        (factor,) = lower_closed(b, staged_in_single(library.function, op, b.ins), [x])
        return factor

    def finish(factor: Any) -> Any:
        d = diagonal(factor)
        failed = ReduceOr((aval.ndim - 2,))(ne(d, d))
        mask = BroadcastInDim(aval.shape, tuple(range(aval.ndim - 2)))(failed)
        nan = full(aval, not_a_number(aval.dtype))
        return convert_element_type(select(mask, nan, tril(factor)), out.dtype)

    wide = _inlined(b, lambda x: convert_element_type(x, aval.dtype), [given], x)
    factor = b.op("cholesky", [wide], tensor_type(aval), lower=True)
    return _inlined(b, finish, [aval], factor)


@rule(TriangularSolve)
def _triangular_solve(b: Builder, op: TriangularSolve, a: Value, x: Value) -> Value:
    (matrix, right), (out,) = _in_single(b), b.outs
    if not out.size:
        return x

    def prepare(a: Any) -> Any:
        a = convert_element_type(a, matrix.dtype)
        return conjugate(a) if op.conjugate_a and not op.transpose_a else a

    how = "NO_TRANSPOSE"
    if op.transpose_a:
        how = "ADJOINT" if op.conjugate_a else "TRANSPOSE"
    operands = [
        _inlined(b, prepare, [b.ins[0]], a),
        _inlined(b, lambda x: convert_element_type(x, right.dtype), [b.ins[1]], x),
    ]
    result = b.op(
        "triangular_solve",
        operands,
        tensor_type(right),
        left_side=op.left_side,
        lower=op.lower_triangle,
        transpose_a=enum("transpose", how),
        unit_diagonal=op.unit_diagonal,
    )
    return _inlined(b, lambda x: convert_element_type(x, out.dtype), [right], result)
