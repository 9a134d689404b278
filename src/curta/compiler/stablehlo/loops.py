"""Loops: `while`, and `scan` as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from curta.compiler.stablehlo.dims import number
from curta.compiler.stablehlo.elementwise import compare
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.locations import EqnLocation
from curta.compiler.stablehlo.lowering import (
    BlockBuilder,
    lower_closed,
    ordered_effects,
    rule,
)
from curta.compiler.stablehlo.shape import broadcast_in_dim, full, reshape, slice_of
from curta.compiler.stablehlo.types import physical, tensor_type
from curta.config import config
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.effects import Effect
from curta.primitives.indexing.dynamic import DynamicSlice

# ---------------------------------------------------------------------- any loop


def _carried(values: Sequence[HloValue]) -> list[HloValue]:
    """The arguments of a region of a loop."""
    return [HloValue(x.type, "iterArg") for x in values]


def _region(
    b: BlockBuilder, part: str, initial: Sequence[HloValue], effects: Sequence[Effect]
) -> BlockBuilder:
    """The builder of a region of a loop; first of its arguments are tokens."""
    with b.region([]) as inner:
        if isinstance(b.location, EqnLocation):
            inner.location = b.location._replace(part=part)
        inner.block.arguments = [HloValue(x.type, "iterArg") for x in initial]
        inner.tokens.update(zip(effects, inner.block.arguments))
        return inner


def while_loop(
    b: BlockBuilder,
    initial: Sequence[HloValue],
    effects: Sequence[Effect],
    goes_on: Callable[..., HloValue],
    step: Callable[..., Sequence[HloValue]],
) -> list[HloValue]:
    """What is carried out of `while goes_on(b, *carry): carry = step(b, *carry)`.

    Tokens of effects are carried, too, before all else.
    """
    count = len(effects)
    initial = [*[b.tokens[e] for e in effects], *initial]
    inner = _region(b, "cond", initial, effects)
    condition = inner.finish(goes_on(inner, *inner.block.arguments[count:]))
    inner = _region(b, "body", initial, effects)
    outs = step(inner, *inner.block.arguments[count:])
    body = inner.finish(*[inner.tokens[e] for e in effects], *outs)
    types = [x.type for x in initial]
    result = b.emit("stablehlo.while", initial, types, [condition, body])
    b.tokens.update(zip(effects, result))
    return result[count:]


@rule(While)
def _while(b: BlockBuilder, op: While, *args: HloValue) -> Sequence[HloValue]:
    """Constants are carried along, and given on unchanged."""
    first, second = op.cond_nconsts, op.cond_nconsts + op.body_nconsts
    effects = ordered_effects(op.effects)

    def goes_on(inner: BlockBuilder, *given: HloValue) -> HloValue:
        operands = [*given[:first], *given[second:]]
        return lower_closed(inner, op.cond_jaxpr, operands)[0]

    def step(inner: BlockBuilder, *given: HloValue) -> Sequence[HloValue]:
        outs = lower_closed(inner, op.body_jaxpr, given[first:])
        return [*given[:second], *outs]

    if not ordered_effects(op.cond_jaxpr.effects):
        return while_loop(b, args, effects, goes_on, step)[second:]

    # The region of a condition gives no token: whether to go on is carried.
    def step_and_ask(
        inner: BlockBuilder, _: HloValue, *given: HloValue
    ) -> Sequence[HloValue]:
        outs = step(inner, *given)
        return [goes_on(inner, *outs), *outs]

    initial = [goes_on(b, *args), *args]
    outs = while_loop(b, initial, effects, lambda _, more, *rest: more, step_and_ask)
    return outs[1 + second :]


# --------------------------------------------------------------------------- scan


@rule(Scan)
def _scan(b: BlockBuilder, op: Scan, *args: HloValue) -> Sequence[HloValue]:
    return _Scan(b, op).run(args)


class _Scan:
    """A scan: a loop over blocks of `unroll` iterations, and what is left of them.

    The arrays to be read and those to be written have a dim for the blocks, and one
    for the iterations of a block if there are several.
    """

    def __init__(self, b: BlockBuilder, op: Scan) -> None:
        self.b, self.op = b, op
        self.trips, self.rest = op.length, 0
        if op.unroll > 1:
            self.trips, self.rest = divmod(op.length, op.unroll)
            if self.trips == 1 and not self.rest:
                self.trips, self.rest = 0, op.length
        self.loops = is_symbolic_dim(self.trips) or self.trips > 0
        _, _, self.x_avals = op.parts([physical(a) for a in b.ins])
        self.y_avals = [physical(a) for a in b.outs[op.num_carry :]]
        _, _, self.row_avals = op.parts(op.jaxpr.in_avals)
        # Numbers of the program, of which the length may be one, are as Python's ints.
        self.index = np.dtype(np.int64 if config.jax_enable_x64 else np.int32)

    def run(self, args: Sequence[HloValue]) -> list[HloValue]:
        """The final carry, and the stacked results."""
        consts, carry, xs = self.op.parts(args)
        inside, outside = self._parted(xs)
        ys: list[HloValue] | None = None
        if self.loops or not self.rest:
            ys = [full(self.b, self._blocks(a), 0) for a in self.y_avals]
        if self.loops:
            assert ys is not None
            carry, ys = self._loop(consts, carry, inside, ys)
            if self.op.unroll > 1:
                whole = self.trips * self.op.unroll
                avals = [_of_length(a, whole) for a in self.y_avals]
                ys = [reshape(self.b, *pair) for pair in zip(ys, avals, strict=True)]
        if self.rest:
            avals = [_of_length(a, self.rest) for a in self.x_avals]
            carry, rows = self._unrolled(self.b, consts, carry, outside, avals)
            ys = rows if ys is None else self._joined(ys, rows)
        assert ys is not None
        return [*carry, *ys]

    # ---- blocks

    def _blocks(self, aval: ShapedArray) -> ShapedArray:
        """The aval of an array along which the loop runs, by blocks."""
        if self.op.unroll == 1:
            return _of_length(aval, self.trips)
        shape = (self.trips, self.op.unroll, *aval.shape[1:])
        return ShapedArray(shape, aval.dtype)

    def _parted(self, xs: Sequence[HloValue]) -> tuple[list[HloValue], list[HloValue]]:
        """What the loop reads, by blocks, and what is left."""
        if not self.loops:
            return [], list(xs)
        b, whole = self.b, self.trips * self.op.unroll
        first, last = (0, whole), (whole, self.op.length)
        if self.op.reverse:
            first, last = (self.rest, self.op.length), (0, self.rest)
        inside, outside = list(xs), []
        if self.rest:
            pairs = list(zip(xs, self.x_avals, strict=True))
            inside = [slice_of(b, x, a, [first]) for x, a in pairs]
            outside = [slice_of(b, x, a, [last]) for x, a in pairs]
        if self.op.unroll > 1:
            avals = map(self._blocks, self.x_avals)
            inside = [reshape(b, *pair) for pair in zip(inside, avals, strict=True)]
        return inside, outside

    def _joined(
        self, ys: Sequence[HloValue], rows: Sequence[HloValue]
    ) -> list[HloValue]:
        """The results of the loop and those of the iterations left."""
        result = []
        for y, row, aval in zip(ys, rows, self.y_avals, strict=True):
            parts = [row, y] if self.op.reverse else [y, row]
            type_ = tensor_type(aval)
            result.append(self.b.op("concatenate", parts, type_, dimension=0))
        return result

    # ---- the loop

    def _loop(
        self,
        consts: Sequence[HloValue],
        carry: Sequence[HloValue],
        xs: Sequence[HloValue],
        ys: Sequence[HloValue],
    ) -> tuple[list[HloValue], list[HloValue]]:
        """The carry and the results; what is read and constants are carried along."""
        counter = len(xs) + len(consts)
        end = counter + 1 + len(carry)

        def goes_on(b: BlockBuilder, *given: HloValue) -> HloValue:
            count = number(b, self.trips, given[counter].type)
            return compare(b, "LT", given[counter], count, kind="SIGNED")

        def step(b: BlockBuilder, *given: HloValue) -> Sequence[HloValue]:
            count, carry = given[counter], given[counter + 1 : end]
            index = self._reversed(b, count) if self.op.reverse else count
            rows = [
                self._read(b, x, self._blocks(a), index)
                for x, a in zip(given, self.x_avals, strict=False)
            ]
            outs, out_rows = self._block(b, given[len(xs) : counter], carry, rows)
            ys = [
                self._write(b, y, row, self._blocks(a), index)
                for y, row, a in zip(given[end:], out_rows, self.y_avals, strict=True)
            ]
            one = b.constant(self.index.type(1))
            count = b.op("add", [count, one], count.type)
            return [*given[:counter], count, *outs, *ys]

        start = self.b.constant(self.index.type(0))
        initial = [*xs, *consts, start, *carry, *ys]
        effects = ordered_effects(self.op.effects)
        result = while_loop(self.b, initial, effects, goes_on, step)
        return result[counter + 1 : end], result[end:]

    def _reversed(self, b: BlockBuilder, count: HloValue) -> HloValue:
        """`trips - count - 1`."""
        trips = number(b, self.trips, count.type)
        left = b.op("subtract", [trips, count], count.type)
        one = b.constant(self.index.type(1))
        return b.op("subtract", [left, one], count.type)

    def _block(
        self,
        b: BlockBuilder,
        consts: Sequence[HloValue],
        carry: Sequence[HloValue],
        rows: Sequence[HloValue],
    ) -> tuple[Sequence[HloValue], Sequence[HloValue]]:
        if self.op.unroll == 1:
            return self._step(b, consts, carry, rows)
        avals = [_of_length(a, self.op.unroll) for a in self.x_avals]
        return self._unrolled(b, consts, carry, rows, avals)

    def _step(
        self,
        b: BlockBuilder,
        consts: Sequence[HloValue],
        carry: Sequence[HloValue],
        rows: Sequence[HloValue],
    ) -> tuple[Sequence[HloValue], Sequence[HloValue]]:
        outs = b.call(self.op.jaxpr, "closed_call", [*consts, *carry, *rows])
        return outs[: self.op.num_carry], outs[self.op.num_carry :]

    def _unrolled(
        self,
        b: BlockBuilder,
        consts: Sequence[HloValue],
        carry: Sequence[HloValue],
        xs: Sequence[HloValue],
        avals: Sequence[ShapedArray],
    ) -> tuple[list[HloValue], list[HloValue]]:
        """Iterations over all rows of `xs`, of `avals`, one after the other."""
        count = self.op.unroll if b is not self.b else self.rest
        steps: list[Sequence[HloValue]] = []
        order = range(count)
        for i in reversed(order) if self.op.reverse else order:
            parts = [
                slice_of(b, x, a, [(i, i + 1)]) for x, a in zip(xs, avals, strict=True)
            ]
            rows = [
                reshape(b, x, a) for x, a in zip(parts, self.row_avals, strict=True)
            ]
            carry, results = self._step(b, consts, carry, rows)
            steps.append(results)
        if self.op.reverse:
            steps.reverse()
        return list(carry), [
            self._stacked(b, rows, _of_length(a, count))
            for rows, a in zip(zip(*steps, strict=True), self.y_avals, strict=True)
        ]

    def _stacked(
        self, b: BlockBuilder, rows: Sequence[HloValue], aval: ShapedArray
    ) -> HloValue:
        row, dims = _of_length(aval, 1), range(1, aval.ndim)
        rows = [broadcast_in_dim(b, x, row, dims) for x in rows]
        if len(rows) == 1:
            return rows[0]
        return b.op("concatenate", rows, tensor_type(aval), dimension=0)

    # ---- rows, by functions with the names that JAX gives them

    def _read(
        self, b: BlockBuilder, x: HloValue, aval: ShapedArray, index: HloValue
    ) -> HloValue:
        def write(b: BlockBuilder, x: HloValue, index: HloValue) -> Sequence[HloValue]:
            op = DynamicSlice(_of_length(aval, 1).shape)
            starts = [ShapedArray((), self.index)] * aval.ndim
            args = [x, index, *self._zeros(b, aval.ndim - 1)]
            (part,) = b.apply(op, [aval, *starts], *args)
            return [reshape(b, part, ShapedArray(aval.shape[1:], aval.dtype))]

        types = [x.type, index.type]
        function = b.program.helper("dynamic_index_in_dim", types, write)
        return b.call_helper(function, [x, index])[0]

    def _write(
        self,
        b: BlockBuilder,
        y: HloValue,
        row: HloValue,
        aval: ShapedArray,
        index: HloValue,
    ) -> HloValue:
        def write(
            b: BlockBuilder, y: HloValue, row: HloValue, index: HloValue
        ) -> Sequence[HloValue]:
            row = broadcast_in_dim(b, row, _of_length(aval, 1), range(1, aval.ndim))
            args = [y, row, index, *self._zeros(b, aval.ndim - 1)]
            return [b.op("dynamic_update_slice", args, y.type)]

        types = [y.type, row.type, index.type]
        function = b.program.helper("dynamic_update_index_in_dim", types, write)
        return b.call_helper(function, [y, row, index])[0]

    def _zeros(self, b: BlockBuilder, count: int) -> list[HloValue]:
        return [b.constant(self.index.type(0)) for _ in range(count)]


def _of_length(aval: ShapedArray, length: int) -> ShapedArray:
    return ShapedArray((length, *aval.shape[1:]), aval.dtype)
