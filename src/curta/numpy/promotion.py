"""Bringing operands to one dtype and one rank, as the ops of `lax` require.

Constants of rank 0 are converted at once and become literals of the jaxpr; arrays
are converted by an op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import ml_dtypes
import numpy as np

from curta import dtypes, lax
from curta._base.pages import page
from curta._base.user_warnings import warn
from curta.config import config
from curta.core.array import Array
from curta.core.avals import ShapedArray, is_python_scalar, plain_scalar
from curta.core.dim import SymbolicDim
from curta.core.stage import JitTracer, recording_trace
from curta.core.trace import typeof
from curta.lax.conversion import warn_of_imaginary
from curta.lax.scalars import scalar_array
from curta.numpy.arguments import (
    check_arraylike,
    check_operands,
    refused_operand,
)
from curta.numpy.constructors import asarray, weak_constant
from curta.primitives.elementwise.convert import convert_element_type, converted
from curta.runtime.array import wrap

_RANK_PAGE = page("settings", "examples")


@overload
def cast(x: Array, dtype: Any, weak_type: bool = ...) -> Array: ...
@overload
def cast(x: Any, dtype: Any, weak_type: bool = ...) -> Any: ...
def cast(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """`x` with the given dtype and weak type."""
    if isinstance(x, SymbolicDim):
        x = x.as_value()
    if type(x) is JitTracer and not x.aval.shape and x._trace is recording_trace():
        value = x.concrete_value()
        x = x if value is None else value
    if isinstance(x, Array) or np.ndim(x) or isinstance(dtype, dtypes.ExtendedDType):
        return convert_element_type(x, dtype, weak_type)
    if weak_type and is_python_scalar(x) and typeof(x).dtype == dtype:
        return scalar_array(x)  # printed in jaxprs as it was written
    value = np.asarray(x, typeof(x).dtype)
    if value.dtype != dtype:
        with np.errstate(over="ignore"):  # too large a float is infinite
            value = converted(value, dtype)
    return weak_constant(value[()]) if weak_type else value[()]


def cast_as_asked(x: Any, dtype: Any) -> Any:
    """`x` in a dtype of the user's; warns if numbers lose their imaginary part."""
    warn_of_imaginary(x, dtype)
    return cast(x, dtype)


def const(example: Any, value: Any) -> Any:
    """The scalar `value` in the dtype of `example`; weak if `example` is a weak
    scalar."""
    aval = typeof(example)
    if isinstance(value, SymbolicDim):
        return cast(value, aval.dtype, aval.weak_type and not aval.shape)
    if aval.weak_type and not aval.shape:
        value = dtypes.scalar_type_of(aval.dtype)(value)
        if typeof(value).dtype == aval.dtype:
            return value
    return strong_const(example, value)


def strong_const(example: Any, value: Any) -> Any:
    """The scalar `value` in the dtype of `example`, never weak."""
    aval = typeof(example)
    try:
        scalar = np.asarray(value, aval.dtype)
    except TypeError:
        dtypes.to_numeric_dtype(aval.dtype)  # raises for keys
        raise
    if dtypes.canonicalize_dtype(aval.dtype) != aval.dtype:  # a scalar would be halved
        return wrap(scalar, ShapedArray((), aval.dtype))
    return scalar[()]


def promote_dtypes(*args: Any) -> list[Array]:
    """The operands in the dtype they promote to."""
    if len(args) < 2:
        return [asarray(x) for x in args]
    dtype, weak_type = dtypes.lattice_result_type(*args)
    return [cast(x, dtype, weak_type) for x in args]


def promote_dtypes_inexact(*args: Any) -> list[Array]:
    """Like `promote_dtypes`, with integers and booleans going to floats."""
    dtype, weak_type = dtypes.lattice_result_type(*args)
    dtype = dtypes.to_inexact_dtype(dtype)
    return [cast(x, dtype, weak_type) for x in args]


def promote_dtypes_numeric(*args: Any) -> list[Array]:
    """Like `promote_dtypes`, with booleans going to integers."""
    dtype, weak_type = dtypes.lattice_result_type(*args)
    dtype = dtypes.to_numeric_dtype(dtype)
    return [cast(x, dtype, weak_type) for x in args]


