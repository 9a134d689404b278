"""`show`: pytrees that unfold in notebooks."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from html import escape
from typing import Any

from curta import tree_util
from curta._base.on_demand import late
from curta.api.readable import sized
from curta.core.array import Array
from curta.runtime.array import ArrayImpl

treescope: Any = late("treescope")
_OPEN = 12  # children of a node, at most, that is unfolded from the beginning
_SHOWN = 60  # characters of a leaf that is no array


def show(tree: Any) -> Shown:
    """A pytree as an outline: in a notebook one that unfolds.

    Nodes say how many arrays they hold, of how many bytes; arrays unfold to their
    elements. If treescope is installed, notebooks show what it makes of the pytree.
    After `%load_ext curta.notebook`, dicts, lists and tuples of arrays are shown so by
    themselves.

    >>> import curta, curta.numpy as jnp
    >>> curta.debug.show({"w": jnp.ones((3, 4)), "layers": [jnp.ones(3), None]})
    dict: 2 arrays, 60 bytes
      ['layers'] list: 1 array, 12 bytes
        [0] float32[3]
        [1] None
      ['w'] float32[3,4]
    """
    return Shown(tree)


class Shown:
    """A pytree to be printed, or shown in a notebook; see `show`."""

    def __init__(self, tree: Any):
        self.tree = tree

    def __repr__(self) -> str:
        return "\n".join(_lines("", self.tree, 0))

    def _repr_html_(self) -> str:
        if importlib.util.find_spec("treescope") is not None:
            arrays = tree_util.tree_map(_as_numpy, self.tree)
            html: str = treescope.render_to_html(arrays)
            return html
        return f'<div style="font-family: monospace">{_html("", self.tree)}</div>'


def holds_arrays(tree: Any) -> bool:
    """Return True if a leaf of the pytree is an array."""
    return any(isinstance(x, Array) for x in tree_util.tree_leaves(tree))


def _as_numpy(x: Any) -> Any:
    """The NumPy array that treescope shows, if there is one."""
    readable = isinstance(x, ArrayImpl) and not x._is_shown_whole()
    return x.__array__() if readable else x


def _children(tree: Any) -> list[tuple[str, Any]] | None:
    """The children of a node with their keys; None for a leaf."""
    pairs, structure = tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda x: x is not tree
    )
    if tree is None or tree_util.treedef_is_leaf(structure):
        return None
    return [(tree_util.keystr(path), child) for path, child in pairs]


def _lines(key: str, tree: Any, depth: int) -> Iterator[str]:
    children = _children(tree)
    yield f"{'  ' * depth}{key} {_title(tree, children)}".replace(" ", "", not key)
    for inner, child in children or ():
        yield from _lines(inner, child, depth + 1)


def _title(tree: Any, children: list[tuple[str, Any]] | None) -> str:
    if isinstance(tree, Array):
        return tree.aval.str_short()
    if children is None:
        text = repr(tree)
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    arrays = [x for x in tree_util.tree_leaves(tree) if isinstance(x, Array)]
    size = sized(sum(x.nbytes for x in arrays))
    plural = "" if len(arrays) == 1 else "s"
    return f"{type(tree).__name__}: {len(arrays)} array{plural}, {size}"


def _html(key: str, tree: Any) -> str:
    children = _children(tree)
    line = f"{escape(key)} <b>{escape(_title(tree, children))}</b>"
    if children is not None:
        body = "".join(_html(*child) for child in children)
        opened = " open" if len(children) <= _OPEN else ""
    elif isinstance(tree, ArrayImpl):
        body, opened = tree._repr_html_(), ""
    else:
        return f"<div>{line}</div>"
    return (
        f"<details{opened}><summary>{line}</summary>"
        f'<div style="margin-left: 2ch">{body}</div></details>'
    )
