"""The summary of a run: the table of op classes."""

import os
from collections import defaultdict

import pytest
from tests.accelerators.running import NOT_BEGUN

# They run in processes of their own, with other devices (__main__.py).
collect_ignore = [] if os.environ.get("CURTA_ON_DEVICES") else ["on_devices"]

_REASONS = {
    "StableHLO lowering rule for primitive": "no rule",
    "StableHLO has no element type": "no element type",
    "InvalidModule": "not valid",
    "JaxRuntimeError": "XLA fails",
    "differ, as": "differs",
}


def pytest_terminal_summary(terminalreporter):
    """How many op classes pass, and the names of the others by what is wrong."""
    stats = terminalreporter.stats
    tests = [
        (report, outcome)
        for outcome in ("passed", "failed", "skipped")
        for report in stats.get(outcome, [])
        if "test_program_agrees_with_eval" in report.nodeid
    ]
    if not tests:
        return
    others = defaultdict(list)
    for report, outcome in tests:
        if outcome != "passed":
            others[_reason(report)].append(report.nodeid.partition("[")[2][:-1])
    passed = sum(outcome == "passed" for _, outcome in tests)
    write = terminalreporter.write_line
    write(f"op classes: {passed} of {len(tests)} pass")
    for reason, names in sorted(others.items()):
        write(f"  {reason} ({len(names)}): {' '.join(sorted(names))}")


def _reason(report: pytest.TestReport) -> str:
    text = str(report.longrepr)
    if NOT_BEGUN in text:
        return NOT_BEGUN
    return next((r for words, r in _REASONS.items() if words in text), "fails")
