"""`ScatterApply`: a function applied to elements whose indices are data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.op import BatchDims, Batched
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.primitives.composed import Composed
from curta.primitives.elementwise import gt, select_n, sub
from curta.primitives.indexing import (
    GatherScatterMode,
    Scatter,
    ScatterAdd,
    ScatterDimensionNumbers,
)
from curta.primitives.indexing.numbers import batched_both
from curta.primitives.reduction import ReduceOr
from curta.primitives.structure import batch_dim_at, full, reshape, zeros
from curta.transforms.jaxprs import batch_jaxpr, run_closed
from curta.transforms.vmap import BatchAxis

INT32 = np.dtype(np.int32)


@dataclass(frozen=True)
class ScatterApply(Composed):
    """The operand with a function applied to windows of it, once for each index.

    Operands: the array, the index vectors of the windows, and an array of the shape of
    updates, whose elements are not looked at. `update_jaxpr` takes an old element, and
    one of those.
    """

    name: ClassVar[str] = "scatter"
    holds_jaxprs: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {"update_consts": None}
    hidden_fields: ClassVar[tuple[str, ...]] = ("function",)
    dimension_numbers: ScatterDimensionNumbers
    indices_are_sorted: bool
    unique_indices: bool
    mode: GatherScatterMode
    update_jaxpr: Jaxpr
    function: ClosedJaxpr

    def params(self) -> dict[str, Any]:
        return {**super().params(), "update_consts": tuple(self.function.consts)}

    def _counting(self) -> Any:
        """The op that counts how often each element is meant."""
        how = (self.indices_are_sorted, self.unique_indices, self.mode)
        return ScatterAdd.of(INT32, self.dimension_numbers, *how)

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        operand, indices, updates = avals
        counted = [a.update(dtype=INT32) for a in (operand, updates)]
        self._counting().aval(counted[0], indices, counted[1])
        return operand

    def compose(self, *args: Any) -> Any:
        return self._once(*args) if self.unique_indices else self._repeated(*args)

    def _once(self, x: Any, indices: Any, updates: Any) -> Any:
        """The result if no element is meant twice: read, apply, write back."""
        write = Scatter(
            self.dimension_numbers, self.indices_are_sorted, True, self.mode
        )
        aval, size = typeof(updates), typeof(updates).size
        function = batch_jaxpr(self.function, BatchAxis(size), (0, 0), True)[0]
        old = write.gathered(x, indices, aval, mode=GatherScatterMode.CLIP)
        nothing = zeros(ShapedArray((size,), aval.dtype))
        (new,) = run_closed(function, [reshape(old, (size,)), nothing])
        return write(x, indices, reshape(new, aval.shape))

    def _repeated(self, x: Any, indices: Any, updates: Any) -> Any:
        aval, size = typeof(x), typeof(x).size
        counted = ShapedArray(aval.shape, INT32)
        ones = full(ShapedArray(typeof(updates).shape, INT32), 1)
        counts = self._counting()(zeros(counted), indices, ones)
        function = batch_jaxpr(self.function, BatchAxis(size), (0, 0), True)[0]
        nothing = ShapedArray((size,), aval.dtype)

        def left(x: Any, counts: Any) -> Sequence[Any]:
            return [ReduceOr((0,))(gt(counts, zeros(typeof(counts))))]

        def again(x: Any, counts: Any) -> Sequence[Any]:
            (new,) = run_closed(function, [x, zeros(nothing)])
            meant = gt(counts, zeros(typeof(counts)))
            return [select_n(meant, x, new), sub(counts, full(typeof(counts), 1))]

        carry = [reshape(x, (size,)), reshape(counts, (size,))]
        avals = [typeof(c).strip_weak_type() for c in carry]
        loop = While(stage(left, avals), stage(again, avals), 0, 0)
        return reshape(loop(*carry)[0], aval.shape)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> NoReturn:
        raise NotImplementedError(
            "scatter_apply JVP not implemented: the function may be applied several"
            " times to an element. Apply it to what gather gives, and scatter that."
        )

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        operand, indices, updates = (
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        )
        numbers = batched_both(self._counting().gather_numbers())
        op = dataclasses.replace(
            self, dimension_numbers=ScatterDimensionNumbers(*numbers)
        )
        return op(operand, indices, updates), 0
