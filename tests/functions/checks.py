"""Checks of one row, for any package of the interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from tests.functions.rows import WIDE, Call, Row, mapped, unfixed

SHAPES = [(), (0, 3), (2, 1, 3)]
MAIN = [(2, 3), (3,), (), (2, 3, 2), (2, 2, 3, 3)]  # the first that fits

TOLERANCE = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 5e-6,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 2e-12,
}


class Split:
    """A call as a list of arrays, and what makes the call of such a list."""

    def __init__(self, given: Call):
        self.arrays: list[np.ndarray] = []
        self.tree = mapped(self._taken, (given.args, given.kwargs))

    def _taken(self, x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return unfixed(x)
        self.arrays.append(x)
        return _Hole(len(self.arrays) - 1)

    def run(self, function: Callable[..., Any], arrays: list[Any]) -> Any:
        fill = lambda x: arrays[x.place] if isinstance(x, _Hole) else x  # noqa: E731
        args, kwargs = mapped(fill, self.tree)
        return function(*args, **kwargs)


class _Hole:
    def __init__(self, place: int):
        self.place = place


def leaves(package: Any, tree: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in package.tree.leaves(tree)]


def main_shape(row: Row) -> tuple[int, ...]:
    return next(filter(row.takes, MAIN))


def first_call(row: Row, dtype: str, seed: int = 0) -> Call:
    return row.calls_at(dtype, main_shape(row), seed)[0]


def dtypes_of(row: Row, x64: bool) -> list[str]:
    return [d for d in row.dtypes if (d in WIDE) == x64]


def computed(package: Any, row: Row, given: Call) -> Any:
    """The result of the package, on its own arrays."""
    split = Split(given)
    arrays = [package.numpy.asarray(x) for x in split.arrays]
    return split.run(row.function(package), arrays)


def check_values(package: Any, row: Row, given: Call) -> None:
    """Equal to the reference, where that refuses, refused."""
    try:
        wanted = row.wanted(given)
    except Exception as error:
        try:
            out = computed(package, row, given)
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            return
        raise AssertionError(f"{given}: gives {out}, the reference {error!r}") from None
    got = computed(package, row, given)
    assert_same(leaves(package, got), leaves(package, wanted), row, str(given))


def tolerance_of(row: Row, *arrays: np.ndarray) -> float:
    """The tolerance of the narrowest dtype."""
    found = [TOLERANCE.get(x.dtype.name, 0) for x in arrays]
    return row.tolerance * max(found, default=0)


def assert_same(got, wanted, row: Row, what: str) -> None:
    assert len(got) == len(wanted), f"{what}: {len(got)} results, not {len(wanted)}"
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.shape == theirs.shape, f"{what}: {ours.shape}, not {theirs.shape}"
        assert_close(ours, theirs, tolerance_of(row, ours), what)


def assert_close(ours, theirs, tolerance: float, what: str) -> None:
    if ours.dtype.kind in "biuSUO":
        theirs = np.asarray(theirs)
        same = theirs if ours.dtype.kind in "SUO" else theirs.astype(ours.dtype)
        np.testing.assert_array_equal(ours, same, err_msg=what)
        return
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    if theirs.dtype.kind == "c" and wide is np.float64:
        raise AssertionError(f"{what}: real, not complex")
    with np.errstate(all="ignore"):
        if ours.dtype.itemsize < 4 or ours.dtype == ml_dtypes.bfloat16:
            theirs = theirs.astype(ours.dtype)  # overflows alike
        np.testing.assert_allclose(
            ours.astype(wide), theirs.astype(wide), tolerance, tolerance, err_msg=what
        )


def check_jit(package: Any, row: Row, dtype: str) -> None:
    """Compiled code gives what the call gives."""
    split = Split(first_call(row, dtype))
    function = row.function(package)
    run = lambda arrays: split.run(function, arrays)  # noqa: E731
    eager, compiled = run(split.arrays), package.jit(run)(split.arrays)
    compare_alike(package, row, compiled, eager)


def compare_alike(package: Any, row: Row, got: Any, wanted: Any) -> None:
    got, wanted = leaves(package, got), leaves(package, wanted)
    assert [x.dtype for x in got] == [x.dtype for x in wanted]
    assert_same(got, wanted, row, row.name)


def check_vmap(package: Any, row: Row, dtype: str) -> None:
    """Batching gives what a loop gives, over a first and over a last dim."""
    splits = [Split(first_call(row, dtype, seed)) for seed in (0, 1, 2)]
    function = row.function(package)
    run = lambda arrays: splits[0].run(function, arrays)  # noqa: E731
    each = [leaves(package, run(s.arrays)) for s in splits]
    wanted = [np.stack(x) for x in zip(*each, strict=True)]
    for dim in 0, -1:
        stacked = [
            np.stack(x, axis=dim) for x in zip(*(s.arrays for s in splits), strict=True)
        ]
        got = package.vmap(run, in_axes=dim)(stacked)
        compare_alike(package, row, got, wanted)


def check_gradients(package: Any, row: Row, dtype: str) -> None:
    """Both modes, two orders, against finite differences."""
    split = Split(first_call(row, dtype))
    function = row.function(package)
    inexact = [i for i, x in enumerate(split.arrays) if x.dtype.kind in "fc"]
    tolerance = 2e-4 * max(1.0, row.tolerance**0.5)

    def differentiable(*varied):
        arrays = list(split.arrays)
        for i, x in zip(inexact, varied, strict=True):
            arrays[i] = x
        out = package.tree.leaves(split.run(function, arrays))
        return [x for x in out if package.numpy.result_type(x).kind in "fc"]

    primals = tuple(split.arrays[i] for i in inexact)
    if differentiable(*primals):
        package.test_util.check_grads(
            differentiable, primals, 2, atol=tolerance, rtol=tolerance
        )
