"""Calls as programs that extend JAX bind them: of a function, recorded as a jaxpr."""

from __future__ import annotations

from typing import ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp
from curta.core.jaxpr import ClosedJaxpr


@dataclass(frozen=True)
class CoreCall(JaxprOp):
    """A jaxpr applied to its arguments, and that is all."""

    name: ClassVar[str] = "core_call"
    jaxpr: ClosedJaxpr


@dataclass(frozen=True)
class ClosedCoreCall(CoreCall):
    """As `CoreCall`; JAX tells calls of closed jaxprs apart."""

    name: ClassVar[str] = "core_closed_call"
