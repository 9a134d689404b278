"""The generators besides the default one; numbers that JAX 0.10.2 draws on a CPU."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import random
from curta.extend.random import define_prng_impl, rbg_prng_impl, threefry_2x32

DRAWN = [3109483441, 1367189518, 2515982561, 3310080778, 2824504284]
KEYS = {
    "rbg": (
        [[3625411723, 1954958720] * 2, [195045567, 4062205631] * 2],
        [276534068, 1641862660] * 2,
    ),
    "unsafe_rbg": (
        [
            [3109483441, 1367189518, 2515982561, 3310080778],
            [3848958661, 3271070264, 2639373597, 23941900],
        ],
        [56543296, 1826787330, 2453521982, 2503663986],
    ),
}
WIDTHS = {8: [0x64, 0xD7, 0xBE, 1], 16: [0xE864, 0xBD7, 0xC9BE, 0x9201]}
WIDTHS[32] = [0x1E8FE864, 0x4D5E0BD7, 0x4B87C9BE, 0x2D689201]
WIDTHS[64] = [
    0x4D5E0BD71E8FE864,
    0x2D6892014B87C9BE,
    0x61C056965273487B,
    0x806FD7EFA4486574,
]


@pytest.mark.parametrize("name", KEYS)
def test_keys_and_bits(name):
    key = random.key(7, impl=name)
    split, folded = KEYS[name]
    assert random.key_data(key).tolist() == [0, 7, 0, 7]
    assert random.key_data(random.split(key)).tolist() == split
    assert random.key_data(random.fold_in(key, 3)).tolist() == folded
    assert random.bits(key, (5,)).tolist() == DRAWN
    assert curta.jit(lambda k: random.bits(k, (5,)))(key).tolist() == DRAWN
    assert random.key_impl(key) == name


@pytest.mark.parametrize("width", WIDTHS)
def test_widths(width):
    key = random.wrap_key_data(jnp.array([1, 2, 3, 4], "uint32"), impl="rbg")
    with curta.enable_x64(True):
        assert random.bits(key, (4,), f"uint{width}").tolist() == WIDTHS[width]


def test_batched_bits_are_of_the_first_key():
    keys = random.split(random.key(7, impl="rbg"), 3)
    drawn = curta.vmap(lambda k: random.bits(k, ()))(keys)
    assert drawn.tolist() == [1066376912, 1328836812, 4291577405]


def test_no_keys_no_bits():
    keys = random.split(random.key(7, impl="rbg"), 3)[:0]
    assert curta.vmap(lambda k: random.bits(k, (2,)))(keys).shape == (0, 2)


def test_default_generator():
    with curta.default_prng_impl("rbg"):
        key = random.PRNGKey(3)
        assert key.shape == (4,)
        normal = random.normal(key, (3,))
    assert normal.dtype == "float32" and np.isfinite(normal).all()
    assert rbg_prng_impl.dtype == random.key_dtype("rbg")


def test_a_generator_of_ones_own():
    def words(key, count):
        return key[0, 0] + key[1, 1] * jnp.arange(count, dtype="uint32")

    impl = define_prng_impl(
        key_shape=(2, 2),
        seed=lambda s: jnp.array([[s, 0], [0, s]], "uint32"),
        split=lambda key, shape: words(key, 4 * shape[0]).reshape(*shape, 2, 2),
        random_bits=lambda key, width, shape: words(key, shape[0]),
        fold_in=lambda key, data: key + data,
        tag="own",
    )
    key = random.key(3, impl=impl)
    assert str(key.dtype) == "key<own>"
    assert random.key_data(key).tolist() == [[3, 0], [0, 3]]
    assert random.bits(key, (3,)).tolist() == [3, 6, 9]
    assert random.key_data(random.split(key)).shape == (2, 2, 2)
    assert random.key_data(random.fold_in(key, 1)).tolist() == [[4, 1], [1, 4]]
    drawn = curta.vmap(lambda k: random.bits(k, (2,)))(random.split(key))
    assert drawn.tolist() == [[3, 15], [15, 39]]
    assert random.key_impl(key) == impl and repr(impl) == "PRNGSpec('<unnamed>')"
    other = define_prng_impl(
        key_shape=(4,), seed=0, split=0, random_bits=0, fold_in=0, tag="own"
    )
    assert random.key_dtype(other) != random.key_dtype(impl) and other != impl


def test_keys_of_many_words():
    impl = define_prng_impl(
        key_shape=(4, 2, 7),
        seed=lambda s: jnp.ones((4, 2, 7), "uint32") * s.astype("uint32"),
        split=lambda key, shape: jnp.broadcast_to(key, (*shape, 4, 2, 7)),
        random_bits=lambda key, width, shape: jnp.full(shape, key[3, 1, 6]),
        fold_in=lambda key, data: key + data,
    )
    key = random.key(42, impl=impl)
    assert random.key_data(key).shape == (4, 2, 7)
    draw = curta.jit(lambda key: random.bits(random.split(key, 5)[2], (2,)))
    assert draw(key).tolist() == [42, 42]

    def step(key, _):
        return random.fold_in(key, 1), random.bits(key, ())

    last, drawn = curta.lax.scan(step, key, None, 3)
    assert drawn.tolist() == [42, 43, 44] and last.dtype == random.key_dtype(impl)
    data = jnp.ones((3, 4, 2, 7), "uint32")
    assert random.wrap_key_data(data, impl=impl).shape == (3,)
    assert jnp.stack([key, last])[1].shape == ()


def test_the_hash_itself():
    full = np.uint32([0xFFFFFFFF, 0xFFFFFFFF])
    assert [hex(x) for x in threefry_2x32(full, full).tolist()] == [
        "0x1cb996fc",
        "0xbb002be7",
    ]
    with pytest.raises(TypeError, match="requires uint32"):
        threefry_2x32(full, np.int32([1]))
