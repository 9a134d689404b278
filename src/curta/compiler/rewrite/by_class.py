"""Tables by op class: a rule of a class is one of the classes derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from curta.core.op import Op

T = TypeVar("T")


def by_class(table: Mapping[type[Op], T], op: Op) -> T | None:
    """The entry of a table for the class of an op, or for its nearest base class.

    Example:
        >>> from curta.compiler.rewrite.by_class import by_class
        >>> from curta.core.op import Op
        >>> from curta.primitives.elementwise import mul
        >>> by_class({Op: "an op"}, mul)
        'an op'
    """
    for cls in type(op).__mro__:
        if cls in table:
            return table[cls]
    return None
