"""Reductions besides reduce_sum (structure.py), and the indices of extrema."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta._settings.api_version import MORE_PARAMETERS, Change
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched
from curta.core.tangents import zero_tangent
from curta.core.trace import typeof
from curta.primitives.base import ANY, Elementwise, check_dtype, wrapped
from curta.primitives.elementwise import (
    add,
    and_,
    convert_element_type,
    div,
    eq,
    max_,
    min_,
    mul,
    or_,
    xor,
)
from curta.primitives.families import NonDifferentiable, Reduction
from curta.primitives.monoids import (
    AND,
    MAX,
    MIN,
    OR,
    PROD,
    SUM,
    XOR,
    Monoid,
    greatest_value,
    least_value,
)
from curta.primitives.shape import Squeeze
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import Reshape, Transpose, add_any, reduce_sum, reshape

ELEMENT_OPS: dict[Monoid, Elementwise] = {
    SUM: add,
    PROD: mul,
    MAX: max_,
    MIN: min_,
    AND: and_,
    OR: or_,
    XOR: xor,
}
"""The ops that combine two elements as the monoids do."""


@dataclass(frozen=True)
class ReduceProd(Reduction):
    """The product over `axes`."""

    makes_nan: ClassVar[bool] = True
    name: ClassVar[str] = "reduce_prod"
    monoid: ClassVar[Monoid] = PROD

    def out_dtype(self, dtype: Any) -> Any:
        return require_number(self.name, dtype)

    def eval(self, *args: Any) -> Any:
        (x,) = args
        out = np.multiply.reduce(x, self.axes, dtype=dtypes.working_dtype(x.dtype))
        return out.astype(x.dtype, copy=False)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        # By halves, as a tree of products: no division, so zeros do no harm.
        (x,), (t,) = primals, tangents
        if not typeof(x).size:
            return self(x), zero_tangent(self.aval(typeof(x)))
        x, t = _axes_first(x, self.axes), _axes_first(t, self.axes)
        while (size := typeof(x).shape[0]) > 1:
            half = (size + 1) // 2
            first, second = _cut(x, 0, half), _cut(x, half, size)
            dfirst, dsecond = _cut(t, 0, half), _cut(t, half, size)
            if size % 2:
                second, dsecond = _extended(second, 1), _extended(dsecond, 0)
            x = mul(first, second)
            t = add_any(mul(dfirst, second), mul(first, dsecond))
        return Squeeze((0,))(x), Squeeze((0,))(t)


def _axes_first(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` with `axes` made into one dim, in front."""
    shape = typeof(x).shape
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    order = (*axes, *kept)
    if order != tuple(range(len(shape))):
        x = Transpose(order)(x)
    return reshape(x, (math.prod(shape[a] for a in axes), *(shape[i] for i in kept)))


def _cut(x: Any, start: int, limit: int) -> Any:
    shape = typeof(x).shape
    rest = len(shape) - 1
    op = Slice((start, *[0] * rest), (limit, *shape[1:]), (1,) * len(shape))
    return op(x)


def _extended(x: Any, value: int) -> Any:
    """`x` with one row of `value` more."""
    aval = typeof(x)
    config = ((0, 1, 0), *[(0, 0, 0)] * (aval.ndim - 1))
    return Pad(config)(x, aval.dtype.type(value))


