"""Gamma draws as loops over all of them at once.

The draws that the op's `eval` makes (primitives/random_bits/gamma.py): each element
has a key of its own, and a loop goes on until all are accepted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.compiler.rewrite.inline import Function
from curta.control.while_loop import While
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.primitives.elementwise.arithmetic import add, div, mul, neg, sub
from curta.primitives.elementwise.bitwise import and_, not_, or_, shift_right_logical
from curta.primitives.elementwise.comparison import ge, le, ne
from curta.primitives.elementwise.convert import (
    BitcastConvertType,
    ConvertElementType,
)
from curta.primitives.elementwise.exponential import log, log1p
from curta.primitives.elementwise.magnitude import max_
from curta.primitives.elementwise.powers import pow_, rsqrt, sqrt
from curta.primitives.elementwise.select import select_n
from curta.primitives.elementwise.special import erf_inv
from curta.primitives.random_bits.gamma import RandomGamma
from curta.primitives.random_bits.ops import RandomBits, RandomSplit
from curta.primitives.reduction import ReduceOr
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, Reshape

_KINDS = (np.float32, np.float64, np.float16, dtypes.bfloat16)


def by_draws(op: RandomGamma, avals: Sequence[ShapedArray]) -> Function | None:
    """random_gamma keys a -> loops that draw for all elements."""
    _, a = avals
    if not op.impl.lowers or a.dtype not in _KINDS or not a.size:
        return None
    return _draws(op, a.dtype)


def gamma_program(op: RandomGamma, keys: ShapedArray, a: ShapedArray) -> ClosedJaxpr:
    """The op as a jaxpr of loops."""
    return stage(_draws(op, a.dtype), [keys, a])


def _draws(op: RandomGamma, dtype: Any) -> Function:
    each = dataclasses.replace(op, impl=op.impl.one_by_one())
    return lambda *args: [_Draws(each, dtype).gamma(*args)]


class _Draws:
    """The draws of an op, for arrays of keys."""

    def __init__(self, op: RandomGamma, dtype: Any):
        self.op = op
        self.dtype = dtype

    def _number(self, x: float) -> Any:
        return self.dtype.type(x)

    def _full(self, shape: tuple[int, ...], value: float) -> Any:
        return BroadcastInDim(shape, ())(self._number(value))

    def _split(self, keys: Any, count: int) -> list[Any]:
        shape = typeof(keys).shape
        result = RandomSplit((count,), self.op.partitionable, self.op.impl)(keys)
        low, high = [0] * len(shape), list(shape)
        return [
            Reshape(shape)(Slice((*low, i), (*high, i + 1), None)(result))
            for i in range(count)
        ]

    def _uniform(self, keys: Any) -> Any:
        info = dtypes.finfo(self.dtype)
        width = 8 if info.nmant < 8 else info.bits
        bits = RandomBits(width, (), self.op.partitionable, self.op.impl)(keys)
        unsigned = np.dtype(f"uint{info.bits}").type
        bits = ConvertElementType(np.dtype(unsigned))(bits)
        one = self._number(1)
        spare = unsigned(width - info.nmant)
        mantissa = shift_right_logical(bits, spare)
        exponent = np.asarray(one).view(unsigned)[()]
        floats = BitcastConvertType(self.dtype)(or_(mantissa, exponent))
        return sub(floats, one)

    def _normal(self, keys: Any) -> Any:
        low = np.nextafter(self._number(-1), self._number(0))
        u = add(mul(self._uniform(keys), self._number(1) - low), low)
        return mul(self._number(math.sqrt(2)), erf_inv(max_(low, u)))

    def gamma(self, keys: Any, a: Any) -> Any:
        """The draws, or their logarithms, in the shape of `a`."""
        op, shape, rank = self.op, typeof(a).shape, typeof(keys).ndim
        count = math.prod(shape[rank:])
        each = RandomSplit((count,), op.partitionable, op.impl)(keys)
        size = (math.prod(shape),)
        each, alpha = Reshape(size)(each), Reshape(size)(a)
        boosted = ge(alpha, self._number(1))
        d = sub(
            select_n(boosted, add(alpha, self._number(1)), alpha), self._number(1 / 3)
        )
        each, for_boost = self._split(each, 2)
        v = self._accepted(each, d, self._scale(d))
        u, power = self._uniform(for_boost), div(self._number(1), alpha)
        if op.log_space:
            log_u = log1p(neg(u))
            none = or_(boosted, not_(ne(log_u, self._number(0))))
            boost = select_n(none, mul(log_u, power), self._full(size, 0))
            out = add(add(log(d), log(v)), boost)
        else:
            boost = pow_(sub(self._number(1), u), power)
            boost = select_n(boosted, boost, self._full(size, 1))
            out = mul(mul(d, v), boost)
        return Reshape(shape)(out)

    def _scale(self, d: Any) -> Any:
        """1 / (3 sqrt(d)), in float16 by the rounded inverse root, as XLA rounds it."""
        third = self._number(1 / 3)
        if self.dtype == np.float16:
            return mul(third, rsqrt(d))
        return div(third, sqrt(d))

    def _accepted(self, keys: Any, d: Any, c: Any) -> Any:
        """The first v of each key that passes the test; NaN for a NaN."""
        done = ne(d, d)
        v = select_n(done, self._full(typeof(d).shape, 1), d)

        def waits(keys: Any, done: Any, v: Any) -> list[Any]:
            return [ReduceOr((0,))(not_(done))]

        def draw(d: Any, c: Any, keys: Any, done: Any, v: Any) -> list[Any]:
            key, x_key, u_key = self._split(keys, 3)
            x, new = self._positive(x_key, c, done)
            square, cube = mul(x, x), mul(mul(new, new), new)
            u = self._uniform(u_key)
            inner = add(sub(self._number(1), cube), log(cube))
            bound = add(mul(square, self._number(0.5)), mul(d, inner))
            quick = sub(self._number(1), mul(self._number(0.0331), mul(square, square)))
            rejected = and_(ge(u, quick), ge(log(u), bound))
            v = select_n(or_(done, rejected), cube, v)
            return [key, or_(done, not_(rejected)), v]

        return _loop(waits, draw, (d, c), (keys, done, v))[2]

    def _positive(self, keys: Any, c: Any, done: Any) -> tuple[Any, Any]:
        """Normal draws x with v = 1 + c x positive, and these v."""
        shape = typeof(c).shape
        v = select_n(done, self._full(shape, -1), self._full(shape, 1))

        def waits(keys: Any, x: Any, v: Any) -> list[Any]:
            return [ReduceOr((0,))(le(v, self._number(0)))]

        def draw(c: Any, keys: Any, x: Any, v: Any) -> list[Any]:
            waiting = le(v, self._number(0))
            key, subkey = self._split(keys, 2)
            new = self._normal(subkey)
            x = select_n(waiting, x, new)
            v = select_n(waiting, v, add(self._number(1), mul(new, c)))
            return [key, x, v]

        _, x, v = _loop(waits, draw, (c,), (keys, self._full(shape, 0), v))
        return x, v


def _loop(condition: Any, body: Any, consts: Any, carry: Any) -> Any:
    avals = [typeof(x) for x in carry]
    given = [*(typeof(x) for x in consts), *avals]
    op = While(stage(condition, avals), stage(body, given), 0, len(consts))
    return op(*consts, *carry)
