"""Ops on rectangular parts of an array: slice, pad, dynamic_slice and its update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.dim import max_dim
from curta.core.key_use import KeyReuseSignature, Sink, Source
from curta.core.op import BatchDims, Batched
from curta.core.shapes import check_nonnegative, integer, sequence
from curta.core.tangents import is_linear
from curta.core.trace import typeof
from curta.primitives.elementwise import select_n, sub
from curta.primitives.families import Linear
from curta.primitives.structure import (
    BroadcastInDim,
    broadcast_batch,
    exact_scalar,
    full,
    instantiate,
    reduce_sum,
)


@dataclass(frozen=True)
class Slice(Linear):
    """Elements `start, start + stride, ...` below `limit`, along every dim."""

    name: ClassVar[str] = "slice"
    start_indices: tuple[int, ...]
    limit_indices: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        start, limit = self.start_indices, self.limit_indices
        self._check(x.shape)
        if self.strides is None:
            shape = [hi - lo for lo, hi in zip(start, limit, strict=True)]
        else:
            bounds = zip(start, limit, self.strides, strict=True)
            shape = [-((lo - hi) // step) for lo, hi, step in bounds]
        return x.update(shape=tuple(shape))

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        strides = self.strides or (1,) * len(self.start_indices)
        taken = np.zeros(avals[0].shape, bool)
        bounds = zip(self.start_indices, self.limit_indices, strides, strict=True)
        taken[tuple(slice(*b) for b in bounds)] = True
        return KeyReuseSignature(Sink(0, taken), Source(0))

    def _check(self, shape: tuple[int, ...]) -> None:
        start, limit, strides = self.start_indices, self.limit_indices, self.strides
        if len(start) != len(shape):
            raise TypeError(
                "slice start_indices must have length equal to the number of"
                f" dimensions of the operand, got indices {start} for operand shape"
                f" {shape}."
            )
        if len(limit) != len(start):
            raise TypeError(
                "slice limit_indices must have the same length as start_indices, got"
                f" start_indices {start} and limit_indices {limit}."
            )
        if any(hi > d for hi, d in zip(limit, shape, strict=True)):
            raise TypeError(
                "slice limit_indices must be less than or equal to operand shape, got"
                f" limit_indices {limit} for operand shape {shape}."
            )
        if any(lo < 0 for lo in start):
            raise TypeError(
                "slice start_indices must be greater than or equal to zero, got"
                f" start_indices of {start}."
            )
        if any(lo > hi for lo, hi in zip(start, limit, strict=True)):
            raise TypeError(
                "slice limit_indices must be greater than or equal to start_indices,"
                f" got start_indices {start} and limit_indices {limit}."
            )
        if strides is not None and len(strides) != len(shape):
            raise TypeError(
                "slice strides must have length equal to the number of dimensions of"
                f" the operand, got strides {strides} for operand shape {shape}."
            )
        check_nonnegative("slice strides", strides or ())
        if strides is not None and 0 in strides:
            raise TypeError(f"slice strides must be positive, got {strides}")

    def eval(self, *args: Any) -> Any:
        bounds = zip(self.start_indices, self.limit_indices, self._steps(), strict=True)
        return args[0][tuple(slice(lo, hi, step) for lo, hi, step in bounds)]

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        dims = zip(index, self.start_indices, self._steps(), strict=True)
        return operands[0].at(tuple(i * step + lo for i, lo, step in dims))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        (x,) = args
        config = tuple(
            (lo, d - (lo + (n - 1) * step + 1) if n else d - lo, step - 1)
            for lo, step, n, d in zip(
                self.start_indices,
                self._steps(),
                self.aval(x.aval).shape,
                x.aval.shape,
                strict=True,
            )
        )
        return [pad(cotangent, config)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None

        def widened(entries: tuple[int, ...], whole: int) -> tuple[int, ...]:
            return *entries[:dim], whole, *entries[dim:]

        op = Slice(
            widened(self.start_indices, 0),
            widened(self.limit_indices, axis.size),
            None if self.strides is None else widened(self.strides, 1),
        )
        return op(x), dim

    def _steps(self) -> tuple[int, ...]:
        return (1,) * len(self.start_indices) if self.strides is None else self.strides

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((1,), (3,)), [((4,), "any")]
        yield cls((0, 1), (2, 4), (1, 2)), [((3, 5), "any")]
        yield cls((1, 0), (1, 2)), [((3, 2), "any")]
        yield cls((3,), (3,), (2,)), [((3,), "any")]
        yield cls((), ()), [((), "any")]


PaddingConfig = tuple[tuple[int, int, int], ...]
"""(low, high, interior) for every dim; low and high may be negative."""


def padding_entries(config: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A padding_config as tuples of three integers, one for each dim of `shape`."""
    config = sequence("pad padding_config", config)
    check_padding_length(config, shape)
    return tuple(map(_padding_entry, config))


def _padding_entry(entry: Any) -> tuple[int, ...]:
    try:
        low, high, between = entry
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):  # a traced value
            raise
        message = f"{error}: padding_config has (low, high, interior) for every dim"
        raise type(error)(f"{message}, got {entry}.") from None
    return tuple(integer("padding_config", d) for d in (low, high, between))


