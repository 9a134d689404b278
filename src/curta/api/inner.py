"""Functions of the library: those of `inner_jit` show as one call in a jaxpr."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from curta.api.evaluation import evaluated, of_its_own
from curta.api.jit import named_jit
from curta.api.jit_options import check_statics
from curta.api.signatures import P, R
from curta.config import config
from curta.core.array import Array
from curta.core.source_info import settle, unsettle
from curta.core.stage import recording_trace
from curta.core.trace import thread_state, typeof
from curta.core.tracebacks import is_boundary, shorten_traceback
from curta.runtime.eager import BASE
from curta.runtime.native_call import MISS
from curta.tree_util import all_leaves

_PLAIN = frozenset((bool, int, float, complex, str, tuple, list, type(None)))


def in_line(
    function: Callable[..., R], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> R:
    """`function(*args, **kwargs)`, all of whose ops are at the line that called it."""
    if not thread_state.trace.locates:
        return function(*args, **kwargs)
    before = settle(True)
    try:
        return function(*args, **kwargs)
    finally:
        unsettle(before)


@overload
def inner_jit(
    fun: Callable[P, R],
    *,
    static_argnames: str | Sequence[str] = ...,
    name: str | None = ...,
    inline: bool = ...,
    whole: bool = ...,
) -> Callable[P, R]: ...
@overload
def inner_jit(
    *,
    static_argnames: str | Sequence[str] = ...,
    name: str | None = ...,
    inline: bool = ...,
    whole: bool = ...,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def inner_jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    name: str | None = None,
    inline: bool = False,
    whole: bool = False,
) -> Any:
    """Make `fun` one call wherever it is recorded, and plain Python elsewhere.

    Recorded in a jaxpr, `fun` is a call of a jaxpr of its own, compiled once however
    often it occurs. On concrete arrays its jaxpr runs at once, in NumPy if they are
    small and compiled if they are large. Differentiated or batched it is the Python
    function that it is, unless arrays are large.

    `name` is what the jaxpr calls it, if not the name of `fun`. `whole` keeps it a call
    when it is differentiated or batched too, for functions that take long to trace.
    """
    if fun is None:
        return functools.partial(
            inner_jit,
            static_argnames=static_argnames,
            name=name,
            inline=inline,
            whole=whole,
        )
    jitted = named_jit(fun, name, static_argnames, inline)
    options, function = jitted._options, fun
    entries, native = jitted._plans.entries, jitted._native

    @functools.wraps(fun)
    @is_boundary
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if thread_state.trace is BASE:
                out = native(*args, **kwargs) if entries else MISS
                if out is MISS:
                    out = evaluated(jitted, args, kwargs)
                if out is not MISS:
                    return out
            elif whole or recording_trace() is not None:
                return jitted(*args, **kwargs)
            most = config.tuning.compiled_elements
            large = any(isinstance(x, Array) and x.aval.size > most for x in args)
            # With debug_nans the result is looked at, not what it is selected from.
            if large or config.context.debugging:
                return jitted(*args, **kwargs)
            check_statics(options, args, kwargs)
            out = in_line(function, args := _converted(args), kwargs)
            return of_its_own(out, args, *kwargs.values())
        except Exception as error:
            misuse = jitted.misuse(args, kwargs)  # the error that tracing would raise
            if misuse is not None:
                shorten_traceback(misuse)
                raise misuse from None
            shorten_traceback(error)
            raise

    return call


@overload
def inlined_jit(
    fun: Callable[P, R],
) -> Callable[P, R]: ...
@overload
def inlined_jit(
    *, static_argnames: str | Sequence[str] = ...
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def inlined_jit(
    fun: Callable[..., Any] | None = None, *, static_argnames: str | Sequence[str] = ()
) -> Any:
    """Make `fun` quick on concrete arrays; anywhere else it is what it is.

    As `inner_jit`, for functions that are not calls of their own in a jaxpr.
    """
    if fun is None:
        return functools.partial(inlined_jit, static_argnames=static_argnames)
    jitted = named_jit(fun, None, static_argnames, True)
    entries, native, function = jitted._plans.entries, jitted._native, fun

    @functools.wraps(fun)
    @is_boundary
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if thread_state.trace is BASE:
                out = native(*args, **kwargs) if entries else MISS
                if out is MISS:
                    out = evaluated(jitted, args, kwargs)
                if out is MISS:
                    args = _converted(args)
                    out = function(*args, **kwargs)
                    out = of_its_own(out, args, *kwargs.values())
                return out
            return in_line(function, _converted(args), kwargs)
        except Exception as error:
            # A filter raised it: raise it next time, too.
            if isinstance(error, Warning):
                jitted._plans.forget_first_calls()
            shorten_traceback(error)
            raise

    return call


def new_arrays(fun: Callable[P, R]) -> Callable[P, R]:
    """Make `fun` copy results that are its arguments."""

    @functools.wraps(fun)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given: Any = tuple(map(_as_array, args))
        out: R = of_its_own(fun(*given, **kwargs), given, *kwargs.values())
        return out

    return call


def _as_array(x: Any) -> Any:
    """What is to be an array, as that."""
    if type(x) in _PLAIN or isinstance(x, Array):
        return x
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x


def _converted(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with pytrees that have `__jax_array__` as what it gives.

    Raises ValueError where the function, traced, would be given no array: JAX calls
    the method only of what is made of arrays.
    """
    for x in args:
        if type(x) not in _PLAIN and not isinstance(x, Array):
            if hasattr(x, "__jax_array__"):
                return tuple(map(_one_converted, args))
    return args


def _one_converted(x: Any) -> Any:
    if isinstance(x, Array) or not hasattr(x, "__jax_array__"):
        return x
    if config.jax_disable_jit:
        return x
    if not all_leaves([x]):
        return x.__jax_array__()
    typeof(x)  # raises ValueError, but for symbolic dims
    return x
