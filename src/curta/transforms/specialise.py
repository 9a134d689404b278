"""Jaxprs with values in place of dimension variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subjaxprs
from curta.core.mesh import EMPTY_ABSTRACT_MESH, AbstractMesh, Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding
from curta.core.symbolic.dims import DimExpr


@dataclasses.dataclass(frozen=True)
class Relocation:
    """Puts the meshes that a program names over the devices where it is called.

    Without `devices` they become abstract. A mesh of one device says nothing of how
    arrays are laid out: such a program runs wherever its arguments are.
    """

    devices: tuple[Any, ...] | None

    def __call__(self, x: Any) -> Any:
        """A mesh or a sharding over a mesh, there."""
        if isinstance(x, NamedSharding):
            if x.mesh.size == 1:
                return NamedSharding(EMPTY_ABSTRACT_MESH, PartitionSpec())
            return x.update(mesh=self(x.mesh))
        if self.devices is None or len(self.devices) != x.size or x.size == 1:
            return x.abstract_mesh
        grid = np.array(self.devices, object).reshape(x.axis_sizes)
        return Mesh(grid, x.axis_names, x.axis_types)


class Substitution:
    """Puts sizes, or dims of another scope, in place of the variables of dims.

    The meshes it meets are brought `there`.
    """

    def __init__(self, values: Mapping[str, Any], there: Relocation):
        self.values = values
        self.there = there
        self._known: dict[int, Any] = {}

    def closed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The jaxpr at these sizes."""
        return ClosedJaxpr(self.jaxpr(closed.jaxpr), closed.consts)

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        """The jaxpr at these sizes; a shared jaxpr stays shared."""
        result = self._known.get(id(jaxpr))
        if result is None:
            result = self._known[id(jaxpr)] = _Renaming(self).jaxpr(jaxpr)
        return result

    def value(self, x: Any) -> Any:
        """Any parameter of an op at these sizes; the same object if nothing changes."""
        if isinstance(x, DimExpr):
            return x.poly.evaluate(self.values)
        if isinstance(x, (Mesh, NamedSharding)):
            return self.there(x)
        if isinstance(x, ShapedArray):
            shape = self.value(x.shape)
            return x if shape is x.shape else x.update(shape=shape)
        if isinstance(x, (ClosedJaxpr, Jaxpr)):
            result = self._known.get(id(x))
            if result is None:
                made = self.closed(x) if isinstance(x, ClosedJaxpr) else self.jaxpr(x)
                result = self._known[id(x)] = made
            return result
        if isinstance(x, (tuple, list)):
            items = [self.value(item) for item in x]
            if all(a is b for a, b in zip(items, x, strict=True)):
                return x
            return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
        if isinstance(x, dict):
            return {k: self.value(v) for k, v in x.items()}
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            return self._record(x)
        return x

    def _record(self, x: Any) -> Any:
        fields = [f.name for f in dataclasses.fields(x) if f.init]
        changes = {}
        for name in fields:
            before = getattr(x, name)
            after = self.value(before)
            if after is not before:
                changes[name] = after
        return dataclasses.replace(x, **changes) if changes else x


class _Renaming:
    """A map from the variables of one jaxpr to their replacements."""

    def __init__(self, substitution: Substitution):
        self.substitution = substitution
        self.vars: dict[Var, Var] = {}

    def var(self, v: Var) -> Var:
        result = self.vars.get(v)
        if result is None:
            result = self.vars[v] = Var(self.substitution.value(v.aval))
        return result

    def atom(self, x: Atom) -> Atom:
        return x if isinstance(x, Literal) else self.var(x)

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        return jaxpr.replace(
            constvars=tuple(map(self.var, jaxpr.constvars)),
            invars=tuple(map(self.var, jaxpr.invars)),
            eqns=tuple(map(self.eqn, jaxpr.eqns)),
            outvars=tuple(map(self.atom, jaxpr.outvars)),
        )

    def eqn(self, eqn: Eqn) -> Eqn:
        return eqn.replace(
            op=self.substitution.value(eqn.op),
            invars=tuple(map(self.atom, eqn.invars)),
            outvars=tuple(map(self.var, eqn.outvars)),
        )


def shardings_within(jaxpr: Jaxpr) -> Iterator[Any]:
    """The meshes and shardings over meshes that the eqns of a jaxpr name."""
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            if isinstance(value, (Mesh, AbstractMesh, Sharding)):
                yield value
    for inner in subjaxprs(jaxpr):
        yield from shardings_within(inner)


def has_symbolic_dims(avals: Any) -> bool:
    """Whether dims are symbolic in any of some avals."""
    return any(is_symbolic_dim(d) for a in avals for d in a.shape)
