"""`lax.ragged_dot`, `ragged_dot_general` and `scaled_dot`."""

import ml_dtypes
import numpy as np
import pytest

import curta
from curta import lax
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
SIZES = np.array([2, 0, 3], np.int32)
ROWS, SUMS, BATCHES = (
    lax.RaggedDotDimensionNumbers((((2,), (r,)), ((0,), (1 if g else 0,))), (d,), g)
    for r, d, g in ((2, 1, (0,)), (1, 2, ()), (1, 0, ()))
)


def normal(*shape):
    return RNG.normal(size=shape)


def by_groups(lhs, rhs, sizes):
    """The definition, for matrices."""
    out, start = np.zeros((lhs.shape[0], rhs.shape[-1])), 0
    for size, matrix in zip(sizes, rhs, strict=True):
        out[start : start + size] = lhs[start : start + size] @ matrix
        start += size
    return out


def test_rows_have_the_matrix_of_their_group():
    lhs, rhs = normal(6, 4), normal(3, 4, 5)
    with curta.enable_x64(True):
        for f in lax.ragged_dot, curta.jit(lax.ragged_dot):
            np.testing.assert_allclose(f(lhs, rhs, SIZES), by_groups(lhs, rhs, SIZES))
        check_grads(lambda x, y: lax.ragged_dot(x, y, SIZES), (lhs, rhs), 1)
        batched = curta.vmap(lax.ragged_dot, (0, None, 0))(
            np.stack([lhs, 2 * lhs]), rhs, np.stack([SIZES, SIZES[::-1]])
        )
    np.testing.assert_allclose(batched[1], by_groups(2 * lhs, rhs, SIZES[::-1]))


def test_batches_of_rows():
    lhs, rhs = normal(2, 6, 4), normal(3, 2, 4, 5)
    sizes = np.stack([SIZES, SIZES[::-1]])
    with curta.enable_x64(True):
        for given in SIZES, sizes:
            out = lax.ragged_dot_general(lhs, rhs, given, ROWS)
            for b in range(2):
                own = given if given.ndim == 1 else given[b]
                np.testing.assert_allclose(out[b], by_groups(lhs[b], rhs[:, b], own))


def test_sums_by_group_and_batches():
    lhs, rhs = normal(2, 3, 5), normal(2, 5, 4)
    with curta.enable_x64(True):
        out = lax.ragged_dot_general(lhs, rhs, SIZES, SUMS)
        parts = [lhs[:, :, s] @ rhs[:, s] for s in (slice(2), slice(2, 2), slice(2, 5))]
        np.testing.assert_allclose(out, parts)
        plain = lax.ragged_dot_general(lhs, rhs, SIZES, BATCHES)
        np.testing.assert_allclose(plain, lhs @ rhs)
        with pytest.raises(NotImplementedError, match="Unimplemented grad_x_dims"):
            curta.grad(lambda x: lax.ragged_dot_general(x, rhs, SIZES, SUMS).sum())(lhs)


@pytest.mark.parametrize(
    ("shapes", "numbers", "words"),
    [
        (((6, 4), (2, 4, 5), (3,)), (((1,), (1,)), (0,), (0,)), "group dimension size"),
        (((6, 4), (3, 4, 5), ()), (((1,), (1,)), (0,), (0,)), "rank of group_sizes"),
        (((6, 4), (3, 4, 5), (2, 3)), (((1,), (1,)), (0,), (0,)), "to have shape"),
        (((6, 4), (3, 4, 5), (3,)), (((1,), (1,)), (0, 1), (0,)), "exactly one lhs"),
        (((6, 4), (3, 4, 5), (3,)), (((1,), (1,)), (0,), ()), "exactly one rhs group"),
        (((6, 4), (4, 5), (3,)), (((1,), (0,)), (1,), (0,)), "zero group dimensions"),
        (((6, 4), (3, 4, 5), (3,)), (((1,), (1,)), (7,), (0,)), "lhs ragged dimension"),
    ],
)
def test_errors(shapes, numbers, words):
    (lhs, rhs, sizes), (sums, ragged, groups) = shapes, numbers
    numbers = lax.RaggedDotDimensionNumbers((sums, ((), ())), ragged, groups)
    with pytest.raises(TypeError, match=words):
        lax.ragged_dot_general(
            normal(*lhs), normal(*rhs), np.ones(sizes, np.int32), numbers
        )


def test_more_errors():
    lhs, rhs = normal(6, 4), normal(3, 4, 5)
    with pytest.raises(TypeError, match="subtype of np.integer"):
        lax.ragged_dot(lhs, rhs, np.ones(3, np.float32))
    with pytest.raises(NotImplementedError, match="Unimplemented group_offset"):
        lax.ragged_dot(lhs, rhs, SIZES, group_offset=np.zeros(1, np.int32))


def test_scaled_dot():
    lhs = RNG.integers(-4, 5, (2, 3, 8)).astype(ml_dtypes.float8_e4m3fn)
    rhs = RNG.integers(-4, 5, (2, 8, 5)).astype(ml_dtypes.float8_e4m3fn)
    scale = (2.0 ** RNG.integers(-1, 3, (2, 3, 2))).astype(ml_dtypes.float8_e8m0fnu)

    def product(lhs, rhs, scale):
        return lax.scaled_dot(
            lhs, rhs, lhs_scale=scale, preferred_element_type=np.float32
        )

    wide = lhs.astype(np.float32) * np.repeat(scale.astype(np.float32), 4, -1)
    wanted = wide @ rhs.astype(np.float32)
    for f in product, curta.jit(product), curta.vmap(product):
        np.testing.assert_array_equal(f(lhs, rhs, scale), wanted)
    assert lax.scaled_dot(lhs, rhs).dtype == ml_dtypes.bfloat16
    with pytest.raises(TypeError, match="must be divisible by its scale's dim size"):
        lax.scaled_dot(lhs, rhs, lhs_scale=np.ones((2, 3, 3), np.float32))
    with pytest.raises(TypeError, match="does not match scale dim size"):
        lax.scaled_dot(lhs, rhs, lhs_scale=np.ones((2, 1, 2), np.float32))
    with pytest.raises(TypeError, match="0-rank and 1-rank"):
        lax.scaled_dot(lhs[0, 0], lhs[0, 0])
