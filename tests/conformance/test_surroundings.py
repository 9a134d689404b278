"""Every op in loops and branches that call back into Python, and run op by op."""

import numpy as np
import pytest
from tests.conformance.checks import array, as_list, assert_close, evaluate, storage
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import debug_nans, enable_x64
from curta.core.op import Op

# Ops with scalar code are all handled alike: some of them are enough.
ALIKE = [c for c in sampled_ops() if c.lower is not Op.lower]
CLASSES = [c for c in sampled_ops() if c not in ALIKE] + ALIKE[::10]


def surrounded(case: Case, note):
    """A function that gives the op's results from a scan, a while loop and a branch.

    Its arguments are operands, each twice, and what makes a last result NaN.
    """

    def run(xs):
        return as_list(case.op, case.op(*xs))

    def in_scan(carry, xs):
        note("scan")
        return carry, run(xs)

    def in_branch(xs):
        note("branch")
        return run(xs)

    def program(stacked, zero):
        def in_while(carry):
            note("while")
            return carry[0] + 1, run([x[carry[0]] for x in stacked])

        _, rows = lax.scan(in_scan, 0, stacked, length=2)
        start = [x[0] for x in rows]
        _, last = lax.while_loop(lambda c: c[0] < 2, in_while, (0, start))
        first = [x[0] for x in stacked]
        branch = lax.cond(zero == 0, in_branch, lambda _: start, first)
        return [[x[1] for x in rows], last, branch], jnp.log(zero - 1)

    return program


@pytest.fixture(params=CLASSES, ids=lambda c: c.__name__)
def sample(request):
    """A case, its operands twice, and its results."""
    case = cases(request.param)[0]
    with enable_x64(True):
        stacked = [
            array(np.stack([x, x]), a.update(shape=(2, *a.shape)))
            for x, a in zip(case.args, case.avals, strict=True)
        ]
        yield case, stacked, evaluate(case.op, case.args)


PLACES = ["branch", "scan", "scan", "while", "while"]


def check(case, found, wanted):
    for outs in found:
        for got, want in zip(outs, wanted, strict=True):
            assert_close(storage(got), want, str(case))


def test_beside_callbacks(sample):
    case, stacked, wanted = sample
    seen = []
    note = lambda place: curta.debug.callback(lambda: seen.append(place))  # noqa: E731
    found, _ = curta.jit(surrounded(case, note))(stacked, np.float32(0))
    check(case, found, wanted)
    curta.effects_barrier()
    assert sorted(seen) == PLACES


def test_op_by_op(sample):
    case, stacked, wanted = sample
    program = surrounded(case, lambda place: None)
    with curta.disable_jit():
        check(case, program(stacked, np.float32(0))[0], wanted)
    numbers = [x for x in (*case.args, *wanted) if x.dtype.kind in "fc"]
    if all(np.isfinite(x).all() for x in numbers):
        with debug_nans(True), pytest.raises(FloatingPointError, match="in log"):
            curta.jit(program)(stacked, np.float32(0))
