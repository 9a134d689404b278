"""`CURTA_DUMP=pass,pass` prints what passes of the compiler make."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def dump(name: str, text: Callable[[], str]) -> None:
    """Print what a pass has made if `CURTA_DUMP` names it."""
    if name in os.environ.get("CURTA_DUMP", "").split(","):
        print(f"--- {name}\n{text()}", file=sys.stderr)
