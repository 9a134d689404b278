"""Which line of the user's program an eqn comes from."""

from __future__ import annotations

from curta.core.source_info import (
    UNKNOWN,
    NamedScope as extend_name_stack,
    SourceInfo as SourceInfo,
    current_name_stack as current_name_stack,
    user_frame as current,
)

__all__ = [
    "SourceInfo",
    "current",
    "current_name_stack",
    "extend_name_stack",
    "new_source_info",
    "summarize",
]


def new_source_info() -> SourceInfo:
    """A place that is not known.

    >>> from curta.extend.source_info_util import new_source_info
    >>> print(new_source_info())
    <unknown>
    """
    return UNKNOWN


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """The place as `file:line (function)`.

    >>> import curta
    >>> from curta.extend.source_info_util import summarize
    >>> summarize(curta.make_jaxpr(curta.lax.sin)(1.0).eqns[0].source_info)
    '...:1 (<module>)'
    """
    return str(source_info)
