"""Looking at values in the body of a `shard_map` that is not being compiled.

The body is staged all the same, and its program runs when it is complete. Where Python
wants to see a value before, the part that it depends on runs at once: a value that is
the same on all devices may decide an `if`, any may be printed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from curta.config import mesh_context
from curta.control.shard_map import ShardMap
from curta.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, Var
from curta.core.mesh import AbstractMesh, Mesh
from curta.core.mesh_scope import concrete_mesh
from curta.core.partition_spec import PartitionSpec, entry_of
from curta.core.stage import JaxprTrace, JitTracer, stage
from curta.core.trace import base_trace, concrete_or_none, typeof, use_trace
from curta.primitives.placed_types import varying_over
from curta.primitives.structure import reshape
from curta.runtime.array import wrap
from curta.transforms.jaxprs import run_closed
from curta.transforms.partial_eval import residuals_as_inputs


class ShardTracer(JitTracer):
    """A value of a body whose arguments are known."""

    __slots__ = ()

    def concrete_value(self) -> Any:
        result = super().concrete_value()
        trace = self._trace
        if result is not None or not trace.checks or self.aval.mat.vur:
            return result
        values = trace.values_of(self)
        return None if values is None else values[0]

    def __str__(self) -> str:
        return self._trace.shown(self) or super().__str__()

    def __repr__(self) -> str:
        return self._trace.shown(self) or super().__repr__()


class ShardTrace(JaxprTrace):
    """Records the body of a `shard_map` of concrete arguments.

    `outside` is what is in scope where `shard_map` is called.
    """

    tracer_type = ShardTracer

    def __init__(
        self,
        debug_info: DebugInfo,
        mesh: Mesh | AbstractMesh,
        axes: frozenset[Any],
        checks: bool,
        in_specs: Sequence[PartitionSpec],
        args: Sequence[Any],
        outside: Any,
    ):
        super().__init__(debug_info)
        self.mesh = mesh
        self.axes = axes
        self.checks = checks
        self.in_specs = in_specs
        self.args = args
        self.outside = outside

    def values_of(self, tracer: ShardTracer) -> Sequence[Any] | None:
        """The value that each device has; None if it depends on unknown ones."""
        if self.finished:
            return None
        part, captured = residuals_as_inputs(self._program(self.atom(tracer)))
        args = [*map(concrete_or_none, captured), *self.args]
        if any(x is None for x in args):
            return None

        def body(*args: Any) -> list[Any]:
            (x,) = run_closed(part, args)
            x = reshape(x, (1, *typeof(x).shape))
            return [varying_over(x, self.axes) if self.checks else x]

        op = ShardMap(
            stage(body, part.in_avals, self.debug_info),
            self.mesh,
            (*[PartitionSpec()] * len(captured), *self.in_specs),
            (PartitionSpec(entry_of(self.mesh.in_order(self.axes))),),
            self.axes,
            self.checks,
        )
        with mesh_context(self.outside), use_trace(base_trace()):
            (result,) = op(*args)
            return list(wrap(result._storage(), result.aval.unplaced()))

    def _program(self, var: Any) -> ClosedJaxpr:
        """The recorded eqns that a variable depends on, as a program."""
        wanted, eqns = {var}, []
        for eqn in reversed(self.eqns):
            if not wanted.isdisjoint(eqn.outvars):
                eqns.append(eqn)
                wanted.update(v for v in eqn.invars if type(v) is Var)
        constants = [(v, c) for v, c in self.constants.values() if v in wanted]
        jaxpr = Jaxpr(
            [v for v, _ in constants], self.invars, [var], eqns[::-1], self.debug_info
        )
        return ClosedJaxpr(jaxpr, [c for _, c in constants])

    def shown(self, tracer: ShardTracer) -> str:
        """The value on each of the devices; empty if it is not known."""
        values = self.values_of(tracer)
        if values is None:
            return ""
        names = self.mesh.in_order(self.axes)
        mesh = self.mesh if isinstance(self.mesh, Mesh) else concrete_mesh(self.mesh)
        coordinates = itertools.product(*[range(self.mesh.shape[n]) for n in names])
        title = f"({', '.join(map(str, names))},)"
        blocks = []
        for coordinate, value in zip(coordinates, values, strict=True):
            device: Any = "devices"
            if mesh is not None and len(names) == len(mesh.axis_names):
                device = mesh.devices[coordinate]
            where = f"On {device} at mesh coordinates {title} = {coordinate}"
            blocks.append(f"{where}:\n{value}\n")
        return "\n".join(blocks)
