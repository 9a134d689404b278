"""`functools.wraps` for callables of any kind."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def update_wrapper(wrapper: T, wrapped: Any) -> T:
    """Make `wrapper` look like `wrapped`, as `functools.update_wrapper` does.

    An attribute that a function cannot have is left out: the name of an object with a
    method `__call__` may be anything.

    >>> class Double:
    ...     __name__ = 3
    ...     def __call__(self, x):
    ...         return 2 * x
    >>> update_wrapper(lambda x: x, Double()).__name__
    '<lambda>'
    """
    for name in functools.WRAPPER_ASSIGNMENTS:
        with suppress(AttributeError, TypeError):
            setattr(wrapper, name, getattr(wrapped, name))
    vars(wrapper).update(getattr(wrapped, "__dict__", {}))
    vars(wrapper)["__wrapped__"] = wrapped
    return wrapper


def wraps(wrapped: Any) -> Callable[[T], T]:
    """`update_wrapper` as a decorator."""
    return lambda wrapper: update_wrapper(wrapper, wrapped)


class SignatureOf:
    """The `__signature__` of objects that call a function, their attribute `name`.

    `inspect` takes objects with `__get__` for builtins unless they have one. Their
    class has none. It is kept, since `inspect` asks twice at each level of nesting.
    """

    def __init__(self, name: str):
        self._name = name

    def __get__(self, caller: Any, owner: type) -> Any:
        if caller is None:
            return None
        try:
            result = inspect.signature(getattr(caller, self._name))
        except (TypeError, ValueError):
            raise AttributeError("__signature__") from None
        vars(caller)["__signature__"] = result
        return result


class Flat:
    """A flat function, as traces that programs define are given it."""

    f: Callable[..., Any]

    def __init__(self, fun: Callable[..., Any]):
        self.call_wrapped = self.f = fun
