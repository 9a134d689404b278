"""How the functions of a distribution take their arguments, in one place.

A `Law` promotes the arguments to one float dtype, refuses complex numbers, computes in
float64 where single precision would lose digits, and makes the result NaN, and so its
derivatives, where a parameter is not legal: as SciPy does, whose `_argcheck` says what
is legal. A distribution then only gives formulas of the standardized number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax
from curta.core.avals import is_python_scalar
from curta.numpy.promotion import inexact_operands
from curta.scipy.special.arguments import in_double

Formula = Callable[..., Any]
Refusal = Callable[[str, Any], Any]


def any_parameters(*shape: Any) -> Any:
    """The condition that always holds."""
    return True


def no_order(comparison: Callable[[Any, Any], Any]) -> Refusal:
    """A refusal of complex numbers, with the error of a comparison."""
    return lambda name, x: comparison(x, x)


_ORDERED = no_order(lax.lt)


class Law:
    """A distribution: its name, and which shape parameters are legal.

    Args:
      name: the name of the module, with which errors begin.
      legal: a condition of the shape parameters, which NaN does not fulfil.
      wide: whether formulas are computed in float64 whatever the dtype.
      refuses: raises an error for complex numbers x, given the function's name and x;
        None if formulas take them as they are. Those of quantiles always do.
      strong: whether results of Python numbers are not weakly typed.
    """

    def __init__(
        self,
        name: str,
        legal: Callable[..., Any] = any_parameters,
        wide: bool = False,
        refuses: Refusal | None = _ORDERED,
        strong: bool = False,
    ):
        self.name, self.legal, self.wide = name, legal, wide
        self.refuses, self.strong = refuses, strong

    def log_density(self, name: str, formula: Formula, x: Any, *given: Any) -> Any:
        """formula(z, *shape) - log(scale) with z = (x - loc) / scale.

        `given` are the shape parameters, the location and the scale.
        """
        return self._placed(name, lambda f, s: f - lax.log(s), formula, x, given)

    def density(self, name: str, formula: Formula, x: Any, *given: Any) -> Any:
        """formula(z, *shape) / scale with z = (x - loc) / scale."""
        return self._placed(name, lambda f, s: f / s, formula, x, given)

    def probability(self, name: str, formula: Formula, x: Any, *given: Any) -> Any:
        """formula(z, *shape) with z = (x - loc) / scale."""
        return self._placed(name, lambda f, s: f, formula, x, given)

    def _placed(
        self,
        name: str,
        scaled: Callable[[Any, Any], Any],
        formula: Formula,
        x: Any,
        given: Sequence[Any],
    ) -> Any:
        def whole(x: Any, *rest: Any) -> Any:
            *shape, loc, scale = rest
            return scaled(formula((x - loc) / scale, *shape), scale)

        return self._computed(name, whole, x, given[:-2], *given[-2:])

    def quantile(self, name: str, formula: Formula, q: Any, *given: Any) -> Any:
        """loc + scale * formula(q, *shape), NaN unless q is in [0, 1]."""

        def whole(q: Any, *rest: Any) -> Any:
            *shape, loc, scale = rest
            legal = is_probability(q)
            return defined(loc + scale * formula(defined(q, legal), *shape), legal)

        return self._computed(name, whole, q, given[:-2], *given[-2:])

    def of_count(
        self, name: str, formula: Formula, between: float | None, k: Any, *given: Any
    ) -> Any:
        """formula(k - loc, *shape), or `between` where `k - loc` is not whole.

        None for `between` takes the whole number below. `given` are the shape
        parameters and the location.
        """

        def whole(k: Any, *rest: Any) -> Any:
            *shape, loc = rest
            count = k - loc
            floor = lax.floor(count)
            if between is None:
                return formula(floor, *shape)
            inexact = floor < count
            return jnp.where(inexact, between, formula(count, *shape))

        return self._computed(name, whole, k, given[:-1], *given[-1:])

    def of_arguments(self, name: str, formula: Formula, x: Any, *shape: Any) -> Any:
        """formula(x, *shape), of a distribution without location and scale."""
        return self._computed(name, formula, x, shape)

    def of_parameters(self, name: str, formula: Formula, *shape: Any) -> Any:
        """formula(*shape)."""
        return self._computed(name, lambda _, *shape: formula(*shape), 0, shape)

    def _computed(
        self, name: str, formula: Formula, x: Any, shape: Sequence[Any], *place: Any
    ) -> Any:
        given = (x, *shape, *place)
        operands = inexact_operands(f"{self.name}.{name}", *given)
        if operands[0].dtype.kind == "c":
            if self.refuses is not None and name not in ("ppf", "isf"):
                self.refuses(f"{self.name}.{name}", operands[0])
            return formula(*operands)
        operands = [*map(jnp.asarray, operands)]  # Python's do not divide by 0
        n = len(shape)
        legal = [
            *_conditions(self.legal, shape, operands[1 : n + 1]),
            *_conditions(is_number, place[:1], operands[n + 1 : n + 2]),
            *_conditions(is_positive, place[1:], operands[n + 2 :]),
        ]
        if legal:
            # Of NaN formulas make NaN; and so of derivatives by any argument.
            condition = functools.reduce(lambda p, q: p & q, legal)
            operands = [defined(x, condition) for x in operands]
        value = (in_double(formula) if self.wide else formula)(*operands)
        return lax.convert_element_type(value, value.dtype) if self.strong else value


def _conditions(
    legal: Callable[..., Any], given: Sequence[Any], operands: Sequence[Any]
) -> list[Any]:
    """What makes parameters legal, unless Python numbers are known to be."""
    known = all(map(is_python_scalar, given))
    condition = not given or legal(*(given if known else operands))
    return [] if condition is True else [condition]


def is_number(x: Any) -> Any:
    """Whether a parameter is not NaN."""
    return x == x


def is_positive(x: Any) -> Any:
    """Whether a parameter is greater than 0."""
    return x > 0


def is_probability(x: Any) -> Any:
    """Whether a parameter is in [0, 1]."""
    return (x >= 0) & (x <= 1)


def defined(value: Any, legal: Any) -> Any:
    """`value`, and NaN with NaN derivatives where it is not legal.

    A factor does that: the derivative of a constant would be 0.
    """
    return value * jnp.where(legal, 1.0, np.nan)
