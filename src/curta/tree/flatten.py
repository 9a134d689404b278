"""Taking trees apart: leaves in order of a depth-first walk, and the structure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from types import GeneratorType
from typing import Any

from curta._base.user_warnings import warn
from curta.tree.keys import KeyPath
from curta.tree.kinds import DictKind, Kind, NoneKind, kind_of, sorted_keys
from curta.tree.structures import RecentStructures
from curta.tree.treedef import (
    LEAF,
    Node,
    PyTreeDef,
    find_shared_node,
    incompatible,
    make_node,
)

IsLeaf = Callable[[Any], bool]
IsLeafWithPath = Callable[[KeyPath, Any], bool]


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree and its structure; see `curta.tree.flatten`.

    >>> from curta import tree
    >>> tree.flatten({"b": [1, None], "a": (2, 3)})
    ([2, 3, 1], PyTreeDef({'a': (*, *), 'b': [*, None]}))
    """
    leaves: list[Any] = []
    if is_leaf is not None:
        if not callable(is_leaf):
            raise incompatible("flatten", "a function is_leaf", is_leaf)
        try:
            return leaves, _known(_flatten_until(tree, leaves, is_leaf)).treedef
        except RecursionError:
            leaves = []
            return leaves, _walk(tree, leaves, _opened_until(is_leaf)).treedef
    flatten_one = _flatteners[type(tree)]
    if flatten_one is None:
        return [tree], LEAF.treedef
    try:
        return leaves, flatten_one(tree, leaves).treedef
    except RecursionError:  # nested deeper than Python calls
        leaves = []
        return leaves, _walk(tree, leaves, _opened).treedef


