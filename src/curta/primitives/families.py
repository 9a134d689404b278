"""Abstract bases that need no other op: structural ops and reductions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import zero_tangent
from curta.core.trace import typeof
from curta.primitives.monoids import Monoid


class Linear(Op):
    """A one-operand op that is its own derivative."""

    arity: ClassVar[int | None] = 1

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*tangents)


class NonDifferentiable(Op):
    """An op whose derivative is zero everywhere it exists (or has integer outputs)."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        avals = self.aval(*[typeof(p) for p in primals])
        if self.multiple_results:
            return out, [zero_tangent(a) for a in avals]
        return out, zero_tangent(avals)


class Folding(Op):
    """Folds elements with the operation of a monoid.

    The compiler uses `identity` and `combine`; `eval` is NumPy's reduction.
    """

    reads_elements: ClassVar[bool] = True
    monoid: ClassVar[Monoid]

    def identity(self, dtype: Any) -> Any:
        """The NumPy scalar that `combine` leaves alone."""
        return self.monoid.neutral(dtype)

    def combine(self, b: Any, acc: Any, x: Any) -> Any:
        """One step of the fold, on scalar expressions made by builder `b`."""
        return getattr(b, self.monoid.method)(acc, x)


@dataclass(frozen=True)
class Reduction(Folding):
    """Folds the dimensions `axes` of one operand."""

    arity: ClassVar[int | None] = 1
    sampled: ClassVar[tuple[Any, ...]] = ("number",)
    axes: tuple[int, ...]

    def out_dtype(self, dtype: Any) -> Any:
        """The dtype of the output; raises TypeError for a dtype the op refuses."""
        return dtype

    def with_axes(self, axes: tuple[int, ...]) -> Reduction:
        """The same reduction over other axes."""
        return type(self)(axes)

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        check_axes(self.name, self.axes, x)
        shape = tuple(d for i, d in enumerate(x.shape) if i not in self.axes)
        return ShapedArray(shape, self.out_dtype(x.dtype), x.weak_type)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        axes = tuple(a + (a >= dim) for a in self.axes)
        out_dim = dim - sum(a < dim for a in axes)
        return self.with_axes(axes)(x), out_dim

    @classmethod
    def samples(cls) -> Iterator[Any]:
        kind = cls.sampled
        yield cls((1,)), [((2, 3), *kind)]
        yield cls((0, 2)), [((2, 3, 2), *kind)]
        yield cls(()), [((2,), *kind)]
        yield cls((0,)), [((0, 3), *kind)]


def check_axes(name: str, axes: Sequence[int], operand: ShapedArray) -> None:
    """Raise ValueError unless `axes` are distinct dims of `operand`.

    TypeError for what is no integer.
    """
    if not all(isinstance(a, (int, np.integer)) for a in axes):
        raise TypeError(f"{name} axes must be integers, got {tuple(axes)}.")
    if len(set(axes)) != len(axes):
        raise ValueError(
            f"duplicate value in 'axes' of reduction: {tuple(axes)} in {name}"
        )
    if not all(0 <= a < operand.ndim for a in axes):
        raise ValueError(
            f"reduction axes {tuple(axes)} contains out-of-bounds indices for"
            f" {operand.str_short()} in {name}."
        )
