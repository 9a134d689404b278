"""The derivatives of maxima over windows: what the chosen elements' tangents are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched, Op
from curta.core.primitive import primitive_of
from curta.core.tangents import Zero
from curta.core.trace import typeof
from curta.dtypes import working_dtype
from curta.primitives.elementwise.comparison import Ge, Le
from curta.primitives.monoids import greatest_value, least_value
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import batch_dim_at, zero_like_output
from curta.primitives.windowed.sliding import (
    Dims,
    Padding,
    Sliding,
    check_window_fields,
)

_COMPARISONS = {"ge": np.greater_equal, "le": np.less_equal}


@dataclass(frozen=True)
class _Selection(Op):
    """An op that compares elements of windows to choose one: the first extremum.

    It is linear in its first operand; the second one is what is compared.
    """

    param_names: ClassVar[Mapping[str, str | None]] = {"select_prim": "select"}
    select: str

    def worst(self, dtype: Any) -> Any:
        """The padding value, which is never selected."""
        return least_value(dtype) if self.select == "ge" else greatest_value(dtype)

    def keeps(self, b: Any, chosen: Any, candidate: Any) -> Any:
        """Whether an element chosen stays so, as scalar code."""
        return b.compare(self.select, chosen, candidate)

    def __post_init__(self) -> None:
        # Programs that read jaxprs hand back the primitive itself.
        object.__setattr__(self, "select", str(self.select))

    def params(self) -> dict[str, Any]:
        comparison = primitive_of(Ge if self.select == "ge" else Le)
        return {**super().params(), "select_prim": comparison}

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        if type(tangents[0]) is Zero:
            return out, zero_like_output(out)
        return out, self(tangents[0], primals[1])

    def chosen_taps(self, operand: Any, window: Sliding) -> Any:
        """For each window the number of the tap chosen, in NumPy."""
        views = window.views(operand, self.worst(operand.dtype))
        taps = math.prod(window.dimensions)
        flat = views.reshape(*window.out_shape(operand.shape), taps)
        best, tap = flat[..., 0], np.zeros(flat.shape[:-1], np.int32)
        for k in range(1, taps):
            keeps = _COMPARISONS[self.select](best, flat[..., k])
            best = np.where(keeps, best, flat[..., k])
            tap = np.where(keeps, tap, np.int32(k))
        return tap


@dataclass(frozen=True)
class SelectAndGatherAdd(_Selection):
    """The element of the first operand at the extremum of each window of the second."""

    reads_elements: ClassVar[bool] = True
    name: ClassVar[str] = "select_and_gather_add"
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
        tangents, operand = avals
        if tangents.shape != operand.shape:
            raise TypeError(
                "select_and_gather_add tangents and operand shapes must match, got"
                f" {tangents.shape} and {operand.shape}."
            )
        check_window_fields("reduce_window", operand, self.window)
        shape = self.window.out_shape(operand.shape)
        return ShapedArray(shape, tangents.dtype, tangents.weak_type)

    def eval(self, *args: Any) -> Any:
        tangents, operand = args
        window = self.window
        tap = self.chosen_taps(operand, window)
        worst, none = self.worst(operand.dtype), tangents.dtype.type(0)
        flat = (*tap.shape, math.prod(window.dimensions))
        result, chosen = (
            np.take_along_axis(views.reshape(flat), tap[..., None], -1)[..., 0]
            for views in (window.views(tangents, none), window.views(operand, worst))
        )
        # Windows without an element better than the padding choose none.
        return np.where(chosen == worst, none, result)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        operand = args[1]
        if any(d != 1 for d in self.window_dilation):
            raise NotImplementedError(
                "VJP not implemented for select_and_gather (MaxPool) with window"
                f" dilation, got window_dilation={self.window_dilation}. Slice the"
                " operand into parts that windows without dilation cover."
            )
        steps, aval = self.base_dilation, typeof(operand)
        if holes := any(d != 1 for d in steps):
            config = tuple((0, 0, d - 1) for d in steps)
            operand = Pad(config)(operand, self.worst(aval.dtype))
        op = SelectAndScatterAdd(
            self.select, self.window_dimensions, self.window_strides, self.padding
        )
        out = op(cotangent, operand)
        if holes:
            out = Slice((0,) * aval.ndim, typeof(out).shape, steps)(out)
        return [out, None]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        fronted = [batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims)]
        return type(self)(self.select, *self.window.with_dim(0))(*fronted), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        none, ones = ((0, 0), (0, 0)), (1, 1)
        compared = ("float", {"distinct": True, "constant": True})
        for select in "ge", "le":
            op = cls(select, (2, 2), (1, 2), ((1, 0), (0, 1)), ones, ones)
            yield op, [((3, 4), "float"), ((3, 4), *compared)]
        op = cls("ge", (2, 2), (1, 1), none, (1, 2), ones)
        yield op, [((3, 4), "float"), ((3, 4), *compared)]
        op = cls("ge", (6, 6), ones, ((3, 3), (3, 3)), ones, ones)
        yield op, [((2, 3), "float"), ((2, 3), *compared)]


@dataclass(frozen=True)
class SelectAndScatterAdd(_Selection):
    """Each element of the first operand, added at the extremum of its window."""

    reads_elements: ClassVar[bool] = True
    name: ClassVar[str] = "select_and_scatter_add"
    window_dimensions: Dims
    window_strides: Dims
    padding: Padding

    @property
    def window(self) -> Sliding:
        """How the windows slide over the second operand."""
        ones = (1,) * len(self.window_dimensions)
        return Sliding(
            self.window_dimensions, self.window_strides, self.padding, ones, ones
        )

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        source, operand = avals
        check_window_fields("select_and_scatter_add", operand, self.window)
        shape = self.window.out_shape(operand.shape)
        if source.shape != shape:
            raise TypeError(
                "select_and_scatter_add source must have an element for each window:"
                f" got shape {source.shape} for {shape} windows."
            )
        return ShapedArray(operand.shape, source.dtype, source.weak_type)

    def eval(self, *args: Any) -> Any:
        source, operand = args
        window = self.window
        tap = self.chosen_taps(operand, window)
        within = np.unravel_index(tap, self.window_dimensions or (1,))
        low = [p[0] for p in self.padding]
        at, inside = [], np.ones(tap.shape, bool)
        for d, size in enumerate(operand.shape):
            first = np.arange(tap.shape[d]) * self.window_strides[d] - low[d]
            first = first.reshape([-1 if i == d else 1 for i in range(tap.ndim)])
            at.append(first + within[d])
            inside &= (at[d] >= 0) & (at[d] < size)
        out = np.zeros(operand.shape, working_dtype(source.dtype))
        np.add.at(out, tuple(i[inside] for i in at), source[inside])
        return out.astype(source.dtype, copy=False)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [SelectAndGatherAdd(self.select, *self.window)(cotangent, args[1]), None]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        fronted = [batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims)]
        fields = self.window.with_dim(0)[:3]
        return type(self)(self.select, *fields)(*fronted), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        compared = ("float", {"distinct": True, "constant": True})
        for select in "ge", "le":
            op = cls(select, (2, 2), (2, 1), ((0, 0), (0, 0)))
            yield op, [((2, 3), "float"), ((4, 4), *compared)]
        op = cls("ge", (3, 2), (1, 2), ((1, 1), (0, 1)))
        yield op, [((3, 3), "float"), ((3, 5), *compared)]
        op = cls("ge", (6, 6), (1, 1), ((3, 3), (3, 3)))
        yield op, [((3, 4), "float"), ((2, 3), *compared)]
