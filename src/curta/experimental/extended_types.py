"""Element types whose tangents have another type."""

from __future__ import annotations

from typing import Any, NoReturn


def primal_tangent_dtype(
    primal_dtype: Any, tangent_dtype: Any, name: str | None = None
) -> NoReturn:
    """An element type stored as one dtype whose tangents have another.

    It is not available: raises NotImplementedError. `custom_vjp` converts cotangents.
    """
    raise NotImplementedError(
        "primal_tangent_dtype is not available: tangents have the dtype of their"
        f" primals, not {tangent_dtype} for {primal_dtype}. A custom_vjp function can"
        " convert the cotangents of a computation."
    )
