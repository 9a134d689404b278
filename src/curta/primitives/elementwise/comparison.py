"""Comparisons: of numbers as IEEE 754 has it, and in its total order of floats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta.core.key_use import NOTHING, KeyReuseSignature
from curta.primitives.base import ANY, ORDERED, Family, FlatElementwise

BOOL = np.dtype(bool)


class Comparison(FlatElementwise):
    """Two operands to a boolean; a comparison with NaN is false, save `ne`."""

    arity: ClassVar[int] = 2
    accepts: ClassVar[Family] = ORDERED

    def out_dtype(self, *dtypes: Any) -> Any:
        super().out_dtype(*dtypes)
        return BOOL

    def scalar(self, b: Any, *xs: Any) -> Any:
        return b.compare(self.name, *xs)


class Equality(Comparison):
    """A comparison that random keys and complex numbers have too."""

    accepts: ClassVar[Family] = ANY
    key_signature: ClassVar[KeyReuseSignature | None] = NOTHING

    def out_dtype(self, *given: Any) -> Any:
        if all(isinstance(d, dtypes.ExtendedDType) for d in given):
            return BOOL
        return super().out_dtype(*given)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield from super().samples()
        yield cls(), [((3,), "key"), ((3,), "key")]


class Eq(Equality):
    """x == y."""

    name: ClassVar[str] = "eq"
    ufunc: ClassVar[Any] = np.equal


class Ne(Equality):
    """x != y."""

    name: ClassVar[str] = "ne"
    ufunc: ClassVar[Any] = np.not_equal


class Ge(Comparison):
    """x >= y."""

    name: ClassVar[str] = "ge"
    ufunc: ClassVar[Any] = np.greater_equal


class Gt(Comparison):
    """x > y."""

    name: ClassVar[str] = "gt"
    ufunc: ClassVar[Any] = np.greater


class Le(Comparison):
    """x <= y."""

    name: ClassVar[str] = "le"
    ufunc: ClassVar[Any] = np.less_equal


class Lt(Comparison):
    """x < y."""

    name: ClassVar[str] = "lt"
    ufunc: ClassVar[Any] = np.less


class TotalOrder(Comparison):
    """A comparison in which -NaN < -inf < ... < -0.0 < 0.0 < ... < inf < NaN."""

    domain: ClassVar[dict[str, Any]] = {"special": True}
    compare: ClassVar[str]

    def eval(self, *args: Any) -> Any:
        return self.ufunc(*map(_ordinal, args))

    def scalar(self, b: Any, *xs: Any) -> Any:
        return b.compare(self.compare, *[_scalar_ordinal(b, x) for x in xs])


class EqTo(TotalOrder):
    """x == y in the total order."""

    name: ClassVar[str] = "eq_to"
    compare: ClassVar[str] = "eq"
    ufunc: ClassVar[Any] = np.equal


class LeTo(TotalOrder):
    """x <= y in the total order."""

    name: ClassVar[str] = "le_to"
    compare: ClassVar[str] = "le"
    ufunc: ClassVar[Any] = np.less_equal


class LtTo(TotalOrder):
    """x < y in the total order."""

    name: ClassVar[str] = "lt_to"
    compare: ClassVar[str] = "lt"
    ufunc: ClassVar[Any] = np.less


def _ordinal(x: Any) -> Any:
    """Integers that are ordered as the floats x are; other dtypes as they are."""
    if not dtypes.issubdtype(x.dtype, np.floating):
        return x
    word = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = x.view(word)
    return np.where(bits < 0, np.bitwise_xor(bits, np.iinfo(word).max), bits)


def _scalar_ordinal(b: Any, x: Any) -> Any:
    if not dtypes.issubdtype(x.dtype, np.floating):
        return x
    word = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = b.bitcast(x, word)
    flipped = b.xor(bits, b.const(np.iinfo(word).max, word))
    return b.select(b.compare("lt", bits, b.const(0, word)), flipped, bits)


eq_to: EqTo = EqTo()
le_to: LeTo = LeTo()
lt_to: LtTo = LtTo()
eq: Eq = Eq()
ne: Ne = Ne()
ge: Ge = Ge()
gt: Gt = Gt()
le: Le = Le()
lt: Lt = Lt()
