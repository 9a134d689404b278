"""`FlatTree`: the leaves of a pytree with its structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from curta import tree_util


class FlatTree:
    """The leaves `vals` of a pytree, and its structure `tree`.

    Transformations of flat values take and give it. It is iterated over, indexed and
    measured as the tuple of its leaves.

    >>> from curta.interpreters.flat_trees import flatten
    >>> flatten({"a": 1, "b": (2, 3)}).map(lambda x: 10 * x).unflatten()
    {'a': 10, 'b': (20, 30)}
    """

    __slots__ = ("tree", "vals")

    def __init__(self, vals: Sequence[Any], tree: Any):
        self.vals: tuple[Any, ...] = tuple(vals)
        self.tree: Any = tree

    def update(self, vals: Sequence[Any]) -> FlatTree:
        """Other leaves in the same structure; ValueError for another number."""
        made = FlatTree(vals, self.tree)
        if len(made) != len(self):
            raise ValueError(f"expected {len(self)} leaves, got {len(made)}")
        return made

    def map(self, fun: Callable[[Any], Any]) -> FlatTree:
        """`fun` of each leaf, in the same structure."""
        return self.update([*map(fun, self.vals)])

    def map2(self, others: Sequence[Any], fun: Callable[[Any, Any], Any]) -> FlatTree:
        """`fun` of each leaf and its partner, in the same structure."""
        if len(others) != len(self):
            raise ValueError(f"expected {len(self)} leaves, got {len(others)}")
        return self.update([*map(fun, self.vals, others)])

    def unzip2(self) -> tuple[FlatTree, FlatTree]:
        """The first and the second parts of leaves that are pairs."""
        return self.map(lambda pair: pair[0]), self.map(lambda pair: pair[1])

    def unflatten(self) -> Any:
        """The pytree."""
        return tree_util.tree_unflatten(self.tree, self.vals)

    def __len__(self) -> int:
        return len(self.vals)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.vals)

    def __getitem__(self, i: Any) -> Any:
        return self.vals[i]

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, FlatTree) and self.tree == other.tree
        return same and self.vals == other.vals  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.vals, self.tree))

    def __repr__(self) -> str:
        return f"Pytree(vals={[*self.vals]}, tree={self.tree})"


def flatten(value: Any) -> FlatTree:
    """A pytree as a `FlatTree`; one that is a `FlatTree` already as it is.

    >>> from curta.interpreters.flat_trees import flatten
    >>> len(flatten([1, (2, 3)]))
    3
    """
    if isinstance(value, FlatTree):
        return value
    return FlatTree(*tree_util.tree_flatten(value))
