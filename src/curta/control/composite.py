"""`Composite`: a function that compilers may know by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp
from curta.core.jaxpr import ClosedJaxpr


@dataclass(frozen=True)
class Composite(JaxprOp):
    """A call of `jaxpr`, with a name, attributes and a version of what it means."""

    name: ClassVar[str] = "composite"
    param_names: ClassVar[Mapping[str, str | None]] = {"name": "called"}
    jaxpr: ClosedJaxpr
    called: str
    attributes: tuple[Any, ...]
    version: int

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> NoReturn:
        raise ValueError(
            "JVP rule for composite not implemented. You can use `jax.custom_jvp` to"
            f" add support: give {self.called} a derivative of its own."
        )

    def transpose(self, cotangent: Any, *args: Any) -> NoReturn:
        raise ValueError(
            "Transpose rule for composite not implemented. You can use"
            " `jax.custom_jvp` or `jax.custom_vjp` to add support: give"
            f" {self.called} a derivative of its own."
        )
