"""Functions over whole trees, and what they say about structures that differ."""

import collections
import operator

import pytest

from curta import tree, tree_util
from curta.tree_util import (
    DictKey,
    SequenceKey,
    broadcast_flattened_prefix,
    broadcast_prefix,
    equality_errors,
    equality_errors_pytreedef,
    prefix_errors,
)

Point = collections.namedtuple("Point", "x y")


def test_map():
    assert tree.map(operator.neg, {"b": [1], "a": (2, None)}) == {
        "a": (-2, None),
        "b": [-1],
    }
    pairs = tree.map(lambda *xs: xs, (1, [2]), ([3], [None]), ("x", ["y"]))
    assert pairs == ((1, [3], "x"), [(2, None, "y")])
    assert tree.map(lambda x: x is None, [1, None], is_leaf=lambda x: x is None) == [
        False,
        True,
    ]


def test_map_over_subtrees_that_could_not_be_flattened():
    assert tree.map(lambda _, y: len(y), [0], [{"a": 1, 2: 3}]) == [2]


def test_map_passes_on_errors_of_the_function():
    def fail(*_):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="^mine$"):
        tree.map(fail, [1], [2])


def test_map_with_path():
    found = tree.map_with_path(
        lambda path, x, y: (path, x + y), {"a": [1]}, {"a": [10]}
    )
    assert found == {"a": [((DictKey("a"), SequenceKey(0)), 11)]}
    found = tree.map_with_path(
        lambda path, x: x,
        ((1, 2), [3, {4: 4}]),
        is_leaf=lambda path, x: len(path) == 1,
        is_leaf_takes_path=True,
    )
    assert found == ((1, 2), [3, {4: 4}])


def test_reductions():
    value = {"b": [2, 3], "a": 1, "c": None}
    assert tree.reduce(operator.sub, value) == 1 - 2 - 3
    assert tree.reduce(operator.add, value, 10) == 16
    assert tree.reduce(
        operator.add, [(1,), (2,)], is_leaf=lambda x: type(x) is tuple
    ) == (*(1, 2),)
    assert tree.reduce_associative(operator.add, value) == 6
    assert tree.reduce_associative(operator.add, [], identity=7) == 7
    assert tree.all([1, {"a": True}])
    assert not tree.all([1, {"a": ()}, 0])
    with pytest.raises(TypeError):
        tree.reduce(operator.add, [])
    with pytest.raises(TypeError, match="Must specify identity"):
        tree.reduce_associative(operator.add, [])


