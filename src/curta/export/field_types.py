"""Whether values are what the annotations of a class say of its fields.

The rules of ops trust their parameters. Parameters that come from a file have passed no
constructor of the user's interface, so that their types are checked here.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from curta.core.dim import SymbolicDim


def check_fields(cls: type, fields: Mapping[str, Any]) -> None:
    """ValueError if a field has no value of its type."""
    for name, annotation in _annotations(cls).items():
        if name in fields and not conforms(fields[name], annotation):
            raise ValueError(f"{cls.__name__}.{name} cannot be {fields[name]!r}")


@functools.cache
def _annotations(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {k: v for k, v in hints.items() if typing.get_origin(v) is not ClassVar}


def conforms(value: Any, annotation: Any) -> bool:
    """Whether a value is of the annotated type; True if that cannot be checked."""
    if annotation is Any:
        return True
    if annotation is None or annotation is type(None):
        return value is None
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, a) for a in args)
    if origin is tuple:
        return isinstance(value, tuple) and _elements_conform(value, args)
    if origin in (frozenset, set, list):
        return isinstance(value, origin) and all(conforms(x, args[0]) for x in value)
    if origin is typing.Literal:
        return value in args
    if origin is Callable:
        return callable(value)
    if annotation is int:
        return type(value) is int or isinstance(value, SymbolicDim)
    if annotation is float:
        return type(value) in (int, float)
    if isinstance(annotation, type):
        return isinstance(value, annotation)
    return not isinstance(origin, type) or isinstance(value, origin)


def _elements_conform(value: tuple[Any, ...], args: tuple[Any, ...]) -> bool:
    if len(args) == 2 and args[1] is Ellipsis:
        return all(conforms(x, args[0]) for x in value)
    return len(value) == len(args) and all(map(conforms, value, args))
