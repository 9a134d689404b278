"""Iterators are leaves, and a warning says so, as in JAX since 0.10.1."""

import warnings
from collections import OrderedDict

import pytest

from curta import tree

ITERATORS = [
    lambda: {"a": 1}.values(),
    lambda: OrderedDict(a=1).values(),
    lambda: iter({"a": 1}),
    lambda: iter([1]),
    lambda: iter((1,)),
    lambda: iter({1}),
    lambda: (x for x in [1]),
    lambda: zip([1], [2], strict=True),
    lambda: map(int, [1]),
    lambda: filter(None, [1]),
    lambda: enumerate([1]),
]
NO_ITERATORS = [{"a": 1}.keys(), {"a": 1}.items(), range(3), {1}, "ab", reversed([1])]


def warned(function, *args, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*args, **kwargs)
    return result, [w for w in caught if w.category is DeprecationWarning]


@pytest.mark.parametrize("make", ITERATORS)
@pytest.mark.parametrize("function", [tree.leaves, tree.leaves_with_path])
def test_an_iterator_is_a_leaf_with_a_warning(make, function):
    made = make()
    for tree_of_it in made, [made]:
        leaves, (warning,) = warned(function, tree_of_it)
        assert leaves[-1] is made or leaves[-1][1] is made
        said = f"iterable type {type(made).__name__!r} is treated as a leaf"
        assert said in str(warning.message) and warning.filename == __file__
    assert len(warned(function, made, is_leaf=lambda *x: False)[1]) == 1
    assert not warned(function, made, is_leaf=lambda *x: True)[1]


@pytest.mark.parametrize("leaf", NO_ITERATORS)
def test_other_iterables_are_leaves_without(leaf):
    leaves, caught = warned(tree.leaves, [leaf])
    assert leaves == [leaf] and not caught
