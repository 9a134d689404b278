"""The dims of convolutions by name or number, and the shapes that they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.core.shapes import canonicalize_shape, dim_of, integer, sequence
from curta.lax.windows import explicit_padding, window_padding
from curta.primitives.convolution import ConvDimensionNumbers
from curta.primitives.convolution.shapes import (
    check_padding_count,
    conv_shape,
    taken,
)

_NAMES = (("N", "C"), ("O", "I"), ("N", "C"))  # of lhs, rhs, output


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """`dimension_numbers` of a convolution as numbers.

    Args:
      lhs_shape, rhs_shape: the shapes of the operands, of one rank.
      dimension_numbers: None (batch and features first, output before input features),
        three strings as for `conv_general_dilated`, or a `ConvDimensionNumbers`.

    Returns:
      A `ConvDimensionNumbers`.

    Raises:
      TypeError: for anything else, shapes of different ranks, and strings that do not
        fit the shapes or one another.

    >>> from curta import lax
    >>> lax.conv_dimension_numbers((1, 4, 3), (2, 3, 8), ("NWC", "WIO", "NWC"))
    ConvDimensionNumbers(lhs_spec=(0, 2, 1), rhs_spec=(2, 1, 0), out_spec=(0, 2, 1))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return _in_range(dimension_numbers, lhs_shape)
    rank = len(lhs_shape)
    if rank != len(rhs_shape):
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {rank} and"
            f" {len(rhs_shape)}."
        )
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(rank))] * 3)
    _check_strings(dimension_numbers)
    for i, spec in enumerate(dimension_numbers):
        if len(spec) != rank:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of"
                f" lhs and rhs, got {len(spec)} for lhs and rhs shapes {lhs_shape} and"
                f" {rhs_shape}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def _in_range(numbers: Any, shape: Sequence[int]) -> ConvDimensionNumbers:
    """`numbers` as tuples; IndexError unless they are dims of an array of `shape`."""
    name = "convolution dimension_numbers"
    return ConvDimensionNumbers(
        *(
            tuple(dim_of(name, d, shape) for d in sequence(name, spec))
            for spec in numbers
        )
    )


def _check_strings(dimension_numbers: Any) -> None:
    """Raise TypeError unless they are three strings."""
    if not isinstance(dimension_numbers, (list, tuple)):
        raise TypeError(
            "convolution dimension_numbers must be tuple/list or None, got"
            f" {type(dimension_numbers)}."
        )
    if len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers list/tuple must be length 3, got"
            f" {len(dimension_numbers)}."
        )
    if not all(isinstance(spec, str) for spec in dimension_numbers):
        raise TypeError(
            "convolution dimension_numbers elements must be strings, got"
            f" {tuple(map(type, dimension_numbers))}."
        )


