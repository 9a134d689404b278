"""`reduce` and `reduce_window` with any associative function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree
from curta.api.arguments import as_result
from curta.api.out_sharding import takes_out_sharding
from curta.control.reduction import Reduce, ReduceWindow
from curta.core.flat import debug_info
from curta.core.jaxpr import ClosedJaxpr
from curta.core.shapes import integer, integers, operand_shape, sequence
from curta.core.stage import stage
from curta.core.trace import Tracer, concrete_or_none, operand_type, typeof
from curta.lax.arithmetic import add, max, min, mul
from curta.lax.bitwise import bitwise_and, bitwise_or, bitwise_xor
from curta.lax.reduction import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from curta.lax.windows import explicit_padding, window_padding
from curta.primitives.elementwise import convert_element_type
from curta.primitives.families import check_axes
from curta.primitives.reduction import (
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
)
from curta.primitives.structure import ReduceSum
from curta.primitives.windowed import (
    ReduceWindowMax,
    ReduceWindowMin,
    ReduceWindowSum,
)
from curta.primitives.windowed.sliding import dilated

Function = Callable[[Any, Any], Any]

# The reductions that need no loop, with the ops that know where they start.
_KNOWN: dict[Any, tuple[Any, Any]] = {
    add: (reduce_sum, ReduceSum),
    mul: (reduce_prod, ReduceProd),
    max: (reduce_max, ReduceMax),
    min: (reduce_min, ReduceMin),
    bitwise_and: (reduce_and, ReduceAnd),
    bitwise_or: (reduce_or, ReduceOr),
    bitwise_xor: (reduce_xor, ReduceXor),
}
_BITWISE = (ReduceAnd, ReduceOr, ReduceXor)
_KNOWN_WINDOWS: dict[Any, tuple[Any, Any]] = {
    add: (ReduceWindowSum, ReduceSum),
    max: (ReduceWindowMax, ReduceMax),
    min: (ReduceWindowMin, ReduceMin),
}


@takes_out_sharding
def reduce(
    operands: Any,
    init_values: Any,
    computation: Function,
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Reduce arrays over `dimensions` with an associative function of two scalars.

    Args:
      operands: an array, or a pytree of arrays of one shape that are reduced together.
      init_values: the identity of `computation`, a scalar for each operand.
      computation: of two scalars (or pytrees of them, like `init_values`).
      dimensions: the dims to reduce.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      Arrays like `operands` without those dims.

    Raises:
      ValueError: if the pytrees differ in structure, operands in shape, an initial
        value is not a scalar, a dim is not there or named twice, or `computation`
        returns something else than it takes.

    >>> import curta
    >>> x = curta.numpy.array([[1., 2.], [3., 4.]])
    >>> curta.lax.reduce(x, 0., curta.lax.add, (1,))
    Array([3., 7.], dtype=float32)
    >>> curta.lax.reduce(x, 1., lambda a, b: a * b, (0,))
    Array([3., 8.], dtype=float32)
    """
    flat, inits, structure = _flat("reduce", operands, init_values)
    axes = _axes(flat, dimensions)
    if len(flat) == 1:
        result = _known(computation, inits[0], _KNOWN)
        if result is not None:
            out = result(flat[0], axes)
            weak = all(typeof(x).weak_type for x in (flat[0], inits[0]))
            return tree.unflatten(
                structure, [convert_element_type(out, typeof(out).dtype, weak)]
            )
    closed, out_tree = _scalar_function("reduce", computation, inits, structure)
    op = Reduce(computation, closed, axes)
    if not axes:  # nothing is folded, nor the initial values
        op.aval(*map(typeof, (*flat, *inits)))
        return tree.unflatten(out_tree, [as_result(x) for x in flat])
    outs = op(*flat, *inits)
    return tree.unflatten(out_tree, outs)


