"""Checking and normalizing what users pass: arrays, axes, shapes, static values."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from curta import dtypes, tree_util
from curta.api.jit_options import check_hashable
from curta.core.array import Array
from curta.core.dim import as_dim, is_symbolic_dim
from curta.core.shape_struct import is_like_array, no_value_message
from curta.core.shapes import invalid_shape
from curta.core.trace import Tracer, pytype_aval_mappings, typeof
from curta.errors import ConcretizationTypeError
from curta.numpy.constructors import asarray

Axis = int | Sequence[int] | None
_Fun = TypeVar("_Fun", bound=Callable[..., Any])

_ARRAY_TYPES = (Array, np.ndarray, np.generic, int, float, complex)


def alias(name: str, fun: _Fun) -> _Fun:
    """Return a copy of a function under another name, by which it is printed."""
    copy = types.FunctionType(
        fun.__code__, fun.__globals__, name, fun.__defaults__, fun.__closure__
    )
    functools.update_wrapper(copy, fun)
    copy.__name__ = copy.__qualname__ = name
    copy.__kwdefaults__ = fun.__kwdefaults__
    return cast(_Fun, copy)


def renamed(name: str, fun: Callable[..., Array], like: _Fun) -> _Fun:
    """Return `fun` as a second name of `like`: with its documentation and signature.

    `fun` itself calls its operands by the new name in errors.
    """
    functools.update_wrapper(fun, inspect.unwrap(like))
    del fun.__dict__["__wrapped__"]
    fun.__name__ = fun.__qualname__ = name
    return cast(_Fun, fun)


# ---- arrays


def is_arraylike(x: Any) -> bool:
    """Return True if x is an array or scalar; lists and tuples are not."""
    known = isinstance(x, _ARRAY_TYPES) or type(x) in pytype_aval_mappings
    return known or hasattr(x, "__jax_array__")


def check_arraylike(name: str, *args: Any) -> None:
    """Raise TypeError unless every argument is an array or a scalar."""
    for position, x in enumerate(args):
        if not is_arraylike(x):
            converted = " jnp.array makes an array of it." * isinstance(x, list | tuple)
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(x)} at"
                f" position {position}.{converted}"
            )


def check_arraylike_or_none(name: str, *args: Any) -> None:
    """Raise TypeError unless every argument is an array, a scalar or None."""
    for position, x in enumerate(args):
        if x is not None and not is_arraylike(x):
            raise TypeError(
                f"{name} requires ndarray, scalar, or None arguments, got {type(x)} at"
                f" position {position}."
            )


def ensure_arraylike(name: str, x: Any) -> Array:
    """`x` as an array or tracer; raises TypeError for lists and other containers."""
    return x if isinstance(x, Array) else ensure_arraylikes(name, x)[0]


def ensure_arraylikes(name: str, *args: Any) -> tuple[Array, ...]:
    """All arguments as arrays or tracers."""
    try:
        check_arraylike(name, *args)
    except TypeError as error:
        if given := [x for x in args if isinstance(x, (str, bytes, memoryview))]:
            raise TypeError(
                f"asarray: expected ArrayLike, got {given[0]!s} of type"
                f" {type(given[0])}. {error}"
            ) from None
        raise
    return tuple([x if isinstance(x, Array) else asarray(x) for x in args])


def check_operands(name: str, *args: Any) -> None:
    """Like `check_arraylike`, for functions that are one call in a jaxpr.

    An operand that is neither an array nor a container of arrays is rejected with the
    error of a traced call.
    """
    for position, x in enumerate(args):
        if not is_arraylike(x):
            if tree_util.all_leaves([x]):
                raise _no_operand(name, x, position)
            check_arraylike(name, *args)


def check_but_strings(name: str, *args: Any) -> None:
    """`check_arraylike` for functions that leave strings, scalars of NumPy, to others.

    The functions traced within them have a different message.
    """
    check_arraylike(name, *(0 if isinstance(x, str) else x for x in args))


def ensure_operand(name: str, x: Any) -> Array:
    """`x` as an array or tracer, once `check_operands` let it pass."""
    return x if isinstance(x, Array) else ensure_operands(name, x)[0]


def ensure_operands(name: str, *args: Any) -> tuple[Array, ...]:
    """All arguments as arrays or tracers, once `check_operands` let them pass."""
    check_operands(name, *args)
    try:
        return tuple([x if isinstance(x, Array) else asarray(x) for x in args])
    except TypeError:
        raise refused_operand(name, *args) from None


def refused_operand(name: str, *args: Any) -> TypeError:
    """The error for the first argument whose dtype no array has."""
    for position, x in enumerate(args):
        try:
            dtypes.dtype(x)
        except TypeError:
            return _no_operand(name, x, position)
    return TypeError(f"{name} does not accept its arguments {args}")


def _no_operand(name: str, x: Any, position: int) -> TypeError:
    needs = (
        f"{name} requires ndarray or scalar arguments: booleans, integers, floats or"
        " complex numbers."
    )
    if is_like_array(x):
        argument = f"argument {position} of {name}"
        return TypeError(f"{no_value_message(x, argument)} {needs}")
    what = f" with dtype {x.dtype}" if isinstance(x, np.ndarray) else ""
    return TypeError(
        f"Error interpreting argument to {name} as an abstract array. The problematic"
        f" value is of type {type(x)}{what} and was passed to the function at position"
        f" {position}.\n{needs}"
    )


def refuse_out(name: str, out: Any) -> None:
    """Raise NotImplementedError for NumPy's `out=`, which arrays do not support."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")


