"""Gather, scatter and dynamic slices against loops over their windows."""

import itertools

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.lax import GatherDimensionNumbers, ScatterDimensionNumbers

# operand shape, indices shape, numbers, slice sizes
LAYOUTS = {
    "rows": ((5, 3), (4, 1), ((1,), (0,), (0,)), (1, 3)),
    "columns": ((5, 3), (4, 1), ((0,), (1,), (1,)), (5, 1)),
    "windows": ((5, 6), (2, 3, 2), ((0, 2), (), (1, 0)), (2, 3)),
    "elements": ((5, 6), (2, 3, 2), ((), (0, 1), (1, 0)), (1, 1)),
    "mixed": ((5, 6, 4), (2, 3, 2), ((1, 3), (2,), (2, 0)), (2, 6, 1)),
    "no_index": ((5, 4), (3, 0), ((0, 1), (), ()), (2, 4)),
    "batched": ((3, 6, 4), (3, 2, 2), ((1,), (1,), (2, 1), (0,), (0,)), (1, 1, 2)),
    "batched_later": ((3, 6, 4), (2, 3, 1), ((0, 2), (), (1,), (0,), (1,)), (1, 2, 4)),
    "one_window": ((5, 3), (2,), ((0, 1), (), (0, 1)), (2, 2)),
    "scalar": ((), (0,), ((), (), ()), ()),
    "empty": ((4,), (0, 1), ((), (0,), (0,)), (1,)),
}
MODES = ["clip", "fill", "promise_in_bounds"]


def each_window(shape, indices, numbers, sizes):
    """For each batch place: the place, the window's slices, and if it is inside."""
    for place in itertools.product(*map(range, indices.shape[:-1])):
        starts = [0] * len(shape)
        for k, d in enumerate(numbers.start_index_map):
            starts[d] = int(indices[(*place, k)])
        for d, i in zip(
            numbers.operand_batching_dims,
            numbers.start_indices_batching_dims,
            strict=True,
        ):
            starts[d] = place[i]
        last = [d - s for d, s in zip(shape, sizes, strict=True)]
        inside = all(0 <= s <= t for s, t in zip(starts, last, strict=True))
        starts = [min(max(s, 0), t) for s, t in zip(starts, last, strict=True)]
        pairs = zip(starts, sizes, strict=True)
        yield place, tuple(slice(s, s + n) for s, n in pairs), inside


def in_output(numbers, place, rank):
    """The position of the window of a batch index in the output."""
    batch = iter(place)
    inner = numbers.offset_dims
    return tuple(slice(None) if i in inner else next(batch) for i in range(rank))


def operands(layout):
    shape, indices_shape, numbers, sizes = LAYOUTS[layout]
    rng = np.random.default_rng(3)
    operand = rng.integers(1, 50, shape).astype(np.float32)
    indices = rng.integers(-2, 7, indices_shape).astype(np.int32)
    return operand, indices, GatherDimensionNumbers(*numbers), sizes


def squeezed(window, numbers):
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    return np.squeeze(window, gone)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gather(layout, mode):
    operand, indices, numbers, sizes = operands(layout)
    found = lax.gather(operand, indices, numbers, sizes, mode=mode)
    compiled = curta.jit(lambda x, i: lax.gather(x, i, numbers, sizes, mode=mode))
    np.testing.assert_array_equal(found, compiled(operand, indices))
    expected = np.full(found.shape, np.inf, np.float32)
    for place, window, inside in each_window(operand.shape, indices, numbers, sizes):
        value = squeezed(operand[window], numbers)
        if mode == "fill" and not inside:
            value = np.nan
        expected[in_output(numbers, place, expected.ndim)] = value
    np.testing.assert_array_equal(found, expected)


