"""`transpose` by the dot-product identity: <f(x), y> = <x, f'(y)>.

Complex numbers pair without conjugation, and only the real part counts, so that ops
that are linear over the reals alone (`real`, `conj`) obey it too.
"""

import numpy as np
import pytest
from tests.conformance.checks import array, as_list, evaluate, storage
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases
from tests.conformance.test_jvp import (
    has_double_precision,
    is_double,
    moves,
    tangents_of,
)

from curta import dtypes
from curta.config import enable_x64
from curta.core.op import Op
from curta.core.tangents import LinearArg, Zero

LINEAR = [c for c in sampled_ops() if c.transpose is not Op.transpose]


@pytest.mark.parametrize("cls", LINEAR, ids=lambda c: c.__name__)
def test_transpose_obeys_the_dot_product_identity(cls):
    checked = 0
    with enable_x64(True):
        for case in cases(cls):
            for moved in moves(case):
                if is_double(case, moved) and is_linear_in(case, moved):
                    check_transpose(case, moved)
                    checked += 1
    assert checked, f"no sample of {cls.__name__} is linear in an operand"


def with_operands(case: Case, values: dict[int, np.ndarray]) -> list[np.ndarray]:
    return [values.get(i, x) for i, x in enumerate(case.args)]


def is_linear_in(case: Case, moved: tuple[int, ...]) -> bool:
    """Whether f(2 x + 3 y) is 2 f(x) + 3 f(y), the other operands staying.

    Empty arrays show nothing.
    """
    if not all(case.args[i].size for i in moved):
        return False
    steps = tangents_of(case, moved)
    x = {i: case.args[i] for i in moved}
    y = {i: steps[i] for i in moved}
    both = {i: np.asarray(2 * x[i] + 3 * y[i]) for i in moved}
    f, g, h = (evaluate(case.op, with_operands(case, v)) for v in (x, y, both))
    return all(
        dtypes.issubdtype(a.dtype, np.inexact) and np.allclose(2 * a + 3 * b, c)
        for a, b, c in zip(f, g, h, strict=True)
    )


def check_transpose(case: Case, moved: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    outs = evaluate(case.op, case.args)
    avals = as_list(case.op, case.op.aval(*case.avals))
    cotangents = [rng.normal(size=x.shape) for x in outs]
    cotangents = [
        np.asarray(c + 1j * rng.normal(size=c.shape) if x.dtype.kind == "c" else c)
        for c, x in zip(cotangents, outs, strict=True)
    ]
    cotangents = [c.astype(x.dtype) for c, x in zip(cotangents, outs, strict=True)]
    given = [array(c, a) for c, a in zip(cotangents, avals, strict=True)]
    operands = [
        LinearArg(a) if i in moved else array(x, a)
        for i, (x, a) in enumerate(zip(case.args, case.avals, strict=True))
    ]
    cotangent = given if case.op.multiple_results else given[0]
    found = case.op.transpose(cotangent, *operands)
    assert len(found) == len(operands), case
    left = sum(pairing(c, x) for c, x in zip(cotangents, outs, strict=True))
    right = 0.0
    for i, ct in enumerate(found):
        if i not in moved:
            assert ct is None or isinstance(ct, Zero), f"{case}: operand {i} is known"
        elif ct is not None and not isinstance(ct, Zero):
            aval = case.avals[i]
            assert (ct.shape, ct.dtype) == (aval.shape, aval.dtype), f"{case}: {ct}"
            right += pairing(storage(ct), case.args[i])
    exact = all(map(has_double_precision, outs))
    tolerance = 1e-10 if exact else 1e-2
    np.testing.assert_allclose(left, right, tolerance, tolerance, err_msg=str(case))


def pairing(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.sum(x * y).real)
