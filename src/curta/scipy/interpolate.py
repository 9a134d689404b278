"""Interpolation, as in `scipy.interpolate`."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import tree_util
from curta._base.on_demand import Listing, own
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import promote_dtypes_inexact

__dir__: Listing = own(__name__)


@tree_util.register_pytree_node_class
class RegularGridInterpolator:
    """A function given by its values on a rectangular grid.

    Args:
      points: n arrays, the increasing coordinates of the grid along each axis.
      values: array whose first n axes are the grid's.
      method: "linear" or "nearest".
      bounds_error: must be false: whether a point is outside is known too late.
      fill_value: the value outside of the grid; None extrapolates.

    It is a pytree. ValueError for another method, shape or dtype of `fill_value`.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.interpolate import RegularGridInterpolator
    >>> x, y = jnp.array([0.0, 1.0]), jnp.array([0.0, 2.0])
    >>> f = RegularGridInterpolator((x, y), jnp.array([[0.0, 2.0], [1.0, 3.0]]))
    >>> f(jnp.array([[0.5, 1.0], [5.0, 0.0]]))
    Array([1.5, nan], dtype=float32)
    """

    fill_value: Any

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        self.method: str = _checked(method)
        if bounds_error:
            raise NotImplementedError("`bounds_error` takes no effect under JIT")
        self.bounds_error = bounds_error
        check_arraylike("RegularGridInterpolator", values, *points)
        if len(points) > np.ndim(values):
            raise ValueError(
                f"there are {len(points)} point arrays, but values has"
                f" {np.ndim(values)} dimensions"
            )
        (values,) = promote_dtypes_inexact(values)
        self.values: Any = jnp.asarray(values)
        self.grid: Any = tuple(jnp.asarray(p) for p in points)
        self.fill_value = fill_value
        if fill_value is not None:
            check_arraylike("RegularGridInterpolator", fill_value)
            self.fill_value = jnp.asarray(fill_value)
            if not jnp.can_cast(
                self.fill_value.dtype, self.values.dtype, casting="same_kind"
            ):
                raise ValueError(
                    "fill_value must be either 'None' or of a type compatible with"
                    " values"
                )

    def tree_flatten(self) -> tuple[Any, Any]:
        """The children and the metadata, for `register_pytree_node_class`."""
        return (self.grid, self.values, self.fill_value), self.method

    @classmethod
    def tree_unflatten(cls, method: str, children: Any) -> RegularGridInterpolator:
        self = object.__new__(cls)
        self.grid, self.values, self.fill_value = children
        self.method, self.bounds_error = method, False
        return self

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at the points `xi` of shape (..., n), or n arrays of one shape."""
        method = _checked(self.method if method is None else method)
        n = len(self.grid)
        xi = _points(xi, n)
        if xi.shape[-1] != n:
            raise ValueError(
                f"the requested sample points xi have dimension {xi.shape[-1]}, but"
                f" this RegularGridInterpolator has dimension {n}"
            )
        rows = xi.reshape(-1, n).T
        cells = [_cell(x, grid) for x, grid in zip(rows, self.grid)]
        evaluate = self._linear if method == "linear" else self._nearest
        result = evaluate(cells)
        if self.fill_value is not None:
            beyond = [(x < g[0]) | (x > g[-1]) for x, g in zip(rows, self.grid)]
            outside = functools.reduce(operator.or_, beyond)
            outside = outside.reshape(-1, *(1,) * (result.ndim - 1))
            result = jnp.where(outside, self.fill_value, result)
        return result.reshape(xi.shape[:-1] + self.values.shape[n:])

    def _linear(self, cells: list[tuple[Any, Any]]) -> Any:
        total: Any = 0.0
        shape = (-1,) + (1,) * (self.values.ndim - len(cells))
        for corner in itertools.product((0, 1), repeat=len(cells)):
            indices = tuple(i + step for step, (i, _) in zip(corner, cells))
            weight: Any = 1.0
            for step, (_, offset) in zip(corner, cells):
                weight = weight * (offset if step else 1 - offset)
            total = total + self.values[indices] * weight.reshape(shape)
        return total

    def _nearest(self, cells: list[tuple[Any, Any]]) -> Any:
        return self.values[tuple(jnp.where(y <= 0.5, i, i + 1) for i, y in cells)]


def _checked(method: str) -> str:
    if method not in ("linear", "nearest"):
        raise ValueError(f"method {method!r} is not defined")
    return method


def _points(points: Any, n: int) -> Any:
    """The points as one array whose last axis counts the coordinates."""
    if isinstance(points, tuple) and len(points) == 1:
        (points,) = points
    if isinstance(points, tuple):
        return jnp.stack(jnp.broadcast_arrays(*points), axis=-1)
    check_arraylike("RegularGridInterpolator", points)
    points = jnp.asarray(points)
    return points.reshape(-1, n) if points.ndim == 1 else points


def _cell(x: Any, grid: Any) -> tuple[Any, Any]:
    """The index of the grid point below x, and x's share of the way to the next."""
    index = jnp.clip(jnp.searchsorted(grid, x) - 1, 0, grid.size - 2)
    return index, (x - grid[index]) / (grid[index + 1] - grid[index])