def conv_general_permutations(dimension_numbers: Sequence[str]) -> Any:
    """For each of three strings, the positions of its two features, then spatial dims.

    Spatial dims are in the order of the second string.

    >>> from curta import lax
    >>> lax.conv_general_permutations(("NWHC", "HWIO", "NHWC"))
    ((0, 3, 2, 1), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    _check_strings(dimension_numbers)
    for i, (spec, names) in enumerate(zip(dimension_numbers, _NAMES, strict=True)):
        if any(spec.count(name) != 1 for name in names):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters"
                f" '{names[0]}' and '{names[1]}' exactly once, got {spec}."
            )
        if len(spec) != len(set(spec)):
            raise TypeError(
                f"convolution dimension_numbers[{i}] cannot have duplicate characters,"
                f" got {spec}."
            )
    spatial = [
        [c for c in spec if c not in names]
        for spec, names in zip(dimension_numbers, _NAMES, strict=True)
    ]
    if not set(spatial[0]) == set(spatial[1]) == set(spatial[2]):
        raise TypeError(
            "convolution dimension_numbers elements must each have the same set of"
            f" spatial characters, got {tuple(dimension_numbers)}."
        )
    return tuple(
        tuple(spec.index(c) for c in (*names, *spatial[1]))
        for spec, names in zip(dimension_numbers, _NAMES, strict=True)
    )


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Any,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution of shapes (N, C, ...) and (O, I, ...).

    Args:
      lhs_shape, rhs_shape: the shapes of the operands.
      strides: how far windows start apart, along each spatial dim.
      pads: "VALID", "SAME", "SAME_LOWER", or (low, high) for each spatial dim.
      batch_group_count: the parts of the batch; 1 by default.

    Returns:
      A tuple of integers.

    Raises:
      TypeError: for shapes, strides and paddings of different lengths.
      ValueError: if strides are not positive, or a count that does not divide the
          batch.
      RuntimeError: if `padding` is an unknown string.

    >>> from curta import lax
    >>> lax.conv_shape_tuple((1, 3, 8), (4, 3, 3), (1,), "SAME")
    (1, 4, 8)
    """
    name = "conv_shape_tuple"
    lhs, rhs, steps = _sizes(name, lhs_shape, rhs_shape, strides)
    if isinstance(pads, str):
        pads = window_padding(lhs[2:], rhs[2:], steps, pads)
    groups = integer("conv_shape_tuple batch_group_count", batch_group_count)
    if groups < 1 or lhs[0] % groups:
        raise ValueError(
            f"{name} batch_group_count must be positive and divide the batch, got"
            f" {groups} for {lhs[0]}"
        )
    return conv_shape(lhs, rhs, steps, explicit_padding(name, pads), groups)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a convolution in a layout given by three strings.

    Args:
      lhs_shape, rhs_shape: the shapes of the operands.
      window_strides, padding: as for `conv_shape_tuple`.
      dimension_numbers: the dims of lhs, rhs and output, ("NHWC", "HWIO", "NHWC") say.

    Returns:
      A tuple of integers.

    Raises:
      TypeError, ValueError, RuntimeError: where `conv_shape_tuple` does, and TypeError
        for other than three strings.
      IndexError: for strings longer than the shapes.

    >>> from curta import lax
    >>> layout = ("NWC", "WIO", "NWC")
    >>> lax.conv_general_shape_tuple((1, 8, 3), (3, 3, 4), (2,), "SAME", layout)
    (1, 4, 4)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shapes = canonicalize_shape(lhs_shape), canonicalize_shape(rhs_shape)
    left, right = map(_named_sizes, shapes, (lhs, rhs))
    shape = conv_shape_tuple(left, right, window_strides, padding)
    return _in_order(shape, out)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    dimension_numbers: Sequence[str],
) -> tuple[int, ...]:
    """The shape of a `conv_transpose` in a layout given by three strings.

    Args:
      lhs_shape, rhs_shape, dimension_numbers: as for `conv_general_shape_tuple`.
      window_strides: by how much the spatial dims grow.
      padding: "VALID", "SAME", or (low, high) for each spatial dim.

    Returns:
      A tuple of integers.

    Raises:
      TypeError: for strides and paddings of other lengths, or other than three strings.
      ValueError: if `padding` is an unknown string.

    >>> from curta import lax
    >>> layout = ("NWC", "WIO", "NWC")
    >>> lax.conv_transpose_shape_tuple((1, 8, 3), (3, 3, 4), (2,), "SAME", layout)
    (1, 16, 4)
    """
    name = "conv_transpose_shape_tuple"
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    shapes = canonicalize_shape(lhs_shape), canonicalize_shape(rhs_shape)
    left, right = map(_named_sizes, shapes, (lhs_spec, rhs_spec))
    lhs, rhs, steps = _sizes(name, left, right, window_strides)
    if isinstance(padding, str):
        padding = [transposed_padding(k, s, padding) for k, s in zip(rhs[2:], steps)]
    padding = explicit_padding(name, padding)
    check_padding_count(padding, len(lhs) - 2)
    spatial = [
        (i - 1) * s - k + 2 + sum(pads)
        for i, k, s, pads in zip(lhs[2:], rhs[2:], steps, padding)
    ]
    return _in_order((lhs[0], rhs[0], *spatial), out_spec)


def _named_sizes(shape: tuple[int, ...], spec: Sequence[int]) -> tuple[int, ...]:
    """The sizes of a shape in the order of `spec`; IndexError for too few."""
    if len(shape) < len(spec):
        raise IndexError(
            f"convolution dimension_numbers name {len(spec)} dims, but the shape"
            f" {shape} has {len(shape)}."
        )
    return taken(shape, spec)


def _sizes(name: str, lhs_shape: Any, rhs_shape: Any, strides: Any) -> list[Any]:
    """Shapes and strides as ints; raises unless they fit each other."""
    lhs, rhs = canonicalize_shape(lhs_shape), canonicalize_shape(rhs_shape)
    steps = canonicalize_shape(strides)
    if not len(lhs) == len(rhs) == len(steps) + 2:
        raise TypeError(
            f"{name} takes shapes with two more dims than there are strides, got"
            f" {lhs}, {rhs} and strides {steps}."
        )
    if any(s < 1 for s in steps):
        raise ValueError(f"window_strides must be positive, got {steps}.")
    return [lhs, rhs, steps]


def transposed_padding(k: int, stride: int, padding: Any) -> tuple[int, int]:
    """How to pad a dim so that convolving makes up for a window of size k."""
    if padding == "SAME":
        total = k + stride - 2
        low = k - 1 if stride > k - 1 else -(-total // 2)
    elif padding == "VALID":
        total, low = k + stride - 2 + max(k - stride, 0), k - 1
    elif isinstance(padding, tuple):
        low = k - padding[0] - 1
        total = low + k - padding[1] - 1
    else:
        raise ValueError(f"Invalid padding mode: {padding}")
    return low, total - low


def _in_order(shape: Sequence[int], spec: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[spec.index(d)] for d in range(len(shape)))
