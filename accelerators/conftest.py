"""What stands at the end of a run: the table of op classes of tier A, and the tiers."""

import os
from collections import Counter, defaultdict

import pytest

# They run in processes of their own, with other devices (test_device_arrays.py).
collect_ignore = [] if os.environ.get("CURTA_ON_DEVICES") else ["on_devices"]

_REASONS = {
    "StableHLO lowering rule for primitive": "no rule",
    "StableHLO has no element type": "no element type",
    "InvalidModule": "not valid",
    "JaxRuntimeError": "XLA fails",
    "differ, as": "differs",
}


# Tests by the tier that they are of; the others are of tier A.
_TIERS = {
    "test_pjrt_ahead_of_time": "B",
    "test_pjrt_corpus": "B",
    "test_pjrt_models": "B",
    "test_topologies": "B",
    "test_pjrt_header": "C",
    "test_pjrt_cpu": "C",
    "test_pjrt_backend": "C",
    "test_device_arrays": "C",
    "test_pjrt_processes": "D",
}


def pytest_terminal_summary(terminalreporter):
    """Tables at the end of a run."""
    _say_ops(terminalreporter)
    _say_tiers(terminalreporter)


def _say_tiers(terminalreporter):
    """How many tests of each tier ran, and why others did not."""
    counts = {tier: Counter() for tier in "ABCD"}
    reasons = defaultdict(set)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            file = report.nodeid.partition(".py")[0].rpartition("/")[2]
            tier = _TIERS.get(file, "A")
            counts[tier][outcome] += 1
            if outcome == "skipped":
                reasons[tier].add(report.longrepr[2].removeprefix("Skipped: "))
    for tier, found in counts.items():
        ran = ", ".join(f"{n} {outcome}" for outcome, n in found.items())
        terminalreporter.write_line(f"tier {tier}: {ran or 'not run'}")
        for reason in sorted(reasons[tier]):
            terminalreporter.write_line(f"  {reason}")


def _say_ops(terminalreporter):
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
