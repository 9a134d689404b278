"""`batch` against a loop over the examples, for all batch dims of the operands."""

import itertools

import numpy as np
import pytest
from tests.conformance.checks import array, as_list, assert_close, evaluate, storage
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases

from curta.config import enable_x64
from curta.core.trace import typeof
from curta.transforms.vmap import BatchAxis

SIZE = 2
MOST_COMBINATIONS = 12


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_batch_agrees_with_a_loop(cls):
    seen = set()
    with enable_x64(True):
        for case in cases(cls):
            # What is moved about does not depend on the dtype: one for each shape.
            shapes = (case.op, tuple(a.shape for a in case.avals))
            if shapes not in seen:
                seen.add(shapes)
                for dims in combinations(case):
                    check_batch(case, dims)


def combinations(case: Case) -> list[tuple[int | None, ...]]:
    """Batch dims of the operands: none, the first, the last, not all of them none."""
    choices = [list(dict.fromkeys([0, None, a.ndim])) for a in case.avals]
    found = [c for c in itertools.product(*choices) if any(d is not None for d in c)]
    if len(found) <= MOST_COMBINATIONS:
        return found
    step = len(found) / MOST_COMBINATIONS
    return [found[int(k * step)] for k in range(MOST_COMBINATIONS)]


def check_batch(case: Case, dims: tuple[int | None, ...]) -> None:
    examples = [examples_of(case, i, d) for i, d in enumerate(dims)]
    args = []
    for several, aval, dim in zip(examples, case.avals, dims, strict=True):
        if dim is None:
            args.append(array(several[0], aval))
        else:
            shape = (*aval.shape[:dim], SIZE, *aval.shape[dim:])
            args.append(array(np.stack(several, dim), aval.update(shape=shape)))
    out, out_dims = case.op.batch(BatchAxis(SIZE), args, dims)
    out, out_dims = as_list(case.op, out), as_list(case.op, out_dims)
    wanted = [evaluate(case.op, one) for one in zip(*examples, strict=True)]
    avals = as_list(case.op, case.op.aval(*case.avals))
    for n, (x, dim) in enumerate(zip(out, out_dims, strict=True)):
        assert typeof(x).dtype == avals[n].dtype
        for k in range(SIZE):
            one = storage(x) if dim is None else np.take(storage(x), k, dim)
            assert_close(
                np.asarray(one), wanted[k][n], f"{case}, dims {dims}, output {n}"
            )


def examples_of(case: Case, i: int, dim: int | None) -> list[np.ndarray]:
    """`SIZE` operands of the same kind; the same one again if there is no batch dim."""
    x = case.args[i]
    if dim is None:
        return [x] * SIZE
    return [np.roll(x.reshape(-1), k).reshape(x.shape) for k in range(SIZE)]
