"""Evenly spaced numbers."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

from curta import dtypes, lax
from curta._settings.api_version import LINSPACE_DIVIDES_STOP
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.dim import as_dim, is_symbolic_dim, range_length
from curta.errors import InconclusiveDimensionOperation
from curta.numpy.arguments import (
    axis_of_shape,
    canonical_axis,
    concrete,
    concrete_index,
    ensure_arraylikes,
    ensure_operands,
    is_arraylike,
    user_dtype,
)
from curta.numpy.arithmetic import power
from curta.numpy.constructors import asarray
from curta.numpy.creation import put_on
from curta.numpy.elementary import log10
from curta.numpy.promotion import (
    broadcast_to_shape,
    cast,
    cast_as_asked,
    promote_shapes,
)


def _check_scalars(*given: Any) -> None:
    if given[0] is None:
        raise TypeError("arange must be given a real number, not NoneType, as start.")
    for position, x in enumerate(given):
        if not (x is None or is_arraylike(x)):
            raise TypeError(
                "arange requires ndarray, scalar, or None arguments, got"
                f" {type(x)} at position {position}."
            )


@takes_out_sharding
def arange(
    start: ArrayLike | int,
    stop: ArrayLike | int | float | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The numbers from `start` (0 if only one is given) up to `stop`, in steps.

    Args:
      start: the first number, a known real scalar; the end if `stop` is None.
      stop: the end, which is left out. None (default) stands for `start`, which is 0
        then.
      step: the distance of numbers, not 0. None (default) is 1.
      dtype: the dtype. None (default) is what the arguments promote to.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the array; None (default)
        for none.

    Returns:
      A vector of ceil((stop - start) / step) numbers.

    Raises:
      TypeError: an argument is a list or a string; `dtype` is unknown; `out_sharding`
        is not a sharding.
      ValueError: an argument is complex or no scalar; `device` is neither a device nor
        a sharding.
      ZeroDivisionError: `step` is 0.
      ConcretizationTypeError: an argument is traced.

    >>> from curta import numpy as jnp
    >>> jnp.arange(2, 8, 3)
    Array([2, 5], dtype=int32)
    """
    dtype = user_dtype(dtype, "arange")
    _check_scalars(start, stop, step)
    if stop is None and step is None:
        names: tuple[str, ...] = ("stop",)
        values = [_known("stop", start)]
    else:
        names = ("start", "stop", "step")
        values = [_known(n, x) for n, x in zip(names, (start, stop, step))]
    given = [x for x in values if x is not None]
    for name, x in zip(names, values):
        if x is not None and np.ndim(x) != 0:
            raise ValueError(
                f"jax.numpy.arange: arguments must be scalars; got {name}={x}"
            )
    if dtype is None:
        dtype = dtypes.result_type(*given)
    if any(np.iscomplexobj(x) for x in given):
        raise ValueError(
            "Passing complex start/stop/step to jnp.arange is no longer supported"
            " starting in JAX v0.10.0."
        )
    start, stop, step = values if len(values) == 3 else (0, values[0], None)
    if stop is None:
        start, stop = 0, start
    if any(map(is_symbolic_dim, given)):
        step = 1 if step is None else step
        return put_on(device, _symbolic_arange(start, stop, step, dtype))
    return put_on(device, _arange(start, stop, step, dtype))


def _known(name: str, x: Any) -> Any:
    x = concrete(x, f"It arose in the jnp.arange argument '{name}'")
    return np.asarray(x)[()] if hasattr(x, "aval") else x


