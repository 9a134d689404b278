"""`RaggedAllToAll`: slices of different sizes handed from example to example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.axis_names import unbound_axis
from curta.core.op import BatchDims, Batched
from curta.core.tangents import Zero, is_linear, zero_tangent
from curta.core.trace import current_trace, typeof
from curta.primitives.collective import Collective, Groups, Name
from curta.primitives.elementwise import add, and_, ge, lt, mul, sub
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.elementwise.select import SelectN
from curta.primitives.exchange import AllGather, AllToAll, PsumScatter
from curta.primitives.indexing import (
    Gather,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterAdd,
    ScatterDimensionNumbers,
)
from curta.primitives.reduction import ReduceMax
from curta.primitives.shape import Iota
from curta.primitives.structure import (
    BroadcastInDim,
    batch_dim_at,
    full,
    instantiate,
    reshape,
    zeros,
)
from curta.transforms.vmap import batch

_INDEX = np.dtype("int32")
_NUMBERS = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")


@dataclass(frozen=True)
class RaggedAllToAll(Collective):
    """Slices of rows of the operand, written to rows of the receivers' outputs.

    The operands are those of `curta.lax.ragged_all_to_all`.
    """

    name: ClassVar[str] = "ragged_all_to_all"
    axis_names: tuple[Name, ...]
    groups: Groups | None = None

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        operand, output, *numbers = avals
        for name, x in zip(_NUMBERS, numbers, strict=True):
            if x.dtype.kind not in "iu":
                raise ValueError(f"ragged_all_to_all {name} must be integer type.")
            if x.ndim != 1 or x.shape[0] < 1:
                raise ValueError(
                    f"ragged_all_to_all {name} must be rank 1 with positive dimension"
                    f" size, but got shape {x.shape}"
                )
        _check_slices(operand, output, numbers, self._group_size())
        out: ShapedArray = super().aval(output.strip_weak_type())
        return out

    def _axis_sizes(self) -> list[int]:
        if self.groups is not None:
            return [len(self.groups[0])]
        sizes = current_trace().axis_sizes()
        if unbound := [n for n in self.axis_names if n not in sizes]:
            raise NameError(unbound_axis(unbound[0], "ragged_all_to_all"))
        return [sizes[n] for n in self.axis_names]

    def _group_size(self) -> int:
        return math.prod(self._axis_sizes())

    # ---- derivatives: linear in what is sent and in what it is written to

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        out = self(*primals)
        if all(type(t) is Zero for t in tangents[:2]):
            return out, zero_tangent(typeof(out))
        return out, self(*map(instantiate, tangents[:2]), *primals[2:])

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        operand, output, *numbers = args
        sent = left = None
        if is_linear(operand):
            count = operand.aval.shape[0]
            source = self._sources(count, output.aval.shape[0], numbers)
            sent = self._summed(cotangent, source, count)
        if is_linear(output):
            nothing = zeros(typeof(operand) if sent is None else operand.aval)
            left = self(nothing, cotangent, *numbers)
        return [sent, left, *[None] * len(numbers)]

    # ---- examples

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        if axis.name in self.axis_names:
            outs, out_dims = batch(lambda *xs: [self._exchanged(*xs)], axis, args, dims)
            return outs[0], out_dims[0]
        size = axis.size
        operand, output = (
            batch_dim_at(x, d, size, 0) for x, d in zip(args[:2], dims[:2])
        )
        counts = [typeof(operand).shape[1], typeof(output).shape[1]]
        begins, sizes, offsets, received = (
            batch_dim_at(x, d, size, 1) for x, d in zip(args[2:], dims[2:])
        )
        # All examples' rows are one array: the slices of each begin further on.
        begins, offsets = (_further(x, n) for x, n in zip((begins, offsets), counts))
        numbers = [_joined(x) for x in (begins, sizes, offsets, received)]
        out = self(_joined(operand), _joined(output), *numbers)
        return reshape(out, typeof(output).shape), 0

    def _exchanged(self, operand: Any, output: Any, *numbers: Any) -> Any:
        """The op, made of other collectives."""
        self.aval(*map(typeof, (operand, output, *numbers)))
        count = typeof(operand).shape[0]
        source = self._sources(count, typeof(output).shape[0], numbers)
        for name in reversed(self.axis_names):
            operand = self._along(AllGather, name)(operand)
        total = count * self._group_size()
        result = _rows(operand, source)
        return SelectN()(_each_row(lt(source, _number(total)), output), output, result)

    def _summed(self, cotangent: Any, source: Any, count: int) -> Any:
        """For each row that was sent the sum of the cotangents of its receivers."""
        aval = typeof(cotangent).unplaced()
        shape = (count * self._group_size(), *aval.shape[1:])
        window = tuple(range(1, len(shape)))
        op = ScatterAdd(
            ScatterDimensionNumbers(window, (0,), (0,)),
            mode=GatherScatterMode.FILL_OR_DROP,
        )
        nothing = zeros(aval.update(shape=shape))
        total = op(nothing, reshape(source, (*typeof(source).shape, 1)), cotangent)
        for name in self.axis_names:
            total = self._along(PsumScatter, name)(total)
        return total

    def _along(self, kind: Any, name: Name) -> Any:
        """The collective of rows, those of one example after those of another."""
        if self.groups is not None:
            return kind((name,), len(self.groups[0]), 0, True, self.groups)
        return kind((name,), current_trace().axis_sizes()[name], 0, True)

    def _sources(self, sent: int, rows: int, numbers: Sequence[Any]) -> Any:
        """For each row of the output its index among the rows of all senders.

        It is their number for rows that nobody writes to; where several do, the last
        one counts.
        """
        begins, sizes, offsets = map(self._received, numbers[:3])
        slices = typeof(begins).shape[0]
        senders = self._group_size()
        first = np.repeat(np.arange(senders, dtype=_INDEX) * sent, slices // senders)
        shift = sub(add(begins, first), offsets)
        row = Iota(_INDEX, (rows, slices), 0)()
        inside = and_(
            ge(row, _each_column(offsets, rows)),
            lt(row, _each_column(add(offsets, sizes), rows)),
        )
        nobody = full(typeof(row).unplaced(), -1)
        last = ReduceMax((1,))(
            SelectN()(inside, nobody, Iota(_INDEX, (rows, slices), 1)())
        )
        source = add(Iota(_INDEX, (rows,), 0)(), _rows(shift, last))
        none = full(typeof(source).unplaced(), sent * senders)
        return SelectN()(ge(last, _number(0)), none, source)

    def _received(self, x: Any) -> Any:
        """The numbers that all examples have about the slices for this one."""
        sizes, whole = self._axis_sizes(), typeof(x).shape
        x = ConvertElementType(_INDEX)(x)
        x = reshape(x, (*sizes, whole[0] // math.prod(sizes)))
        for k, name in enumerate(self.axis_names):
            x = AllToAll((name,), k, k, False, self.groups)(x)
        return reshape(x, whole)


def _check_slices(
    operand: ShapedArray, output: ShapedArray, numbers: Sequence[ShapedArray], size: int
) -> None:
    if operand.shape[1:] != output.shape[1:] or operand.dtype != output.dtype:
        raise ValueError(
            "ragged_all_to_all operand and output must have rows of one shape and"
            f" dtype, but got {operand.str_short()} and {output.str_short()}"
        )
    counts = {x.shape[0] for x in numbers}
    if len(counts) > 1 or min(counts) % size:
        raise ValueError(
            f"ragged_all_to_all {', '.join(_NUMBERS)} must be of one length that is a"
            f" multiple of the axis size {size}, but got {[x.shape for x in numbers]}"
        )


def _number(n: int) -> Any:
    return np.asarray(n, _INDEX)[()]


def _joined(x: Any) -> Any:
    """The first two dims as one."""
    shape = typeof(x).shape
    return reshape(x, (shape[0] * shape[1], *shape[2:]))


def _further(x: Any, rows: int) -> Any:
    """Offsets of all examples, along dim 1, in their joined rows."""
    aval = typeof(x).unplaced()
    example = Iota(aval.dtype, aval.shape, 1)()
    return add(x, mul(example, np.asarray(rows, aval.dtype)[()]))


def _each_column(x: Any, rows: int) -> Any:
    return BroadcastInDim((rows, *typeof(x).shape), (1,))(x)


def _each_row(x: Any, like: Any) -> Any:
    return BroadcastInDim(typeof(like).shape, (0,))(x)


def _rows(x: Any, indices: Any) -> Any:
    """Rows of `x`, zeros where there is none."""
    shape = typeof(x).shape
    op = Gather(
        GatherDimensionNumbers(tuple(range(1, len(shape))), (0,), (0,)),
        (1, *shape[1:]),
        mode=GatherScatterMode.FILL_OR_DROP,
        fill_value=0,
    )
    return op(x, reshape(indices, (*typeof(indices).shape, 1)))