def check_padding_length(config: Sequence[Any], shape: tuple[int, ...]) -> None:
    """Raise ValueError unless there is an entry for each dim."""
    if len(config) != len(shape):
        raise ValueError(
            "length of padding_config must equal the number of axes of operand,"
            f" got padding_config {tuple(config)} for operand shape {shape}"
        )


@dataclass(frozen=True)
class Pad(Linear):
    """The operand with padding before, after and between its elements.

    Negative padding cuts elements off.
    """

    name: ClassVar[str] = "pad"
    arity: ClassVar[int | None] = 2
    padding_config: PaddingConfig

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        x, padding = avals
        config = self.padding_config
        if padding.shape:
            raise ValueError(
                "padding_value must be a scalar; got"
                f" np.shape(padding_value)={padding.shape}"
            )
        check_padding_length(config, x.shape)
        if any(between < 0 for _, _, between in config):
            raise ValueError(
                "interior padding in padding_config must be nonnegative, got"
                f" padding_config {config}"
            )
        shape = tuple(
            lo + hi + _dilated(d, between)
            for (lo, hi, between), d in zip(config, x.shape, strict=True)
        )
        if any(d < 0 for d in shape):
            raise ValueError(
                "Dimension size after padding is not at least 0, got result shape"
                f" {shape}, for padding_config {config} and operand shape {x.shape}"
            )
        if x.dtype != padding.dtype:
            raise TypeError(
                "pad operand and padding_value must be same dtype: got"
                f" {x.dtype.name} and {padding.dtype.name}."
            )
        return ShapedArray(shape, x.dtype, x.weak_type and padding.weak_type)

    def eval(self, *args: Any) -> Any:
        x, padding = args
        config = self.padding_config
        dilated = [_dilated(d, c[2]) for d, c in zip(x.shape, config, strict=True)]
        shape = [d + lo + hi for d, (lo, hi, _) in zip(dilated, config, strict=True)]
        out = np.empty(shape, x.dtype)
        out[...] = padding
        target, source = [], []
        for (lo, hi, between), d in zip(config, dilated, strict=True):
            step = between + 1
            first = -(lo // step) if lo < 0 else 0  # the first element that stays
            last = (d - 1 + min(hi, 0)) // step  # the last one
            source.append(slice(first, max(last + 1, first)))
            begin = lo + first * step
            target.append(slice(begin, begin + max(last + 1 - first, 0) * step, step))
        out[tuple(target)] = x[tuple(source)]
        return out

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        x, padding = operands
        inside, source = None, []
        for i, (lo, hi, between), d in zip(
            index, self.padding_config, x.aval.shape, strict=True
        ):
            position, step = i + -lo, between + 1
            conditions = []
            if lo > 0:
                conditions.append(b.compare("ge", position, 0))
            if hi > 0:
                conditions.append(b.compare("lt", position, _dilated(d, between)))
            if between:
                conditions.append(b.compare("eq", position % step, 0))
                position = position // step
            for holds in conditions:
                inside = holds if inside is None else b.and_(inside, holds)
            source.append(position)
        if inside is None:
            return x.at(tuple(source))
        return b.guarded(inside, lambda: x.at(tuple(source)), padding.at(()))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self(*primals), self(*map(instantiate, tangents))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        x, padding = args
        negated = tuple((-lo, -hi, 0) for lo, hi, _ in self.padding_config)
        inner = pad(cotangent, negated)
        shape = typeof(inner).shape
        steps = tuple(between + 1 for _, _, between in self.padding_config)
        inner = Slice((0,) * len(shape), shape, steps)(inner)
        if not is_linear(padding):
            return [inner, None]
        rest = sub(_total(cotangent), _total(inner))
        return [inner if is_linear(x) else None, rest]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x, padding), (dim, padding_dim) = args, dims
        if dim is None:
            x, dim = broadcast_batch(x, axis.size, 0), 0
        config = (*self.padding_config[:dim], (0, 0, 0), *self.padding_config[dim:])
        if padding_dim is None:
            return Pad(config)(x, padding), dim
        aval = typeof(x)
        inner = Pad(config)(x, exact_scalar(0, dtypes.physical_dtype(aval.dtype)))
        inside = full(ShapedArray(aval.shape, np.dtype(bool)), True)
        inside = Pad(config)(inside, np.False_)
        padding = BroadcastInDim(typeof(inner).shape, (dim,))(padding)
        return select_n(inside, padding, inner), dim

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(((1, 2, 0),)), [((3,), "any"), ((), "any")]
        yield cls(((-1, 2, 1), (0, -1, 0))), [((3, 2), "any"), ((), "any")]
        yield cls(((3, -2, 2),)), [((3,), "any"), ((), "any")]
        yield cls(()), [((), "any"), ((), "any")]
        yield cls(((1, 1, 0),)), [((0,), "any"), ((), "any")]


def _dilated(size: int, between: int) -> int:
    return size + max_dim(size - 1, 0) * between


def _total(x: Any) -> Any:
    return reduce_sum(x, tuple(range(typeof(x).ndim)))


def pad(x: Any, config: PaddingConfig) -> Any:
    """`x` padded with zeros."""
    dtype = typeof(x).dtype
    return Pad(config)(x, exact_scalar(0, dtype))
