"""The index of saved state: what the tree is, and which files have its arrays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray

VERSION = 1
_SCALARS = (bool, int, float, complex, str)


@dataclass(frozen=True)
class ArrayPiece:
    """A part of an array: where it begins, its shape, and the file that has it."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    file: str

    def name(self, leaf: str) -> str:
        """The name of this piece in the file."""
        return f"{leaf}@{','.join(map(str, self.start))}"


@dataclass(frozen=True)
class Leaf:
    """A saved leaf: an array of some kind with its pieces, or a Python scalar."""

    name: str
    kind: str
    aval: ShapedArray | None = None
    pieces: tuple[ArrayPiece, ...] = ()
    value: Any = None


def leaf_text(leaf: Leaf) -> dict[str, Any]:
    """A leaf as the index has it."""
    if leaf.aval is None:
        value = leaf.value
        if isinstance(value, complex):
            value = [value.real, value.imag]
        return {"name": leaf.name, "kind": leaf.kind, "value": value}
    dtype = leaf.aval.dtype
    result: dict[str, Any] = {
        "name": leaf.name,
        "kind": leaf.kind,
        "shape": list(leaf.aval.shape),
        "dtype": dtype.name,
        "weak_type": leaf.aval.weak_type,
        "pieces": [[list(p.start), list(p.shape), p.file] for p in leaf.pieces],
    }
    if isinstance(dtype, dtypes.KeyDType):
        result["key"] = [dtype.tag, dtype.words, dtype.serial]
    return result


def leaf_of(text: dict[str, Any]) -> Leaf:
    """The leaf that an index has as `text`."""
    name, kind = text["name"], text["kind"]
    if kind == "scalar":
        return Leaf(name, kind, value=text["value"])
    if kind == "complex":
        return Leaf(name, kind, value=complex(*text["value"]))
    dtype: Any
    if "key" in text:
        dtype = dtypes.KeyDType(*text["key"])
    else:
        dtype = np.dtype(text["dtype"])
    aval = ShapedArray(tuple(text["shape"]), dtype, bool(text["weak_type"]))
    pieces = tuple(ArrayPiece(tuple(a), tuple(b), str(c)) for a, b, c in text["pieces"])
    return Leaf(name, kind, aval, pieces)


def scalar_leaf(name: str, value: Any) -> Leaf | None:
    """The leaf of a Python scalar or a text; None for anything else."""
    if type(value) not in _SCALARS:
        return None
    return Leaf(name, "complex" if type(value) is complex else "scalar", value=value)


def tree_text(tree: Any) -> Any:
    """The structure of a pytree; containers of other types by the names of these."""
    data = tree.node_data()
    if data is None:
        return "leaf"
    kind, about = data
    children = [tree_text(c) for c in tree.children()]
    if kind is type(None):
        return None
    if kind in (list, tuple):
        return {kind.__name__: children}
    if kind is dict and all(type(k) in (str, int) for k in about):
        return {"dict": [[k, c] for k, c in zip(about, children, strict=True)]}
    return {"other": f"{kind.__module__}.{kind.__qualname__}"}


def tree_of(text: Any, leaves: Sequence[Any]) -> Any:
    """The pytree of a structure, with these leaves.

    Raises ValueError for containers that are not dicts, lists or tuples.
    """
    rest = iter(leaves)

    def make(text: Any) -> Any:
        if text == "leaf":
            return next(rest)
        if text is None:
            return None
        ((kind, children),) = text.items()
        if kind == "dict":
            return {k: make(c) for k, c in children}
        if kind == "other":
            raise ValueError(
                f"the saved tree has containers of the type {children}: give a tree of"
                " the same structure, a new state say: state.restore(path, like=tree)."
            )
        return {"list": list, "tuple": tuple}[kind](map(make, children))

    return make(text)


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a pytree with the paths to them."""
    result = tree_util.tree_leaves_with_path(tree)
    return [(tree_util.keystr(path), leaf) for path, leaf in result]


def index_text(step: int | None, tree: Any, leaves: Sequence[Leaf]) -> str:
    """The whole index."""
    content = {
        "format": "curta.state",
        "version": VERSION,
        "step": step,
        "tree": tree_text(tree_util.tree_structure(tree)),
        "leaves": [leaf_text(leaf) for leaf in leaves],
    }
    return json.dumps(content)
