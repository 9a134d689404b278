"""Linear algebra: by the best routine that the plugin has, or as a program.

A vendor's library goes first (`vendor`), then what XLA's compilers expand: QR by blocks
of reflections, with LAPACK's signs, on all devices, LU on TPUs. They take batches of
known size; for others, and where there is no routine, programs of other ops stand
(`linalg`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from curta.compiler.linalg.programs import qr, staged_in_single
from curta.compiler.stablehlo import vendor
from curta.compiler.stablehlo.custom_calls import CustomCall, Routine
from curta.compiler.stablehlo.ir import Value
from curta.compiler.stablehlo.linalg.programs import PROGRAMS, program
from curta.compiler.stablehlo.lowering import Builder, lower_closed, rule
from curta.core.dim import is_symbolic_dim
from curta.core.trace import typeof
from curta.primitives.linalg.lu import LU
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct


def _geqrf(op: Geqrf, x: Any) -> Sequence[Any]:
    return _expanded("Qr", op, x, version=1)


def _householder_product(op: HouseholderProduct, *args: Any) -> Sequence[Any]:
    name = "ProductOfElementaryHouseholderReflectors"
    return _expanded(name, op, *args, version=1)


def _lu(op: LU, x: Any) -> Sequence[Any]:
    return _expanded("LuDecomposition", op, x)


def _expanded(
    target: str, op: Any, *args: Any, version: int | None = None
) -> Sequence[Any]:
    outs = op.aval(*map(typeof, args))
    results = tuple(outs) if op.multiple_results else (outs,)
    called: Sequence[Any] = CustomCall(target, results, version)(*args)
    return called


def _qr(op: QR, x: Any) -> Sequence[Any]:
    return qr(op, x, Geqrf(), HouseholderProduct())


_EXPANDED: dict[type, Routine] = {
    Geqrf: Routine(frozenset({"Qr"}), _geqrf),
    HouseholderProduct: Routine(
        frozenset({"ProductOfElementaryHouseholderReflectors"}), _householder_product
    ),
    LU: Routine(frozenset({"LuDecomposition"}), _lu),
    QR: Routine(frozenset(), _qr, lambda op: not op.pivoting),
}


def routine(b: Builder, op: Any) -> Routine | None:
    """The routine that computes an op; None if there is none, or sizes are unknown."""
    shapes = [a.shape for a in (*b.ins, *b.outs)]
    if any(any(map(is_symbolic_dim, s)) or 0 in s for s in shapes):
        return None
    for candidate in _routines(type(op)):
        if candidate.targets <= b.program.targets and candidate.fits(op):
            return candidate
    return None


def _routines(cls: type) -> Iterator[Routine]:
    for table in (vendor.ROUTINES, _EXPANDED):
        if cls in table:
            yield table[cls]


@rule(*PROGRAMS)
def _decomposition(b: Builder, op: Any, *args: Value) -> Sequence[Value]:
    library = routine(b, op)
    if library is not None:
        return lower_closed(b, staged_in_single(library.function, op, b.ins), args)

    def write(inner: Builder, *args: Value) -> Sequence[Value]:
        return lower_closed(inner, program(op, inner.ins), args)

    return b.outlined(op, write, args)
