"""Random keys that are used twice, on arrays and in jaxprs."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, random
from curta.errors import KeyReuseError
from curta.experimental import key_reuse


@pytest.fixture
def watching():
    with curta.debug_key_reuse(True):
        yield


def lines(error, path=__file__):
    """The numbers of the lines of this file that an error names."""
    return [int(part.split(":")[0]) for part in str(error.value).split(path + ":")[1:]]


def reused(match="Previously-consumed key passed to"):
    return pytest.raises(KeyReuseError, match=match)


def test_arrays(watching):
    key = random.key(0)
    random.normal(key)
    with reused("passed to jit-compiled function at index 0") as error:
        random.uniform(key)
    first, second = lines(error)
    assert second == first + 2
    assert key._consumed
    random.normal(random.clone(key))


def test_split_uses_up_and_makes_new(watching):
    key = random.key(0)
    a, b = random.split(key)
    random.normal(a), random.normal(b)
    for used in key, a, b:
        with reused():
            random.split(used)


def test_folding_in_leaves_the_key(watching):
    key = random.key(0)
    for i in range(2):
        random.normal(random.fold_in(key, i))
    random.normal(key)


def test_each_of_an_array_of_keys(watching):
    keys = random.split(random.key(0), 3)
    random.normal(keys[1])
    assert keys._consumed.tolist() == [False, True, False]
    random.normal(keys[-1])
    with reused("passed to slice at index 0"):
        keys[1]
    with reused("passed to scan"):
        lax.map(random.normal, keys)
    curta.vmap(random.normal)(random.split(random.key(0), 0))


def test_views_share_what_is_known(watching):
    key = random.key(0)
    random.normal(key)
    with reused():
        random.normal(key.reshape(1)[0])
    assert bool(key == random.key(0))  # comparing is no use


def test_compiled_functions(watching):
    key = random.key(0)
    draw = curta.jit(lambda: random.normal(key))
    draw()
    with reused("passed to jit-compiled function at index 0"):
        draw()

    @curta.jit
    def twice(key):
        x = random.bits(key)
        return x + random.bits(key)

    with reused("In random_bits, argument 0 is already consumed") as error:
        twice(random.key(0))
    assert lines(error)[1] == lines(error)[0] + 1
    with curta.debug_key_reuse(False):
        twice(key)


def test_without_jit(watching):
    key = random.key(0)
    with curta.disable_jit():
        random.bits(key)
        with reused("passed to random_bits at index 0"):
            random.bits(key)


def check(f, *args):
    key_reuse.check_key_reuse(f, *args)


def test_branches():
    def f(key, flag):
        x = lax.cond(flag, random.normal, lambda key: 1.0, key)
        return x, key

    def g(key, flag):
        return f(key, flag)[0] + random.normal(key)

    check(f, random.key(0), True)
    with reused("In jit, argument 0 is already consumed"):
        check(g, random.key(0), True)
    signature = key_reuse.function_type_signature(f, random.key(0), True)
    assert signature == key_reuse.KeyReuseSignature(
        key_reuse.Sink(0), key_reuse.Forward(0, 1)
    )


def step(key, _):
    key, now = random.split(key)
    return key, random.normal(now)


def test_scans():
    key = random.key(0)
    check(lambda key: lax.scan(step, key, None, length=3), key)
    check(lambda key: lax.map(random.normal, random.split(key)), key)
    with reused("scan body function leads to key reuse when repeatedly executed"):
        check(lambda k: lax.map(lambda x: x + random.normal(k), jnp.ones(3)), key)
    with reused("scan body function leads to key reuse") as error:
        check(lambda k: lax.scan(lambda k, _: (k, random.bits(k)), k, None, 3), key)
    assert __file__ in error.value.__notes__[0]


def loop(cond, body):
    return lambda key: lax.while_loop(cond, body, (key, 0.0))


def test_while_loops():
    key = random.key(0)

    def small(carry):
        return carry[1] < 3

    def chance(carry):
        return random.uniform(carry[0]) < 0.5

    def draw(carry):
        key, x = step(carry[0], None)
        return key, carry[1] + x

    def same_key(carry):
        return carry[0], carry[1] + random.normal(carry[0])

    check(loop(small, draw), key)
    with reused("while_loop body function leads to key reuse when repeatedly"):
        check(loop(small, same_key), key)
    with reused("while_loop body function leads to key reuse"):
        check(lambda k: loop(small, lambda c: (c[0], random.normal(k)))(key), key)
    with reused("while_loop cond function leads to key reuse"):
        check(loop(chance, lambda c: c), key)
    with reused("while_loop cond and body functions both use the same key"):
        check(loop(chance, draw), key)


def test_other_structures():
    def joined(a, b):
        keys = jnp.stack([a, b])
        key_reuse.assert_consumed(a)
        key_reuse.assert_unconsumed(keys)
        first, second = jnp.unstack(keys)
        key_reuse.assert_unconsumed(first)
        chosen = jnp.where(True, first, second)
        key_reuse.assert_consumed(second)
        return random.normal(chosen)

    check(joined, random.key(0), random.key(1))
    keys = random.split(random.key(0), 4)

    def parts(keys):
        keys[1::2]
        key_reuse.assert_consumed(keys, np.array([False, True, False, True]))
        key_reuse.consume(keys[0])
        return keys

    check(parts, keys)
    with pytest.raises(AssertionError, match="Expected key to not be consumed"):
        check(lambda k: (key_reuse.consume(k), key_reuse.assert_unconsumed(k)), keys)


def test_gradients_of_checkpointed_functions():
    f = curta.checkpoint(lambda x, key: x * random.normal(key))
    check(curta.grad(f), 1.0, random.key(0))

    def g(x, key):
        return f(x, key) + f(x, key)

    with reused("is already consumed"):
        check(curta.grad(g), 1.0, random.key(0))


def test_signatures_are_values():
    sink, source = key_reuse.Sink, key_reuse.Source
    some = np.array([True, False])
    assert sink(0, some) == sink(0, some) != sink(0) == sink(0, ~some | some)
    assert repr(sink(1, some)) == "Sink(1, [ True False])"
    assert {source(0), source(0, np.True_)} == {source(0)}
    with pytest.raises(ValueError, match="Sink is immutable"):
        sink(0).idx = 1


@pytest.mark.parametrize("draw", ["poisson", "binomial", "gamma", "dirichlet"])
def test_samplers_use_their_key_once(watching, draw):
    arguments = {"binomial": (3, 0.5), "dirichlet": (jnp.ones(2),)}.get(draw, (2.0,))
    key = random.key(0)
    expected = getattr(random, draw)(random.key(0), *arguments)
    assert str(getattr(random, draw)(key, *arguments)) == str(expected)
    with reused():
        random.normal(key)
