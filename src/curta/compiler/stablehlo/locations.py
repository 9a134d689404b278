"""Locations: the user's line of an operation, and the path of names to it.

Written as MLIR does: `loc(#loc3)` behind the operation, and what `#loc3` is at the
end of the module.
"""

from __future__ import annotations

from typing import Any

from curta.compiler.stablehlo.attributes import string
from curta.core.source_info import SourceInfo


class Locations:
    """The locations that a module speaks of, each written once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, place: Any) -> str:
        """` loc(#loc1)` for the place of an operation: a line, and a name if any.

        `place` is a `SourceInfo` or a pair of a path and one.
        """
        name, line = place if type(place) is tuple else ("", place)
        text = _file_line(line)
        if text is not None:
            text = self._alias(text)
        if name:
            text = self._alias(
                f"loc({string(name)}" + (f"({text})" if text else "") + ")"
            )
        return f" loc({text})" if text else self.unknown()

    def unknown(self) -> str:
        """The location of what no line of the program made."""
        return " loc(#loc)"

    def base(self) -> str:
        """The line that defines the unknown location."""
        return "#loc = loc(unknown)"

    def definitions(self) -> list[str]:
        """The lines that define the others."""
        return [f"#loc{n} = {text}" for text, n in self._numbers.items()]

    def _alias(self, text: str) -> str:
        number = self._numbers.setdefault(text, len(self._numbers) + 1)
        return f"#loc{number}"


def _file_line(place: SourceInfo) -> str | None:
    if place.code is None:
        return None
    return f"loc({string(place.code.co_filename)}:{place.line}:{place.column})"
