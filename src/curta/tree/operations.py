"""Functions over whole trees.

A tree is a leaf, None, or a container (tuple, list, dict, named tuple, registered
class) whose elements are trees. None is a tree without leaves. The elements of
dictionaries are visited in the order of the sorted keys.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.tree.flatten import IsLeaf, flatten, flatten_with_path
from curta.tree.keys import KeyPath
from curta.tree.kinds import kind_of
from curta.tree.mismatch import prefix_errors
from curta.tree.treedef import LEAF, PyTreeDef, incompatible, make_treedef

_MISSING: Any = object()

tree_flatten = flatten


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves.

    Raises:
        ValueError: there are too few leaves or too many.

    Example:
        >>> from curta import tree
        >>> leaves, structure = tree.flatten({"a": 1, "b": (2, 3)})
        >>> tree.unflatten(structure, [10 * x for x in leaves])
        {'a': 10, 'b': (20, 30)}
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """Return the leaves of a tree.

    Example:
        >>> from curta import tree
        >>> tree.leaves({"b": [1, None], "a": (2, 3)})
        [2, 3, 1]
    """
    return flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a tree.

    Example:
        >>> from curta import tree
        >>> tree.structure({"b": [1, None], "a": (2, 3)})
        PyTreeDef({'a': (*, *), 'b': [*, None]})
    """
    return flatten(tree, is_leaf)[1]


def tree_map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None
) -> Any:
    """Apply a function to every leaf.

    Args:
        f: called with one leaf of `tree` and the corresponding subtree of each of
          `rest`.
        tree: the tree that gives the structure.
        *rest: trees that have the structure of `tree` as a prefix.
        is_leaf: where it answers True, the walk through `tree` stops and takes the
            subtree as a leaf.

    Returns:
        A tree of the structure of `tree`.

    Raises:
        ValueError: the structures do not fit, or a dictionary has keys without an
            order.

    Example:
        >>> from curta import tree
        >>> tree.map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
        {'a': 11, 'b': [22]}
    """
    leaves, treedef = flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(x) for x in leaves])
    columns = _columns(treedef, tree, rest, is_leaf, "tree_map tree")
    return treedef.unflatten([f(*xs) for xs in zip(leaves, *columns)])


def _columns(
    treedef: PyTreeDef, tree: Any, rest: Any, is_leaf: IsLeaf | None, name: str
) -> list[list[Any]]:
    columns = []
    for other in rest:
        try:
            columns.append(treedef.flatten_up_to(other))
        except ValueError as error:
            for make_error in prefix_errors(tree, other, is_leaf):
                raise make_error(name) from None
            raise error from None
    return columns


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves from the first to the last, as ``functools.reduce`` does.

    Args:
        function: of what is combined so far and the next leaf.
        tree: the tree.
        initializer: what stands before the first leaf; nothing by default.
        is_leaf: as for `tree_map`.

    Returns:
        What `function` returned last.

    Raises:
        TypeError: there is no leaf and no `initializer`.

    Example:
        >>> from curta import tree
        >>> tree.reduce(lambda total, x: total + x, {"a": 1, "b": [2, 3]})
        6
    """
    start = () if initializer is _MISSING else (initializer,)
    return functools.reduce(function, tree_leaves(tree, is_leaf), *start)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """Combine the leaves in halves, so that the depth grows with their logarithm.

    Args:
        operation: an associative function of two leaves, or results of its own.
        tree: the tree.
        identity: the result for a tree without leaves.
        is_leaf: as for `tree_map`.

    Returns:
        What `operation` returned last; the leaf if there is one alone.

    Raises:
        TypeError: there is no leaf and no `identity`.

    Example:
        >>> from curta import tree
        >>> tree.reduce_associative(lambda a, b: f"({a}{b})", ["x", "y", "z"])
        '(x(yz))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if leaves:
        return _combine(operation, leaves)
    if identity is _MISSING:
        raise TypeError(
            "Must specify identity for parallel reduction of empty sequence."
        )
    return identity


