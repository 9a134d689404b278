"""Decompositions that XLA's compilers know by name, as custom calls.

QR by blocks of reflections, with LAPACK's signs, is theirs on all devices; LU is that
of TPUs. Matrices come in batches of known size; others are programs (`linalg`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.stablehlo.attributes import Text
from curta.compiler.stablehlo.ir import Value
from curta.compiler.stablehlo.linalg.programs import program
from curta.compiler.stablehlo.lowering import Builder, lower_closed, rule
from curta.compiler.stablehlo.types import tensor_type
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.dtypes import working_dtype
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.linalg.lu import LU
from curta.primitives.linalg.matrices import columns, rows, triu
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.slicing import Pad
from curta.primitives.structure import full


def _calls(b: Builder) -> bool:
    """Whether a call can be made: sizes are known, and there are elements."""
    shapes = [a.shape for a in (*b.ins, *b.outs)]
    return all(not any(map(is_symbolic_dim, s)) and 0 not in s for s in shapes)


def as_program(b: Builder, op: Any, *args: Value) -> Sequence[Value]:
    """A decomposition as a function of other ops."""

    def write(inner: Builder, *args: Value) -> Sequence[Value]:
        return lower_closed(inner, program(op, inner.ins), args)

    return b.outlined(op, write, args)


def _working(aval: ShapedArray) -> ShapedArray:
    """The type in a precision that compilers have routines for."""
    if aval.dtype.kind in "iu":
        return aval
    return aval.update(dtype=working_dtype(aval.dtype))


def _converted(
    b: Builder, given: Sequence[ShapedArray], to: Sequence[ShapedArray], xs: Any
) -> Sequence[Value]:
    def convert(*xs: Any) -> list[Any]:
        return [convert_element_type(x, a.dtype) for x, a in zip(xs, to, strict=True)]

    return lower_closed(b, stage(convert, given), xs)


def _called(b: Builder, name: str, *args: Value, **attributes: Any) -> Sequence[Value]:
    ins, outs = (list(map(_working, avals)) for avals in (b.ins, b.outs))
    result = b.emit(
        "stablehlo.custom_call",
        _converted(b, b.ins, ins, args),
        list(map(tensor_type, outs)),
        call_target_name=name,
        **attributes,
    )
    return _converted(b, outs, b.outs, result)


#: Those that are calls where they can be.
CALLED = {Geqrf, HouseholderProduct, LU, QR}

_VERSION = {"api_version": Text("1 : i32")}


@rule(Geqrf)
def _geqrf(b: Builder, op: Geqrf, x: Value) -> Sequence[Value]:
    if not _calls(b):
        return as_program(b, op, x)
    return _called(b, "Qr", x, **_VERSION)


@rule(HouseholderProduct)
def _product(b: Builder, op: HouseholderProduct, *args: Value) -> Sequence[Value]:
    if not _calls(b):
        return as_program(b, op, *args)
    name = "ProductOfElementaryHouseholderReflectors"
    return _called(b, name, *args, **_VERSION)


@rule(LU)
def _lu(b: Builder, op: LU, x: Value) -> Sequence[Value]:
    if b.program.platforms != ("tpu",) or not _calls(b):
        return as_program(b, op, x)
    return _called(b, "LuDecomposition", x)


@rule(QR)
def _qr(b: Builder, op: QR, x: Value) -> Sequence[Value]:
    if op.pivoting or not _calls(b):
        return as_program(b, op, x)
    return lower_closed(b, stage(lambda x: _reflected(op, x), b.ins), [x])


def _reflected(op: QR, given: Any) -> list[Any]:
    """Q and R, of the reflections and their product."""
    aval = typeof(given)
    m, n = aval.shape[-2:]
    k = m if op.full_matrices else min(m, n)
    packed, taus = Geqrf()(convert_element_type(given, working_dtype(aval.dtype)))
    upper = triu(rows(packed, 0, k))
    if k > n:
        zero = full(ShapedArray((), typeof(packed).dtype), 0)
        edges = [*[(0, 0, 0)] * (aval.ndim - 1), (0, k - n, 0)]
        packed = Pad(tuple(edges))(packed, zero)
    q = HouseholderProduct()(columns(packed, 0, k), taus)
    return [convert_element_type(x, aval.dtype) for x in (q, upper)]
