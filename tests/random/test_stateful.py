"""The random generator with state."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, random
from curta.experimental.random import StatefulPRNG, stateful_rng

SEED = 7


def test_draws_are_those_of_keys_folded_with_a_count():
    rng = stateful_rng(SEED)
    for count in range(3):
        assert rng.key() == random.fold_in(random.key(SEED), count)
    assert int(rng._counter[...]) == 3
    assert rng.key((2, 3)).shape == (2, 3)
    assert rng._base_key == random.key(SEED)


def test_draws():
    rng = stateful_rng(SEED)
    assert rng.random((5, 2)).shape == (5, 2)
    low, high = np.array([0, 1]), np.array([2, 3])
    drawn = rng.uniform(low, high, (50, 2))
    assert ((drawn >= low) & (drawn < high)).all()
    drawn = rng.integers(np.array([0, 5]), 10, (50, 2), dtype="int8")
    assert drawn.dtype == "int8" and (drawn >= np.array([0, 5])).all()
    assert rng.integers(3).shape == ()
    drawn = rng.normal(10.0, 0.1, 500, dtype="float16")
    assert drawn.dtype == "float16" and abs(float(drawn.mean()) - 10) < 0.05


def test_under_jit_scan_and_vmap():
    rng, same = stateful_rng(SEED), stateful_rng(SEED)
    draw = curta.jit(lambda rng: rng.uniform())
    assert [draw(rng) for _ in range(3)] == [same.uniform() for _ in range(3)]
    closed = curta.jit(rng.uniform)
    assert closed() == same.uniform()
    drawn = lax.scan(lambda c, _: (c, rng.uniform()), None, length=4)[1]
    assert drawn.tolist() == [same.uniform() for _ in range(4)]
    mapped = curta.vmap(lambda rng, x: x + rng.uniform())(rng.split(3), jnp.arange(3.0))
    each = [child.uniform() + i for i, child in enumerate(same.spawn(3))]
    np.testing.assert_allclose(mapped, each, rtol=1e-6)


def test_a_tree_of_key_and_count():
    rng = stateful_rng(SEED)
    leaves, tree = curta.tree.flatten(rng)
    assert leaves[0] == rng._base_key and leaves[1] is rng._counter
    assert curta.tree.unflatten(tree, [1, 2])._counter == 2
    paths = [curta.tree_util.keystr(p) for p, _ in curta.tree.leaves_with_path(rng)]
    assert paths == ["._base_key", "._counter"]


def test_mistakes():
    key, counter = random.key(0), curta.new_ref(0)
    with pytest.raises(ValueError, match="Expected base_key to be a typed PRNG key"):
        StatefulPRNG(jnp.zeros(2, "uint32"), counter)
    with pytest.raises(ValueError, match="Expected counter to be a scalar integer ref"):
        StatefulPRNG(key, 0)
    with pytest.raises(ValueError, match="cannot operate on split stateful generator"):
        stateful_rng(0).split(2).uniform()
    with pytest.raises(TypeError, match="When used within transformed code"):
        curta.jit(lambda: stateful_rng().uniform())()
    with pytest.raises(ValueError, match="performing an addupdate operation with vm"):
        curta.vmap(lambda x, rng: x * rng.uniform(), (0, None))(
            jnp.ones(2), stateful_rng(0)
        )
    with pytest.raises(TypeError, match="When used within transformed code"):
        curta.grad(lambda x: x * stateful_rng().uniform())(1.0)
    assert stateful_rng().uniform() != stateful_rng().uniform()
