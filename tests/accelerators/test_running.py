"""How tests are run in a box of time, and counted."""

from tests.accelerators.__main__ import parts
from tests.accelerators.running import NOT_BEGUN, ROOT, run_pytest

TESTS = """
import time

import pytest


def test_that_passes():
    time.sleep(0.7)


def test_that_comes_too_late():
    raise AssertionError


@pytest.mark.skip(reason="no such device")
def test_that_is_skipped():
    raise AssertionError
"""


def outcome(tmp_path, text, *options, limit=None):
    file = tmp_path / "test_some.py"
    file.write_text(text)
    plugin = ["-p", "tests.accelerators.time_box"]
    return run_pytest([str(file)], {}, [*plugin, *options], limit)


def test_outcomes_and_reasons(tmp_path):
    result = outcome(tmp_path, TESTS)
    assert result.counts == {"passed": 1, "failed": 1, "skipped": 1}
    assert result.reasons == {"no such device": 1}
    assert not result.is_good


def test_what_comes_too_late_is_not_begun(tmp_path):
    result = outcome(tmp_path, TESTS, "--minutes=0.01")
    assert result.counts == {"passed": 1, NOT_BEGUN: 2}
    assert result.is_good


def test_what_hangs_is_killed(tmp_path):
    result = outcome(tmp_path, "import time; time.sleep(100)", limit=5)
    assert str(result) == "killed after 5 s"
    assert not result.is_good


def test_the_files_of_all_parts_are_there():
    paths = [path for part in parts() for path in part.paths]
    assert len({*paths}) == len(paths)
    assert all((ROOT / path).exists() for path in paths)
