"""`vjp(saveable_args=, in_nzs=)` and `linearize(in_nzs=)`, of JAX 0.12."""

import pytest

import curta
import curta.numpy as jnp
from curta.api.pullback import NotNeeded, NotSaveable

X, Y = jnp.float32(2), jnp.float32(3)


def both(x, y):
    return {"product": x * y, "double": [y * 2]}


def test_arguments_are_saved_unless_said():
    _, pull = curta.vjp(both, X, Y)
    assert pull.args_res == [X, Y]
    _, pull = curta.vjp(both, X, Y, saveable_args=(True, False))
    assert pull.args_res == [X, NotSaveable()]
    _, pull = curta.vjp(lambda x, y: x * 2 + y, X, Y, saveable_args=False)
    assert pull.args_res == [NotNeeded(), NotNeeded()]


def test_a_pullback_works_once_its_arguments_are_put_back():
    _, pull = curta.vjp(
        lambda d: d["x"] * d["y"], {"x": X, "y": Y}, saveable_args=False
    )
    with pytest.raises(
        ValueError, match=r"not-saveable residuals(.|\n)*args\[0\]\['x'\]"
    ):
        pull(X)
    pull.args_res = [{"x": X, "y": Y}]
    assert pull(jnp.float32(1)) == ({"x": Y, "y": X},)


def test_values_made_of_arguments_are_saved_nevertheless():
    _, pull = curta.vjp(jnp.sin, X, saveable_args=False)
    assert pull(jnp.float32(1))[0] == jnp.cos(X)


@pytest.mark.parametrize("flags", [(True, False), ((True,), (False, False))])
def test_tangents_are_zero_where_nothing_is_asked(flags):
    (x, y) = (X, Y) if flags[0] is True else ([X], {"a": Y, "b": Y})

    def f(x, y):
        return both(*curta.tree.leaves((x, y))[:2])

    _, pull = curta.vjp(f, x, y, in_nzs=flags)
    assert pull.out_nzs == {"product": True, "double": [False]}
    of_x, of_y = pull({"product": X, "double": [X]})
    assert curta.tree.leaves(of_x) == [6]
    assert not any(curta.tree.leaves(of_y))
    out, push = curta.linearize(f, x, y, in_nzs=flags)
    assert push.out_nzs == {"product": True, "double": [False]}
    assert push(x, y) == {"product": 6, "double": [0]}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((True,), "has 1 children while the corresponding container has 2"),
        (((True,), False), r"in_nzs\[0\] is a container while"),
        (3, "must be a tree of bools.*in_nzs is 3 of type int"),
        ((True, None), r"has 0 children|in_nzs\[1\] is a container"),
    ],
)
def test_flags_that_are_no_prefix(flags, said):
    with pytest.raises(ValueError, match=said):
        curta.linearize(both, X, Y, in_nzs=flags)


def test_dicts_have_the_same_keys():
    with pytest.raises(ValueError, match=r"keys \['a', 'c'\] while .* \['a', 'b'\]"):
        curta.vjp(lambda d: d["a"], {"a": X, "b": Y}, in_nzs=({"a": True, "c": True},))
