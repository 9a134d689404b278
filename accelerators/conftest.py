"""The table of op classes at the end of a run of tier A."""

from collections import defaultdict

import pytest

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
    write(f"tier A: {passed} of {len(tests)} op classes pass on XLA:CPU")
    for reason, names in sorted(others.items()):
        write(f"  {reason} ({len(names)}): {' '.join(sorted(names))}")


def _reason(report: pytest.TestReport) -> str:
    text = str(report.longrepr)
    return next((r for words, r in _REASONS.items() if words in text), "fails")