def test_transpose():
    outer, inner = tree.structure({"a": 0, "b": 0}), tree.structure([0, 0])
    value = {"a": [1, 2], "b": [3, 4]}
    expected = [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    assert tree.transpose(outer, inner, value) == expected
    assert tree.transpose(outer, None, value) == expected
    with pytest.raises(TypeError, match=r"Mismatch\nPyTreeDef"):
        tree.transpose(outer, tree.structure([0, 0, 0]), value)


def test_broadcast():
    assert tree.broadcast((1, None), ([0, {"a": 0}], None)) == ([1, {"a": 1}], None)
    full = ((1, 2), [3])
    none_is_leaf = {"is_leaf": lambda x: x is None}
    assert broadcast_prefix((None, 5), full, **none_is_leaf) == [None, None, 5]
    prefix, structure = tree.flatten((4, [5]))
    assert broadcast_flattened_prefix(prefix, structure, tree.structure(full)) == [
        4,
        4,
        5,
    ]
    with pytest.raises(ValueError, match="Expected list"):
        broadcast_flattened_prefix(prefix, structure, tree.structure((1, 2)))
    with pytest.raises(ValueError, match="different lengths of tuple at key path"):
        tree.broadcast((1, 2, 3), (1, 2))


def test_all_leaves():
    assert tree_util.all_leaves([1, "a"])
    assert not tree_util.all_leaves([1, None])
    assert not tree_util.all_leaves([1, []])
    assert tree_util.all_leaves([[1]], is_leaf=lambda x: type(x) is list)


MISMATCHES = [
    (
        {"a": (1, 2)},
        {"a": [1, 2]},
        "pytree structure error: different types at key path\n    tree_map tree['a']\n",
        (("['a']", "<class 'tuple'>", "<class 'list'>", "their Python types differ")),
    ),
    (
        [(1, 2)],
        [(1, 2, 3)],
        "pytree structure error: different lengths of tuple at key path\n"
        "    tree_map tree[0]\n",
        ("[0]", "tuple of length 2", "tuple of length 3", "the lengths do not match"),
    ),
    (
        {"a": 1, "b": 2},
        {"a": 1, "b": 2, "c": 3},
        "pytree structure error: different keys of dict at key path\n"
        "    tree_map tree\n",
        (
            "",
            "<class 'dict'> with keys 'a', 'b'",
            "<class 'dict'> with keys 'a', 'b', 'c'",
            "only the latter has 'c'",
        ),
    ),
    (
        {"a": 1},
        {"b": 1},
        "pytree structure error: different keys of dict at key path\n"
        "    tree_map tree\n",
        (
            "",
            "<class 'dict'> with keys 'a'",
            "<class 'dict'> with keys 'b'",
            "only the former has 'a' and only the latter has 'b'",
        ),
    ),
]


@pytest.mark.parametrize("one, two, message, difference", MISMATCHES)
def test_mismatches(one, two, message, difference):
    with pytest.raises(ValueError) as caught:
        tree.map(operator.add, one, two)
    assert str(caught.value).startswith(message)
    [(path, *rest)] = equality_errors(one, two)
    assert (tree_util.keystr(path), *rest) == difference


def test_several_mismatches():
    errors = prefix_errors(((1,), (2,), 3), ([1], [2], 3))
    texts = [str(make("in_axes")) for make in errors]
    assert ["in_axes[0]" in texts[0], "in_axes[1]" in texts[1]] == [True, True]
    assert prefix_errors((1, 2), ((3, 4), 5)) == []


def test_differences_of_structures():
    one, two = tree.structure((1, 2)), tree.structure((1, [2]))
    assert list(equality_errors_pytreedef(one, two)) == [
        (
            (SequenceKey(1),),
            "pytree leaf",
            "<class 'list'>",
            "their Python types differ",
        )
    ]
    assert list(equality_errors_pytreedef(one, one)) == []


def test_maps_and_leaves_with_paths_under_their_long_names():
    tree = {"a": [1, 2], "b": 3}
    named = tree_util.tree_map_with_path(
        lambda path, x: (tree_util.keystr(path), x), tree
    )
    assert named == {"a": [("['a'][0]", 1), ("['a'][1]", 2)], "b": ("['b']", 3)}
    (path, leaf), *_ = tree_util.tree_leaves_with_path(tree)
    assert path == (tree_util.DictKey("a"), tree_util.SequenceKey(0)) and leaf == 1


def test_folds_of_leaves():
    assert tree_util.tree_reduce(lambda a, b: a + b, [1, {"x": 2}], 10) == 13
    assert tree_util.tree_all({"a": True, "b": [1]})
    assert not tree_util.tree_all([True, 0])
    joined = tree_util.tree_reduce_associative(lambda a, b: a + b, list("abcde"))
    assert joined == "abcde"


def test_broadcast_and_transpose():
    assert tree_util.tree_broadcast([1, 2], [[0, 0], 0]) == [[1, 1], 2]
    outer, inner = (tree_util.tree_structure(t) for t in ([0, 0, 0], (0, 0)))
    rows = [(1, 2), (3, 4), (5, 6)]
    assert tree_util.tree_transpose(outer, inner, rows) == ([1, 3, 5], [2, 4, 6])


def test_classes_registered_with_keys_show_them_in_paths():
    class Pair:
        def __init__(self, left, right):
            self.left, self.right = left, right

    tree_util.register_pytree_with_keys(
        Pair,
        lambda p: (((tree_util.GetAttrKey("left"), p.left), ("right", p.right)), None),
        lambda _, children: Pair(*children),
    )
    leaves = tree_util.tree_leaves_with_path(Pair(1, 2))
    assert [tree_util.keystr(path) for path, _ in leaves] == [".left", "right"]
    doubled = tree_util.tree_map(lambda x: 2 * x, Pair(1, 2))
    assert (doubled.left, doubled.right) == (2, 4)
    key: tree_util.KeyEntry = tree_util.DictKey("a")
    path: tree_util.KeyPath = (key,)
    assert tree_util.keystr(path) == "['a']"


def test_what_stands_for_a_leaf_may_hold_itself():
    knot = []
    knot.append(knot)
    assert tree.map(lambda a, b: b is knot, {"a": 1}, {"a": knot}) == {"a": True}
