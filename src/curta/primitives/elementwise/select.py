"""Choosing elements: select_n and clamp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._settings.api_version import SELECT_N_CLAMPS
from curta.core.avals import ShapedArray
from curta.core.key_use import KeyReuseSignature, Sink, Source
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.primitives.base import (
    ANY,
    Elementwise,
    Family,
    broadcast_to,
    check_same_dtypes,
    const,
    full_like,
    wrapped,
)
from curta.primitives.elementwise.bitwise import and_
from curta.primitives.elementwise.comparison import eq, gt, lt
from curta.primitives.structure import (
    BroadcastInDim,
    batch_dim_at,
    zero_like_output,
)
from curta.primitives.taylor import joined_terms


class SelectN(Op):
    """The element of `cases[which]`; `which` is a boolean or integer array or scalar.

    Where `which` is out of range the first or the last case is taken.
    """

    name: ClassVar[str] = "select_n"

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        return KeyReuseSignature(*[Sink(i) for i in range(1, len(avals))], Source(0))

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        if not avals:
            raise TypeError("select_n takes `which` and at least one case")
        which, *cases = avals
        _check_select(which, cases)
        return cases[0].update(weak_type=all(c.weak_type for c in cases))

    def eval(self, *args: Any) -> Any:
        which, *cases = args
        if len(cases) == 2 and which.dtype.kind == "b":
            return np.where(which, cases[1], cases[0])
        out = cases[0]
        for k, case in enumerate(cases[1:], 1):
            out = np.where(which >= k, case, out)
        return out

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        which, *cases = operands
        choice = which.at(index if which.aval.shape else ())
        out = cases[0].at(index)
        if which.aval.dtype.kind == "b":
            return b.select(choice, cases[1].at(index), out) if cases[1:] else out
        for k, case in enumerate(cases[1:], 1):
            there = b.compare("ge", choice, b.const(k, choice.dtype))
            out = b.select(there, case.at(index), out)
        return out

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        which, *cases = primals
        out = self(which, *cases)
        nonzero = [t for t in tangents[1:] if type(t) is not Zero]
        if not nonzero:
            return out, zero_like_output(out)
        zeros = full_like(nonzero[0], 0)
        given = [zeros if type(t) is Zero else t for t in tangents[1:]]
        return out, self(which, *given)

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        which, *cases = series
        return joined_terms(partial(self, which[0]), k, cases)

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        which, *cases = args
        zeros = full_like(cotangent, 0)
        result: list[Any] = [None]
        boolean = typeof(which).dtype.kind == "b"
        if not boolean and SELECT_N_CLAMPS.applies():
            which = clamp(const(which, 0), which, const(which, len(cases) - 1))
        for k, case in enumerate(cases):
            if not is_linear(case):
                result.append(None)
            elif boolean and k == 0:
                result.append(self(which, cotangent, zeros))
            else:
                chosen = which if boolean else eq(which, const(which, k))
                result.append(self(chosen, zeros, cotangent))
        return result

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (which, *cases), (which_dim, *case_dims) = args, dims
        shapes = {typeof(c).shape for c in cases}
        if len(shapes) == 1 and len(set(case_dims)) == 1:
            # Where all agree, nothing needs to move.
            if which_dim == case_dims[0]:
                which = _spread(which, which_dim, typeof(cases[0]).shape)
                return self(which, *cases), which_dim
            if typeof(which).ndim == 0 and case_dims[0] is not None:
                return self(which, *cases), case_dims[0]
        if typeof(which).shape:
            which = batch_dim_at(which, which_dim, axis.size, 0)
        if any(typeof(c).shape for c in cases):
            cases = [
                batch_dim_at(c, d, axis.size, 0)
                for c, d in zip(cases, case_dims, strict=True)
            ]
            which = _spread(which, 0, typeof(cases[0]).shape)
        else:
            cases = [broadcast_to(c, typeof(which).shape) for c in cases]
        return self(which, *cases), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for shape in (2, 3), (), (0, 2):
            yield cls(), [(shape, "bool"), (shape, "any"), (shape, "any")]
        yield cls(), [((), "bool"), ((2,), "any"), ((2,), "any")]
        yield cls(), [((3,), "int32", {"low": 0, "high": 2}), *[((3,), "any")] * 3]
        yield cls(), [((), "int32", {"low": 0, "high": 1}), *[((3,), "number")] * 2]


def _spread(which: Any, dim: int | None, shape: tuple[int, ...]) -> Any:
    """A batch of scalar choices repeated to `shape`."""
    aval = typeof(which)
    if aval.ndim != 1 or aval.shape == shape or dim is None:
        return which
    return BroadcastInDim(shape, (dim,))(which)


def _check_select(which: ShapedArray, cases: Sequence[ShapedArray]) -> None:
    if not cases:
        raise TypeError("select must have at least one case")
    shape = cases[0].shape
    if any(c.shape != shape for c in cases):
        listing = ", ".join(str(c.shape) for c in cases)
        raise TypeError(f"select cases must have the same shapes, got [{listing}].")
    if which.shape and which.shape != shape:
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, got"
            f" `which` shape {which.shape} but case shape {shape}."
        )
    check_same_dtypes("select", [c.dtype for c in cases])
    boolean = dtypes.issubdtype(which.dtype, np.bool_)
    if not boolean and not dtypes.issubdtype(which.dtype, np.integer):
        raise TypeError(
            "select `which` must be boolean or integer type, got"
            f" {which.dtype}. Compare it with something, or convert it."
        )
    if boolean and len(cases) > 2:
        raise TypeError("select with boolean `which` cannot have > 2 cases.")


select_n: SelectN = SelectN()


def select(condition: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where the condition holds, `on_false` elsewhere."""
    return select_n(condition, on_false, on_true)


