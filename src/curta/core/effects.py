"""What an eqn does besides computing its results."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TypeAlias


class Effect:
    """A kind of side effect. Eqns that have one are kept, and in their order.

    >>> class WriteToLog(Effect):
    ...     pass
    >>> WriteToLog()
    WriteToLog
    """

    __slots__ = ()

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return str(self)


class NamedEffect(str, Effect):
    """One that its name says all about; equal names are equal effects."""

    __slots__ = ()

    def __str__(self) -> str:
        return str.__str__(self)

    __repr__ = __str__


Effects: TypeAlias = AbstractSet[Effect]
