"""Shapes and axes as users write them, checked and made canonical."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.core.dim import as_dim
from curta.core.trace import Tracer, concrete_or_error, operand_type


def canonicalize_axis(axis: Any, ndim: int) -> int:
    """`axis` counted from the front, of an array of rank `ndim`.

    Raises TypeError unless it is an integer, ValueError if there is no such axis.
    """
    index = integer("axis", axis)
    if not -ndim <= index < ndim:
        raise ValueError(f"axis {index} is out of bounds for array of dimension {ndim}")
    return index + ndim if index < 0 else index


def canonicalize_axes(axes: Sequence[Any], ndim: int) -> tuple[int, ...]:
    """All of `axes` counted from the front."""
    return tuple(canonicalize_axis(axis, ndim) for axis in axes)


def static_axes(axes: Any) -> tuple[int, ...]:
    """One axis, or several, as a tuple.

    Raises TypeError unless they are known integers.
    """
    axes = concrete_or_error(
        None, axes, "expected a static index or sequence of indices."
    )
    try:
        return (operator.index(axes),)
    except TypeError:
        return tuple(integer("axis", axis) for axis in axes)


def canonicalize_shape(shape: Any, context: str = "") -> tuple[int, ...]:
    """`shape` as a tuple of ints; an int is a shape of one dim.

    Raises TypeError for anything that is not a sequence of known integers. `context`
    says in the message where the shape is from.
    """
    if type(shape) is tuple and all(type(d) is int for d in shape):
        return shape
    try:
        return tuple(map(as_dim, _entries(shape)))
    except TypeError:
        raise invalid_shape(shape, context) from None


def _entries(shape: Any) -> Any:
    try:
        return (as_dim(shape),)
    except TypeError:
        return shape


def invalid_shape(shape: Any, context: str = "") -> TypeError:
    """The error for `shape`; `context` says in the message where it is from."""
    message = (
        "Shapes must be 1D sequences of concrete values of integer type, got"
        f" {shape!r}."
    )
    if context:
        message += f" {context}."
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    traced = [
        d for d in entries if isinstance(d, Tracer) and d.concrete_value() is None
    ]
    if traced:
        message += (
            "\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller"
            " subfunctions."
        )
    return TypeError(message + "".join(d._origin_msg() for d in traced))


def operand_shape(name: str, x: Any) -> tuple[Any, ...]:
    """The shape of the first operand of the function of that name; or TypeError."""
    return operand_type(name, 0, x).shape


def dim_of(name: str, axis: Any, shape: Sequence[int]) -> int:
    """`axis`, called `name`, counted from the front; IndexError if there is none."""
    index: int = integer(name, axis)
    if not -len(shape) <= index < len(shape):
        raise IndexError(
            f"{name} {index} is out of range for an array of shape {tuple(shape)}"
        )
    return index % len(shape)


def sequence(name: str, values: Any) -> tuple[Any, ...]:
    """`values`, which are called `name`, as a tuple; TypeError for what is none."""
    try:
        return tuple(values)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a sequence of integers, got {values}: {error}"
        ) from None


def integer(name: str, value: Any) -> Any:
    """`value`, which is called `name`, as a dim; TypeError unless it is an integer."""
    try:
        return as_dim(value)
    except TypeError as error:
        if type(error) is not TypeError:  # a traced value, which says so itself
            raise
        message = f"{error}: {name} must be an integer, got {value!r}."
        raise TypeError(message) from None


def real(name: str, value: Any) -> float:
    """`value`, which is called `name`, as a float; TypeError for what is no number."""
    try:
        return float(value + 0.0)
    except TypeError as error:
        if type(error) is not TypeError:  # a traced value
            raise
        message = f"{name} must be a real number, got {value!r}."
        raise TypeError(message) from None


def integers(name: str, values: Any, least: int | None = 0) -> tuple[Any, ...]:
    """`values`, which are called `name`, as a tuple of dims.

    Raises TypeError unless they are known integers, not below `least`: 0, 1 or None.
    """
    result = sequence(name, values)
    if not all(type(d) is int for d in result):
        result = tuple(_integer(name, d, result) for d in result)
    if least is not None and any(d < least for d in result):
        kind = "strictly positive" if least else "nonnegative"
        raise TypeError(f"{name} must have every element be {kind}, got {result}.")
    return result


def _integer(name: str, value: Any, values: Sequence[Any]) -> Any:
    try:
        if not isinstance(value, (bool, np.bool_)):
            return as_dim(value)
    except TypeError as error:
        if type(error) is not TypeError:  # a traced value, which says so itself
            raise
    raise TypeError(
        f"{name} must have every element be an integer type, got"
        f" {tuple(map(type, values))}."
    )


def check_nonnegative(name: str, shape: Sequence[int]) -> None:
    """Raise TypeError unless every entry of `shape` is at least 0."""
    if any(d < 0 for d in shape):
        raise TypeError(
            f"{name} must have every element be nonnegative, got {tuple(shape)}."
        )


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast, as in NumPy.

    Raises ValueError if they do not.

    >>> from curta import lax
    >>> lax.broadcast_shapes((3, 1), (2, 1, 4))
    (2, 3, 4)
    """
    result = [canonicalize_shape(shape) for shape in shapes]
    for shape in result:
        if any(d < 0 for d in shape):
            raise TypeError(
                "Only non-negative indices are allowed when broadcasting static shapes,"
                f" but got shape {shape}."
            )
    rank = max(map(len, result), default=0)
    out = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in result), strict=True):
        distinct = {d for d in sizes if d != 1}
        if len(distinct) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={result}")
        out.append(distinct.pop() if distinct else 1)
    return tuple(out)
