"""`no_collectives`: mesh axes along which a program must not let devices wait."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from curta.core.avals import ShapedArray
from curta.core.op import Op
from curta.core.partition_spec import PartitionSpec
from curta.errors import ForbiddenCollectiveError
from curta.primitives.collective import Collective
from curta.primitives.placing import Reshard


def refuse_collectives(
    op: Op,
    avals: Sequence[ShapedArray],
    outs: Sequence[ShapedArray],
    forbidden: Collection[Any],
) -> None:
    """Raise ForbiddenCollectiveError for an op that takes one along these axes.

    That is a collective of a `shard_map`, a sum over a dim that an explicit axis
    splits, and a value that is split by it along another dim.
    """
    if isinstance(op, Collective):
        for name in op.axis_names if op.meets else ():
            if name in forbidden:
                raise _forbidden(name, f"`{op.name}` acts on axis '{name}'")
    if op.places_outputs and not isinstance(op, Reshard):
        return  # the eqns of its jaxprs were checked
    before, after = ([a.sharding.spec for a in some] for some in (avals, outs))
    kept, summed = _axes(after), {n for s in after for n in s.unreduced}
    for name in forbidden:
        if any(name in s.unreduced for s in before) and name not in summed:
            raise _forbidden(
                name,
                f"`{op.name}` consumes unreduced axis '{name}' without keeping it"
                " unreduced in the output",
            )
        if name in _axes(before) - kept - summed:
            raise _forbidden(
                name,
                f"`{op.name}` loses sharding axis '{name}' in the output without"
                " marking it unreduced",
            )
        if isinstance(op, Reshard) and name in _axes(before) & kept:
            if _dims(before[0], name) != _dims(after[0], name):
                raise _forbidden(
                    name, f"`{op.name}` changes the sharded dimension of axis '{name}'"
                )


def _forbidden(name: Any, why: str) -> ForbiddenCollectiveError:
    return ForbiddenCollectiveError(
        f"Collective across axis '{name}' is forbidden by `no_collectives`, but {why}."
    )


def _axes(specs: Sequence[PartitionSpec]) -> set[Any]:
    return {n for s in specs for axes in s.axes_of_dims() for n in axes}


def _dims(spec: PartitionSpec, name: Any) -> list[int]:
    return [d for d, axes in enumerate(spec.axes_of_dims()) if name in axes]
