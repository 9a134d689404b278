"""The residuals of pullbacks, and the destination of each cotangent."""

import pytest

import curta
import curta.numpy as jnp
from curta.api.pullback import NotNeeded


def product(x, y):
    return x * y


def test_arguments_can_be_taken_out_and_put_back():
    x, y = jnp.ones((3, 4)), jnp.full((4, 4), 2.0)
    _, pull = curta.vjp(lambda x, y: 2.0 * (x @ y), x, y)
    assert pull.args_res[0] is x and pull.args_res[1] is y
    pull.args_res[1] = None
    pull.args_res[1] = y
    x_bar, y_bar = pull(jnp.ones((3, 4)))
    assert (x_bar == 16.0).all() and (y_bar == 6.0).all()


def test_arguments_of_no_use_are_not_kept():
    _, pull = curta.vjp(jnp.sin, 3.0)
    assert pull.args_res == [NotNeeded()]
    assert len(pull.opaque_residuals) == 1


def test_trees_of_arguments():
    tree = {"a": jnp.array(2.0), "b": jnp.array(3.0)}
    _, pull = curta.vjp(lambda t: t["a"] * t["b"], tree)
    pull.args_res = [None]
    pull.args_res = [{"a": jnp.array(5.0), "b": jnp.array(7.0)}]
    assert pull(1.0) == ({"a": 7.0, "b": 5.0},)


class Numbers:
    """A container that accepts arrays only."""

    def __init__(self, x):
        self.x = jnp.asarray(x)


curta.tree_util.register_pytree_node(
    Numbers, lambda n: ((n.x,), None), lambda _, children: Numbers(*children)
)


def test_containers_get_arrays_alone():
    numbers = Numbers(jnp.arange(3.0))
    dicts = {"a": [jnp.float32(2.0), 3.0]}
    _, pull = curta.vjp(lambda n, d: n.x.sum() * d["a"][0], numbers, dicts)
    assert pull.args_res == [(NotNeeded(),), ((dicts["a"][0], NotNeeded()),)]
    ct, _ = pull(1.0)
    assert ct.x.tolist() == [2.0, 2.0, 2.0]
    curta.lax.scan(lambda c, x: (c, x), numbers, numbers)
    curta.lax.cond(True, lambda n: n, lambda n: n, numbers)
    curta.lax.while_loop(lambda n: n.x[0] < 3, lambda n: Numbers(n.x + 1), numbers)
    pull.args_res = [None, None]
    with pytest.raises(ValueError, match="taken out of `args_res`"):
        pull(1.0)


def test_pullbacks_without_their_arguments_cross_jit():
    @curta.jit
    def first():
        _, pull = curta.vjp(product, 2.0, 3.0)
        pull.args_res = [None, None]
        return pull

    @curta.jit
    def second(pull):
        pull.args_res = [2.0, 3.0]
        return pull(1.0)

    assert second(first()) == (3.0, 2.0)


def test_unwanted_cotangents_cost_nothing():
    x = jnp.arange(3.0)
    _, pull = curta.vjp(product, x, x + 1)
    partial = pull.with_refs(curta.ad.DontWant(), curta.ad.GradValue())
    skipped, kept = partial(jnp.ones(3))
    assert skipped == curta.ad.DidntWant() and kept.tolist() == [0.0, 1.0, 2.0]
    traced = curta.jit(lambda ct: partial(ct)).trace(jnp.ones(3))
    assert len(traced.jaxpr.eqns) == 1
    neither = pull.with_refs(curta.ad.DontWant(), curta.ad.DontWant())(jnp.ones(3))
    assert neither == (curta.ad.DidntWant(), curta.ad.DidntWant())


def test_references_take_cotangents():
    total = curta.new_ref(1.0)
    _, pull = curta.vjp(product, 2.0, 3.0)
    found = curta.jit(lambda: pull.with_refs(total, curta.ad.DontWant())(1.0))()
    assert found == (curta.ad.GradRef(), curta.ad.DidntWant())
    assert total[...] == 4.0
    with pytest.raises(ValueError, match="takes a tree like the arguments"):
        pull.with_refs(total)


@pytest.mark.parametrize("empty", [None, (), {"a": None}])
def test_arguments_without_leaves(empty):
    out, pull = curta.vjp(lambda x, y: (x, 2 * y), empty, 1.0)
    assert out[0] == empty and pull(out) == (empty, 4.0)
