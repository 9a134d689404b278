"""Tier A: the samples of every op, lowered to StableHLO, run by XLA, against `eval`."""

import numpy as np
import pytest
from tests.conformance.checks import assert_close
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import cases

from accelerators.programs import run_cases, wanted
from curta.config import enable_x64


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_program_agrees_with_eval(cls):
    found = cases(cls)
    failures = []
    with enable_x64(True):
        for case, outs in zip(found, run_cases(found), strict=True):
            for n, (got, want) in enumerate(zip(outs, wanted(case), strict=True)):
                try:
                    assert_close(np.asarray(got), want, f"{case}, output {n}")
                except AssertionError as error:
                    failures.append(str(error))
    if failures:
        shown = "\n".join(failures[:4])
        pytest.fail(
            f"{len(failures)} of {len(found)} differ, as\n{shown}", pytrace=False
        )