COMBINE = {
    "scatter": lambda x, y: y,
    "scatter_add": np.add,
    "scatter_sub": np.subtract,
    "scatter_mul": np.multiply,
    "scatter_min": np.minimum,
    "scatter_max": np.maximum,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", COMBINE)
def test_scatter(name, layout, mode):
    operand, indices, numbers, sizes = operands(layout)
    shape = lax.gather(operand, indices, numbers, sizes).shape
    updates = np.random.default_rng(4).integers(1, 9, shape).astype(np.float32)
    scatter_numbers = ScatterDimensionNumbers(*numbers)

    def run(x, i, y):
        return getattr(lax, name)(x, i, y, scatter_numbers, mode=mode)

    expected = operand.copy()
    for place, window, inside in each_window(operand.shape, indices, numbers, sizes):
        if inside or mode == "clip":
            update = updates[in_output(numbers, place, updates.ndim)]
            old = expected[window]
            expected[window] = COMBINE[name](old, update.reshape(old.shape))
    np.testing.assert_array_equal(run(operand, indices, updates), expected)
    np.testing.assert_array_equal(curta.jit(run)(operand, indices, updates), expected)


@pytest.mark.parametrize("start", [-7, -2, 0, 2, 4, 9])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8"])
def test_dynamic_slices_move_inside(start, dtype):
    x, update = np.arange(5.0, dtype=np.float32), np.float32([8, 9])
    start = np.asarray(start).astype(dtype)
    first = int(start) + (5 if start < 0 else 0)
    first = min(max(first, 0), 3)
    for wrap in curta.jit, lambda f: f:
        found = wrap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))(x, start)
        np.testing.assert_array_equal(found, x[first : first + 2])
        expected = x.copy()
        expected[first : first + 2] = update
        found = wrap(lambda x, i: lax.dynamic_update_slice(x, update, (i,)))(x, start)
        np.testing.assert_array_equal(found, expected)


def test_narrow_indices_count_from_the_end_of_long_dims():
    x = np.arange(300.0, dtype=np.float32)
    for wrap in curta.jit, lambda f: f:
        found = wrap(lambda i: lax.dynamic_slice(x, (i,), (2,)))(np.int8(-100))
        assert found.tolist() == [200, 201]
        found = wrap(lambda i: lax.dynamic_update_slice(x, x[:1], (i,)))(np.int8(-1))
        assert found[-2:].tolist() == [298, 0]
    assert lax.dynamic_slice(x, (np.int8(-1),), (1,)).tolist() == [299]


def test_fill_values_by_dtype():
    numbers, places = GatherDimensionNumbers((), (0,), (0,)), np.int32([[9]])
    for dtype, value in [
        ("float32", np.nan),
        ("int16", -(2**15)),
        ("uint8", 255),
        ("bool", True),
    ]:
        x = np.zeros(3, dtype)
        found = lax.gather(x, places, numbers, (1,), mode="fill")
        np.testing.assert_array_equal(found, [value])
    found = lax.gather(np.zeros(3), places, numbers, (1,), mode="fill", fill_value=7)
    np.testing.assert_array_equal(found, [7])


def test_tangent_of_updates_that_overlap_is_that_of_the_one_that_remains():
    places = np.array([1, 1, 0])

    def f(y):
        return jnp.zeros(3).at[places].set(y)

    jacobian = curta.jacfwd(f)(np.float32([5, 6, 7]))
    remains = f(np.float32([5, 6, 7]))
    np.testing.assert_array_equal(remains, [7, 6, 0])
    np.testing.assert_array_equal(jacobian, [[0, 0, 1], [0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(jacobian, curta.jacrev(f)(np.float32([5, 6, 7])))


def test_tangent_of_extrema_that_tie_is_their_mean():
    def f(x, y):
        return x.at[np.array([0, 0, 1])].max(y)

    x, y = np.float32([2, 1]), np.float32([2, 2, 0])
    dx, dy = curta.jacrev(f, (0, 1))(x, y)
    np.testing.assert_allclose(dx, [[1 / 3, 0], [0, 1]], atol=1e-6)
    np.testing.assert_allclose(dy, [[1 / 3, 1 / 3, 0], [0, 0, 0]], atol=1e-6)


def test_keys_are_gathered_and_scattered_whole():
    keys = curta.random.split(curta.random.key(0), 4)
    data = curta.random.key_data
    picked = keys[np.array([2, 0])]
    np.testing.assert_array_equal(data(picked), data(keys)[np.array([2, 0])])
    changed = keys.at[1].set(keys[3])
    np.testing.assert_array_equal(data(changed)[1], data(keys)[3])
