"""Structures that come again: trees of registered classes taken apart by own functions.

Nodes of registered classes are not shared as those of the built-in containers are:
their metadata is the user's. So each class remembers, weakly, of which structures its
trees were lately. One that comes again and again gets a function that takes such a tree
apart and checks, on the way, that it is one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from curta.tree.kinds import same_objects
from curta.tree.treedef import Node

_USES_BEFORE_COMPILING = 4
# Structures that a class remembers.
_MOST_RECENT = 8
# A class whose trees are of new structures so much more often than not forgets them.
_PATIENCE = 64
# Nodes of the largest structure that gets a function.
_MOST_NODES = 2000


class RecentStructures:
    """The structures of which trees of one class were lately.

    With a table of what flattens trees of a class (None for leaves), it takes trees
    apart itself.
    """

    __slots__ = ("_flatteners", "_misses", "_recent")

    def __init__(self, flatteners: Mapping[type, Any] | None = None) -> None:
        self._flatteners = flatteners
        self._recent: list[weakref.ref[Node]] = []
        self._misses = 0

    def flatten(self, tree: Any, leaves: list[Any]) -> Node | None:
        """The structure of a tree whose leaves it appends; None: take it apart."""
        for reference in self._recent:
            node = reference()
            if node is None or node.flatten is None:
                continue
            if node.flatten(tree, leaves):
                node.is_recent = True
                self._misses = 0
                return node
        return None

    def known(self, node: Node) -> Node:
        """A structure just like `node` that is remembered; `node` from now on."""
        if self._misses > _PATIENCE:
            return node
        for reference in self._recent:
            other = reference()
            if other is not None and _same_objects(node, other):
                other.uses += 1
                other.is_recent = True
                if other.uses == _USES_BEFORE_COMPILING and self._flatteners:
                    other.flatten = _flatten_function(other, self._flatteners)
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


def _same_objects(a: Node, b: Node) -> bool:
    """Whether two structures have the same objects as metadata."""
    if a is b:
        return True
    if a.kind is not b.kind or len(a.children) != len(b.children):
        return False
    return same_objects(a.meta, b.meta) and all(
        map(_same_objects, a.children, b.children)
    )


def _flatten_function(
    root: Node, flatteners: Mapping[type, Any]
) -> Callable[[Any, list[Any]], bool] | None:
    """A function written for one structure: of a class with (*, [*, None]) it becomes

    def flatten(t0, leaves):
        t0, meta = k0(t0)
        if meta is not k1 and not k2(meta, k1): return False
        t1, t2, = t0
        if k3[type(t1)] is not None: return False
        if type(t2) is not k4: return False
        ...
        leaves += (t1, t3,)
        return True

    None for structures that are too large.
    """
    if root.num_nodes > _MOST_NODES:
        return None
    names: dict[str, Any] = {}
    known: dict[int, str] = {}

    def name(value: Any) -> str:
        if id(value) not in known:
            known[id(value)] = f"k{len(names)}"
            names[known[id(value)]] = value
        return known[id(value)]

    # Level by level: what tells structures apart is often near the root.
    table, lines, below = name(flatteners), list[str](), dict[str, list[str]]()
    level, count = [(root, "t0")], 1
    while level:
        following = list[tuple[Node, str]]()
        for node, tree in level:
            if node.kind is None:
                lines.append(f"if {table}[type({tree})] is not None: return False")
                continue
            if node is not root:
                kind = name(node.kind.type)
                lines.append(f"if type({tree}) is not {kind}: return False")
            statements, children = node.kind.children_source(tree, node.meta, name)
            below[tree] = [f"t{count + i}" for i in range(len(node.children))]
            count += len(node.children)
            lines += [*statements, f"[{', '.join(below[tree])}] = {children}"]
            following += zip(node.children, below[tree], strict=True)
        level = following
    leaves = "".join([f"{x}," for x in _in_order("t0", below)])
    body = [*lines, f"leaves += ({leaves})", "return True"]
    source = "\n    ".join(["def flatten(t0, leaves):", *body])
    exec(compile(source, "<flatten>", "exec"), names)
    return _otherwise_false(names["flatten"])


def _in_order(root: str, below: Mapping[str, list[str]]) -> list[str]:
    """The names without any below them, depth first."""
    result, pending = [], [root]
    while pending:
        tree = pending.pop()
        if tree in below:
            pending += reversed(below[tree])
        else:
            result.append(tree)
    return result


def _otherwise_false(
    flatten: Callable[[Any, list[Any]], bool],
) -> Callable[[Any, list[Any]], bool]:
    """Flattening the tree in the usual way raises it, too."""

    def flatten_or_not(tree: Any, leaves: list[Any]) -> bool:
        try:
            return flatten(tree, leaves)
        except Exception:  # another number of children, say
            return False

    return flatten_or_not
