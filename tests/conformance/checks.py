"""Comparing arrays, and running rules on concrete ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.core.tangents import Zero
from curta.core.trace import typeof
from curta.runtime.array import ArrayImpl

# Relative errors of one op: a few units in the last place.
TOLERANCE = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 5e-6,
    "float64": 1e-13,
    "complex64": 1e-5,
    "complex128": 2e-13,
}


def evaluate(op: Op, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of `eval`, as a list of arrays."""
    with np.errstate(all="ignore"):
        out = op.eval(*args)
    return [np.asarray(x) for x in (out if op.multiple_results else (out,))]


def as_list(op: Op, out: Any) -> list[Any]:
    """The outputs of a rule of `op`."""
    return list(out) if op.multiple_results else [out]


def array(value: Any, aval: ShapedArray) -> ArrayImpl:
    """An array of `aval` with the elements of a NumPy array."""
    return ArrayImpl(np.array(value, order="C", copy=True), aval)


def storage(x: Any) -> np.ndarray:
    """The elements of an array or scalar as a NumPy array."""
    if isinstance(x, ArrayImpl):
        return x._storage()
    return np.asarray(x, dtypes.physical_dtype(typeof(x).dtype))


def storage_or_zeros(x: Any) -> np.ndarray:
    """The same for a tangent, which may be a symbolic zero."""
    if isinstance(x, Zero):
        aval = x.aval
        dtype = np.float64 if aval.dtype == dtypes.float0 else aval.dtype
        return np.zeros(aval.shape, dtype)
    return storage(x)


def assert_close(
    got: np.ndarray, wanted: np.ndarray, what: Any, scale: float = 1.0
) -> None:
    """Equal dtypes and shapes; equal elements, up to rounding if they are inexact."""
    assert got.dtype == wanted.dtype, f"{what}: {got.dtype}, wanted {wanted.dtype}"
    assert got.shape == wanted.shape, f"{what}: {got.shape}, wanted {wanted.shape}"
    if not dtypes.issubdtype(wanted.dtype, np.inexact):
        np.testing.assert_array_equal(got, wanted, err_msg=str(what))
        return
    tolerance = scale * TOLERANCE[wanted.dtype.name]
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(wide), wanted.astype(wide), tolerance, tolerance, err_msg=str(what)
    )
