"""Arrays from nothing: zeros, ranges, grids, the identity."""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.devices import device_put
from curta.api.inner import inner_jit
from curta.api.vmap import vmap
from curta.numpy.arguments import (
    canonical_axis,
    canonical_shape,
    check_arraylike,
    concrete,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    user_dtype,
)
from curta.numpy.arithmetic import power
from curta.numpy.constructors import array, asarray
from curta.numpy.elementary import log10
from curta.numpy.promotion import broadcast_to_shape, cast, const

# ---- one value everywhere


def zeros(
    shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """An array of zeros, float32 by default.

    >>> from curta import numpy as jnp
    >>> jnp.zeros((2, 2), dtype=int)
    Array([[0, 0],
           [0, 0]], dtype=int32)
    """
    return _filled("zeros", shape, 0, dtype, device)


def ones(
    shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """An array of ones, float32 by default.

    >>> from curta import numpy as jnp
    >>> jnp.ones(3)
    Array([1., 1., 1.], dtype=float32)
    """
    return _filled("ones", shape, 1, dtype, device)


def empty(
    shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Any:
    """An array of zeros: nothing is left uninitialised.

    >>> from curta import numpy as jnp
    >>> jnp.empty(2)
    Array([0., 0.], dtype=float32)
    """
    return _filled("empty", shape, 0, dtype, device)


def _filled(name: str, shape: Any, value: int, dtype: Any, device: Any) -> Any:
    if isinstance(shape, types.GeneratorType):
        raise TypeError(
            "expected sequence object with len >= 0 or a single integer"
        )
    if isinstance(dtype, int) and isinstance(shape, int):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type.\n\nDid you accidentally write"
            f" `jax.numpy.{name}({shape}, {dtype})` when you meant"
            f" `jax.numpy.{name}(({shape}, {dtype}))`, i.e. with a single tuple"
            " argument for the shape?"
        )
    dtype = user_dtype(float if dtype is None else dtype, name)
    return _on(device, lax.full(canonical_shape(shape), value, dtype))


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """An array with every element `fill_value`, which may also be broadcast.

    >>> from curta import numpy as jnp
    >>> jnp.full((2, 2), jnp.array([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    dtype = user_dtype(dtype, "full")
    check_arraylike("full", fill_value)
    if np.ndim(fill_value) == 0:
        return _on(device, lax.full(canonical_shape(shape), fill_value, dtype))
    fill_value = asarray(fill_value, dtype=dtype)
    return _on(device, broadcast_to_shape(fill_value, canonical_shape(shape)))


def zeros_like(
    a: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Zeros in the shape and dtype of `a`, or in others that are given.

    >>> from curta import numpy as jnp
    >>> jnp.zeros_like(jnp.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    return _filled_like("zeros_like", a, 0, dtype, shape, device)


def ones_like(
    a: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Ones in the shape and dtype of `a`, or in others that are given.

    >>> from curta import numpy as jnp
    >>> jnp.ones_like(jnp.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    return _filled_like("ones_like", a, 1, dtype, shape, device)


def empty_like(
    prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None
) -> Any:
    """The same as `zeros_like`.

    >>> from curta import numpy as jnp
    >>> jnp.empty_like(jnp.arange(2))
    Array([0, 0], dtype=int32)
    """
    return _filled_like("empty_like", prototype, 0, dtype, shape, device)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`fill_value` in the shape and dtype of `a`, or in others that are given.

    >>> from curta import numpy as jnp
    >>> jnp.full_like(jnp.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    if np.ndim(fill_value) == 0:
        return _filled_like("full_like", a, fill_value, dtype, shape, device)
    check_arraylike("full_like", 0, fill_value)
    dtype = user_dtype(dtype, "full_like")
    shape = np.shape(a) if shape is None else canonical_shape(shape)
    fill_value = asarray(fill_value, dtype=dtypes.result_type(a) if dtype is None else dtype)
    return _on(device, broadcast_to_shape(fill_value, shape))


def _filled_like(
    name: str, a: Any, value: Any, dtype: Any, shape: Any, device: Any
) -> Any:
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        a = ensure_arraylike(name, a)
    check_arraylike(name, value)
    dtype = user_dtype(dtype, name)
    shape = None if shape is None else canonical_shape(shape)
    return _on(device, lax.full_like(a, value, dtype, shape))


def _on(device: Any, x: Any) -> Any:
    return x if device is None else device_put(x, device)


# ---- ranges


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """The numbers from `start` (0 if only one is given) up to `stop`, in steps.

    The arguments are known scalars; ConcretizationTypeError if they are traced.

    >>> from curta import numpy as jnp
    >>> jnp.arange(2, 8, 3)
    Array([2, 5], dtype=int32)
    """
    dtype = user_dtype(dtype, "arange")
    check_arraylike("arange", start)
    if stop is None and step is None:
        names = ("stop",)
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
    return _on(device, _arange(start, stop, step, dtype))


def _known(name: str, x: Any) -> Any:
    x = concrete(x, f"It arose in the jnp.arange argument '{name}'")
    return np.asarray(x)[()] if hasattr(x, "aval") else x


def _arange(start: Any, stop: Any, step: Any, dtype: Any) -> Any:
    if step is not None:
        half = dtypes.issubdtype(dtype, np.floating) and dtypes.itemsize_bits(dtype) < 32
        working = np.dtype(np.float32) if half else dtype
        count = max(0, math.ceil((stop - start) / step))
        steps = lax.broadcasted_iota(working, (count,), 0)
        steps = lax.mul(cast(step, working), steps)
        return cast(lax.add(cast(start, working), steps), dtype)
    count = max(0, math.ceil(stop - start))
    numbers = lax.broadcasted_iota(dtype, (count,), 0)
    return numbers if start == 0 else lax.add(cast(start, dtype), numbers)


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
    """`num` evenly spaced numbers from `start` to `stop`, the latter included.

    With arrays for the ends, the numbers lie along a new dim `axis`. `retstep` gives
    the step as well.

    >>> from curta import numpy as jnp
    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = concrete_index(num, "'num' argument of jnp.linspace")
    axis = concrete_index(axis, "'axis' argument of jnp.linspace")
    dtype = user_dtype(dtype, "linspace")
    out = _linspace(start, stop, num, endpoint, retstep, dtype, axis)
    return _on(device, out)


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
    start, stop = ensure_arraylikes("linspace", start, stop)
    if dtype is None:
        dtype = dtypes.to_inexact_dtype(dtypes.result_type(start, stop))
    computed = dtypes.to_inexact_dtype(dtype)
    start, stop = cast(start, computed), cast(stop, computed)
    shape = lax.broadcast_shapes(np.shape(start), np.shape(stop))
    axis = canonical_axis(axis, len(shape) + 1)
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
    if num == 1:
        step = np.asarray(np.nan, dtype) if endpoint else lax.sub(stop, start)
        return lax.reshape(first, one), asarray(step)
    step = lax.div(lax.sub(stop, start), np.asarray(count, dtype)[()])
    real = dtypes.finfo(dtype).dtype
    ramp_shape = [1] * len(one)
    ramp_shape[axis] = count
    ramp = _reshaped(lax.iota(real, count), tuple(ramp_shape))
    ramp = cast(lax.div(ramp, np.asarray(count, real)[()]), dtype)
    rising = lax.mul(
        lax.reshape(first, one), lax.sub(np.asarray(1, dtype)[()], ramp)
    )
    out = lax.add(rising, lax.mul(lax.reshape(last, one), ramp))
    if endpoint:
        out = lax.concatenate([out, lax.expand_dims(last, (axis,))], axis)
    return out, step


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else lax.reshape(x, shape)


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`base` to the power of evenly spaced exponents.

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
    start, stop = cast(start, computed), cast(stop, computed)
    exponents = linspace(start, stop, num, endpoint=endpoint, axis=axis)
    return lax.convert_element_type(power(base, exponents), dtype)


def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers from `start` to `stop` with a constant ratio.

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
    start, stop = cast(start, computed), cast(stop, computed)
    sign = lax.sign(start)
    exponents = log10(lax.div(start, sign)), log10(lax.div(stop, sign))
    powers = logspace(*exponents, num, endpoint=endpoint, dtype=computed)
    out = lax.mul(sign, powers)
    axis = canonical_axis(axis, out.ndim)
    if axis:
        order = (*range(1, axis + 1), 0, *range(axis + 1, out.ndim))
        out = lax.transpose(out, order)
    return lax.convert_element_type(out, dtype)


# ---- matrices


def eye(
    N: int, M: int | None = None, k: Any = 0, dtype: Any = None, *, device: Any = None
) -> Any:
    """An N×M matrix with ones on the k-th diagonal.

    >>> from curta import numpy as jnp
    >>> jnp.eye(2, 3, k=1)
    Array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    dtype = user_dtype(float if dtype is None else dtype, "eye")
    if isinstance(k, int):
        info = np.iinfo(np.int32)
        k = min(max(k, int(info.min)), int(info.max))
    k = ensure_arraylike("eye", k)
    if k.shape != () or not dtypes.issubdtype(k.dtype, np.integer):
        raise ValueError(f"k must be a scalar integer; got {k}")
    rows = canonical_shape((N,), "argument of 'N' jnp.eye()")[0]
    columns = rows if M is None else canonical_shape((M,), "argument 'M' of jnp.eye()")[0]
    if rows < 0 or columns < 0:
        raise ValueError(f"negative dimensions are not allowed, got {N} and {M}")
    i = lax.broadcasted_iota(k.dtype, (rows, columns), 0)
    j = lax.broadcasted_iota(k.dtype, (rows, columns), 1)
    diagonal = lax.eq(lax.add(i, cast(k, k.dtype)), j)
    return _on(device, lax.convert_element_type(diagonal, dtype))


def identity(n: int, dtype: Any = None) -> Any:
    """The n×n identity matrix.

    >>> from curta import numpy as jnp
    >>> jnp.identity(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return eye(n, dtype=user_dtype(dtype, "identity"))


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """An N×M matrix with ones on and below the k-th diagonal.

    >>> from curta import numpy as jnp
    >>> jnp.tri(2, 3)
    Array([[1., 0., 0.],
           [1., 1., 0.]], dtype=float32)
    """
    dtype = np.dtype(np.float32) if dtype is None else user_dtype(dtype, "tri")
    k = ensure_arraylike("tri", k)
    if not dtypes.issubdtype(k.dtype, np.integer):
        raise TypeError(f"offset must be an integer, got {k!r}")
    shape = (operator.index(N), operator.index(N if M is None else M))
    i = lax.broadcasted_iota(np.int32, shape, 0)
    below = lax.add(i, cast(k, np.dtype(np.int32)))
    below = lax.ge(below, lax.broadcasted_iota(np.int32, shape, 1))
    return lax.convert_element_type(below, dtype)


@inner_jit(static_argnames=("k",))
def tril(m: Any, k: int = 0) -> Any:
    """`m` with zeros above the k-th diagonal, of each matrix in the last two dims.

    >>> from curta import numpy as jnp
    >>> jnp.tril(jnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    m, mask = _triangle("tril", m, k)
    return lax.select(mask, m, lax.full_like(m, 0))


@inner_jit(static_argnames=("k",))
def triu(m: Any, k: int = 0) -> Any:
    """`m` with zeros below the k-th diagonal, of each matrix in the last two dims.

    >>> from curta import numpy as jnp
    >>> jnp.triu(jnp.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    m, mask = _triangle("triu", m, k - 1)
    return lax.select(mask, lax.full_like(m, 0), m)


def _triangle(name: str, m: Any, k: int) -> tuple[Any, Any]:
    m = ensure_arraylike(name, m)
    if m.ndim < 2:
        raise ValueError(f"Argument to jax.numpy.{name} must be at least 2D")
    mask = tri(*m.shape[-2:], k=k, dtype=bool)
    return m, lax.broadcast(mask, m.shape[:-2])


@inner_jit(static_argnames=("N", "increasing"))
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The matrix whose columns are the powers of x, falling unless `increasing`.

    >>> from curta import numpy as jnp
    >>> jnp.vander(jnp.array([1, 2, 3]), 2)
    Array([[1, 1],
           [2, 1],
           [3, 1]], dtype=int32)
    """
    x = ensure_arraylike("vander", x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    N = x.shape[0] if N is None else concrete_index(N, "'N' argument of jnp.vander()")
    if N < 0:
        raise ValueError("N must be nonnegative")
    exponents = lax.iota(x.dtype, N)
    if not increasing:
        exponents = lax.sub(const(exponents, N - 1), exponents)
    return power(lax.expand_dims(x, (1,)), lax.expand_dims(exponents, (0,)))


# ---- grids


def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Any]:
    """Coordinate arrays of the grid spanned by one-dimensional arrays.

    `indexing` "xy" swaps the first two dims; `sparse` leaves dims of size 1.

    >>> from curta import numpy as jnp
    >>> jnp.meshgrid(jnp.arange(2), jnp.arange(2))[0]
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    args = list(ensure_arraylikes("meshgrid", *xi))
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if any(a.ndim != 1 for a in args):
        raise ValueError(
            "Arguments to jax.numpy.meshgrid must be 1D, got shapes"
            f" {[a.shape for a in args]}"
        )
    swap = indexing == "xy" and len(args) >= 2
    if swap:
        args[:2] = args[1::-1]
    sizes = [a.shape[0] for a in args]
    out = []
    for i, a in enumerate(args):
        shape = [d if not sparse or i == j else 1 for j, d in enumerate(sizes)]
        out.append(lax.broadcast_in_dim(a, tuple(shape), (i,)))
    if swap:
        out[:2] = out[1::-1]
    return out


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The indices of every element of an array of a shape, stacked along dim 0.

    With `sparse`, a tuple of arrays that broadcast to them.

    >>> from curta import numpy as jnp
    >>> jnp.indices((2, 2))[1]
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    dtype = user_dtype(int if dtype is None else dtype, "indices")
    where = "dimensions argument of jnp.indices"
    sizes = tuple(concrete_index(d, where) for d in dimensions)
    out = []
    for i, size in enumerate(sizes):
        shape = [d if not sparse or i == j else 1 for j, d in enumerate(sizes)]
        out.append(lax.broadcast_in_dim(lax.iota(dtype, size), tuple(shape), (i,)))
    if sparse:
        return tuple(out)
    return lax.stack(out, 0) if out else array([], dtype=dtype)


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """`function` of the indices of each element, mapped over all of them.

    >>> from curta import numpy as jnp
    >>> jnp.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    shape = canonical_shape(shape, "shape argument of jnp.fromfunction()")
    for i in range(len(shape)):
        axes = tuple(0 if i == j else None for j in range(len(shape)))[::-1]
        function = vmap(function, in_axes=axes)
    return function(*(arange(d, dtype=dtype) for d in shape), **kwargs)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    """The elements of a buffer of bytes.

    >>> from curta import numpy as jnp
    >>> jnp.frombuffer(b"\\x01\\x02", dtype=jnp.uint8)
    Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=np.dtype(dtype), count=count, offset=offset))
