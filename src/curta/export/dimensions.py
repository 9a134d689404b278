"""Values of dimension variables, from the shapes of actual arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from curta import tree_util
from curta._base.pages import page
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.symbolic.dims import DimExpr
from curta.core.symbolic.scope import SymbolicScope
from curta.core.symbolic.terms import UnknownVariable
from curta.errors import InconclusiveDimensionOperation

_PAGE = page("export", "shapes-that-are-not-known")


class Equation(NamedTuple):
    """A dim of an argument's type, and the size that an actual argument has there."""

    dim: DimExpr
    size: Any
    source: str


class SolutionCondition(NamedTuple):
    """A condition on the solution, and what is wrong where it does not hold."""

    holds: Callable[[], bool]
    message: str


class Solution:
    """Solves equations for dimension variables, one linear in one variable a time."""

    def __init__(self, equations: Sequence[Equation], given: str):
        self.values: dict[str, Any] = {}
        self.checks: list[SolutionCondition] = []
        specified = "Using the following polymorphic shapes specifications"
        self._given = f" {specified}: {given}."
        self._obtained = " Obtained dimension variables: "
        todo = list(equations)
        while todo:
            left = [e for e in todo if not self._settle(e)]
            if len(left) == len(todo):
                raise self._unsolved(left)
            todo = left

    def _settle(self, equation: Equation) -> bool:
        """Use an equation, if at most one variable is unknown in it."""
        dim, size, source = equation
        unknown, rest = [], size
        for term, k in dim.poly.terms:
            try:
                rest = rest - k * term.evaluate(self.values)
            except UnknownVariable:
                unknown.append((term.variable, k))
        if not unknown:
            expected = dim.poly.evaluate(self.values)
            self._check(
                lambda: bool(size == expected),
                f"Found inconsistency between dimension size {source} (= {size}) and"
                f" the specification '{dim}' (= {expected}).",
            )
            return True
        if len(unknown) > 1 or unknown[0][0] is None:
            return False
        name, k = unknown[0]
        self._assign(str(name), divmod(rest, k), equation)
        return True

    def _assign(self, name: str, quotient: tuple[Any, Any], equation: Equation) -> None:
        value, rest = quotient
        self._check(
            lambda: bool(rest == 0),
            f"Division had remainder {rest} when computing the value of '{name}'.",
        )
        self.values[name] = value
        self._obtained += (
            f"'{name}' = {value} from specification '{equation.dim}' for dimension"
            f" {equation.source} (= {equation.size}), "
        )
        self._check(
            lambda: bool(value >= 1),
            f"Expected value >= 1 for dimension variable '{name}'.",
        )

    def _check(self, holds: Callable[[], bool], problem: str) -> None:
        self._add(
            holds,
            "Input shapes do not match the polymorphic shapes specification."
            f" {problem}{self._given}",
        )

    def _add(self, holds: Callable[[], bool], problem: str) -> None:
        end = f". Please see {_PAGE} for more details."
        self.checks.append(SolutionCondition(holds, f"{problem}{self._obtained}{end}"))

    def check_constraints(self, scope: SymbolicScope) -> None:
        """Add what the user said of the variables to the checks."""
        for constraint in scope.constraints:
            try:
                difference = constraint.difference.evaluate(self._with_rules(scope))
            except UnknownVariable as error:
                raise ValueError(
                    f"Encountered dimension variable '{error.name}' that is not"
                    " appearing in the shapes of the function arguments.\nThe following"
                    " dimension variables are appearing in the shapes of the function"
                    f" arguments: {[*self.values]}.\nPlease see {_PAGE}"
                    "#dimension-variables-must-be-solvable-from-the-input-shapes for"
                    " more details."
                ) from None
            equal = constraint.equal
            relation = "equal" if equal else "greater or equal"
            self._add(
                lambda difference=difference, equal=equal: bool(  # type: ignore[misc]
                    difference == 0 if equal else difference >= 0
                ),
                "Input shapes do not match the symbolic shape constraint"
                f" {constraint.text}. Expected '{constraint.difference}' to be"
                f" {relation} to 0, but found {difference}. {self._given}",
            )

    def _with_rules(self, scope: SymbolicScope) -> dict[str, Any]:
        """The values, and those of variables that equalities express by others."""
        values = dict(self.values)
        for constraint in scope.constraints:
            for name in constraint.difference.variables() - values.keys():
                instead = scope.variable(name)
                if name not in instead.variables():
                    values[name] = instead.evaluate(self.values)
        return values

    def verify(self) -> None:
        """Raise ValueError for the first condition that does not surely hold."""
        for check in self.checks:
            try:
                holds = check.holds()
            except InconclusiveDimensionOperation as error:
                raise ValueError(check.message) from error
            if not holds:
                raise ValueError(check.message)

    def _unsolved(self, equations: Sequence[Equation]) -> ValueError:
        unknown = set().union(*[e.dim.poly.variables() for e in equations])
        left = ", ".join(f"'{e.dim}' for dimension size {e.source}" for e in equations)
        return ValueError(
            f"Cannot solve for values of dimension variables"
            f" {unknown - self.values.keys()}. We can only solve linear uni-variate"
            f" constraints.{self._given} Unprocessed specifications: {left}. Please see"
            f" {_PAGE} for"
            " more details."
        )


def solve(
    avals: Sequence[ShapedArray], tree: Any, actual: Sequence[ShapedArray]
) -> Solution:
    """The values of the dimension variables of `avals` for arguments of types `actual`.

    Raises ValueError where they cannot be found; `verify` says whether they are right.
    """
    equations, given, scope = [], [], None
    for i, (aval, result) in enumerate(zip(avals, actual, strict=True)):
        symbolic = [k for k, d in enumerate(aval.shape) if is_symbolic_dim(d)]
        if symbolic:
            given.append(f"{argument_path(tree, i)}.shape = {aval.shape}")
        for k in symbolic:
            dim: Any = aval.shape[k]
            scope = dim.scope
            source = f"{argument_path(tree, i)}.shape[{k}]"
            equations.append(Equation(dim, result.shape[k], source))
    solution = Solution(equations, ",".join(given))
    if scope is not None:
        solution.check_constraints(scope)
    return solution


def argument_path(tree: Any, i: int) -> str:
    """How the user names leaf `i` of `(args, kwargs)`: `args[0]['x']`."""
    leaves = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    paths = tree_util.tree_leaves_with_path(leaves)
    path = next(p for p, leaf in paths if leaf == i)
    return path_text(path)


def path_text(path: Any) -> str:
    """How the user names a path into `(args, kwargs)`."""
    first = "args" if path[0].idx == 0 else "kwargs"
    return first + tree_util.keystr(path[1:])
