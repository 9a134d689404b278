"""Tier A: ops of structure in every dtype that there is, with special values."""

import numpy as np
import pytest
from tests.accelerators import xla
from tests.accelerators.programs import lower
from tests.conformance.checks import assert_close

import curta
import curta.numpy as jnp
from curta import dtypes, lax, tree_util
from curta.config import enable_x64
from curta.dtypes.scalars import ALL

DTYPES = [d for d in ALL if "1" != d.name[-1:] or "int" not in d.name]
DTYPES = [d for d in DTYPES if not d.name.startswith("float6")]


def numbers(dtype, shape=(3, 4)):
    """Numbers of a dtype, some of them special."""
    size = int(np.prod(shape))
    if dtype == np.bool_:
        return (np.arange(size) % 3 == 0).reshape(shape)
    if dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        values = [1, 0, int(info.max), int(info.min), 1]
        found = np.array([values[i % 5] for i in range(size)], dtype)
        return found.reshape(shape)
    found = np.resize([1.0, -0.0, 2.0, 0.5, 0.0, 1.5, 0.25], size)
    if dtype.kind == "c":
        found = found + 1j * np.roll(found, 1)
    if dtype.name == "float8_e8m0fnu":
        found = np.abs(found) + (found == 0)
    return found.astype(dtype).reshape(shape)


OPS = {
    "shapes": lambda x: (
        x.T,
        x.reshape(4, 3),
        x[::-1, 1:3],
        jnp.tile(x, (1, 2)),
        jnp.stack([x, x]),
        lax.concatenate([x, x[:1]], 0),
        lax.pad(x, x[0, 0], ((1, -1, 0), (0, 1, 1))),
        jnp.broadcast_to(x[:, None], (3, 2, 4)),
        x[:0],
    ),
    "windows": lambda x: (
        lax.dynamic_slice(x, (jnp.int32(1), jnp.int32(7)), (2, 2)),
        lax.dynamic_update_slice(x, x[:1, :2], (jnp.uint8(2), jnp.uint8(1))),
        x[jnp.array([2, 0, 9])],
        x.at[jnp.array([2, 9, 0])].get(mode="clip"),
        x.at[jnp.array([0, 9])].set(x[1:]),
        x.at[jnp.array([0, 9])].set(x[1:], mode="clip"),
    ),
    "fill": lambda x: x.at[jnp.array([2, 9, 0])].get(mode="fill"),
    "places": lambda x: (
        lax.argmax(x, 0, np.int32),
        lax.argmin(x, 1, np.uint8),
        lax.top_k(x, 2),
    ),
    "sort": lambda x: (
        lax.sort(x, dimension=0),
        lax.sort((x, jnp.arange(12).reshape(3, 4)), dimension=1),
    ),
    "extrema": lambda x: (
        lax.reduce_max(x, (0,)),
        lax.reduce_min(x, (0, 1)),
        lax.cummax(x, 1),
        lax.cummin(x, 0, reverse=True),
    ),
    "sums": lambda x: (
        lax.reduce_sum(x, (0,)),
        lax.reduce_prod(x, (1,)),
        lax.cumsum(x, 1),
        lax.cumprod(x, 0),
        x.at[jnp.array([0, 0])].add(x[1:]),
        x.at[jnp.array([0, 2])].multiply(x[1:]),
    ),
    "empty sums": lambda x: (lax.reduce_sum(x[:0], (0,)), lax.reduce_prod(x[:0], (0,))),
    "bits": lambda x: (
        lax.reduce_and(x, (0,)),
        lax.reduce_or(x, (1,)),
        lax.reduce_xor(x, (0, 1)),
    ),
    "products": lambda x: (
        lax.dot_general(x, x, (((1,), (1,)), ((), ()))),
        lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,)))),
    ),
    "convolution": lambda x: lax.conv_general_dilated(
        x[None, None], x[None, None, :2, :2], (1, 1), "VALID"
    ),
    "loops": lambda x: (
        lax.scan(lambda c, row: (row, c), x[0], x, reverse=True),
        lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1][::-1]), (0, x)),
        lax.cond(x.shape[0] > jnp.int32(2), lambda: x, lambda: x[::-1]),
    ),
}


def assert_same(got, want, what):
    """Floats of a byte are to be the same, others nearly so."""
    if dtypes.issubdtype(want.dtype, np.floating) and want.dtype.itemsize == 1:
        got, want = (x.astype(np.float32) for x in (got, want))
        np.testing.assert_array_equal(got, want, what)
    else:
        assert_close(got, want, what)


def refuses(name, dtype):
    """Whether the op is not for the dtype, by its own words."""
    if name == "empty sums" and dtype.name == "float8_e8m0fnu":
        return True  # which has no zero
    x = numbers(dtype)
    try:
        with enable_x64(True):
            curta.make_jaxpr(OPS[name])(x)
    except (TypeError, ValueError):
        return True
    return False


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_dtype(dtype):
    x, failures = numbers(dtype), []
    for name, fun in OPS.items():
        if refuses(name, dtype):
            continue
        with enable_x64(True):
            closed = curta.make_jaxpr(fun)(x)
            wanted = [np.asarray(y) for y in tree_util.tree_leaves(fun(jnp.asarray(x)))]
            try:
                found = xla.run(lower(closed), [x])
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {str(error)[:800]}")
                continue
        for n, (got, want) in enumerate(zip(found, wanted, strict=True)):
            try:
                assert_same(got, want, f"{name}, output {n}")
            except AssertionError as error:
                failures.append(str(error)[:600])
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)
