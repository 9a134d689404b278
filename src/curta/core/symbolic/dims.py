"""`DimExpr`: a symbolic dim, which behaves as an integer where that is sound."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from curta.core.dim import SymbolicDim
from curta.core.symbolic.bounds import sign_known
from curta.core.symbolic.parse import Given, Parser
from curta.core.symbolic.scope import SymbolicScope, inconclusive
from curta.core.symbolic.terms import (
    FLOORDIV,
    MAX,
    MIN,
    MOD,
    Poly,
    combine,
    constant,
    power as raised_to,
    product,
)
from curta.core.symbolic.value import DimAsValue
from curta.core.trace import Tracer, register_aval_rule
from curta.errors import InconclusiveDimensionOperation


def _integer_operator(
    on_polys: Callable[[SymbolicScope, Poly, Poly], Any],
    on_arrays: Callable[[Any, Any], Any],
) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operator and its reflection: exact on dims, and on values with the rest."""

    def forward(self: DimExpr, other: Any) -> Any:
        poly = self._poly_of(other)
        if poly is None and (
            hasattr(other, "as_index") or isinstance(other, SymbolicDim)
        ):
            return NotImplemented  # an Affine of the compiler handles dims itself
        if poly is None:
            return on_arrays(self.as_value(), other)
        return self._wrap(on_polys(self.scope, self.poly, poly))

    def reflected(self: DimExpr, other: Any) -> Any:
        poly = self._poly_of(other)
        if poly is None:
            return on_arrays(other, self.as_value())
        return self._wrap(on_polys(self.scope, poly, self.poly))

    return forward, reflected


def _divmod(scope: SymbolicScope, p: Poly, q: Poly) -> tuple[Poly, Poly]:
    return scope.apply(FLOORDIV, p, q), scope.apply(MOD, p, q)


