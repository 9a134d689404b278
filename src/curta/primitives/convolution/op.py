"""`conv_general_dilated`: sums of products over windows and input features."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched
from curta.core.tangents import is_linear
from curta.core.trace import typeof
from curta.dtypes import working_dtype
from curta.primitives.base import ANY, check_dtype, check_same_dtypes
from curta.primitives.convolution.batching import (
    batched_convolution,
    merge_dims,
    split_dim,
)
from curta.primitives.convolution.shapes import (
    ConvDimensionNumbers,
    conv_shape,
    lhs_cotangent_padding,
    rhs_cotangent_padding,
    taken,
)
from curta.primitives.dot import Bilinear
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.precision import check_preferred_type
from curta.primitives.shape import Rev
from curta.primitives.structure import zeros
from curta.primitives.windowed.sliding import Dims, Padding, Sliding, dilated

_LAST_FEATURES = {
    3: ("NWC", "WIO", "NWC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NDHWC", "DHWIO", "NDHWC"),
}


def _letters(spec: Sequence[int], first: str) -> str:
    """A layout such as NCHW; `spec` has the batch dim, the feature dim and the rest."""
    rest = "DHW"[-(len(spec) - 2) :] if len(spec) <= 5 else "?" * (len(spec) - 2)
    return "".join(c for _, c in sorted(zip(spec, first + rest, strict=True)))


@dataclass(frozen=True)
class ConvGeneralDilated(Bilinear):
    """Windows of lhs, times the kernel rhs, summed over taps and input features.

    With `feature_group_count` groups, a group of output features sees only its own
    input features; with `batch_group_count`, only its own part of the batch.
    """

    makes_nan: ClassVar[bool] = True
    reads_elements: ClassVar[bool] = True
    name: ClassVar[str] = "conv_general_dilated"
    param_names: ClassVar[Mapping[str, str | None]] = {"out_sharding": None}
    window_strides: Dims
    padding: Padding
    lhs_dilation: Dims
    rhs_dilation: Dims
    dimension_numbers: ConvDimensionNumbers
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision: Any = None
    preferred_element_type: Any = None

    # ---- shapes

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        lhs, rhs = avals
        check_same_dtypes(self.name, [lhs.dtype, rhs.dtype])
        check_dtype(self.name, lhs.dtype, ANY)
        self._check(lhs.shape, rhs.shape)
        dtype = lhs.dtype
        if self.preferred_element_type is not None:
            dtype = np.dtype(self.preferred_element_type)
            check_preferred_type(lhs.dtype, dtype)
        shape = self.out_shape(lhs.shape, rhs.shape)
        return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)

    def out_shape(self, lhs: Dims, rhs: Dims) -> Dims:
        """The shape of the output for operands of these shapes."""
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        lhs, rhs = taken(lhs, lhs_spec), taken(rhs, rhs_spec)
        wide = [*lhs[:2], *map(dilated, lhs[2:], self.lhs_dilation)]
        kernel = [*rhs[:2], *map(dilated, rhs[2:], self.rhs_dilation)]
        result = conv_shape(
            wide, kernel, self.window_strides, self.padding, self.batch_group_count
        )
        return tuple(result[out_spec.index(d)] for d in range(len(result)))

    def _check(self, lhs: Dims, rhs: Dims) -> None:
        if len(lhs) != len(rhs):
            raise ValueError(
                "conv_general_dilated lhs and rhs must have the same number of"
                f" dimensions, but got {lhs} and {rhs}."
            )
        self._check_groups(lhs, rhs)
        spatial = len(rhs) - 2
        if spatial != len(self.window_strides):
            raise ValueError(
                "conv_general_dilated window and window_strides must have the same"
                f" number of dimensions, but got {spatial} and"
                f" {len(self.window_strides)}"
            )
        for dilation in self.lhs_dilation, self.rhs_dilation:
            if any(d < 1 for d in dilation):
                raise TypeError(f"All dilations must be positive, got {dilation}.")
            if len(dilation) != spatial:
                raise ValueError(
                    "conv_general_dilated window and dilations must have the same"
                    f" number of dimensions, but got {spatial} and {len(dilation)}"
                )
        if any(s < 1 for s in self.window_strides):
            raise ValueError(
                "conv_general_dilated window_strides must have every element be"
                f" strictly positive, got {self.window_strides}."
            )

    def _check_groups(self, lhs: Dims, rhs: Dims) -> None:
        lhs_spec, rhs_spec, _ = self.dimension_numbers
        groups, parts = self.feature_group_count, self.batch_group_count
        features, inputs = lhs[lhs_spec[1]], rhs[rhs_spec[1]]
        batch, outputs = lhs[lhs_spec[0]], rhs[rhs_spec[0]]
        for count, what in (groups, "feature"), (parts, "batch"):
            if count < 1:
                raise ValueError(
                    f"conv_general_dilated {what}_group_count must be a positive"
                    f" integer, got {count}."
                )
        if features % groups:
            raise ValueError(
                "conv_general_dilated feature_group_count must divide lhs feature"
                f" dimension size, but {groups} does not divide {features}."
            )
        if features // groups != inputs:
            raise ValueError(
                "conv_general_dilated lhs feature dimension size divided by"
                " feature_group_count must equal the rhs input feature dimension size,"
                f" but {features} // {groups} != {inputs}. {self._layouts(lhs, rhs)}"
            )
        if batch % parts:
            raise ValueError(
                "conv_general_dilated batch_group_count must divide lhs batch dimension"
                f" size, but {parts} does not divide {batch}."
            )
        for count, what in (groups, "feature"), (parts, "batch"):
            if outputs % count:
                raise ValueError(
                    "conv_general_dilated rhs output feature dimension size must be a"
                    f" multiple of {what}_group_count, but {outputs} is not a multiple"
                    f" of {count}."
                )
        if groups > 1 and parts > 1:
            raise ValueError(
                "At most one of batch_group_count and feature_group_count may be > 1,"
                f" got batch_group_count={parts} and feature_group_count={groups}"
            )

    def _layouts(self, lhs: Dims, rhs: Dims) -> str:
        """The shapes with what their dims were taken for, and how to say otherwise."""
        lhs_spec, rhs_spec, _ = self.dimension_numbers
        images, kernels = _letters(lhs_spec, "NC"), _letters(rhs_spec, "OI")
        text = f"lhs of shape {lhs} was read as {images}, rhs of shape {rhs} as"
        text += f" {kernels}."
        if features_last := lhs_spec[1] == 1 and len(lhs) > 2:
            text += " If the features are the last dim, pass"
            text += f" dimension_numbers={_LAST_FEATURES.get(len(lhs))} to"
            text += " conv_general_dilated, or transpose the operands."
        return text if features_last else f"{text} See dimension_numbers."

    # ---- values

    def eval(self, *args: Any) -> Any:
        lhs, rhs = args
        dtype = np.dtype(self.preferred_element_type or lhs.dtype)
        shape = self.out_shape(lhs.shape, rhs.shape)
        if not all(shape):
            return np.zeros(shape, dtype)
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        working = working_dtype(dtype)
        lhs = lhs.transpose(lhs_spec).astype(working, copy=False)
        rhs = rhs.transpose(rhs_spec).astype(working, copy=False)
        out = _convolve(
            self._by_group(lhs), _groups(rhs, 0, self.group_count), self.sliding(rhs)
        )
        return out.transpose(np.argsort(out_spec)).astype(dtype, copy=False)

    @property
    def group_count(self) -> int:
        """How many groups there are, of either kind."""
        return self.feature_group_count * self.batch_group_count

    def _by_group(self, lhs: Any) -> Any:
        dim = 0 if self.batch_group_count > 1 else 1
        return np.moveaxis(_groups(lhs, dim, self.group_count), dim, 0)

    def sliding(self, rhs: Any) -> Sliding:
        """How windows of the kernel (O, I, ...) slide over the spatial dims."""
        return Sliding(
            rhs.shape[2:],
            self.window_strides,
            self.padding,
            self.lhs_dilation,
            self.rhs_dilation,
        )

    # ---- derivatives

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        lhs, rhs = args
        if is_linear(lhs):
            result, aval = self._lhs_cotangent(cotangent, lhs.aval, rhs), lhs.aval
        elif not typeof(cotangent).size:
            result, aval = zeros(rhs.aval), rhs.aval
        else:
            result, aval = self._rhs_cotangent(cotangent, lhs, rhs.aval), rhs.aval
        if typeof(result).dtype != aval.dtype:
            result = convert_element_type(result, aval.dtype)
        return [result, None] if is_linear(lhs) else [None, result]

    def _lhs_cotangent(self, ct: Any, lhs: ShapedArray, rhs: Any) -> Any:
        """A convolution of the cotangent with the reversed kernel.

        Where it has groups, each group's input and output features are exchanged.
        """
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        groups = self.group_count
        window = taken(typeof(rhs).shape, rhs_spec[2:])
        if groups > 1:
            rhs = split_dim(rhs, rhs_spec[0], groups)
            rhs = merge_dims(rhs, rhs_spec[0], rhs_spec[1])
        rhs = Rev(rhs_spec[2:])(rhs)
        if typeof(rhs).dtype != typeof(ct).dtype:
            rhs = convert_element_type(rhs, typeof(ct).dtype)
        op = dataclasses.replace(
            self,
            window_strides=self.lhs_dilation,
            padding=lhs_cotangent_padding(
                taken(lhs.shape, lhs_spec[2:]), window, self.window_strides,
                taken(typeof(ct).shape, out_spec[2:]), self.padding,
                self.lhs_dilation, self.rhs_dilation,
            ),
            lhs_dilation=self.window_strides,
            dimension_numbers=ConvDimensionNumbers(
                out_spec, _swapped(rhs_spec), lhs_spec
            ),
            feature_group_count=groups,
            batch_group_count=1,
        )  # fmt: skip
        result = op(ct, rhs)
        if self.batch_group_count > 1:
            result = split_dim(result, lhs_spec[1], groups)
            result = merge_dims(result, lhs_spec[1], lhs_spec[0])
        return result

    def _rhs_cotangent(self, ct: Any, lhs: Any, rhs: ShapedArray) -> Any:
        """A convolution of lhs with the cotangent, over the batch."""
        lhs_spec, rhs_spec, out_spec = self.dimension_numbers
        if typeof(lhs).dtype != typeof(ct).dtype:
            lhs = convert_element_type(lhs, typeof(ct).dtype)
        op = dataclasses.replace(
            self,
            window_strides=self.rhs_dilation,
            padding=rhs_cotangent_padding(
                taken(typeof(lhs).shape, lhs_spec[2:]), taken(rhs.shape, rhs_spec[2:]),
                self.window_strides, taken(typeof(ct).shape, out_spec[2:]),
                self.padding, self.lhs_dilation, self.rhs_dilation,
            ),
            rhs_dilation=self.window_strides,
            dimension_numbers=ConvDimensionNumbers(
                *map(_swapped, (lhs_spec, out_spec, rhs_spec))
            ),
            feature_group_count=self.batch_group_count,
            batch_group_count=self.feature_group_count,
        )  # fmt: skip
        return op(lhs, ct)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        return batched_convolution(self, axis, args, dims)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        plain = ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
        line = cls((1,), ((1, 1),), (1,), (1,), plain)
        yield line, [((2, 3, 4), "number"), ((2, 3, 3), "number")]
        uneven = cls((2,), ((2, -1),), (2,), (2,), plain)
        yield uneven, [((1, 2, 4), "inexact"), ((3, 2, 2), "inexact")]
        images = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
        op = cls((1, 2), ((1, 0), (0, 1)), (1, 1), (1, 1), images)
        yield op, [((2, 3, 4, 2), "inexact"), ((2, 2, 2, 3), "inexact")]
        op = cls((1,), ((1, 0),), (1,), (1,), plain, feature_group_count=2)
        yield op, [((2, 4, 3), "inexact"), ((4, 2, 2), "inexact")]
        op = cls((1,), ((1, 0),), (1,), (1,), plain, batch_group_count=2)
        yield op, [((4, 3, 3), "inexact"), ((4, 3, 2), "inexact")]
        none = ConvDimensionNumbers((0, 1), (0, 1), (0, 1))
        yield cls((), (), (), (), none), [((2, 3), "number"), ((4, 3), "number")]
        yield line, [((2, 3, 0), "inexact"), ((2, 3, 3), "inexact")]


def _swapped(spec: Dims) -> Dims:
    return (spec[1], spec[0], *spec[2:])


def _groups(x: Any, dim: int, count: int) -> Any:
    """`x` with a dim parted in groups: (count, size of a group)."""
    shape = x.shape
    return x.reshape(*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])


def _convolve(lhs: Any, rhs: Any, sliding: Sliding) -> Any:
    """Group by group: (g, n, i, ...) with (g, o, i, ...) to (n, g*o, ...)."""
    rank = len(sliding.dimensions)
    zero = lhs.dtype.type(0)
    fields: Any = (
        (*[first] * 3, *field)
        for field, first in zip(sliding, (1, 1, (0, 0), 1, 1), strict=True)
    )
    whole = Sliding(*fields)
    views = whole.views(lhs, zero)
    views = views.reshape(*views.shape[: 3 + rank], *sliding.dimensions)
    group, batch, inputs, *out = views.shape[: 3 + rank]
    order = (0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    depth = inputs * math.prod(sliding.dimensions)
    matrix = views.transpose(order).reshape(group, batch * math.prod(out), depth)
    outputs = rhs.shape[1]
    kernel = rhs.reshape(group, outputs, depth).transpose(0, 2, 1)
    product = (matrix @ kernel).reshape(group, batch, *out, outputs)
    features = group * outputs
    return np.moveaxis(product, (0, -1), (1, 2)).reshape(batch, features, *out)
