"""`SymbolicScope`: what is known of a set of dimension variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from curta.core.source_info import user_frame
from curta.core.symbolic.bounds import (
    Enough,
    Fact,
    Facts,
    Interval,
    best,
    order_known,
)
from curta.core.symbolic.parse import Parser
from curta.core.symbolic.terms import (
    FLOORDIV,
    MAX,
    MIN,
    MOD,
    Factor,
    Poly,
    Term,
    combine,
    constant,
    divide,
    of_factor,
    product,
)
from curta.errors import InconclusiveDimensionOperation


@dataclasses.dataclass(frozen=True)
class Constraint:
    """`difference >= 0`, or `== 0` if `equal`; `text` is how the user wrote it.

    One that is not `given` follows from another.
    """

    text: str
    difference: Poly
    equal: bool
    given: bool = True


class SymbolicScope:
    """Dimension variables that belong together, and the constraints on them.

    Args:
      constraints_str: texts `e1 >= e2`, `e1 <= e2` or `e1 == e2`. The left side of an
        equality is one term, and is replaced by the right side wherever it occurs.

    Raises:
      ValueError: for texts that are no constraints, and for those that cannot hold.

    >>> from curta.export import SymbolicScope, symbolic_shape
    >>> scope = SymbolicScope(["a >= 4", "mod(b, 8) == 0"])
    >>> a, b = symbolic_shape("a, b", scope=scope)
    >>> a >= 3, b % 8
    (True, 0)
    """

    dim_type: ClassVar[Any] = None  # class of its dims; None for `DimExpr`

    def __init__(self, constraints_str: Sequence[str] = ()):
        if isinstance(constraints_str, str):
            raise ValueError(
                "The symbolic constraints should be a sequence of strings."
                f" Got {constraints_str!r}"
            )
        self._location = str(user_frame())
        self._facts = Facts(self.normal)
        self._rules: dict[Term, tuple[int, Poly]] = {}
        self._bounds: dict[tuple[Poly, Enough], Interval] = {}
        self._constraints: list[Constraint] = []
        for text in constraints_str:
            self._add_text(text)
            self._learn()

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints that say something, in the order they were given."""
        return tuple(self._constraints)

    def __str__(self) -> str:
        lines = [f"{id(self)} created at {self._location}"]
        if self._constraints:
            lines[0] += " with constraints:"
            lines += [f"  {c.text}" for c in self._constraints]
        return "\n".join(lines)

    __repr__ = __str__

    # ---- polynomials in normal form

    def variable(self, name: str) -> Poly:
        """A dimension variable."""
        return self.normal(of_factor(Factor(name)))

    def normal(self, poly: Poly) -> Poly:
        """The polynomial with the left sides of equalities replaced."""
        for _ in range(len(self._rules)):
            changed = self._rewritten(poly)
            if changed is None:
                break
            poly = changed
        return poly

    def _rewritten(self, poly: Poly) -> Poly | None:
        for term, k in poly.terms:
            powers = [Term((pair,)) for pair in term.factors]
            for part in dict.fromkeys([term, *powers]):
                unit, after = self._rules.get(part, (0, None))
                rest = term.times(part, -1)
                if after is None or k % unit or rest is None:
                    continue
                instead = product(Poly({rest: k // unit}), after)
                others = combine(poly, 1, Poly({term: k}), -1)
                return combine(others, 1, instead, 1)
        return None

    def apply(self, operation: str, p: Poly, q: Poly) -> Poly:
        """An operation on two polynomials."""
        if operation == MAX or operation == MIN:
            return self._choose(operation, p, q)
        divided = divide(p, q)
        if divided is not None:
            result = divided[0] if operation == FLOORDIV else divided[1]
        else:
            result = of_factor(Factor(operation, (p, q)))
        return self.normal(result)

    def _choose(self, operation: str, p: Poly, q: Poly) -> Poly:
        difference = self.normal(combine(p, 1, q, -1))
        lo, hi = self.bounds(difference, order_known)
        if lo >= 0:
            return p if operation == MAX else q
        if hi <= 0:
            return q if operation == MAX else p
        return self.normal(of_factor(Factor(operation, (p, q))))

    def bounds(self, poly: Poly, enough: Enough = best) -> Interval:
        """Numbers between which a polynomial lies."""
        if poly.value is not None:
            return poly.value, poly.value
        key = poly, enough
        if key not in self._bounds:
            facts = self._facts.copy()
            facts.explore(poly)
            self._bounds[key] = facts.bounds(poly, enough)
        return self._bounds[key]

    # ---- constraints

    def _add_text(self, text: str) -> None:
        if not isinstance(text, str):
            raise ValueError(f"SymbolicScope constraint must be a string: got {text!r}")
        sign = next((s for s in ("==", ">=", "<=") if s in text), None)
        if sign is None:
            raise ValueError(
                "Constraint parsing error: must contain one of '==' or '>=' or '<='"
                f", got {text!r}"
            )
        left, right = [
            Parser(side, repr(side), self, None).dim()
            for side in text.split(sign, maxsplit=1)
        ]
        if sign == "<=":
            left, right = right, left
        self._add(text, left, right, sign == "==")

    def _add(
        self, text: str, left: Poly, right: Poly, equal: bool, given: bool = True
    ) -> None:
        difference = self.normal(combine(left, 1, right, -1))
        value = difference.value
        if value is not None:
            if value < 0 or (equal and value > 0):
                raise ValueError(f"Unsatisfiable explicit constraint: {text}")
            return
        self._constraints.append(Constraint(text, difference, equal, given))
        if equal:
            self._add_rule(left, right)

    def _add_rule(self, left: Poly, right: Poly) -> None:
        if len(left.terms) != 1 or left.value is not None:
            raise ValueError(
                f"Invalid equality constraint: {left} == {right}. The left-hand-side"
                " must be of the form `term * coefficient`."
            )
        term, k = left.leading
        if term in self._rules:
            raise NotImplementedError(
                f"Found multiple equality constraints with the same left-hand-side:"
                f" {term}"
            )
        self._rules[term] = k, right
        factor = term.single
        if factor and factor.name == MOD and k == 1 and right.value == 0:
            p, q = factor.operands
            if q.value is not None:
                whole = product(constant(q.value), of_factor(Factor(FLOORDIV, (p, q))))
                self._add(f"{whole} == {p}", whole, p, True, given=False)

    def _learn(self) -> None:
        """Take up all constraints anew, in normal form by the rules known now."""
        self._bounds.clear()
        self._facts = Facts(self.normal)
        # Twice, since a constraint may say more with what others imply.
        for c in (*self._constraints, *self._constraints):
            self._facts.explore(c.difference)
            self._facts.assume(Fact(c.difference, c.equal), c.text)
        self._bounds.clear()


def inconclusive(scope: SymbolicScope, comparison: str) -> Exception:
    """The error for a comparison whose outcome is not known."""
    known = f"\nUsing symbolic scope {scope}" if scope.constraints else ""
    return InconclusiveDimensionOperation(
        f"Symbolic dimension comparison {comparison} is inconclusive.{known}"
    )
