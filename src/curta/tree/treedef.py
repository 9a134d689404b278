"""PyTreeDef: the structure of a tree, with its leaves taken out.

A treedef is made of nodes that know their kind, metadata and children. Nodes are
shared where that keeps nothing of the user's alive (lasting.py): two trees of equal
structure have the identical node, so comparing the treedefs of two calls costs nothing.
(Measured against a flatten written in C++: half the time for a dict of eight arrays,
because the structure is looked up there instead of built.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

from curta.tree.compiled import flatten_function
from curta.tree.kinds import Kind, kind_of, same_metadata, same_objects
from curta.tree.lasting import is_lasting

# A structure of which trees were put together, or taken apart, so often gets a
# function for it.
_USES_BEFORE_COMPILING = 4
# Shared nodes to keep; beyond that the table starts anew.
_MAX_SHARED = 20_000


class Node:
    """One level of a structure: a container, or a leaf where `kind` is None."""

    __slots__ = (
        "__weakref__",
        "_treedef",
        "children",
        "flatten",
        "is_recent",
        "kind",
        "meta",
        "num_leaves",
        "num_nodes",
        "shared",
        "uses",
    )

    num_leaves: int
    num_nodes: int

    def __init__(
        self, kind: Kind | None, meta: Any, children: tuple[Node, ...], shared: bool
    ) -> None:
        self.kind: Kind | None = kind
        self.meta: Any = meta
        self.children: tuple[Node, ...] = children
        self.shared: bool = shared
        leaves, nodes = 0 if kind else 1, 1
        for child in children:
            leaves += child.num_leaves
            nodes += child.num_nodes
        self.num_leaves = leaves
        self.num_nodes = nodes
        self._treedef: PyTreeDef | None = None
        # Of structures.py: how often trees were of this structure, whether one was
        # lately, and the function that takes such a tree apart.
        self.uses: int = 0
        self.is_recent: bool = False
        self.flatten: Callable[[Any, list[Any]], bool] | None = None

    @property
    def treedef(self) -> PyTreeDef:
        """The structure from here on: always the same object."""
        result = self._treedef
        if result is None:
            result = self._treedef = PyTreeDef(self)
        return result


class PyTreeDef:
    """The structure of a tree: hashable, comparable, printable, picklable.

    Example:
        >>> from curta import tree
        >>> tree.structure({"b": (1, 2), "a": 0})
        PyTreeDef({'a': *, 'b': (*, *)})
    """

    __slots__ = ("_build", "_hash", "_node", "_split", "_splits", "_uses")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._build: Callable[[Sequence[Any]], Any] | None = None
        self._uses = 0
        self._split: Callable[[Any, list[Any]], bool] | None = None
        self._splits = 0
        self._hash: int | None = None

    @property
    def num_leaves(self) -> int:
        return self._node.num_leaves

    @property
    def num_nodes(self) -> int:
        return self._node.num_nodes

    # ---- from leaves to a tree and back

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves.

        Raises:
            ValueError: there are too few leaves or too many.
        """
        values = leaves if type(leaves) in (list, tuple) else _listed(leaves)
        node = self._node
        if len(values) != node.num_leaves:  # type: ignore[arg-type]
            raise _wrong_count(node.num_leaves, len(values))  # type: ignore[arg-type]
        if self._build is not None:
            return self._build(values)  # type: ignore[arg-type]
        self._uses += 1
        if self._uses == _USES_BEFORE_COMPILING:
            self._build = _compile_build(node)
        try:
            return _build(node, iter(values))
        except RecursionError:  # nested deeper than Python calls
            return fold(node, iter(values).__next__, _container)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of `tree` that stand where this structure has leaves.

        Raises:
            ValueError: this structure is not a prefix of the structure of `tree`.
        """
        if self._split is not None:
            subtrees: list[Any] = []
            if self._split(tree, subtrees):
                return subtrees
        self._splits += 1
        if self._splits == _USES_BEFORE_COMPILING:
            self._split = flatten_function(self._node, None)
        return _collect_subtrees(self._node, tree)

    def walk(
        self,
        f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
    ) -> Any:
        """Compute a value bottom-up.

        Args:
            f_node: children's values, metadata -> value.
            f_leaf: leaf -> value; None keeps the leaf.
            leaves: the leaves of the tree.
        """
        if not callable(f_node):
            raise incompatible("walk", "a function of nodes", f_node)
        values = iter(leaves)

        def visit_leaf() -> Any:
            leaf = next(values)
            return leaf if f_leaf is None else f_leaf(leaf)

        def visit(node: Node, below: list[Any]) -> Any:
            assert node.kind is not None
            return f_node(tuple(below), node.kind.data(node.meta))

        return fold(self._node, visit_leaf, visit)

    # ---- structure

    def children(self) -> list[PyTreeDef]:
        """The structures one level below."""
        return [child.treedef for child in self._node.children]

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with every leaf replaced by `inner`."""

        if not isinstance(inner, PyTreeDef):
            raise incompatible("compose", "a PyTreeDef", inner)

        def container(node: Node, children: list[Node]) -> Node:
            assert node.kind is not None
            return make_node(node.kind, node.meta, tuple(children))

        root: Node = fold(self._node, lambda: inner._node, container)
        return root.treedef

    def node_data(self) -> tuple[type, Any] | None:
        """The type and metadata of the root, or None for a leaf."""
        node = self._node
        if node.kind is None:
            return None
        return node.kind.type, node.kind.data(node.meta)

    @staticmethod
    def from_node_data_and_children(
        registry: Any, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """The structure with this root and these structures below it."""
        if node_data is None:
            return LEAF.treedef
        cls, meta = node_data
        return make_treedef(
            cls, tuple(meta) if cls is dict else meta, [c._node for c in children]
        )

    # ---- identity

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return _same(self._node, other._node)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = fold(self._node, lambda: _LEAF_HASH, _hash_of)
        return self._hash

    def __repr__(self) -> str:
        return f"PyTreeDef({fold(self._node, lambda: '*', _text_of)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (_portable(self._node),)


def incompatible(method: str, wanted: str, given: Any) -> TypeError:
    """The TypeError of a method for an argument of the wrong type."""
    return TypeError(
        f"{method}(): incompatible function arguments: {wanted} is expected, got"
        f" {given!r} of type {type(given)}"
    )


def _listed(leaves: Iterable[Any]) -> list[Any]:
    try:
        return list(leaves)
    except TypeError:
        if isinstance(leaves, Iterable):
            raise
        raise incompatible("unflatten", "an iterable of leaves", leaves) from None


LEAF = Node(None, None, (), shared=True)
LEAF._treedef = PyTreeDef(LEAF)  # before there are threads: it is asked for by `is`
_LEAF_HASH = hash((None, None, ()))
_shared: dict[tuple[Kind, Any, tuple[Node, ...]], Node] = {}


def make_node(kind: Kind, meta: Any, children: tuple[Node, ...]) -> Node:
    """The node, taken from those that are shared if it can be."""
    for child in children:
        if not child.shared:
            return Node(kind, meta, children, shared=False)
    key = kind, meta, children
    if not is_lasting(meta):  # asked first: its hash may be slow, or missing
        return Node(*key, shared=False)
    node = _shared.get(key)
    if node is None:
        if len(_shared) >= _MAX_SHARED:
            _shared.clear()
        node = _shared.setdefault(key, Node(*key, shared=True))
    # 1, 1.0 and True are equal as keys of a dict but not the same to look at.
    return node if same_objects(node.meta, meta) else Node(*key, shared=False)


# Finds a shared node in one look-up; its metadata must be None or exact strings.
find_shared_node: Callable[[tuple[Kind, Any, tuple[Node, ...]]], Node | None] = (
    _shared.get
)


def make_treedef(cls: type, meta: Any, children: Iterable[Node]) -> PyTreeDef:
    kind = kind_of(cls)
    if kind is None:
        raise ValueError(f"{cls} is not registered as a pytree node")
    return make_node(kind, meta, tuple(children)).treedef


# ---- walks over nodes, which may be nested deeper than Python calls


def fold(
    root: Node, leaf: Callable[[], Any], combine: Callable[[Node, list[Any]], Any]
) -> Any:
    """A value of the structure: of leaves from left to right, of nodes after them.

    Args:
        root: the structure.
        leaf: the value of the next leaf.
        combine: node, the values of its children -> its value.
    """
    backwards, pending = [], [root]
    while pending:
        node = pending.pop()
        backwards.append(node)
        pending.extend(node.children)
    values: list[Any] = []
    for node in reversed(backwards):
        if node.kind is None:
            values.append(leaf())
        else:
            start = len(values) - len(node.children)
            below = values[start:]
            del values[start:]
            values.append(combine(node, below))
    return values[0]


def _build(node: Node, leaves: Iterator[Any]) -> Any:
    kind = node.kind
    if kind is None:
        return next(leaves)
    children = [
        next(leaves) if child.kind is None else _build(child, leaves)
        for child in node.children
    ]
    return kind.unflatten(node.meta, tuple(children))


def _container(node: Node, children: list[Any]) -> Any:
    return node.kind.unflatten(node.meta, tuple(children))  # type: ignore[union-attr]


def _compile_build(root: Node) -> Callable[[Sequence[Any]], Any]:
    """A function written for one structure: ``{'a': *, 'b': (*, *)}`` becomes

    def build(leaves):
        x0, x1, x2, = leaves
        n0 = (x1,x2,)
        n1 = {k0: x0, k1: n0}
        return n1
    """
    leaves: list[str] = []
    lines: list[str] = []
    names: dict[str, Any] = {}

    def name(value: Any) -> str:
        names[f"k{len(names)}"] = value
        return f"k{len(names) - 1}"

    def leaf() -> str:
        leaves.append(f"x{len(leaves)}")
        return leaves[-1]

    def container(node: Node, children: list[str]) -> str:
        listed = "".join([f"{child}," for child in children])
        text = node.kind.source(node.meta, listed, name)  # type: ignore[union-attr]
        lines.append(f"n{len(lines)} = {text}")
        return f"n{len(lines) - 1}"

    result = fold(root, leaf, container)
    unpack = [f"{', '.join(leaves)}, = leaves"] if leaves else []
    body = [*unpack, *lines, f"return {result}"]
    exec("\n    ".join(["def build(leaves):", *body]), names)
    return names["build"]


def _collect_subtrees(root: Node, tree: Any) -> list[Any]:
    subtrees = []
    pending = [(root, tree)]
    while pending:
        node, tree = pending.pop()
        if node.kind is None:
            subtrees.append(tree)
        else:
            below = node.kind.match(node.meta, len(node.children), tree)
            pending.extend(reversed([*zip(node.children, below)]))
    return subtrees


def _same(a: Node, b: Node) -> bool:
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        if a.kind is not b.kind or len(a.children) != len(b.children):
            return False
        if not same_metadata(a.meta, b.meta):
            return False
        pending.extend(zip(a.children, b.children))
    return True


def _hash_of(node: Node, children: list[int]) -> int:
    try:
        meta = _hash_of_metadata(node.meta)
    except TypeError:  # of a list inside, say: equality has to tell these apart
        meta = 0
    return hash((node.kind, meta, tuple(children)))


def _hash_of_metadata(meta: Any) -> int:
    """Its hash, 0 for parts whose own is computed in Python.

    Of a graph of Flax's nnx, which is new metadata at every call, the hash takes longer
    than to find by comparison that it equals the one before.
    """
    of_class: Any = type(meta).__hash__
    if of_class is tuple.__hash__:
        return hash(tuple(map(_hash_of_metadata, meta)))
    return 0 if isinstance(of_class, FunctionType) else hash(meta)


def _text_of(node: Node, children: list[str]) -> str:
    return node.kind.describe(node.meta, children)  # type: ignore[union-attr]


def _wrong_count(expected: int, count: int) -> ValueError:
    if count < expected:
        return ValueError(
            f"Too few leaves for PyTreeDef; expected {expected}, got {count}"
        )
    return ValueError(f"Too many leaves for PyTreeDef; expected {expected}.")


# ---- pickling: kinds are found again by their class

_Entry = tuple[type, Any, int] | None


def _portable(root: Node) -> list[_Entry]:
    """The nodes, each after its children: class, metadata, how many children."""
    entries: list[_Entry] = []

    def container(node: Node, children: list[Any]) -> None:
        cls = node.kind.type  # type: ignore[union-attr]
        entries.append((cls, node.meta, len(children)))

    fold(root, lambda: entries.append(None), container)
    return entries


def _restore(entries: list[_Entry]) -> PyTreeDef:
    nodes: list[Node] = []
    for entry in entries:
        if entry is None:
            nodes.append(LEAF)
        else:
            cls, meta, count = entry
            start = len(nodes) - count
            nodes[start:] = [make_treedef(cls, meta, nodes[start:])._node]
    return nodes[0].treedef
