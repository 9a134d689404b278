"""The text of shapes and dims: `"a, 2*b + 1, mod(c, 4), _, ..."`.

shape  = "(" shape ")" | [dim {"," dim}] [","] ["..."]
dim    = "_" | sum
sum    = ["+" | "-"] term {("+" | "-") term}
term   = factor ["^" number] {"*" factor ["^" number]}
factor = number | "-" number | name | operation "(" sum "," sum ")"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

from curta.core.symbolic.terms import (
    OPERATIONS,
    Poly,
    combine,
    constant,
    power,
    product,
)


class Algebra(Protocol):
    """What makes polynomials of variables and operations, in normal form."""

    def variable(self, name: str) -> Poly: ...

    def apply(self, operation: str, p: Poly, q: Poly) -> Poly: ...

    def normal(self, poly: Poly) -> Poly: ...


class Given(NamedTuple):
    """A dim taken from the shape that placeholders stand for."""

    dim: Any


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)|(?P<name>[^\W\d]\w*)|(?P<mark>\.\.\.|[-+*^(),])|(?P<end>$))"
)
_ENDS = {"", ")"}


class Parser:
    """Reads one shape, or one dim."""

    def __init__(
        self, text: str, shown: str, algebra: Algebra, like: Sequence[Any] | None
    ):
        self.text = text
        self.shown = shown
        self.algebra = algebra
        self.like = like
        self.dims: list[Poly | Given] = []
        self.start: int = 0
        self.after: int = 0
        self.kind: str = ""
        self.token: str = ""
        self._next()

    # ---- tokens

    def _next(self) -> None:
        result = _TOKEN.match(self.text, self.after)
        self.start = self.after
        if result is None:
            self._fail(f"unexpected {self.text[self.after :].split()[0]!r}")
        self.after = result.end()
        self.kind = result.lastgroup or ""
        self.token = result[self.kind]

    def _fail(self, detail: str) -> NoReturn:
        raise ValueError(
            f"syntax error in symbolic shape {self.shown} in dimension"
            f" {len(self.dims)}: {detail}. Parsed '{self.text[: self.start]}',"
            f" remaining '{self.text[self.start :].lstrip()}'."
        )

    def _expect(self, token: str) -> None:
        if self.token != token:
            result = repr(self.token) if self.token else "the end"
            self._fail(f"expecting {token!r} but found {result}")
        self._next()

    def _number(self) -> int:
        if self.kind != "number":
            self._fail(f"expecting integer, found {self.token!r}")
        number = int(self.token)
        self._next()
        return number

    # ---- shapes

    def shape(self) -> list[Poly | Given]:
        """The dims of the whole text."""
        self._dims()
        if self.token:
            self._fail(f"expecting the end but found {self.token!r}")
        return self.dims

    def dim(self) -> Poly:
        """The whole text as one dim."""
        result = self._sum()
        if self.token:
            self._fail(f"expecting the end but found {self.token!r}")
        return result

    def _dims(self) -> None:
        if self.token == "(":
            self._next()
            self._dims()
            self._expect(")")
            return
        while self.token not in _ENDS:
            if self.token == "...":
                for dim in self._placeholder(0)[len(self.dims) :]:
                    self._add(Given(dim))
                self._next()
                return
            if self.token == "_":
                dim = self._placeholder(1)[len(self.dims)]
                self._next()
                self._add(Given(dim))
            else:
                self._add(self._sum())
            if self.token in _ENDS:
                return
            self._expect(",")

    def _placeholder(self, count: int) -> Sequence[Any]:
        """The shape from which a placeholder for at least `count` dims is filled."""
        if self.like is None:
            self._fail("spec contains ... but no 'like' shape was given")
        if len(self.like) < len(self.dims) + count:
            self._fail(
                f"cannot resolve placeholder '{self.token}' because we parsed"
                f" {len(self.dims)} already and 'like' shape has only"
                f" {len(self.like)} dimensions"
            )
        return self.like

    def _add(self, dim: Poly | Given) -> None:
        if isinstance(dim, Given):
            if dim.dim is None:
                self._fail(
                    "unexpected placeholder for unknown dimension; like={self.like}"
                )
        elif dim.value is not None and self.like is not None:
            number = len(self.dims)
            known = self.like[number] if number < len(self.like) else None
            if dim.value != known:
                self._fail(
                    f"different size {dim.value} for known dimension;"
                    f" like={tuple(self.like)}"
                )
        self.dims.append(dim)

    # ---- dims

    def _sum(self) -> Poly:
        total = constant(0)
        sign = -1 if self.token == "-" else 1
        if self.token in ("+", "-"):
            self._next()
        while True:
            total = combine(total, 1, self._term(), sign)
            if self.token not in ("+", "-"):
                return self.algebra.normal(total)
            sign = -1 if self.token == "-" else 1
            self._next()

    def _term(self) -> Poly:
        result = self._power()
        while self.token == "*":
            self._next()
            result = product(result, self._power())
        return self.algebra.normal(result)

    def _power(self) -> Poly:
        base = self._factor()
        if self.token != "^":
            return base
        self._next()
        exponent = self._number()
        try:
            return power(base, exponent)
        except OverflowError as error:
            self._fail(str(error))

    def _factor(self) -> Poly:
        if self.kind == "number":
            return constant(self._number())
        if self.token == "-":
            self._next()
            return constant(-self._number())
        if self.kind != "name" or self.token == "_":
            result = repr(self.token) if self.token else "the end"
            self._fail(f"expecting a name or a number but found {result}")
        name = self.token
        self._next()
        if name not in OPERATIONS:
            return self.algebra.variable(name)
        self._expect("(")
        p = self._sum()
        self._expect(",")
        q = self._sum()
        self._expect(")")
        return self.algebra.apply(name, p, q)
