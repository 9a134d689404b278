"""Sums, maxima and minima over sliding windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched
from curta.core.trace import typeof
from curta.dtypes.scalars import NARROW_INTEGERS
from curta.primitives.families import Folding
from curta.primitives.monoids import MAX, MIN, SUM, Monoid
from curta.primitives.slicing import pad
from curta.primitives.windowed.selection import SelectAndGatherAdd
from curta.primitives.windowed.sliding import (
    Dims,
    Padding,
    Sliding,
    check_window_fields,
    dilated,
)


@dataclass(frozen=True)
class WindowReduction(Folding):
    """Folds every window of the operand."""

    window_dimensions: Dims
    window_strides: Dims
    padding: Padding
    base_dilation: Dims
    window_dilation: Dims

    @property
    def window(self) -> Sliding:
        """How the windows slide."""
        return Sliding.of(self)

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        check_window_fields("reduce_window", x, self.window)
        return x.update(shape=self.window.out_shape(x.shape))

    def eval(self, *args: Any) -> Any:
        (x,) = args
        start = self.identity(x.dtype)
        views = self.window.views(x, start)
        working = dtypes.working_dtype(x.dtype)
        if working in NARROW_INTEGERS:
            working = np.dtype(np.int32)
        axes = tuple(range(x.ndim, 2 * x.ndim))
        start, views = working.type(start), views.astype(working, copy=False)
        out = self.monoid.ufunc.reduce(views, axes, dtype=working, initial=start)
        return out.astype(x.dtype, copy=False)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        return type(self)(*self.window.with_dim(dim))(x), dim

    @classmethod
    def samples(cls) -> Iterator[Any]:
        kind = ("number",) if cls.name == "reduce_window_sum" else (
            "ordered", {"distinct": True}
        )  # fmt: skip
        none = ((0, 0), (0, 0))
        yield cls((2, 1), (1, 1), none, (1, 1), (1, 1)), [((3, 2), *kind)]
        yield (
            cls((2, 3), (1, 2), ((1, 0), (1, 2)), (1, 1), (1, 1)),
            [((3, 4), *kind)],
        )
        yield (
            cls((2, 2), (2, 1), ((-1, 1), (0, 1)), (2, 1), (1, 2)),
            [((3, 4), *kind)],
        )
        yield cls((3,), (1,), ((0, 0),), (1,), (1,)), [((2,), *kind)]
        yield cls((6, 7), (1, 1), ((3, 3), (3, 3)), (1, 1), (1, 1)), [((4, 2), *kind)]
        yield cls((), (), (), (), ()), [((), *kind)]


@dataclass(frozen=True)
class ReduceWindowSum(WindowReduction):
    """The sum of each window."""

    makes_nan: ClassVar[bool] = True
    name: ClassVar[str] = "reduce_window_sum"
    monoid: ClassVar[Monoid] = SUM

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if not dtypes.issubdtype(x.dtype, np.number):
            raise TypeError(
                "operand to reduce_window_sum must have a number dtype, got"
                f" {x.dtype.name}"
            )
        return super().aval(x)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*tangents)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        """Sums over windows of the cotangent, dilated by what were the strides."""
        (x,) = args
        pads = cotangent_padding(self.window, x.aval.shape, typeof(cotangent).shape)
        config = tuple(
            (low, high, stride - 1)
            for (low, high), stride in zip(pads, self.window_strides, strict=True)
        )
        none, ones = ((0, 0),) * x.aval.ndim, (1,) * x.aval.ndim
        op = ReduceWindowSum(
            self.window_dimensions,
            self.base_dilation,
            none,
            ones,
            self.window_dilation,
        )
        return [op(pad(cotangent, config))]


class _Choice(WindowReduction):
    """What maxima and minima share: the tangent of the element chosen."""

    select: ClassVar[str]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        op = SelectAndGatherAdd(self.select, *self.window)
        return out, op(tangents[0], primals[0])


@dataclass(frozen=True)
class ReduceWindowMax(_Choice):
    """The greatest element of each window; the least value of the dtype if none."""

    name: ClassVar[str] = "reduce_window_max"
    monoid: ClassVar[Monoid] = MAX
    select: ClassVar[str] = "ge"


@dataclass(frozen=True)
class ReduceWindowMin(_Choice):
    """The least element of each window; the greatest value of the dtype if none."""

    name: ClassVar[str] = "reduce_window_min"
    monoid: ClassVar[Monoid] = MIN
    select: ClassVar[str] = "le"


def cotangent_padding(window: Sliding, shape: Dims, out_shape: Dims) -> Padding:
    """How to pad the cotangent of a windowed sum, so that windows of it give back.

    Around an output dilated by the strides; see V. Dumoulin, F. Visin, "A guide to
    convolution arithmetic for deep learning", 2016, section 4.
    """
    pads = []
    for d, size in enumerate(shape):
        extent = dilated(size, window.base_dilation[d])
        reach = dilated(window.dimensions[d], window.window_dilation[d])
        low = reach - window.padding[d][0] - 1
        out = dilated(out_shape[d], window.strides[d])
        pads.append((low, extent + reach - 1 - out - low))
    return tuple(pads)
