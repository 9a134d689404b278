"""The frequencies that transforms give, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.devices import device_put
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import check_arraylike, concrete, ensure_arraylike
from curta.numpy.constructors import asarray
from curta.numpy.rearranging import roll


def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """The frequencies of `fft` of `n` samples that lie `d` apart, in cycles per unit.

    [0, 1, ..., (n-1)/2, -n/2, ..., -1] / (n d), with quotients rounded down.

    Args:
      n: the number of samples, a static int.
      d: the distance of samples, a scalar. Default 1.
      dtype: a dtype of floats. None (default) is the default float dtype.
      device: a device or `Sharding` where the result is to be; None (default) is the
        default device.

    Returns:
      A vector of n frequencies.

    Raises:
      TypeError: `dtype` is unknown.
      ValueError: `n` or `d` is a list or tuple; `device` is neither a device nor a
        sharding.

    >>> from curta import numpy as jnp
    >>> jnp.fft.fftfreq(4, 0.5)
    Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    n = _known_length("fftfreq", n, d)
    numbers = np.arange(n)
    numbers = np.where(numbers < (n + 1) // 2, numbers, numbers - n)
    out = _frequencies(numbers, n, d, dtype, device)
    return out if dtype is None else lax.convert_element_type(out, dtype)


def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: Any = None
) -> Array:
    """The frequencies of `rfft` of `n` samples that lie `d` apart, in cycles per unit.

    [0, 1, ..., n/2] / (n d), with n/2 rounded down.

    Args:
      n: the number of samples, a static int.
      d: the distance of samples, a scalar. Default 1.
      dtype: a dtype of floats. None (default) is the default float dtype.
      device: a device or `Sharding` where the result is to be; None (default) is the
        default device.

    Returns:
      A vector of n // 2 + 1 frequencies.

    Raises:
      TypeError: `dtype` is unknown.
      ValueError: `n` or `d` is a list or tuple; `device` is neither a device nor a
        sharding.

    >>> from curta import numpy as jnp
    >>> jnp.fft.rfftfreq(5, 0.5)
    Array([0. , 0.4, 0.8], dtype=float32)
    """
    n = _known_length("rfftfreq", n, d)
    if dtype is not None and dtypes.check_user_dtype(dtype, "rfftfreq") == np.bool_:
        raise TypeError("rfftfreq does not accept dtype bool: it counts frequencies.")
    return _frequencies(np.arange(n // 2 + 1), n, d, dtype, device)


def _known_length(name: str, n: Any, d: Any) -> Any:
    for argument, value in ("n", n), ("d", d):
        if isinstance(value, (list, tuple)):
            raise ValueError(
                f"The {argument} argument of jax.numpy.fft.{name} only takes"
                f" {'an int' if argument == 'n' else 'a single value'}. Got"
                f" {argument} = {list(value)}."
            )
    n = concrete(n, f"It arose in the n argument of jnp.fft.{name}.")
    check_arraylike(f"jax.numpy.fft.{name}", n)
    if np.ndim(n) != 0:
        raise ValueError(f"jax.numpy.fft.{name}: n must be a scalar; got n={n}")
    return n


def _frequencies(numbers: Any, n: int, d: Any, dtype: Any, device: Any) -> Any:
    dtype = dtypes.check_user_dtype(float if dtype is None else dtype, "fftfreq")
    working = dtypes.to_inexact_dtype(dtype)
    out = asarray(numbers.astype(working)) / asarray(d * n, working)
    return out if device is None else device_put(out, device)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """`x` with the zero frequency moved to the middle, along all axes or some.

    >>> from curta import numpy as jnp
    >>> jnp.fft.fftshift(jnp.fft.fftfreq(5, 0.2))
    Array([-2., -1.,  0.,  1.,  2.], dtype=float32)
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`.

    >>> from curta import numpy as jnp
    >>> jnp.fft.ifftshift(jnp.array([-2, -1, 0, 1, 2]))
    Array([ 0,  1,  2, -2, -1], dtype=int32)
    """
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Any:
    x = ensure_arraylike(name, x)
    if axes is None:
        axes = tuple(range(x.ndim))
    several = (axes,) if isinstance(axes, int) else tuple(axes)
    halves = [x.shape[a] // 2 for a in several]
    return roll(x, tuple(sign * h for h in halves), several)