class DimExpr(SymbolicDim):
    """A polynomial that is no constant, in the variables of a scope.

    `==` is whether two dims are known to be equal: dims that may or may not be, differ.
    """

    __slots__ = ("poly", "scope")
    __array_priority__ = 1000

    def __init__(self, poly: Poly, scope: SymbolicScope):
        self.poly: Poly = poly
        self.scope: SymbolicScope = scope

    # ---- conversions

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._wrap, value))
        return as_dimension(value, self.scope)

    def _poly_of(self, other: Any) -> Poly | None:
        """The polynomial of a dim or an integer; None for anything else."""
        if isinstance(other, DimExpr):
            self._check_scope(other)
            return other.poly
        if isinstance(other, Tracer):
            return None
        try:
            return constant(operator.index(other))
        except TypeError:
            return None

    def _check_scope(self, other: DimExpr) -> None:
        if self.scope is not other.scope:
            raise ValueError(
                f"Invalid mixing of symbolic scopes of '{self}' and '{other}'.\n"
                f"Expected scope {self.scope}\nand found for '{other}' scope"
                f" {other.scope}\nMake the dimensions in one call of symbolic_shape,"
                " or pass it the `scope` of the first."
            )

    def as_value(self) -> Any:
        return DimAsValue(self)()

    __jax_array__ = dimension_as_value = as_value

    # As a value it is a weakly typed integer.
    shape: ClassVar[tuple[()]] = ()
    ndim = 0
    weak_type = True

    @property
    def dtype(self) -> Any:
        """The dtype of the size as a value."""
        return DimAsValue(self).aval().dtype

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension '{self}' used in a context that requires a constant"
        )

    def __float__(self) -> float:
        return float(int(self))

    def __bool__(self) -> bool:
        lo, hi = self.scope.bounds(self.poly)
        if lo <= 0 <= hi:
            raise inconclusive(self.scope, f"'{self}' != '0'")
        return True

    def __copy__(self) -> DimExpr:
        return self

    def __deepcopy__(self, memo: Any) -> DimExpr:
        return self

    # ---- arithmetic

    __add__: Callable[[Any, Any], Any]
    __radd__: Callable[[Any, Any], Any]
    __sub__: Callable[[Any, Any], Any]
    __rsub__: Callable[[Any, Any], Any]
    __mul__: Callable[[Any, Any], Any]
    __rmul__: Callable[[Any, Any], Any]
    __floordiv__: Callable[[Any, Any], Any]
    __rfloordiv__: Callable[[Any, Any], Any]
    __mod__: Callable[[Any, Any], Any]
    __rmod__: Callable[[Any, Any], Any]
    __divmod__: Callable[[Any, Any], Any]
    __rdivmod__: Callable[[Any, Any], Any]

    __add__, __radd__ = _integer_operator(
        lambda scope, p, q: scope.normal(combine(p, 1, q, 1)), operator.add
    )
    __sub__, __rsub__ = _integer_operator(
        lambda scope, p, q: scope.normal(combine(p, 1, q, -1)), operator.sub
    )
    __mul__, __rmul__ = _integer_operator(
        lambda scope, p, q: scope.normal(product(p, q)), operator.mul
    )
    __floordiv__, __rfloordiv__ = _integer_operator(
        lambda scope, p, q: scope.apply(FLOORDIV, p, q), operator.floordiv
    )
    __mod__, __rmod__ = _integer_operator(
        lambda scope, p, q: scope.apply(MOD, p, q), operator.mod
    )
    __divmod__, __rdivmod__ = _integer_operator(_divmod, divmod)

    def __truediv__(self, other: Any) -> Any:
        return self.as_value() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.as_value()

    def __neg__(self) -> Any:
        return 0 - self

    def __pos__(self) -> DimExpr:
        return self

    def __abs__(self) -> Any:
        return self.max(-self)

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, DimExpr):
            return power.__rpow__(self)
        if power != int(power):
            raise ValueError(
                "Symbolic dimension cannot be raised to non-integer powers:"
                f" '{self}' ** '{power}'"
            )
        if power < 0:
            raise ValueError(
                "Symbolic dimension cannot be raised to negative powers:"
                f" '{self}' ** '{power}'"
            )
        try:
            raised = raised_to(self.poly, int(power))
        except OverflowError as error:
            raise ValueError(
                f"Symbolic dimension raised to a power: '{self}' ** '{power}': {error}"
            ) from None
        return self._wrap(self.scope.normal(raised))

    def __rshift__(self, bits: Any) -> Any:
        return self // (1 << operator.index(bits))

    def __lshift__(self, bits: Any) -> Any:
        return self * (1 << operator.index(bits))

    def __rpow__(self, base: Any) -> Any:
        return (
            base.as_value() if isinstance(base, DimExpr) else base
        ) ** self.as_value()

    def _choose(self, operation: str, other: Any) -> Any:
        poly = self._poly_of(other)
        if poly is None:
            raise TypeError(f"Symbolic dimension {operation} not supported for {other}")
        return self._wrap(self.scope.apply(operation, self.poly, poly))

    def max(self, other: Any) -> Any:
        return self._choose(MAX, other)

    def min(self, other: Any) -> Any:
        return self._choose(MIN, other)

    # ---- comparisons

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DimExpr):
            return self.scope is other.scope and self.poly == other.poly
        return False  # a polynomial that is constant is an int

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.poly, id(self.scope)))

    def __ge__(self, other: Any) -> bool:
        return self._at_least(self, other, ">=", other)

    def __le__(self, other: Any) -> bool:
        return self._at_least(other, self, "<=", other)

    def __gt__(self, other: Any) -> bool:
        return not self._at_least(other, self, ">", other)

    def __lt__(self, other: Any) -> bool:
        return not self._at_least(self, other, "<", other)

    def _at_least(self, a: Any, b: Any, sign: str, other: Any) -> bool:
        p, q = self._poly_of(a), self._poly_of(b)
        if p is None or q is None:
            raise TypeError(
                f"a symbolic dimension is compared with integers and dimensions only:"
                f" '{self}' {sign} '{other}'. Compare its value, jnp.asarray(dim)."
            )
        difference = self.scope.normal(combine(p, 1, q, -1))
        lo, hi = self.scope.bounds(difference, sign_known)
        if lo < 0 <= hi:
            raise inconclusive(self.scope, f"'{self}' {sign} '{other}'")
        return lo >= 0

    # ---- looking into it

    def _get_vars(self) -> set[str]:
        """The names of the variables within."""
        return self.poly.variables()

    get_vars = _get_vars

    def is_same(self, other: Any) -> bool:
        if isinstance(other, DimExpr):
            return self.scope is other.scope and self.poly == other.poly
        return False

    def at(self, sizes: Mapping[str, int]) -> int:
        return int(self.poly.evaluate(sizes))

    def _evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value, given those of the variables."""
        return self.poly.evaluate(values)

    def __str__(self) -> str:
        return str(self.poly)

    __repr__ = __str__


def as_dimension(poly: Poly, scope: SymbolicScope) -> Any:
    """A polynomial as a dim: an int if it is constant."""
    if poly.value is not None:
        return poly.value
    return (scope.dim_type or DimExpr)(poly, scope)


def parse_shape(text: str, shown: str, scope: SymbolicScope, like: Any) -> Any:
    """The shape that a text describes, with dims in `scope`."""
    return tuple(
        d.dim if isinstance(d, Given) else as_dimension(d, scope)
        for d in Parser(text, shown, scope, like).shape()
    )


register_aval_rule(DimExpr, lambda dim: DimAsValue(dim).aval())
