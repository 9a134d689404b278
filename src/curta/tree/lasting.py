"""Metadata that may be kept for as long as the process, which keeps it anyway.

Nodes whose metadata is numbers, names, and functions or constants of modules are shared
by all trees of their structure. Other metadata is the user's and may be large:
closures, arrays, objects made in a call.
"""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakSet

_VALUES = frozenset((str, bytes, int, float, bool, complex, type(None)))
_COMPARISONS = "__eq__", "__hash__"
# Objects held by modules, by id; classes of objects that none holds or
# that are compared by value.
_held: dict[int, Any] = {}
_others: WeakSet[type] = WeakSet()


def is_lasting(meta: Any) -> bool:
    """Return True if metadata is made of values, tuples, and what modules hold."""
    kind = type(meta)
    if kind in _VALUES or id(meta) in _held:
        return True
    if kind is tuple:
        for x in meta:
            if type(x) not in _VALUES and not is_lasting(x):
                return False
        return True
    if kind in _others or not _is_held(meta, kind):
        return False
    _held[id(meta)] = meta
    return True


def _is_held(x: Any, kind: type) -> bool:
    """Whether an object that is compared by identity is one of its module's names.

    What a user has at the prompt may be replaced at any time.
    """
    if any(getattr(kind, f) is not getattr(object, f) for f in _COMPARISONS):
        _others.add(kind)
        return False
    name = getattr(x, "__name__", None)
    home: Any = getattr(kind if name is None else x, "__module__", None)
    names = getattr(sys.modules.get(home), "__dict__", {})
    if home == "__main__":
        return False
    if name is not None:
        return names.get(name) is x
    if any(value is x for value in list(names.values())):
        return True
    _others.add(kind)
    return False
