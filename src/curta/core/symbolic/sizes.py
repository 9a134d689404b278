"""`Size`: a dim of a program that is compiled once for many sizes.

A program is traced and compiled with the sizes of its first call at hand. Where code
asks something of a size that has one answer for all sizes, it gets that; where it has
not, the answer is that of the first call, and a *guard* is kept: the program is right
for all sizes that give the same answers. Code that needs a number (`range(n)`, say)
gets it, which is a guard as well, that the size is this one. So whatever was not
written for unknown sizes is compiled for one, and nothing is wrong for another.

Guards on shapes come from TorchDynamo (Ansel et al., PyTorch 2, ASPLOS 2024).
"""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Mapping
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.core.source_info import user_frame
from curta.core.symbolic.bounds import EVERYTHING, Bound, Enough, Interval, best
from curta.core.symbolic.dims import DimExpr
from curta.core.symbolic.scope import SymbolicScope
from curta.core.symbolic.terms import (
    MAX,
    MIN,
    MOD,
    Factor,
    Poly,
    Term,
    combine,
    constant,
)

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
TYPICAL = 64  # the least size for which code is made fast
FACTOR = 8  # code for one size is not used for more than so many times that
LEAST = 2  # the least size of a dim that is open: 0 and 1 are compiled on their own


@dataclass(frozen=True)
class Guard:
    """What must hold of sizes: how `difference` compares with 0."""

    difference: Poly
    sign: str

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the constraint holds for these sizes."""
        return bool(_COMPARED[self.sign](self.difference.evaluate(sizes), 0))

    def __str__(self) -> str:
        return f"{self.difference} {self.sign} 0"


_COMPARED = {
    ">=": operator.ge,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


class SizeScope(SymbolicScope):
    """The named sizes of a program, those of its first call, and guards on others."""

    def __init__(self, sizes: Mapping[str, int]):
        super().__init__()
        self.sizes: dict[str, int] = dict(sizes)
        self.typical = {name: max(n, TYPICAL) for name, n in sizes.items()}
        self.guards: dict[Guard, str] = {}
        for name, n in self.typical.items():
            largest = Guard(
                combine(constant(n * FACTOR), 1, self.variable(name), -1), ">="
            )
            self.guards[largest] = "what the code was made fast for"
        self.needed: dict[str, str] = {}
        self._bounds_of: dict[Poly, Interval] = {}

    def size(self, name: str) -> Any:
        """The size of a name, as a dim."""
        return Size(self.variable(name), self)

    def bounds(self, poly: Poly, enough: Enough = best) -> Interval:
        """Numbers between which a polynomial lies: by intervals alone.

        They are asked for often, and a guard does where they say too little.
        """
        if poly not in self._bounds_of:
            self._bounds_of[poly] = interval(poly)
        return self._bounds_of[poly]

    def at_first(self, poly: Poly) -> int:
        """The value in the first call."""
        return int(poly.evaluate(self.sizes))

    def decide(self, difference: Poly, signs: tuple[str, str]) -> bool:
        """Whether the first of two opposite signs holds: at first, and by a guard."""
        result = Guard(difference, signs[0]).holds(self.sizes)
        made = Guard(difference, signs[0] if result else signs[1])
        if made not in self.guards:
            self.guards[made] = str(user_frame())
        return result

    def ask_for_number(self, poly: Poly) -> None:
        """Note that code needs the number, for which no other size will do."""
        for name in poly.variables():
            self.needed.setdefault(name, str(user_frame()))

    def refusal(self, sizes: Mapping[str, int]) -> tuple[Guard, str] | None:
        """A guard that other sizes violate, and the line it comes from."""
        return next((x for x in self.guards.items() if not x[0].holds(sizes)), None)


class Size(DimExpr):
    """A dim with a value in the first call; see the module."""

    __slots__ = ()
    scope: SizeScope

    @property
    def typical(self) -> int:
        return int(self.poly.evaluate(self.scope.typical))

    def is_multiple(self, of: Any) -> bool:
        rest = self % of
        return not isinstance(rest, Size) and rest == 0

    def __index__(self) -> int:
        value = self.scope.at_first(self.poly)
        self.scope.ask_for_number(self.poly)
        self.scope.decide(combine(self.poly, 1, constant(value), -1), ("==", "!="))
        return value

    __int__ = __index__

    def __bool__(self) -> bool:
        return self != 0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DimExpr) and other.scope is not self.scope:
            return False
        p = self._poly_of(other)
        if p is None:
            return int(self) == other if isinstance(other, float) else NotImplemented
        difference = self.scope.normal(combine(self.poly, 1, p, -1))
        lo, hi = self.scope.bounds(difference)
        if lo > 0 or hi < 0 or difference.value == 0:
            return difference.value == 0
        return self.scope.decide(difference, ("==", "!="))

    def __ne__(self, other: object) -> bool:
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self) -> int:
        # Sets and dicts ask for equality only where hashes are equal: no guard would
        # say what users' code found there.
        frame = sys._getframe(1)
        while frame.f_code.co_name == "__hash__" and frame.f_back is not None:
            frame = frame.f_back  # a dataclass's, in whose field the size is
        if frame.f_code.co_filename.startswith(_OURS):
            return super().__hash__()
        return hash(int(self))

    def _at_least(self, a: Any, b: Any, sign: str, other: Any) -> bool:
        p, q = self._poly_of(a), self._poly_of(b)
        if p is None or q is None:
            return super()._at_least(a, b, sign, other)
        difference = self.scope.normal(combine(p, 1, q, -1))
        lo, hi = self.scope.bounds(difference)
        if lo >= 0 or hi < 0:
            return lo >= 0
        return self.scope.decide(difference, (">=", "<"))


SizeScope.dim_type = Size


# ---- intervals


def interval(poly: Poly) -> Interval:
    """Numbers between which a polynomial in sizes lies."""
    low: Bound = 0
    high: Bound = 0
    for term, k in poly.terms:
        least, most = _of_term(term)
        a, b = _times(k, least), _times(k, most)
        low, high = low + min(a, b), high + max(a, b)
    return low, high


def _of_term(term: Term) -> Interval:
    low: Bound = 1
    high: Bound = 1
    for factor, power in term.factors:
        for _ in range(power):
            ends = _of_factor(factor)
            products = [_times(a, b) for a in (low, high) for b in ends]
            low, high = min(products), max(products)
    return low, high


def _of_factor(factor: Factor) -> Interval:
    if factor.variable is not None:
        return LEAST, math.inf
    (a, b), (c, d) = map(interval, factor.operands)
    if factor.name == MAX:
        return max(a, c), max(b, d)
    if factor.name == MIN:
        return min(a, c), min(b, d)
    if c <= 0:
        return EVERYTHING
    if factor.name == MOD:
        return (a, b) if 0 <= a and b < c else (0, d - 1)
    quotients = [_quotient(x, y) for x in (a, b) for y in (c, d)]
    return min(quotients), max(quotients)


def _times(a: Bound, b: Bound) -> Bound:
    return a * b if a and b else 0


def _quotient(a: Bound, b: Bound) -> Bound:
    """`a // b` for b > 0, where either may be infinite."""
    if math.isinf(a):
        return a
    return (-1 if a < 0 else 0) if math.isinf(b) else a // b
