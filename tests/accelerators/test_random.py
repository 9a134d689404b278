"""Tier A: every generator's programs, and keys that are moved about, against `eval`."""

import numpy as np
import pytest
from tests.accelerators.programs import run_staged

import curta
import curta.numpy as jnp
from curta import lax, random
from curta.primitives.random_bits.registry import implementation_names

GENERATORS = implementation_names()


def agree(fun, *args):
    """The results of XLA are those of Curta, bit for bit."""
    for got, want in zip(run_staged(fun, *args), fun(*args), strict=True):
        np.testing.assert_array_equal(got, np.asarray(want))


@pytest.mark.parametrize("partitionable", [False, True])
@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_generators(name, shape, partitionable):
    def program(seeds):
        keys = random.wrap_key_data(
            random.key_data(random.key(7, impl=name)), impl=name
        )
        keys = random.fold_in(keys, 5) if not shape else random.split(keys, shape)
        made = jnp.stack([keys.reshape(-1)[0]])
        halves = random.split(made[0], (2, 2))
        one = keys.reshape(-1)[-1]
        return [
            random.key_data(random.key(seeds[0], impl=name)),
            random.key_data(keys),
            random.key_data(halves),
            *(random.bits(one, (5,), f"uint{n}") for n in (8, 16, 32)),
            random.uniform(one, (3, 2)),
        ]

    with curta.threefry_partitionable(partitionable):
        agree(program, jnp.array([3, 4], jnp.int32))


@pytest.mark.parametrize("name", GENERATORS)
def test_bits_of_many_keys(name):
    def program(seeds):
        keys = curta.vmap(lambda s: random.key(s, impl=name))(seeds)
        folded = curta.vmap(random.fold_in)(keys, seeds)
        bits = curta.vmap(lambda k: random.bits(k, (4,), "uint32"))(folded)
        return [random.key_data(folded), bits, random.key_data(random.split(keys[1]))]

    agree(program, jnp.arange(4))


def test_wide_seeds_and_bits():
    def program(seed):
        key = random.key(seed)
        return [random.key_data(key), random.bits(key, (3,), "uint64")]

    with curta.enable_x64(True):
        agree(program, jnp.array(1 << 40 | 77, jnp.int64))


def test_keys_are_moved_as_their_words():
    def program(i):
        keys = random.split(random.key(0), (4, 3))
        out_of_range = keys.at[jnp.array([1, 9])].get(mode="fill")
        found = [
            keys.reshape(2, 6).T,
            jnp.concatenate([keys, keys[::-1]], axis=0),
            lax.dynamic_slice(keys, (i, 0), (2, 2)),
            lax.dynamic_update_slice(keys, keys[:1, :1], (i, 1)),
            jnp.where(keys == keys[0], keys, keys[1]),
            keys[i],
            keys.at[i].set(keys[3]),
            out_of_range,
            jnp.broadcast_to(keys[0, 0], (2, 2)),
            lax.cond(i > 0, lambda k: k[1], lambda k: k[0], keys),
            lax.fori_loop(0, i, lambda _, k: random.split(k)[1], keys[0, 0]),
        ]
        return [*map(random.key_data, found), keys == keys[i], keys != keys[0, 0]]

    agree(program, jnp.int32(2))


def test_functions_of_the_program():
    def split(key, shape):
        steps = jnp.arange(1, int(np.prod(shape)) + 1, dtype="uint32")
        return (key + steps[:, None]).reshape(*shape, 2)

    def bits(key, width, shape):
        return jnp.full(shape, key.sum(), f"uint{width}")

    impl = curta.extend.random.define_prng_impl(
        key_shape=(2,),
        name="counted",
        tag="cnt",
        seed=lambda s: jnp.array([s, s], "uint32"),
        split=split,
        random_bits=bits,
        fold_in=lambda key, data: key ^ data.astype("uint32"),
    )

    def program(seed):
        keys = random.split(random.key(seed, impl=impl), 3)
        folded = curta.vmap(random.fold_in)(keys, jnp.arange(3))
        return [random.key_data(folded), random.bits(folded[1], (4,), "uint32")]

    agree(program, jnp.int32(5))


def test_uniform_numbers_of_no_key():
    (found,) = run_staged(lambda a, b: [lax.rng_uniform(a, b, (50,))], 2.0, 3.0)
    assert found.shape == (50,) and (found >= 2).all() and (found < 3).all()
    assert len(set(found.tolist())) > 40


def test_batched_states():
    states = np.arange(8, dtype=np.uint32).reshape(2, 4)
    for algorithm in lax.RandomAlgorithm:
        agree(
            lambda s, a=algorithm: curta.vmap(
                lambda x: lax.rng_bit_generator(x, (2, 3), algorithm=a)
            )(s),
            states,
        )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["threefry2x32", "rbg", "philox4x32"])
def test_gamma(name, dtype):
    def program(a):
        keys = random.split(random.key(3, impl=name), 2)
        return [random.gamma(keys[0], a, dtype=dtype), random.loggamma(keys[1], a)]

    tolerance = {"float16": 2e-2, "bfloat16": 1e-1}.get(dtype, 1e-5)
    with curta.enable_x64(True):
        a = jnp.array([0.3, 1.0, 4.0], dtype)
        pairs = zip(run_staged(program, a), program(a), strict=True)
        for got, want in pairs:
            got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
            np.testing.assert_allclose(got, want, tolerance, tolerance)
