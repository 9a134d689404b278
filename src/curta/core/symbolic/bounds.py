"""Bounds of polynomials, from what is known of their terms.

The method is elimination. To bound p = k·t + ..., with t the leading term, take a fact
c = l·t + ... >= 0 and form the combination i·p + j·c, j > 0, in which t does not occur.
Its bounds are bounds of i·p on one side (on both if c == 0). It has smaller terms only,
so that this ends. What is found is right but not always the best.

Facts come from the user, and from the meaning of terms: variables are at least 1,
`mod(a, b)` is less than b, `a == b·floordiv(a, b) + mod(a, b)`, and so on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from curta.core.symbolic.terms import (
    FLOORDIV,
    MAX,
    MIN,
    MOD,
    ONE,
    Factor,
    Poly,
    Term,
    combine,
    constant,
    of_factor,
    product,
)
from curta.errors import InconclusiveDimensionOperation

Bound = int | float  # float only for infinities
Interval = tuple[Bound, Bound]
Enough = Callable[[Bound, Bound], bool]
EVERYTHING: Interval = (-math.inf, math.inf)


def best(lo: Bound, hi: Bound) -> bool:
    """No bounds are good enough to stop."""
    return False


def sign_known(lo: Bound, hi: Bound) -> bool:
    """Enough to decide whether a value is at least 0."""
    return lo >= 0 or hi < 0


def order_known(lo: Bound, hi: Bound) -> bool:
    """Enough to choose the larger of two."""
    return lo >= 0 or hi <= 0


class Fact(NamedTuple):
    """`poly >= 0`, or `poly == 0` if `equal`."""

    poly: Poly
    equal: bool


class Elimination(NamedTuple):
    """A fact of which `scale` times, plus `factor` times k·t, is without t."""

    fact: Fact
    scale: int
    factor: int


def _divided(bound: Bound, n: int, up: bool) -> Bound:
    """bound / n, rounded to an integer."""
    if math.isinf(bound):
        return bound if n > 0 else -bound
    return -(-bound // n) if up else bound // n


class Facts:
    """What is known in a scope, and the bounds that follow from it."""

    def __init__(self, normal: Callable[[Poly], Poly]):
        self._normal = normal
        self._intervals: dict[Term, Interval] = {}
        self._relations: dict[Term, dict[Fact, None]] = {}
        self._explored: set[Term] = set()

    def copy(self) -> Facts:
        """The same facts, to add others to."""
        other = Facts(self._normal)
        other._intervals = dict(self._intervals)
        other._relations = {t: dict(facts) for t, facts in self._relations.items()}
        other._explored = set(self._explored)
        return other

    # ---- adding facts

    def assume(self, fact: Fact, text: str | None = None) -> None:
        """Add a fact, and what follows from it and one other fact."""
        poly, equal = fact
        value = poly.value
        if value is not None:
            if value < 0 or (equal and value > 0):
                raise _unsatisfiable(fact, text)
            return
        self._store(fact, text)
        followers: dict[Fact, None] = {}
        for term, k in poly.terms:
            if term.factors:
                followers.update(self._followers(fact, term, k, text))
        for follower in followers:
            self._store(follower, None)

    def _followers(
        self, fact: Fact, term: Term, k: int, text: str | None
    ) -> Iterator[tuple[Fact, None]]:
        for other, scale, factor in [*self._eliminations(term, k, everywhere=True)]:
            if factor < 0 and not fact.equal:
                continue
            equal = fact.equal and other.equal
            combined = combine(fact.poly, factor, other.poly, scale)
            # As it is, too: an equality may replace the very term that is bounded.
            for poly in (self._normal(combined), combined):
                if poly.value is None:
                    yield Fact(poly, equal), None
                elif poly.value < 0 or (equal and poly.value):
                    raise _unsatisfiable(fact, text)

    def _store(self, fact: Fact, text: str | None) -> None:
        poly, equal = fact
        single = poly.single
        if single is None:
            self._relations.setdefault(poly.leading[0], {})[fact] = None
            return
        term, k, n = single
        lo, hi = self._intervals.get(term, EVERYTHING)
        if equal and n % k:
            raise _unsatisfiable(fact, text)
        if equal or k > 0:
            lo = max(lo, _divided(-n, k, up=True))
        if equal or k < 0:
            hi = min(hi, _divided(-n, k, up=False))
        if lo > hi:
            raise _unsatisfiable(fact, text)
        self._intervals[term] = lo, hi

    def _eliminations(
        self, term: Term, k: int, everywhere: bool = False
    ) -> Iterator[Elimination]:
        """Facts that eliminate k·term: those it leads, or all, with `everywhere`."""
        lo, hi = self._intervals.get(term, EVERYTHING)
        sign = 1 if k > 0 else -1
        if lo > -math.inf:
            above = Fact(Poly({term: 1, ONE: -int(lo)}), lo == hi)
            yield Elimination(above, abs(k), -sign)
        if hi < math.inf and lo != hi:
            below = Fact(Poly({term: -1, ONE: int(hi)}), False)
            yield Elimination(below, abs(k), sign)
        groups = [self._relations.get(term, {})]
        if everywhere:
            groups = [*self._relations.values()]
        for fact in itertools.chain(*groups):
            of_term = fact.poly.coefficient(term)
            if of_term:
                yield Elimination(fact, abs(k), -of_term * sign)

    # ---- bounds

    def bounds(self, poly: Poly, enough: Enough = best) -> Interval:
        """Numbers between which the polynomial lies."""
        return self._bounds(poly, enough, {})

    def _bounds(
        self, poly: Poly, enough: Enough, known: dict[Poly, Interval]
    ) -> Interval:
        if poly.value is not None:
            return poly.value, poly.value
        if poly in known:
            return known[poly]
        lo, hi = EVERYTHING
        term, k = poly.leading
        for fact, scale, factor in self._eliminations(term, k):
            rest = combine(poly, factor, fact.poly, scale)
            low, high = self._bounds(rest, best, known)
            # factor·poly = rest - scale·fact <= rest
            if factor > 0:
                hi = min(hi, _divided(high, factor, up=False))
                if fact.equal:
                    lo = max(lo, _divided(low, factor, up=True))
            else:
                lo = max(lo, _divided(high, factor, up=True))
                if fact.equal:
                    hi = min(hi, _divided(low, factor, up=False))
            if enough(lo, hi):
                return lo, hi
        lo, hi = self._choice_bounds(poly, (lo, hi), known)
        known[poly] = lo, hi
        return lo, hi

    def _choice_bounds(
        self, poly: Poly, interval: Interval, known: dict[Poly, Interval]
    ) -> Interval:
        """Bounds by cases, where the leading term is a maximum or minimum."""
        term, k = poly.leading
        factor = term.single
        if factor is None or factor.name not in (MAX, MIN) or not factor.operands:
            return interval
        rest = combine(poly, 1, Poly({term: k}), -1)
        cases = [
            self._bounds(combine(rest, 1, operand, k), best, known)
            for operand in factor.operands
        ]
        choose = max if (k > 0) == (factor.name == MAX) else min
        lo = max(interval[0], choose(low for low, _ in cases))
        hi = min(interval[1], choose(high for _, high in cases))
        return lo, hi

    # ---- what terms mean

    def explore(self, poly: Poly) -> None:
        """Add what the meaning of the polynomial's terms implies."""
        for term, _ in poly.terms:
            if term.factors and term not in self._explored:
                self._explored.add(term)
                self._explore_term(term)

    def _explore_term(self, term: Term) -> None:
        factor = term.single
        itself = self._normal(Poly({term: 1}))
        if factor is None:
            self._between(itself, self._product_bounds(term))
        elif factor.variable is not None:
            self._between(itself, (1, math.inf))
        else:
            for operand in factor.operands:
                self.explore(operand)
            _MEANINGS[factor.name](self, itself, *factor.operands)

    def _at_least(self, p: Poly, q: Poly) -> None:
        self.assume(Fact(self._normal(combine(p, 1, q, -1)), False))

    def _between(self, p: Poly, interval: Interval) -> None:
        lo, hi = interval
        if lo > -math.inf:
            self._at_least(p, constant(int(lo)))
        if hi < math.inf:
            self._at_least(constant(int(hi)), p)

    def _product_bounds(self, term: Term) -> Interval:
        intervals = []
        for factor, power in term.factors:
            single = of_factor(factor)
            self.explore(single)
            intervals.append(_power(self.bounds(self._normal(single)), power))
        corners = [_times(*corner) for corner in itertools.product(*intervals)]
        return min(corners), max(corners)

    def _explore_mod(self, itself: Poly, p: Poly, q: Poly) -> None:
        lo, hi = self.bounds(q)
        one = constant(1)
        if lo > 0:
            self._at_least(itself, constant(0))
            self._at_least(combine(q, 1, one, -1), itself)
            self._between(itself, (-math.inf, hi - 1))
        elif hi < 0:
            self._at_least(itself, combine(q, 1, one, 1))
            self._between(itself, (lo + 1, 0))

    def _explore_floordiv(self, itself: Poly, p: Poly, q: Poly) -> None:
        low, high = self.bounds(p)
        lo, hi = self.bounds(q)
        if lo <= 0 <= hi:
            raise InconclusiveDimensionOperation(
                f"Possible division by 0 in division by {q}"
            )
        corners = [_floor(a, b) for a in (low, high) for b in (lo, hi)]
        self._between(itself, (min(corners), max(corners)))
        if lo > 0:
            if low >= 0:
                self._at_least(itself, constant(0))
            rest = self._normal(of_factor(Factor(MOD, (p, q))))
            self.explore(rest)
            whole = combine(product(q, itself), 1, rest, 1)
            self.assume(Fact(self._normal(combine(p, 1, whole, -1)), True))

    def _explore_max(self, itself: Poly, p: Poly, q: Poly) -> None:
        (low, high), (lo, hi) = self.bounds(p), self.bounds(q)
        self._between(itself, (max(low, lo), max(high, hi)))
        self._at_least(itself, p)
        self._at_least(itself, q)

    def _explore_min(self, itself: Poly, p: Poly, q: Poly) -> None:
        (low, high), (lo, hi) = self.bounds(p), self.bounds(q)
        self._between(itself, (min(low, lo), min(high, hi)))
        self._at_least(p, itself)
        self._at_least(q, itself)


_MEANINGS: dict[str, Callable[[Facts, Poly, Poly, Poly], None]] = {
    MOD: Facts._explore_mod,
    FLOORDIV: Facts._explore_floordiv,
    MAX: Facts._explore_max,
    MIN: Facts._explore_min,
}


def _power(interval: Interval, n: int) -> Interval:
    lo, hi = interval
    ends = [lo**n, hi**n]
    if lo < 0 < hi:
        ends.append(0)
    return min(ends), max(ends)


def _times(*bounds: Bound) -> Bound:
    """The product, where 0 times infinity is 0."""
    return 0 if 0 in bounds else math.prod(bounds)


def _floor(a: Bound, b: Bound) -> Bound:
    """a // b in the limit; b is not 0."""
    if math.isinf(a):
        return math.inf if (a > 0) == (b > 0) else -math.inf
    if math.isinf(b):
        return 0 if a == 0 or (a > 0) == (b > 0) else -1
    return a // b


def _unsatisfiable(fact: Fact, text: str | None) -> ValueError:
    relation = "==" if fact.equal else ">="
    shown = text or f"{fact.poly} {relation} 0"
    return ValueError(f"Unsatisfiable constraint: {shown}")
