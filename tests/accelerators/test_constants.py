"""Tier A: constants as MLIR's own printer writes them."""

import ml_dtypes
import numpy as np
import pytest
from jax.interpreters import mlir
from jaxlib.mlir import ir

from curta.compiler.stablehlo.constants import dense
from curta.compiler.stablehlo.types import element_type

FLOATS = [
    *("float64", "float32", "float16", "bfloat16", "float8_e3m4", "float8_e4m3"),
    *("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"),
]
INTEGERS = [f"{sign}int{n}" for sign in ("", "u") for n in (2, 4, 8, 16, 32, 64)]
COMPLEX = ["complex64", "complex128"]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def printed(values):
    """The text of an array in MLIR."""
    with mlir.make_ir_context(), ir.Location.unknown():
        element = ir.Type.parse(element_type(values.dtype))
        shaped = ir.RankedTensorType.get(values.shape, element)
        raw = values
        if values.dtype.kind == "V" or values.dtype.name in ml_dtypes.__all__:
            raw = values.view(np.uint8 if values.itemsize == 1 else np.uint16)
        found = ir.DenseElementsAttr.get(
            np.ascontiguousarray(raw), type=element, shape=values.shape
        )
        assert found.type == shaped
        return str(found)


def random_values(dtype, count):
    rng = np.random.default_rng(count)
    if dtype.itemsize == 1:
        values = np.arange(256, dtype=np.uint8)
        if dtype.name.endswith(("int2", "int4")):
            bits = int(dtype.name[-1])
            low = 0 if dtype.name.startswith("u") else -(1 << bits - 1)
            return np.arange(low, low + (1 << bits)).astype(dtype)
        return values[: 16 if dtype.name == "float4_e2m1fn" else 256].view(dtype)
    bits = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind in "iu":
        return bits
    short = np.round(rng.uniform(-100, 100, count), 2).astype(dtype)
    powers = (10.0 ** rng.integers(-9, 9, count)).astype(dtype)
    whole = rng.integers(-(1 << 24), 1 << 24, count).astype(dtype)
    with np.errstate(all="ignore"):
        near = (rng.integers(1, 99, count) * powers).astype(dtype)
    return np.concatenate([bits, short, powers, whole, near])


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, *COMPLEX])
def test_random_elements(name):
    values = random_values(dtype_of(name), 800)
    for start in range(0, len(values), 96):
        part = values[start : start + 96]
        assert dense(part) == printed(part)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, *COMPLEX, "bool"])
@pytest.mark.parametrize(
    "shape", [(), (1,), (0,), (2, 0, 3), (3, 2), (2, 2, 3), (10, 10), (101,), (8, 40)]
)
@pytest.mark.parametrize("splat", [False, True])
def test_shapes(name, shape, splat):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) * (not splat) % 2
    values = values.astype(dtype_of(name))
    assert dense(values) == printed(values)
