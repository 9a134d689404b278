"""One compilation for all sizes of the batch dim, against `eval` of each example."""

from typing import Any

import numpy as np
import pytest
from tests.conformance.checks import array, as_list, assert_close, evaluate, storage
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases
from tests.conformance.test_batch import examples_of

import curta
from curta.config import enable_x64
from curta.primitives.linalg.lu import LUPivotsToPermutation

SIZES = (9, 2, 3, 1, 70)  # compiled for the first
MOST_CASES = 4


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_open_sizes_agree_with_eval(cls):
    chosen: dict[Any, Case] = {}
    with enable_x64(True):
        for case in cases(cls):
            # Code that moves elements does not depend on the dtype: one for each shape.
            shapes = (case.op, tuple(a.shape for a in case.avals))
            if case.avals and len(chosen) < MOST_CASES:
                chosen.setdefault(shapes, case)
        if chosen:
            check_sizes([Examples(case) for case in chosen.values()])


class Examples:
    """A case, several arrays for each of its operands, and the results of each."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.arrays = [examples_of(case, i, 0) for i in range(len(case.avals))]
        if isinstance(case.op, LUPivotsToPermutation):  # pivots come in order
            self.arrays = [several[:1] for several in self.arrays]
        self.wanted = [evaluate(case.op, one) for one in zip(*self.arrays, strict=True)]

    def stacked(self, size: int) -> list[Any]:
        """The operands for a batch of this size."""
        result = []
        for several, aval in zip(self.arrays, self.case.avals, strict=True):
            rows = [several[k % len(several)] for k in range(size)]
            wide = aval.update(shape=(size, *aval.shape))
            result.append(array(np.stack(rows), wide))
        return result


def check_sizes(all_examples: list[Examples]) -> None:
    """Compare the results at all sizes; one program computes all cases."""

    def of_one(groups: list[list[Any]]) -> list[list[Any]]:
        pairs = zip(all_examples, groups, strict=True)
        return [as_list(e.case.op, e.case.op(*args)) for e, args in pairs]

    batched = curta.jit(curta.vmap(of_one), abstracted_axes={0: "n"})
    for size in SIZES:
        found = batched([e.stacked(size) for e in all_examples])
        for examples, outs in zip(all_examples, found, strict=True):
            for n, out in enumerate(outs):
                for k in (0, size // 2, size - 1):
                    want = examples.wanted[k % len(examples.wanted)][n]
                    got = np.asarray(storage(out))[k]
                    where = f"{examples.case}, size {size}, output {n}"
                    assert_close(got, want, where)
