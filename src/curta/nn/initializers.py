"""Weight initializers for neural networks.

Each of the functions here but `zeros` and `ones` returns an initializer: a function of
(key, shape, dtype) that returns an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

import curta.numpy as jnp
from curta import dtypes, random
from curta._base.on_demand import Listing, listed
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike, Shape
from curta.core.shapes import canonicalize_shape
from curta.nn.variance import Axes, denominator, fans, with_variance

__all__ = [
    "Initializer",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]
__dir__: Listing = listed(__all__)

Mode = Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"]
Distribution = Literal["truncated_normal", "normal", "uniform"]


@runtime_checkable
class Initializer(Protocol):
    """A function that makes an array of a shape and dtype from a key.

    >>> import curta
    >>> from curta.nn import initializers
    >>> def constant_rows(key, shape, dtype=float, out_sharding=None):
    ...     return curta.numpy.ones(shape, dtype)
    >>> isinstance(constant_rows, initializers.Initializer)
    True
    """

    def __call__(
        self, key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None
    ) -> Any:
        """The array."""
        raise NotImplementedError


def _chosen(dtype: Any) -> Any:
    wanted = float if dtype is None else dtype
    return dtypes.canonicalize_dtype(wanted, allow_extended_dtype=True)


@takes_out_sharding
def zeros(
    key: Array, shape: Shape, dtype: DTypeLike | None = None, out_sharding: Any = None
) -> Array:
    """An array of zeros.

    Args:
      key: not used.
      shape: the shape.
      dtype: the dtype; the default float by default.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      TypeError: if sizes are negative or not integers, or a dtype is invalid.

    >>> from curta import nn, random
    >>> nn.initializers.zeros(random.key(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    return jnp.zeros(shape, _chosen(dtype))


@takes_out_sharding
def ones(
    key: Array, shape: Shape, dtype: DTypeLike | None = None, out_sharding: Any = None
) -> Array:
    """An array of ones.

    Args:
      key: not used.
      shape: the shape.
      dtype: the dtype; the default float by default.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of this shape and dtype.

    Raises:
      TypeError: if sizes are negative or not integers, or a dtype is invalid.

    >>> from curta import nn, random
    >>> nn.initializers.ones(random.key(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return jnp.ones(shape, _chosen(dtype))


def _initializer(make: Callable[[Any, Any, Any], Any], default: Any) -> Initializer:
    """The initializer that calls `make(key, shape, dtype)`."""

    def init(
        key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None
    ) -> Any:
        return make(key, shape, _chosen(dtype))

    # Python's errors name the function by the public one that made it.
    init.__qualname__ = f"{make.__qualname__.rpartition('.')[0]}.init"
    return takes_out_sharding(init)


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer of arrays filled with `value`.

    >>> from curta import nn, random
    >>> nn.initializers.constant(7)(random.key(0), (2,))
    Array([7., 7.], dtype=float32)
    """
    return _initializer(lambda key, shape, dt: jnp.full(shape, value, dt), dtype)


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer of uniform draws from [0, scale).

    >>> from curta import nn, random
    >>> nn.initializers.uniform(10.0)(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return _initializer(
        lambda key, shape, dt: random.uniform(key, shape, dt) * jnp.array(scale, dt),
        dtype,
    )


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer of normal draws of standard deviation `stddev`.

    >>> from curta import nn, random
    >>> nn.initializers.normal(5.0)(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return _initializer(
        lambda key, shape, dt: random.normal(key, shape, dt) * jnp.array(stddev, dt),
        dtype,
    )


def truncated_normal(
    stddev: ArrayLike = 1e-2,
    dtype: DTypeLike | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """An initializer of normal draws between `lower` and `upper`, times `stddev`.

    Args:
      stddev: the factor; 0.01 by default.
      dtype: a float dtype, by default the default one.
      lower, upper: the bounds, before the factor; -2 and 2 by default.

    Returns:
      An `Initializer`.

    Raises:
      ValueError: when it is called, for a dtype that is not of floats, and bounds that
        do not broadcast to the shape.

    >>> from curta import nn, random
    >>> nn.initializers.truncated_normal(5.0)(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def make(key: Any, shape: Any, dtype: Any) -> Any:
        drawn = random.truncated_normal(key, lower, upper, shape, dtype)
        return drawn * jnp.array(stddev, dtype)

    return _initializer(make, dtype)


def variance_scaling(
    scale: ArrayLike,
    mode: Mode,
    distribution: Distribution,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """An initializer whose draws have variance scale / n.

    Args:
      scale: a positive factor.
      mode: what n is: the number of inputs ("fan_in") or outputs ("fan_out") of the
        layer, or their arithmetic ("fan_avg") or geometric ("fan_geo_avg") mean.
      distribution: "normal", "truncated_normal" (to twice the standard deviation) or
        "uniform".
      in_axis, out_axis: the axes of the inputs and outputs, by default the last but one
        and the last. Axes that are neither are those of a receptive field, which counts
        for both,
      batch_axis: but for these, which do not count; none by default.
      dtype: a float or complex dtype, by default the default float one.

    Returns:
      An `Initializer`.

    Raises:
      ValueError: when the initializer is called, if the mode or distribution is
        unknown, the shape lacks the default axes, or the dtype is not supported.
      IndexError: when the initializer is called, if an axis is out of range.

    >>> from curta import nn, random
    >>> init = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
    >>> init(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def make(key: Any, shape: Any, dtype: Any) -> Any:
        shape = canonicalize_shape(shape)
        both = fans(shape, in_axis, out_axis, batch_axis)
        variance = jnp.array(scale / denominator(mode, *both), dtype)
        return with_variance(key, shape, dtype, variance, distribution)

    return _initializer(make, dtype)


def glorot_uniform(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Uniform draws of variance 2 / (inputs + outputs): Glorot and Bengio (2010).

    Args:
      in_axis, out_axis, batch_axis, dtype: as for `variance_scaling`.

    Returns:
      An `Initializer`.

    Raises:
      ValueError, IndexError: where `variance_scaling` does.

    >>> from curta import nn, random
    >>> nn.initializers.glorot_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(
        1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype
    )


def glorot_normal(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Truncated normal draws of variance 2 / (inputs + outputs).

    Args:
      in_axis, out_axis, batch_axis, dtype: as for `variance_scaling`.

    Returns:
      An `Initializer`.

    Raises:
      ValueError, IndexError: where `variance_scaling` does.

    >>> from curta import nn, random
    >>> nn.initializers.glorot_normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def lecun_uniform(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Uniform draws of variance 1 / inputs: LeCun and others (1998).

    Args:
      in_axis, out_axis, batch_axis, dtype: as for `variance_scaling`.

    Returns:
      An `Initializer`.

    Raises:
      ValueError, IndexError: where `variance_scaling` does.

    >>> from curta import nn, random
    >>> nn.initializers.lecun_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(
        1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype
    )


def lecun_normal(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Truncated normal draws of variance 1 / inputs.

    Args:
      in_axis, out_axis, batch_axis, dtype: as for `variance_scaling`.

    Returns:
      An `Initializer`.

    Raises:
      ValueError, IndexError: where `variance_scaling` does.

    >>> from curta import nn, random
    >>> nn.initializers.lecun_normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(
        1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def he_uniform(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Uniform draws of variance 2 / inputs: He and others (2015).

    Args:
      in_axis, out_axis, batch_axis, dtype: as for `variance_scaling`.

    Returns:
      An `Initializer`.

    Raises:
      ValueError, IndexError: where `variance_scaling` does.

    >>> from curta import nn, random
    >>> nn.initializers.he_uniform()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(
        2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype
    )


def he_normal(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Truncated normal draws of variance 2 / inputs.

    Args:
      in_axis, out_axis, batch_axis, dtype: as for `variance_scaling`.

    Returns:
      An `Initializer`.

    Raises:
      ValueError, IndexError: where `variance_scaling` does.

    >>> from curta import nn, random
    >>> nn.initializers.he_normal()(random.key(0), (2, 3)).shape
    (2, 3)
    """
    return variance_scaling(
        2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer of matrices with orthonormal rows or columns, times `scale`.

    The rows are all axes but `column_axis` of a shape of rank 2 at least.

    Args:
      scale: the factor; 1 by default.
      column_axis: the axis of the columns; the last by default.
      dtype: a float or complex dtype, by default the default float one.

    Returns:
      An `Initializer`.

    Raises:
      ValueError: when the initializer is called, if the shape has fewer than two dims
        or the dtype is not supported.
      IndexError: when the initializer is called, if the axis is out of range.

    >>> from curta import nn, random
    >>> nn.initializers.orthogonal()(random.key(0), (2, 3)).shape
    (2, 3)
    """

    def make(key: Any, shape: Any, dtype: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("orthogonal initializer requires at least a 2D shape")
        shape = canonicalize_shape(shape)
        if 0 in shape:
            return jnp.zeros(shape, dtype)
        columns = shape[column_axis]
        rest = tuple(int(d) for d in np.delete(shape, column_axis))
        q = random.orthogonal(key, math.prod(rest), (), dtype, columns)
        q = jnp.moveaxis(jnp.reshape(q, (*rest, columns)), -1, column_axis)
        return jnp.array(scale, dtype) * q

    return _initializer(make, dtype)


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer of convolution kernels that are orthogonal at their center.

    The shape has 1 to 3 spatial dims, then inputs, then outputs, which are not fewer.
    Elsewhere the kernel is 0: Xiao and others (2018).

    Args:
      scale, column_axis, dtype: as for `orthogonal`.

    Returns:
      An `Initializer`.

    Raises:
      ValueError: when the initializer is called, if the rank is not supported or there
        are more inputs than outputs.
      IndexError: when the initializer is called, if the axis is out of range.

    >>> from curta import nn, random
    >>> nn.initializers.delta_orthogonal()(random.key(0), (3, 3, 3)).shape
    (3, 3, 3)
    """

    def make(key: Any, shape: Any, dtype: Any) -> Any:
        if len(shape) not in (3, 4, 5):
            raise ValueError(
                "Delta orthogonal initializer requires a 3D, 4D or 5D shape, got"
                f" {shape}."
            )
        shape = canonicalize_shape(shape)
        if shape[-1] < shape[-2]:
            raise ValueError(
                "`fan_in` must be less or equal than `fan_out`, the last two dims, got"
                f" {shape}."
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        centre = tuple((k - 1) // 2 for k in shape[:-2])
        return jnp.zeros(shape, dtype).at[centre].set(matrix)

    return _initializer(make, dtype)
