"""Registering classes as containers."""

from __future__ import annotations

import collections
import dataclasses
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from curta.tree.flatten import (
    flatten,
    flatten_one_level,
    flatten_one_level_with_keys,
    flatten_with_path,
    forget_type,
)
from curta.tree.keys import DictKey, GetAttrKey
from curta.tree.kinds import (
    CustomKind,
    DataclassKind,
    KeyedChildren,
    add_kind,
    keyed_children,
    kind_of,
)

T = TypeVar("T")
Class = TypeVar("Class", bound=type[Any])


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[KeyedChildren, Any]] | None = None,
) -> None:
    """Make instances of a class containers, whose contents are visited.

    Args:
        nodetype: the class; its subclasses are not registered with it.
        flatten_func: instance -> (children, metadata). The metadata must be hashable
            and comparable: two instances have the same structure if theirs is equal.
        unflatten_func: metadata, children -> instance. The children may be any
            objects, so it should neither check nor convert them.
        flatten_with_keys_func: instance -> (pairs of key and child, metadata), for
            paths that say more than the position.

    Returns:
        Nothing.

    Raises:
        ValueError: the class is registered already.
        TypeError: `flatten_func` or `unflatten_func` is not a function.

    Example:
        >>> from curta import tree, tree_util
        >>> class Point:
        ...     def __init__(self, x, y):
        ...         self.x, self.y = x, y
        >>> tree_util.register_pytree_node(
        ...     Point, lambda p: ((p.x, p.y), None), lambda _, xy: Point(*xy)
        ... )
        >>> tree.leaves([Point(1, 2), 3])
        [1, 2, 3]
    """
    if not (callable(flatten_func) and callable(unflatten_func)):
        raise TypeError(
            "register_node(): incompatible function arguments: flatten_func and"
            f" unflatten_func are functions, got {flatten_func} and {unflatten_func}"
        )
    add_kind(CustomKind(nodetype, flatten_func, unflatten_func, flatten_with_keys_func))
    forget_type(nodetype)


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[KeyedChildren, Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Like `register_pytree_node`, with keys first.

    Args:
        nodetype: the class; its subclasses are not registered with it.
        flatten_with_keys: instance -> (pairs of key and child, metadata).
        unflatten_func: metadata, children -> instance.
        flatten_func: instance -> (children, metadata), for speed: without it the keys
            are made and dropped again.

    Returns:
        Nothing.

    Raises:
        ValueError: the class is registered already.
        TypeError: what should be a function is none.

    >>> from curta import tree_util
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> keys = tree_util.GetAttrKey("a"), tree_util.GetAttrKey("b")
    >>> tree_util.register_pytree_with_keys(
    ...     Pair,
    ...     lambda pair: (tuple(zip(keys, (pair.a, pair.b))), None),
    ...     lambda _, children: Pair(*children),
    ... )
    >>> [str(*path) for path, _ in tree_util.tree_leaves_with_path(Pair(1, 2))]
    ['.a', '.b']
    """

    def without_keys(tree: T) -> tuple[Iterable[Any], Any]:
        try:
            pairs, meta = flatten_with_keys(tree)
            return [child for _, child in pairs], meta
        except (TypeError, ValueError):
            keyed_children(flatten_with_keys, tree)  # says what is wrong
            raise

    register_pytree_node(
        nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys
    )


def register_pytree_node_class(cls: Class) -> Class:
    """Register a class that has methods ``tree_flatten`` and ``tree_unflatten``.

    Example:
        >>> from curta import tree, tree_util
        >>> @tree_util.register_pytree_node_class
        ... class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        ...     def tree_flatten(self):
        ...         return (self.a, self.b), None
        ...     @classmethod
        ...     def tree_unflatten(cls, metadata, children):
        ...         return cls(*children)
        >>> tree.structure(Pair(1, 2))
        PyTreeDef(CustomNode(Pair[None], [*, *]))
    """
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: Class) -> Class:
    """Register a class that has ``tree_flatten_with_keys`` and ``tree_unflatten``.

    A method ``tree_flatten``, if there is one, serves where keys are not needed.

    >>> from curta import tree_util
    >>> @tree_util.register_pytree_with_keys_class
    ... class Box:
    ...     def __init__(self, inside):
    ...         self.inside = inside
    ...     def tree_flatten_with_keys(self):
    ...         return [(tree_util.GetAttrKey("inside"), self.inside)], None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> tree_util.tree_map(lambda x: x + 1, Box(1)).inside
    2
    """
    plain = hasattr(cls, "tree_flatten")
    register_pytree_with_keys(
        cls,
        operator.methodcaller("tree_flatten_with_keys"),
        cls.tree_unflatten,
        operator.methodcaller("tree_flatten") if plain else None,
    )
    return cls


def register_static(cls: Class) -> Class:
    """Register a class whose instances are containers without children.

    The instance itself is the metadata, so it must be hashable; ``jit`` traces again
    for each different one.

    Example:
        >>> from curta import tree, tree_util
        >>> @tree_util.register_static
        ... class Mode(str):
        ...     pass
        >>> tree.flatten((1, Mode("train")))
        ([1], PyTreeDef((*, CustomNode(Mode[train], []))))
    """
    register_pytree_with_keys(cls, lambda x: ((), x), lambda x, _: x)
    return cls


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Register a dataclass: some fields are children, the others metadata.

    Args:
        nodetype: a dataclass, or a class whose constructor takes its fields by name.
        data_fields: the names of the children. Without it, all fields of the
            dataclass but those declared with ``metadata={"static": True}``.
        meta_fields: the names of the metadata; given if and only if `data_fields` is.
        drop_fields: fields of the dataclass left to their defaults.

    Returns:
        `nodetype`, so that this can decorate a class.

    Raises:
        TypeError: `data_fields` or `meta_fields` is missing.
        ValueError: the fields are not those of the dataclass, or overlap.

    Example:
        >>> import dataclasses
        >>> from curta import tree, tree_util
        >>> @tree_util.register_dataclass
        ... @dataclasses.dataclass
        ... class Layer:
        ...     weight: float
        ...     bias: float
        ...     activation: str = tree.static(default="relu")
        >>> tree.map(lambda x: 2 * x, Layer(1.0, 2.0))
        Layer(weight=2.0, bias=4.0, activation='relu')
    """
    data, meta = _dataclass_fields(nodetype, data_fields, meta_fields)
    if dataclasses.is_dataclass(nodetype):
        expected = {f.name for f in dataclasses.fields(nodetype) if f.init}
        _check_fields({*data, *meta}, expected - set(drop_fields))
    if overlap := set(data) & set(meta):
        raise ValueError(
            "data_fields and meta_fields must not overlap. Overlapping fields: "
            f"{overlap}."
        )

    def to_children(tree: Any) -> tuple[list[Any], tuple[Any, ...]]:
        children = [getattr(tree, name) for name in data]
        return children, tuple([getattr(tree, name) for name in meta])

    def to_keyed_children(tree: Any) -> tuple[list[Any], tuple[Any, ...]]:
        children, values = to_children(tree)
        return list(zip(map(GetAttrKey, data), children)), values

    def from_children(values: Iterable[Any], children: Iterable[Any]) -> Any:
        return nodetype(**dict(zip(data, children)), **dict(zip(meta, values)))

    kind = DataclassKind(nodetype, to_children, from_children, to_keyed_children)
    kind.data_fields, kind.meta_fields = data, meta
    add_kind(kind, "custom dataclass")
    forget_type(nodetype)
    return nodetype


def _dataclass_fields(
    nodetype: type, data: Sequence[str] | None, meta: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if data is not None and meta is not None:
        return tuple(data), tuple(meta)
    if (data is None) != (meta is None):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified "
            f"when either is specified. Got data_fields={data} meta_fields={meta}."
        )
    if not dataclasses.is_dataclass(nodetype):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields are required when "
            f"nodetype is not a dataclass. Got {nodetype=}."
        )
    static: dict[bool, list[str]] = {False: [], True: []}
    for field in dataclasses.fields(nodetype):
        static[bool(field.metadata.get("static", False))].append(field.name)
    return tuple(static[False]), tuple(static[True])


