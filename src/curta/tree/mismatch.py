"""Saying how the structures of two trees differ."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from curta._base.on_demand import late
from curta.tree.flatten import IsLeaf, flatten, flatten_one_level_with_keys
from curta.tree.keys import KeyPath, keystr
from curta.tree.kinds import same_metadata
from curta.tree.treedef import LEAF, PyTreeDef

difflib: late = late("difflib")

# The name of the prefix tree (say "vmap in_axes") -> the error.
MakeError = Callable[[str], ValueError]


def prefix_errors(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None
) -> list[MakeError]:
    """The reasons why `prefix_tree` is not a prefix of `full_tree`.

    Args:
        prefix_tree, full_tree: the trees.
        is_leaf: as for `tree_map`, of `prefix_tree`.

    Returns:
        A list, empty for a prefix. Each entry is a function from the name of the prefix
        tree, as users know it, to a ``ValueError`` to raise.

    Raises:
        ValueError: a dictionary has keys without an order.

    Example:
        >>> from curta.tree_util import prefix_errors
        >>> [error] = prefix_errors({"a": (1, 2)}, {"a": (1, 2, 3)})
        >>> print(error("in_axes"))
        pytree structure error: different lengths of tuple at key path
            in_axes['a']
        At that key path, the prefix pytree in_axes has a tuple of length 2, but ...
    """
    return list(_prefix_errors((), prefix_tree, full_tree, is_leaf))


def _is_leaf(tree: Any, is_leaf: IsLeaf | None) -> bool:
    return flatten(tree, is_leaf)[1] is LEAF.treedef


def _prefix_errors(
    path: KeyPath, prefix: Any, full: Any, is_leaf: IsLeaf | None
) -> Iterator[MakeError]:
    if _is_leaf(prefix, is_leaf):
        return
    if type(prefix) is not type(full):
        yield _error(
            "different types",
            path,
            f"a subtree of type\n    {type(prefix)}",
            f"the full pytree has a subtree of different type\n    {type(full)}.",
        )
        return
    if _have_other_keys(prefix, full):
        yield _keys_error(path, prefix, full)
        return
    prefix_items, prefix_meta = flatten_one_level_with_keys(prefix)
    full_items, full_meta = flatten_one_level_with_keys(full)
    prefix_items, full_items = tuple(prefix_items), tuple(full_items)
    if len(prefix_items) != len(full_items):
        yield _arity_error(path, type(prefix), prefix_items, full_items)
    elif not same_metadata(prefix_meta, full_meta):
        yield _metadata_error(path, type(prefix), prefix_meta, full_meta)
    else:
        for (key, a), (_, b) in zip(prefix_items, full_items):
            yield from _prefix_errors((*path, key), a, b, is_leaf)


def _error(what: str, path: KeyPath, prefix: str, full: str) -> MakeError:
    return lambda name: ValueError(
        f"pytree structure error: {what} at key path\n    {name}{keystr(path)}\n"
        f"At that key path, the prefix pytree {name} has {prefix}\n"
        f"but at the same key path {full}"
    )


def _arity_error(path: KeyPath, cls: type, prefix: Any, full: Any) -> MakeError:
    if issubclass(cls, (list, tuple)):
        kind = cls.__name__
        return lambda name: ValueError(
            f"pytree structure error: different lengths of {kind} at key path\n"
            f"    {name}{keystr(path)}\n"
            f"At that key path, the prefix pytree {name} has a {kind} of length "
            f"{len(prefix)}, but the full pytree has a {kind} of length {len(full)}."
        )
    keys = [[_entry(key) for key, _ in items] for items in (prefix, full)]
    only_one = sorted(set(keys[0]) ^ set(keys[1]))
    return _error(
        "different numbers of pytree children",
        path,
        f"a subtree of type\n    {cls}\n"
        f"with {len(prefix)} child keys\n    {' '.join(keys[0])}",
        f"the full pytree has {len(full)} child keys\n    {' '.join(keys[1])}\n"
        f"so the symmetric difference on key sets is\n    {' '.join(only_one)}",
    )


def _metadata_error(path: KeyPath, cls: type, prefix: Any, full: Any) -> MakeError:
    lines = difflib.ndiff(str(prefix).splitlines(), str(full).splitlines())
    return _error(
        "different pytree metadata",
        path,
        f"a subtree of type\n    {cls}\nwith metadata\n    {prefix}",
        "the full pytree has a subtree of the same type but with metadata\n"
        f"    {full}\nso the diff in the metadata at these pytree nodes is\n"
        + textwrap.indent("\n".join(lines), "    "),
    )


def _keys_error(path: KeyPath, one: Any, other: Any) -> MakeError:
    kind = type(one).__name__
    return lambda name: ValueError(
        f"pytree structure error: different keys of {kind} at key path\n"
        f"    {name}{keystr(path)}\nAt that key path, "
        + _only(f"the prefix pytree {name}", "the full pytree", one, other)
        + "."
    )


def _have_other_keys(one: Any, other: Any) -> bool:
    """Return True for two dicts of one type whose keys differ."""
    return isinstance(one, dict) and one.keys() != other.keys()


def _only(name: str, other_name: str, one: Any, other: Any) -> str:
    """Which keys only one of two dicts has."""
    only = {name: one.keys() - other.keys(), other_name: other.keys() - one.keys()}
    return " and ".join(
        f"only {name} has {', '.join(sorted(map(repr, keys)))}"
        for name, keys in only.items()
        if keys
    )


def _entry(key: Any) -> str:
    return keystr((key,), simple=True)


# ---- two trees that should have been equal in structure


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: IsLeaf | None = None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """The paths where the structures of two trees differ.

    Args:
        tree1, tree2: the trees.
        is_leaf: as for `tree_map`, of both.

    Yields:
        The path, what the first tree has there, what the second has there, and why
        that is a difference.

    Raises:
        ValueError: a dictionary has keys without an order.

    Example:
        >>> from curta.tree_util import equality_errors
        >>> list(equality_errors([1, (2,)], [1, (2, 3)]))
        [((SequenceKey(idx=1),), 'tuple of length 1', 'tuple of length 2',
          'the lengths do not match')]
    """
    return _equality_errors((), tree1, tree2, is_leaf)


def equality_errors_pytreedef(
    tree1: PyTreeDef, tree2: PyTreeDef
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Like `equality_errors`, for two structures.

    >>> from curta.tree_util import equality_errors_pytreedef, tree_structure
    >>> one, other = tree_structure([1, 2]), tree_structure([1])
    >>> [why for *_, why in equality_errors_pytreedef(one, other)]
    ['the lengths do not match']
    """
    return equality_errors(
        tree1.unflatten([_leaf] * tree1.num_leaves),
        tree2.unflatten([_leaf] * tree2.num_leaves),
    )


