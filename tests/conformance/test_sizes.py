"""One compilation for all sizes of the batch dim, against `eval` of each example."""

import numpy as np
import pytest
from tests.conformance.checks import array, as_list, assert_close, evaluate, storage
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases
from tests.conformance.test_batch import examples_of

import curta
from curta.config import enable_x64
from curta.primitives.linalg.lu import LUPivotsToPermutation

SIZES = (9, 2, 3, 1, 70)  # of which the first is compiled for
MOST_CASES = 4


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_open_sizes_agree_with_eval(cls):
    seen = set()
    with enable_x64(True):
        for case in cases(cls):
            # What is moved about does not depend on the dtype: one for each shape.
            shapes = (case.op, tuple(a.shape for a in case.avals))
            if shapes not in seen and len(seen) < MOST_CASES and case.avals:
                seen.add(shapes)
                check_sizes(case)


def check_sizes(case: Case) -> None:
    examples = [examples_of(case, i, 0) for i in range(len(case.avals))]
    if isinstance(case.op, LUPivotsToPermutation):  # a pivot is no row before its own
        examples = [several[:1] for several in examples]
    wanted = [evaluate(case.op, one) for one in zip(*examples, strict=True)]

    def of_one(*args):
        return as_list(case.op, case.op(*args))

    batched = curta.jit(curta.vmap(of_one), abstracted_axes={0: "n"})
    for size in SIZES:
        args = []
        for several, aval in zip(examples, case.avals, strict=True):
            rows = [several[k % len(several)] for k in range(size)]
            wide = aval.update(shape=(size, *aval.shape))
            args.append(array(np.stack(rows), wide))
        for n, out in enumerate(batched(*args)):
            for k in (0, size // 2, size - 1):
                want = wanted[k % len(wanted)][n]
                assert_close(
                    np.asarray(storage(out))[k],
                    want,
                    f"{case}, size {size}, output {n}",
                )
