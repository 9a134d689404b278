"""Operators and methods of arrays, attached here and nowhere else.

`core.array.Array` is the base of concrete arrays and tracers; it knows nothing of
this package, which gives it its arithmetic when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta.core.array import Array, ArrayLike
from curta.core.trace import Tracer
from curta.numpy import (
    arithmetic,
    array_methods,
    binning,
    bitwise,
    complex_numbers,
    cumulative,
    diagonals,
    elementary,
    extrema,
    linear_algebra,
    logic,
    rearranging,
    reductions,
    searching,
    shapes,
    sorting,
    statistics,
    taking,
)
from curta.numpy.index_update import IndexUpdater
from curta.numpy.indexing import getitem
from curta.runtime import shortcuts

_OPERANDS = (Array, np.ndarray, np.generic, int, float, complex)


def _known(x: Any) -> Any:
    """An operand as it is, or what its `__jax_array__` gives; None if it has none."""
    if isinstance(x, _OPERANDS):
        return x
    convert = getattr(x, "__jax_array__", None)
    return None if convert is None else convert()


def _binary(
    function: Callable[[Any, Any], Any], symbol: str, refused: tuple[type, ...] = ()
) -> Callable[[Any, Any], Any]:
    """`x <symbol> y` for an array x.

    Unknown operands get their turn through NotImplemented, save those `refused`:
    what Python would make of them (repeating a list, say) is never meant.
    """

    def method(self: Any, other: Any) -> Any:
        y = _known(other)
        if y is not None:
            return function(self, y)
        if type(other) in refused:
            raise _unsupported(symbol, self, other)
        return NotImplemented

    return method


def _reflected(
    function: Callable[[Any, Any], Any], symbol: str, refused: tuple[type, ...] = ()
) -> Callable[[Any, Any], Any]:
    """`y <symbol> x` for an array x."""

    def method(self: Any, other: Any) -> Any:
        y = _known(other)
        if y is not None:
            return function(y, self)
        if type(other) in refused:
            raise _unsupported(symbol, other, self)
        return NotImplemented

    return method


def _unsupported(symbol: str, x: Any, y: Any) -> TypeError:
    names = f"{type(x).__name__!r} and {type(y).__name__!r}"
    return TypeError(f"unsupported operand type(s) for {symbol}: {names}")


_SEQUENCES = (list, tuple)
_COLLECTIONS = (list, tuple, dict, set)

_ARITHMETIC: dict[str, tuple[Callable[[Any, Any], Any], str, tuple[type, ...]]] = {
    "add": (arithmetic.add, "+", _SEQUENCES),
    "sub": (arithmetic.subtract, "-", ()),
    "mul": (arithmetic.multiply, "*", _SEQUENCES),
    "truediv": (arithmetic.true_divide, "/", ()),
    "floordiv": (arithmetic.floor_divide, "//", ()),
    "mod": (arithmetic.remainder, "%", ()),
    "divmod": (arithmetic.divmod, "divmod()", ()),
    "pow": (arithmetic.power, "**", ()),
    "matmul": (linear_algebra.matmul, "@", ()),
    "and": (bitwise.bitwise_and, "&", ()),
    "or": (bitwise.bitwise_or, "|", ()),
    "xor": (bitwise.bitwise_xor, "^", ()),
    "lshift": (bitwise.left_shift, "<<", ()),
    "rshift": (bitwise.right_shift, ">>", ()),
}

_COMPARISON: dict[str, tuple[Callable[[Any, Any], Any], str, tuple[type, ...]]] = {
    "eq": (logic.equal, "==", _COLLECTIONS),
    "ne": (logic.not_equal, "!=", _COLLECTIONS),
    "lt": (logic.less, "<", ()),
    "le": (logic.less_equal, "<=", ()),
    "gt": (logic.greater, ">", ()),
    "ge": (logic.greater_equal, ">=", ()),
}

_UNARY: dict[str, Callable[..., Any]] = {
    "__neg__": arithmetic.negative,
    "__pos__": arithmetic.positive,
    "__abs__": arithmetic.absolute,
    "__invert__": bitwise.bitwise_not,
    "__round__": array_methods.round_operator,
    "__contains__": array_methods.contains,
    "__getitem__": getitem,
    "__array_namespace__": array_methods.__array_namespace__,
}


def compress(
    self: Any,
    condition: ArrayLike,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """The slices where `condition` holds; see `numpy.compress`."""
    return taking.compress(
        condition, self, axis, out=out, size=size, fill_value=fill_value
    )


_METHODS: dict[str, Callable[..., Any]] = {
    "all": reductions.all,
    "any": reductions.any,
    "argmax": searching.argmax,
    "argmin": searching.argmin,
    "argpartition": sorting.argpartition,
    "argsort": sorting.argsort,
    "astype": array_methods.astype,
    "byteswap": array_methods.byteswap,
    "choose": taking.choose,
    "clip": extrema.clip,
    "compress": compress,
    "conj": complex_numbers.conjugate,
    "conjugate": complex_numbers.conjugate,
    "copy": array_methods.copy,
    "cumprod": cumulative.cumprod,
    "cumsum": cumulative.cumsum,
    "diagonal": diagonals.diagonal,
    "dot": linear_algebra.dot,
    "flatten": array_methods.flatten,
    "item": array_methods.item,
    "max": reductions.max,
    "mean": statistics.mean,
    "min": reductions.min,
    "nonzero": searching.nonzero,
    "prod": reductions.prod,
    "ptp": reductions.ptp,
    "ravel": shapes.ravel,
    "repeat": rearranging.repeat,
    "reshape": array_methods.reshape,
    "round": elementary.round,
    "searchsorted": binning.searchsorted,
    "sort": sorting.sort,
    "squeeze": shapes.squeeze,
    "std": statistics.std,
    "sum": reductions.sum,
    "swapaxes": shapes.swapaxes,
    "take": taking.take,
    "to_device": array_methods.to_device,
    "tolist": array_methods.tolist,
    "trace": diagonals.trace,
    "transpose": array_methods.transpose,
    "var": statistics.var,
    "view": array_methods.view,
}

_PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": shapes.transpose,
    "mT": shapes.matrix_transpose,
    "real": complex_numbers.real,
    "imag": complex_numbers.imag,
    "flat": array_methods.no_flat,
    "at": IndexUpdater,
}


_METHODS_OF_TRACERS = {"__iter__": array_methods.iterate}


def _attach_operator(name: str, method: Any) -> None:
    method.__name__, method.__qualname__ = name, f"Array.{name}"
    setattr(Array, name, method)


def _attach() -> None:
    for name, (function, symbol, refused) in _ARITHMETIC.items():
        _attach_operator(f"__{name}__", _binary(function, symbol, refused))
        _attach_operator(f"__r{name}__", _reflected(function, symbol, refused))
    for name, (function, symbol, refused) in _COMPARISON.items():
        _attach_operator(f"__{name}__", _binary(function, symbol, refused))
    for name, method in (_UNARY | _METHODS).items():
        setattr(Array, name, method)
    for name, getter in _PROPERTIES.items():
        setattr(Array, name, property(getter))
    for name, method in _METHODS_OF_TRACERS.items():
        setattr(Tracer, name, method)
    shortcuts.attach()


_attach()
