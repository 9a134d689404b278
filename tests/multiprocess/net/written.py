"""Programs by name: what partitioning has rules for, alone and within one another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import lax

_RNG = np.random.default_rng(7)


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape).astype(np.float32)


X = _normal(24, 4)
Y = _normal(24, 4)
ROW = _normal(24)
TABLE = _normal(24, 3)
INDEX = _RNG.integers(0, 24, 10).astype(np.int32)
CUMULATIVE = {
    "cumsum": jnp.cumsum,
    "cumprod": jnp.cumprod,
    "cummax": lambda x, d: lax.cummax(x, d),
    "cummin": lambda x, d: lax.cummin(x, d, reverse=True),
    "cumlogsumexp": lambda x, d: lax.cumlogsumexp(x, d),
}
Written = dict[str, tuple[Callable[..., Any], list[np.ndarray]]]
WRITTEN: Written = {}


def _add(name: str, function: Callable[..., Any], *args: np.ndarray) -> None:
    WRITTEN[name] = function, list(args)


for _name, _f in CUMULATIVE.items():
    _add(_name, lambda x, f=_f: f(x, 0), X)
    _add(
        f"{_name} in cond",
        lambda x, f=_f: lax.cond(x.sum() > -1e9, lambda x: f(x, 0), lambda x: x, x),
        X,
    )
    _add(
        f"{_name} in a cond not taken",
        lambda x, f=_f: lax.cond(
            x.sum() > 1e9, lambda x: f(x, 0), lambda x: x + x.max(), x
        ),
        X,
    )
    _add(f"{_name} under select", lambda x, f=_f: jnp.where(x > 0, f(x, 0), x), X)
    _add(
        f"{_name} in scan",
        lambda x, f=_f: lax.scan(
            lambda c, _: (jnp.tanh(f(c, 0)), c.sum()), x, None, length=3
        ),
        X,
    )
    _add(
        f"{_name}, others after it",
        lambda x, f=_f: (f(x, 0)[0], x.max(), jnp.sort(x, 0), x.sum()),
        X,
    )
    _add(
        f"grad of {_name}",
        curta.grad(lambda x, f=_f: jnp.sum(f(x, 0) ** 2) + jnp.max(x)),
        X,
    )
    _add(f"first of {_name}", lambda x, f=_f: f(x, 0)[:3], X)


def _while(x: Any) -> Any:
    """Steps until a sum over all rows is small."""
    return lax.while_loop(
        lambda c: jnp.abs(c[0]).sum() > 1.0,
        lambda c: (c[0] * 0.7 + 0.01 * jnp.roll(c[0], 1, 0), c[1] + 1),
        (x, 0),
    )


def _network(w: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ w) @ w.T - y) ** 2)

    for _ in range(3):
        w = w - 0.1 * curta.grad(loss)(w)
    return w, loss(w)


def _newton(x: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        return lax.cond(i % 2 == 0, lambda c: c - c.mean(0), lambda c: c / c.max(), c)

    return lax.fori_loop(0, 5, body, x)


def _overflowing(*xs: Any) -> Any:
    """Sums and products of every integer type, which wrap around."""
    return [(jnp.sum(x, 0, dtype=x.dtype), jnp.prod(x, 0, dtype=x.dtype)) for x in xs]


_WIDTHS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
_add(
    "sums and products that overflow",
    _overflowing,
    *(
        _RNG.integers(np.iinfo(t).min, np.iinfo(t).max, (24, 4), t, True)
        for t in _WIDTHS
    ),
)
_add("reads nothing", lambda x: (jnp.arange(5.0), jnp.ones(3)), X)
_add("map", lambda x: jnp.sin(x) * 2 + 1, X)
_add("sum, mean and max", lambda x: (x.sum(0), x.mean(), x.max(1)), X)
_add("normalized", lambda x: (x - x.mean(0)) / (x.std(0) + 1), X)
_add("softmax over rows that are cut", lambda x: curta.nn.softmax(x, 0), X)
_add("logsumexp", lambda x: curta.nn.logsumexp(x, 0), X)
_add("argmax", lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 0)), X)
_add("sort", lambda x: (jnp.sort(x, 0), jnp.argsort(x, 0)), X)
_add("median", lambda x: jnp.median(x, 0), X)
_add("top", lambda x: lax.top_k(x.T, 3), X)
_add("reversed", lambda x: x[::-1], X)
_add("rolled", lambda x: jnp.roll(x, 5, 0), X)
_add("differences", lambda x: jnp.diff(x, axis=0), X)
_add("stencil", lambda x: x[1:-1] * 2 - x[:-2] - x[2:], X)
_add("padded", lambda x: jnp.pad(x, ((2, 3), (1, 0)), mode="edge"), X)
_add("joined", lambda x, y: jnp.concatenate([x, y[:5], x[::2]]), X, Y)
_add("product", lambda x, y: (x @ y.T, x.T @ y), X, Y)
_add("solved", lambda x: jnp.linalg.solve(x.T @ x + jnp.eye(4), x.T), X)
_add("qr", lambda x: jnp.abs(jnp.linalg.qr(x)[1]), X)
_add("read", lambda t, i: t[i], TABLE, INDEX)
_add("written to", lambda t, i: t.at[i].set(1.0), TABLE, INDEX)
_add("added to", lambda t, i: t.at[i].add(2.0), TABLE, INDEX)
_add("grad of reading", curta.grad(lambda t, i: jnp.sum(t[i] ** 2)), TABLE, INDEX)
_add("segments", lambda t, i: curta.ops.segment_sum(t[:10], i, 24), TABLE, INDEX)
_add("histogram", lambda x: jnp.histogram(x, bins=8, range=(-2, 2))[0], ROW)
_add("bincount", lambda i: jnp.bincount(i, length=24), INDEX)
_add("searched", lambda x, r: jnp.searchsorted(jnp.sort(r), x), X, ROW)
_add("unique", lambda i: jnp.unique(i, size=8, fill_value=-1), INDEX)
_add("convolution", lambda r: jnp.convolve(r, jnp.ones(5), mode="same"), ROW)
_add("transform", lambda r: jnp.abs(jnp.fft.fft(r)), ROW)
_add(
    "window",
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 1), (2, 1), "SAME"),
    X,
)
_add(
    "grad of window",
    curta.grad(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 1), (1, 1), "SAME").sum()
    ),
    X,
)
_add("while", _while, X)
_add("branches in a loop", _newton, X)
_add("network", _network, _normal(4, 5), X, Y)
_add("associative scan", lambda x: lax.associative_scan(jnp.maximum, x), X)
_add("random", lambda x: x + curta.random.normal(curta.random.key(3), x.shape), X)
_add("permuted", lambda x: curta.random.permutation(curta.random.key(3), x), X)
_add("vmap of cumsum", curta.vmap(jnp.cumsum, 1, 1), X)
_add("hessian", lambda r: curta.hessian(lambda r: jnp.cumsum(r)[-1] ** 3)(r[:6]), ROW)
_add(
    "remat",
    curta.grad(
        lambda x: curta.checkpoint(lambda x: jnp.sin(jnp.cumsum(jnp.sin(x), 0)).sum())(
            x
        )
    ),
    X,
)
_add(
    "switch",
    lambda x, i: lax.switch(
        i[0] % 3, [lambda x: jnp.cumsum(x, 0), lambda x: x[::-1], jnp.sin], x
    ),
    X,
    INDEX,
)
