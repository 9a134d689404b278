"""The kinds of inner nodes: how each container is flattened and unflattened.

A kind takes a container apart into its children and its *metadata*: what besides the
children is needed to put it together again (the keys of a dict, the static fields of
a dataclass). Subclasses of a container are leaves unless registered, except
for named tuples.
"""

from __future__ import annotations

import abc
import keyword
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from curta.tree.keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

# Children paired with their keys, as functions given by users return them.
KeyedChildren = Iterable[tuple[Any, Any]]


Class = type  # kinds have an attribute of the name `type`


class Kind(abc.ABC):
    """How the tree functions flatten and unflatten one type of container."""

    __slots__ = ("type",)

    # Whether treedefs of this kind are kept for reuse. Those that hold metadata of
    # the user are not, since that would keep the metadata alive.
    shared = True

    def __init__(self, type: Class) -> None:
        self.type: Class = type

    @abc.abstractmethod
    def flatten(self, tree: Any) -> tuple[Sequence[Any], Any]:
        """The children and the metadata of a container."""

    @abc.abstractmethod
    def keys(self, tree: Any) -> Iterable[Any]:
        """The keys of the children."""

    @abc.abstractmethod
    def unflatten(self, meta: Any, children: Sequence[Any]) -> Any:
        """A container with this metadata and these children."""

    @abc.abstractmethod
    def match(self, meta: Any, arity: int, tree: Any) -> Sequence[Any]:
        """The children of `tree`, which must have the metadata and arity given.

        Raises:
            ValueError: it differs in type, arity or metadata.
        """

    @abc.abstractmethod
    def describe(self, meta: Any, children: list[str]) -> str:
        """The node as text, given its children as text."""

    def source(self, meta: Any, children: str, name: Callable[[Any], str]) -> str:
        """A Python expression for the container.

        Args:
            meta: the metadata.
            children: the names of the children, each followed by a comma.
            name: object -> its name in the expression.
        """
        return f"{name(self.unflatten)}({name(meta)}, ({children}))"

    def children_source(
        self, tree: str, meta: Any, name: Callable[[Any], str]
    ) -> tuple[list[str], str]:
        """Statements, and a Python expression for the children of a container.

        The statements return False for containers of other metadata.

        Args:
            tree: the name of the container, which is of this type.
            meta: the metadata.
            name: object -> its name in the source.
        """
        return [], tree

    def data(self, meta: Any) -> Any:
        """The metadata as `PyTreeDef.node_data` shows it."""
        return meta

    def flatten_with_keys(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        children, meta = self.flatten(tree)
        return tuple(zip(self.keys(tree), children)), meta


class NoneKind(Kind):
    __slots__ = ()

    def flatten(self, tree: None) -> tuple[Sequence[Any], Any]:
        return (), None

    def keys(self, tree: None) -> Iterable[Any]:
        return ()

    def unflatten(self, meta: None, children: Sequence[Any]) -> None:
        return None

    def match(self, meta: None, arity: int, tree: Any) -> Sequence[Any]:
        if tree is not None:
            raise ValueError(
                f"Expected None, got {tree!r}. None is a tree without leaves here; to "
                "treat it as a leaf, pass is_leaf=lambda x: x is None."
            )
        return ()

    def describe(self, meta: None, children: list[str]) -> str:
        return "None"

    def source(self, meta: Any, children: str, name: Callable[[Any], str]) -> str:
        return "None"

    def children_source(
        self, tree: str, meta: Any, name: Callable[[Any], str]
    ) -> tuple[list[str], str]:
        return [], "()"


class SequenceKind(Kind):
    """Lists and tuples."""

    __slots__ = ()

    def flatten(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return tree, None

    def keys(self, tree: Any) -> Iterable[Any]:
        return map(SequenceKey, range(len(tree)))

    def unflatten(self, meta: None, children: Sequence[Any]) -> Any:
        return self.type(children)

    def match(self, meta: None, arity: int, tree: Any) -> Sequence[Any]:
        name = self.type.__name__
        cls = type(tree)
        if cls is not self.type:
            raise ValueError(f"Expected {name}, got {tree!r}.")
        if len(tree) != arity:
            raise ValueError(
                f"{name.title()} arity mismatch: {len(tree)} != {arity}; "
                f"{name}: {tree!r}."
            )
        return tuple(tree)

    def describe(self, meta: None, children: list[str]) -> str:
        inside = ", ".join(children)
        if self.type is list:
            return f"[{inside}]"
        return f"({inside},)" if len(children) == 1 else f"({inside})"

    def source(self, meta: Any, children: str, name: Callable[[Any], str]) -> str:
        return f"[{children}]" if self.type is list else f"({children})"


class DictKind(Kind):
    """Dictionaries; the metadata is the tuple of keys in sorted order."""

    __slots__ = ()

    def flatten(self, tree: dict[Any, Any]) -> tuple[Sequence[Any], Any]:
        keys = sorted_keys(tree)
        return tuple(tree[key] for key in keys), keys

    def keys(self, tree: dict[Any, Any]) -> Iterable[Any]:
        return map(DictKey, sorted_keys(tree))

    def unflatten(self, meta: tuple[Any, ...], children: Sequence[Any]) -> Any:
        return dict(zip(meta, children))

    def match(self, meta: tuple[Any, ...], arity: int, tree: Any) -> Sequence[Any]:
        if type(tree) is not dict:
            raise ValueError(f"Expected dict, got {tree!r}.")
        if tree.keys() != set(meta):
            raise ValueError(
                f"Dict key mismatch; expected keys: {list(meta)}; present keys: "
                f"{list(sorted_keys(tree))}."
            )
        return [tree[key] for key in meta]

    def describe(self, meta: tuple[Any, ...], children: list[str]) -> str:
        items = ", ".join(f"{key!r}: {c}" for key, c in zip(meta, children))
        return f"{{{items}}}"

    def source(self, meta: Any, children: str, name: Callable[[Any], str]) -> str:
        pairs = zip(meta, children.split(","))
        items = ", ".join(f"{name(key)}: {child}" for key, child in pairs)
        return f"{{{items}}}"

    def children_source(
        self, tree: str, meta: Any, name: Callable[[Any], str]
    ) -> tuple[list[str], str]:
        values = "".join(f"{tree}[{name(key)}]," for key in meta)
        types = frozenset(map(type, meta))
        if len(types) == 1 and types <= _ALIKE:
            keys = name(frozenset(meta))
            found = (
                f"{{*map(type, {tree})}} == {name(types)} and {tree}.keys() == {keys}"
            )
        else:
            found = f"{name(same_objects)}({name(sorted_keys)}({tree}), {name(meta)})"
        return [f"if not ({found}): return False"], f"({values})"

    def data(self, meta: tuple[Any, ...]) -> Any:
        return list(meta)


def sorted_keys(tree: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(tree))
    except TypeError as error:
        raise ValueError(
            "Comparator raised exception while sorting pytree dictionary keys. The "
            f"keys of a dictionary must be comparable with each other: {list(tree)}"
        ) from error


class NamedTupleKind(Kind):
    __slots__ = ()

    def flatten(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return list(tree), None

    def keys(self, tree: Any) -> Iterable[Any]:
        return map(GetAttrKey, tree._fields)

    def unflatten(self, meta: None, children: Sequence[Any]) -> Any:
        return self.type(*children)

    def match(self, meta: None, arity: int, tree: Any) -> Sequence[Any]:
        cls = type(tree)
        if not is_namedtuple(cls):
            raise ValueError(f"Expected named tuple, got {tree!r}.")
        if cls is not self.type:
            raise ValueError(
                f"Named tuple type mismatch: expected type: {self.type}, "
                f"tuple: {tree!r}."
            )
        return tuple(tree)

    def describe(self, meta: None, children: list[str]) -> str:
        return f"CustomNode(namedtuple[{self.type.__name__}], [{', '.join(children)}])"

    def source(self, meta: Any, children: str, name: Callable[[Any], str]) -> str:
        return f"{name(self.type)}({children})"


def is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


class CustomKind(Kind):
    """A registered class.

    Args:
        type: the class.
        to_children: container -> (children, metadata).
        from_children: metadata, children -> container.
        to_keyed_children: container -> (pairs of key and child, metadata).
    """

    __slots__ = ("from_children", "to_children", "to_keyed_children")

    from_children: Any
    to_children: Any
    to_keyed_children: Any

    shared = False

    def __init__(
        self,
        type: type,
        to_children: Callable[[Any], tuple[Iterable[Any], Any]],
        from_children: Callable[[Any, Any], Any],
        to_keyed_children: Callable[[Any], tuple[KeyedChildren, Any]] | None = None,
    ) -> None:
        super().__init__(type)
        self.to_children = to_children
        self.from_children = from_children
        self.to_keyed_children = to_keyed_children

    def flatten(self, tree: Any) -> tuple[Sequence[Any], Any]:
        return _checked_pair(self.to_children(tree))

    def keys(self, tree: Any) -> Iterable[Any]:
        return (key for key, _ in self.flatten_with_keys(tree)[0])

    def flatten_with_keys(self, tree: Any) -> tuple[Sequence[tuple[Any, Any]], Any]:
        if self.to_keyed_children is not None:
            return keyed_children(self.to_keyed_children, tree)
        children, meta = self.flatten(tree)
        return [(FlattenedIndexKey(i), c) for i, c in enumerate(children)], meta

    def unflatten(self, meta: Any, children: Sequence[Any]) -> Any:
        return self.from_children(meta, children)

    def children_source(
        self, tree: str, meta: Any, name: Callable[[Any], str]
    ) -> tuple[list[str], str]:
        known, same = name(meta), name(same_objects)
        statements = [
            f"{tree}, meta = {name(self.to_children)}({tree})",
            f"if meta is not {known} and not {same}(meta, {known}): return False",
        ]
        return statements, tree

    def parts(self) -> tuple[Callable[[Any], tuple[Any, ...]], int]:
        """A function that gives children and metadata as one tuple.

        And how many items are metadata.
        """

        def parts(tree: Any) -> tuple[Any, ...]:
            children, meta = self.flatten(tree)
            return (*children, meta)

        return parts, 1

    def match(self, meta: Any, arity: int, tree: Any) -> Sequence[Any]:
        if type(tree) is not self.type:
            raise ValueError(
                f"Custom node type mismatch: expected type: {self.type}, "
                f"value: {tree!r}."
            )
        children, metadata = self.flatten(tree)
        if not same_metadata(meta, metadata):
            raise ValueError(
                f"Mismatch custom node data: {meta!r} != {metadata!r}; value: {tree!r}."
            )
        if len(children) != arity:
            raise ValueError(
                f"Custom type arity mismatch: {len(children)} != {arity}; "
                f"value: {tree!r}."
            )
        return children

    def describe(self, meta: Any, children: list[str]) -> str:
        return f"CustomNode({self.type.__name__}[{meta}], [{', '.join(children)}])"


class DataclassKind(CustomKind):
    """A registered dataclass: some fields are children, the others metadata."""

    __slots__ = ("data_fields", "meta_fields")

    data_fields: tuple[str, ...]
    meta_fields: tuple[str, ...]

    def source(self, meta: Any, children: str, name: Callable[[Any], str]) -> str:
        names = *self.data_fields, *self.meta_fields
        if not all(n.isidentifier() and not keyword.iskeyword(n) for n in names):
            return super().source(meta, children, name)
        values = [*children.split(",")[:-1], *map(name, meta)]
        pairs = zip(names, values, strict=True)
        return f"{name(self.type)}({', '.join(f'{n}={x}' for n, x in pairs)})"

    def parts(self) -> tuple[Callable[[Any], tuple[Any, ...]], int]:
        # attrgetter gives a tuple only of two names or more: the class pads it.
        names = *self.data_fields, *self.meta_fields, "__class__", "__class__"
        return operator.attrgetter(*names), len(self.meta_fields) + 2


_PLAIN = "to_iterable", "children"
_KEYED = "to_iterable_with_keys", "key_leaf_pairs"
_WANTED = (
    "The {} function for a custom PyTree node should return a ({}, aux_data) tuple"
)


def _checked_pair(
    result: Any, kind: tuple[str, str] = _PLAIN
) -> tuple[Sequence[Any], Any]:
    """What a flatten function returned, if it is a pair of children and metadata."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise ValueError(f"{_WANTED.format(*kind)}, got {result!r}")
    children, meta = result
    if type(children) is tuple or type(children) is list:
        return children, meta
    try:
        return tuple(children), meta
    except TypeError:
        raise ValueError(
            f"{_WANTED.format(*kind)} where '{kind[1]}' is iterable, got {result!r}"
        ) from None


def keyed_children(
    flatten_with_keys: Callable[[Any], Any], tree: Any
) -> tuple[Sequence[tuple[Any, Any]], Any]:
    """The pairs and the metadata that a function of a user's found in a container.

    Raises:
        ValueError: it returned something else.
    """
    pairs, meta = _checked_pair(flatten_with_keys(tree), _KEYED)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise ValueError(
                f"{_WANTED.format(*_KEYED)} where each of 'key_leaf_pairs' is a pair of"
                f" a key and a child, got {pair!r}"
            )
    return pairs, meta


def same_metadata(a: Any, b: Any) -> bool:
    """Return True if two nodes of one kind agree in their metadata."""
    try:
        return a is b or bool(a == b)
    except Exception as error:
        raise ValueError(
            "Exception raised while checking equality of metadata fields of pytree. "
            "Metadata has to be hashable and comparable with ==; arrays are neither "
            "and belong among the children."
        ) from error


_ALIKE = frozenset((str, bytes, int, bool, type(None)))


def same_objects(a: Any, b: Any) -> bool:
    """Return True if two pieces of metadata are interchangeable.

    That is less than equality: 1, 1.0 and True are equal.
    """
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is tuple:
        return len(a) == len(b) and all(map(same_objects, a, b))
    return kind in _ALIKE and a == b


# ---- which types are nodes

_kinds: dict[type, Kind] = {
    kind.type: kind
    for kind in (
        NoneKind(type(None)),
        SequenceKind(tuple),
        SequenceKind(list),
        DictKind(dict),
    )
}
_namedtuple_kinds: dict[type, Kind] = {}


def kind_of(cls: type) -> Kind | None:
    """The kind of containers of class `cls`, or None if they are leaves."""
    kind = _kinds.get(cls) or _namedtuple_kinds.get(cls)
    if kind is None and is_namedtuple(cls):
        kind = _namedtuple_kinds[cls] = NamedTupleKind(cls)
    return kind


def add_kind(kind: Kind, what: str = "custom") -> None:
    """Make a class a container.

    Raises:
        ValueError: it already is.
    """
    if kind.type in _kinds:
        raise ValueError(
            f"Duplicate {what} PyTreeDef type registration for {kind.type}."
        )
    _kinds[kind.type] = kind
