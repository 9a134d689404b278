"""Functions with a stack of transformations.

`wrap_init(f)` is `f` so far; `transformation2` and `transformation_with_aux2` make
decorators that wrap one more layer around it, the second kind with a value on the side.
"""

from __future__ import annotations

import contextlib
import functools
import time
import weakref
from collections.abc import Callable
from typing import Any

from curta._base.on_demand import Listing, listed
from curta.config import config
from curta.core.flat import debug_info as describe
from curta.core.jaxpr import DebugInfo
from curta.core.wrapping import wraps

__all__ = [
    "StoreException",
    "WrappedFun",
    "cache",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]
__dir__: Listing = listed(__all__)


class StoreException(Exception):
    """A side value was read before it was stored, or stored twice.

    >>> from curta.extend import linear_util
    >>> linear_util.Store().val
    Traceback (most recent call last):
        ...
    curta.extend.linear_util.StoreException: Store empty
    """


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


Layer = tuple[Callable[..., Any], tuple[Any, ...]]


class WrappedFun:
    """A function under transformation; `call_wrapped` runs it.

    `transforms` are the layers around `f`, the outermost first, with their static
    arguments; `stores` has for each of them where it puts its side value, if it does.

    >>> from curta.extend import linear_util
    >>> info = linear_util.DebugInfo("example", "f")
    >>> linear_util.wrap_init(lambda x: x + 1, debug_info=info).call_wrapped(2)
    3
    """

    def __init__(
        self,
        f: Callable[..., Any],
        debug_info: DebugInfo,
        transforms: tuple[Layer, ...] = (),
        stores: tuple[Store | None, ...] = (),
        params: tuple[tuple[str, Any], ...] = (),
    ):
        self.f = f
        self.debug_info = debug_info
        self.transforms = transforms
        self.stores = stores
        self.params = params

    @property
    def __name__(self) -> str:
        return self.debug_info.name

    def wrap(
        self, layer: Callable[..., Any], static: tuple[Any, ...], store: Store | None
    ) -> WrappedFun:
        """The function with one more layer around it."""
        return WrappedFun(
            self.f,
            self.debug_info,
            ((layer, static), *self.transforms),
            (store, *self.stores),
            self.params,
        )

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function with all its transformations."""
        f = functools.partial(self.f, **dict(self.params)) if self.params else self.f
        layers = zip(self.transforms, self.stores, strict=True)
        for (layer, static), store in reversed([*layers]):
            side = () if store is None else (store,)
            f = functools.partial(layer, f, *side, *static)
        return f(*args, **kwargs)

    def populate_stores(self, stores: tuple[Store | None, ...]) -> None:
        """Take the side values that another call of the same function left."""
        for mine, other in zip(self.stores, stores, strict=True):
            if mine is not None and other is not None:
                mine.store(other.val)

    def __repr__(self) -> str:
        return f"Wrapped function: {self.debug_info.function()}"


def wrap_init(
    f: Callable[..., Any],
    params: dict[str, Any] | None = None,
    *,
    debug_info: DebugInfo | None = None,
) -> WrappedFun:
    """`f`, with the keyword arguments `params`, ready to be transformed.

    Args:
      f: the function.
      params: keyword arguments that it is always given.
      debug_info: what errors are to say of it; by default its name and line.

    Returns:
      What decorators of `transformation2` take; `call_wrapped` runs it.

    >>> from curta.extend import linear_util
    >>> linear_util.wrap_init(lambda x: x + 1).call_wrapped(2)
    3
    """
    info = debug_info or describe("linear_util.wrap_init", f)
    return WrappedFun(f, info, params=tuple(sorted((params or {}).items())))


def transformation2(layer: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """A decorator for `layer(f, *static, *args)`, which calls `f` as it sees fit.

    >>> from curta.extend import linear_util
    >>> @linear_util.transformation2
    ... def scaled(f, factor, x):
    ...     return factor * f(x)
    >>> scaled(linear_util.wrap_init(abs), 3).call_wrapped(-2)
    6
    """

    @wraps(layer)
    def transform(fun: WrappedFun, *static: Any) -> WrappedFun:
        return fun.wrap(layer, static, None)

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

    @wraps(layer)
    def transform(
        fun: WrappedFun, *static: Any
    ) -> tuple[WrappedFun, Callable[[], Any]]:
        store = Store()
        return fun.wrap(layer, static, store), lambda: store.val

    return transform


def transformation(layer: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """As `transformation2`, for a generator `layer(*static, *args)`.

    It yields the positional and the keyword arguments for the function, is sent what
    that gives, and yields the result.

    >>> from curta.extend import linear_util
    >>> @linear_util.transformation
    ... def scaled(factor, x):
    ...     out = yield (x,), {}
    ...     yield factor * out
    >>> scaled(linear_util.wrap_init(abs), 3).call_wrapped(-2)
    6
    """
    return transformation2(functools.partial(_run_generator, layer))


def _run_generator(
    layer: Callable[..., Any], f: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    steps = layer(*args, **kwargs)
    inner_args, inner_kwargs = next(steps)
    return steps.send(f(*inner_args, **inner_kwargs))


def transformation_with_aux(
    layer: Callable[..., Any],
) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """As `transformation`; the generator yields the result with a side value.

    >>> from curta.extend import linear_util
    >>> @linear_util.transformation_with_aux
    ... def doubled(*args):
    ...     result = yield args, {}
    ...     yield 2 * result, "doubled"
    >>> info = linear_util.DebugInfo("example", "f")
    >>> fun, note = doubled(linear_util.wrap_init(lambda x: x + 1, debug_info=info))
    >>> fun.call_wrapped(3), note()
    (8, 'doubled')
    """
    return transformation_with_aux2(functools.partial(_run_with_side_value, layer))


def _run_with_side_value(
    layer: Callable[..., Any],
    f: Callable[..., Any],
    store: Store,
    *args: Any,
    **kwargs: Any,
) -> Any:
    out, side = _run_generator(layer, f, *args, **kwargs)
    store.store(side)
    return out


def merge_linear_aux(
    first: Callable[[], Any], second: Callable[[], Any]
) -> tuple[bool, Any]:
    """Of two thunks of side values that which has one: whether it is the first.

    Raises StoreException if both have one, or none.

    >>> from curta.extend import linear_util
    >>> def empty():
    ...     raise linear_util.StoreException("empty")
    >>> linear_util.merge_linear_aux(lambda: "note", empty)
    (True, 'note')
    """
    result = []
    for thunk, is_first in ((first, True), (second, False)):
        with contextlib.suppress(StoreException):
            result.append((is_first, thunk()))
    if len(result) != 1:
        raise StoreException(f"{'both' if result else 'neither'} store occupied")
    return result[0]


def cache(
    call: Callable[..., Any], *, explain: Callable[..., None] | None = None
) -> Callable[..., Any]:
    """Cache `call(fun, *args)` for functions with the same wrappers.

    Args:
      call: takes a `WrappedFun`, and hashable arguments.
      explain: called as `explain(fun, is_first_use, cache, key, seconds)` on a cache
        miss if the setting jax_explain_cache_misses is on.

    Returns:
      The function, with `cache_clear()` and `evict_function(f)`.

    >>> from curta.extend import linear_util
    >>> @linear_util.cache
    ... def run(fun, x):
    ...     print("runs")
    ...     return fun.call_wrapped(x)
    >>> run(linear_util.wrap_init(abs), -2), run(linear_util.wrap_init(abs), -2)
    runs
    (2, 2)
    """
    kept: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    @wraps(call)
    def remembered(fun: WrappedFun, *args: Any) -> Any:
        own = kept.setdefault(fun.f, {})
        key = (fun.transforms, fun.params, args, config.context)
        if key in own:
            answer, stores = own[key]
            fun.populate_stores(stores)
            return answer
        start, first = time.perf_counter(), not own
        answer = call(fun, *args)
        if explain is not None and config.jax_explain_cache_misses:
            explain(fun, first, own, key, time.perf_counter() - start)
        own[key] = answer, fun.stores
        return answer

    remembered.cache_clear = kept.clear  # type: ignore[attr-defined]
    remembered.evict_function = lambda f: kept.pop(f, None)  # type: ignore
    return remembered
