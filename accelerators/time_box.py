"""A plugin of pytest: tests that come after so many minutes are not begun."""

import time

import pytest

from accelerators.running import NOT_BEGUN

_start = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--minutes", type=float, default=0.0, help="0 for no limit")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    minutes = item.config.getoption("minutes")
    if minutes and time.monotonic() - _start > 60 * minutes:
        pytest.skip(f"{NOT_BEGUN} in the {minutes:.1f} minutes of this part")
