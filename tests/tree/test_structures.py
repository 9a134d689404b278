"""Flattening, structures and registration."""

import collections
import dataclasses
import enum
import functools
import operator
import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import curta
from curta import tree, tree_util
from curta.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    PyTreeDef,
    SequenceKey,
    keystr,
    tree_flatten,
    tree_structure,
)

Point = collections.namedtuple("Point", "x y")


class NamedSubclass(Point):
    pass


class Box:
    """Registered without keys; its label is metadata."""

    def __init__(self, content, label=None):
        self.content, self.label = content, label

    def __eq__(self, other):
        return (self.content, self.label) == (other.content, other.label)

    __hash__ = None

    def __repr__(self):
        return f"Box({self.content}, {self.label})"


tree_util.register_pytree_node(
    Box, lambda b: ((b.content,), b.label), lambda label, c: Box(*c, label)
)


@tree_util.register_pytree_with_keys_class
class Keyed:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten_with_keys(self):
        return ((GetAttrKey("a"), self.a), ("own", self.b)), None

    @classmethod
    def tree_unflatten(cls, metadata, children):
        return cls(*children)


@tree_util.register_static
class Mode(str):
    pass


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    activation: str = tree.static(default="relu")


TREES = {
    "PyTreeDef(*)": 5,
    "PyTreeDef(None)": None,
    "PyTreeDef(())": (),
    "PyTreeDef((*,))": (1,),
    "PyTreeDef([*, [*, (*, None)]])": [1, [2, (3, None)]],
    "PyTreeDef({})": {},
    "PyTreeDef({'a': *, 'b': {'c': *}})": {"b": {"c": 1}, "a": 2},
    "PyTreeDef({1: *, 2: *})": {2: 1, 1: 2},
    "PyTreeDef(CustomNode(namedtuple[Point], [*, [*]]))": Point(1, [2]),
    "PyTreeDef(CustomNode(namedtuple[NamedSubclass], [*, *]))": NamedSubclass(1, 2),
    "PyTreeDef(CustomNode(OrderedDict[('b', 'a')], [*, *]))": (
        collections.OrderedDict(b=1, a=2)
    ),
    "PyTreeDef(CustomNode(defaultdict[(<class 'int'>, ('a', 'b'))], [*, *]))": (
        collections.defaultdict(int, b=1, a=2)
    ),
    "PyTreeDef(CustomNode(Box[name], [[*, *]]))": Box([1, 2], "name"),
    "PyTreeDef(CustomNode(Box[['list']], [*]))": Box(1, ["list"]),
    "PyTreeDef(CustomNode(Mode[train], []))": Mode("train"),
    "PyTreeDef(CustomNode(Layer[('relu',)], [*, None]))": Layer(1, None),
}
CASES = pytest.mark.parametrize("text, value", TREES.items(), ids=TREES)


@CASES
def test_description(text, value):
    assert str(tree_structure(value)) == text


@CASES
def test_round_trip(text, value):
    leaves, structure = tree_flatten(value)
    # Often enough that the compiled function takes over.
    for _ in range(8):
        again = structure.unflatten(leaves)
        assert again == value
        assert type(again) is type(value)


@CASES
def test_structures_are_values(text, value):
    one, two = tree_structure(value), tree_structure(value)
    assert one == two
    assert hash(one) == hash(two)
    assert one != tree_structure([value])
    assert one != text
    assert pickle.loads(pickle.dumps(one)) == one


@CASES
def test_paths_lead_to_the_same_leaves(text, value):
    pairs, structure = tree_util.tree_flatten_with_path(value)
    assert [leaf for _, leaf in pairs] == tree.leaves(value)
    assert structure == tree_structure(value)


@CASES
def test_is_leaf_that_never_holds(text, value):
    assert tree_flatten(value, is_leaf=lambda x: False) == tree_flatten(value)


@CASES
def test_flatten_up_to_itself(text, value):
    assert tree_structure(value).flatten_up_to(value) == tree.leaves(value)


@CASES
def test_counts(text, value):
    structure = tree_structure(value)
    assert structure.num_leaves == len(tree.leaves(value)) == text.count("*")
    assert structure.num_nodes == 1 + sum(c.num_nodes for c in structure.children())


def test_shared_structures_are_identical():
    one = tree_structure({"a": [1, (2,)], "b": Point(1, None)})
    assert tree_structure({"b": Point(3, None), "a": [4, (5,)]}) is one


def test_dict_keys_that_are_equal_but_not_the_same():
    ints, bools = tree_flatten({1: "x"}), tree_flatten({True: "x"})
    assert ints == bools
    assert list(ints[1].unflatten(ints[0])) == [1]
    assert str(bools[1]) == "PyTreeDef({True: *})"


