"""Which structures are one object, and trees that are split by one again and again."""

import functools
import gc
import weakref

import numpy as np
import pytest

import curta
from curta import tree
from curta.tree_util import register_pytree_node


class Static:
    """A container whose metadata is whatever it is given."""

    def __init__(self, child, meta):
        self.child, self.meta = child, meta


register_pytree_node(Static, lambda x: ((x.child,), x.meta), lambda m, c: Static(*c, m))


class Marker:
    pass


MARKER = Marker()


class Local:
    pass


def activation(x):
    return x


def structure(meta):
    return tree.structure((Static(1, meta), {"a": 2}))


@pytest.mark.parametrize(
    "meta",
    [None, 3, "name", (1, ("a", None), 2.5j), activation, MARKER, (MARKER, activation)],
)
def test_metadata_that_lasts_gives_one_structure(meta):
    assert structure(meta) is structure(meta)


@pytest.mark.parametrize("make", [lambda: [1], Local, lambda: lambda x: x])
def test_other_metadata_is_nobody_elses(make):
    meta = make()
    a, b = structure(meta), structure(meta)
    assert a == b and a is not b


def closure():
    local = Local()
    return lambda: local


@pytest.mark.parametrize("make", [Local, closure, lambda: (1, Local())])
def test_what_a_call_has_made_is_forgotten(make):
    meta = make()
    gone = weakref.ref(meta[1] if isinstance(meta, tuple) else meta)
    assert structure(meta) == structure(meta)
    del meta
    gc.collect()
    assert gone() is None


def test_equal_numbers_of_other_types_are_others():
    first, *others = [structure(m) for m in (1, True, 1.0)]
    assert repr(first).startswith("PyTreeDef((CustomNode(Static[1]")
    assert "[True]" in repr(others[0]) and "[1.0]" in repr(others[1])
    assert all(first == other for other in others)
    keys = [tree.structure({k: 0}) for k in (1, True, 1.0)]
    assert [repr(k) for k in keys] == [f"PyTreeDef({{{k}: *}})" for k in (1, True, 1.0)]


def test_metadata_of_any_kind():
    class Fails:
        def __hash__(self):
            raise RuntimeError

    for meta in (
        [1],
        {"a": 1},
        Fails(),
        (1, [2]),
        np,
        functools.partial(max),
        Ellipsis,
    ):
        assert tree.map(lambda x: x + 1, Static(1, meta)).meta is meta


def test_trees_are_split_as_before_when_they_come_again():
    prefix = tree.structure({"a": (0, None), "b": [0], "c": Static(0, activation)})

    def whole(a=5, meta=activation):
        return {"a": ((a, a), None), "b": [[a]], "c": Static((1, 2), meta)}

    for _ in range(8):
        assert prefix.flatten_up_to(whole()) == [(5, 5), [5], (1, 2)]
    for wrong in (
        {**whole(), "d": 1},
        {**whole(), "b": ([5],)},
        {**whole(), "a": ((5, 5), 3)},
        {**whole(), "a": [(5, 5), None]},
        {**whole(), "a": ((5, 5), None, 1)},
        whole(meta=len),
        3,
    ):
        with pytest.raises(ValueError):
            prefix.flatten_up_to(wrong)
        with pytest.raises(ValueError):
            tree.map(lambda x, y: y, whole(), wrong)
    assert prefix.flatten_up_to(whole(7)) == [(7, 7), [7], (1, 2)]


def test_programs_that_repeat_themselves():
    given = [Static((1, None), "m"), Static((None, 1), "m"), Static([1, 2], "n")]
    wanted = [tree.flatten(x) for x in given]
    order = [0, 0, 1, 2, 1, 0, 2, 2, 1, 0, 0, 1, 2] * 6
    for i in order:
        leaves, treedef = tree.flatten(given[i])
        assert leaves == wanted[i][0] and treedef is wanted[i][1]


def test_answers_are_asked_for_once_and_in_order():
    asked = []

    def is_leaf(x):
        asked.append(x)
        return x is None

    given = [1, (2, None), Static((3, None), 4)]
    for _ in range(6):
        asked.clear()
        assert tree.leaves(given, is_leaf=is_leaf) == [1, 2, None, 3, None]
        assert asked == [given, 1, given[1], 2, None, given[2], (3, None), 3, None]


class Graph:
    """New metadata for every tree, with a slow hash."""

    hashed = 0

    def __init__(self, edges):
        self.edges = edges

    def __eq__(self, other):
        return isinstance(other, Graph) and self.edges == other.edges

    def __hash__(self):
        Graph.hashed += 1
        return hash(self.edges)


@pytest.mark.parametrize("wrapped", [Graph, lambda edges: ("a", Graph(edges))])
def test_metadata_is_compared_and_its_own_hash_not_asked(wrapped):
    traced = []

    @curta.jit
    def f(x):
        traced.append(x.meta)
        return x.child

    Graph.hashed = 0
    for edges in (1, 1, 2, 1, 2):
        f(Static(1.0, wrapped(edges)))
    assert len(traced) == 2 and Graph.hashed == 0
    one, other = (tree.structure(Static(1, wrapped(3))) for _ in range(2))
    assert one == other and hash(one) == hash(other)