def first_difference(expected: PyTreeDef, got: PyTreeDef) -> str:
    """Where two structures first differ, as a clause that follows them in a message."""
    for path, one, other, why in equality_errors_pytreedef(expected, got):
        at = f" at {keystr(path)}" if path else ""
        return f"; the first has {one}{at}, the second {other}: {why}"
    return ""


class _UnknownLeaf:
    """Stands for a leaf of which nothing is known."""


_leaf = _UnknownLeaf()


def _type_name(tree: Any) -> str:
    if tree is _leaf:
        return "pytree leaf"
    short = getattr(getattr(tree, "aval", tree), "str_short", None)
    return f"{short()} array" if callable(short) else str(type(tree))


def _equality_errors(
    path: KeyPath, tree1: Any, tree2: Any, is_leaf: IsLeaf | None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    if _is_leaf(tree1, is_leaf) and _is_leaf(tree2, is_leaf):
        return
    cls = type(tree1)
    if cls is not type(tree2):
        names = _type_name(tree1), _type_name(tree2)
        yield path, *names, "their Python types differ"
        return
    if _have_other_keys(tree1, tree2):
        listed = [", ".join(map(repr, t)) for t in (tree1, tree2)]
        one, other = (f"{cls} with keys {keys}" for keys in listed)
        yield path, one, other, _only("the former", "the latter", tree1, tree2)
        return
    items1, meta1 = flatten_one_level_with_keys(tree1)
    items2, meta2 = flatten_one_level_with_keys(tree2)
    items1, items2 = tuple(items1), tuple(items2)
    if len(items1) != len(items2):
        yield path, *_arity_difference(cls, items1, items2)
    elif not same_metadata(meta1, meta2):
        yield (
            path,
            f"{cls} with pytree metadata {meta1}",
            f"{cls} with pytree metadata {meta2}",
            "the pytree node metadata does not match",
        )
    else:
        for (key, a), (_, b) in zip(items1, items2):
            yield from _equality_errors((*path, key), a, b, is_leaf)


def _arity_difference(cls: type, items1: Any, items2: Any) -> tuple[str, str, str]:
    n, m = len(items1), len(items2)
    if issubclass(cls, (list, tuple)):
        kind = cls.__name__
        lengths = f"{kind} of length {n}", f"{kind} of length {m}"
        return *lengths, "the lengths do not match"
    only_one = {key for key, _ in items1} ^ {key for key, _ in items2}
    listed = " ".join(repr(getattr(key, "key", key)) for key in only_one)
    return (
        f"{cls} with {n} child{'ren' if n > 1 else ''}",
        f"{cls} with {m} child{'ren' if m > 1 else ''}",
        "the numbers of children do not match, with the symmetric difference of key "
        f"sets: {{{listed}}}",
    )
