"""`aval` says what `eval` gives, in every dtype that the samples claim."""

import warnings
from pathlib import Path

import numpy as np
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


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_numpy_scalars_are_operands_without_dims(cls):
    """NumPy's functions return scalars for arrays without dims, also within `eval`."""
    for case in cases(cls):
        scalars = [x[()] if x.ndim == 0 else x for x in case.args]
        with enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = evaluate(case.op, case.args)
            outs = evaluate(case.op, scalars)
        for out, want in zip(outs, wanted, strict=True):
            out = np.asarray(out)
            assert out.dtype == want.dtype and out.shape == want.shape, case
            if out.tobytes() != want.tobytes():  # NumPy has other code for scalars
                np.testing.assert_allclose(out, want, rtol=1e-6, err_msg=str(case))