def check_where(name: str, where: Any) -> Any:
    """The mask of a reduction, which must be boolean (or None)."""
    if where is None:
        return None
    where = ensure_operand(name, where)
    if where.dtype != np.bool_:
        raise ValueError(
            f"jnp.{name}: where must be None or a boolean array; got"
            f" where.dtype={where.dtype!r}."
        )
    return where


def user_dtype(dtype: Any, name: str) -> Any:
    """The dtype a user passed to the public function `name`, or None for None."""
    return None if dtype is None else dtypes.check_user_dtype(dtype, name)


def is_complex(x: Any) -> bool:
    """Return True if an array has a complex dtype."""
    return dtypes.issubdtype(typeof(x).dtype, np.complexfloating)


# ---- static values


STATIC_SIZE = (
    "To fix it: give the size of the result (size=...), to which it is padded or cut."
)


def concrete(
    x: Any,
    context: str,
    force: Callable[[Any], Any] | None = None,
    remedy: str = "",
) -> Any:
    """The known value of `x`, through `force`.

    Raises ConcretizationTypeError, which quotes `context` and says the `remedy`, for a
    traced value.
    """
    if isinstance(x, Tracer):
        value = x.concrete_value()
        if value is None:
            raise ConcretizationTypeError(x, context, remedy)
        x = value
    return x if force is None else force(x)


def concrete_index(x: Any, context: str) -> int:
    """The known integer `x`."""
    return concrete(x, context, as_dim)


def canonical_axis(axis: Any, ndim: int) -> int:
    """`axis` counted from the front; raises ValueError if there is no such axis."""
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis + ndim if axis < 0 else axis


def axis_of_shape(axis: Any, ndim: int) -> int:
    """`canonical_axis` where the shape is looked up: the error is an IndexError too."""
    try:
        return canonical_axis(axis, ndim)
    except ValueError as error:
        raise np.exceptions.AxisError(f"tuple index out of range: {error}") from None


def canonical_axes(
    axis: Axis, ndim: int, repeated: str = "duplicate value in 'axis'"
) -> tuple[int, ...]:
    """All axes for None, else the given ones, counted from the front, distinct."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, Sequence):
        return (canonical_axis(axis, ndim),)
    axes = tuple(canonical_axis(i, ndim) for i in axis)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{repeated}: {axes}")
    return axes


def static_axis(axis: Any) -> Any:
    """An axis that has to be static; raises ValueError if it cannot be hashed."""
    check_hashable(axis)
    return axis


def static_axes(axis: Any) -> Any:
    """None, an int or a tuple of ints (or names), ready to be a static argument."""
    if axis is None or type(axis) is int:
        return axis
    return concrete(axis, "The axis argument must be known statically.", _force_axes)


def _force_axes(axis: Any) -> Any:
    try:
        return operator.index(axis)
    except TypeError:
        return tuple(i if isinstance(i, str) else operator.index(i) for i in axis)


def index_tuple(x: Any) -> tuple[int, ...]:
    """An int or a sequence of ints as a tuple of ints."""
    x = concrete(x, "expected a static index or sequence of indices.")
    try:
        return (as_dim(x),)
    except TypeError:
        return tuple(map(as_dim, x))


def canonical_shape(shape: Any, context: str = "") -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints; raises TypeError otherwise."""
    if not isinstance(shape, (tuple, list)) and np.ndim(shape) == 0:
        shape = (shape,)
    try:
        return tuple([d if type(d) is int else as_dim(d) for d in shape])
    except TypeError:
        raise invalid_shape(shape, context) from None


def index_dtype(*sizes: int) -> np.dtype[Any]:
    """The signed integer dtype that indices into dims of these sizes need."""
    if any(map(is_symbolic_dim, sizes)):
        return dtypes.default_int_dtype()
    largest = np.iinfo(np.int32).max
    return np.dtype(np.int64 if any(d > largest for d in sizes) else np.int32)
