"""`pad`: an array with borders made in one of NumPy's ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit, new_arrays
from curta.core.array import Array, ArrayLike
from curta.core.dim import SymbolicDim, as_dim, is_symbolic_dim, min_dim
from curta.core.trace import Tracer
from curta.errors import ConcretizationTypeError, InconclusiveDimensionOperation
from curta.numpy.arguments import ensure_arraylike
from curta.numpy.constructors import asarray
from curta.numpy.elementary import round
from curta.numpy.order_statistics import median
from curta.numpy.promotion import broadcast_to_shape, cast, const
from curta.numpy.ranges import linspace
from curta.numpy.rearranging import flip, repeat
from curta.numpy.reductions import max as largest, min as smallest
from curta.numpy.statistics import mean

Pairs = tuple[tuple[Any, Any], ...]

_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": largest,
    "minimum": smallest,
    "mean": mean,
    "median": median,
}

_KEYWORDS: dict[str, tuple[str, ...]] = {
    "empty": (),
    "edge": (),
    "wrap": (),
    "constant": ("constant_values",),
    "linear_ramp": ("end_values",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    **dict.fromkeys(_STATISTICS, ("stat_length",)),
}


@new_arrays
def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: str | Callable[..., Any] = "constant",
    **kwargs: Any,
) -> Array:
    """`array` with borders of `pad_width`.

    Args:
      array: an array of any shape and dtype.
      pad_width: static integers: a number for all borders, a pair (before, after), or a
        pair for each dim.
      mode: "constant" (default), "edge", "wrap", "reflect", "symmetric", "linear_ramp",
        "mean", "median", "maximum", "minimum", "empty", or a function that is called
        with each padded vector, the widths, the axis and the keywords.
      **kwargs: `constant_values` of "constant" (default 0), `end_values` of
        "linear_ramp" (default 0), `stat_length` of the four statistics (how many
        elements at the edge; default all), `reflect_type` of "reflect" and "symmetric"
        ("even", the default, or "odd").

    Returns:
      An array of the dtype of `array`, larger by the widths.

    Raises:
      TypeError: `array` is a list, a string or None; `pad_width` is not of integers.
      ValueError: `pad_width` is negative or has another shape; a keyword is not for the
        mode, or its value wrong; an empty axis is padded with its own elements.
      NotImplementedError: `mode` is unknown.
      ConcretizationTypeError: `pad_width` is traced.

    >>> from curta import numpy as jnp
    >>> jnp.pad(jnp.array([1, 2, 3]), (1, 2), mode="reflect")
    Array([2, 1, 2, 3, 2, 1], dtype=int32)
    """
    array = ensure_arraylike("pad", array)
    widths = _pairs(pad_width, array.ndim, "pad_width")
    if any(
        not isinstance(w, (int, np.integer, SymbolicDim))
        for pair in widths
        for w in pair
    ):
        raise TypeError("`pad_width` must be of integral type.")
    if callable(mode):
        return _pad_with_function(array, widths, mode, kwargs)
    if mode not in _KEYWORDS:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    unknown = set(kwargs) - set(_KEYWORDS[mode])
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    ends = _pairs(kwargs.get("end_values", 0), array.ndim, "end_values")
    length = kwargs.get("stat_length")
    if length is not None:
        length = _pairs(length, array.ndim, "stat_length")
    constants = kwargs.get("constant_values", 0)
    reflect_type = kwargs.get("reflect_type", "even")
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"reflect_type must be 'even' or 'odd', got {reflect_type!r}")
    return _pad(array, widths, mode, constants, length, ends, reflect_type)


@inner_jit(
    static_argnames=("pad_width", "mode", "stat_length", "end_values", "reflect_type")
)
def _pad(
    array: Any,
    pad_width: Pairs,
    mode: str,
    constant_values: Any,
    stat_length: Pairs | None,
    end_values: Pairs,
    reflect_type: str,
) -> Any:
    if array.ndim == 0:
        return array
    if mode == "constant":
        return _pad_constant(array, pad_width, asarray(constant_values))
    for axis, widths in enumerate(pad_width):
        if mode == "wrap":
            array = _wrap(array, axis, widths)
        elif mode in ("symmetric", "reflect"):
            array = _mirror(array, axis, widths, mode == "reflect", reflect_type)
        elif mode == "edge":
            array = _edge(array, axis, widths)
        elif mode == "linear_ramp":
            array = _ramp(array, axis, widths, end_values[axis])
        elif mode == "empty":
            array = _empty(array, axis, widths)
        else:
            length = None if stat_length is None else stat_length[axis]
            array = _statistic(array, axis, widths, length, _STATISTICS[mode])
    return array


def _pairs(values: Any, ndim: int, name: str) -> Pairs:
    """A pair of numbers for each dim, from the shorter forms NumPy allows."""
    known = _known(values, name)
    try:
        table = np.asarray(known)
    except ValueError as error:
        raise TypeError(f"`{name}` entries must be the same shape: {values}") from error
    if table.dtype == object and not any(map(is_symbolic_dim, table.flat)):
        if table.ndim == 0 and name == "pad_width":
            raise TypeError(f"`{name}` must be of integral type, got {type(values)}.")
        raise TypeError(f"`{name}` entries must be the same shape: {values}")
    if table.shape not in ((ndim, 2), (1, 2), (2,), (1,), ()):
        raise ValueError(
            f"jnp.pad: {name} with nd={ndim} has unsupported shape {table.shape}. Valid"
            f" shapes are ({ndim}, 2), (1, 2), (2,), (1,), or ()."
        )
    rows = np.broadcast_to(table, (ndim, 2))
    return tuple((low, high) for low, high in rows)


def _known(values: Any, name: str) -> Any:
    if isinstance(values, Tracer):
        if values.concrete_value() is None:
            raise ConcretizationTypeError(values, f"{name} argument of jnp.pad")
        return values.concrete_value()
    if isinstance(values, (list, tuple)):
        return [_known(x, name) for x in values]
    return np.asarray(values) if hasattr(values, "aval") else values


def _part(x: Any, axis: int, start: int, stop: int | None) -> Any:
    return lax.slice_in_dim(x, start, stop, axis=axis)


def _require_elements(array: Any, axis: int, widths: Any, mode: str) -> bool:
    """Whether the dim has elements; ValueError if it has none but needs some."""
    if array.shape[axis]:
        return True
    if any(w > 0 for w in widths):
        raise ValueError(f"Cannot apply '{mode}' padding to empty axis")
    return False


def _pad_constant(array: Any, widths: Pairs, values: Any) -> Any:
    values = cast(values, array.dtype, array.weak_type)
    if values.ndim == 0:
        return lax.pad(array, values, [(low, high, 0) for low, high in widths])
    if values.shape[-1] not in (1, 2):
        raise ValueError(
            f"jnp.pad: constant_values has unsupported shape {values.shape}. If the"
            " shape is 1D or 2D, the last dimension must be of size 1 or 2."
        )
    table = broadcast_to_shape(values, (array.ndim, 2))
    for axis, pair in enumerate(widths):
        for side, width in enumerate(pair):
            if width:
                config = [(0, 0, 0)] * array.ndim
                config[axis] = (width, 0, 0) if side == 0 else (0, width, 0)
                value = lax.slice(table, (axis, side), (axis + 1, side + 1))
                array = lax.pad(array, lax.squeeze(value, (0, 1)), config)
    return array


def _wrap(array: Any, axis: int, widths: tuple[int, int]) -> Any:
    if not _require_elements(array, axis, widths, "wrap"):
        return array
    size = array.shape[axis]
    left, left_rest = divmod(widths[0], size)
    right, right_rest = divmod(widths[1], size)
    parts = [array] * int(left + right + 1)
    if left_rest:
        parts.insert(0, _part(array, axis, size - left_rest, size))
    if right_rest:
        parts.append(_part(array, axis, 0, right_rest))
    return lax.concatenate(parts, axis)


def _mirror(
    array: Any, axis: int, widths: tuple[int, int], reflect: bool, kind: str
) -> Any:
    mode, size = "reflect" if reflect else "symmetric", array.shape[axis]
    if not _require_elements(array, axis, widths, mode) or not any(
        is_symbolic_dim(w) or w for w in widths
    ):
        return array
    sides: list[list[Any]] = []
    for width, before in ((widths[0], True), (widths[1], False)):
        try:
            sides.append(_mirror_side(array, axis, width, reflect, kind, before))
        except InconclusiveDimensionOperation as error:
            raise ValueError(
                "Shape polymorphism is supported for jnp.pad with 'reflect' or"
                " 'symmetric' padding mode only when it is possible to determine at"
                f" lowering time that the axis size (= {size}) is larger than 1 and"
                f" larger or equal than the padding length (= {width}). Error while"
                f" handling {'left' if before else 'right'} padding on axis {axis}."
            ) from error
    return lax.concatenate([*reversed(sides[0]), array, *sides[1]], axis)


def _mirror_side(
    array: Any, axis: int, width: int, reflect: bool, kind: str, before: bool
) -> list[Any]:
    """The parts of one border, from the array outwards.

    Each part mirrors the whole of the one before it, so that all begin where the
    last one turned; only the outermost can be shorter.
    """
    parts, last = list[Any](), array
    own = array.shape[axis]
    offset = 1 if reflect and own > 1 else 0
    edge = _part(array, axis, 0, 1) if before else _part(array, axis, -1, None)
    while width > 0:
        step = min(width, own - offset)
        width -= step
        if before:
            x = _part(last, axis, offset, offset + step)
        else:
            end = own - offset
            x = _part(last, axis, end - step, end)
        x = flip(x, axis)
        if kind == "odd":
            x = lax.sub(lax.mul(const(edge, 2), edge), x)
            if own > 1:
                edge = _part(x, axis, 0, 1) if before else _part(x, axis, -1, None)
        parts.append(x)
        if offset and width > 0:  # Each part begins with the point where it turns.
            turn = _part(last, axis, 0, 1) if before else _part(last, axis, -1, None)
            last = lax.concatenate([x, turn] if before else [turn, x], axis)
        else:
            last = x
    return parts


def _edge(array: Any, axis: int, widths: tuple[int, int]) -> Any:
    if not _require_elements(array, axis, widths, "edge"):
        return array
    size = array.shape[axis]
    before = repeat(_part(array, axis, 0, 1), widths[0], axis=axis)
    after = repeat(_part(array, axis, size - 1, size), widths[1], axis=axis)
    return lax.concatenate([before, array, after], axis)


def _ramp(array: Any, axis: int, widths: tuple[int, int], ends: Any) -> Any:
    ramps = []
    for width, end, start in ((widths[0], ends[0], 0), (widths[1], ends[1], -1)):
        edge = _part(array, axis, start, 1 if start == 0 else None)
        ramp = linspace(
            end,
            lax.squeeze(edge, (axis,)),
            as_dim(width),
            endpoint=False,
            dtype=array.dtype,
            axis=axis,
        )
        ramps.append(cast(ramp, array.dtype, array.weak_type))
    return lax.concatenate([ramps[0], array, lax.rev(ramps[1], (axis,))], axis)


def _statistic(
    array: Any, axis: int, widths: tuple[int, int], length: Any, function: Any
) -> Any:
    size = array.shape[axis]
    if length is None:
        before = after = function(array, axis=axis, keepdims=True)
    else:
        if 0 in length:
            raise ValueError("stat_length of 0 yields no value for padding")
        first, last = (min_dim(n, size) for n in length)
        before = function(_part(array, axis, 0, first), axis=axis, keepdims=True)
        after = function(
            _part(array, axis, size - last, size), axis=axis, keepdims=True
        )
    if dtypes.issubdtype(array.dtype, np.integer):
        before, after = round(before), round(after)
    before, after = (
        repeat(cast(x, array.dtype, array.weak_type), as_dim(width), axis=axis)
        for x, width in ((before, widths[0]), (after, widths[1]))
    )
    return lax.concatenate([before, array, after], axis)


def _empty(array: Any, axis: int, widths: tuple[int, int]) -> Any:
    sides = [
        lax.full_like(
            array, 0, shape=(*array.shape[:axis], as_dim(w), *array.shape[axis + 1 :])
        )
        for w in widths
    ]
    return lax.concatenate([sides[0], array, sides[1]], axis)


def _pad_with_function(
    array: Any, widths: Pairs, function: Callable[..., Any], keywords: Any
) -> Any:
    array = _pad_constant(array, widths, asarray(0))
    for axis, pair in enumerate(widths):
        moved = lax.transpose(array, _last(array.ndim, axis))
        matrix = lax.reshape(
            moved, (array.size // max(moved.shape[-1], 1), moved.shape[-1])
        )
        rows = [function(row, pair, axis, keywords) for row in lax.unstack(matrix)]
        moved = lax.reshape(lax.stack(rows), moved.shape)
        order = tuple(int(i) for i in np.argsort(_last(array.ndim, axis)))
        array = lax.transpose(moved, order)
    return array


def _last(ndim: int, axis: int) -> tuple[int, ...]:
    """The order of dims with `axis` moved to the end."""
    return (*(i for i in range(ndim) if i != axis), axis)