def _combine(operation: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return operation(
        _combine(operation, values[:half]), _combine(operation, values[half:])
    )


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Return True if all leaves are true.

    Example:
        >>> from curta import tree
        >>> tree.all([True, {"a": 1}]), tree.all([True, {"a": 0}])
        (True, False)
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn an outer tree of inner trees into an inner tree of outer trees.

    Args:
        outer_treedef: the structure outside.
        inner_treedef: the structure inside; None uses the structure of the first
          subtree.
        pytree_to_transpose: a tree of the two structures composed.

    Returns:
        A tree of the structure inside, with trees of the structure outside as leaves.

    Raises:
        TypeError: the tree has another number of leaves.

    Example:
        >>> from curta import tree
        >>> outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
        >>> tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        {'a': [1, 3], 'b': [2, 4]}
    """
    leaves, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        first = outer_treedef.flatten_up_to(pytree_to_transpose)[0]
        inner_treedef = tree_structure(first)
    width = inner_treedef.num_leaves
    if treedef.num_leaves != width * outer_treedef.num_leaves:
        expected = outer_treedef.compose(inner_treedef)
        raise TypeError(f"Mismatch\n{treedef}\n != \n{expected}")
    columns = [leaves[i::width] for i in range(width)]
    return inner_treedef.unflatten([outer_treedef.unflatten(c) for c in columns])


# ---- prefixes


def tree_broadcast(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> Any:
    """Copy the leaves of a prefix to all leaves of the full tree below them.

    Args:
        prefix_tree: a tree whose structure is a prefix of the structure of `full_tree`.
        full_tree: the tree that gives the structure.
        is_leaf: as for `tree_map`, of `prefix_tree`.

    Returns:
        A tree of the structure of `full_tree`.

    Raises:
        ValueError: it is not a prefix.

    Example:
        >>> from curta import tree
        >>> tree.broadcast((0, 1), ({"a": "x", "b": "y"}, "z"))
        ({'a': 0, 'b': 0}, 1)
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)


