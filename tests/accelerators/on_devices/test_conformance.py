"""The samples of every op, run as programs on the default device, against `eval`."""

import pytest
from tests.accelerators.modules import staged
from tests.conformance.checks import array, assert_close, evaluate, storage
from tests.conformance.invariants import without_choices
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import cases

from curta.config import enable_x64
from curta.runtime.dispatch import CompiledCall


def run_cases(found):
    """The outputs of all cases, from one program."""
    closed, counts = staged(found)
    args = [array(x, a) for c in found for x, a in zip(c.args, c.avals, strict=True)]
    outs = iter(map(storage, CompiledCall(closed, "samples")(args)))
    return [[next(outs) for _ in range(count)] for count in counts]


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_program_agrees_with_eval(cls):
    found = cases(cls)
    failures = []
    with enable_x64(True):
        for case, outs in zip(found, run_cases(found), strict=True):
            pairs = [
                without_choices(case.op, x)
                for x in (outs, evaluate(case.op, case.args))
            ]
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
