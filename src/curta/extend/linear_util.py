"""Functions that transformations are added to one by one.

`wrap_init(f)` is `f` so far; `transformation2` and `transformation_with_aux2` make
decorators that wrap one more layer around it, the second kind with a value on the side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from curta.core.flat import debug_info as describe
from curta.core.jaxpr import DebugInfo


class StoreException(Exception):
    """A side value was read before it was stored, or stored twice."""


class Store:
    """Holds the side value of one call."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def store(self, value: Any) -> None:
        """Keep `value`; the call is over."""
        if self._values:
            raise StoreException("Store occupied")
        self._values.append(value)

    @property
    def val(self) -> Any:
        """The value kept."""
        if not self._values:
            raise StoreException("Store empty")
        return self._values[0]

    def __bool__(self) -> bool:
        return bool(self._values)


class WrappedFun:
    """A function under transformation; `call_wrapped` runs it."""

    def __init__(self, f: Callable[..., Any], debug_info: DebugInfo):
        self.f = f
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return self.debug_info.name

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function with all its transformations."""
        return self.f(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Wrapped function: {self.debug_info.function()}"


def wrap_init(
    f: Callable[..., Any],
    params: dict[str, Any] | None = None,
    *,
    debug_info: DebugInfo | None = None,
) -> WrappedFun:
    """`f`, with the keyword arguments `params`, ready to be transformed.

    >>> from curta.extend import linear_util
    >>> linear_util.wrap_init(lambda x: x + 1).call_wrapped(2)
    3
    """
    bound = functools.partial(f, **params) if params else f
    return WrappedFun(bound, debug_info or describe("linear_util.wrap_init", f))


def transformation2(layer: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """A decorator for `layer(f, *static, *args)`, which calls `f` as it sees fit.

    >>> from curta.extend import linear_util
    >>> @linear_util.transformation2
    ... def scaled(f, factor, x):
    ...     return factor * f(x)
    >>> scaled(linear_util.wrap_init(abs), 3).call_wrapped(-2)
    6
    """

    @functools.wraps(layer)
    def transform(fun: WrappedFun, *static: Any) -> WrappedFun:
        return WrappedFun(functools.partial(layer, fun.f, *static), fun.debug_info)

    return transform


def transformation_with_aux2(
    layer: Callable[..., Any],
) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """A decorator for `layer(f, store, *static, *args)`, which fills `store`.

    The transformation gives the function and a thunk of the value stored.

    >>> from curta.extend import linear_util
    >>> @linear_util.transformation_with_aux2
    ... def counted(f, store, *args):
    ...     store.store(len(args))
    ...     return f(*args)
    >>> fun, count = counted(linear_util.wrap_init(max))
    >>> fun.call_wrapped(1, 5, 2), count()
    (5, 3)
    """

    @functools.wraps(layer)
    def transform(
        fun: WrappedFun, *static: Any
    ) -> tuple[WrappedFun, Callable[[], Any]]:
        store = Store()
        wrapped = functools.partial(layer, fun.f, store, *static)
        return WrappedFun(wrapped, fun.debug_info), lambda: store.val

    return transform