def _arange(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    if step is not None:
        half = (
            dtypes.issubdtype(dtype, np.floating) and dtypes.itemsize_bits(dtype) < 32
        )
        working = np.dtype(np.float32) if half else dtype
        count = max(0, math.ceil((stop - start) / step))
        steps = lax.broadcasted_iota(working, (count,), 0)
        steps = lax.mul(cast(step, working), steps)
        return cast(lax.add(cast(start, working), steps), dtype)
    count = max(0, math.ceil(stop - start))
    numbers = lax.broadcasted_iota(dtype, (count,), 0)
    return numbers if start == 0 else lax.add(cast(start, dtype), numbers)


def _symbolic_arange(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    try:
        start, stop, step = as_dim(start), as_dim(stop), as_dim(step)
    except TypeError:
        raise ValueError(
            "In arange with non-constant arguments all of start, stop, and step must be"
            f" either dimension expressions or integers: start={start}, stop={stop},"
            f" step={step}"
        ) from None
    if step == 0:
        raise ValueError("arange has step == 0")
    try:
        count = range_length(start, stop, step)
    except InconclusiveDimensionOperation as error:
        raise InconclusiveDimensionOperation(
            f"In arange with non-constant arguments the step ({step}) must be resolved"
            f" statically if it is > 0 or < 0.\nDetails: {error}"
        ) from None
    steps = lax.mul(cast(step, dtype), lax.broadcasted_iota(dtype, (count,), 0))
    return lax.add(cast(start, dtype), steps)


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    retstep: Literal[False] = ...,
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    *,
    device: Any = ...,
) -> Array: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = ...,
    endpoint: bool = ...,
    *,
    retstep: Literal[True],
    dtype: DTypeLike | None = ...,
    axis: int = ...,
    device: Any = ...,
) -> tuple[Array, Array]: ...
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`.

    Args:
      start: the first number, a scalar or array.
      stop: the last number, a scalar or array that broadcasts with `start`.
      num: how many numbers, a static int, not negative. Default 50.
      endpoint: whether `stop` is the last number. Default True; without it, the step is
        (stop - start) / num.
      retstep: return the step as well. Default False.
      dtype: the dtype. None (default) is what the ends promote to, at least the default
        float dtype.
      axis: int, the dim of the result along which the numbers vary. Default 0.
      device: a device or `Sharding` where the array is to be; None (default) is the
        default device.

    Returns:
      The numbers: the broadcast shape of the ends, with `num` at `axis`; with `retstep`
      a pair of these and the step.

    Raises:
      TypeError: `start` or `stop` is a list or a string; `num` or `axis` is not an
        integer; `dtype` is unknown.
      ValueError: `num` is negative; `axis` is out of bounds (an IndexError too), or the
        ends do not broadcast; `device` is neither a device nor a sharding.
      ConcretizationTypeError: `num` is traced.

    >>> from curta import numpy as jnp
    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = concrete_index(num, "'num' argument of jnp.linspace")
    axis = concrete_index(axis, "'axis' argument of jnp.linspace")
    dtype = user_dtype(dtype, "linspace")
    out = _linspace(start, stop, num, endpoint, retstep, dtype, axis)
    return put_on(device, out)


@inner_jit(static_argnames=("num", "endpoint", "retstep", "dtype", "axis"))
def _linspace(
    start: Any,
    stop: Any,
    num: int,
    endpoint: bool,
    retstep: bool,
    dtype: Any,
    axis: int,
) -> Any:
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = ensure_operands("linspace", start, stop)
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    computed = dtypes.to_inexact_dtype(dtype)
    start, stop = [cast_as_asked(x, computed) for x in (start, stop)]
    shape = lax.broadcast_shapes(np.shape(start), np.shape(stop))
    start, stop = promote_shapes("linspace", start, stop)
    axis = axis_of_shape(axis, len(shape) + 1)
    samples = _linspace_samples(start, stop, num, endpoint, computed, shape, axis)
    out, step = samples
    if dtypes.issubdtype(dtype, np.integer):
        out = lax.floor(out)
    out = cast(out, dtype)
    return (out, step) if retstep else out


def _linspace_samples(
    start: Any,
    stop: Any,
    num: int,
    endpoint: bool,
    dtype: Any,
    shape: tuple[int, ...],
    axis: int,
) -> tuple[Any, Any]:
    first, last = broadcast_to_shape(start, shape), broadcast_to_shape(stop, shape)
    one = (*shape[:axis], 1, *shape[axis:])
    count = num - 1 if endpoint else num
    if num == 0:
        none = (*shape[:axis], 0, *shape[axis:])
        return lax.full(none, 0, dtype), lax.full((), np.nan, dtype)
    if not num > 1:  # not `== 1`, which is False of a size that is not known
        step = np.asarray(np.nan, dtype) if endpoint else lax.sub(stop, start)
        return lax.reshape(first, one), asarray(step)
    step = lax.div(lax.sub(stop, start), _number(count, dtype))
    real = dtypes.finfo(dtype).dtype
    ramp_shape = [1] * len(one)
    ramp_shape[axis] = count
    counts = _reshaped(lax.iota(real, count), tuple(ramp_shape))
    ramp = cast(lax.div(counts, _number(count, real)), dtype)
    falling = lax.mul(lax.reshape(first, one), lax.sub(np.asarray(1, dtype)[()], ramp))
    last_part = lax.reshape(last, one)
    if LINSPACE_DIVIDES_STOP.applies():
        last_part = lax.div(last_part, _number(count, dtype))
        ramp = cast(counts, dtype)
    out = lax.add(falling, lax.mul(last_part, ramp))
    if endpoint:
        out = lax.concatenate([out, lax.expand_dims(last, (axis,))], axis)
    return out, step


def _number(count: Any, dtype: Any) -> Any:
    """A size, which may be symbolic, as a scalar."""
    if is_symbolic_dim(count):
        return cast(count, dtype)
    return np.asarray(count, dtype)[()]


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else lax.reshape(x, shape)


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`base` to the power of evenly spaced exponents.

    Args:
      start: the first exponent, a scalar or array.
      stop: the last exponent, a scalar or array that broadcasts with `start`.
      num: how many numbers, a static int, not negative. Default 50.
      endpoint: whether `stop` is the last one. Default True.
      base: the base, a scalar or array that broadcasts. Default 10.
      dtype: the dtype. None (default) is what the ends promote to, at least the default
        float dtype.
      axis: int, the dim of the result along which the numbers vary. Default 0.

    Returns:
      The numbers: the broadcast shape of the ends, with `num` at `axis`.

    Raises:
      TypeError: `start` or `stop` is a list or a string; `num` or `axis` is not an
        integer; `dtype` is unknown; `base` does not broadcast.
      ValueError: `num` is negative; `axis` is out of bounds (an IndexError too), or the
        ends do not broadcast.
      ConcretizationTypeError: `num` is traced.

    >>> from curta import numpy as jnp
    >>> jnp.logspace(0, 2, 3, base=2.0)
    Array([1., 2., 4.], dtype=float32)
    """
    num = concrete_index(num, "'num' argument of jnp.logspace")
    axis = concrete_index(axis, "'axis' argument of jnp.logspace")
    dtype = user_dtype(dtype, "logspace")
    return _logspace(start, stop, num, endpoint, base, dtype, axis)


@inner_jit(static_argnames=("num", "endpoint", "dtype", "axis"))
def _logspace(
    start: Any, stop: Any, num: int, endpoint: bool, base: Any, dtype: Any, axis: int
) -> Any:
    start, stop = ensure_arraylikes("logspace", start, stop)
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    computed = dtypes.to_inexact_dtype(dtype)
    start, stop = [cast_as_asked(x, computed) for x in (start, stop)]
    exponents = linspace(start, stop, num, endpoint=endpoint, axis=axis)
    return lax.convert_element_type(power(base, exponents), dtype)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from `start` to `stop` with a constant ratio.

    Args:
      start: the first number, a scalar or array; not 0, which makes all NaN.
      stop: the last number, a scalar or array that broadcasts with `start`; not 0.
      num: how many numbers, a static int, not negative. Default 50.
      endpoint: whether `stop` is the last one. Default True.
      dtype: the dtype. None (default) is what the ends promote to, at least the default
        float dtype.
      axis: int, the dim of the result along which the numbers vary. Default 0.

    Returns:
      The numbers: the broadcast shape of the ends, with `num` at `axis`.

    Raises:
      TypeError: `start` or `stop` is a list or a string; `num` or `axis` is not an
        integer; `dtype` is unknown; shapes do not broadcast.
      ValueError: `num` is negative; `axis` is out of bounds.
      ConcretizationTypeError: `num` is traced.

    >>> from curta import numpy as jnp
    >>> jnp.geomspace(1, 100, 3).round(2)
    Array([  1.,  10., 100.], dtype=float32)
    """
    num = concrete_index(num, "'num' argument of jnp.geomspace")
    axis = concrete_index(axis, "'axis' argument of jnp.geomspace")
    dtype = user_dtype(dtype, "geomspace")
    return _geomspace(start, stop, num, endpoint, dtype, axis)


@inner_jit(static_argnames=("num", "endpoint", "dtype", "axis"))
def _geomspace(
    start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int
) -> Any:
    start, stop = ensure_arraylikes("geomspace", start, stop)
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    computed = dtypes.to_inexact_dtype(dtype)
    start, stop = [cast_as_asked(x, computed) for x in (start, stop)]
    start, stop = promote_shapes("geomspace", start, stop)
    sign = lax.sign(start)
    exponents = log10(lax.div(start, sign)), log10(lax.div(stop, sign))
    powers = logspace(*exponents, num, endpoint=endpoint, dtype=computed)
    out = lax.mul(*promote_shapes("geomspace", sign, powers))
    axis = canonical_axis(axis, out.ndim)
    if axis:
        order = (*range(1, axis + 1), 0, *range(axis + 1, out.ndim))
        out = lax.transpose(out, order)
    return lax.convert_element_type(out, dtype)
