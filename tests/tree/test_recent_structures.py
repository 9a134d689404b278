"""Trees of registered classes that are flattened repeatedly."""

import gc
import weakref

import numpy as np
import pytest

from curta import tree


class Pair:
    def __init__(self, first, second, meta=()):
        self.first, self.second, self.meta = first, second, meta


class Refuses(Exception):
    pass


def parts(pair):
    if pair.meta == "refuse":
        raise Refuses
    return (pair.first, pair.second), pair.meta


@pytest.fixture(scope="module", autouse=True)
def registered():
    from curta.tree_util import register_pytree_node

    register_pytree_node(Pair, parts, lambda meta, xs: Pair(*xs, meta))


def shown(x):
    """Leaves and structure by the walk that keeps nothing."""
    pairs, structure = tree.flatten_with_path(x)
    return [leaf for _, leaf in pairs], structure


def same(x):
    leaves, structure = tree.flatten(x)
    wanted, whole = shown(x)
    assert len(leaves) == len(wanted) and all(map(lambda a, b: a is b, leaves, wanted))
    assert structure == whole and repr(structure) == repr(whole)
    assert hash(structure) == hash(whole)
    return structure


def settled(make, count=8):
    """The structure of trees that are made again and again, which is kept."""
    kept = [same(make()) for _ in range(count)]
    assert kept[-1] is kept[-2]
    return kept[-1]


def test_equal_structures_are_one():
    a = settled(lambda: Pair(1, (2, {"b": 3, "a": None}), ("relu", 7)))
    assert same(Pair(4, (5, {"a": None, "b": 6}), ("relu", 7))) is a


@pytest.mark.parametrize(
    "other",
    [
        Pair(1, (2, Pair(3, 4, "m")), "n"),
        Pair(1, (2, Pair(3, 4, "other")), "m"),
        Pair(1, (2, Pair(3, None, "m")), "m"),
        Pair(1, (2, Pair(3, (4,), "m")), "m"),
        Pair(1, (2, Pair((), 4, "m")), "m"),
        Pair(1, (2, 3), "m"),
        Pair(1, [2, Pair(3, 4, "m")], "m"),
        Pair(1, (2,), "m"),
        Pair(1, (2, Pair(3, 4, "m"), 5), "m"),
        Pair(Pair(3, 4, "m"), (1, 2), "m"),
    ],
)
def test_other_trees_are_noticed(other):
    known = settled(lambda: Pair(1, (2, Pair(3, 4, "m")), "m"))
    assert same(other) != known
    assert same(Pair(5, (6, Pair(7, 8, "m")), "m")) is known


def test_one_that_comes_again_stays_when_others_come():
    def make():
        return Pair(1, (2, "often"), "m")

    known = settled(make)
    others = []
    for k in range(70):  # more than a class forgets after
        others.append(same(Pair(1, [k] * k, "m")))
        assert same(make()) is known
    del known
    settled(lambda: Pair(1, (2, 3), "of another structure"))


def test_dicts_within():
    known = settled(lambda: Pair(1, {"a": 1, "b": 2}))
    assert same(Pair(1, {"b": 1, "a": 2})) is known
    assert same(Pair(1, {"a": 1})) != known
    assert same(Pair(1, {"a": 1, "c": 2})) != known
    assert same(Pair(1, {"a": 1, "b": 2, "c": 3})) != known


@pytest.mark.parametrize(
    ("known", "equal"),
    [((0, 1), (0, True)), ((0, True), (False, 1)), (("a",), (np.str_("a"),)), ((), ())],
)
def test_equal_keys_are_not_the_same(known, equal):
    settled(lambda: Pair(1, dict.fromkeys(known, 2)))
    back = tree.map(abs, Pair(1, dict.fromkeys(equal, 2)))
    assert [*map(type, back.second)] == [*map(type, equal)]


@pytest.mark.parametrize("meta", [(1,), (1.0,), (True,), (np.int64(1),), [1]])
def test_equal_metadata_is_not_the_same(meta):
    settled(lambda: Pair(1, 2, (1,)))
    leaves, structure = tree.flatten(Pair(3, 4, meta))
    back = tree.unflatten(structure, leaves)
    assert type(back.meta) is type(meta) and type(back.meta[0]) is type(meta[0])
    assert back.meta is meta or meta == (1,)


def test_trees_until_leaves():
    def make():
        return Pair((1, None), Pair(2, 3))

    def whole(x):
        return x is None or type(x) is tuple

    kept = [tree.flatten(make(), whole) for _ in range(6)]
    assert kept[-1][1] is kept[-2][1] and kept[-1][0] == [(1, None), 2, 3]
    assert tree.flatten(make(), lambda x: x is None)[0] == [1, None, 2, 3]
    assert same(make()).num_leaves == 3


def test_exceptions_of_the_class_are_raised():
    settled(lambda: Pair(1, Pair(2, 3)))
    with pytest.raises(Refuses):
        tree.flatten(Pair(1, Pair(2, 3, "refuse")))


def test_a_class_that_is_registered_later():
    from curta.tree_util import register_pytree_node

    class Later:
        pass

    one = Later()
    settled(lambda: Pair(one, 2))
    register_pytree_node(Later, lambda x: ((7, 8), None), lambda _, xs: one)
    assert tree.leaves(Pair(one, 2)) == [7, 8, 2]


def test_what_nobody_has_is_forgotten():
    class Large:
        pass

    metadata = Large()
    gone = weakref.ref(metadata)
    kept = [tree.structure(Pair(1, 2, metadata)) for _ in range(8)]
    assert kept[-1] is kept[-2]
    del metadata, kept
    gc.collect()
    assert gone() is None


def test_many_structures():
    kept = [tree.structure(Pair(1, 2, ("meta", k))) for k in range(300) for _ in "ab"]
    assert len(set(kept)) == 300
    assert [s.node_data()[1][1] for s in kept[::2]] == [*range(300)]


def test_nested_deeper_than_calls():
    def make():
        x = 0
        for _ in range(5000):
            x = Pair(x, 1)
        return x

    for _ in range(6):
        leaves, structure = tree.flatten(make())
        assert leaves == [0] + [1] * 5000 and structure.num_leaves == 5001
