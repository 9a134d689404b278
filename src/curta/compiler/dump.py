"""Wishes of the environment for diagnosis; programs do not depend on them.

`CURTA_DUMP=pass,pass` prints what passes make. With `CURTA_CHECK=1` each stage verifies
its result.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def is_checked() -> bool:
    """Whether stages verify their results."""
    return bool(os.environ.get("CURTA_CHECK"))


def is_watched() -> bool:
    """Whether somebody wants to see the compiler at work."""
    return "CURTA_DUMP" in os.environ or "CURTA_CHECK" in os.environ


def dump(name: str, text: Callable[[], str]) -> None:
    """Print what a pass has made if `CURTA_DUMP` names it."""
    if name in os.environ.get("CURTA_DUMP", "").split(","):
        print(f"--- {name}\n{text()}", file=sys.stderr)
