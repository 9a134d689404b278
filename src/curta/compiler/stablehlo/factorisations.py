"""Linear algebra: by the best routine that the plugin has, or as a program.

A vendor's library goes first (`vendor`), then what XLA's compilers expand: QR by blocks
of reflections, with LAPACK's signs, on all devices, LU on TPUs. They take batches of
known size; for others, and where there is no routine, there are StableHLO's Cholesky
and triangular systems, and programs of other ops (`linalg`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from curta.compiler.linalg.programs import nan_unless, qr, staged_in_single
from curta.compiler.stablehlo import vendor
from curta.compiler.stablehlo.attributes import RawAttribute, enum
from curta.compiler.stablehlo.custom_calls import CallRoutine, HloOp
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.linalg.programs import PROGRAMS, program
from curta.compiler.stablehlo.lowering import BlockBuilder, lower_closed, rule
from curta.core.dim import is_symbolic_dim
from curta.core.trace import typeof
from curta.primitives.elementwise.comparison import eq
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.lu import LU
from curta.primitives.linalg.matrices import conjugate, diagonal, tril
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.reduction import ReduceAnd


def _called(target: str, version: int | None = None) -> CallRoutine:
    """What XLA's compilers expand, with the operands and results of an op."""
    call: list[tuple[str, Any]] = [("call_target_name", target)]
    if version is not None:
        call.append(("api_version", RawAttribute(f"{version} : i32")))

    def run(op: Any, *args: Any) -> Sequence[Any]:
        outs = op.aval(*map(typeof, args))
        results = tuple(outs) if op.multiple_results else (outs,)
        called: Sequence[Any] = HloOp("custom_call", results, tuple(call))(*args)
        return called

    return CallRoutine(frozenset({target}), run)


def _qr(op: QR, x: Any) -> Sequence[Any]:
    return qr(op, x, Geqrf(), HouseholderProduct())


_EXPANDED: dict[type, CallRoutine] = {
    Geqrf: _called("Qr", 1),
    HouseholderProduct: _called("ProductOfElementaryHouseholderReflectors", 1),
    LU: _called("LuDecomposition"),
    QR: CallRoutine(frozenset(), _qr, lambda op: not op.pivoting),
}


def _cholesky(op: Cholesky, x: Any) -> Sequence[Any]:
    """What is not positive definite becomes NaN as a whole, on every device."""
    (factor,) = HloOp("cholesky", (typeof(x),), (("lower", True),))(x)
    d = diagonal(factor)
    ok = ReduceAnd((typeof(d).ndim - 1,))(eq(d, d))
    return nan_unless(ok, tril(factor))


def _triangular_solve(op: TriangularSolve, a: Any, x: Any) -> Sequence[Any]:
    how = "NO_TRANSPOSE"
    if op.transpose_a:
        how = "ADJOINT" if op.conjugate_a else "TRANSPOSE"
    elif op.conjugate_a:
        a = conjugate(a)
    attributes = (
        ("left_side", op.left_side),
        ("lower", op.lower_triangle),
        ("transpose_a", enum("transpose", how)),
        ("unit_diagonal", op.unit_diagonal),
    )
    solved: Sequence[Any] = HloOp("triangular_solve", (typeof(x),), attributes)(a, x)
    return solved


# What StableHLO has itself, for batches of any size.
_OPERATIONS: dict[type, Callable[..., Sequence[Any]]] = {
    Cholesky: _cholesky,
    TriangularSolve: _triangular_solve,
}


def routine(b: BlockBuilder, op: Any) -> CallRoutine | None:
    """The routine that computes an op; None if there is none, or sizes are unknown."""
    shapes = [a.shape for a in (*b.ins, *b.outs)]
    if any(any(map(is_symbolic_dim, s)) or 0 in s for s in shapes):
        return None
    for candidate in _routines(type(op)):
        if candidate.targets <= b.program.targets and candidate.fits(op):
            return candidate
    return None


def _routines(cls: type) -> Iterator[CallRoutine]:
    for table in (vendor.ROUTINES, _EXPANDED):
        if cls in table:
            yield table[cls]


@rule(*PROGRAMS)
def _decomposition(b: BlockBuilder, op: Any, *args: HloValue) -> Sequence[HloValue]:
    library = routine(b, op)
    if library is not None:
        return lower_closed(b, staged_in_single(library.function, op, b.ins), args)

    def write(inner: BlockBuilder, *args: HloValue) -> Sequence[HloValue]:
        return lower_closed(inner, program(op, inner.ins), args)

    return b.outlined(op, write, args)


@rule(*_OPERATIONS)
def _operation(b: BlockBuilder, op: Any, *args: HloValue) -> Sequence[HloValue]:
    if not b.outs[0].size:
        return [args[-1]]
    library = routine(b, op)
    function = library.function if library else _OPERATIONS[type(op)]
    return lower_closed(b, staged_in_single(function, op, b.ins), args)
