"""What an eqn does besides computing its results."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import ClassVar, TypeAlias


class Effect:
    """A kind of side effect. Eqns that have one are kept, and in their order.

    `ordered` says that the order among those of a kind matters to the user, and
    `shardable` that a program over several devices may have it nevertheless.

    >>> class WriteToLog(Effect):
    ...     pass
    >>> WriteToLog()
    WriteToLog
    """

    __slots__ = ()
    ordered: ClassVar[bool] = False
    shardable: ClassVar[bool] = False

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
