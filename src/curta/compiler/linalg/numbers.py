"""Functions of real and complex numbers, as scalar expressions, by their names."""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.loops import complexes
from curta.compiler.loops.build import Scalar, ScalarBuilder
from curta.compiler.loops.complexes import ComplexExpr, parts


def conj(b: ScalarBuilder, x: Scalar) -> Scalar:
    return ComplexExpr(x.re, b.neg(x.im), x.dtype) if len(parts(x)) == 2 else x


def _alike(b: ScalarBuilder, *xs: Scalar) -> list[Scalar]:
    """Numbers, all complex if one is."""
    most = max(xs, key=lambda x: len(parts(x)))
    return [b.convert(x, most.dtype) for x in xs]


def _each(name: str) -> Callable[..., Scalar]:
    return lambda b, *xs: getattr(b, name)(*_alike(b, *xs))


def _compared(direction: str) -> Callable[..., Scalar]:
    return lambda b, x, y: b.compare(direction, *_alike(b, x, y))


def _mul(b: ScalarBuilder, x: Scalar, y: Scalar) -> Scalar:
    if len(parts(x)) == len(parts(y)):
        return b.mul(x, y)
    return complexes.scale(b, *((x, y) if len(parts(x)) == 2 else (y, x)))


def _div(b: ScalarBuilder, x: Scalar, y: Scalar) -> Scalar:
    if len(parts(x)) == 2 and len(parts(y)) == 1:
        return ComplexExpr(b.div(x.re, y), b.div(x.im, y), x.dtype)
    return b.div(*_alike(b, x, y))


FUNCTIONS: dict[str, Callable[..., Scalar]] = {
    **{name: _each(name) for name in ("add", "sub", "neg", "abs", "sqrt", "max")},
    **{name: _compared(name) for name in ("lt", "gt", "eq", "ne")},
    **{name: _each(f"{name}_") for name in ("and", "not")},
    **{name: _each(name) for name in ("copysign", "real", "imag")},
    "mul": _mul,
    "div": _div,
    "select": lambda b, condition, x, y: b.select(condition, *_alike(b, x, y)),
    "conj": conj,
}
"""Functions of numbers by the names that algorithms have for them."""
