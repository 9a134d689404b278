"""Which pytree types can be stored, and how."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from curta import tree_util
from curta.tree.kinds import kind_of
from curta.tree.treedef import make_treedef


class StoredType(NamedTuple):
    """A pytree type, its name in stored functions, and its metadata as bytes."""

    type: Any
    name: str
    to_bytes: Callable[[Any], bytes]
    from_bytes: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any] | None

    def treedef(self, meta: bytes, children: Sequence[Any]) -> Any:
        """The structure of such a node over these structures."""
        data = self.from_bytes(meta)
        if self.from_children is None:
            return make_treedef(self.type, data, [c._node for c in children])
        trees = [tree_util.tree_unflatten(c, [0] * c.num_leaves) for c in children]
        return tree_util.tree_structure(self.from_children(data, trees))


_by_type: dict[Any, StoredType] = {}
_by_name: dict[str, StoredType] = {}


def stored_type(kind: type) -> StoredType | None:
    """How a pytree type is stored, if it can be."""
    return _by_type.get(kind)


def stored_node(kind: type, meta: Any) -> tuple[str, bytes]:
    """The name and the metadata of a node of a registered type; else ValueError."""
    stored = stored_type(kind)
    if stored is None:
        raise ValueError(
            f"Cannot serialize PyTreeDef with unregistered type `{kind}`. Use"
            " `export.register_pytree_node_serialization` or"
            " `export.register_namedtuple_serialization`."
        )
    return stored.name, stored.to_bytes(meta)


def checked_keys(keys: Sequence[Any]) -> list[str]:
    """The keys of a dict; TypeError if they are not strings."""
    if not all(isinstance(k, str) for k in keys):
        raise TypeError(
            "Serialization is supported only for dictionaries with string keys. Found"
            f" keys {[*keys]}."
        )
    return [*keys]


def stored_type_named(name: str) -> StoredType | None:
    """The pytree type stored under a name, if there is one."""
    return _by_name.get(name)


def register_pytree_node_serialization(
    nodetype: Any,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> Any:
    """Let functions of pytrees of a type of your own be stored.

    Args:
      nodetype: the type, registered with `tree_util`.
      serialized_name: its name in stored functions.
      serialize_auxdata, deserialize_auxdata: its metadata to bytes, and back.
      from_children: makes a node of metadata and children; by default as it is
        registered with `tree_util`.

    Returns:
      The type.

    Raises:
      ValueError: for a type or a name that is registered already, and a type that
        `tree_util` does not know, without `from_children`.

    >>> import curta
    >>> from curta import export
    >>> @curta.tree_util.register_pytree_node_class
    ... class Named:
    ...     def __init__(self, x, name):
    ...         self.x, self.name = x, name
    ...     def tree_flatten(self):
    ...         return (self.x,), self.name
    ...     @classmethod
    ...     def tree_unflatten(cls, name, children):
    ...         return cls(*children, name)
    >>> _ = export.register_pytree_node_serialization(
    ...     Named, serialized_name="Named",
    ...     serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode)
    >>> double = curta.jit(lambda n: Named(2 * n.x, n.name))
    >>> stored = export.export(double)(Named(1.0, "a")).serialize()
    >>> export.deserialize(stored).call(Named(4.0, "a")).x
    Array(8., dtype=float32, weak_type=True)
    """
    if nodetype in _by_type:
        raise ValueError(
            f"Duplicate serialization registration for type `{nodetype}`. Previous"
            f" registration was with serialized_name `{_by_type[nodetype].name}`."
        )
    if serialized_name in _by_name:
        raise ValueError(
            "Duplicate serialization registration for serialized_name"
            f" `{serialized_name}`. Previous registration was for type"
            f" `{_by_name[serialized_name].type}`."
        )
    if from_children is None and kind_of(nodetype) is None:
        raise ValueError(
            "If `from_children` is not present, you must call first"
            f" `jax.tree_util.register_pytree_node` for `{nodetype}`"
        )
    result = StoredType(
        nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children
    )
    _by_type[nodetype] = _by_name[serialized_name] = result
    return nodetype


def register_namedtuple_serialization(nodetype: Any, *, serialized_name: str) -> Any:
    """Let functions of trees with named tuples of a type be stored.

    Args:
      nodetype: a subclass of `tuple` made by `NamedTuple` or `namedtuple`.
      serialized_name: its name in stored functions.

    Returns:
      The type. Raises ValueError for other types, and for a type or a name that is
      registered already.

    >>> from typing import Any, NamedTuple
    >>> from curta import export
    >>> class Point(NamedTuple):
    ...     x: Any
    ...     y: Any
    >>> _ = export.register_namedtuple_serialization(Point, serialized_name="Point")
    """
    fields = getattr(nodetype, "_fields", None)
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple) and fields):
        raise ValueError(
            "Use `jax.export.register_pytree_node_serialization` for types other than"
            " `collections.namedtuple`."
        )

    def to_bytes(meta: Any) -> bytes:
        return json.dumps(fields).encode()

    def check_fields(stored: bytes) -> None:
        if tuple(json.loads(stored)) != fields:
            raise ValueError(
                f"the stored function has a named tuple {serialized_name} with the"
                f" fields {json.loads(stored)}, but {nodetype} has {fields}"
            )

    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=to_bytes,
        deserialize_auxdata=check_fields,
        from_children=lambda meta, children: nodetype(*children),
    )


def _keys_to_bytes(keys: Any) -> bytes:
    if not all(isinstance(k, str) for k in keys):
        raise NotImplementedError(
            "Serialization of collections.OrderedDict is supported only when the keys"
            f" are strings. Found keys: {keys}."
        )
    return json.dumps([*keys]).encode()


register_pytree_node_serialization(
    OrderedDict,
    serialized_name="OrderedDict",
    serialize_auxdata=_keys_to_bytes,
    deserialize_auxdata=lambda stored: tuple(json.loads(stored)),
    from_children=lambda keys, children: OrderedDict(zip(keys, children)),
)
