"""Integer polynomials over variables and quotients, remainders, maxima, minima.

A `Poly` is a sum of terms with integer coefficients, a `Term` a product of powers of
factors, a `Factor` a variable or an operation on polynomials. All are immutable, and
compared and ordered by their `key`: first how large they are as expressions, then their
parts, so that the first term of a polynomial is its largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from curta.core.dim import max_dim, min_dim

FLOORDIV: Final = "floordiv"
MOD: Final = "mod"
MAX: Final = "max"
MIN: Final = "min"

OPERATIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    FLOORDIV: lambda a, b: a // b,
    MOD: lambda a, b: a % b,
    MAX: max_dim,
    MIN: min_dim,
}


class UnknownVariable(Exception):
    """A variable without a value; `name` says which."""

    def __init__(self, name: str):
        super().__init__(name)
        self.name = name


class Keyed:
    """Compared, ordered and hashed by `key`."""

    __slots__ = ("_hash", "key")
    key: tuple[Any, ...]
    _hash: int

    def _set_key(self, *key: Any) -> None:
        self.key = key
        self._hash = hash(key)

    @property
    def size(self) -> int:
        """How large the expression is; for ordering only."""
        result: int = self.key[0]
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Any) -> bool:
        return bool(self.key < other.key)

    def __repr__(self) -> str:
        return str(self)


class Factor(Keyed):
    """A variable, or an operation on polynomials."""

    __slots__ = ("name", "operands")

    def __init__(self, name: str, operands: Sequence[Poly] = ()):
        self.name: str = name
        self.operands: tuple[Poly, ...] = tuple(operands)
        size = 1 + sum(p.size for p in operands)
        self._set_key(size, name, *[p.key for p in operands])

    @property
    def variable(self) -> str | None:
        """The name, of a variable."""
        return None if self.operands else self.name

    def variables(self) -> set[str]:
        """The names of the variables within."""
        if not self.operands:
            return {self.name}
        return set().union(*[p.variables() for p in self.operands])

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value, given those of the variables; raises UnknownVariable."""
        if self.operands:
            operands = [p.evaluate(values) for p in self.operands]
            return OPERATIONS[self.name](*operands)
        if self.name not in values:
            raise UnknownVariable(self.name)
        return values[self.name]

    def __str__(self) -> str:
        if not self.operands:
            return self.name
        return f"{self.name}({', '.join(map(str, self.operands))})"


class Term(Keyed):
    """A product of powers of factors, the largest factor first; 1 without any."""

    __slots__ = ("factors",)

    def __init__(self, factors: Iterable[tuple[Factor, int]]):
        self.factors: tuple[tuple[Factor, int], ...] = tuple(
            sorted(factors, reverse=True)
        )
        size = sum(1 + power * f.size for f, power in self.factors)
        self._set_key(size, tuple((f.key, power) for f, power in self.factors))

    @property
    def single(self) -> Factor | None:
        """The only factor; None if there are several."""
        if len(self.factors) != 1 or self.factors[0][1] != 1:
            return None
        return self.factors[0][0]

    @property
    def variable(self) -> str | None:
        """The variable, where the term is one."""
        return self.single.variable if self.single else None

    def times(self, other: Term, sign: int = 1) -> Term | None:
        """The product, or the quotient for `sign=-1`; None if that is no term."""
        powers = dict(self.factors)
        for f, power in other.factors:
            powers[f] = powers.get(f, 0) + sign * power
        if any(power < 0 for power in powers.values()):
            return None
        return Term((f, power) for f, power in powers.items() if power)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value, given those of the variables; raises UnknownVariable."""
        return math.prod(f.evaluate(values) ** power for f, power in self.factors)

    def __str__(self) -> str:
        shown = [
            f"{f}^{power}" if power != 1 else str(f)
            for f, power in reversed(self.factors)
        ]
        return "*".join(shown)


ONE: Final = Term(())


class Poly(Keyed):
    """A sum of terms with coefficients other than 0, the largest term first."""

    __slots__ = ("terms",)

    def __init__(self, coefficients: Mapping[Term, int]):
        nonzero = [(t, k) for t, k in coefficients.items() if k]
        self.terms: tuple[tuple[Term, int], ...] = tuple(sorted(nonzero, reverse=True))
        size = sum(1 + abs(k) * t.size for t, k in self.terms)
        self._set_key(size, tuple((t.key, k) for t, k in self.terms))

    @property
    def value(self) -> int | None:
        """The number, of a constant."""
        if not self.terms:
            return 0
        term, k = self.terms[0]
        return None if term.factors else k

    @property
    def leading(self) -> tuple[Term, int]:
        """The largest term with its coefficient."""
        return self.terms[0]

    @property
    def single(self) -> tuple[Term, int, int] | None:
        """`(t, k, n)` if the polynomial is k·t + n."""
        if len(self.terms) > 2 or (len(self.terms) == 2 and self.terms[1][0].factors):
            return None
        term, k = self.terms[0]
        return term, k, self.coefficient(ONE)

    def coefficient(self, term: Term) -> int:
        """The coefficient of a term."""
        return next((k for t, k in self.terms if t == term), 0)

    def variables(self) -> set[str]:
        """The names of the variables within."""
        factors = (f for t, _ in self.terms for f, _ in t.factors)
        return set().union(*[f.variables() for f in factors])

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value, given those of the variables; raises UnknownVariable."""
        return sum(k * t.evaluate(values) for t, k in self.terms)

    def __str__(self) -> str:
        shown = " ".join(_signed(t, k) for t, k in self.terms)
        return shown.removeprefix("+ ") or "0"


