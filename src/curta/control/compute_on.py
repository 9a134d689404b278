"""`ComputeOn`: a part of a program that a certain part of the machine is to run."""

from __future__ import annotations

from typing import ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, subjaxprs


@dataclass(frozen=True)
class ComputeOn(JaxprOp):
    """A call of `jaxpr`, on the host of a device or on a part of it.

    Here all is one machine, and it is a call like any other; programs for accelerators
    say it.
    """

    name: ClassVar[str] = "compute_on"
    jaxpr: ClosedJaxpr
    compute_type: str


def computes_elsewhere(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr, or one within it, has such a call."""
    return any(isinstance(eqn.op, ComputeOn) for eqn in jaxpr.eqns) or any(
        map(computes_elsewhere, subjaxprs(jaxpr))
    )
