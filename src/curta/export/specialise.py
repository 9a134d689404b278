"""Jaxprs with values in place of dimension variables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from curta.core.symbolic.dims import DimExpr


class Substitution:
    """Puts sizes, or dims of another scope, in place of the variables of dims."""

    def __init__(self, values: Mapping[str, Any]):
        self.values = values
        self._known: dict[int, Any] = {}

    def closed(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The jaxpr at these sizes."""
        return ClosedJaxpr(self.jaxpr(closed.jaxpr), closed.consts)

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        """The jaxpr at these sizes; one that occurs many times stays one."""
        found = self._known.get(id(jaxpr))
        if found is None:
            found = self._known[id(jaxpr)] = _Renaming(self).jaxpr(jaxpr)
        return found

    def value(self, x: Any) -> Any:
        """Any parameter of an op at these sizes; the same object if nothing changes."""
        if isinstance(x, DimExpr):
            return x.poly.evaluate(self.values)
        if isinstance(x, ShapedArray):
            shape = self.value(x.shape)
            return x if shape is x.shape else x.update(shape=shape)
        if isinstance(x, (ClosedJaxpr, Jaxpr)):
            found = self._known.get(id(x))
            if found is None:
                made = self.closed(x) if isinstance(x, ClosedJaxpr) else self.jaxpr(x)
                found = self._known[id(x)] = made
            return found
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
    """The variables of one jaxpr, and those that take their places."""

    def __init__(self, substitution: Substitution):
        self.substitution = substitution
        self.vars: dict[Var, Var] = {}

    def var(self, v: Var) -> Var:
        found = self.vars.get(v)
        if found is None:
            found = self.vars[v] = Var(self.substitution.value(v.aval))
        return found

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


def has_symbolic_dims(avals: Any) -> bool:
    """Whether dims are symbolic in any of some avals."""
    return any(is_symbolic_dim(d) for a in avals for d in a.shape)
