"""The compiler checks its own work between passes while it is tested."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.compiler.printing import clean, matches, rewrite_expected


@pytest.fixture(autouse=True)
def checks_between_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURTA_CHECK", "1")


_changes: list[tuple[Path, int, str]] = []


@pytest.fixture
def prints(request: pytest.FixtureRequest) -> Callable[[object, str], None]:
    """`prints(x, "text")`: the text of x is this one, whatever its indentation.

    With `--update-golden` the test's source gets the text that is printed now.
    """

    def check(found: object, expected: str) -> None:
        __tracebackhide__ = True
        text = clean(str(found))
        if request.config.getoption("--update-golden"):
            _changes.append((request.path, sys._getframe(1).f_lineno, text))
            return
        assert text == clean(expected)

    return check


@pytest.fixture
def contains() -> Callable[[object, str], None]:
    """`contains(x, "pattern")`: lines of the text of x match (`printing.matches`)."""

    def check(found: object, pattern: str) -> None:
        __tracebackhide__ = True
        missing = matches(str(found), pattern)
        assert missing is None, f"no line {missing!r} in\n{found}"

    return check


@pytest.fixture(autouse=True, scope="session")
def _written_back() -> Iterator[None]:
    yield
    rewrite_expected(_changes)
