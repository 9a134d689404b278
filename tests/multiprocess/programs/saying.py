"""Lines of several processes that write to one pipe."""

import sys


def say(line: str) -> None:
    """Write a line at once, so that those of others do not come in between."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
