"""A step along a direction that satisfies the strong Wolfe conditions.

J. Nocedal and S. Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6: double
the step until an interval holds a good one, then narrow the interval by interpolation.
Here both are one loop, with one evaluation of the function an iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.grad import value_and_grad

_DECREASE = 1e-4  # of the first Wolfe condition
_CURVATURE = 0.9  # of the second
_MOST_ZOOMS = 30

# How a search ends: with a step, without one in an interval, without an interval.
FOUND, ZOOM_FAILED, NOT_BRACKETED = 0, 1, 3


class Point(NamedTuple):
    """A step, the function there, its slope along the direction, and its gradient."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class Search(NamedTuple):
    """The state of a search: an interval between `low`, the best so far, and `high`."""

    low: Point
    high: Point
    older: Point  # the end of the interval that was replaced last
    trial: Any
    zooming: Any
    done: Any
    failed: Any
    doublings: Any
    zooms: Any
    evaluations: Any


class LineSearchResult(NamedTuple):
    """The point of the search, and how it was reached."""

    point: Point
    failed: Any
    status: Any
    evaluations: Any


def line_search(
    fun: Callable[[Any], Any],
    x: Any,
    direction: Any,
    value: Any,
    gradient: Any,
    first: Any,
    maxiter: int,
) -> LineSearchResult:
    """Search from x, where `value` and `gradient` are known, starting with `first`."""

    def at(step: Any) -> Point:
        value, gradient = value_and_grad(fun)(x + step.astype(x.dtype) * direction)
        return Point(step, value, _slope(gradient, direction), gradient)

    origin = Point(jnp.zeros_like(first), value, _slope(gradient, direction), gradient)

    def unfinished(s: Search) -> Any:
        return ~s.done & ~s.failed & (s.zooming | (s.doublings < maxiter))

    def step(s: Search) -> Search:
        point = at(s.trial)
        s = s._replace(evaluations=s.evaluations + 1)
        zoomed, doubled = _zoom(s, point, origin), _bracket(s, point, origin)
        return _where(s.zooming, zoomed, doubled)

    false = np.bool_(False)
    start = Search(origin, origin, origin, first, false, false, false, 0, 0, 0)
    end = lax.while_loop(unfinished, step, start)
    status = jnp.where(
        end.failed, ZOOM_FAILED, jnp.where(end.done, FOUND, NOT_BRACKETED)
    )
    return LineSearchResult(end.low, ~end.done, status, end.evaluations)


def _slope(gradient: Any, direction: Any) -> Any:
    return jnp.real(jnp.dot(gradient, direction, precision=lax.Precision.HIGHEST))


def _where(condition: Any, a: Any, b: Any) -> Any:
    return type(a)(
        *(
            _where(condition, x, y)
            if isinstance(x, tuple)
            else jnp.where(condition, x, y)
            for x, y in zip(a, b)
        )
    )


def _too_high(point: Point, origin: Point) -> Any:
    return point.value > origin.value + _DECREASE * point.step * origin.slope


def _flat(point: Point, origin: Point) -> Any:
    return jnp.abs(point.slope) <= -_CURVATURE * origin.slope


def _bracket(s: Search, point: Point, origin: Point) -> Search:
    """Take `point` as the end of an interval from s.low, or go twice as far."""
    later = s.doublings > 0
    over = _too_high(point, origin) | ((point.value >= s.low.value) & later)
    good = ~over & _flat(point, origin)
    uphill = ~over & ~good & (point.slope >= 0)
    # Beyond `point` it is higher than before, or it rises there: turn back.
    low = _where(over, s.low, point)
    high = _where(over, point, s.low)
    s = s._replace(
        low=low,
        high=high,
        done=good,
        zooming=over | uphill,
        doublings=s.doublings + 1,
    )
    between = _interpolated(s)
    s = s._replace(older=_middle(s))
    return s._replace(trial=jnp.where(s.zooming, between, 2 * point.step))


def _middle(s: Search) -> Point:
    """A stand-in for a third point, which the first interpolation does not use."""
    return s.low._replace(step=(s.low.step + s.high.step) / 2)


def _zoom(s: Search, point: Point, origin: Point) -> Search:
    """Narrow the interval by what `point`, in it, is like."""
    above = _too_high(point, origin) | (point.value >= s.low.value)
    good = ~above & _flat(point, origin)
    reverses = ~above & (point.slope * (s.high.step - s.low.step) >= 0)
    high = _where(above, point, _where(reverses, s.low, s.high))
    older = _where(above | reverses, s.high, s.low)
    low = _where(above, s.low, point)
    zooms = s.zooms + 1
    width = jnp.abs(high.step - low.step)
    eps = dtypes.finfo(width.dtype).eps
    smallest = 4 * eps * jnp.maximum(jnp.abs(low.step), jnp.abs(high.step))
    stuck = (zooms >= _MOST_ZOOMS) | (width <= smallest)
    s = s._replace(
        low=low, high=high, older=older, zooms=zooms, done=good, failed=~good & stuck
    )
    return s._replace(trial=_interpolated(s))


def _interpolated(s: Search) -> Any:
    """The minimum of a cubic or a parabola through what is known, or the middle.

    The ends of the interval are too near to be worth a trial.
    """
    left = jnp.minimum(s.low.step, s.high.step)
    width = jnp.abs(s.high.step - s.low.step)

    def inside(x: Any, margin: float) -> Any:
        return (x > left + margin * width) & (x < left + (1 - margin) * width)

    db, dc = s.high.step - s.low.step, s.older.step - s.low.step
    slope = s.low.slope
    rise_b = s.high.value - s.low.value - slope * db
    rise_c = s.older.value - s.low.value - slope * dc
    below = (db * dc) ** 2 * (db - dc)
    a = (dc**2 * rise_b - db**2 * rise_c) / below
    b = (db**3 * rise_c - dc**3 * rise_b) / below
    cubic = s.low.step + (-b + jnp.sqrt(b * b - 3 * a * slope)) / (3 * a)
    parabola = s.low.step - slope * db**2 / (2 * rise_b)
    middle = (s.low.step + s.high.step) / 2
    simple = jnp.where(inside(parabola, 0.1), parabola, middle)
    return jnp.where((s.zooms > 0) & inside(cubic, 0.2), cubic, simple)
