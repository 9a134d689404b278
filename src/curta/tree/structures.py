"""Cached tree structures, with generated functions that flatten trees of them.

Nodes of registered classes are not interned like those of built-in containers, because
their metadata belongs to the user. Instead, each class holds weak references to the
recent structures of its trees. A structure that recurs gets a generated function, which
flattens a tree and checks that it has this structure.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from curta.tree.compiled import flatten_function
from curta.tree.kinds import same_objects
from curta.tree.treedef import Node

_USES_BEFORE_COMPILING = 4
# Structures that a class remembers.
_MOST_RECENT = 8
# Sequences of structures that it remembers.
_MOST_AFTER = 64
# A class whose trees are of new structures so much more often than not forgets them.
_PATIENCE = 64


class RecentStructures:
    """The recent structures of the trees of one class.

    With a table of the flatteners of classes (None for leaves), it flattens trees
    itself.
    """

    __slots__ = ("_after", "_flatteners", "_last", "_misses", "_recent")

    def __init__(self, flatteners: Mapping[type, Any] | None = None) -> None:
        self._flatteners = flatteners
        self._recent: list[weakref.ref[Node]] = []
        self._misses = 0
        # Which structure came after two others, told by their addresses.
        self._after: dict[tuple[int, int], weakref.ref[Node]] = {}
        self._last = 0, 0

    def flatten(self, tree: Any, leaves: list[Any]) -> Node | None:
        """Append the leaves of a tree and return its structure, or None if it is
        unknown.

        Programs repeat themselves, so what came next last time is tried first.
        """
        last = self._last
        expected = self._after.get(last)
        node = None if expected is None else _taken_apart(expected, tree, leaves)
        if node is None:
            for reference in self._recent:
                if reference is expected:
                    continue
                node = _taken_apart(reference, tree, leaves)
                if node is not None:
                    break
            else:
                return None
            if len(self._after) >= _MOST_AFTER:
                self._after = {}
            self._after[last] = reference
        node.is_recent = True
        self._misses = 0
        self._last = last[1], id(node)
        return node

    def known(self, node: Node) -> Node:
        """The cached structure that equals `node`; `node` is cached if there is
        none."""
        if self._misses > _PATIENCE:
            return node
        for reference in self._recent:
            other = reference()
            if other is not None and _same_objects(node, other):
                other.uses += 1
                other.is_recent = True
                if other.uses == _USES_BEFORE_COMPILING and self._flatteners:
                    other.flatten = flatten_function(other, self._flatteners)
                self._misses = 0
                return other
        self._misses += 1
        self._recent = [weakref.ref(node), *self._second_chance()]
        return node

    def _second_chance(self) -> list[weakref.ref[Node]]:
        """The entries that survive an eviction: second-chance replacement."""
        met, others = list[weakref.ref[Node]](), list[weakref.ref[Node]]()
        for reference in self._recent:
            node = reference()
            if node is not None:
                (met if node.is_recent else others).append(reference)
                node.is_recent = False
        return [*met, *others][: _MOST_RECENT - 1]


def _taken_apart(
    reference: weakref.ref[Node], tree: Any, leaves: list[Any]
) -> Node | None:
    """The structure, if it has a function and the tree is of it."""
    node = reference()
    if node is None or node.flatten is None or not node.flatten(tree, leaves):
        return None
    return node


def _same_objects(a: Node, b: Node) -> bool:
    """Return True if two structures have the same objects as metadata."""
    if a is b:
        return True
    if a.kind is not b.kind or len(a.children) != len(b.children):
        return False
    return same_objects(a.meta, b.meta) and all(
        map(_same_objects, a.children, b.children)
    )
