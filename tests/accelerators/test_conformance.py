"""Tier A: the samples of every op, lowered to StableHLO, run by XLA, against `eval`."""

import numpy as np
import pytest
from tests.accelerators.modules import lower, staged
from tests.accelerators.programs import run_cases, wanted
from tests.conformance.checks import assert_close
from tests.conformance.invariants import without_choices
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import cases

from curta.config import enable_x64


def check(found, platforms=("cpu",)):
    """Fail if outputs of the cases differ from those of `eval`."""
    failures = []
    with enable_x64(True):
        for case, outs in zip(found, run_cases(found, platforms), strict=True):
            given = [np.asarray(x) for x in outs]
            pairs = [without_choices(case.op, x) for x in (given, wanted(case))]
            for n, (got, want) in enumerate(zip(*pairs, strict=True)):
                try:
                    assert_close(got, want, f"{case}, output {n}")
                except AssertionError as error:
                    failures.append(str(error))
    if failures:
        shown = "\n".join(failures[:4])
        pytest.fail(
            f"{len(failures)} of {len(found)} differ, as\n{shown}", pytrace=False
        )


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_program_agrees_with_eval(cls):
    check(cases(cls))


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_what_is_written_for_others_agrees_too(cls, platform):
    """As far as it is no call of theirs."""
    found = cases(cls)
    with enable_x64(True):
        closed, _ = staged(found)
        text = lower(closed, [platform])
        if text == lower(closed) or "stablehlo.custom_call" in text:
            return
    check(found, [platform])
