"""The compiler checks its own work between passes while it is tested."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def checks_between_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURTA_CHECK", "1")
