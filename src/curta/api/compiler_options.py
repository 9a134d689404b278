"""Options of the compiler that are enumerations: when calls are inlined, and effort."""

from __future__ import annotations

import enum
from typing import Any

from curta._settings.api_version import INLINE_IS_LATE


class Inline(enum.Enum):
    """Inlining policy of a jitted function.

    `JAX_EARLY` puts its eqns into the enclosing jaxpr. With the others jaxprs show a
    call, which the compiler inlines. `inline=True` is `JAX_LATE`; before JAX 0.12 it
    was `JAX_EARLY`.

    >>> import curta
    >>> half = curta.jit(lambda x: x / 2, inline=curta.Inline.JAX_EARLY)
    >>> curta.make_jaxpr(half)(1.0)
    { lambda ; a:f32[]. let b:f32[] = div a 2.0:f32[] in (b,) }
    """

    JAX_EARLY = "jax_early"
    JAX_LATE = "jax_late"
    XLA_EARLY = "xla_early"
    XLA_LATE = "xla_late"
    AUTO = "auto"


def is_inlined_early(inline: bool | Inline) -> bool:
    """Return True if eqns replace a call while tracing; ValueError for no option."""
    if isinstance(inline, Inline):
        return inline is Inline.JAX_EARLY
    if isinstance(inline, bool):
        return inline and not INLINE_IS_LATE.applies()
    raise ValueError(
        f"Invalid inline option: {inline!r}. Pass True, False or a curta.Inline."
    )


class CompilerEffortLevel(enum.Enum):
    """Optimization effort of XLA; the compiler for CPUs has one level.

    >>> CompilerEffortLevel("O2")
    <CompilerEffortLevel.O2: 29>
    """

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39

    @classmethod
    def _missing_(cls, value: Any) -> CompilerEffortLevel | None:
        return cls.__members__.get(value) if isinstance(value, str) else None
