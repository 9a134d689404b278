"""Instructions along dims that read rows of neighbors, or of a table.

Partitioned programs have rules of their own for these (docs/design/hosts.md). Their
operands keep the sizes they have, so that dims that are cut stay so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.stress.fuzz.programs import Instruction, Values

import curta.numpy as jnp
from curta import lax

Rule = Callable[[Values, Instruction], Any]


def _rows(v: Values, s: Instruction) -> tuple[Any, int]:
    """A value with a dim that has rows, and that dim."""
    x = v.number(s.choices[0])
    x = x if x.ndim else x.reshape(1)
    return x, s.choices[1] % x.ndim


def _cut(x: Any, d: int, start: int | None, stop: int | None, step: int = 1) -> Any:
    return x[(slice(None),) * d + (slice(start, stop, step),)]


def _neighbours(x: Any, d: int, reach: int, mode: str) -> Any:
    """Each row with those so far before and behind it, by rows around the array."""
    width = [(0, 0)] * x.ndim
    width[d] = (reach, reach)
    around, n = jnp.pad(x, width, mode=mode), x.shape[d]
    return _cut(around, d, 0, n) + 2 * x - _cut(around, d, 2 * reach, 2 * reach + n)


_MODES = ("constant", "wrap", "edge", "reflect")


def _stencil(v: Values, s: Instruction) -> Any:
    x, d = _rows(v, s)
    reach = s.choices[2] % 3 + 1
    if x.shape[d] <= reach:
        return x
    return _neighbours(x, d, reach, _MODES[s.choices[3] % 4])


def _stencil_steps(v: Values, s: Instruction) -> Any:
    """A loop that carries what stencils make, along two dims by turns."""
    x, d = _rows(v, s)
    x = x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype("float32")
    if min(x.shape) < 3:
        return x

    def step(_: Any, x: Any) -> Any:
        for dim in {d, (d + 1) % x.ndim}:
            x = jnp.tanh(_neighbours(x, dim, 1, _MODES[s.choices[2] % 4])) / 2
        return x

    return lax.fori_loop(0, s.choices[3] % 4, step, x)


def _difference(v: Values, s: Instruction) -> Any:
    x, d = _rows(v, s)
    far = s.choices[2] % 3 + 1
    if x.shape[d] <= far:
        return x
    return _cut(x, d, far, None) - _cut(x, d, 0, -far, 1)


def _rolled(v: Values, s: Instruction) -> Any:
    x, d = _rows(v, s)
    return jnp.roll(x, s.choices[2] - 7, d)


def _interleaved(v: Values, s: Instruction) -> Any:
    """Rows of two parts by turns, some of them far from where they were."""
    x, d = _rows(v, s)
    even, odd = _cut(x, d, 0, None, 2), _cut(x, d, 1, None, 2)
    return jnp.concatenate([odd, even] if s.choices[2] & 1 else [even, odd, x], d)


def _slide(v: Values, s: Instruction) -> Any:
    x, d = _rows(v, s)
    x = x.real if jnp.iscomplexobj(x) else x
    window, stride = [1] * x.ndim, [1] * x.ndim
    window[d], stride[d] = s.choices[2] % 4 + 1, s.choices[3] % 2 + 1
    padding = ("SAME", "VALID")[s.choices[3] >> 1 & 1]
    if x.shape[d] < window[d]:
        return x
    if s.choices[3] & 4:
        least = jnp.iinfo(x.dtype).min if x.dtype.kind in "iu" else -jnp.inf
        start = jnp.asarray(least, x.dtype)
        return lax.reduce_window(x, start, lax.max, window, stride, padding)
    zero = jnp.zeros((), x.dtype)
    return lax.reduce_window(x, zero, lax.add, window, stride, padding)


def _convolved(v: Values, s: Instruction) -> Any:
    """A convolution along a dim, others being its batch."""
    x, d = _rows(v, s)
    if not x.size or x.shape[d] < 4:
        return x
    rows = jnp.moveaxis(x, d, -1)
    flat = rows.reshape(-1, 1, x.shape[d])
    kernel = v.like(s.choices[2], (1, 1, s.choices[2] % 3 + 1), x.dtype)
    out = lax.conv_general_dilated(
        flat,
        kernel,
        (s.choices[3] % 2 + 1,),
        ("SAME", "VALID")[s.choices[3] >> 1 & 1],
        rhs_dilation=(s.choices[3] % 3 // 2 + 1,),
    )
    return jnp.moveaxis(out.reshape(*rows.shape[:-1], -1), -1, d)


def _written(v: Values, s: Instruction) -> Any:
    """Rows of a table added to, or counted, by indices of other rows."""
    x, _ = _rows(v, s)
    n = x.shape[0]
    if not n:
        return x
    where = v.like(s.choices[1], (n,), "int32") % (n + 1)
    if s.choices[2] & 1:
        return jnp.zeros_like(x).at[where].add(x, mode="drop")
    moved = (jnp.arange(n) * 5 + s.choices[3]) % n
    unique = n % 5 != 0
    return jnp.zeros_like(x).at[moved].set(x, unique_indices=unique) if unique else x


def _taken(v: Values, s: Instruction) -> Any:
    x, d = _rows(v, s)
    if not x.shape[d]:
        return x
    where = v.like(s.choices[2], x.shape, "int32") % x.shape[d]
    return jnp.take_along_axis(x, where, d)


def _placed(v: Values, s: Instruction) -> Any:
    """Rows at a place that is computed, in a loop that carries the array."""
    x, d = _rows(v, s)
    if not x.shape[d]:
        return x

    def step(i: Any, x: Any) -> Any:
        at = (i * 3 + s.choices[2]) % x.shape[d]
        row = lax.dynamic_slice_in_dim(x, at, 1, d)
        there = (at + s.choices[3]) % x.shape[d]
        return lax.dynamic_update_slice_in_dim(x, row, there, d)

    return lax.fori_loop(0, 3, step, x)


def _running(v: Values, s: Instruction) -> Any:
    """A scan over the rows of one dim, which keeps those of others cut."""
    x, d = _rows(v, s)
    rows = jnp.moveaxis(x, d, 0)
    if not rows.shape[0]:
        return x

    def step(carry: Any, row: Any) -> Any:
        carry = jnp.where(carry > row, carry, row) if s.choices[2] & 1 else carry + row
        return carry, carry

    if jnp.iscomplexobj(x):
        return x
    last, all_rows = lax.scan(step, rows[0], rows, reverse=bool(s.choices[3] & 1))
    return [last, jnp.moveaxis(all_rows, 0, d)]


ROWS: dict[str, Rule] = {
    "stencil": _stencil,
    "stencil steps": _stencil_steps,
    "difference": _difference,
    "rolled": _rolled,
    "interleaved": _interleaved,
    "slide": _slide,
    "convolved": _convolved,
    "written": _written,
    "taken": _taken,
    "placed": _placed,
    "running": _running,
}
