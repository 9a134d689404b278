"""Reductions with any function, over dims or over sliding windows.

The function is a jaxpr of scalars. Elements are taken in row-major order, each
combined with what there is so far, for all results at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.op import BatchDims, Batched, Op
from curta.core.stage import stage
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import typeof
from curta.primitives.composed import Composed
from curta.primitives.elementwise.select import select_n
from curta.primitives.indexing import DynamicSlice
from curta.primitives.shape import Squeeze
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import (
    BroadcastInDim,
    Transpose,
    batch_dim_at,
    exact_scalar,
    full,
    reshape,
)
from curta.primitives.windowed.sliding import (
    Dims,
    Padding,
    Sliding,
    check_window_fields,
    dilated,
)
from curta.transforms.jaxprs import batch_jaxpr, jvp_jaxpr, run_closed
from curta.transforms.vmap import BatchAxis


class VariadicReduction(Composed):
    """What both share: operands, then the initial value of each, a scalar."""

    multiple_results: ClassVar[bool] = True
    holds_jaxprs: ClassVar[bool] = True

    @property
    def function(self) -> ClosedJaxpr:
        """What two elements, or tuples of them, are combined with."""
        self._missing("eval")

    def vectorised(self, count: int) -> ClosedJaxpr:
        """The function on vectors of `count` elements."""
        inputs = (0,) * len(self.function.in_avals)
        return batch_jaxpr(self.function, BatchAxis(count), inputs, True)[0]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        n = len(primals) // 2
        if any(type(t) is not Zero for t in tangents[n:]):
            raise NotImplementedError(
                f"Gradient of general lax.{self.name} with non-zero tangents for"
                " initial values to reduction not implemented. Combine them with the"
                " result instead."
            )
        expansion = self.expansion([typeof(x) for x in primals])
        nonzero = tuple(type(t) is not Zero for t in tangents)
        jaxpr, out_nonzero = jvp_jaxpr(expansion, nonzero)
        given = [t for t in tangents if type(t) is not Zero]
        result = run_closed(jaxpr, [*primals, *given])
        dots = iter(result[n:])
        return result[:n], [
            next(dots) if f else zero_tangent(a)
            for a, f in zip(expansion.out_avals, out_nonzero, strict=True)
        ]

    def fronted(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> list[Any]:
        """The arguments, operands with their batch dim in front."""
        n = len(args) // 2
        if any(d is not None for d in dims[n:]):
            raise NotImplementedError(
                f"{self.name} batching is not implemented for initial values. Combine"
                " them with the result instead."
            )
        operands = [
            batch_dim_at(x, d, axis.size, 0)
            for x, d in zip(args[:n], dims[:n], strict=True)
        ]
        return [*operands, *args[n:]]


@dataclass(frozen=True)
class Reduce(VariadicReduction):
    """Folds the dims `dimensions`; `computation` is what the user wrote."""

    name: ClassVar[str] = "reduce"
    computation: Any
    jaxpr: ClosedJaxpr
    dimensions: Dims

    @property
    def function(self) -> ClosedJaxpr:
        return self.jaxpr

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        n = len(avals) // 2
        operands, inits = avals[:n], avals[n:]
        if any(a.shape for a in inits):
            raise ValueError(
                f"reduce found non-scalar initial value: {[a.shape for a in inits]}"
            )
        if [a.dtype for a in operands] != [a.dtype for a in inits]:
            raise TypeError(
                "reduce operand dtypes should match corresponding initial value dtypes,"
                f" got operands={list(operands)} and initial_values={list(inits)}"
            )
        return [
            a.update(shape=self._kept(a.shape), weak_type=a.weak_type and i.weak_type)
            for a, i in zip(operands, inits, strict=True)
        ]

    def _kept(self, shape: Dims) -> Dims:
        return tuple(d for i, d in enumerate(shape) if i not in self.dimensions)

    def compose(self, *args: Any) -> Any:
        n = len(args) // 2
        shape = typeof(args[0]).shape
        kept = self._kept(shape)
        count, length = math.prod(kept), math.prod(shape[d] for d in self.dimensions)
        rest = [d for d in range(len(shape)) if d not in self.dimensions]
        order = (*self.dimensions, *rest)
        rows = []
        for x in args[:n]:
            if order != tuple(range(len(shape))):
                x = Transpose(order)(x)
            rows.append(reshape(x, (length, count)))
        starts = [BroadcastInDim((count,), ())(x) for x in args[n:]]
        loop = Scan(self.vectorised(count), length, False, 0, n)
        return [reshape(x, kept) for x in loop(*starts, *rows)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        op = dataclasses.replace(self, dimensions=tuple(d + 1 for d in self.dimensions))
        return op(*self.fronted(axis, args, dims)), [0] * (len(args) // 2)


@dataclass(frozen=True)
class ReduceWindow(VariadicReduction):
    """Folds every window of the operands; what is not there is left out."""

    name: ClassVar[str] = "reduce_window"
    jaxpr: Jaxpr
    consts: tuple[Any, ...]
    window_dimensions: Dims
    window_strides: Dims
    padding: Padding
    base_dilation: Dims
    window_dilation: Dims

    # Consts are arrays, which have no hash.
    def __hash__(self) -> int:
        return hash((self.jaxpr, self.window))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ReduceWindow)
            and self.jaxpr is other.jaxpr
            and self.window == other.window
            and all(map(_same, self.consts, other.consts))
        )

    @property
    def function(self) -> ClosedJaxpr:
        return ClosedJaxpr(self.jaxpr, self.consts)

    @property
    def window(self) -> Sliding:
        """How the windows slide."""
        return Sliding.of(self)

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        n = len(avals) // 2
        operands, inits = avals[:n], avals[n:]
        if any(o.dtype != i.dtype for o, i in zip(operands, inits, strict=True)):
            raise TypeError(
                "reduce_window got inconsistent dtypes for operands and init_values:"
                f" got operand dtypes {[o.dtype for o in operands]} and init_value"
                f" dtypes {[i.dtype for i in inits]}."
            )
        if any(i.shape for i in inits):
            raise TypeError(
                "reduce_window expected init_values to be scalars but init_values have"
                f" shapes {[i.shape for i in inits]}."
            )
        check_window_fields("reduce_window", operands[0], self.window)
        shape = self.window.out_shape(operands[0].shape)
        return [ShapedArray(shape, o.dtype) for o in operands]

    def compose(self, *args: Any) -> Any:
        n = len(args) // 2
        window, shape = self.window, typeof(args[0]).shape
        out = window.out_shape(shape)
        count = math.prod(out)
        starts = [BroadcastInDim((count,), ())(x) for x in args[n:]]
        if not count:
            return [reshape(x, out) for x in starts]
        there = full(ShapedArray(shape, np.dtype(bool)), True)
        wide = [_widened(window, x) for x in (there, *args[:n])]
        steps = list(window.taps())
        taps = np.array(steps, np.int32).reshape(len(steps), len(shape))
        taps *= np.array(window.window_dilation, np.int32)
        function = self.vectorised(count)

        def step(*values: Any) -> Sequence[Any]:
            wide, carry, tap = values[: n + 1], values[n + 1 : -1], values[-1]
            parts = [_under(window, x, tap, out) for x in wide]
            result = run_closed(function, [*carry, *parts[1:]])
            return [
                select_n(parts[0], old, new)
                for old, new in zip(carry, result, strict=True)
            ]

        tap = ShapedArray((len(shape),), np.dtype(np.int32))
        body = stage(step, [*map(typeof, (*wide, *starts)), tap])
        loop = Scan(body, len(taps), False, n + 1, n)
        return [reshape(x, out) for x in loop(*wide, *starts, taps)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        op = ReduceWindow(self.jaxpr, self.consts, *self.window.with_dim(0))
        return op(*self.fronted(axis, args, dims)), [0] * (len(args) // 2)


def _same(x: Any, y: Any) -> bool:
    return x is y


def _widened(window: Sliding, x: Any) -> Any:
    """`x` with holes and padding, of any value."""
    config = tuple(
        (low, high, step - 1)
        for (low, high), step in zip(window.padding, window.base_dilation, strict=True)
    )
    return Pad(config)(x, exact_scalar(0, typeof(x).dtype))


def _under(window: Sliding, x: Any, tap: Any, out: Dims) -> Any:
    """The elements at `tap` of all windows of a widened operand, as a vector."""
    sizes = tuple(map(dilated, out, window.strides))
    starts = [Squeeze((0,))(Slice((d,), (d + 1,), (1,))(tap)) for d in range(len(out))]
    part = DynamicSlice(sizes)(x, *starts)
    part = Slice((0,) * len(out), sizes, window.strides)(part)
    return reshape(part, (math.prod(out),))


@dataclass(frozen=True, eq=False)
class SelectAndScatter(Op):
    """Elements of `source` scattered, with any function, to where windows choose.

    Operands: what `select` compares, the sources, and what lies where none goes.
    """

    name: ClassVar[str] = "select_and_scatter"
    holds_jaxprs: ClassVar[bool] = True
    select_jaxpr: Jaxpr
    select_consts: tuple[Any, ...]
    scatter_jaxpr: Jaxpr
    scatter_consts: tuple[Any, ...]
    window_dimensions: Dims
    window_strides: Dims
    padding: Padding

    # Consts are arrays, which have no hash.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        operand = avals[0]
        check_window_fields("select_and_scatter", operand, self._window)
        return operand

    @property
    def _window(self) -> Sliding:
        ones = (1,) * len(self.window_dimensions)
        return Sliding(
            self.window_dimensions, self.window_strides, self.padding, ones, ones
        )

    def eval(self, *args: Any) -> Any:
        operand, source, start = args
        window = self._window
        views = window.views(operand, start)
        there = window.views(np.ones(operand.shape, bool), False)
        numbers = np.arange(operand.size).reshape(operand.shape)
        numbers = window.views(numbers, -1).reshape(source.size, -1)
        views, there = (v.reshape(source.size, -1) for v in (views, there))
        best, chosen = views[:, 0], numbers[:, 0]
        for k in range(1, views.shape[1]):
            keeps = _applied(self.select_jaxpr, self.select_consts, best, views[:, k])
            keeps = (keeps & (chosen >= 0)) | ~there[:, k]
            best = np.where(keeps, best, views[:, k])
            chosen = np.where(keeps, chosen, numbers[:, k])
        out, given = np.full(operand.size, start), source.reshape(-1)
        for row, value in zip(chosen, given, strict=True):
            if row >= 0:
                out[row] = _applied(
                    self.scatter_jaxpr, self.scatter_consts, out[[row]], value[None]
                )[0]
        return out.reshape(operand.shape)


def _applied(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> Any:
    """A function of scalars on NumPy vectors."""
    axis = BatchAxis(args[0].size)
    closed = batch_jaxpr(ClosedJaxpr(jaxpr, tuple(consts)), axis, (0, 0), True)[0]
    return evaluate(closed.jaxpr, closed.consts, args)[0]
