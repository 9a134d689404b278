"""The implementation that all reductions over axes share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes, lax
from curta.api.jit_options import check_hashable
from curta.config import config
from curta.core.array import Array
from curta.lax.named_axes import require_bound
from curta.numpy.arguments import (
    Axis,
    canonical_axis,
    check_operands,
    check_where,
    concrete,
    ensure_operand,
    refuse_out,
    user_dtype,
)
from curta.numpy.promotion import cast, cast_as_asked
from curta.numpy.selection import select_where


class ReductionSpec(NamedTuple):
    """A reduction: its op, its initial value, its dtypes."""

    name: str
    reduce: Callable[[Any, tuple[int, ...]], Any]
    combine: Callable[[Any, Any], Any]
    start: Any  # what `where` puts in place of masked elements
    has_identity: bool = True
    widens: bool = False  # promotes small integers, computes float16 in float32
    over_names: Callable[..., Any] | None = None  # the fold over named axes


def fold_axes(
    fold: ReductionSpec,
    a: Any,
    *,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Any:
    """`a` reduced by `fold`, with all that NumPy's reductions can be asked for."""
    refuse_out(fold.name, out)
    a = ensure_operand(fold.name, a)
    if keepdims is not False and keepdims is not True:
        check_hashable(keepdims)
    where = check_where(fold.name, where)
    axis = concrete(axis, f"axis argument to jnp.{fold.name}().")
    axes, names = named_axes(axis, a.ndim)
    if initial is None and not fold.has_identity:
        _require_elements(fold.name, a.shape, axes, where)
    if fold.widens and a.dtype == np.bool_:
        a, promote_integers = cast(a, np.dtype(np.int32)), True
    dtype, computed = _dtypes(fold, a.dtype, dtype, promote_integers)
    a = cast_as_asked(a, computed)
    if where is not None:
        a = select_where(where, a, start_value(fold.start, computed))
    result = fold.reduce(a, axes)
    if names:
        result = _over_names(fold, result, names)
    if initial is not None:
        initial = cast(_check_initial(fold.name, initial), result.dtype)
        if np.shape(initial) != ():
            raise ValueError(
                "initial value must be a scalar. Got array of shape"
                f" {np.shape(initial)}"
            )
        result = fold.combine(initial, result)
    if keepdims:
        result = lax.expand_dims(result, axes)
    return result if result.dtype == dtype else cast(result, dtype)


def _over_names(fold: ReductionSpec, x: Any, names: tuple[str, ...]) -> Any:
    if fold.over_names is None:
        raise NotImplementedError(
            f"Named reductions not implemented for jnp.{fold.name}()"
        )
    require_bound(names, "psum")
    return fold.over_names(x, names)


def _check_initial(name: str, initial: Any) -> Any:
    if not isinstance(initial, Array):
        if not isinstance(initial, list):
            check_operands(name, initial)
        dtypes.dtype(initial)  # raises for what is no number
    return initial


def _require_elements(
    name: str, shape: tuple[int, ...], axes: tuple[int, ...], where: Any
) -> None:
    if where is not None:
        raise ValueError(
            f"reduction operation {name} does not have an identity, so to use a where"
            " mask one has to specify 'initial'"
        )
    if 0 in [shape[i] for i in axes]:
        raise ValueError(
            f"zero-size array to reduction operation {name} which has no identity"
        )


def _dtypes(
    fold: ReductionSpec, own: Any, wanted: Any, promote: bool
) -> tuple[Any, Any]:
    """The dtype of the result, and the one to compute in."""
    if wanted is not None:
        dtype = user_dtype(wanted, fold.name)
        return dtype, dtype
    if not fold.widens:
        return own, own
    return _widened_dtypes(own, promote, config.jax_enable_x64)


@functools.cache
def _widened_dtypes(own: Any, promote: bool, x64: bool) -> tuple[Any, Any]:
    """The dtypes of a sum or product; `x64` decides what the default integer is."""
    dtype = widened_integer(own) if promote else own
    dtype = dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
    return dtype, upcast_half(dtype)


def upcast_half(dtype: Any) -> Any:
    """float32 for float16 and bfloat16; other dtypes as they are."""
    half = dtype in (np.float16, dtypes.bfloat16)
    return np.dtype(np.float32) if half else dtype


def widened_integer(dtype: Any) -> Any:
    """The default integer dtype for booleans and narrower integers."""
    if dtype == np.bool_:
        return dtypes.default_int_dtype()
    for kind, default in (
        (np.unsignedinteger, dtypes.default_uint_dtype()),
        (np.signedinteger, dtypes.default_int_dtype()),
    ):
        if dtypes.issubdtype(dtype, kind):
            narrow = dtypes.itemsize_bits(dtype) < dtypes.itemsize_bits(default)
            return default if narrow else dtype
    return dtype


def start_value(value: Any, dtype: Any) -> Any:
    """The scalar of `dtype` for 0, 1 or an infinity; the extreme one of integers."""
    if dtype == np.bool_:
        return np.bool_(value > 0)
    if math.isinf(value) and not dtypes.supports_inf(dtype):
        floating = dtypes.issubdtype(dtype, np.floating)
        info = dtypes.finfo(dtype) if floating else dtypes.iinfo(dtype)
        value = info.max if value > 0 else info.min
    return np.asarray(value).astype(dtype)[()]


def reduction_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes to reduce over, counted from the front; ValueError for duplicates."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(canonical_axis(i, ndim) for i in listed_axes(axis))
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def listed_axes(axis: Any) -> Iterable[Any]:
    """One axis or several, as several."""
    return axis if isinstance(axis, (np.ndarray, tuple, list)) else (axis,)


def named_axes(axis: Any, ndim: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The dims to reduce over, and the names of mapped axes among them."""
    if axis is None or type(axis) is int:
        return reduction_axes(axis, ndim), ()
    names = tuple(i for i in listed_axes(axis) if isinstance(i, str))
    if not names:
        return reduction_axes(axis, ndim), ()
    positional = tuple(i for i in listed_axes(axis) if not isinstance(i, str))
    if len(set(names)) != len(names):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return reduction_axes(positional, ndim), names
