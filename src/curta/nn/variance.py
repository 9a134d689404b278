"""Arrays of random numbers whose variance follows from their shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import dtypes, random
from curta.primitives.elementwise.complex import part_dtype

Axes = int | Sequence[int]

_STDDEV_WITHIN_2 = 0.87962566103423978
"""The standard deviation of normal numbers between -2 and 2."""
_COMPLEX_STDDEV_WITHIN_2 = 0.95311164380491208
"""The standard deviation of normal complex numbers of absolute value up to 2."""


def _size(shape: tuple[int, ...], axes: Axes) -> int:
    if isinstance(axes, int):
        return shape[axes]
    return math.prod(shape[i] for i in axes)


def fans(
    shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """The numbers of inputs and of outputs of a layer with weights of `shape`."""
    if isinstance(in_axis, int) and in_axis == -2 and len(shape) <= 1:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional"
            " weights tensor with default in_axis. Must be at least 2D or specify"
            " in_axis explicitly."
        )
    inputs, outputs = _size(shape, in_axis), _size(shape, out_axis)
    field = math.prod(shape) / inputs / outputs / _size(shape, batch_axis)
    return inputs * field, outputs * field


def denominator(mode: str, inputs: float, outputs: float) -> float:
    if mode == "fan_in":
        return inputs
    if mode == "fan_out":
        return outputs
    if mode == "fan_avg":
        return (inputs + outputs) / 2
    if mode == "fan_geo_avg":
        return math.sqrt(inputs * outputs)
    raise ValueError(f"invalid mode for variance scaling initializer: {mode}")


def with_variance(
    key: Any, shape: Any, dtype: Any, variance: Any, distribution: str
) -> Any:
    real = dtypes.issubdtype(dtype, np.floating)
    if distribution == "normal":
        return random.normal(key, shape, dtype) * jnp.sqrt(variance)
    if distribution == "uniform":
        if real:
            drawn = random.uniform(key, shape, dtype, -1)
            return drawn * jnp.sqrt(3 * variance)
        return _in_disc(key, shape, dtype) * jnp.sqrt(variance)
    if distribution == "truncated_normal":
        if real:
            stddev = jnp.sqrt(variance) / jnp.array(_STDDEV_WITHIN_2, dtype)
            return random.truncated_normal(key, -2, 2, shape, dtype) * stddev
        stddev = jnp.sqrt(variance) / jnp.array(_COMPLEX_STDDEV_WITHIN_2, dtype)
        return _complex_truncated_normal(key, 2, shape, dtype) * stddev
    raise ValueError(
        f"invalid distribution for variance scaling initializer: {distribution}"
    )


def _in_disc(key: Any, shape: Any, dtype: Any) -> Any:
    """Complex numbers uniform in a disc, of mean square 1."""
    for_radius, for_angle = random.split(key)
    squared = 2 * random.uniform(for_radius, shape, part_dtype(dtype))
    return jnp.sqrt(squared).astype(dtype) * _phases(for_angle, shape, dtype)


def _complex_truncated_normal(key: Any, upper: float, shape: Any, dtype: Any) -> Any:
    """Normal complex numbers of absolute value up to `upper`."""
    for_radius, for_angle = random.split(key)
    drawn = random.uniform(for_radius, shape, part_dtype(dtype)).astype(dtype)
    mass = 1 - jnp.exp(jnp.array(-(upper**2), dtype))
    radius = jnp.sqrt(-jnp.log(1 - mass * drawn))
    return radius * _phases(for_angle, shape, dtype)


def _phases(key: Any, shape: Any, dtype: Any) -> Any:
    angle = 2 * np.pi * random.uniform(key, shape, part_dtype(dtype)).astype(dtype)
    return jnp.exp(1j * angle)