def _signed(term: Term, k: int) -> str:
    sign = "+" if k > 0 else "-"
    if not term.factors:
        return f"{sign} {abs(k)}"
    return f"{sign} {term}" if abs(k) == 1 else f"{sign} {abs(k)}*{term}"


def constant(n: int) -> Poly:
    """The polynomial `n`."""
    return Poly({ONE: n})


def of_factor(factor: Factor) -> Poly:
    """The polynomial that is one factor."""
    return Poly({Term(((factor, 1),)): 1})


def combine(p: Poly, i: int, q: Poly, j: int) -> Poly:
    """i·p + j·q."""
    result = {t: i * k for t, k in p.terms}
    for t, k in q.terms:
        result[t] = result.get(t, 0) + j * k
    return Poly(result)


def product(p: Poly, q: Poly) -> Poly:
    """p·q."""
    result: dict[Term, int] = {}
    for s, i in p.terms:
        for t, j in q.terms:
            term = s.times(t)
            assert term is not None
            result[term] = result.get(term, 0) + i * j
    return Poly(result)


MOST_POWER = 64
"""The largest exponent: a size of 2 to it is beyond every array's."""
_MOST_TERMS = 10_000


def power(p: Poly, n: int) -> Poly:
    """p to the n-th; OverflowError, at once, for what no size can be."""
    if n > MOST_POWER:
        raise OverflowError(f"exponents are at most {MOST_POWER}, not {n}")
    count = len(p.terms)
    if count and math.comb(n + count - 1, n) > _MOST_TERMS:
        raise OverflowError(f"the power {n} of a sum of {count} terms is too long")
    result = constant(1)
    for _ in range(n):
        result = product(result, p)
    return result


def divide(p: Poly, q: Poly) -> tuple[Poly, Poly] | None:
    """Quotient and remainder by long division; None where they are no polynomials.

    The remainder is 0 unless `q` is a constant.
    """
    if q.value is not None:
        return _divide_by_number(p, q.value)
    quotient = constant(0)
    rest = p
    while rest.value is None:
        (s, i), (t, j) = rest.leading, q.leading
        term = s.times(t, -1)
        if term is None or i % j:
            return None
        step = Poly({term: i // j})
        quotient = combine(quotient, 1, step, 1)
        rest = combine(rest, 1, product(step, q), -1)
    return (quotient, rest) if rest.value == 0 else None


def _divide_by_number(p: Poly, n: int) -> tuple[Poly, Poly] | None:
    if n == 0:
        raise ZeroDivisionError(f"division of the symbolic dimension '{p}' by 0")
    if any(k % n for t, k in p.terms if t.factors):
        return None
    quotient = Poly({t: k // n for t, k in p.terms})
    return quotient, constant(p.coefficient(ONE) % n)
