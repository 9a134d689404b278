"""How values relate to the named axes of a `shard_map`."""

from __future__ import annotations

from typing import Any

from curta import tree_util
from curta.api.signatures import T
from curta.core.mesh_scope import get_abstract_mesh
from curta.core.trace import current_trace, typeof
from curta.lax.named_axes import (
    AxisName,
    manual_names,
    names_of,
    require_bound,
    state,
)
from curta.primitives.collective import (
    PVary,
)
from curta.primitives.unreduced import (
    Preduced,
    ReducedVaryCast,
    VaryUnreducedCast,
)


def pvary(x: T, axis_name: AxisName) -> T:
    """In a `shard_map`, a value that is the same for all shards as one that varies.

    Derivatives are summed over the shards then. Raises ValueError elsewhere.

    >>> import curta
    >>> from curta import lax, numpy as jnp, P
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> @curta.shard_map(mesh=mesh, in_specs=P(), out_specs=P("i"))
    ... def spread(x):
    ...     return lax.pvary(x, "i")
    >>> spread(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    return pcast(x, names_of(axis_name), to="varying")


def pcast(x: T, axis_name: AxisName, *, to: str) -> T:
    """In a `shard_map`, a value that relates to named axes in another way.

    Args:
      x: a tree of arrays.
      axis_name: one name, or a tuple of them.
      to: "varying", each shard's own value; "unreduced", of a value that varies the
        sum over the shards; "reduced", the same for all shards, with a cotangent that
        is such a sum.

    Returns:
      A tree like `x`.

    Raises:
      ValueError: for other kinds, values that cannot be cast so, and outside of a
        `shard_map`.
      TypeError: for a set of names.

    >>> import curta
    >>> from curta import lax, numpy as jnp, P
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> @curta.shard_map(mesh=mesh, in_specs=P(), out_specs=P("i"))
    ... def spread(x):
    ...     return lax.pcast(x, "i", to="varying")
    >>> spread(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(f"{axis_name=} must be a tuple or a str. Got {axis_name}")
    if not axis_name:
        return x
    if to not in ("varying", "unreduced", "reduced"):
        raise ValueError(
            "Got unexpected `to` value. Allowed `to` values are: 'varying',"
            f" 'unreduced', 'reduced'; got {to!r}"
        )
    names = names_of(axis_name)
    manual = manual_names(names)

    def leaf(v: Any) -> Any:
        before = state(v, manual, "jax.lax.pcast") if manual else "invarying"
        op = _CASTS.get((before, to))
        if op is None:
            raise ValueError(
                f"Unsupported pcast from={before}, to={to!r} of {typeof(v)} over"
                f" {names}"
            )
        if current_trace().is_evaluating():
            raise ValueError(f"{op.name} should be called under jax.shard_map.")
        require_bound(names, "pcast")
        if other := {*names} - {*get_abstract_mesh().manual_axes}:
            raise ValueError(
                f"{op.name} should be called under jax.shard_map. These axes are of"
                f" another map: {other}"
            )
        return op(manual)(v) if manual else v

    return tree_util.tree_map(leaf, x)


_CASTS = {
    ("invarying", "varying"): PVary,
    ("reduced", "varying"): ReducedVaryCast,
    ("varying", "unreduced"): VaryUnreducedCast,
    ("invarying", "reduced"): Preduced,
}
