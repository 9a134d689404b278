"""Tier B: a sample of every op compiled by the plugins for GPUs and TPUs."""

import pytest
from tests.accelerators import targets
from tests.accelerators.modules import lower, staged
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases

from curta.dtypes import KeyDType
from curta.runtime.pjrt.options import compile_options

OPTIONS = compile_options(devices=[0])
# What takes a plugin minutes to compile: nested loops of special functions.
SLOW = {"tpu": {"IgammaGradA", "RandomGammaGrad"}}


def narrow(case: Case) -> bool:
    """Whether its dtypes are ones that every device has."""
    dtypes = [aval.dtype for aval in case.avals]
    return all(
        isinstance(d, KeyDType) or d.itemsize <= (8 if d.kind == "c" else 4)
        for d in dtypes
    )


def sample(cls) -> Case:
    """The first sample of such dtypes, or the first."""
    found = cases(cls)
    return next(filter(narrow, found), found[0])


@pytest.mark.parametrize("name", targets.NAMES)
@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_op_is_compiled(cls, name):
    topology = targets.topology(name)
    if cls.__name__ in SLOW.get(name, ()):
        pytest.skip(f"not compiled for {name}, which takes minutes: {cls.__name__}")
    closed, _ = staged([sample(cls)])
    text = lower(closed, [name])
    topology.compile(text, OPTIONS).close()
