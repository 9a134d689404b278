"""The most common value, ranks, and the standard error of the mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.vmap import vmap
from curta.core.array import Array, ArrayLike
from curta.core.shapes import dim_of
from curta.numpy.arguments import canonical_axis, check_arraylike
from curta.numpy.promotion import inexact_operands

_POLICIES = ("propagate", "omit", "raise")


class ModeResult(NamedTuple):
    """The most common values, and how often each occurs."""

    mode: Any
    count: Any


def _check_policy(name: str, nan_policy: str) -> None:
    if nan_policy not in _POLICIES:
        raise ValueError(
            f"Illegal nan_policy value {nan_policy!r}; expected one of"
            " {'propagate', 'omit', 'raise'}"
        )
    if nan_policy == "omit":
        raise NotImplementedError(
            f"Logic for `nan_policy` of {nan_policy} is not implemented"
        )
    if nan_policy == "raise":
        raise NotImplementedError(
            f"In order to best JIT compile `{name}`, we cannot know whether `x`"
            " contains nans. Please check if nans exist in `x` outside of the"
            f" `{name}` function."
        )


@inner_jit(static_argnames=("axis", "nan_policy", "keepdims"))
def mode(
    a: ArrayLike,
    axis: int | None = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> ModeResult:
    """The most common value along `axis`, the least of several, and its count.

    Args:
      a: array.
      axis: the axis, 0 by default; None for all elements.
      nan_policy: "propagate".
      keepdims: keep the axis with size 1.

    Returns:
      A `ModeResult`: the values, of the dtype of a, and their counts.

    Raises:
      NotImplementedError: if `nan_policy` is "omit" or "raise".
      ValueError: if the policy is unknown or `axis` is out of range.
      TypeError: if an operand is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import stats
    >>> value, count = stats.mode(jnp.array([2, 4, 1, 4]))
    >>> print(value, count)
    4 2
    """
    check_arraylike("mode", a)
    _check_policy("mode", nan_policy)
    x = jnp.atleast_1d(a)
    if axis is None:
        shape = (1,) * x.ndim if keepdims else ()
        x, axis = x.ravel(), 0
    else:
        axis = canonical_axis(axis, x.ndim)
        kept = (1,) if keepdims else ()
        shape = (*x.shape[:axis], *kept, *x.shape[axis + 1 :])
    rows = jnp.moveaxis(x, axis, -1)
    if x.shape[axis] == 0:
        nothing = dtypes.default_float_dtype()
        return ModeResult(jnp.full(shape, np.nan, nothing), jnp.zeros(shape, nothing))
    values, counts = vmap(_most_common)(rows.reshape(-1, x.shape[axis]))
    return ModeResult(values.reshape(shape), counts.reshape(shape))


@inner_jit
def _most_common(x: Any) -> tuple[Any, Any]:
    values, counts = jnp.unique(x, return_counts=True, size=x.size)
    return values[jnp.argmax(counts)], counts.max()


@inner_jit(static_argnames=("method", "axis", "nan_policy"))
def rankdata(
    a: ArrayLike,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Array:
    """The ranks of the values from 1 on, as floats; all NaN if one of them is.

    Args:
      a: array.
      method: the rank of equal values: the "average", "min" or "max" of the ranks that
        they take together; "dense", like min, without gaps; "ordinal", all distinct,
        in order of occurrence.
      axis: rank along this axis; by default the flattened array.
      nan_policy: "propagate".

    Returns:
      Floats of the shape of a, or of one dim.

    Raises:
      ValueError: if the method or policy is unknown or `axis` is out of range.
      NotImplementedError: if `nan_policy` is "omit" or "raise".
      TypeError: if an operand is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import stats
    >>> stats.rankdata(jnp.array([0, 2, 3, 2]))
    Array([1. , 2.5, 4. , 2.5], dtype=float32)
    """
    check_arraylike("rankdata", a)
    _check_policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"unknown method '{method}'")
    if axis is not None:
        return jnp.apply_along_axis(lambda row: _ranks(row, method), axis, a)
    return _ranks(jnp.ravel(a), method)


def _ranks(a: Any, method: str) -> Any:
    dtype = dtypes.default_float_dtype()
    values, order = lax.sort_key_val(a, jnp.arange(a.size))
    rank = jnp.zeros_like(order).at[order].set(jnp.arange(a.size, dtype=order.dtype))
    if method == "ordinal":
        ranks = rank + 1
    else:
        first = jnp.concatenate([jnp.array([True]), values[1:] != values[:-1]])[
            : a.size
        ]
        dense = jnp.cumsum(first)[rank]
        starts = jnp.nonzero(first, size=a.size + 1, fill_value=a.size)[0]
        low, high = starts[dense - 1] + 1, starts[dense]
        ranks = {"dense": dense, "min": low, "max": high, "average": (low + high) / 2}[
            method
        ]
    ranks = ranks.astype(dtype)
    return jnp.where(jnp.any(jnp.isnan(a)), np.nan, ranks)


@inner_jit(static_argnames=("axis", "nan_policy", "keepdims"))
def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean along `axis`: std(a, ddof) / √n.

    Args:
      a: array.
      axis: the axis, 0 by default; None for all elements.
      ddof: the variance is the sum of squares over n - ddof; 1 by default.
      nan_policy: "propagate", or "omit", which leaves NaNs out.
      keepdims: keep the axis with size 1.

    Returns:
      An array of an inexact dtype.

    Raises:
      ValueError: if the policy is unknown.
      IndexError: if `axis` is out of range.
      TypeError: if an operand is not an array.

    >>> from curta import numpy as jnp
    >>> from curta.scipy import stats
    >>> stats.sem(jnp.array([1.0, 2.0, 3.0])).round(4)
    Array(0.5774, dtype=float32)
    """
    (a,) = inexact_operands("sem", a)
    if nan_policy == "propagate":
        axis = None if axis is None else dim_of("sem axis", axis, a.shape)
        count: Any = np.array(a.size if axis is None else a.shape[axis])
        spread = jnp.std(a, axis, ddof=ddof, keepdims=keepdims)
    elif nan_policy == "omit":
        count = jnp.sum(~jnp.isnan(a), axis, keepdims=keepdims)
        spread = jnp.nanstd(a, axis, ddof=ddof, keepdims=keepdims)
    else:
        raise ValueError(f"{nan_policy} is not supported")
    return spread / jnp.sqrt(count).astype(a.dtype)
