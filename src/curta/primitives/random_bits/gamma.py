"""Gamma-distributed draws, each from a key of its own.

Source: G. Marsaglia, W. W. Tsang, "A Simple Method for Generating Gamma Variables",
2000. For shape parameters below 1 a draw for alpha + 1 is scaled down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.key_use import USED_UP, KeyReuseSignature
from curta.core.op import BatchDims, Batched, Op
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import typeof
from curta.primitives.elementwise import (
    div,
    eq,
    exp,
    mul,
    random_gamma_grad,
    rsqrt,
    select_n,
)
from curta.primitives.elementwise.special_values import erf_inv
from curta.primitives.random_bits.implementations import THREEFRY, KeyImplementation
from curta.primitives.structure import batch_dim_at, full


@dataclass(frozen=True)
class RandomGamma(Op):
    """Draws for shape parameters `a`; the logarithms of them with `log_space`.

    The leading dims of `a` are those of the keys; each key is split over the others.
    """

    name: ClassVar[str] = "random_gamma"
    key_signature: ClassVar[KeyReuseSignature | None] = USED_UP
    log_space: bool
    partitionable: bool = True
    impl: KeyImplementation = THREEFRY

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        keys, a = avals
        if not dtypes.issubdtype(keys.dtype, dtypes.prng_key):
            raise TypeError(f"random_gamma requires random keys, got {keys}")
        if a.shape[: keys.ndim] != keys.shape:
            raise ValueError(
                f"random_gamma: parameters of shape {a.shape} for keys of shape"
                f" {keys.shape}"
            )
        return a.strip_weak_type()

    def eval(self, *args: Any) -> Any:
        keys, a = args
        impl = self.impl.one_by_one()
        count = math.prod(a.shape[keys.ndim :])
        each = impl.split(keys, count, self.partitionable).reshape(-1)
        draw = _Draw(impl, self.partitionable, a.dtype)
        return draw.gamma(each, a.reshape(-1), self.log_space).reshape(a.shape)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        keys, a = primals
        out = self(keys, a)
        if type(tangents[1]) is Zero:
            return out, zero_tangent(typeof(out))
        if not self.log_space:
            return out, mul(tangents[1], random_gamma_grad(a, out))
        sample = exp(out)
        tiny = full(typeof(sample), dtypes.finfo(typeof(sample).dtype).tiny)
        sample = select_n(eq(sample, full(typeof(sample), 0)), sample, tiny)
        return out, mul(tangents[1], div(random_gamma_grad(a, sample), sample))

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        keys, a = (
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        )
        return self(keys, a), 0

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        return {"log_space": self.log_space}

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(False), [((), "key"), ((3,), np.dtype("float32"))]
        yield cls(True), [((2,), "key"), ((2, 3), np.dtype("float32"))]


@dataclass(frozen=True)
class _Draw:
    """Draws in NumPy, one for each key of an array."""

    impl: KeyImplementation
    partitionable: bool
    dtype: Any

    def split(self, keys: Any, count: int = 2) -> list[Any]:
        """New keys for each key, as `count` arrays."""
        result = self.impl.split(keys, count, self.partitionable)
        return [result[..., i] for i in range(count)]

    def uniform(self, keys: Any, low: Any = None) -> Any:
        """Uniform draws from [0, 1), or from [low, 1)."""
        dtype = np.dtype(self.dtype)
        unsigned = np.dtype(f"uint{dtype.itemsize * 8}")
        info = dtypes.finfo(dtype)
        width = 8 if info.nmant < 8 else info.bits
        bits = self.impl.bits(keys, width, 1, self.partitionable)[..., 0]
        bits = bits.astype(f"uint{width}").astype(unsigned)
        bits = bits >> unsigned.type(width - info.nmant)
        one = np.asarray(1, dtype)
        floats = (bits | one.view(unsigned)).view(dtype) - one
        if low is None:
            return floats
        return np.maximum(low, floats * (one - low) + low)

    def normal(self, keys: Any) -> Any:
        """Standard normal draws."""
        low = np.nextafter(np.asarray(-1, self.dtype), np.asarray(0, self.dtype))
        root = np.asarray(np.sqrt(2), self.dtype)
        return root * erf_inv(self.uniform(keys, low))

    def gamma(self, keys: Any, alpha: Any, log_space: bool) -> Any:
        """Gamma draws of shape parameters `alpha`, or their logarithms."""
        number = self.dtype.type
        boosted = alpha >= 1
        shape = np.where(boosted, alpha, alpha + number(1))
        d = shape - number(1 / 3)
        if self.dtype == np.float16:  # XLA rounds the inverse root
            c = number(1 / 3) * rsqrt.eval(d)
        else:
            c = number(1 / 3) / np.sqrt(d)
        keys, for_boost = self.split(keys)
        v = self._accepted(keys, d, c)
        u = self.uniform(for_boost)
        if log_space:
            log_u = np.log1p(-u)
            scaled = log_u * (number(1) / alpha)
            log_boost = np.where(boosted | (log_u == 0), number(0), scaled)
            return np.log(d) + np.log(v) + log_boost
        boost = np.where(boosted, number(1), (number(1) - u) ** (number(1) / alpha))
        return d * v * boost

    def _accepted(self, keys: Any, d: Any, c: Any) -> Any:
        """The first v of each key that passes the test."""
        number = self.dtype.type
        result = np.ones_like(d)
        waiting = np.flatnonzero(~np.isnan(d))
        result[np.isnan(d)] = np.nan
        keys = keys.copy()
        while waiting.size:
            key, x_key, u_key = self.split(keys[waiting], 3)
            keys[waiting] = key
            dd = d[waiting]
            x, v = self._positive(x_key, c[waiting])
            square, cube = x * x, v * v * v
            u = self.uniform(u_key)
            bound = square * number(0.5) + dd * (number(1) - cube + np.log(cube))
            quick = number(1) - number(0.0331) * (square * square)
            rejected = (u >= quick) & (np.log(u) >= bound)
            result[waiting[~rejected]] = cube[~rejected]
            waiting = waiting[rejected]
        return result

    def _positive(self, keys: Any, c: Any) -> tuple[Any, Any]:
        """Normal draws x with v = 1 + c x positive, and these v."""
        x, v = np.zeros_like(c), np.full_like(c, -1)
        keys = keys.copy()
        waiting = np.arange(c.size)
        while waiting.size:
            keys[waiting], subkeys = self.split(keys[waiting])
            x[waiting] = self.normal(subkeys)
            v[waiting] = self.dtype.type(1) + x[waiting] * c[waiting]
            waiting = waiting[v[waiting] <= 0]
        return x, v
