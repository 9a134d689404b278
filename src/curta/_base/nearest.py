"""Which known names a misspelled one is nearest to, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from curta._base.on_demand import late

difflib: Any = late("difflib")

_MOST = 3
_LIKENESS = 0.6


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the most similar of the known names, the nearest first.

    >>> nearest("bach", ["batch", "model"])
    ['batch']
    """
    result: list[str] = difflib.get_close_matches(name, [*known], _MOST, _LIKENESS)
    return result


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question, with a space before it, or the empty string.

    >>> did_you_mean("bach", ["batch", "model"])
    " Did you mean 'batch'?"
    """
    found = " or ".join(map(repr, nearest(name, known)))
    return f" Did you mean {found}?" if found else ""
