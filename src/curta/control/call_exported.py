"""`CallExported`: the program of an exported function, as its callers record it."""

from __future__ import annotations

from typing import ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JitCall
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, subjaxprs

PREFIX = "call_exported_"


@dataclass(frozen=True)
class CallExported(JitCall):
    """A call of an exported function, at the sizes of its arguments.

    `refined` says that the function was exported for sizes or platforms that were open
    then: a program which calls it is itself exported as one that has such constants.
    It was exported for so many devices, `nr_devices`.
    """

    name: ClassVar[str] = "call_exported"
    hidden_fields: ClassVar[tuple[str, ...]] = ("nr_devices",)
    refined: bool = False
    nr_devices: int = 1

    def with_jaxpr(self, jaxpr: ClosedJaxpr) -> CallExported:
        devices = self.nr_devices
        return CallExported(
            jaxpr, self.fun_name, refined=self.refined, nr_devices=devices
        )


def refuse_devices(jaxpr: Jaxpr, count: int) -> None:
    """Raise ValueError if a program calls a function exported for other devices."""
    for eqn in jaxpr.eqns:
        op = eqn.op
        if isinstance(op, CallExported) and op.nr_devices not in (1, count):
            name = op.fun_name.removeprefix(PREFIX)
            raise ValueError(wrong_devices(name, op.nr_devices, count))
    for inner in subjaxprs(jaxpr):
        refuse_devices(inner, count)


def wrong_devices(name: str, wanted: int, count: int) -> str:
    """What is said of a function that was exported for other devices."""
    return (
        f"Function {name} was exported for {wanted} devices and is called in a context"
        f" with {count} devices, which is not allowed. Put the arguments where"
        " `in_shardings_jax` says."
    )


def calls_refined(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr calls an exported function whose sizes or platforms were open."""
    return any(getattr(eqn.op, "refined", False) for eqn in jaxpr.eqns) or any(
        map(calls_refined, subjaxprs(jaxpr))
    )