BEYOND = {"low": -3.0, "high": 3.0}


class Clamp(Elementwise):
    """x, raised to `low` and lowered to `high`, where x is beyond them."""

    name: ClassVar[str] = "clamp"
    makes_nan: ClassVar[bool] = False
    arity: ClassVar[int] = 3
    accepts: ClassVar[Family] = ANY

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        low, x, high = avals
        for name, bound in ("min", low), ("max", high):
            if bound.shape and bound.shape != x.shape:
                raise TypeError(
                    f"clamp requires {name}.shape == operand.shape or {name}.shape =="
                    f" (), got {name}.shape={bound.shape}, operand.shape={x.shape}."
                )
        return super().aval(*avals)

    def eval(self, *args: Any) -> Any:
        low, x, high = args
        return wrapped(np.minimum(np.maximum(low, x), high), x.dtype)

    def scalar(self, b: Any, *xs: Any) -> Any:
        low, x, high = xs
        return b.min(b.max(low, x), high)

    def tangent(self, i: int, t: Any, out: Any, *primals: Any) -> Any:
        low, x, high = primals
        if i == 0:
            chosen = and_(gt(low, x), lt(low, high))
        elif i == 1:
            chosen = and_(gt(x, low), lt(x, high))
        else:
            chosen = lt(high, x)
        return select(chosen, broadcast_to(t, typeof(x).shape), full_like(x, 0))

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (low, x, high), (low_dim, dim, high_dim) = args, dims
        shapes = [typeof(a).shape for a in args]
        agree = len(set(zip(shapes, dims))) == 1
        if agree or (dim is not None and not shapes[0] and not shapes[2]):
            return self(*args), dim
        shape = [n for i, n in enumerate(shapes[1]) if i != dim]
        low = _bound(low, low_dim, (axis.size, *shape))
        high = _bound(high, high_dim, (axis.size, *shape))
        return self(low, batch_dim_at(x, dim, axis.size, 0), high), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        low, high = {"low": -1.5, "high": -0.5}, {"low": 0.5, "high": 1.5}
        for shape in (2, 3), (), (0, 2):
            yield (
                cls(),
                [
                    (shape, "ordered", low),
                    (shape, "ordered", BEYOND),
                    (shape, "ordered", high),
                ],
            )
        yield cls(), [((), "real", low), ((4,), "real", BEYOND), ((), "real", high)]


def _bound(x: Any, dim: int | None, shape: tuple[int, ...]) -> Any:
    """A bound of clamp with its batch dim in front, in `shape` or of rank 0."""
    rank = typeof(x).ndim
    if rank == 0:
        return x
    return _spread(batch_dim_at(x, dim, shape[0], 0), 0, shape)


clamp: Clamp = Clamp()
