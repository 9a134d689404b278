"""Arguments of user functions: argnums, names for errors, partial application."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.core.array import Array
from curta.core.avals import ShapedArray
from curta.core.flat import shown_function
from curta.core.hi_types import HiType, is_high_value, is_value
from curta.core.refs import AbstractRef, Ref
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.shapes import canonicalize_shape
from curta.core.sharding import NamedSharding
from curta.core.stage import recording_trace, with_dtype
from curta.core.trace import concrete_or_error, typeof
from curta.runtime.transfer import to_array


def check_callable(fun: Any) -> None:
    """Raise TypeError unless `fun` can be called (and is not a generator function)."""
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    if isinstance(fun, staticmethod):
        raise TypeError(
            f"staticmethod arguments are not supported, got {fun}. Transform the"
            " function below @staticmethod, or take it from its class."
        )
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"Expected a function, got a generator function: {fun}")


def differentiated_argnums(argnums: Any) -> tuple[bool, tuple[int, ...]]:
    """Return True if one argument is meant rather than several, and all as a tuple.

    Raises TypeError if they are not integers.
    """
    argnums = concrete_or_error(None, argnums)
    try:
        return True, (operator.index(argnums),)
    except TypeError:
        return False, tuple(map(operator.index, argnums))


def argnums_in_range(argnums: Sequence[int], count: int) -> tuple[int, ...]:
    """The argnums with negative ones counted from the end; ValueError if outside."""
    for i in argnums:
        if not -count <= i < count:
            raise ValueError(
                "Positional argument indices, e.g. for `static_argnums`, must have"
                " value greater than or equal to -len(args) and less than len(args),"
                f" but got value {i} for len(args) == {count}."
            )
    return tuple(i % count for i in argnums)


def partial_in(
    fun: Callable[..., Any],
    argnums: Sequence[int],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`fun` as a function of the arguments at `argnums`, and those arguments.

    Raises TypeError for an argument that is named twice.
    """
    argnums = argnums_in_range(argnums, len(args))
    if len(set(argnums)) < len(argnums):
        raise TypeError(
            f"argnums={argnums} names an argument more than once; which part of its"
            " derivative each should get is not defined. Name it once."
        )

    def partial(*chosen: Any) -> Any:
        full = list(args)
        for i, x in zip(argnums, chosen, strict=True):
            full[i] = x
        return fun(*full, **kwargs)

    return partial, tuple(args[i] for i in argnums)


def parameter_names(fun: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters, empty if they are unknown."""
    return _positional_names(fun)[0]


def _positional_names(fun: Callable[..., Any]) -> tuple[list[str], str]:
    """The names of the positional parameters, and of that for all further ones."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return [], "args"
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    rest = [p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
    names = [p.name for p in parameters if p.kind in positional]
    return names, rest[0] if rest else "args"


def leaf_names(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    argnums: Sequence[int] | None = None,
) -> tuple[str, ...]:
    """A name like `params['w']` for every leaf of the arguments.

    `argnums` are the numbers of `args` in the signature of `fun`, if not all.
    """
    names, rest = _positional_names(fun)
    numbers = range(len(args)) if argnums is None else argnums
    result = []
    for argnum, arg in zip(numbers, args, strict=True):
        base = (
            names[argnum] if argnum < len(names) else f"{rest}[{argnum - len(names)}]"
        )
        for path, _ in tree_util.tree_leaves_with_path(arg):
            result.append(base + tree_util.keystr(path))
    for key in sorted(kwargs):
        for path, _ in tree_util.tree_leaves_with_path(kwargs[key]):
            result.append(key + tree_util.keystr(path))
    return tuple(result)


def aval_of(x: Any) -> Any:
    """The aval of an array, or of anything with `shape` and `dtype`."""
    if is_value(x) or isinstance(x, Ref):
        return typeof(x)
    if isinstance(x, HiType):
        return x
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        weak = bool(getattr(x, "weak_type", False))
        dtype = dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True)
        sharding = getattr(x, "sharding", None)
        aval = ShapedArray(
            canonicalize_shape(x.shape),
            dtype,
            weak,
            sharding=sharding if isinstance(sharding, NamedSharding) else None,
            manual_axis_type=getattr(x, "manual_axis_type", None),
            memory_space=getattr(x, "_memory_space", None),
        )
        return AbstractRef(aval) if getattr(x, "is_ref", False) else aval
    return typeof(x)


def argument_avals(
    fun: Callable[..., Any], leaves: Sequence[Any], names: Sequence[str]
) -> list[Any]:
    """The avals of the named leaves of arguments; TypeError for what has none."""
    return [_argument_aval(fun, x, name) for x, name in zip(leaves, names, strict=True)]


def _argument_aval(fun: Callable[..., Any], x: Any, name: str) -> Any:
    try:
        return aval_of(x)
    except TypeError as error:
        raise TypeError(f"{_misinterpreted(fun, x, name)}\n{error}") from None


def _misinterpreted(fun: Callable[..., Any], x: Any, path: str) -> str:
    return (
        f"Error interpreting argument to {shown_function(fun)} as an abstract array."
        f" The problematic value is of type {type(x)} and was passed to the function at"
        f" path {path}."
    )


_OF_STATICS = (
    "This typically means that a jit-wrapped function was called with a non-array"
    " argument, and this argument was not marked as static using the static_argnums or"
    " static_argnames parameters of jit."
)
_OF_METHODS = (
    "`self` is an argument like any other when a method is compiled. Three ways: make"
    " the class a pytree (curta.tree_util.register_dataclass), so that its arrays are"
    " arguments; compile the bound method, self.step = curta.jit(self._step), whose"
    " attributes are then constants of the trace; or mark it as static,"
    " @partial(curta.jit, static_argnums=0), if attributes never change."
)


def not_an_array(fun: Callable[..., Any], x: Any, path: str) -> str:
    """The message for an argument of `jit` at a path that is not an array."""
    remedy = _OF_METHODS if path == "self" else _OF_STATICS
    return f"{_misinterpreted(fun, x, path)}\n{remedy}"


def differentiable_leaf(x: Any) -> Any:
    """A leaf of arguments with the dtype that it has as an array."""
    if isinstance(x, (np.ndarray, np.generic)):
        dtype = typeof(x).dtype
        return np.asarray(x, dtype) if x.dtype != dtype else x
    return with_dtype(x)


def as_result(x: Any) -> Any:
    """An output as users get it: an array or tracer; float0 arrays stay NumPy's."""
    if isinstance(x, Array) or is_high_value(x) or typeof(x).dtype == dtypes.float0:
        return x
    recording = recording_trace()
    return to_array(x) if recording is None else recording.tracer(x)


def check_outputs(result: Any, outs: Sequence[Any], info: Any) -> None:
    """Raise TypeError unless a function traced for `jit` gave arrays."""
    for x in outs:
        if is_value(x) or isinstance(x, Ref):  # these stage() refuses
            continue
        if isinstance(x, ShapeDtypeStruct):
            raise TypeError(
                "A ShapeDtypeStruct does not have a value and cannot be used as a"
                " constant in a traced function."
            )
        paths = tree_util.tree_leaves_with_path(result)
        path = next(tree_util.keystr(p) for p, leaf in paths if leaf is x)
        where = f" at output component {path}" if path else ""
        raise TypeError(
            f"function {info.function()} traced for jit returned a value of type"
            f" {type(x)}{where}, which is not a valid JAX type. Return arrays,"
            " scalars and pytrees of them."
        )
