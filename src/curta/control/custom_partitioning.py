"""`CustomPartitioning`: a function of which the program says how it is split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp
from curta.core.jaxpr import ClosedJaxpr


@dataclass(frozen=True)
class CustomPartitioning(JaxprOp):
    """A call of `jaxpr`.

    `result_specs` takes a mesh and the specs of the operands to those of the results.
    """

    name: ClassVar[str] = "custom_partitioning"
    param_names: ClassVar[Mapping[str, str | None]] = {"call": "jaxpr"}
    jaxpr: ClosedJaxpr
    result_specs: Callable[..., Any]
