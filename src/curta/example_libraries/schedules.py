"""Schedules: functions from the step to the step size of an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import curta.numpy as jnp
from curta._base.on_demand import Listing, own

__dir__: Listing = own(__name__)

Schedule = Callable[[Any], Any]


def constant(step_size: Any) -> Schedule:
    """The same step size at every step.

    >>> from curta.example_libraries import optimizers
    >>> optimizers.constant(0.1)(1000)
    0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """step_size * decay_rate ** (i / decay_steps).

    Args:
      step_size: at step 0.
      decay_steps: after how many steps it is multiplied by `decay_rate`.
      decay_rate: the factor.

    Returns:
      A function from the step to the step size.

    Raises:
      ZeroDivisionError: when it is called, for `decay_steps` of 0.

    >>> from curta.example_libraries import optimizers
    >>> optimizers.exponential_decay(1.0, 10, 0.5)(20)
    0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """step_size / (1 + decay_rate * i / decay_steps), in whole steps if `staircase`.

    Args:
      step_size: at step 0.
      decay_steps: after how many steps `decay_rate` is added to the divisor.
      decay_rate: what is added.
      staircase: whether it is added at once after these steps; else bit by bit.

    Returns:
      A function from the step to the step size.

    Raises:
      ZeroDivisionError: when it is called, for `decay_steps` of 0.

    >>> from curta.example_libraries import optimizers
    >>> optimizers.inverse_time_decay(1.0, 10, 0.5)(20)
    0.5
    """

    def schedule(i: Any) -> Any:
        share = jnp.floor(i / decay_steps) if staircase else i / decay_steps
        return step_size / (1 + decay_rate * share)

    return schedule


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """From `step_size` to `final_step_size`, and so on from there.

    Args:
      step_size: at step 0.
      decay_steps: the step from which it is `final_step_size`.
      final_step_size: in the end.
      power: of the distance to the end, by which it falls; 1 is a straight line.

    Returns:
      A function from the step to the step size.

    Raises:
      TypeError: when it is called, for sizes that are not numbers.

    >>> from curta.example_libraries import optimizers
    >>> optimizers.polynomial_decay(1.0, 10, 0.0)(5)
    Array(0.5, dtype=float32, weak_type=True)
    """

    def schedule(i: Any) -> Any:
        left = (1 - jnp.minimum(i, decay_steps) / decay_steps) ** power
        return left * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """`values[k]` after the k-th of the increasing `boundaries`.

    >>> from curta.example_libraries import optimizers
    >>> schedule = optimizers.piecewise_constant([10, 20], [1.0, 0.5, 0.1])
    >>> schedule(15)
    Array(0.5, dtype=float32)
    """
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if not boundaries.shape[0] == values.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")
    return lambda i: values[jnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule as it is, a number as the schedule that is constant.

    >>> from curta.example_libraries import optimizers
    >>> optimizers.make_schedule(0.1)(1000)
    0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(type(scalar_or_schedule))
