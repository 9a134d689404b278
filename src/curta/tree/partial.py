"""A partial application that is a tree: the bound arguments are its children."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from curta.tree.registration import register_pytree_node


class Partial(functools.partial[Any]):
    """``functools.partial`` whose bound arguments take part in transformations.

    The function itself is metadata, so two partials have the same structure only if
    their functions are equal.

    Example:
        >>> import operator
        >>> from curta import tree
        >>> from curta.tree_util import Partial
        >>> double = Partial(operator.mul, 2)
        >>> double(21), tree.leaves(double)
        (42, [2])
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Partial:
        # functools would merge a partial in place of `func` with the new one, and the
        # arguments bound earlier would become leaves.
        if isinstance(func, functools.partial):
            func = _Whole(func)
        return super().__new__(cls, func, *args, **kwargs)


class _Whole:
    """A partial that is not to be taken apart; equal to the partial itself."""

    def __init__(self, partial: functools.partial[Any]) -> None:
        self._partial = partial

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._partial(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Whole):
            return self._partial == other._partial
        return self._partial == other

    def __hash__(self) -> int:
        return hash(self._partial)

    def __repr__(self) -> str:
        return repr(self._partial)


register_pytree_node(
    Partial,
    lambda partial: ((partial.args, partial.keywords), partial.func),
    lambda func, bound: Partial(func, *bound[0], **bound[1]),
)