class Name(enum.StrEnum):
    A = "a"


@pytest.mark.parametrize("key", [Name.A, np.str_("a")])
def test_strings_of_other_types_stay_keys(key):
    assert tree.structure({"a": 1}) == tree.structure({key: 1})
    assert [*map(type, tree.map(abs, {key: 1}))] == [type(key)]


def test_dicts_come_back_sorted():
    structure = tree_structure({"b": 1, "c": {"z": 1, "y": 2}, "a": 2})
    result = structure.unflatten(range(4))
    assert list(result) == ["a", "b", "c"]
    assert list(result["c"]) == ["y", "z"]
    ordered = collections.OrderedDict(b=1, a=2)
    assert list(tree.map(operator.neg, ordered)) == ["b", "a"]


def test_leaves_of_other_types():
    class OwnDict(dict):
        pass

    class OwnList(list):
        pass

    for leaf in (
        *(OwnDict(a=1), OwnList([1]), {1, 2}, "text", np.ones(2)),
        *(collections.deque([1]), time.gmtime(0), range(3), object()),
    ):
        assert tree.leaves(leaf)[0] is leaf
        assert tree_util.all_leaves([leaf])


def test_a_class_registered_after_it_was_a_leaf():
    class Late:
        pass

    assert len(tree.leaves(Late())) == 1
    assert not tree_util.is_tree_node(Late)
    tree_util.register_pytree_node(Late, lambda x: ((), None), lambda *_: Late())
    assert tree.leaves(Late()) == []
    assert tree_util.is_tree_node(Late)
    with pytest.raises(
        ValueError, match="Duplicate custom PyTreeDef type registration"
    ):
        tree_util.register_static(Late)
    with pytest.raises(ValueError, match="Duplicate"):
        tree_util.register_static(dict)


def test_a_named_tuple_registered_otherwise():
    Pair = collections.namedtuple("Pair", "first second")
    assert tree.leaves(Pair(1, 2)) == [1, 2]
    tree_util.register_pytree_node(
        Pair, lambda p: ((p.first,), p.second), lambda second, c: Pair(*c, second)
    )
    assert tree.leaves(Pair(1, 2)) == [1]


def test_unflatten_with_the_wrong_number_of_leaves():
    structure = tree_structure((1, {"a": 2}))
    for _ in range(6):
        with pytest.raises(
            ValueError, match="Too few leaves for PyTreeDef; expected 2, got 1"
        ):
            structure.unflatten([1])
        with pytest.raises(
            ValueError, match="Too many leaves for PyTreeDef; expected 2"
        ):
            structure.unflatten(iter([1, 2, 3]))
        assert structure.unflatten(iter("xy")) == ("x", {"a": "y"})
    assert tree_structure(None).unflatten([]) is None


@pytest.mark.parametrize(
    "prefix, full, message",
    [
        ((1, 2), (1,), r"Tuple arity mismatch: 1 != 2; tuple: \(1,\)\."),
        ([1], [1, 2], r"List arity mismatch: 2 != 1; list: \[1, 2\]\."),
        ([1], (1,), r"Expected list, got \(1,\)\."),
        ({"a": 1}, {"b": 1}, r"Dict key mismatch; expected keys: \['a'\]; present"),
        ({"a": 1}, 3, "Expected dict, got 3"),
        (Point(1, 2), (1, 2), r"Expected named tuple, got \(1, 2\)"),
        (Point(1, 2), NamedSubclass(1, 2), "Named tuple type mismatch"),
        (Box(1), 3, "Custom node type mismatch: expected type: .*Box"),
        (Box(1, "a"), Box(1, "b"), "Mismatch custom node data: 'a' != 'b'"),
        (None, 1, "Expected None, got 1"),
    ],
)
def test_flatten_up_to_something_else(prefix, full, message):
    with pytest.raises(ValueError, match=message):
        tree_structure(prefix).flatten_up_to(full)
    with pytest.raises(ValueError, match=message):
        tree_structure([prefix]).flatten_up_to([full])


def test_flatten_up_to_keeps_subtrees():
    structure = tree_structure([(1, 2), None, {"a": 3}])
    subtrees = structure.flatten_up_to(
        [({"x": 7}, (3, 4)), None, {"a": {2: 1, "b": 2}}]
    )
    assert subtrees == [{"x": 7}, (3, 4), {2: 1, "b": 2}]


def test_keys_that_cannot_be_sorted():
    with pytest.raises(ValueError, match="Comparator raised exception while sorting"):
        tree.leaves({"a": 1, 2: 3})
    with pytest.raises(ValueError, match=r"comparable.*\['a', 2\]"):
        tree.map(operator.neg, [{"a": 1, 2: 3}])