def broadcast_prefix(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> list[Any]:
    """The leaves of `tree_broadcast` as a list.

    Args:
        prefix_tree, full_tree, is_leaf: as for `tree_broadcast`.

    Returns:
        A list, as long as `full_tree` has leaves.

    Raises:
        ValueError: it is not a prefix.

    Example:
        >>> from curta.tree_util import broadcast_prefix
        >>> broadcast_prefix((0, None), ([1, 2], [3]), is_leaf=lambda x: x is None)
        [0, 0, None]
    """
    leaves, treedef = flatten(prefix_tree, is_leaf)
    name = "broadcast_prefix prefix_tree"
    [subtrees] = _columns(treedef, prefix_tree, (full_tree,), is_leaf, name)
    counts = [tree_structure(subtree).num_leaves for subtree in subtrees]
    return [leaf for leaf, count in zip(leaves, counts) for _ in range(count)]


def broadcast_flattened_prefix(
    prefix_leaves: list[Any], prefix_treedef: PyTreeDef, full_treedef: PyTreeDef
) -> list[Any]:
    """`broadcast_prefix` for a full tree that is given as a treedef.

    Args:
        prefix_leaves: the leaves of the prefix.
        prefix_treedef: its structure.
        full_treedef: the structure of the full tree.

    Returns:
        A list, as long as the full tree has leaves.

    Raises:
        ValueError: it is not a prefix.

    >>> from curta import tree_util
    >>> prefix, full = (7, 8), (1, [2, 3])
    >>> leaves, tree = tree_util.tree_flatten(prefix)
    >>> structure = tree_util.tree_structure(full)
    >>> tree_util.broadcast_flattened_prefix(leaves, tree, structure)
    [7, 8, 8]
    """
    skeleton = full_treedef.unflatten(map(_LeafNumber, range(full_treedef.num_leaves)))
    subtrees = prefix_treedef.flatten_up_to(skeleton)
    counts = [tree_structure(subtree).num_leaves for subtree in subtrees]
    return [leaf for leaf, count in zip(prefix_leaves, counts) for _ in range(count)]


@dataclass(frozen=True)
class _LeafNumber:
    """A leaf that is only counted."""

    index: int


# ---- paths


def tree_flatten_with_path(
    tree: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves with their paths, and the structure.

    Args:
        tree: the tree.
        is_leaf: where it answers True, the walk stops and takes the subtree as a leaf.
        is_leaf_takes_path: call ``is_leaf(path, subtree)``.

    Returns:
        A list of pairs of path, a tuple of keys, and leaf; and the structure.

    Raises:
        ValueError: a dictionary has keys without an order.

    Example:
        >>> from curta import tree
        >>> tree.flatten_with_path({"a": (1, 2)})[0]
        [((DictKey(key='a'), SequenceKey(idx=0)), 1),
         ((DictKey(key='a'), SequenceKey(idx=1)), 2)]
    """
    if is_leaf is None or is_leaf_takes_path:
        return flatten_with_path(tree, is_leaf)
    return flatten_with_path(tree, lambda path, subtree: is_leaf(subtree))


def tree_leaves_with_path(
    tree: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> list[tuple[KeyPath, Any]]:
    """The leaves with their paths.

    Args:
        tree, is_leaf, is_leaf_takes_path: as for `tree_flatten_with_path`.

    Returns:
        A list of pairs of path, a tuple of keys, and leaf.

    Raises:
        ValueError: a dictionary has keys without an order.

    Example:
        >>> from curta import tree, tree_util
        >>> [(tree_util.keystr(p), x) for p, x in tree.leaves_with_path({"a": [1, 2]})]
        [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `tree_map`, with the path as first argument of `f`.

    Args:
        f: called with a path, the leaf of `tree` there, and what each tree of `rest`
            has there.
        tree, *rest: as for `tree_map`.
        is_leaf, is_leaf_takes_path: as for `tree_flatten_with_path`.

    Returns:
        A tree of the structure of `tree`.

    Raises:
        ValueError: the structures do not fit.

    Example:
        >>> from curta import tree, tree_util
        >>> tree.map_with_path(lambda p, x: tree_util.keystr(p) + x, {"a": ["!"]})
        {'a': ["['a'][0]!"]}
    """
    items, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    stop = None if is_leaf_takes_path else is_leaf
    columns = _columns(treedef, tree, rest, stop, "tree_map_with_path tree")
    results = [f(*item, *others) for item, *others in zip(items, *columns)]
    return treedef.unflatten(results)


# ---- structures


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees with these structures.

    >>> from curta import tree_util
    >>> one, two = tree_util.tree_structure([0]), tree_util.tree_structure(0)
    >>> tree_util.treedef_tuple([one, two])
    PyTreeDef(([*], *))
    """
    result = list(treedefs)
    for treedef in result:
        if not isinstance(treedef, PyTreeDef):
            raise TypeError(f"treedef_tuple takes PyTreeDefs, got {treedef}")
    return make_treedef(tuple, None, [treedef._node for treedef in result])


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures one level below.

    >>> from curta import tree_util
    >>> tree_util.treedef_children(tree_util.tree_structure((1, [2, 3])))
    [PyTreeDef(*), PyTreeDef([*, *])]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node: a leaf, None or an empty container.

    >>> from curta import tree_util
    >>> [tree_util.treedef_is_leaf(tree_util.tree_structure(x)) for x in (1, [1])]
    [True, False]
    """
    return treedef.num_nodes == 1


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Return True if none of the values is a container.

    Example:
        >>> from curta.tree_util import all_leaves
        >>> all_leaves([1, "a"]), all_leaves([1, None])
        (True, False)
    """
    if not isinstance(iterable, Iterable):
        raise incompatible("all_leaves", "an iterable of values", iterable)
    if is_leaf is None:
        return all(kind_of(type(value)) is None for value in iterable)
    return all(flatten(value, is_leaf)[1] is LEAF.treedef for value in iterable)


def static(**kwargs: Any) -> Any:
    """``dataclasses.field`` for a field that is metadata to `register_dataclass`.

    Example:
        >>> from curta import tree
        >>> tree.static(default="relu").metadata["static"]
        True
    """
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)