def _axes(operands: Sequence[Any], dimensions: Sequence[int]) -> tuple[int, ...]:
    """The dims to fold, in range and each once; ValueError otherwise."""
    avals = [operand_type("reduce", i, x) for i, x in enumerate(operands)]
    if any(a.shape != avals[0].shape for a in avals):
        shapes = ", ".join(str(a.shape) for a in avals)
        raise ValueError(f"reduce requires operands of one shape, got {shapes}.")
    name = "reduce dimensions"
    axes = tuple(integer(name, d) for d in sequence(name, dimensions))
    check_axes("reduce", axes, avals[0])
    return axes


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Function,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduce every window of an array with an associative function of two scalars.

    Args:
      operand: an array, or a pytree of arrays of one shape that are reduced together.
      init_value: the identity of `computation`, a scalar for each operand.
      computation: of two scalars (or pytrees of them, like `init_value`).
      window_dimensions: the size of windows along each dim.
      window_strides: the distance between window starts; 1 by default.
      padding: "VALID", "SAME", "SAME_LOWER" or (low, high) for each dim. Padding is not
        part of the reduction.
      base_dilation, window_dilation: the distance between elements of the operand, and
        between elements of a window; 1 by default.

    Returns:
      An array, or a pytree of arrays, with an element for each window.

    Raises:
      ValueError: if pytrees differ in structure.
      TypeError: if windows or strides are not positive or of another rank, and
          initial values of another dtype.
      RuntimeError: if `padding` is an unknown string.

    >>> import curta
    >>> x = curta.numpy.arange(6.)
    >>> curta.lax.reduce_window(x, 0., curta.lax.add, (2,), (2,))
    Array([1., 5., 9.], dtype=float32)
    >>> curta.lax.reduce_window(x, 1., curta.lax.mul, (3,), padding="SAME")
    Array([ 0.,  0.,  6., 24., 60., 20.], dtype=float32)
    """
    flat, inits, structure = _flat("reduce_window", operand, init_value)
    fields = _window_fields(
        operand_shape("reduce_window", flat[0]),
        (window_dimensions, window_strides, padding, base_dilation, window_dilation),
    )
    if len(flat) == 1:
        result = _known(computation, inits[0], _KNOWN_WINDOWS)
        if result is not None:
            return tree.unflatten(structure, [result(*fields)(flat[0])])
    closed, out_tree = _scalar_function("reduce_window", computation, inits, structure)
    op = ReduceWindow(closed.jaxpr, tuple(closed.consts), *fields)
    return tree.unflatten(structure, op(*flat, *inits))


def _window_fields(shape: tuple[int, ...], given: Sequence[Any]) -> tuple[Any, ...]:
    dimensions, strides, padding, base, window = given
    dimensions = integers("reduce_window window_dimensions", dimensions, None)
    ones = (1,) * len(dimensions)
    if strides is not None:
        strides = integers("reduce_window window_strides", strides, None)
    if isinstance(padding, str):
        wide = dimensions
        if window is not None:
            window = integers("reduce_window window_dilation", window, None)
            if any(d < 1 for d in window):
                raise TypeError(f"All dilations must be positive, got {window}.")
            wide = tuple(map(dilated, dimensions, window))
        padding = window_padding(shape, wide, strides or ones, padding)

    def sizes(name: str, given: Any) -> tuple[Any, ...]:
        return integers(f"reduce_window {name}", ones if given is None else given, 1)

    return (
        sizes("window_dimensions", dimensions),
        sizes("window_strides", strides),
        explicit_padding("reduce_window", padding),
        sizes("base_dilation", base),
        sizes("window_dilation", window),
    )


def _flat(
    name: str, operands: Any, init_values: Any
) -> tuple[list[Any], list[Any], Any]:
    """Leaves of both, which are of one structure."""
    flat, structure = tree.flatten(operands)
    inits, init_structure = tree.flatten(init_values)
    if structure != init_structure:
        raise ValueError(
            "Operands must have the same tree structure as init_values:"
            f" {structure} vs. {init_structure}"
        )
    if not flat:
        raise ValueError(f"{name} must have at least one operand.")
    return flat, inits, structure


def _known(computation: Any, init: Any, table: dict[Any, tuple[Any, Any]]) -> Any:
    """The reduction that folds with `computation` from `init`, if there is one."""
    typeof(init)  # raises TypeError for what is no array
    value = concrete_or_none(init)
    if value is None or np.ndim(value) != 0 or not callable(computation):
        return None
    try:
        function, op = table.get(computation, (None, None))
    except TypeError:  # a callable without a hash
        return None
    dtype = typeof(init).dtype
    if function is None or dtypes.issubdtype(dtype, dtypes.extended):
        return None
    if op in _BITWISE and dtypes.issubdtype(dtype, np.inexact):
        return None
    return function if np.equal(value, op(()).identity(dtype)) else None


def _scalar_function(
    name: str, computation: Function, inits: Sequence[Any], structure: Any
) -> tuple[ClosedJaxpr, Any]:
    """The jaxpr of a function of two scalars, or pytrees of them; its output's tree."""
    out_tree: list[Any] = []

    def run(*args: Any) -> list[Any]:
        n = len(inits)
        both = [tree.unflatten(structure, part) for part in (args[:n], args[n:])]
        outs, result = tree.flatten(computation(*both))
        out_tree.append(result)
        return outs

    avals = [typeof(x) for x in inits]
    closed = stage(run, [*avals, *avals], debug_info(f"{name} comp", computation))
    if out_tree[0] != structure:
        raise ValueError(
            f"{name} output must have the same tree structure as the operands"
            f" {structure} vs. {out_tree[0]}"
        )
    result = [(a.shape, a.dtype) for a in closed.out_avals]
    if result != [(a.shape, a.dtype) for a in avals]:
        shown = ", ".join(a.str_short() for a in closed.out_avals)
        wanted = ", ".join(a.str_short() for a in avals)
        raise ValueError(
            f"the function of {name} must return what it takes, scalars of type"
            f" {wanted}: it returned {shown}"
        )
    if any(isinstance(c, Tracer) for c in closed.consts):
        raise NotImplementedError(
            "Reduction computations can't close over Tracers. Make them an operand:"
            " reduce a pytree of arrays that includes them."
        )
    return closed, out_tree[0]
