"""Results that are remembered: with a jaxpr, or in a table of their own.

Jaxprs hold arrays, as constants: a table of them all would keep these alive. So each
has a table of its own, which goes when it goes.

Whatever is computed may read the settings (the tuning, say): they are part of each key.
Where a table is full the oldest results go (`make_room`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from curta._base.once import snapshot
from curta.config import config
from curta.core.jaxpr import ClosedJaxpr, Jaxpr

P = ParamSpec("P")
R = TypeVar("R")


def kept_with_jaxpr(fun: Callable[P, R]) -> Callable[P, R]:
    """Remember the results of `fun(x, *args)` for as long as the jaxpr in `x` lives.

    `x` is a jaxpr, a tuple of them, or an op that holds one; `args` have hashes.
    """

    compute: Callable[..., Any] = fun

    @functools.wraps(fun)
    def call(x: Any, *args: Any) -> Any:
        if isinstance(x, (ClosedJaxpr, Jaxpr)):
            memo, key = x.memo, (fun, config.context, args)
        else:
            memo, rest = _parted(x)
            key = (fun, config.context, (rest, args))
        try:
            return memo[key]
        except KeyError:
            pass
        made = compute(x, *args)
        make_room(memo, config.tuning.jaxpr_results)
        return memo.setdefault(key, made)

    return call  # type: ignore[return-value]


def make_room(table: dict[Any, Any], most: int) -> list[Any]:
    """Let the oldest go from a table that has as many results as it may; those.

    This is the one rule of eviction of all tables. Some go at once, so that a table
    that is full is not copied for each result.
    """
    if len(table) < most:
        return []
    oldest = snapshot(table)[: 1 + most // 8]
    return [table.pop(key, None) for key in oldest]


def kept_by_settings(
    maxsize: int | None,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """As `functools.lru_cache(maxsize)`, for functions that may read the settings."""

    def decorate(fun: Callable[..., R]) -> Callable[..., R]:
        @functools.lru_cache(maxsize)
        def compute(context: Any, *args: Any) -> R:
            return fun(*args)

        @functools.wraps(fun)
        def call(*args: Any) -> R:
            return compute(config.context, *args)

        return call

    return decorate


def _parted(x: Any) -> tuple[dict[Any, Any], Any]:
    """The table of the first jaxpr in a tuple or op, and what else there is in it."""
    parts = x if isinstance(x, tuple) else tuple(vars(x).values())
    for i, part in enumerate(parts):
        first = part[0] if isinstance(part, tuple) and part else part
        if isinstance(first, (ClosedJaxpr, Jaxpr)):
            # Without the jaxpr itself: it would be freed by the cycle collector alone.
            others = part[1:] if first is not part else ()
            rest = type(x), parts[:i], others, parts[i + 1 :]
            return first.memo, rest if has_hash(rest) else x
    raise TypeError(f"{type(x).__name__} holds no jaxpr")


def has_hash(x: Any) -> bool:
    """Whether a value can be a key."""
    try:
        hash(x)
    except TypeError:
        return False
    return True
