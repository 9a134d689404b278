"""Names for parts of a program, kept in what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from curta.core.source_info import NamedScope


def named_scope(name: str) -> NamedScope:
    """A context manager, and decorator, that names the ops recorded within it.

    Jaxprs show the names: `jaxpr.pretty_print(name_stack=True)`, and
    `eqn.source_info.name_stack`.

    >>> import curta, curta.numpy as jnp
    >>> def f(x):
    ...     with curta.named_scope("layer"):
    ...         return jnp.sin(x)
    >>> print(curta.make_jaxpr(f)(1.0).pretty_print(name_stack=True))
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } # [layer]
    """
    if not isinstance(name, str):
        raise TypeError("named_scope name argument must be a string.")
    return NamedScope(name)


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Any:
    """Return `fun` inside a named scope; see `named_scope`.

    >>> import curta, curta.numpy as jnp
    >>> jaxpr = curta.make_jaxpr(curta.named_call(jnp.sin))(1.0)
    >>> print(jaxpr.eqns[0].source_info.name_stack)
    sin
    """
    return named_scope(fun.__name__ if name is None else name)(fun)
