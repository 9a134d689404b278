"""Generated functions that flatten trees of one structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curta.tree.treedef import Node

# Nodes of the largest structure that is taken apart by a function of its own.
_MOST_NODES = 2000


def flatten_function(
    root: Node, flatteners: Mapping[type, Any] | None
) -> Callable[[Any, list[Any]], bool] | None:
    """Return a function that appends the leaves of a tree of this structure.

    Without `flatteners` leaves may be trees. For a class with (*, [*, None]) it becomes

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
    table = None if flatteners is None else name(flatteners)
    lines, below = list[str](), dict[str, list[str]]()
    level, count = [(root, "t0")], 1
    while level:
        following: list[tuple[Node, str]] = []
        for node, tree in level:
            if node.kind is None:
                if table is not None:
                    lines.append(f"if {table}[type({tree})] is not None: return False")
                continue
            if node is not root or table is None:
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
