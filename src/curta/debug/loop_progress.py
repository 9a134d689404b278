"""`progress`: loops with a bar that says how far they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import lax, tree_util
from curta.control.callback import DEBUG, MixedCallback
from curta.control.progress import Progress
from curta.core.trace import concrete_or_none, typeof
from curta.core.tracebacks import api_boundary
from curta.debug.bars import Meter, make_bar
from curta.lax.control_flow.loops import index_bounds

_UNKNOWN = np.int32(-1)  # how many iterations there will be
_MOST = 1 << 30  # iterations that are counted
_PART = 20  # a loop of unknown length says how far it is after each 1/20 more


def progress(
    loop: Callable[..., Any],
    *,
    description: str | None = None,
    updates: int = 200,
    bar: Callable[[str, int | None], Any] | None = None,
) -> Callable[..., Any]:
    """A loop that shows a progress bar while it runs.

    The loop is cut into parts, between which the bar is updated; within them it is
    compiled as it would be without a bar. Bars are shown under `jit` and `grad` (for
    the loop itself, not for its transpose), and `vmap` of a loop shows one bar, for its
    longest example.

    Args:
      loop: `lax.scan`, `lax.fori_loop` or `lax.while_loop`.
      description: the text before the bar; by default the name of the loop's body.
      updates: the number of times the bar moves, if the number of iterations is known.
        A loop of unknown length reports its progress each time it has run 5 % further.
      bar: a function of the description and the number of iterations, or None if it is
        unknown. It returns an object with `update(n)`, called after n more iterations,
        and `close()`. By default bars are tqdm's, or rich's, or, if neither is
        installed, plain text on stderr.

    Returns:
      A function of the same arguments and results as `loop`.

    Raises:
      TypeError: for another function than these three.
      ValueError: for `updates` less than 1.

    >>> import curta
    >>> from curta import lax
    >>> total, _ = curta.debug.progress(lax.scan)(
    ...     lambda c, x: (c + x, None), 0.0, curta.numpy.arange(10.0))
    >>> total
    Array(45., dtype=float32)
    """
    if loop not in _LOOPS:
        raise TypeError(
            "debug.progress takes lax.scan, lax.fori_loop or lax.while_loop, and got"
            f" {loop!r}."
        )
    if updates < 1:
        raise ValueError(f"updates must be at least 1, got {updates}.")
    run, body_index = _LOOPS[loop]

    @functools.wraps(loop)
    def loop_with_progress(*args: Any, **kwargs: Any) -> Any:
        body = args[body_index] if len(args) > body_index else None
        name: Any = description or getattr(body, "__name__", loop.__name__)
        meter = Meter(bar or make_bar, name.strip("<>"))
        return run(_Told(meter, updates), *args, **kwargs)

    return api_boundary(loop_with_progress)


class _Told:
    """Tells a meter, from within programs, what happens."""

    def __init__(self, meter: Meter, updates: int):
        self._meter = meter
        self.updates = updates

    def begins(self, total: Any) -> None:
        """A loop begins; `total` is -1 if its length is unknown."""
        _call(self._meter.begin, total)

    def is_at(self, count: Any) -> None:
        """Report the number of iterations that are done."""
        _call(self._meter.show, count)

    def ends(self, count: Any) -> None:
        """All are done; to be called with a result of the loop."""
        _call(self._meter.end, count)


def _call(function: Callable[[Any], None], count: Any) -> None:
    leaves, in_tree = tree_util.tree_flatten(((count,), {}))
    Progress(MixedCallback(function, in_tree, ()), DEBUG)(*leaves)


# ---- the loops


def _scan(
    told: _Told,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> Any:
    total = _length(xs, length)
    if not total or not callable(f):  # or a mistake, of which `scan` tells
        return lax.scan(f, init, xs, length, reverse, unroll, _split_transpose)
    size = -(-total // told.updates)
    parts, rest = divmod(total, size)
    options = reverse, unroll, _split_transpose

    def run(state: Any, xs: Any, length: int) -> Any:
        done, carry = state
        told.is_at(done)
        carry, ys = lax.scan(f, carry, xs, length, *options)
        return (done + length, carry), ys

    told.begins(np.int32(min(total, _MOST)))
    state = np.int32(0), init
    if reverse:
        left, whole = _parted(xs, rest)
    else:
        whole, left = _parted(xs, total - rest)
    whole = tree_util.tree_map(lambda x: _reshaped(x, (parts, size)), whole)
    state, ys = lax.scan(
        lambda state, xs: run(state, xs, size), state, whole, parts, reverse
    )
    ys = tree_util.tree_map(lambda y: _reshaped(y, (parts * size,), 2), ys)
    if rest:
        state, more = run(state, left, rest)
        order = (more, ys) if reverse else (ys, more)
        ys = tree_util.tree_map(lambda *y: lax.concatenate(y, 0), *order)
    done, carry = state
    told.ends(done)
    return carry, ys


def _length(xs: Any, length: Any) -> int:
    """The number of iterations; 0 for arguments that make no sense."""
    sizes = {(*np.shape(x), 0)[0] for x in tree_util.tree_leaves(xs)}
    sizes |= set() if length is None else {length}
    size = sizes.pop() if len(sizes) == 1 else 0
    return size if isinstance(size, int) else 0


def _parted(xs: Any, index: int) -> tuple[Any, Any]:
    """The arrays before an index of their first dim, and after it."""

    def cut(first: bool) -> Any:
        part = slice(index) if first else slice(index, None)
        return tree_util.tree_map(lambda x: x[part], xs)

    return cut(True), cut(False)


def _reshaped(x: Any, front: tuple[int, ...], dims: int = 1) -> Any:
    """The array with its first `dims` dims made into others."""
    return lax.reshape(x, (*front, *np.shape(x)[dims:]))


def _fori_loop(
    told: _Told,
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | float | bool | None = None,
) -> Any:
    first, last = concrete_or_none(lower), concrete_or_none(upper)
    if first is None or last is None:
        return _fori_loop_of_data(told, lower, upper, body_fun, init_val, unroll)
    total = int(last) - int(first)
    if total <= 0 or not callable(body_fun):
        return lax.fori_loop(lower, upper, body_fun, init_val, unroll=unroll)
    lower, _, dtype = index_bounds(lower, upper)
    if typeof(lower).dtype != dtype:
        lower = lax.convert_element_type(lower, dtype)
    size = -(-total // told.updates)
    parts, rest = divmod(total, size)

    def run(state: Any, length: int) -> Any:
        start, done, value = state
        told.is_at(done)
        value = lax.fori_loop(
            0, length, lambda i, v: body_fun(start + i, v), value, unroll=unroll
        )
        return start + length, done + length, value

    told.begins(np.int32(min(total, _MOST)))
    state = lower, np.int32(0), init_val
    state, _ = lax.scan(lambda state, _: (run(state, size), None), state, None, parts)
    if rest:
        state = run(state, rest)
    _, done, value = state
    told.ends(done)
    return value


def _fori_loop_of_data(
    told: _Told, lower: Any, upper: Any, body_fun: Any, init_val: Any, unroll: Any
) -> Any:
    """The loop whose length the program computes."""
    if unroll not in (None, False, 1):  # which is refused
        return lax.fori_loop(lower, upper, body_fun, init_val, unroll=unroll)
    lower, upper, dtype = index_bounds(lower, upper)
    lower, upper = (
        b if typeof(b).dtype == dtype else lax.convert_element_type(b, dtype)
        for b in (lower, upper)
    )
    ends = (lax.convert_element_type(b, np.int32) for b in (upper, lower))
    total = lax.max(lax.sub(*ends), np.int32(0))

    def body(state: Any) -> Any:
        i, end, value = state
        return i + 1, end, body_fun(i, value)

    state = lower, upper, init_val
    state = _while_loop(told, lambda s: s[0] < s[1], body, state, total)
    return state[2]


def _while_loop(
    told: _Told,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    total: Any = _UNKNOWN,
) -> Any:
    def run(state: Any) -> Any:
        """As many iterations as are due until the bar moves again."""
        done, value = state
        told.is_at(done)
        size = lax.max(lax.div(done, np.int32(_PART)), np.int32(1))
        i, value = lax.while_loop(
            lambda s: lax.bitwise_and(s[0] < size, cond_fun(s[1])),
            lambda s: (s[0] + 1, body_fun(s[1])),
            (np.int32(0), value),
        )
        return lax.min(done, np.int32(_MOST)) + i, value

    if not (callable(cond_fun) and callable(body_fun)):
        return lax.while_loop(cond_fun, body_fun, init_val)
    told.begins(total)
    state = np.int32(0), init_val
    done, value = lax.while_loop(lambda state: cond_fun(state[1]), run, state)
    told.ends(done)
    return value


_LOOPS: dict[Any, tuple[Callable[..., Any], int]] = {
    lax.scan: (_scan, 0),
    lax.fori_loop: (_fori_loop, 2),
    lax.while_loop: (_while_loop, 1),
}