class _Extremum(Reduction):
    """Base class of reduce_max and reduce_min; NaN is propagated."""

    sampled: ClassVar[tuple[Any, ...]] = ("ordered", {"distinct": True})
    param_names: ClassVar[Mapping[str, str | None]] = {"out_sharding": None}
    params_since: ClassVar[Mapping[str, Change]] = {"out_sharding": MORE_PARAMETERS}

    def out_dtype(self, dtype: Any) -> Any:
        check_dtype(self.name, dtype, ANY)
        return dtype

    def eval(self, *args: Any) -> Any:
        (x,) = args
        initial = self.identity(x.dtype)
        out = self.monoid.ufunc.reduce(x, self.axes, initial=initial)
        return wrapped(out, x.dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self(x)
        aval = typeof(x)
        kept = tuple(1 if i in self.axes else d for i, d in enumerate(aval.shape))
        chosen = eq(x, Reshape(kept)(out))
        chosen = convert_element_type(chosen, typeof(t).dtype)
        count = reduce_sum(chosen, self.axes)
        return out, div(reduce_sum(mul(t, chosen), self.axes), count)


@dataclass(frozen=True)
class ReduceMax(_Extremum):
    """The greatest element along `axes`; the least value of the dtype if none."""

    name: ClassVar[str] = "reduce_max"
    monoid: ClassVar[Monoid] = MAX


@dataclass(frozen=True)
class ReduceMin(_Extremum):
    """The least element along `axes`; the greatest value of the dtype if none."""

    name: ClassVar[str] = "reduce_min"
    monoid: ClassVar[Monoid] = MIN


class _Logical(NonDifferentiable, Reduction):
    """What the bitwise reductions share: booleans or integers, strong types."""

    sampled: ClassVar[tuple[Any, ...]] = ("bool_or_int",)

    def out_dtype(self, dtype: Any) -> Any:
        if isinstance(dtype, dtypes.ExtendedDType) or dtype.kind not in "biu":
            raise TypeError(
                "logical reduction requires operand dtype bool or int, got"
                f" {dtype.name} in {self.name}."
            )
        return dtype

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        self.out_dtype(avals[0].dtype)
        return super().aval(*avals).strip_weak_type()

    def eval(self, *args: Any) -> Any:
        (x,) = args
        return self.monoid.ufunc.reduce(x, self.axes, dtype=x.dtype)


@dataclass(frozen=True)
class ReduceAnd(_Logical):
    """The bitwise and over `axes`."""

    name: ClassVar[str] = "reduce_and"
    monoid: ClassVar[Monoid] = AND


@dataclass(frozen=True)
class ReduceOr(_Logical):
    """The bitwise or over `axes`."""

    name: ClassVar[str] = "reduce_or"
    monoid: ClassVar[Monoid] = OR


@dataclass(frozen=True)
class ReduceXor(_Logical):
    """The bitwise exclusive or over `axes`."""

    name: ClassVar[str] = "reduce_xor"
    monoid: ClassVar[Monoid] = XOR


@dataclass(frozen=True)
class ArgReduction(NonDifferentiable):
    """The index of an extremum along the one dim in `axes`: the first, or of a NaN."""

    reads_elements: ClassVar[bool] = True
    arity: ClassVar[int | None] = 1
    better: ClassVar[str]
    axes: tuple[int, ...]
    index_dtype: Any

    def identity(self, dtype: Any) -> Any:
        """The NumPy scalar that no element is worse than."""
        return least_value(dtype) if self.better == "gt" else greatest_value(dtype)

    def combine(
        self, b: Any, left: tuple[Any, Any], right: tuple[Any, Any]
    ) -> tuple[Any, Any]:
        """The better of two (element, index) pairs: a NaN, the extremum, the first."""
        (x, i), (y, j) = left, right
        x_is_nan, y_is_nan = b.compare("ne", x, x), b.compare("ne", y, y)
        wins = b.or_(b.compare(self.better, y, x), b.and_(y_is_nan, b.not_(x_is_nan)))
        ties = b.or_(b.compare("eq", x, y), b.and_(x_is_nan, y_is_nan))
        wins = b.or_(wins, b.and_(ties, b.compare("lt", j, i)))
        return b.select(wins, y, x), b.select(wins, j, i)

    def combine_in_order(
        self, b: Any, left: tuple[Any, Any], right: tuple[Any, Any]
    ) -> tuple[Any, Any]:
        """As `combine`, where the right operand has the higher index."""
        (x, i), (y, j) = left, right
        wins = b.compare(self.better, y, x)
        if dtypes.issubdtype(
            x.dtype, np.floating
        ):  # with a NaN no comparison holds, so it is not worse
            worse = b.compare("le" if self.better == "gt" else "ge", y, x)
            wins = b.and_(b.not_(worse), b.compare("eq", x, x))
        return b.select(wins, y, x), b.select(wins, j, i)

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        (axis,) = self.axes
        if not 0 <= axis < x.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {x.shape}")
        if x.shape[axis] < 1:
            raise ValueError(
                "argmin and argmax require non-empty reduced dimension."
                f" operand.shape={x.shape} axis={axis}"
            )
        if not any(dtypes.issubdtype(x.dtype, kind) for kind in ANY):
            raise ValueError(
                f"Unsupported dtype for {self.name[3:]}: {x.dtype}; random keys and"
                " tangents of integers have no order."
            )
        if dtypes.issubdtype(x.dtype, np.complexfloating):
            raise TypeError(
                f"{self.name} does not accept dtype {x.dtype.name}: complex numbers"
                " have no order. Take the argmax or argmin of their absolute values."
            )
        if not dtypes.issubdtype(self.index_dtype, np.integer):
            raise TypeError(
                f"index_dtype must be an integer type, but got {self.index_dtype.name}"
            )
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        return ShapedArray(shape, self.index_dtype)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        (reduced,) = self.axes
        reduced += reduced >= dim
        op = type(self)((reduced,), self.index_dtype)
        return op(x), dim - (reduced < dim)

    def eval(self, *args: Any) -> Any:
        (x,), (axis,) = args, self.axes
        if x.dtype.kind == "V":  # ml_dtypes: NumPy does not find their NaNs
            x = x.astype(np.float32)
        return getattr(np, self.name)(x, axis).astype(self.index_dtype)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((0,), np.dtype("int32")), [((3,), "ordered")]
        yield cls((0,), np.dtype("int32")), [((6,), "ordered", {"special": True})]
        yield cls((1,), np.dtype("int64")), [((2, 3, 2), "ordered")]
        yield cls((1,), np.dtype("uint8")), [((0, 3), "ordered")]


@dataclass(frozen=True)
class ArgMax(ArgReduction):
    """The index of the greatest element."""

    name: ClassVar[str] = "argmax"
    better: ClassVar[str] = "gt"


@dataclass(frozen=True)
class ArgMin(ArgReduction):
    """The index of the least element."""

    name: ClassVar[str] = "argmin"
    better: ClassVar[str] = "lt"


def require_number(name: str, dtype: Any) -> Any:
    """`dtype`, or TypeError unless it is of numbers."""
    if not dtypes.issubdtype(dtype, np.number):
        raise TypeError(
            f"{name} does not accept dtype {dtype.name}. Accepted dtypes are subtypes"
            " of number."
        )
    return dtype
