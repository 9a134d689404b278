"""Key paths: how to say where in a tree a leaf is.

A path is a tuple with one key for every level from the root to the leaf.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from curta._base.lazy_dataclass import dataclass

# Any hashable that prints as the step it stands for.
KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]


def _check(key: Any, field: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(
            f"__init__(): incompatible function arguments: {type(key).__name__}.{field}"
            f" is to be of type {kind.__name__}, got {value!r} of type {type(value)}"
        )


@dataclass(frozen=True)
class SequenceKey:
    """The index of an element of a list or tuple; prints as ``[0]``.

    >>> from curta.tree_util import SequenceKey
    >>> SequenceKey(0), str(SequenceKey(0))
    (SequenceKey(idx=0), '[0]')
    """

    idx: int

    def __post_init__(self) -> None:
        _check(self, "idx", self.idx, int)

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def __hash__(self) -> int:
        return hash((SequenceKey, self.idx))


@dataclass(frozen=True)
class DictKey:
    """A key of a dictionary; prints as ``['a']``.

    >>> from curta.tree_util import DictKey
    >>> DictKey("a"), str(DictKey("a"))
    (DictKey(key='a'), "['a']")
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def __hash__(self) -> int:
        return hash((DictKey, self.key))


@dataclass(frozen=True)
class GetAttrKey:
    """The name of an attribute; prints as ``.x``.

    >>> from curta.tree_util import GetAttrKey
    >>> GetAttrKey("x"), str(GetAttrKey("x"))
    (GetAttrKey(name='x'), '.x')
    """

    name: str

    def __post_init__(self) -> None:
        _check(self, "name", self.name, str)

    def __str__(self) -> str:
        return f".{self.name}"

    def __hash__(self) -> int:
        return hash((GetAttrKey, self.name))


@dataclass(frozen=True)
class FlattenedIndexKey:
    """The position among the children of a class that names no keys.

    >>> from curta.tree_util import FlattenedIndexKey
    >>> FlattenedIndexKey(1), str(FlattenedIndexKey(1))
    (FlattenedIndexKey(key=1), '[<flat index 1>]')
    """

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"

    def __hash__(self) -> int:
        return hash((FlattenedIndexKey, self.key))


def keystr(keys: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """A path as text.

    Args:
        keys: the keys of a path, of the classes above or any others.
        simple: write the bare index, key or name of each.
        separator: what stands between two keys; nothing by default.

    Returns:
        A string.

    Raises:
        TypeError: the path is not a sequence.

    Example:
        >>> from curta.tree_util import DictKey, SequenceKey, keystr
        >>> path = (DictKey("w"), SequenceKey(0))
        >>> keystr(path), keystr(path, simple=True, separator="/")
        ("['w'][0]", 'w/0')
    """
    return separator.join(map(_bare if simple else str, keys))


def _bare(key: Any) -> str:
    match key:
        case SequenceKey(idx=value) | GetAttrKey(name=value):
            return str(value)
        case DictKey(key=value) | FlattenedIndexKey(key=value):
            return str(value)
    return str(key)
