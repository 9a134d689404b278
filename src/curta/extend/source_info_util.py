"""Source lines and scopes of equations."""

from __future__ import annotations

from curta._base.on_demand import Listing, listed
from curta.core.name_stack import (
    EMPTY,
    NameStack as NameStack,
    new_name_stack as new_name_stack,
)
from curta.core.source_info import (
    UNKNOWN,
    NamedScope as extend_name_stack,
    SetNameStack as set_name_stack,
    SourceInfo as SourceInfo,
    Transforming as transform_name_stack,
    current_name_stack as current_name_stack,
    register_exclusion as register_exclusion,
    user_context as user_context,
    user_frame as current,
)

__all__ = [
    "NameStack",
    "SourceInfo",
    "current",
    "current_name_stack",
    "extend_name_stack",
    "new_name_stack",
    "new_source_info",
    "register_exclusion",
    "reset_name_stack",
    "set_name_stack",
    "summarize",
    "transform_name_stack",
    "user_context",
]
__dir__: Listing = listed(__all__)


def new_source_info() -> SourceInfo:
    """A location that is not known.

    >>> from curta.extend.source_info_util import new_source_info
    >>> print(new_source_info())
    <unknown>
    """
    return UNKNOWN


def reset_name_stack() -> set_name_stack:
    """A context manager within which there are no scopes around what is recorded.

    >>> import curta
    >>> from curta.extend.source_info_util import current_name_stack, reset_name_stack
    >>> with curta.named_scope("outer"), reset_name_stack():
    ...     len(current_name_stack())
    0
    """
    return set_name_stack(EMPTY)


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """The location as `file:line:column (function)`.

    >>> import curta
    >>> from curta.extend.source_info_util import summarize
    >>> summarize(curta.make_jaxpr(curta.lax.sin)(1.0).eqns[0].source_info)
    '...:1:10 (<module>)'
    """
    return str(source_info)
