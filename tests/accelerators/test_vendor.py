"""Tier B: linear algebra by NVIDIA's libraries, compiled for an absent GPU.

The handlers are registered with the plugin; compilers look them up by name.
tests/stablehlo/test_vendor.py tests the use of their results, and tier E runs them.
"""

import numpy as np
import pytest
from tests.accelerators import targets
from tests.accelerators.test_topologies import described

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import enable_x64
from curta.runtime.pjrt.handlers import registered_targets
from curta.sharding import SingleDeviceSharding

DTYPES = ["float32", "float64", "complex64", "complex128", "bfloat16"]
OTHERS = {
    "cusolver_getrf_ffi": lax.linalg.lu,
    "cusolver_orgqr_ffi": lambda x: lax.linalg.qr(x, full_matrices=False),
    "cusolver_potrf_ffi": lax.linalg.cholesky,
    "cusolver_syevd_ffi": lax.linalg.eigh,
    "cusolver_sytrd_ffi": lax.linalg.tridiagonal,
}


@pytest.fixture(scope="module")
def device():
    targets.library("cuda")
    if not registered_targets("cuda"):
        pytest.skip(
            "tier B not run for cuSOLVER: pip install jax-cuda13-plugin==0.10.2"
        )
    return described("cuda").devices[0]


def compiled_text(fun, device, *shapes, dtype):
    place = SingleDeviceSharding(device)
    dtype = jnp.dtype(dtype)
    with enable_x64(True):
        given = [curta.ShapeDtypeStruct(s, dtype, sharding=place) for s in shapes]
        lowered = curta.jit(fun).lower(*given)
        lowered.compile()
        return lowered.as_text()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", OTHERS)
def test_square_matrices(device, target, dtype):
    said = compiled_text(OTHERS[target], device, (3, 8, 8), dtype=dtype)
    assert f"@{target}" in said


@pytest.mark.parametrize("dtype", DTYPES[:4])
@pytest.mark.parametrize("shape", [(2, 6, 4), (48, 64), (1200, 1100), (1100, 1200)])
def test_singular_values(device, shape, dtype):
    said = compiled_text(
        lambda x: jnp.linalg.svd(x, full_matrices=False), device, shape, dtype=dtype
    )
    target = "gesvd" if max(shape) > 1024 else "gesvdj"
    assert f"@cusolver_{target}_ffi" in said


def test_tridiagonal_systems(device):
    row, right = (3, 8), (3, 8, 2)
    said = compiled_text(
        lax.linalg.tridiagonal_solve, device, row, row, row, right, dtype="float32"
    )
    assert "@cusparse_gtsv2_ffi" in said


def test_narrow_places(device):
    """XLA ends the process for indices of 4 bits, so that they are counted wider."""
    for dtype in "int4", "uint4", "int8":
        kind = np.dtype(jnp.dtype(dtype))
        compiled_text(lambda x: lax.argmax(x, 0, kind), device, (300,), dtype="float32")  # noqa: B023
