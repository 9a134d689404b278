"""The classes whose instances occur as parameters of ops, by name.

A stored function names classes. Loading creates only the classes found here: ops, and
the frozen dataclasses, named tuples and enums of the same modules. None of them runs
code chosen by the stored function.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Iterator
from typing import Any

from curta._base.once import once
from curta.core.op import Op
from curta.core.user_op import UserOp

_PACKAGES = tuple(
    f"{__name__.partition('.')[0]}.{part}"
    for part in ("core", "primitives", "control", "transforms", "dtypes", "memory")
)


@once
def op_classes() -> dict[str, type[Op]]:
    """The classes of the package's own ops."""
    return {cls.__name__: cls for cls in _subclasses(Op) if _is_own(cls)}


def _subclasses(cls: type[Op]) -> Iterator[type[Op]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _is_own(cls: type) -> bool:
    return cls.__module__.startswith(_PACKAGES) and not issubclass(cls, UserOp)


@once
def parameter_classes() -> dict[str, type]:
    """The other classes of parameters, by name."""
    result: dict[str, type] = {}
    for name in sorted(n for n in list(sys.modules) if n.startswith(_PACKAGES)):
        for value in vars(sys.modules[name]).values():
            own = isinstance(value, type) and value.__module__ == name
            if own and is_parameter_class(value):
                result.setdefault(value.__name__, value)
    return result


def is_parameter_class(cls: Any) -> bool:
    """Return True if instances are plain data: dataclasses, named tuples, enums."""
    return not issubclass(cls, Op) and (
        issubclass(cls, enum.Enum)
        or (dataclasses.is_dataclass(cls) and _is_frozen(cls))
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def _is_frozen(cls: Any) -> bool:
    return bool(cls.__dataclass_params__.frozen)
