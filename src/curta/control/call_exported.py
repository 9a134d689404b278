"""`CallExported`: the program of an exported function, as its callers record it."""

from __future__ import annotations

from typing import Any, ClassVar

from curta.control.call import Call
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, subjaxprs
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True)
class CallExported(Call):
    """A call of an exported function, at the sizes of its arguments.

    `refined` says that the function was exported for sizes or platforms that were open
    then: a program which calls it is itself exported as one that has such constants.
    """

    name: ClassVar[str] = "call_exported"
    refined: bool = False

    def with_jaxpr(self, jaxpr: ClosedJaxpr) -> CallExported:
        return CallExported(jaxpr, self.fun_name, refined=self.refined)

    def params(self) -> dict[str, Any]:
        return {**super().params(), "refined": self.refined}


def calls_refined(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr calls an exported function whose sizes or platforms were open."""
    return any(getattr(eqn.op, "refined", False) for eqn in jaxpr.eqns) or any(
        map(calls_refined, subjaxprs(jaxpr))
    )
