"""Flags for the leaves of arguments, given for whole parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from curta import tree_util


def argument_flags(prefix: Any, tree: Any, function: str, name: str) -> list[bool]:
    """A flag for each leaf of `tree`, from a tree of bools that is a prefix of it.

    Containers are compared by the number of their children only, so that tuples stand
    for any container; dicts are compared with dicts by their keys.

    Raises:
      ValueError: if the argument is not a prefix.
    """
    return [*_flags(prefix, tree, f"the {name} argument to jax.{function}", name)]


def _flags(prefix: Any, tree: Any, what: str, where: str) -> Iterator[bool]:
    if isinstance(prefix, bool):
        yield from [prefix] * tree.num_leaves
        return
    one_level = tree_util.tree_structure(prefix, is_leaf=lambda x: x is not prefix)
    if tree_util.treedef_is_leaf(one_level) and one_level.num_leaves:
        raise ValueError(
            f"{what} must be a tree of bools, like a tuple-tree (made of bools and"
            f" tuples only), but {where} is {prefix!r} of type {type(prefix).__name__}"
        )
    given = one_level.flatten_up_to(prefix)
    if tree_util.treedef_is_leaf(tree) and tree.num_leaves:
        raise ValueError(
            f"{what} must form a tree prefix of the corresponding values (up to"
            f" container types), but {where} is a container while the corresponding"
            " part of the values is a leaf; use a single bool there instead"
        )
    children = tree.children()
    if len(given) != len(children):
        raise ValueError(
            f"{what} must form a tree prefix of the corresponding values (up to"
            " container types, so containers need only match in their number of"
            f" children), but {where} has {len(given)} children while the"
            f" corresponding container has {len(children)}"
        )
    kind, keys = _container(tree)
    if type(prefix) is dict and kind is dict and sorted(prefix) != list(keys):
        raise ValueError(
            f"{what} must form a tree prefix of the corresponding values, but {where}"
            f" is a dict with keys {sorted(prefix)} while the corresponding dict has"
            f" keys {list(keys)}"
        )
    for i, (part, child) in enumerate(zip(given, children, strict=True)):
        yield from _flags(part, child, what, f"{where}[{i}]")


def mirrored(tree: Any, leaves: Iterable[Any]) -> Any:
    """The leaves in lists and dicts as in `tree`, with tuples for other containers."""
    return _mirrored(tree, iter(leaves))


def _container(tree: Any) -> tuple[Any, Any]:
    """The class of a tree's container, and what it keeps beside its children."""
    kind, keys = tree.node_data() or (None, None)
    return kind, keys


def _mirrored(tree: Any, leaves: Iterator[Any]) -> Any:
    if tree_util.treedef_is_leaf(tree) and tree.num_leaves:  # None has no leaf
        return next(leaves)
    kind, keys = _container(tree)
    children = [_mirrored(child, leaves) for child in tree.children()]
    if kind is list:
        return children
    if kind is dict:
        return dict(zip(keys, children, strict=True))
    return None if kind is type(None) else tuple(children)
