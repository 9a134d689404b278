"""Checks of the shapes and dtypes that samplers are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.core.shapes import canonicalize_shape
from curta.core.trace import typeof
from curta.errors import TypePromotionError


def sample_shape(shape: Any) -> tuple[int, ...]:
    """The shape as a tuple of ints; TypeError if it is none."""
    if not isinstance(shape, (int, tuple)):
        shape = sequence(shape)
    result = canonicalize_shape(shape)
    if any(d < 0 for d in result):
        raise TypeError(
            "Only non-negative indices are allowed when broadcasting static shapes, but"
            f" got shape {result}: sizes must not be negative."
        )
    return result


def sequence(shape: Any) -> tuple[Any, ...]:
    """The entries of a shape; TypeError for a number."""
    try:
        return tuple(shape)
    except TypeError as error:
        raise TypeError(
            f"{error}: Shapes must be 1D sequences of concrete values of integer type,"
            f" got {shape!r}."
        ) from None


def check_shape(name: str, shape: tuple[int, ...], *parameters: Any) -> None:
    """Raise ValueError unless the parameters' shapes broadcast to `shape`."""
    if not parameters:
        return
    result = lax.broadcast_shapes(shape, *parameters)
    if result != shape:
        raise ValueError(
            f"{name} parameter shapes must be broadcast-compatible with shape"
            " argument, and the result of broadcasting the shapes must equal the"
            f" shape argument, but got result {result} for shape argument {shape}."
        )


def asked_dtype(dtype: Any, default: type) -> Any:
    """The requested dtype, or the dtype of a Python type if `dtype` is None."""
    return dtypes.check_user_dtype(default if dtype is None else dtype)


def float_dtype(
    name: str, dtype: Any, *parameters: Any, or_complex: bool = False
) -> Any:
    """The float dtype asked for, or complex one; ValueError if it is neither.

    TypePromotionError for parameters that this dtype cannot hold.
    """
    chosen = asked_dtype(dtype, float)
    if not dtypes.issubdtype(chosen, np.inexact if or_complex else np.floating):
        kinds = "float or complex" if or_complex else "float"
        raise ValueError(
            f"dtype argument to `{name}` must be a {kinds} dtype, got"
            f" {dtypes.dtype(dtype)}"
        )
    check_safe_casts(name, chosen, *parameters)
    return chosen


def check_safe_casts(name: str, dtype: Any, *parameters: Any) -> None:
    """Raise TypePromotionError for a parameter that promotion takes beyond `dtype`."""
    for x in parameters:
        if not dtypes.safe_to_cast(x, dtype):
            raise TypePromotionError(
                f"In arguments to {name}, cannot safely cast argument of type"
                f" {typeof(x).dtype} to {dtype}"
            )


def to_rank(x: Any, rank: int) -> Any:
    """`x` with leading dims of size 1 up to `rank`."""
    return lax.expand_dims(x, tuple(range(rank - typeof(x).ndim)))


def constant(like: Any, value: int) -> Any:
    """A scalar constant of the dtype of `like`."""
    return np.array(value, typeof(like).dtype)


def parameter_shape(name: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The requested shape, or the broadcast shape of the parameters."""
    shapes = [np.shape(p) for p in parameters]
    if shape is None:
        return lax.broadcast_shapes(*shapes)
    wanted = sample_shape(shape)
    check_shape(name, wanted, *shapes)
    return wanted
