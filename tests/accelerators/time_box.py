"""A plugin of pytest: tests so many minutes after the first are not begun."""

import functools
import time

import pytest
from tests.accelerators.running import NOT_BEGUN


@functools.cache
def _first_begun() -> float:
    return time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--minutes", type=float, default=0.0, help="0 for no limit")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    minutes = item.config.getoption("minutes")
    if minutes and time.monotonic() - _first_begun() > 60 * minutes:
        pytest.skip(f"{NOT_BEGUN} in the {minutes:.1f} minutes of this part")