def test_flatten_functions_that_return_something_else():
    class Bad:
        result = None

    tree_util.register_pytree_node(Bad, lambda x: x.result, lambda *_: Bad())
    bad = Bad()
    for bad.result in ("hello", (1, 2, 3)):
        with pytest.raises(ValueError, match=r"should return a \(children, aux_data\)"):
            tree.leaves(bad)
    bad.result = (7, 7)
    with pytest.raises(ValueError, match="'children' is iterable, got"):
        tree.leaves(bad)


def test_metadata_that_cannot_be_compared():
    one, two = tree_structure(Box(1, np.ones(2))), tree_structure(Box(1, np.ones(2)))
    hash(one)
    with pytest.raises(ValueError, match="Exception raised while checking equality"):
        one == two  # noqa: B015


def test_one_level():
    assert tree_util.flatten_one_level({"b": [1], "a": 2}) == ((2, [1]), ("a", "b"))
    assert tree_util.flatten_one_level(None) == ((), None)
    keyed, _ = tree_util.flatten_one_level_with_keys(Point(1, (2,)))
    assert list(keyed) == [(GetAttrKey("x"), 1), (GetAttrKey("y"), (2,))]
    for leaf in (1, np.ones(2)):
        with pytest.raises(ValueError, match="can't tree-flatten type"):
            tree_util.flatten_one_level(leaf)


def test_structures_taken_apart_and_put_together():
    structure = tree_structure({"b": (1, 2), "a": Box(0, "m")})
    assert structure.node_data() == (dict, ["a", "b"])
    assert structure.children() == [tree_structure(Box(1, "m")), tree_structure((1, 2))]
    again = PyTreeDef.from_node_data_and_children(
        tree_util.default_registry, structure.node_data(), structure.children()
    )
    assert again == structure
    pair = tree_util.treedef_tuple([structure, tree_structure(1)])
    assert pair == tree_structure(({"b": (1, 2), "a": Box(0, "m")}, 1))
    assert tree_util.treedef_children(pair)[0] == structure
    assert tree_structure(1).node_data() is None
    assert tree_util.treedef_is_leaf(tree_structure(1))
    assert not tree_util.treedef_is_leaf(pair)


def test_compose():
    composed = tree_structure((1, [2])).compose(tree_structure({"a": 1, "b": 2}))
    assert str(composed) == "PyTreeDef(({'a': *, 'b': *}, [{'a': *, 'b': *}]))"
    assert composed.num_leaves == 4


def test_walk():
    structure = tree_structure({"b": 1, "a": (2, None)})
    found = structure.walk(lambda c, data: (c, data), str, [10, 20])
    assert found == ((((("10"), ((), None)), None), "20"), ["a", "b"])


def test_static_classes():
    leaves, structure = tree_flatten((1, Mode("train")))
    assert leaves == [1]
    assert structure == tree_structure((2, Mode("train")))
    assert structure != tree_structure((2, Mode("test")))


def test_dataclasses():
    layer = Layer([1, 2], 3, "tanh")
    assert tree.map(operator.neg, layer) == Layer([-1, -2], -3, "tanh")
    paths = [keystr(path) for path, _ in tree.leaves_with_path(layer)]
    assert paths == [".weight[0]", ".weight[1]", ".bias"]


def test_dataclass_fields_that_do_not_fit():
    @dataclasses.dataclass
    class Pair:
        x: int
        y: int = 0
        made: int = dataclasses.field(init=False, default=0)

    register = tree_util.register_dataclass
    with pytest.raises(TypeError, match=r"both be specified .*data_fields=\['x'\]"):
        register(Pair, data_fields=["x"])
    with pytest.raises(ValueError, match=r"Missing fields: \{'y'\}"):
        register(Pair, ["x"], [])
    with pytest.raises(ValueError, match=r"Unexpected fields: \{'z'\}"):
        register(Pair, ["x", "y"], ["z"])
    with pytest.raises(ValueError, match=r"must not overlap.*\{'x'\}"):
        register(Pair, ["x", "y"], ["x"])
    with pytest.raises(TypeError, match="required when nodetype is not a dataclass"):
        register(object)
    assert register(Pair, ["x"], [], drop_fields=["y"]) is Pair
    assert tree.leaves(Pair(1, 2)) == [1]


def test_keys():
    value = {"a": [Point(1, 2), Keyed(3, 4)], "b": Box(5)}
    paths = [path for path, _ in tree.leaves_with_path(value)]
    assert [keystr(path) for path in paths] == [
        *("['a'][0].x", "['a'][0].y", "['a'][1].a", "['a'][1]own"),
        "['b'][<flat index 0>]",
    ]
    assert keystr(paths[0], simple=True, separator="/") == "a/0/x"
    assert paths[4] == (DictKey("b"), FlattenedIndexKey(0))
    assert (
        repr(paths[0]) == "(DictKey(key='a'), SequenceKey(idx=0), GetAttrKey(name='x'))"
    )


