"""Typed keys in every form, and generators that hash counters."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, random
from curta.primitives.random_bits import philox, threefry

KEY = random.key(0)
KEYS = random.split(KEY, 6).reshape(2, 3)

# For seed 7: key words, split, fold_in 3, 32 and 8 bits, a bit field of each of two
# keys; for seed 2**40 + 5, 64 bits. Printed by JAX 0.10.2.
DRAWN = {
    "philox2x32": (
        [2193621824],
        [[2904543977], [3512304938]],
        [3775306138],
        [1393916649, 765423610, 1943221496],
        [233, 250],
        [3686273191, 1725937326],
        [12194261654858600395, 12229455345866348677],
    ),
    "philox4x32": (
        [1801635674, 389949022],
        [[3390616171, 2545328165], [3426512584, 1605298195]],
        [3395202329, 1957223722],
        [1496596757, 1056680277, 1600364730],
        [21, 85],
        [3239533753, 3638949002],
        [10079146229045576481, 15525164138127772583],
    ),
    "threefry4x32": (
        [4192117462, 4011273671, 3705849684, 2559306090],
        [
            [1943616406, 1729971241, 2662063793, 3154274746],
            [242730383, 2552065035, 848077674, 1553483864],
        ],
        [1279842622, 200315861, 1937303281, 4139961341],
        [913164468, 1624920463, 412397562],
        [180, 143],
        [823832012, 1142421459],
        [12358521420146191997, 12559680488130781730],
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_counter_generators(name):
    words, split, folded, bits, bits8, batched, bits64 = DRAWN[name]
    key = random.key(7, impl=name)
    assert random.key_data(key).tolist() == words
    assert random.key_data(random.split(key)).tolist() == split
    assert random.key_data(random.fold_in(key, 3)).tolist() == folded
    assert random.bits(key, (3,)).tolist() == bits
    assert curta.jit(lambda k: random.bits(k, (2,), "uint8"))(key).tolist() == bits8
    assert curta.vmap(random.bits)(random.split(key)).tolist() == batched
    with curta.enable_x64(True):
        wide = random.bits(random.key(2**40 + 5, impl=name), (2,), "uint64")
    assert wide.tolist() == bits64
    assert random.wrap_key_data(np.uint32(words), impl=name) == key


# Known answers of the authors' library Random123.
PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
MORE_PI = [0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89]


@pytest.mark.parametrize(
    ("hash_words", "key", "counter", "expected"),
    [
        (philox.hash_2x32, PI[2:3], PI[:2], [0xDD7CE038, 0xF62A4C12]),
        (
            philox.hash_4x32,
            MORE_PI[:2],
            PI,
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
        (
            threefry.hash_4x32,
            MORE_PI,
            PI,
            [0x59CD1DBB, 0xB8879579, 0x86B5D00C, 0xAC8B6D84],
        ),
    ],
)
def test_known_answers(hash_words, key, counter, expected):
    as_words = [[np.uint32([word]) for word in words] for words in (key, counter)]
    assert [int(word[0]) for word in hash_words(*as_words)] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rbg", [1.0783716440200806, 1.3430304527282715, 0.7839926481246948]),
        ("unsafe_rbg", [0.7517332434654236, 2.7059009075164795, 1.250054955482483]),
    ],
)
def test_gamma_draws_of_keys_whose_bits_are_joint(name, expected):
    drawn = random.gamma(random.key(7, impl=name), 2.0, (3,))
    np.testing.assert_allclose(drawn, expected, rtol=1e-6)


def test_filled_arrays_of_keys():
    kind = KEY.dtype
    assert random.key_data(jnp.zeros((2,), kind)).tolist() == [[0, 0]] * 2
    assert random.key_data(jnp.empty((2,), kind)).tolist() == [[0, 0]] * 2
    assert random.key_data(jnp.ones((2,), kind)).tolist() == [[1, 1]] * 2
    assert random.key_data(jnp.full((2,), 100, kind)).tolist() == [[100, 100]] * 2
    assert (jnp.full((2,), KEY) == KEY).all()
    assert (jnp.full_like(KEYS, KEY) == KEY).all()
    assert (curta.jit(lambda: jnp.full((3,), KEY, kind))() == KEY).all()


def test_moving_keys_about():
    picked = jnp.where(jnp.array([True, False]), KEYS[:, 0], KEY)
    assert (picked == jnp.stack([KEYS[0, 0], KEY])).all()
    assert jnp.concatenate([KEYS, KEYS]).shape == (4, 3)
    assert (KEYS.at[0, 1].set(KEY)[0, 1] == KEY).all()
    assert curta.jit(lambda keys, i: keys[i])(KEYS, 1).shape == (3,)
    assert [type(k) for k in KEYS[0]] == [type(KEY)] * 3
    assert curta.eval_shape(random.split, KEY).dtype == KEY.dtype
    like = curta.ShapeDtypeStruct.like(KEYS)
    assert curta.eval_shape(random.key_data, like).shape == (2, 3, 2)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "philox2x32"])
@pytest.mark.parametrize("fill", [None, 0, 7])
def test_gathers_fill_with_keys_of_one_word(impl, fill):
    keys = random.split(random.key(0, impl=impl), 6).reshape(2, 3)
    words = random.key_data(keys)

    def read(keys, places):
        return keys.at[:, places].get(mode="fill", fill_value=fill)

    places = jnp.array([1, 9])
    expected = np.full_like(words[:, :2], 2**32 - 1 if fill is None else fill)
    expected[:, 0] = words[:, 1]
    for run in read, curta.jit(read), curta.vmap(read, (None, 0), 1):
        np.testing.assert_array_equal(random.key_data(run(keys, places)), expected)
    outside = random.key_data(read(keys, 9))
    np.testing.assert_array_equal(outside, expected[:, 1])
    printed = str(curta.make_jaxpr(read)(keys, places))
    assert f"fill_value={expected[0, 1, 0]}" in printed


def test_keys_as_carries():
    def step(key, _):
        key, subkey = random.split(key)
        return key, random.bits(subkey)

    end, drawn = lax.scan(step, KEY, None, length=3)
    key, each = KEY, []
    for _ in range(3):
        key, bits = step(key, None)
        each.append(int(bits))
    assert end == key and drawn.tolist() == each
    folded = lax.fori_loop(0, 3, lambda i, key: random.fold_in(key, i), KEY)
    assert folded == random.fold_in(random.fold_in(random.fold_in(KEY, 0), 1), 2)


def test_printed_calls():
    jaxpr = str(curta.make_jaxpr(lambda k: random.bernoulli(k, 0.3, (2,)))(KEY))
    assert "_bernoulli" in jaxpr and "0.30000001192092896:f32[]" in jaxpr
    assert "random_clone" in str(curta.make_jaxpr(random.clone)(KEY))
    shuffled = str(curta.make_jaxpr(lambda k: random.permutation(k, 5))(KEY))
    assert "unstack[axis=0]" in shuffled and "name=_shuffle" in shuffled
    assert shuffled.count("sort[dimension=0 is_stable=True num_keys=1]") == 1


def test_seeds_of_more_than_64_bits():
    for seed in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            random.key(seed)
        with pytest.raises(OverflowError):
            curta.jit(lambda: random.key(seed))()  # noqa: B023


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "lt_to does not accept dtype key<fry>", lambda: jnp.sort(KEYS)),
        (ValueError, "Unsupported dtype for max: key<fry>", lambda: jnp.argmax(KEYS)),
        (ValueError, "Cannot convert_element_type from key<fry> to float32", lambda: (
            lax.convert_element_type(KEY, "float32")
        )),
        (ValueError, "Cannot convert_element_type from int32 to key<fry>", lambda: (
            lax.convert_element_type(np.int32(0), KEY.dtype)
        )),
        (ValueError, "Cannot convert_element_type from", lambda: jnp.pad(KEYS, 1)),
        (TypeError, "add does not accept dtype key<fry>", lambda: KEYS.at[0].add(KEY)),
        (TypeError, "cannot be converted to boolean", lambda: bool(KEY)),
        (TypeError, "sizes must not be negative", lambda: random.split(KEY, -1)),
    ],
)  # fmt: skip
def test_mistakes(error, message, call):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: random.normal(key, (9,)),
        lambda key: random.uniform(key, (9,), minval=-1.1, maxval=2.3),
        lambda key: random.randint(key, (9,), 0, 1000),
        lambda key: random.key_data(random.split(key, 3)),
    ],
)
def test_every_call_draws_the_same_bits(draw):
    """Whichever way a call goes: the first ones, those by native code, those in jit."""
    key = random.key(3)
    draws = [np.asarray(f(key)) for f in (draw, draw, draw, draw, curta.jit(draw))]
    for again in draws[1:]:
        np.testing.assert_array_equal(draws[0].view("u4"), again.view("u4"))
