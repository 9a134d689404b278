"""The interface of a built function: fields with names, and their places in memory.

Arguments and results are trees of fields, named as the user's parameters and keys are.
A leaf of rank 0 is a value, any other leaf the address of an array, row after row. The
header of C, the entry that C calls and other languages' bindings are written from these
trees; none of them looks at a pytree.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.tree_util import DictKey, GetAttrKey, SequenceKey

MAPPING, SEQUENCE, OBJECT = "mapping", "sequence", "object"

_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class"
    " compl concept const const_cast constexpr continue decltype default delete do"
    " double dynamic_cast else enum explicit export extern false float for friend goto"
    " if inline int long mutable namespace new noexcept not not_eq nullptr operator or"
    " or_eq private protected public register reinterpret_cast requires restrict return"
    " short signed sizeof static static_assert static_cast struct switch template this"
    " thread_local throw true try typedef typeid typename typeof union unsigned using"
    " virtual void volatile wchar_t while xor xor_eq".split()
)


@dataclass(frozen=True, eq=False)
class LeafField:
    """An array or a number among the arguments or the results.

    Fields:
        index: its number among the leaves of all arguments or of all results.
        path: how the user names it, as `params['w']`.
        aval: its type in the traced program.
        dtype: the NumPy dtype of its elements in memory.
        shape: its dims.
        is_read: False for an argument that the program does not read.
        in_place: for a result, the argument whose memory it takes; else None.
        is_overwritten: whether it is an argument whose memory a result takes.
    """

    index: int
    path: str
    aval: Any
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_read: bool = True
    in_place: int | None = None
    is_overwritten: bool = False

    @property
    def is_value(self) -> bool:
        """Whether it is a number, not an array."""
        return not self.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def align(self) -> int:
        """The alignment of the elements, in bytes."""
        whole = self.dtype.itemsize
        return whole // 2 if self.dtype.kind == "c" else whole


@dataclass(frozen=True, eq=False)
class Field:
    """A named child of a tree: `key` is the user's, `name` an identifier."""

    key: Any
    name: str
    value: LeafField | Tree


@dataclass(frozen=True, eq=False)
class Tree:
    """A mapping, a sequence or an object, with its fields in order."""

    kind: str
    fields: tuple[Field, ...]

    def leaves(self) -> Iterator[tuple[tuple[Field, ...], LeafField]]:
        """Yield the leaves in order, each with the fields that lead to it."""
        for field in self.fields:
            if isinstance(field.value, LeafField):
                yield (field,), field.value
            else:
                for path, leaf in field.value.leaves():
                    yield (field, *path), leaf


@dataclass(frozen=True, eq=False)
class Interface:
    """A function as its callers see it.

    Fields:
        name: begins the names of its functions and types; an identifier.
        source: the function's own name, and the file and line where it is known.
        inputs: the arguments, by parameter.
        outputs: the results. `single` says that it has one field for a result that is
            not a pytree.
        workspace: bytes of memory that a call works in; the address must be a multiple
            of 64.
        parallel: whether a call can use threads.
        weights: the type of the weights that a call takes, if they are not in the
            library; "" otherwise.
    """

    name: str
    source: str
    inputs: Tree
    outputs: Tree
    single: bool
    workspace: int
    parallel: bool
    weights: str = ""

    @cached_property
    def arguments(self) -> list[LeafField]:
        """The leaves of the arguments."""
        return [leaf for _, leaf in self.inputs.leaves()]

    @cached_property
    def results(self) -> list[LeafField]:
        """The leaves of the results."""
        return [leaf for _, leaf in self.outputs.leaves()]


# ---------------------------------------------------------------- pytrees to fields


def tree_of(paths: Sequence[tuple[Any, ...]], leaves: Sequence[LeafField]) -> Tree:
    """Return the tree of leaves with these paths of keys."""
    return _tree([(tuple(p), x) for p, x in zip(paths, leaves, strict=True)])


def _tree(items: Sequence[tuple[tuple[Any, ...], LeafField]]) -> Tree:
    groups = itertools.groupby(items, key=lambda item: item[0][0])
    fields, taken = [], set[str]()
    kind = MAPPING
    for key, group in groups:
        inner = [(path[1:], leaf) for path, leaf in group]
        value = inner[0][1] if not inner[0][0] else _tree(inner)
        shown, kind = _of_key(key)
        name = unused(identifier(_name_of(shown)), taken)
        fields.append(Field(shown, name, value))
    return Tree(kind, tuple(fields))


def _of_key(key: Any) -> tuple[Any, str]:
    """Return the user's key, and what it is a key of."""
    if isinstance(key, DictKey):
        return key.key, MAPPING
    if isinstance(key, GetAttrKey):
        return key.name, OBJECT
    if isinstance(key, SequenceKey):
        return key.idx, SEQUENCE
    return (key.key, SEQUENCE) if hasattr(key, "key") else (str(key), MAPPING)


def _name_of(key: Any) -> str:
    return f"item{key}" if isinstance(key, int) else str(key)


def identifier(text: str) -> str:
    """Return an identifier of C and C++ that is like the text.

    >>> identifier("layer 1/w"), identifier("class"), identifier("0")
    ('layer_1_w', 'class_', 'n0')
    """
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not name or name[0].isdigit():
        name = f"n{name}"
    return f"{name}_" if name in _KEYWORDS else name


def unused(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken, and take it."""
    numbered = (f"{name}_{n}" for n in itertools.count(2))
    result = next(n for n in itertools.chain([name], numbered) if n not in taken)
    taken.add(result)
    return result


def argument_paths(in_tree: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the path of each argument leaf, which begins with its parameter.

    Args:
        in_tree: the structure of `(args, kwargs)`.
        names: how the user names each leaf, as `params['w']`.
    """
    paths = _paths(in_tree)
    first: dict[tuple[Any, ...], str] = {}
    taken: set[str] = set()
    for path, name in zip(paths, names, strict=True):
        parameter = re.match(r"\w*", name)
        assert parameter is not None
        if path[:2] not in first:
            first[path[:2]] = unused(parameter[0] or "argument", taken)
    return [(DictKey(first[p[:2]]), *p[2:]) for p in paths]


def result_paths(out_tree: Any) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the path of each result leaf, and whether the result is one array."""
    paths = _paths(out_tree)
    if paths == [()]:
        return [(DictKey("result"),)], True
    return paths, False


def _paths(tree: Any) -> list[tuple[Any, ...]]:
    numbered = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [tuple(p) for p, _ in tree_util.tree_leaves_with_path(numbered)]


# ---------------------------------------------------------------- layout in memory


@dataclass(frozen=True, eq=False)
class StructLayout:
    """The bytes of a struct with natural alignment.

    Fields:
        offsets: where each leaf lies, in their order.
        size: bytes of the struct.
        align: its alignment.
    """

    offsets: tuple[int, ...]
    size: int
    align: int


def layout_of(tree: Tree, pointer: int) -> StructLayout:
    """Return the layout of a tree as a struct of C.

    Args:
        tree: the arguments or the results.
        pointer: bytes of an address.
    """
    offsets: list[int] = []
    end, align = 0, 1
    for field in tree.fields:
        value = field.value
        if isinstance(value, Tree):
            own = layout_of(value, pointer)
        else:
            size = value.nbytes if value.is_value else pointer
            own = StructLayout((0,), size, value.align if value.is_value else pointer)
        end = -(-end // own.align) * own.align
        offsets += [end + offset for offset in own.offsets]
        end, align = end + own.size, max(align, own.align)
    return StructLayout(tuple(offsets), -(-end // align) * align, align)