def _check_fields(given: set[str], expected: set[str]) -> None:
    if given == expected:
        return
    text = (
        "data_fields and meta_fields must include all dataclass fields with "
        "``init=True`` and only them."
    )
    if missing := expected - given:
        text += (
            f" Missing fields: {missing}. Those left out on purpose go to drop_fields."
        )
    if unexpected := given - expected:
        text += f" Unexpected fields: {unexpected}."
    raise ValueError(text)


def is_tree_node(typ: type) -> bool:
    """Return True if instances of the class are containers, registered or built in.

    >>> from curta import tree_util
    >>> tree_util.is_tree_node(dict), tree_util.is_tree_node(set)
    (True, False)
    """
    return isinstance(typ, type) and kind_of(typ) is not None


class Registration(NamedTuple):
    """How a container is flattened and unflattened."""

    to_iter: Callable[[Any], tuple[Sequence[Any], Any]]
    from_iter: Callable[[Any, Sequence[Any]], Any]


class Registry:
    """The classes that are containers, as an object with methods."""

    flatten = staticmethod(flatten)
    flatten_with_path = staticmethod(flatten_with_path)
    flatten_one_level_with_keys = staticmethod(flatten_one_level_with_keys)
    is_node = staticmethod(is_tree_node)
    register_node = staticmethod(register_pytree_node)
    register_dataclass_node = staticmethod(register_dataclass)

    @staticmethod
    def flatten_one_level(tree: Any) -> tuple[Sequence[Any], Any] | None:
        """The children and the metadata of a container, None for a leaf."""
        return None if kind_of(type(tree)) is None else flatten_one_level(tree)

    def __contains__(self, typ: type) -> bool:
        return is_tree_node(typ)

    def __getitem__(self, typ: type) -> Registration:
        kind = kind_of(typ)
        if kind is None:
            raise KeyError(typ)
        return Registration(flatten_one_level, kind.unflatten)


default_registry: Registry = Registry()


def _keyed_by_order(tree: dict[Any, Any]) -> tuple[KeyedChildren, Any]:
    return [(DictKey(key), child) for key, child in tree.items()], tuple(tree)


def _keyed_by_sort(tree: Any) -> tuple[KeyedChildren, Any]:
    keys = tuple(sorted(tree))
    return [(DictKey(key), tree[key]) for key in keys], (tree.default_factory, keys)


register_pytree_with_keys(
    collections.OrderedDict,
    _keyed_by_order,
    lambda keys, children: collections.OrderedDict(zip(keys, children)),
)
register_pytree_with_keys(
    collections.defaultdict,
    _keyed_by_sort,
    lambda meta, children: collections.defaultdict(meta[0], zip(meta[1], children)),
)