def flatten_with_path(
    tree: Any, is_leaf: IsLeafWithPath | None = None
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Like `flatten`, with every leaf paired with its path."""
    pairs: list[tuple[Any, Any]] = []
    structure = _walk((None, tree), pairs, _opened_with_path(is_leaf)).treedef
    return [(_path(link), leaf) for link, leaf in pairs], structure


def flatten_one_level(tree: Any) -> tuple[Sequence[Any], Any]:
    """The children and the metadata of a container.

    Raises:
        ValueError: `tree` is a leaf.

    Example:
        >>> from curta.tree_util import flatten_one_level
        >>> flatten_one_level({"b": [1, 2], "a": 0})
        ((0, [1, 2]), ('a', 'b'))
    """
    return _kind_of_node(tree).flatten(tree)


def flatten_one_level_with_keys(tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
    """Like `flatten_one_level`, with every child paired with its key.

    >>> from curta.tree_util import flatten_one_level_with_keys
    >>> flatten_one_level_with_keys([7, (8, 9)])
    (((SequenceKey(idx=0), 7), (SequenceKey(idx=1), (8, 9))), None)
    """
    return _kind_of_node(tree).flatten_with_keys(tree)


# Leaves, in JAX since 0.10.1, too, though the program probably meant their elements.
_NONE: dict[Any, Any] = {}
_ITERATORS: frozenset[type] = frozenset(
    [
        *(GeneratorType, zip, map, filter, enumerate),
        *(type(_NONE.values()), type(OrderedDict(_NONE).values())),
        *(type(iter(x)) for x in (_NONE, _NONE.values(), _NONE.items())),
        *(type(iter(kind())) for kind in (list, tuple, set)),
    ]
)


def _warn_of_iterator(cls: type) -> None:
    warn(
        f"Python iterable type {cls.__name__!r} is treated as a leaf in PyTree. Use"
        " is_leaf to suppress this warning if you want this behavior. In a future"
        " version of JAX, this will become an error. A list of its elements is a tree.",
        DeprecationWarning,
    )


def _flatten_iterator(tree: Any, leaves: list[Any]) -> Node:
    _warn_of_iterator(type(tree))
    leaves.append(tree)
    return LEAF


def _kind(tree: Any) -> Kind | None:
    """The kind of a container; None for leaves."""
    kind = kind_of(type(tree))
    if kind is None and type(tree) in _ITERATORS:
        _warn_of_iterator(type(tree))
    return kind


def forget_type(cls: type) -> None:
    """Clear the cached flatteners of `cls`, because it was registered."""
    for flatteners in (_flatteners, _flatteners_within):
        flatteners.pop(cls, None)


def _kind_of_node(tree: Any) -> Kind:
    kind = kind_of(type(tree))
    if kind is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    return kind


# ---- the fast walk: one function per type, found by one look-up

Flattener = Callable[[Any, list[Any]], Node]


class _Flatteners(dict[type, Flattener | None]):
    """Type -> the function that flattens it, or None for leaves.

    Within a tree of a registered class it is of what is below: the structure of the
    whole is remembered, and no other.
    """

    def __init__(self, within: _Flatteners | None = None) -> None:
        self._within = within

    def __missing__(self, cls: type) -> Flattener | None:
        kind = kind_of(cls)
        flattener: Flattener | None = None
        if kind is not None:
            flattener = self._flattener(kind)
        elif cls in _ITERATORS:
            flattener = _flatten_iterator
        self[cls] = flattener
        return flattener

    def _flattener(self, kind: Kind) -> Flattener:
        if isinstance(kind, NoneKind):
            empty = make_node(kind, None, ())
            return lambda tree, leaves: empty
        if isinstance(kind, DictKind):
            return _dict_flattener(kind, self)
        if kind.shared:
            return _sequence_flattener(kind, self)
        if self._within is None:
            return _custom_flattener(kind, self)
        return _remembering_flattener(kind, self._within)


_flatteners_within = _Flatteners()
_flatteners = _Flatteners(_flatteners_within)


def _children(
    values: Iterable[Any], leaves: list[Any], flatteners: _Flatteners
) -> tuple[Node, ...]:
    nodes = []
    for value in values:
        flatten_one = flatteners[type(value)]
        if flatten_one is None:
            leaves.append(value)
            nodes.append(LEAF)
        else:
            nodes.append(flatten_one(value, leaves))
    return tuple(nodes)


def _sequence_flattener(kind: Kind, flatteners: _Flatteners) -> Flattener:
    def flatten_sequence(tree: Any, leaves: list[Any]) -> Node:
        children = _children(tree, leaves, flatteners)
        key = (kind, None, children)
        return find_shared_node(key) or make_node(*key)

    return flatten_sequence


_EXACT_STRINGS = frozenset((str,))


def _dict_flattener(kind: Kind, flatteners: _Flatteners) -> Flattener:
    # Keys as inserted, all strings -> keys in sorted order, and whether they were.
    layouts: dict[tuple[str, ...], tuple[tuple[str, ...], bool]] = {}

    def flatten_dict(tree: dict[Any, Any], leaves: list[Any]) -> Node:
        present = tuple(tree)
        layout = layouts.get(present)
        exact = _EXACT_STRINGS.issuperset(map(type, present))  # subclasses are equal
        if layout is None or not exact:
            keys = sorted_keys(tree)
            if not exact:
                ordered = [tree[key] for key in keys]
                children = _children(ordered, leaves, flatteners)
                return make_node(kind, keys, children)
            if len(layouts) > 10_000:
                layouts.clear()
            layout = layouts[present] = keys, keys == present
        keys, in_order = layout
        values = tree.values() if in_order else [tree[key] for key in keys]
        key = kind, keys, _children(values, leaves, flatteners)
        return find_shared_node(key) or make_node(*key)

    return flatten_dict


def _custom_flattener(kind: Kind, flatteners: _Flatteners) -> Flattener:
    def flatten_custom(tree: Any, leaves: list[Any]) -> Node:
        children, meta = kind.flatten(tree)
        return make_node(kind, meta, _children(children, leaves, flatteners))

    return flatten_custom


def _remembering_flattener(kind: Kind, flatteners: _Flatteners) -> Flattener:
    flatten_custom = _custom_flattener(kind, flatteners)
    recent = RecentStructures(_flatteners)

    def flatten_remembering(tree: Any, leaves: list[Any]) -> Node:
        node = recent.flatten(tree, leaves)
        return recent.known(flatten_custom(tree, leaves)) if node is None else node

    return flatten_remembering


# ---- the walk that asks at every node


def _flatten_until(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> Node:
    if is_leaf(tree) or _flatteners[type(tree)] is None:
        leaves.append(tree)
        return LEAF
    return _flatten_inside(tree, leaves, is_leaf)


def _flatten_inside(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> Node:
    """The structure of what is not a leaf itself."""
    kind = _kind(tree)
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, meta = kind.flatten(tree)
    nodes = []
    for child in children:
        if is_leaf(child) or _flatteners[type(child)] is None:
            leaves.append(child)
            nodes.append(LEAF)
        else:
            nodes.append(_flatten_inside(child, leaves, is_leaf))
    return make_node(kind, meta, tuple(nodes))


# By the class of the root.
_recent_until: dict[Kind, RecentStructures] = {}


def _known(node: Node) -> Node:
    kind = node.kind
    if kind is None or kind.shared:
        return node
    recent = _recent_until.get(kind)
    if recent is None:
        recent = _recent_until.setdefault(kind, RecentStructures())
    return recent.known(node)


# ---- the same to any depth

# A container -> its kind, its metadata, and its children; None if it is a leaf.
_Open = Callable[[Any], tuple[Kind, Any, Iterable[Any]] | None]
# Beyond this depth a tree has to be one that contains itself.
_MAX_DEPTH = 100_000


def _walk(tree: Any, leaves: list[Any], open_container: _Open) -> Node:
    root: list[Node] = []
    levels: list[Any] = [(None, None, iter((tree,)), root)]
    while levels:
        kind, meta, rest, nodes = levels[-1]
        for value in rest:
            result = open_container(value)
            if result is not None:
                levels.append((*result[:2], iter(result[2]), []))
                break
            leaves.append(value)
            nodes.append(LEAF)
        else:
            levels.pop()
            if levels:
                levels[-1][3].append(make_node(kind, meta, tuple(nodes)))
        if len(levels) > _MAX_DEPTH:
            raise RecursionError(
                f"The tree is nested more than {_MAX_DEPTH:,} deep: does a container of"
                f" type {kind.type} contain itself?"
            )
    return root[0]


def _opened(tree: Any) -> tuple[Kind, Any, Iterable[Any]] | None:
    kind = _kind(tree)
    if kind is None:
        return None
    children, meta = kind.flatten(tree)
    return kind, meta, children


def _opened_until(is_leaf: IsLeaf) -> _Open:
    return lambda tree: None if is_leaf(tree) else _opened(tree)


def _opened_with_path(is_leaf: IsLeafWithPath | None) -> _Open:
    """For values paired with their paths, which are linked: parent's path and key."""

    def opened(pair: tuple[Any, Any]) -> tuple[Kind, Any, Iterable[Any]] | None:
        link, tree = pair
        stop = is_leaf is not None and is_leaf(_path(link), tree)
        kind = None if stop else _kind(tree)
        if kind is None:
            return None
        children, meta = kind.flatten_with_keys(tree)
        return kind, meta, [((link, key), child) for key, child in children]

    return opened


def _path(link: Any) -> KeyPath:
    keys = []
    while link is not None:
        link, key = link
        keys.append(key)
    return tuple(reversed(keys))
