"""Functions of arrays against NumPy, on shapes, axes and dtypes drawn at random."""

import hypothesis
import hypothesis.strategies as st
import numpy as np

import curta
import curta.numpy as jnp
from curta import lax

SETTINGS = hypothesis.settings(
    max_examples=40, deadline=None, derandomize=True, database=None
)
SHAPES = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)
DTYPES = st.sampled_from(["float32", "int32", "uint8", "bool", "complex64", "float16"])
ENTRIES = st.sampled_from([lambda f: f, curta.jit])
REDUCTIONS = ["sum", "prod", "max", "min", "any", "all", "mean", "argmax", "ptp"]


@st.composite
def arrays(draw, shapes=SHAPES):
    shape, dtype = draw(shapes), draw(DTYPES)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.integers(0, 5, shape).astype(dtype)
    return x + (1j * rng.integers(0, 3, shape)).astype(dtype) if "c" in dtype else x


@SETTINGS
@hypothesis.given(arrays(), st.sampled_from(REDUCTIONS), st.data(), ENTRIES)
def test_reductions(x, name, data, enter):
    axes = st.none() | st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none()
    axis, keepdims = data.draw(axes), data.draw(st.booleans())
    count = x.size if axis is None else x.shape[axis]
    empty = not count and name in ("max", "min", "argmax", "ptp", "mean")
    unordered = x.dtype.kind == "c" and name in ("max", "min", "argmax", "ptp")
    hypothesis.assume(not empty and not unordered)
    hypothesis.assume(not (name == "ptp" and x.dtype == bool))
    f = enter(lambda x: getattr(jnp, name)(x, axis=axis, keepdims=keepdims))
    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    out = f(x)
    assert out.shape == np.shape(wanted)
    np.testing.assert_allclose(np.asarray(out), wanted, rtol=2e-3)


@SETTINGS
@hypothesis.given(arrays(), st.data(), ENTRIES)
def test_rearrangements(x, data, enter):
    order = data.draw(st.permutations(range(x.ndim)))
    reps = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
    widths = [(data.draw(st.integers(0, 2)), 1) for _ in x.shape]
    for f in [
        lambda np_, x: np_.transpose(x, order),
        lambda np_, x: np_.tile(x, reps),
        lambda np_, x: np_.pad(x, widths) if x.ndim else x,
        lambda np_, x: np_.flip(x),
        lambda np_, x: np_.roll(x, 3),
        lambda np_, x: np_.repeat(x, 2),
        lambda np_, x: np_.expand_dims(x, -1),
        lambda np_, x: np_.concatenate([x[None], x[None]]),
        lambda np_, x: np_.stack([x, x], axis=-1),
    ]:
        out = enter(lambda x, f=f: f(jnp, x))(jnp.asarray(x))
        np.testing.assert_array_equal(np.asarray(out), f(np, x))
        assert out.dtype == x.dtype


@SETTINGS
@hypothesis.given(arrays(), st.data(), ENTRIES)
def test_broadcasting(x, data, enter):
    shape = tuple(data.draw(st.sampled_from([d, 1])) for d in x.shape)
    shape = shape[data.draw(st.integers(0, len(shape))) :]
    y = np.ones(shape, x.dtype)
    for name in "add", "multiply", "equal", "power", "subtract":
        if x.dtype == bool and name in ("subtract", "power"):
            continue
        out = enter(getattr(jnp, name))(x, y)
        np.testing.assert_allclose(np.asarray(out), getattr(np, name)(x, y), rtol=2e-3)


@SETTINGS
@hypothesis.given(arrays(), st.data(), ENTRIES)
def test_sorting_and_accumulating(x, data, enter):
    hypothesis.assume(x.ndim > 0 and x.dtype.kind != "c")
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    places = enter(lambda x: jnp.argsort(x, axis))(x)
    np.testing.assert_array_equal(places, np.argsort(x, axis, kind="stable"))
    np.testing.assert_array_equal(
        enter(lambda x: jnp.sort(x, axis))(x), np.sort(x, axis)
    )
    if x.dtype != bool:
        out = enter(lambda x: lax.cumsum(x, axis % x.ndim))(jnp.asarray(x))
        np.testing.assert_array_equal(out, np.cumsum(x, axis, dtype=x.dtype))
        out = enter(lambda x: lax.cummax(x, axis % x.ndim, reverse=True))(x)
        wanted = np.flip(np.maximum.accumulate(np.flip(x, axis), axis), axis)
        np.testing.assert_array_equal(out, wanted)


@SETTINGS
@hypothesis.given(arrays(), st.data(), ENTRIES)
def test_products(x, data, enter):
    hypothesis.assume(x.ndim > 1 and x.dtype != bool and x.dtype != np.float16)
    columns = data.draw(st.integers(0, 3))
    y = np.ones((*x.shape[:-2], x.shape[-1], columns), x.dtype)
    np.testing.assert_allclose(enter(jnp.matmul)(x, y), x @ y, rtol=1e-5)
    out = enter(lambda x: jnp.einsum("...ij,...kj->...ik", x, x))(x)
    np.testing.assert_allclose(out, x @ np.swapaxes(x, -1, -2), rtol=1e-5)
