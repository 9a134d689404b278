"""Comparing an error with what it should say."""

from collections.abc import Callable
from typing import Any

import pytest


def check_message(
    mistake: Callable[[], Any], kind: type[Exception], opening: str, help: str
) -> None:
    """`mistake()` raises `kind`; its message opens so, and further on says `help`."""
    with pytest.raises(kind) as raised:
        mistake()
    message = " ".join(str(raised.value).split())
    assert message.startswith(opening)
    assert help in message
