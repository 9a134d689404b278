"""`lax.rng_bit_generator` and `lax.rng_uniform`."""

import numpy as np
import pytest

import curta
from curta import lax

STATE = np.arange(4, dtype=np.uint32)


# The bits of XLA on its CPU backend.
@pytest.mark.parametrize(
    ("algorithm", "dtype", "after", "bits"),
    [
        (0, "uint32", 4, [895509795, 3230209149, 3834998268, 2007387529, 550253412]),
        (2, "uint16", 4, [25891, 5245, 28156, 19849, 13156]),
        (1, "uint32", 5, [2689575991, 2205648888, 150810639, 1537324351, 1815543426]),
        (1, "uint8", 5, [55, 248, 15, 63, 130]),
    ],
)
def test_bits(algorithm, dtype, after, bits):
    state, found = lax.rng_bit_generator(
        STATE, (5,), dtype, lax.RandomAlgorithm(algorithm)
    )
    np.testing.assert_array_equal(state, [0, 1, after, 3])
    np.testing.assert_array_equal(found, np.array(bits, dtype))


def test_threefry_interleaves_along_the_first_even_dim():
    state = np.array([5, 6], np.uint64)

    def bits(*shape):
        with curta.enable_x64(True):
            return lax.rng_bit_generator(state, shape, algorithm=1)[1]

    first = [2857746084, 4000641395, 10964293]
    second = [3971895240, 1063621336, 2057536082]
    np.testing.assert_array_equal(bits(2, 3), [first, second])
    pairs = [list(p) for p in zip(first, second, strict=True)]
    np.testing.assert_array_equal(bits(3, 2), pairs)
    np.testing.assert_array_equal(bits(3, 3)[:2], [first, second])


def test_states_follow_one_another():
    state, first = curta.jit(lambda s: lax.rng_bit_generator(s, (4,)))(STATE)
    _, second = lax.rng_bit_generator(state, (4,))
    _, both = lax.rng_bit_generator(STATE, (8,))
    np.testing.assert_array_equal(both, np.concatenate([first, second]))


def test_batch_of_states():
    states = np.stack([STATE, STATE + 1])
    after, bits = curta.vmap(lambda s: lax.rng_bit_generator(s, (3,)))(states)
    for i, state in enumerate(states):
        one_after, one = lax.rng_bit_generator(state, (3,))
        np.testing.assert_array_equal(bits[i], one)
        np.testing.assert_array_equal(after[i], one_after)


def test_errors():
    with pytest.raises(TypeError, match="unsupported dtype int32"):
        lax.rng_bit_generator(STATE, (2,), np.int32)
    with pytest.raises(TypeError, match="requires a key of type"):
        lax.rng_bit_generator(STATE[:3], (2,))
    with pytest.raises(ValueError, match="must have identical dtypes"):
        lax.rng_uniform(0.0, 1, (2,))
    with pytest.raises(ValueError, match="must be scalars"):
        lax.rng_uniform(np.zeros(2), np.ones(2), (2,))


@pytest.mark.parametrize("low_high", [(1.0, 3.0), (2, 9)])
def test_uniform(low_high):
    low, high = low_high

    def drawn():
        return lax.rng_uniform(low, high, (1000,)), lax.rng_uniform(low, high, (1000,))

    for x, y in (drawn(), curta.jit(drawn)()):
        assert np.all(x >= low) and np.all(x < high)
        assert x.dtype == y.dtype == curta.numpy.asarray(low).dtype
        assert np.any(np.asarray(x) != np.asarray(y))
        assert abs(np.mean(x) - (low + high) / 2) < 0.8
