"""Element types whose tangents have another type."""

from __future__ import annotations

from typing import Any

from curta import dtypes


def primal_tangent_dtype(
    primal_dtype: Any, tangent_dtype: Any, name: str | None = None
) -> dtypes.ExtendedDType:
    """An element type stored as `primal_dtype`, whose tangents have `tangent_dtype`.

    Numbers enter and leave it by `astype`; derivatives pass that, each in its dtype.

    Args:
      primal_dtype: how values are stored.
      tangent_dtype: the dtype of tangents and cotangents.
      name: what is printed; by default made of the two.

    Returns:
      The element type, which `astype` and `numpy.zeros` take as a dtype.

    Raises:
      TypeError: for dtypes that arrays cannot have.

    >>> import curta, curta.numpy as jnp
    >>> from curta.experimental import primal_tangent_dtype
    >>> quantised = primal_tangent_dtype("int8", "float32")
    >>> quantised
    PrimalTangentDType{i8/f32}
    >>> x = jnp.arange(2.0).astype(quantised)
    >>> _, pull = curta.vjp(lambda x: x.astype("float32"), x)
    >>> pull(jnp.ones(2))
    (Array([1., 1.], dtype=float32),)
    """
    primal = dtypes.check_user_dtype(primal_dtype, "primal_tangent_dtype")
    tangent = dtypes.check_user_dtype(tangent_dtype, "primal_tangent_dtype")
    shown = f"{dtypes.short_name(primal)}/{dtypes.short_name(tangent)}"
    return dtypes.PrimalTangentDType(
        primal, tangent, name or f"PrimalTangentDType{{{shown}}}"
    )
