"""`jvp` against central differences of `eval`, in double precision."""

import numpy as np
import pytest
from tests.conformance.checks import (
    array,
    as_list,
    evaluate,
    storage,
    storage_or_zeros,
)
from tests.conformance.operations import NOT_DIFFERENTIABLE, sampled_ops
from tests.conformance.samples import Case, cases

from curta import dtypes
from curta.config import enable_x64
from curta.core.avals import tangent_dtype
from curta.core.tangents import Zero, zero_tangent
from curta.errors import MissingRule

STEP = 1e-6


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_jvp_agrees_with_differences(cls):
    with enable_x64(True):
        for case in cases(cls):
            for moved in moves(case):
                if cls.name in NOT_DIFFERENTIABLE:
                    with pytest.raises(MissingRule):
                        apply_jvp(case, tangents_of(case, moved))
                else:
                    check_jvp(case, moved)


def moves(case: Case) -> list[tuple[int, ...]]:
    """Which operands to differentiate together: each alone, and all."""
    inexact = [
        i
        for i, (a, d) in enumerate(zip(case.avals, case.domains, strict=True))
        if dtypes.issubdtype(a.dtype, np.inexact) and not d.get("constant")
    ]
    several = [tuple(inexact)] if len(inexact) > 1 else []
    return [(i,) for i in inexact] + several


def tangents_of(case: Case, moved: tuple[int, ...]) -> list[np.ndarray | None]:
    rng = np.random.default_rng(len(moved))
    tangents: list[np.ndarray | None] = [None] * len(case.args)
    for i in moved:
        x = case.args[i]
        t = rng.normal(size=x.shape)
        if x.dtype.kind == "c":
            t = t + 1j * rng.normal(size=x.shape)
        tangents[i] = np.asarray(t).astype(x.dtype)
    return tangents


def is_double(case: Case, moved: tuple[int, ...]) -> bool:
    return all(has_double_precision(case.args[i]) for i in moved)


def has_double_precision(x: np.ndarray) -> bool:
    return x.dtype.name in ("float64", "complex128")


def apply_jvp(case: Case, tangents: list[np.ndarray | None]) -> tuple[list, list]:
    primals = [array(x, a) for x, a in zip(case.args, case.avals, strict=True)]
    given = [
        zero_tangent(a) if t is None else array(t, a)
        for t, a in zip(tangents, case.avals, strict=True)
    ]
    out, out_tangent = case.op.jvp(primals, given)
    return as_list(case.op, out), as_list(case.op, out_tangent)


def check_jvp(case: Case, moved: tuple[int, ...]) -> None:
    tangents = tangents_of(case, moved)
    outs, out_tangents = apply_jvp(case, tangents)
    avals = as_list(case.op, case.op.aval(*case.avals))
    for out, tangent, aval in zip(outs, out_tangents, avals, strict=True):
        assert storage(out).dtype == dtypes.physical_dtype(aval.dtype)
        if not isinstance(tangent, Zero):
            assert tangent.dtype == tangent_dtype(aval.dtype), f"{case}: {tangent}"
            assert tangent.shape == aval.shape, f"{case}: {tangent}"
    smooth = not any(d.get("special") or d.get("rough") for d in case.domains)
    if smooth and is_double(case, moved):
        compare_with_differences(case, tangents, out_tangents)


def compare_with_differences(case: Case, tangents: list, out_tangents: list) -> None:
    ahead, behind = (
        evaluate(case.op, moved_by(case, tangents, sign * STEP)) for sign in (1, -1)
    )
    for n, (tangent, f, g) in enumerate(zip(out_tangents, ahead, behind, strict=True)):
        if dtypes.issubdtype(f.dtype, np.inexact) and not has_double_precision(f):
            continue  # too coarse for differences
        if not dtypes.issubdtype(f.dtype, np.inexact):
            assert isinstance(tangent, Zero), f"{case}: tangent of {f.dtype}"
            continue
        with np.errstate(invalid="ignore"):  # of infinities: the maximum of nothing
            wide = f.astype(np.complex128) - g.astype(np.complex128)
        np.testing.assert_allclose(
            storage_or_zeros(tangent).astype(np.complex128),
            wide / (2 * STEP),
            rtol=1e-5,
            atol=1e-6,
            err_msg=f"{case}, output {n}",
        )


def moved_by(case: Case, tangents: list, step: float) -> list[np.ndarray]:
    return [
        x if t is None else np.asarray(x + step * t)
        for x, t in zip(case.args, tangents, strict=True)
    ]
