"""Random functions: distributions, dtypes, shapes, and the same draws under `jit`."""

import numpy as np
import pytest
from tests.functions.random_rows import (
    COUNT,
    DRAWS,
    EXACT,
    FAN_IN,
    FAN_OUT,
    INITIALIZERS,
    ORTHOGONAL,
)
from tests.functions.rows import WIDE

import curta
from curta import nn, random

DRAW = pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.name)
FARTHEST = 1.95 / np.sqrt(COUNT)  # of Kolmogorov and Smirnov: once in 1000 cases


def distance(seen, distribution):
    """The greatest distance of the cumulative distributions, at the draws."""
    x, counts = np.unique(np.asarray(seen, np.float64), return_counts=True)
    below = np.cumsum(counts) / counts.sum()
    return np.abs(below - distribution.cdf(x)).max()


@DRAW
def test_distribution(draw):
    function, key = getattr(random, draw.name), random.key(3)
    drawn = draw.of(function, key)
    assert distance(draw.seen(np.asarray(drawn)), draw.distribution) < FARTHEST
    compiled = curta.jit(lambda key: draw.of(function, key))(key)
    np.testing.assert_allclose(compiled, drawn, rtol=1e-5, atol=1e-6)


@DRAW
def test_dtypes_and_shapes(draw):
    function, key = getattr(random, draw.name), random.key(5)
    for dtype in draw.dtypes:
        with curta.enable_x64(dtype in (*WIDE, "uint64")):
            for shape in (4,), (0, 3), ():
                drawn = draw.of(function, key, shape, dtype=dtype)
                assert drawn.dtype == dtype
                assert drawn.shape[: len(shape)] == shape
                assert np.isfinite(np.asarray(drawn).astype("float64")).all()


@DRAW
def test_batches_of_keys(draw):
    function, keys = getattr(random, draw.name), random.split(random.key(1), 3)
    shape = (2, 3) if draw.name == "dirichlet" else (4,)
    run = lambda key: draw.of(function, key, shape)  # noqa: E731
    each = np.stack([run(key) for key in keys])
    np.testing.assert_allclose(curta.vmap(run)(keys), each, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers(name):
    arguments, distribution = INITIALIZERS[name]
    make = getattr(nn.initializers, name)(*arguments)
    drawn = make(random.key(2), (FAN_IN, FAN_OUT))
    assert drawn.dtype == np.float32 and drawn.shape == (FAN_IN, FAN_OUT)
    assert distance(drawn, distribution) < FARTHEST
    assert make(random.key(2), (2, 3), np.float16).dtype == np.float16
    each = curta.vmap(lambda key: make(key, (2, 3)))(random.split(random.key(0), 2))
    wanted = [make(key, (2, 3)) for key in random.split(random.key(0), 2)]
    np.testing.assert_allclose(each, wanted, rtol=2e-6)


@pytest.mark.parametrize("name", [*EXACT, "constant"])
def test_constant_initializers(name):
    make = getattr(nn.initializers, name)
    make, value = (make(0.5), 0.5) if name == "constant" else (make, EXACT[name])
    for dtype in "float32", "int32", "bfloat16":
        drawn = make(random.key(0), (2, 0, 3), dtype)
        assert drawn.shape == (2, 0, 3) and drawn.dtype == dtype
    np.testing.assert_array_equal(make(random.key(0), (2,)), [value, value])


@pytest.mark.parametrize("name", ORTHOGONAL)
def test_orthogonal_initializers(name):
    shape = ORTHOGONAL[name]
    drawn = np.asarray(getattr(nn.initializers, name)(2.0)(random.key(0), shape))
    matrix = drawn[1] if name == "delta_orthogonal" else drawn
    product = (
        matrix.T @ matrix if matrix.shape[0] > matrix.shape[1] else matrix @ matrix.T
    )
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)
