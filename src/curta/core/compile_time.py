"""Blocks of code in which functions are not traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from curta.core.trace import base_trace, use_trace


@contextlib.contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Compute what does not depend on traced values now, not in the jaxpr.

    >>> import curta, curta.numpy as jnp
    >>> @curta.jit
    ... def f(x):
    ...     with curta.ensure_compile_time_eval():
    ...         n = int(jnp.arange(4).sum())
    ...     return x * n
    >>> f(2)
    Array(12, dtype=int32, weak_type=True)
    """
    with use_trace(base_trace()):
        yield
