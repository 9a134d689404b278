"""Locations: the user's line of an operation, and the path of names to it.

Written as MLIR does: `loc(#loc3)` behind the operation, and what `#loc3` is at the
end of the module.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from curta.compiler.stablehlo.attributes import string
from curta.core.jaxpr import Eqn, Jaxpr
from curta.core.name_stack import NameStack, shown_path
from curta.core.pretty import paths
from curta.core.source_info import UNKNOWN, SourceInfo


class EqnLocation(NamedTuple):
    """An eqn of a jaxpr, which is a function's or in another eqn, or a part of it."""

    eqn: Eqn
    jaxpr: Jaxpr
    outer: EqnLocation | NameStack
    part: str = ""


class Locations:
    """The locations that a module speaks of, each written once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._within: dict[tuple[Any, Any], NameStack] = {}

    def of(self, location: Any) -> str:
        """` loc(#loc1)` for where an operation comes from.

        It comes from an `EqnLocation`, a `SourceInfo`, or what a function has around
        its eqns: the path to the function.
        """
        name, line = "", UNKNOWN
        if isinstance(location, EqnLocation):
            name, line = shown_path(self._path(location)), location.eqn.source_info
        elif isinstance(location, NameStack):
            name = str(location)
        else:
            line = location
        text = self._line(line)
        if name:
            text = self._alias(f"loc({string(name)}{text and f'({text})'})")
        return f" loc({text})" if text else self.unknown()

    def argument(self, name: str) -> str:
        """` loc("x")` for an argument of that name."""
        return f" loc({string(name)})" if name else " loc(unknown)"

    def unknown(self) -> str:
        """The location of what no line of the program made."""
        return " loc(#loc)"

    def base(self) -> str:
        """The line that defines the unknown location."""
        return "#loc = loc(unknown)"

    def definitions(self) -> list[str]:
        """The lines that define the others."""
        return [f"#loc{n} = {text}" for text, n in self._numbers.items()]

    def _path(self, location: EqnLocation) -> NameStack:
        path, _ = paths(location.eqn, self._inside(location.outer, location.jaxpr))
        return path.extend(location.part) if location.part else path

    def _inside(self, outer: EqnLocation | NameStack, jaxpr: Jaxpr) -> NameStack:
        """The path to a jaxpr."""
        if isinstance(outer, NameStack):
            return outer
        key = id(outer.eqn), jaxpr
        result = self._within.get(key)
        if result is None:
            around = self._inside(outer.outer, outer.jaxpr)
            path, within = paths(outer.eqn, around)
            # What is made of other ops is at the path to itself.
            result = self._within[key] = within.get(jaxpr, path)
        return result

    def _alias(self, text: str) -> str:
        number = self._numbers.setdefault(text, len(self._numbers) + 1)
        return f"#loc{number}"

    def _line(self, location: SourceInfo) -> str:
        if location.code is None:
            return ""
        first, last, start, end = location.extent
        text = f"{string(location.code.co_filename)}:{location.line}:{start or 0}"
        if end is not None:
            text += f" to {last if last != first else ''}:{end}"
        line = self._alias(f"loc({text})")
        return self._alias(f"loc({string(location.code.co_qualname)}({line}))")
