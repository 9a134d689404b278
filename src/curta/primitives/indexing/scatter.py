"""The scatters besides scatter-add: replacing, subtracting, multiplying, extrema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.key_use import Forward, KeyReuseSignature, Sink
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import typeof
from curta.primitives.base import Elementwise
from curta.primitives.elementwise import (
    add,
    div,
    eq,
    max_,
    min_,
    mul,
    neg,
    select_n,
    sub,
)
from curta.primitives.indexing.gather import (
    CLIP,
    PROMISE_IN_BOUNDS,
    ScatterAdd,
    Scattering,
    ScatterSum,
)
from curta.primitives.shape import Iota
from curta.primitives.structure import add_tangents, full, instantiate, reshape, zeros


@dataclass(frozen=True)
class Scatter(Scattering):
    """The updates replace what was there; of several to one element, the last."""

    name: ClassVar[str] = "scatter"
    sampled: ClassVar[tuple[Any, ...]] = ("any",)
    key_signature: ClassVar[KeyReuseSignature | None] = KeyReuseSignature(
        Sink(2), Forward(0, 0)
    )

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        operand, indices, updates = primals
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            out = self(operand, indices, updates)
            return out, zero_tangent(typeof(out))
        d_operand, d_updates = instantiate(tangents[0]), instantiate(tangents[2])
        if self.unique_indices:
            out = self(operand, indices, updates)
            return out, self(d_operand, indices, d_updates)
        return self._masked_jvp(operand, indices, updates, d_operand, d_updates)

    def _masked_jvp(
        self, operand: Any, indices: Any, updates: Any, d_operand: Any, d_updates: Any
    ) -> tuple[Any, Any]:
        """Output and tangent where updates may overlap.

        Which update remains is found by scattering their numbers. The others, and what
        the operand had there, are replaced by zeros, so that adding is replacing.
        """
        aval, updates_aval = typeof(operand), typeof(updates)
        numbers = self._numbered(updates_aval)
        nothing = zeros(ShapedArray(aval.shape, typeof(numbers).dtype))
        written = self(nothing, indices, numbers)
        remaining = self.gathered(written, indices, updates_aval)
        op = self._adding(aval.dtype)

        def untouched(x: Any) -> Any:
            return select_n(eq(written, zeros(typeof(written))), zeros(aval), x)

        def remains(y: Any) -> Any:
            return select_n(eq(numbers, remaining), zeros(updates_aval), y)

        x, y = untouched(operand), remains(updates)
        dx, dy = untouched(d_operand), remains(d_updates)
        return op(x, indices, y), op(dx, indices, dy)

    def _numbered(self, updates: ShapedArray) -> Any:
        """1, 2, 3 ... for the windows of the updates."""
        shape = list(updates.shape)
        for d in self.dimension_numbers.update_window_dims:
            shape[d] = 1
        dtype = np.dtype(np.uint32)
        numbers = reshape(Iota(dtype, (math.prod(shape),), 0)(), tuple(shape))
        return add(numbers, full(ShapedArray(updates.shape, dtype), 1))

    def _adding(self, dtype: Any) -> Any:
        how = (self.indices_are_sorted, self.unique_indices, self.mode)
        return ScatterAdd.of(dtype, self.dimension_numbers, *how)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        operand, indices, updates = args
        if not self.unique_indices:
            raise NotImplementedError(
                "scatter transpose is only implemented where unique_indices=True"
            )
        aval = updates.aval if is_linear(updates) else typeof(updates)
        to_operand = to_updates = None
        if is_linear(operand):
            nothing = zeros(ShapedArray(aval.shape, typeof(cotangent).dtype))
            to_operand = self(cotangent, indices, nothing)
        if is_linear(updates):
            to_updates = self.cotangent_of_updates(cotangent, indices, updates)
        return [to_operand, None, to_updates]


@dataclass(frozen=True)
class ScatterSub(ScatterSum):
    """The updates are subtracted; several to one element are all subtracted."""

    name: ClassVar[str] = "scatter-sub"
    element_op: ClassVar[Elementwise | None] = sub

    def combined(self, b: Any, old: Any, new: Any) -> Any:
        return b.sum(old, b.neg(new))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        operand, indices, updates = args
        to_updates = None
        if is_linear(updates):
            to_updates = self.cotangent_of_updates(neg(cotangent), indices, updates)
        return [cotangent if is_linear(operand) else None, None, to_updates]


@dataclass(frozen=True)
class ScatterMul(Scattering):
    """What was there is multiplied by the updates."""

    name: ClassVar[str] = "scatter-mul"
    makes_nan: ClassVar[bool] = True
    element_op: ClassVar[Elementwise | None] = mul

    def combined(self, b: Any, old: Any, new: Any) -> Any:
        return b.product(old, new)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        operand, indices, updates = primals
        out = self(operand, indices, updates)
        total: Any = zero_tangent(typeof(out))
        if type(tangents[0]) is not Zero:
            total = self(tangents[0], indices, updates)
        if type(tangents[2]) is not Zero:
            self._require_unique()
            how = (self.indices_are_sorted, self.unique_indices, self.mode)
            op = ScatterAdd.of(typeof(operand).dtype, self.dimension_numbers, *how)
            change = op(zeros(typeof(operand)), indices, tangents[2])
            total = add_tangents(total, mul(operand, change))
        return out, total

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        operand, indices, updates = args
        if is_linear(operand):
            return [self(cotangent, indices, updates), None, None]
        self._require_unique()
        product = mul(cotangent, operand)
        return [None, None, self.cotangent_of_updates(product, indices, updates)]

    def _require_unique(self) -> None:
        if not self.unique_indices:
            raise NotImplementedError(
                "scatter_mul gradients are only implemented if `unique_indices=True`"
            )


@dataclass(frozen=True)
class _ScatterExtremum(Scattering):
    """What scatter-min and scatter-max share."""

    sampled: ClassVar[tuple[Any, ...]] = ("real", {"distinct": True})

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        operand, indices, updates = primals
        out = self(operand, indices, updates)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, zero_tangent(typeof(out))
        d_operand, d_updates = instantiate(tangents[0]), instantiate(tangents[2])
        change = self._change(primals, out, d_operand, d_updates)
        how = (self.indices_are_sorted, self.unique_indices, self.mode)
        op = ScatterAdd.of(typeof(operand).dtype, self.dimension_numbers, *how)
        return out, op(d_operand, indices, change)

    def _change(
        self, primals: Sequence[Any], out: Any, d_operand: Any, d_updates: Any
    ) -> Any:
        """What the updates' tangents add: the mean of those of the values that tie.

        Every update to an element takes away an equal part of the operand's tangent
        there, all of it if the operand's value was not kept.
        """
        operand, indices, updates = primals
        aval, updates_aval = typeof(operand), typeof(updates)
        count = ScatterAdd.of(aval.dtype, self.dimension_numbers, mode=self.mode)
        one, nothing = full(updates_aval, 1), zeros(updates_aval)
        # What is read for updates that are dropped is of no account.
        reads = CLIP if self.mode is CLIP else PROMISE_IN_BOUNDS

        def at_updates(x: Any) -> Any:
            return self.gathered(x, indices, updates_aval, mode=reads)

        before, result = at_updates(operand), at_updates(out)
        wins, kept = eq(updates, result), eq(before, result)
        winners = select_n(wins, nothing, one)
        winners = at_updates(count(zeros(aval), indices, winners))
        writers = at_updates(count(zeros(aval), indices, one))
        shared = div(one, add(winners, one))
        part = select_n(wins, nothing, select_n(kept, div(one, winners), shared))
        left = sub(select_n(kept, nothing, shared), one)
        loss = mul(at_updates(d_operand), div(left, writers))
        return add(loss, mul(d_updates, part))


@dataclass(frozen=True)
class ScatterMin(_ScatterExtremum):
    """The lesser of what was there and the updates remains."""

    name: ClassVar[str] = "scatter-min"
    element_op: ClassVar[Elementwise | None] = min_


@dataclass(frozen=True)
class ScatterMax(_ScatterExtremum):
    """The greater of what was there and the updates remains."""

    name: ClassVar[str] = "scatter-max"
    element_op: ClassVar[Elementwise | None] = max_
