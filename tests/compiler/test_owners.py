"""Large scatters to many places: every part of the operand has an owner."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp

COUNT, SIZE = 65_600, 70_001  # more updates and bytes than are left to one thread


def rng():
    return np.random.default_rng(0)


def values(dtype, shape):
    found = rng().integers(0, 7, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng().integers(0, 7, shape)
    return found.astype(dtype)


UPDATES = {
    "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


KINDS = [(how, dtype) for how in UPDATES for dtype in ("float32", "int64")]


@pytest.mark.parametrize(
    ("how", "dtype"), [*KINDS, ("add", "complex64"), ("multiply", "complex64")]
)
def test_each_update_happens_once(how, dtype):
    with curta.enable_x64(True):
        operand, updates = values(dtype, SIZE), values(dtype, COUNT)
        places = rng().integers(-SIZE - 9, SIZE + 9, COUNT)
        found = curta.jit(lambda x, p, u: getattr(x.at[p], how)(u))
        expected, inside = operand.copy(), (places >= -SIZE) & (places < SIZE)
        UPDATES[how].at(expected, places[inside], updates[inside])
        np.testing.assert_allclose(found(operand, places, updates), expected, 1e-5)


@pytest.mark.parametrize("places_dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("mode", ["drop", "clip", "promise_in_bounds"])
def test_the_last_of_several_updates_stays(places_dtype, mode):
    most = SIZE if mode == "promise_in_bounds" else 2 * SIZE
    places = rng().integers(0, most, COUNT).astype(places_dtype)
    if mode == "drop" and places_dtype.endswith("64"):
        places[::9] = np.iinfo(places_dtype).max  # wraps around if it is added to
    updates = np.arange(COUNT)
    with curta.enable_x64(True):
        found = curta.jit(lambda p, u: jnp.zeros(SIZE, int).at[p].set(u, mode=mode))
        expected = np.zeros(SIZE, int)
        for p, u in zip(places.tolist(), updates.tolist(), strict=True):
            if p < SIZE or mode == "clip":
                expected[min(p, SIZE - 1)] = u
        np.testing.assert_array_equal(found(places, updates), expected)


def test_short_rows_and_two_places():
    """Where the place varies with the first dim only, and where with both."""
    rows = rng().integers(0, 30_000, COUNT // 2)
    forces = values("float32", (COUNT // 2, 3))
    found = curta.jit(lambda p, f: jnp.zeros((30_000, 3)).at[p].add(f))(rows, forces)
    expected = np.zeros((30_000, 3))
    np.add.at(expected, rows, forces)
    np.testing.assert_allclose(found, expected)
    i, j = rng().integers(-5, 305, (2, 300, 300))
    found = curta.jit(lambda i, j, u: jnp.ones((300, 300)).at[i, j].add(u))
    expected, inside = np.ones((300, 300)), (i < 300) & (j < 300)
    np.add.at(expected, (i[inside], j[inside]), 2)
    updates = np.full((300, 300), 2, "float32")
    np.testing.assert_allclose(found(i, j, updates), expected)


def test_windows_across_the_border_of_two_parts():
    starts = rng().integers(0, SIZE - 8, (COUNT // 8, 1))
    numbers = curta.lax.ScatterDimensionNumbers((1,), (), (0,))
    updates = values("float32", (COUNT // 8, 8))
    found = curta.jit(
        lambda s, u: curta.lax.scatter_add(jnp.zeros(SIZE), s, u, numbers)
    )(starts, updates)
    expected = np.zeros(SIZE)
    np.add.at(expected, starts + np.arange(8), updates)
    np.testing.assert_allclose(found, expected)


def test_updates_computed_in_the_same_loop():
    places = rng().integers(0, SIZE, COUNT)
    x = values("float32", COUNT)
    found = curta.jit(lambda p, x: jnp.zeros(SIZE).at[(p * 3) % SIZE].add(x * x + 1))
    expected = np.bincount(places * 3 % SIZE, x * x + 1.0, SIZE)
    np.testing.assert_allclose(found(places, x), expected, 1e-6)
    batch = curta.jit(curta.vmap(lambda p, x: jnp.zeros(SIZE).at[p].add(x)))
    rows = np.stack([places, places[::-1]]), np.stack([x, x])
    for row, p, u in zip(batch(*rows), *rows, strict=True):
        np.testing.assert_allclose(row, np.bincount(p, u, SIZE), 1e-6)
