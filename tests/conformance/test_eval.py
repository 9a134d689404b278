"""`aval` says what `eval` gives, in every dtype that the samples claim."""

import warnings
from pathlib import Path

import pytest
from tests.conformance.checks import as_list, evaluate
from tests.conformance.operations import TESTED_ELSEWHERE, all_ops, sampled_ops
from tests.conformance.samples import cases

from curta import dtypes
from curta.config import enable_x64

ROOT = Path(__file__).parents[2]


def test_every_op_is_tested_somewhere():
    assert len(sampled_ops()) > 60
    known = {c.__name__ for c in all_ops()}
    assert TESTED_ELSEWHERE.keys() <= known, "ops that are no more"
    for place in TESTED_ELSEWHERE.values():
        assert (ROOT / place).exists(), f"no {place}"


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_aval_is_that_of_eval(cls):
    found = cases(cls)
    assert found, f"{cls.__name__}.samples yields nothing"
    for case in found:
        before = [x.copy() for x in case.args]
        with enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("error")
            avals = as_list(case.op, case.op.aval(*case.avals))
            outs = evaluate(case.op, case.args)
        assert len(outs) == len(avals), case
        for out, aval in zip(outs, avals, strict=True):
            assert out.shape == aval.shape, f"{case}: {out.shape}, aval {aval}"
            physical = dtypes.physical_dtype(aval.dtype)
            assert out.dtype == physical, f"{case}: {out.dtype}, aval {aval}"
        for x, y in zip(case.args, before, strict=True):
            assert x.tobytes() == y.tobytes(), f"{case} changed its operand"


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_ops_compare_by_class_and_parameters(cls):
    for case in cases(cls):
        assert case.op == case.op and hash(case.op) == hash(case.op)
        assert case.op.name == cls.name
        assert isinstance(case.op.params(), dict)
