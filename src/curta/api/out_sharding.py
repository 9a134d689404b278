"""The `out_sharding` argument of array functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from curta import tree_util
from curta.api.placing import resharded
from curta.core.array import Array
from curta.core.mesh import AxisType, get_abstract_mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.placement import placed_as
from curta.core.sharding import NamedSharding
from curta.core.trace import typeof

F = TypeVar("F", bound=Callable[..., Any])


def takes_out_sharding(fun: F) -> F:
    """Give a function's result the split that its argument `out_sharding` says.

    The function itself is then free of the question how the split follows from that
    of its operands.
    """

    @functools.wraps(fun)
    def call(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        if out_sharding is None:
            return fun(*args, **kwargs)
        place = explicit_sharding(fun.__name__, out_sharding)
        args, kwargs = tree_util.tree_map(_unplaced, (args, kwargs))
        return resharded(fun(*args, **kwargs), place)

    return call  # type: ignore[return-value]


def _unplaced(x: Any) -> Any:
    if not isinstance(x, Array):
        return x
    where = typeof(x).placement
    return x if where is None else placed_as(x, where, where.only_varying())


def explicit_sharding(user: str, given: Any) -> NamedSharding:
    """What the user gave as a sharding over explicit axes.

    Raises TypeError for other types, ValueError for a spec where no mesh is in scope,
    another mesh than that in scope, and axes of another type.
    """
    if not isinstance(given, (NamedSharding, PartitionSpec)):
        raise TypeError(
            f"`out_sharding` argument of {user} only supports instances of"
            f" `NamedSharding` or `PartitionSpec`. Got {given} of type: {type(given)}"
        )
    mesh = get_abstract_mesh()
    if isinstance(given, PartitionSpec):
        if mesh.empty:
            raise ValueError(
                "Using PartitionSpec when you are not under a mesh context is not"
                " allowed. Please pass a NamedSharding instance or enter into a mesh"
                f" context via `jax.set_mesh`. Got {given}"
            )
        given = NamedSharding(mesh, given)
    elif not mesh.empty and given.mesh.abstract_mesh is not mesh:
        raise ValueError(
            f"Context mesh {mesh} should match the mesh of sharding"
            f" {given.mesh.abstract_mesh} passed to {user}."
        )
    for name in given.spec.used_axes():
        if given.mesh.types[name] is not AxisType.Explicit:
            raise ValueError(
                f"PartitionSpec passed to {user} cannot contain axis names that are of"
                f" type Auto or Manual. Got PartitionSpec: {given.spec} with axis name:"
                f" {name} of type: {given.mesh.types[name]}."
            )
    return given
