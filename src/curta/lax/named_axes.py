"""The named axes of collectives: which are in scope, and what is asked along them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from curta.core.axis_names import unbound_axis
from curta.core.mesh_scope import get_abstract_mesh, scope
from curta.core.shapes import sequence
from curta.core.trace import current_trace, typeof

AxisName = Any
Groups = Sequence[Sequence[int]] | None


def names_of(axis_name: AxisName) -> tuple[Any, ...]:
    """One name or several as a tuple."""
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def axis_size(axis_name: AxisName) -> int:
    """The number of examples along the named axis.

    Raises NameError if no enclosing map has that name, ValueError for a number.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: x * curta.lax.axis_size("i"), axis_name="i")(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    sizes = current_trace().axis_sizes()
    for name in names_of(axis_name):
        _require_hash(name)
        if name not in sizes and isinstance(name, int):
            raise ValueError(
                f"axis {name} is out of bounds for array of dimension 0: a number is"
                " not the name of an axis"
            )
        if name not in sizes:
            raise NameError(unbound_axis(name, "the function"))
    return math.prod(sizes[name] for name in names_of(axis_name))


def _require_hash(name: Any) -> None:
    try:
        hash(name)
    except TypeError as error:
        message = f"{error}: the name of an axis must have a hash, got {name!r}."
        raise TypeError(message) from None


def require_bound(axis_name: AxisName, user: str) -> None:
    """Raise NameError that names the function `user` unless all names are bound."""
    sizes = current_trace().axis_sizes()
    for name in names_of(axis_name):
        _require_hash(name)
        if name not in sizes:
            raise NameError(unbound_axis(name, user))


def split_names(axis_name: AxisName) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The names, and the dims of the operand, over which a reduction is taken."""
    given = names_of(axis_name)
    for name in given:
        _require_hash(name)
    if len(set(given)) != len(given):
        axis_size([n for n in given if not isinstance(n, int)])
        raise ValueError(
            f"duplicate value in 'axes' of reduction: {given}. Each axis is named once."
        )
    dims = tuple(n for n in given if isinstance(n, int))
    return tuple(n for n in given if not isinstance(n, int)), dims


def group_size(axis_name: AxisName, groups: Groups) -> int:
    """The number of examples that take part with each other."""
    size = axis_size(axis_name)
    return size if groups is None else len(groups[0])


def checked_groups(axis_name: AxisName, groups: Groups) -> Any:
    """Groups as tuples; ValueError unless each index is in one of them."""
    if groups is None:
        return None
    if len(names_of(axis_name)) > 1:
        raise NotImplementedError("axis_index_groups is for a single named axis")
    name = "axis_index_groups"
    result = tuple(sequence(name, group) for group in sequence(name, groups))
    if sorted(i for g in result for i in g) != [*range(axis_size(axis_name))]:
        raise ValueError("axis_index_groups must cover all indices exactly once")
    return tuple(tuple(map(int, g)) for g in result)


def manual_names(names: Sequence[Any]) -> tuple[Any, ...]:
    """Those of the names whose shards are known to vary or not."""
    if not scope().checks_varying:
        return ()
    manual = get_abstract_mesh().manual_axes
    return tuple(n for n in names if n in manual)


def state(x: Any, names: Sequence[Any], user: str) -> str:
    """How a value relates to these manual axes; ValueError if to some differently."""
    mat = typeof(x).mat
    kinds = ("varying", "unreduced", "reduced")
    result = {
        next((k for k in kinds if n in getattr(mat, k)), "invarying") for n in names
    }
    if len(result) > 1:
        raise ValueError(
            f"{user} can only accept axis_name which corresponds to one of varying,"
            " unreduced, reduced or invarying state of the input. Got input type:"
            f" {typeof(x)}, axes: {tuple(names)} and input state: {result}"
        )
    return result.pop()


def is_unreduced(x: Any, names: Sequence[Any], groups: Any, user: str) -> bool:
    """Return True if a value is a sum to be taken over all of these axes."""
    if not typeof(x).mat.unreduced & {*names}:
        return False
    if groups is not None:
        raise NotImplementedError(f"{user} of unreduced values takes no groups")
    return state(x, names, user) == "unreduced"
