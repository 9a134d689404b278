"""`inner_jit`: library functions that show as one call in a jaxpr."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

from curta.api.jit import named_jit
from curta.api.jit_options import check_statics
from curta.api.signatures import P, R
from curta.config import config
from curta.core.array import Array
from curta.core.stage import recording_trace
from curta.core.trace import thread_state
from curta.core.tracebacks import is_boundary, shorten_traceback
from curta.runtime.eager import BASE
from curta.runtime.remembered import NOT_REMEMBERED, Remembered


@overload
def inner_jit(
    fun: Callable[P, R],
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
    options = jitted._options
    remembered = Remembered(fun, options.static_argnums, options.static_argnames)
    function = fun

    @functools.wraps(fun)
    @is_boundary
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if thread_state.trace is BASE:
                out = remembered(args, kwargs)
                if out is not NOT_REMEMBERED:
                    return out
                if config.jax_debug_key_reuse:
                    return jitted(*args, **kwargs)
            elif whole or recording_trace() is not None:
                return jitted(*args, **kwargs)
            most = config.tuning.compiled_elements
            for x in args:
                if isinstance(x, Array) and x.aval.size > most:
                    return jitted(*args, **kwargs)
            check_statics(options, args, kwargs)
            return function(*args, **kwargs)
        except Exception as error:
            misuse = jitted.misuse(args, kwargs)  # what a traced call would say
            if misuse is not None:
                shorten_traceback(misuse)
                raise misuse from None
            shorten_traceback(error)
            raise

    return call
