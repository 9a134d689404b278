"""Operands of linear algebra: SciPy takes anything that is like an array."""

from __future__ import annotations

from typing import Any

import curta.numpy as jnp
from curta.core.array import Array
from curta.numpy.promotion import promote_dtypes_inexact


def inexact(*args: Any) -> list[Array]:
    """The operands as arrays of one inexact dtype."""
    return [jnp.asarray(x) for x in promote_dtypes_inexact(*map(jnp.asarray, args))]


def adjoint(x: Any) -> Any:
    """The conjugated and transposed matrices."""
    return jnp.conj(jnp.matrix_transpose(x))
