"""`CURTA_DUMP=stage,stage` prints what the stages of the compiler make."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def dump(stage: str, text: Callable[[], str]) -> None:
    """Print a stage if `CURTA_DUMP` names it."""
    if stage in os.environ.get("CURTA_DUMP", "").split(","):
        print(f"--- {stage}\n{text()}", file=sys.stderr)
