"""Polynomials as one op, whose derivatives are polynomials too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.primitives.base import (
    NUMBER,
    Elementwise,
    Family,
    broadcast_to,
    const,
    full_like,
    wrapped,
)
from curta.primitives.elementwise.arithmetic import mul
from curta.primitives.structure import add_any, unbroadcast, zero_like_output


@dataclass(frozen=True)
class Polynomial(Elementwise):
    """The operands are x and the coefficients, that of the lowest power first.

    Horner's rule is written out, whatever `unroll` says: it is what the caller gave,
    or None.
    """

    name: ClassVar[str] = "polynomial"
    accepts: ClassVar[Family] = NUMBER
    arity: ClassVar[int | None] = None  # type: ignore[assignment]
    unroll: int | None = None

    def eval(self, *args: Any) -> Any:
        x, *rest, value = args
        shape = np.broadcast_shapes(*(a.shape for a in args))
        for c in reversed(rest):
            value = np.add(np.multiply(value, x), c)
        value = np.broadcast_to(np.asarray(value), shape)
        return wrapped(value.astype(x.dtype, copy=False), x.dtype)

    def scalar(self, b: Any, *xs: Any) -> Any:
        x, *rest, value = xs
        for c in reversed(rest):
            value = b.add(b.mul(value, x), c)
        return value

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (x, *coefficients), (dx, *changes) = primals, tangents
        out = self(*primals)
        total = []
        if type(dx) is not Zero:
            slopes = [mul(const(c, k), c) for k, c in enumerate(coefficients)][1:]
            total.append(mul(dx, self.of(x, slopes)))
        if any(type(c) is not Zero for c in changes):
            pairs = zip(coefficients, changes, strict=True)
            terms = [full_like(c, 0) if type(d) is Zero else d for c, d in pairs]
            total.append(self.of(x, terms))
        shape = typeof(out).shape
        first, *rest = [broadcast_to(t, shape) for t in total]
        for t in rest:
            first = add_any(first, t)
        return out, first if total else zero_like_output(out)

    def of(self, x: Any, coefficients: Sequence[Any]) -> Any:
        """The polynomial of other coefficients; one alone is a constant."""
        if len(coefficients) == 1:
            return coefficients[0]
        return self(x, *coefficients)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        x, *coefficients = args
        if is_linear(x):
            self._missing("transpose")
        result, term = [], cotangent
        for k, c in enumerate(coefficients):
            term = mul(term, x) if k else term
            result.append(unbroadcast(term, c.aval) if is_linear(c) else None)
        return [None, *result]

    def params(self) -> dict[str, Any]:
        return {} if self.unroll is None else {"unroll": self.unroll}

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for shape in (2, 3), (), (0, 2):
            yield cls(), [(shape, "number")] * 3
        yield cls(2), [((2, 3), "number"), ((), "number"), ((2, 1), "number")]
        yield cls(), [((3,), "number"), *[((), "number")] * 10]
        # Linear in one coefficient, since the others are zero.
        zero = ((3,), "number", {"low": 0, "high": 0})
        yield cls(), [((3,), "number"), zero, zero, ((3,), "number")]


polynomial: Polynomial = Polynomial()
