"""Name stacks: the scopes and transformations that an eqn was recorded in."""

from __future__ import annotations

import posixpath
from typing import Any

from curta._base.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Scope:
    """A part of a program that was given a name."""

    name: str

    def wrap(self, inner: list[str]) -> list[str]:
        """The names around what `inner` names, outermost first."""
        return [self.name, *inner]


@dataclass(frozen=True)
class Transform:
    """A transformation that what follows in the stack went through."""

    name: str

    def wrap(self, inner: list[str]) -> list[str]:
        """As `Scope.wrap`: around the outermost name."""
        first, rest = (inner[0], inner[1:]) if inner else ("", [])
        return [f"{self.name}({first})", *rest]


@dataclass(frozen=True)
class Notes:
    """What XLA is told of the eqns that are recorded within; no part of the path.

    Each is a name and a value; None takes back what was said around.
    """

    entries: tuple[tuple[str, Any], ...]

    def wrap(self, inner: list[str]) -> list[str]:
        """As `Scope.wrap`: nothing is around."""
        return inner


@dataclass(frozen=True)
class MeshFrame:
    """The mesh that came in scope, for the eqns within; no part of the path."""

    mesh: Any

    def wrap(self, inner: list[str]) -> list[str]:
        """As `Scope.wrap`: nothing is around."""
        return inner


Entry = Scope | Transform | Notes | MeshFrame


class NameStack:
    """Scopes and transformations, outermost first.

    Printed as a path whose names tell the transformations they went through:

    >>> from curta.core.name_stack import NameStack
    >>> print(NameStack().extend("model").transform("vmap").extend("layer"))
    model/vmap(layer)
    """

    __slots__ = ("stack",)

    def __init__(self, stack: tuple[Entry, ...] = ()):
        self.stack: tuple[Entry, ...] = stack

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NameStack) and self.stack == other.stack

    def __hash__(self) -> int:
        return hash(self.stack)

    def __repr__(self) -> str:
        return f"NameStack({str(self)!r})"

    def extend(self, name: str) -> NameStack:
        """With a scope inside."""
        return NameStack((*self.stack, Scope(name)))

    def transform(self, transform_name: str) -> NameStack:
        """With a transformation of what will be inside."""
        return NameStack((*self.stack, Transform(transform_name)))

    def settled(self) -> NameStack:
        """The same path, none of whose transformations wraps what will be inside."""
        return EMPTY.extend(str(self)) if self.stack else self

    def annotate(self, entries: tuple[tuple[str, Any], ...]) -> NameStack:
        """With notes for XLA on what will be inside."""
        return NameStack((*self.stack, Notes(entries)))

    def on(self, mesh: Any) -> NameStack:
        """With a mesh that is in scope of what will be inside."""
        return NameStack((*self.stack, MeshFrame(mesh)))

    @property
    def mesh(self) -> Any:
        """The mesh that came in scope last; None if it is that of outside."""
        for entry in reversed(self.stack):
            if isinstance(entry, MeshFrame):
                return entry.mesh
        return None

    @property
    def notes(self) -> dict[str, Any]:
        """What XLA is told of what is inside, by name."""
        result: dict[str, Any] = {}
        for entry in self.stack:
            if isinstance(entry, Notes):
                result.update(entry.entries)
        return {name: value for name, value in result.items() if value is not None}

    def __getitem__(self, part: slice) -> NameStack:
        return NameStack(self.stack[part])

    def __len__(self) -> int:
        return len(self.stack)

    def __add__(self, inner: NameStack) -> NameStack:
        if not (self.stack and inner.stack):
            return self if self.stack else inner
        return NameStack(self.stack + inner.stack)

    def __str__(self) -> str:
        names: list[str] = []
        for entry in reversed(self.stack):
            names = entry.wrap(names)
        return "/".join(names)


def shown_path(path: NameStack) -> str:
    """The text of a path, in which `..` leads out of a scope.

    >>> shown_path(NameStack().extend("while").extend("body").extend("../body_pred"))
    'while/body_pred'
    """
    text = str(path)
    return posixpath.normpath(text) if "/../" in text else text


EMPTY = NameStack()


def new_name_stack(name: str = "") -> NameStack:
    """A stack of one scope, or of none.

    >>> from curta.extend import source_info_util
    >>> str(source_info_util.new_name_stack("layer"))
    'layer'
    """
    return EMPTY.extend(name) if name else EMPTY