def test_keys_are_values():
    keys = [SequenceKey(1), DictKey(1), GetAttrKey("x"), FlattenedIndexKey(1)]
    assert len(set(keys)) == len({hash(key) for key in keys}) == 4
    assert pickle.loads(pickle.dumps(keys)) == keys
    match keys[0]:
        case SequenceKey(idx):
            assert idx == 1


def test_partial():
    add = Partial(operator.add, 1)
    assert add(2) == 3
    assert tree.leaves(add) == [1]
    assert tree.map(lambda x: 10 * x, add)(2) == 12
    inner = functools.partial(print, 1)
    outer = Partial(inner, 2, end="")
    assert (outer.args, outer.keywords) == ((2,), {"end": ""})
    assert outer.func == inner
    assert hash(outer.func) == hash(inner)
    assert tree_structure(outer) == tree_structure(Partial(inner, 3, end=""))
    assert tree_structure(outer) != tree_structure(
        Partial(functools.partial(print), 3, end="")
    )


leaf = st.integers() | st.text(max_size=2)
any_tree = st.recursive(
    leaf | st.none(),
    lambda children: (
        st.lists(children, max_size=3)
        | st.lists(children, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), children, max_size=3)
        | st.dictionaries(st.integers(0, 5), children, max_size=3)
        | st.builds(Point, children, children)
        | st.builds(Box, children, st.text(max_size=1))
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(any_tree)
def test_any_tree(value):
    leaves, structure = tree_flatten(value)
    assert structure.unflatten(leaves) == value
    again = tree_structure(structure.unflatten(leaves))
    assert again == structure
    assert hash(again) == hash(structure)
    assert pickle.loads(pickle.dumps(structure)) == structure
    assert structure.flatten_up_to(value) == leaves
    assert [x for _, x in tree.leaves_with_path(value)] == leaves
    assert tree.map(lambda x: x, value) == value
    assert tree.broadcast(0, value) == tree.map(lambda _: 0, value)


# ---- trees nested deeper than Python calls


def _nested(depth, leaf=1.0):
    for level in range(depth):
        leaf = ([leaf], (leaf,), {"a": leaf}, None)[level % 3]
    return leaf


def _depth(value):
    count = 0
    while isinstance(value, list | tuple | dict):
        count, value = count + 1, value["a" if isinstance(value, dict) else 0]
    return count, value


def test_deep_trees_are_taken_apart_and_put_together():
    deep = _nested(5000)
    leaves, structure = tree.flatten(deep)
    assert leaves == [1.0] and structure.num_nodes == 5001
    for leaf in range(6):  # at first by a walk, then by a function made for it
        assert _depth(structure.unflatten([leaf])) == (5000, leaf)
    assert _depth(tree.map(lambda x, y: x + y, deep, _nested(5000, 2.0))) == (5000, 3.0)
    assert repr(structure).count("*") == 1
    prefix = tree.structure(_nested(2999, 0))
    [subtree] = prefix.flatten_up_to(_nested(5999))
    assert _depth(subtree) == (3000, 1.0)
    inside = tree.structure(_nested(3000, 0))
    assert prefix.compose(inside) == tree.structure(_nested(5999))


def test_deep_structures_are_compared_and_pickled():
    structure = tree.structure(_nested(5001, Point(1, 2)))
    again = pickle.loads(pickle.dumps(structure))
    assert again == structure and hash(again) == hash(structure)
    assert structure != tree.structure(_nested(5001, Point(1, [2])))


def test_deep_trees_have_paths_and_pass_transformations():
    [(path, leaf)] = tree.leaves_with_path(_nested(3000))
    assert len(path) == 3000 and leaf == 1.0
    stop = tree.leaves(_nested(3000), is_leaf=lambda x: x == (1.0,))
    assert _depth(stop[0])[0] <= 2
    double = curta.jit(lambda t: tree.map(lambda x: 2 * x, t))
    for _ in range(3):
        assert _depth(double(_nested(2000))) == (2000, 2.0)
    gradient = curta.grad(lambda t: tree.leaves(t)[0] ** 2)(_nested(2000, 3.0))
    assert _depth(gradient) == (2000, 6.0)


def test_a_container_of_itself_is_refused():
    endless = []
    endless.append({"a": endless})
    for walk in tree.leaves, tree.leaves_with_path, curta.jit(lambda x: x):
        with pytest.raises(
            RecursionError, match="nested more than 100,000 deep.*itself"
        ):
            walk(endless)