def promote_shapes(name: str, *args: Any) -> list[Array]:
    """The operands with one rank; those of rank 0 stay as they are."""
    shapes = [np.shape(x) for x in args]
    ranks = {len(s) for s in shapes if s}
    if len(ranks) < 2:
        return list(args)
    if config.jax_numpy_rank_promotion != "allow":
        _rank_promotion(name, shapes)
    rank = max(ranks)
    lax.broadcast_shapes(*shapes)
    return [broadcast_to_rank(x, rank) for x in args]


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """`x` with dims of size 1 in front, up to `rank`."""
    ndim = np.ndim(x)
    return x if ndim == rank else lax.broadcast(x, (1,) * (rank - ndim))


def broadcast_to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` repeated to `shape`; ValueError if it does not fit."""
    own = np.shape(x)
    if len(own) == len(shape) and own == shape:
        return x
    if len(shape) < len(own):
        raise ValueError(
            "Cannot broadcast to shape with fewer dimensions:"
            f" arr_shape={own} shape={shape}"
        )
    lead = len(shape) - len(own)
    if not all(d in (1, e) for d, e in zip(own, shape[lead:])):
        wanted = ShapedArray(shape, dtypes.dtype(x)).str_short()
        raise ValueError(
            f"Incompatible types for broadcasting: input type={typeof(x).str_short()}"
            f" and requested type={wanted}"
        )
    return lax.broadcast_in_dim(x, shape, tuple(range(lead, len(shape))))


def _rank_promotion(name: str, shapes: Sequence[Any]) -> None:
    listing = " ".join(map(str, shapes))
    if config.jax_numpy_rank_promotion == "warn":
        warn(
            f"Following NumPy automatic rank promotion for {name} on shapes {listing}."
            " Set the jax_numpy_rank_promotion config option to 'allow' to disable"
            f" this warning; for more information, see {_RANK_PAGE}",
        )
    else:
        raise ValueError(
            f"Operands could not be broadcast together for {name} on shapes {listing}"
            " and with the config option jax_numpy_rank_promotion='raise'. For more"
            f" information, see {_RANK_PAGE}"
        )


def promote_args(name: str, *args: Any) -> list[Array]:
    """Checked operands of one dtype and one rank."""
    return promote_shapes(name, *promote_dtypes(*_checked(name, args)))


def promote_args_inexact(name: str, *args: Any) -> list[Array]:
    """Checked operands of one float or complex dtype and one rank."""
    return promote_shapes(name, *promote_dtypes_inexact(*_checked(name, args)))


def inexact_operands(name: str, *args: Any) -> list[Array]:
    """`promote_args_inexact` for functions that jaxprs do not show as calls."""
    check_arraylike(name, *args)
    given = [_through_protocol(x) for x in args]
    for x in given:
        dtypes.dtype(x)  # raises TypeError where no array has the dtype
    operands = promote_args_inexact(name, *given)
    # An array of NumPy's says a 64-bit dtype that its elements will not have; a scalar
    # of bfloat16 and a Python number make float32.
    numpy = (np.ndarray, ml_dtypes.bfloat16)
    return [asarray(x) if isinstance(x, numpy) else x for x in operands]


def promote_args_numeric(name: str, *args: Any) -> list[Array]:
    """Checked operands of one dtype that is not boolean, and one rank."""
    return promote_shapes(name, *promote_dtypes_numeric(*_checked(name, args)))


def _checked(name: str, args: Sequence[Any]) -> list[Array]:
    check_operands(name, *args)
    args = [_through_protocol(x) for x in args]
    try:
        result = [dtypes.dtype(x) for x in args]
    except TypeError:
        raise refused_operand(name, *args) from None
    if dtypes.float0 in result:
        raise TypeError(
            f"Called {name} with a float0 array. float0s do not support any operations"
            " by design because they are not compatible with non-trivial vector"
            " spaces. No implicit dtype conversion is done. You can use"
            " np.zeros_like(arr, dtype=np.float) to cast a float0 array to a regular"
            " zeros array. \nIf you didn't expect to get a float0 you might have"
            " accidentally taken a gradient with respect to an integer argument."
        )
    if len(set(result)) > 1 and any(
        isinstance(d, dtypes.ExtendedDType) for d in result
    ):
        listing = ", ".join(map(str, result))
        raise TypeError(f"{name} does not accept dtypes {listing}.")
    return args


def _through_protocol(x: Any) -> Any:
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    return plain_scalar(x)
