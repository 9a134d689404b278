"""Images of any number of dimensions, as in `scipy.ndimage`."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta._base.on_demand import Listing, own
from curta.api.inner import inner_jit
from curta.api.jit_options import check_hashable
from curta.core.array import Array, ArrayLike

__dir__: Listing = own(__name__)

Indices = list[tuple[Any, Any]]


def _mirror(index: Any, size: int) -> Any:
    last = size - 1
    return jnp.abs((index + last) % (2 * last) - last) if last else index * 0


def _reflect(index: Any, size: int) -> Any:
    # Mirrored at the edges of the pixels, which lie between double indices.
    return jnp.floor_divide(_mirror(2 * index + 1, 2 * size + 1) - 1, 2)


# Where an index outside the image takes its value.
_OUTSIDE: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: index,
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirror,
    "reflect": _reflect,
}


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """Values of an image between its pixels.

    Args:
      input: array of n dimensions.
      coordinates: a sequence of n arrays of one shape: where to look, along each axis.
      order: 0 for the nearest pixel, 1 for linear interpolation.
      mode: what lies outside: "constant" (default; `cval`), "nearest", "wrap", "mirror"
        or "reflect".
      cval: the value outside for "constant", a scalar. Default 0.

    Returns:
      The values, of the coordinates' shape and `input`'s dtype.

    Raises:
      NotImplementedError: for other orders and modes.
      TypeError: if an argument is not an array; for complex coordinates, and
        coordinates whose shapes do not fit each other.
      ValueError: for another number of coordinates, and a `cval` that is not a scalar.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import ndimage
    >>> ndimage.map_coordinates(jnp.array([0.0, 10.0]), [jnp.array([0.3, 5.0])], 1)
    Array([3., 0.], dtype=float32)
    """
    for value in (order, mode) if isinstance(cval, Array) else (order, mode, cval):
        check_hashable(value)
    if np.ndim(cval):
        raise ValueError(f"map_coordinates takes cval as one number, got {cval}.")
    if not np.iterable(coordinates):
        raise TypeError(
            "iteration over a 0-d array: map_coordinates takes coordinates as one array"
            f" for each dim of input, got {coordinates}."
        )
    input, coordinates = jnp.asarray(input), [jnp.asarray(c) for c in coordinates]
    if len(coordinates) != input.ndim:
        raise ValueError(
            "coordinates must be a sequence of length input.ndim, but"
            f" {len(coordinates)} != {input.ndim}"
        )
    if mode not in _OUTSIDE:
        raise NotImplementedError(
            f"jax.scipy.ndimage.map_coordinates does not yet support mode {mode}."
            f" Currently supported modes are {set(_OUTSIDE)}."
        )
    if order not in (0, 1):
        raise NotImplementedError(
            "jax.scipy.ndimage.map_coordinates currently requires order<=1:"
            f" interpolation by splines of order {order} is not implemented."
        )
    return _map_coordinates(input, coordinates, cval, order=order, mode=mode)


@inner_jit(static_argnames=("order", "mode"))
def _map_coordinates(
    input: Any, coordinates: Sequence[Any], cval: Any, order: int, mode: str
) -> Any:
    neighbours = _nearest if order == 0 else _linear
    total: Any = 0
    for corner in itertools.product(*map(neighbours, coordinates)):
        positions = [index for index, _ in corner]
        indices = tuple(map(_OUTSIDE[mode], positions, input.shape))
        inside = [(0 <= i) & (i < size) for i, size in zip(positions, input.shape)]
        within = functools.reduce(operator.and_, inside)
        value = input.at[indices].get(mode="clip")
        if mode == "constant":
            value = jnp.where(within, value, jnp.asarray(cval, input.dtype))
        total = total + math.prod(weight for _, weight in corner) * value
    if dtypes.issubdtype(input.dtype, np.integer):
        total = _round(total)
    return total.astype(input.dtype)


def _round(x: Any) -> Any:
    """To the nearest integer, halves away from zero."""
    return x if dtypes.issubdtype(x.dtype, np.integer) else lax.round(x)


def _nearest(coordinate: Any) -> Indices:
    return [(_round(coordinate).astype(np.int32), coordinate.dtype.type(1))]


def _linear(coordinate: Any) -> Indices:
    below = jnp.floor(coordinate)
    weight = coordinate - below
    index = below.astype(np.int32)
    return [(index, 1 - weight), (index + 1, weight)]
