"""What programs over several devices do besides computing their results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from curta.control.callback import Debugging
from curta.control.custom_partitioning import CustomPartitioning
from curta.control.shard_map import ShardMap
from curta.core.effects import Effect
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, jaxprs_of, with_jaxprs
from curta.core.mesh import Mesh
from curta.partition.destinations import propagated
from curta.partition.named_devices import Shardings
from curta.partition.propagation import Propagation

# In the jaxprs of these values are what one device holds.
_OF_PARTS = (ShardMap, CustomPartitioning)


def refuse_ordered(effects: Iterable[Effect]) -> None:
    """Raise ValueError for effects whose order devices do not keep."""
    refused = [e for e in effects if e.ordered and not e.shardable]
    if refused:
        raise ValueError(
            "The following ordered effects are not supported for more than 1 device:"
            f" {refused}. Leave out ordered=True, or call the function on one device."
        )


def shows_parts(jaxpr: Jaxpr) -> bool:
    """Whether a callback of a jaxpr is to show the parts that devices hold."""
    return any(
        eqn.op.partitioned
        if isinstance(eqn.op, Debugging)
        else any(map(shows_parts, _inner(eqn.op)))
        for eqn in jaxpr.eqns
    )


def _inner(op: Any) -> Iterable[Jaxpr]:
    """The jaxprs of an op in which values are whole arrays."""
    if isinstance(op, _OF_PARTS):
        return ()
    return jaxprs_of(op)


def showing_parts(closed: ClosedJaxpr, shardings: Shardings, mesh: Mesh) -> ClosedJaxpr:
    """The program in which these callbacks know the parts, by where arguments are."""
    propagation = Propagation(mesh, tells=False)
    propagated(propagation, closed, [s and (s.named or s) for s in shardings])
    return _Showing(propagation).closed(closed)


class _Showing:
    def __init__(self, propagation: Propagation):
        self.propagation = propagation

    def closed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        eqns = [*map(self.eqn, closed.jaxpr.eqns)]
        return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)

    def eqn(self, eqn: Eqn) -> Eqn:
        op: Any = eqn.op
        if isinstance(op, Debugging) and op.partitioned:
            return eqn.replace(op=self.debugging(op, eqn))
        if isinstance(op, _OF_PARTS):
            return eqn
        return eqn.replace(op=with_jaxprs(op, self.closed))

    def debugging(self, op: Any, eqn: Eqn) -> Any:
        avals = [v.aval for v in eqn.invars]
        known: Mapping[Any, Any] = self.propagation.splits
        split = [known.get(v, (None,) * v.aval.ndim) for v in eqn.invars]
        shardings: Any = self.propagation.shardings(split, avals)
        maps = [
            s.devices_indices_map(a.shape)
            for s, a in zip(shardings, avals, strict=True)
        ]
        parts = tuple(
            tuple(m[d] for m in maps) for d in self.propagation.mesh.flat_devices
        )
        return dataclasses.replace(op, partitioned=False, parts=parts)
