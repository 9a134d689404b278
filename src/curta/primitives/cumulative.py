"""Cumulative reductions: element i is the reduction of elements 0 to i."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched, Op
from curta.core.trace import typeof
from curta.dtypes.scalars import NARROW_INTEGERS
from curta.primitives.elementwise import (
    add,
    eq,
    exp,
    log1p,
    lt,
    mul,
    ne,
    neg,
    real,
    select_n,
    sub,
)
from curta.primitives.families import Folding
from curta.primitives.joining import Concatenate
from curta.primitives.monoids import MAX, MIN, PROD, SUM, Monoid
from curta.primitives.reduction import ELEMENT_OPS, require_number
from curta.primitives.shape import Rev
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import add_any, full

Dual = tuple[Any, Any]
"""A value and its tangent."""


def _linear(op: Op, *duals: Dual) -> Dual:
    """A linear op on values and on tangents."""
    return op(*[x for x, _ in duals]), op(*[t for _, t in duals])


@dataclass(frozen=True)
class Cumulative(Folding):
    """What the cumulative reductions share; from the end backwards if `reverse`."""

    makes_nan: ClassVar[bool] = True
    arity: ClassVar[int | None] = 1
    sampled: ClassVar[tuple[Any, ...]] = ("number",)
    axis: int
    reverse: bool = False

    def pair(self, left: Dual, right: Dual) -> Dual:
        """The combination of two elements, and its tangent."""
        (x, dx), (y, dy) = left, right
        return ELEMENT_OPS[self.monoid].jvp([x, y], [dx, dy])

    def joined(self, left: Any, right: Any) -> Any:
        """The reduction of arrays that are reductions, element by element."""
        return ELEMENT_OPS[self.monoid](left, right)

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if self.axis < 0:
            raise ValueError(
                f"XLA operations do not allow negative axes, got axis {self.axis} in"
                f" {self.name}"
            )
        if self.axis >= x.ndim:
            raise ValueError(
                f"axis {self.axis} is out of bounds for array of shape {x.shape}"
            )
        require_number(self.name, x.dtype)
        return x

    def eval(self, *args: Any) -> Any:
        (x,) = args
        flipped = np.flip(x, self.axis) if self.reverse else x
        working = self.working(x.dtype)
        if working in NARROW_INTEGERS:
            working = np.dtype(np.int8)  # NumPy accumulates none of fewer bits
        out = self.accumulated(flipped.astype(working, copy=False)).astype(x.dtype)
        return np.flip(out, self.axis) if self.reverse else out

    def working(self, dtype: Any) -> Any:
        """The dtype in which NumPy accumulates."""
        return dtypes.working_dtype(dtype)

    def accumulated(self, x: Any) -> Any:
        """The reduction from the front, in NumPy."""
        return self.monoid.ufunc.accumulate(x, self.axis, dtype=x.dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        dual = (primals[0], tangents[0])
        flip = Rev((self.axis,))
        if self.reverse:
            dual = _linear(flip, dual)
        dual = self._scan(dual)
        return _linear(flip, dual) if self.reverse else dual

    def _scan(self, dual: Dual) -> Dual:
        """Prefix reductions of values with their tangents, in a tree of pairs.

        Neighbours are combined, the half as many are scanned, which gives the odd
        positions; the even ones take in one more element each. (Blelloch, "Prefix sums
        and their applications".)
        """
        size = self._size(dual)
        if size < 2:
            return dual
        even, odd = self._part(dual, 0, size - 1, 2), self._part(dual, 1, size, 2)
        odd = self._scan(self.pair(even, odd))
        before = odd
        if size % 2 == 0:
            before = self._part(odd, 0, self._size(odd) - 1, 1)
        even = self.pair(before, self._part(dual, 2, size, 2))
        even = _linear(Concatenate(self.axis), self._part(dual, 0, 1, 1), even)
        more = self._size(even) > self._size(odd)
        even = self._spread(even, 0, 0 if more else 1)
        return _linear(add, even, self._spread(odd, 1, 1 if more else 0))

    def _size(self, dual: Dual) -> int:
        return typeof(dual[0]).shape[self.axis]

    def _part(self, dual: Dual, start: int, limit: int, step: int) -> Dual:
        shape = typeof(dual[0]).shape
        starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[self.axis], limits[self.axis] = min(start, limit), limit
        steps[self.axis] = step
        return _linear(Slice(tuple(starts), tuple(limits), tuple(steps)), dual)

    def _spread(self, dual: Dual, low: int, high: int) -> Dual:
        """The elements with zeros between them."""
        aval = typeof(dual[0])
        config = [(0, 0, 0)] * aval.ndim
        config[self.axis] = (low, high, 1)
        zero = aval.dtype.type(0)
        return _linear(Pad(tuple(config)), dual, (zero, zero))

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        op = dataclasses.replace(self, axis=self.axis + (self.axis >= dim))
        return op(x), dim

    @classmethod
    def samples(cls) -> Iterator[Any]:
        kind = cls.sampled
        yield cls(0), [((5,), *kind)]
        yield cls(1, reverse=True), [((2, 4), *kind)]
        yield cls(0), [((1, 2), *kind)]
        yield cls(0), [((0, 2), *kind)]


@dataclass(frozen=True)
class CumSum(Cumulative):
    """The sums of the first elements."""

    name: ClassVar[str] = "cumsum"
    monoid: ClassVar[Monoid] = SUM

    def working(self, dtype: Any) -> Any:
        return dtypes.summing_dtype(dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*tangents)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [CumSum(self.axis, not self.reverse)(cotangent)]


@dataclass(frozen=True)
class CumProd(Cumulative):
    """The products of the first elements."""

    name: ClassVar[str] = "cumprod"
    monoid: ClassVar[Monoid] = PROD

    def pair(self, left: Dual, right: Dual) -> Dual:
        (x, dx), (y, dy) = left, right
        return mul(x, y), add_any(mul(dx, y), mul(x, dy))


@dataclass(frozen=True)
class CumMax(Cumulative):
    """The greatest of the first elements; NaN from the first NaN on."""

    name: ClassVar[str] = "cummax"
    monoid: ClassVar[Monoid] = MAX
    sampled: ClassVar[tuple[Any, ...]] = ("real", {"distinct": True})


@dataclass(frozen=True)
class CumMin(Cumulative):
    """The least of the first elements; NaN from the first NaN on."""

    name: ClassVar[str] = "cummin"
    monoid: ClassVar[Monoid] = MIN
    sampled: ClassVar[tuple[Any, ...]] = ("real", {"distinct": True})


@dataclass(frozen=True)
class CumLogSumExp(Cumulative):
    """log(exp(x0) + ... + exp(xi)), without overflow."""

    name: ClassVar[str] = "cumlogsumexp"
    sampled: ClassVar[tuple[Any, ...]] = ("float",)

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        out = super().aval(*avals)
        if not dtypes.issubdtype(out.dtype, np.inexact):
            raise TypeError(
                f"cumlogsumexp does not accept dtype {out.dtype.name}. Accepted dtypes"
                " are subtypes of inexact."
            )
        return out

    def identity(self, dtype: Any) -> Any:
        if dtype.kind == "c":
            self._missing("lower")
        return dtype.type(-np.inf)

    def combine(self, b: Any, acc: Any, x: Any) -> Any:
        if x.dtype.kind == "c":
            self._missing("lower")
        difference = b.sub(acc, x)
        rest = exp.scalar(b, b.neg(b.abs(difference)))
        out = b.add(b.max(acc, x), log1p.scalar(b, rest))
        # inf - inf and NaN: their sum is what is wanted.
        return b.select(b.compare("ne", difference, difference), b.add(acc, x), out)

    def joined(self, left: Any, right: Any) -> Any:
        return _log_add_exp(left, right)

    def accumulated(self, x: Any) -> Any:
        if x.dtype.kind != "c":
            return np.logaddexp.accumulate(x, self.axis, dtype=x.dtype)
        out = x.copy()
        rows = np.moveaxis(out, self.axis, 0)
        for i in range(1, len(rows)):
            before, row = rows[i - 1], rows[i]
            top = np.maximum(before.real, row.real)
            top = np.where(np.isfinite(top), top, 0)
            rows[i] = top + np.log(np.exp(before - top) + np.exp(row - top))
        return out

    def pair(self, left: Dual, right: Dual) -> Dual:
        (x, dx), (y, dy) = left, right
        out = _log_add_exp(x, y)
        dx = mul(dx, exp(sub(_finite(x), _finite(out))))
        dy = mul(dy, exp(sub(_finite(y), _finite(out))))
        return out, add(dx, dy)


def _log_add_exp(x: Any, y: Any) -> Any:
    # Where x = y either choice has the right derivatives, as max and abs have not.
    is_complex = typeof(x).dtype.kind == "c"
    second = lt(real(x), real(y)) if is_complex else lt(x, y)
    difference = sub(x, y)
    rest = select_n(second, neg(difference), difference)
    out = add(select_n(second, x, y), log1p(exp(rest)))
    # inf - inf and NaN: their sum is what is wanted.
    return select_n(ne(difference, difference), out, add(x, y))


def _finite(x: Any) -> Any:
    """`x` with inf replaced by 0, so that inf less inf is 0."""
    aval = typeof(x)
    return select_n(eq(x, aval.dtype.type(np.inf)), x, full(aval, 0))
