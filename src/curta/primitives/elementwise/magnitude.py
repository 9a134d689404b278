"""Absolute value, sign, extrema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from curta._settings.api_version import STABLE_DERIVATIVES
from curta.core.trace import typeof
from curta.primitives.base import (
    ANY,
    NUMBER,
    Elementwise,
    Family,
    FlatElementwise,
    const,
    full_like,
    scalar_like,
    wrapped,
)
from curta.primitives.elementwise.arithmetic import div, mul, neg
from curta.primitives.elementwise.comparison import eq, ge, gt
from curta.primitives.elementwise.complex import conj, part_dtype, real
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.select import select


class Abs(Elementwise):
    """|x|; a real number for a complex x."""

    name: ClassVar[str] = "abs"
    method: ClassVar[str] = "abs"
    makes_nan: ClassVar[bool] = False
    accepts: ClassVar[Family] = (np.signedinteger, np.floating, np.complexfloating)
    ufunc: ClassVar[Any] = np.absolute

    def out_dtype(self, *dtypes: Any) -> Any:
        return part_dtype(super().out_dtype(*dtypes))

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        (x,) = primals
        dtype = typeof(x).dtype
        if dtype.kind == "c":
            mirrored = conj(x)
            radius = replace_zero(convert_element_type(out, dtype))
            return real(mul(t, div(mirrored, radius)))
        return select(ge(x, scalar_like(x, 0)), t, neg(t))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for shape in (2, 3), (), (0, 2):
            yield cls(), [(shape, "inexact", {"nonzero": True})]
        yield cls(), [((3,), "int32")]


class Sign(FlatElementwise):
    """-1, 0 or 1; x / |x| of complex numbers; NaN and the sign of zero stay."""

    name: ClassVar[str] = "sign"
    method: ClassVar[str] = "sign"
    accepts: ClassVar[Family] = NUMBER

    def eval(self, *args: Any) -> Any:
        (x,) = args
        if x.dtype.kind == "c":
            return _direction(x)
        if x.dtype.kind in "iu":
            return np.sign(x)
        return wrapped(np.where(x == 0, x, np.sign(x)), x.dtype)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for shape in (2, 3), (), (0, 2):
            yield cls(), [(shape, "real", {"nonzero": True})]
            # That of complex numbers turns, but its derivative is 0, as in JAX.
            yield cls(), [(shape, "complex", {"rough": True})]
        yield cls(), [((6,), "float", {"special": True})]


def _direction(z: Any) -> Any:
    """z / |z|, 0 of 0, and of infinities the direction of the infinite parts."""
    out = np.empty_like(z)
    infinite = np.isinf(z) & ~np.isnan(z)
    parts = [
        np.where(infinite, np.copysign(np.isinf(x), x), x) for x in (z.real, z.imag)
    ]
    out.real, out.imag = parts
    # A power of 2, by which the modulus neither overflows nor loses digits.
    size, info = np.maximum(abs(out.real), abs(out.imag)), np.finfo(out.dtype)
    factor = np.where(size > info.max / 4, 0.25, 1.0)
    factor = np.where(size < info.tiny / info.eps, 2.0**60, factor)
    out.real, out.imag = out.real * factor, out.imag * factor
    modulus = np.where(out == 0, 1, np.absolute(out))
    out.real, out.imag = out.real / modulus, out.imag / modulus
    return out


class Extremum(Elementwise):
    """The larger or smaller of two; NaN wins. Equal operands share the tangent."""

    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = ANY

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        x, y = primals if i == 0 else reversed(primals)
        if STABLE_DERIVATIVES.applies() and typeof(out).dtype.kind != "c":
            pair = (x, y) if self.name == "max" else (y, x)
            larger, tied = gt(*pair), eq(*pair)
            one, zero = full_like(out, 1), full_like(out, 0)
            share = select(tied, full_like(out, 0.5), zero)
            return mul(t, select(larger, one, share))
        chosen = select(eq(x, out), full_like(out, 1), full_like(out, 0))
        share = select(eq(y, out), full_like(out, 2), full_like(out, 1))
        return mul(t, div(chosen, share))


class Max(Extremum):
    """The larger of two; complex numbers by real part, then imaginary part."""

    name: ClassVar[str] = "max"
    method: ClassVar[str] = "max"
    makes_nan: ClassVar[bool] = False
    ufunc: ClassVar[Any] = np.maximum


class Min(Extremum):
    """The smaller of two; complex numbers by real part, then imaginary part."""

    name: ClassVar[str] = "min"
    method: ClassVar[str] = "min"
    makes_nan: ClassVar[bool] = False
    ufunc: ClassVar[Any] = np.minimum


def replace_zero(x: Any) -> Any:
    """x, with 1 for 0."""
    return select(eq(x, const(x, 0)), full_like(x, 1), x)


abs_: Abs = Abs()
sign: Sign = Sign()
max_: Max = Max()
min_: Min = Min()
