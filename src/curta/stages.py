"""Stages of ahead-of-time compilation: traced, lowered and compiled functions."""

from typing import Any, Protocol, runtime_checkable

from curta._base.on_demand import Listing, listed
from curta.api.aot import Lowered as Lowered, Traced as Traced
from curta.api.compiled import Compiled as Compiled
from curta.api.stage import ArgInfo as ArgInfo

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
__dir__: Listing = listed(__all__)

CompilerOptions = dict[str, str | bool]


@runtime_checkable
class Wrapped(Protocol):
    """The result of `jit`: a function that can be traced and compiled before it is
    called.

    >>> import curta
    >>> isinstance(curta.jit(abs), curta.stages.Wrapped)
    True
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result; the function is compiled if it has to be."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The function staged for these arguments."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """`trace(...).lower()`."""
