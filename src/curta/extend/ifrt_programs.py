"""The names of programs for IFRT, the runtime of XLA; Curta has one of its own.

Libraries for Pathways import them. Calling one raises NotImplementedError.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from curta._base.on_demand import Listing, listed

__all__ = ["ifrt_programs"]
__dir__: Listing = listed(__all__)


class _Programs:
    """Functions that would make programs for IFRT."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise NotImplementedError(
                f"ifrt_programs.{name}: there is no IFRT here. curta.jit compiles for"
                " this machine."
            )

        return refuse


ifrt_programs: Final = _Programs()
