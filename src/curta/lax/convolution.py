"""Convolutions over any number of dims, in any layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.shapes import (
    canonicalize_shape,
    check_nonnegative,
    integer,
    integers,
    sequence,
)
from curta.core.trace import operand_type
from curta.lax.conversion import stage
from curta.lax.dimension_numbers import conv_dimension_numbers, transposed_padding
from curta.lax.dot import canonicalize_precision, dot_general
from curta.lax.shape import broadcast_in_dim, reshape, rev, transpose
from curta.lax.windows import explicit_padding, window_padding
from curta.primitives.convolution import ConvGeneralDilated
from curta.primitives.convolution.shapes import check_padding_count, taken
from curta.primitives.precision import Precision
from curta.primitives.windowed.sliding import dilated

Padding = str | Sequence[tuple[int, int]]

_TRANSPOSE_LAYOUTS = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


@takes_out_sharding
def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The convolution of `lhs` with the kernel `rhs`, which is not reversed.

    Args:
      lhs: an array of n + 2 dims: a batch, features, and n spatial dims.
      rhs: the kernel, of n + 2 dims: output features, input features, spatial dims.
      window_strides: the distance between window starts, along each spatial dim.
      padding: "VALID", "SAME", "SAME_LOWER", or (low, high) for each spatial dim.
      lhs_dilation, rhs_dilation: the distance between elements, with zeros between
        them; 1 by default.
      dimension_numbers: a `ConvDimensionNumbers`, or three strings that name the dims
        of lhs, rhs and output, such as ("NHWC", "HWIO", "NHWC"): N is the batch, C the
        features, I and O the input and output features. By default these dims come
        first.
      feature_group_count: the groups of features that do not see one another.
      batch_group_count: the parts of the batch, each for its own output features.
      precision: see `dot`. Large convolutions of 3 by 3 are computed with fewer
        products. Rounding errors are as small, but infinities become NaN; "highest"
        uses direct sums.
      preferred_element_type: the dtype of sums and result; by default the dtype of the
        operands.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array (batch, output features, ...), its dims in the order of the numbers.

    Raises:
      TypeError: if operands differ in rank or dtype, dimension numbers or padding do
        not fit, or `preferred_element_type` cannot hold the sums.
      ValueError: if features or groups do not fit, strides that are not positive or too
          many, or the precision is unknown.
      RuntimeError: if `padding` is an unknown string.

    >>> import curta
    >>> x = curta.numpy.arange(5.).reshape(1, 1, 5)
    >>> kernel = curta.numpy.array([[[1., 0., -1.]]])
    >>> curta.lax.conv_general_dilated(x, kernel, (1,), "SAME")
    Array([[[-1., -2., -2., -2.,  3.]]], dtype=float32)
    """
    lhs_shape, rhs_shape = _shapes("conv_general_dilated", lhs, rhs)
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    strides = _sizes("window_strides", window_strides)
    _check_ranks(numbers, lhs_shape, strides)
    ones = (1,) * (len(lhs_shape) - 2)
    name = "conv_general_dilated lhs_dilation"
    spread = ones if lhs_dilation is None else sequence(name, lhs_dilation) or ones
    within = ones if rhs_dilation is None else _sizes("rhs_dilation", rhs_dilation)
    within = within or ones
    if isinstance(padding, str):
        if spread != ones:
            raise ValueError(
                "String padding is not implemented for transposed convolution using"
                " this op. Please either exactly specify the required padding or use"
                " conv_transpose."
            )
        kernel = taken(rhs_shape, numbers.rhs_spec[2:])
        reach = tuple(map(dilated, kernel, within))
        sizes = taken(lhs_shape, numbers.lhs_spec[2:])
        padding = window_padding(sizes, reach, strides, padding)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_user_dtype(
            preferred_element_type, "conv_general_dilated"
        )
    return ConvGeneralDilated(
        strides,
        explicit_padding("conv_general_dilated", padding),
        _sizes("lhs_dilation", spread),
        within,
        numbers,
        integer("conv_general_dilated feature_group_count", feature_group_count),
        integer("conv_general_dilated batch_group_count", batch_group_count),
        canonicalize_precision(precision),
        preferred_element_type,
    )(lhs, rhs)


def _shapes(name: str, *operands: Any) -> list[tuple[int, ...]]:
    return [operand_type(name, i, x).shape for i, x in enumerate(operands)]


def _sizes(name: str, given: Any) -> tuple[int, ...]:
    return integers(f"conv_general_dilated {name}", given, None)


def _check_ranks(numbers: Any, lhs_shape: Any, window_strides: Any) -> None:
    spatial = {len(spec) - 2 for spec in (*numbers, lhs_shape)}
    if spatial != {len(window_strides)}:
        raise ValueError(
            "conv_general_dilated window and window_strides must have the same number"
            f" of dimensions, but got {len(numbers.rhs_spec) - 2} and"
            f" {len(window_strides)}, for lhs shape {lhs_shape} and dimension_numbers"
            f" {numbers}"
        )


def conv(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """A convolution of dims (batch, features, ...) with (out, in, ...).

    Args:
      lhs: an array (batch, features, ...) of n + 2 dims.
      rhs: the kernel (output features, input features, ...), of n + 2 dims and the same
        dtype; it is not reversed.
      window_strides: how far windows start apart, along each of the n spatial dims.
      padding: "VALID", "SAME" or "SAME_LOWER".
      precision, preferred_element_type: as for `conv_general_dilated`.

    Returns:
      An array (batch, output features, ...).

    Raises:
      TypeError, ValueError, RuntimeError: where `conv_general_dilated` does.

    >>> import curta
    >>> x = curta.numpy.ones((1, 2, 4, 4))
    >>> curta.lax.conv(x, curta.numpy.ones((3, 2, 3, 3)), (1, 1), "VALID").shape
    (1, 3, 2, 2)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """`conv` with dilations, and padding by numbers.

    Args:
      lhs, rhs, window_strides: as for `conv`.
      padding: (low, high) for each spatial dim, or a string as for `conv`.
      lhs_dilation, rhs_dilation: how far elements lie apart, with zeros between; None
        stands for 1.
      precision, preferred_element_type: as for `conv_general_dilated`.

    Returns:
      An array (batch, output features, ...).

    Raises:
      TypeError, ValueError, RuntimeError: where `conv_general_dilated` does.

    >>> import curta
    >>> x = curta.numpy.ones((1, 1, 4))
    >>> w = curta.numpy.ones((1, 1, 2))
    >>> curta.lax.conv_with_general_padding(x, w, (1,), ((1, 0),), (1,), (2,))
    Array([[[1., 2., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_transpose(
    lhs: Array,
    rhs: Array,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """A transposed convolution: one with fractional strides, which makes lhs larger.

    Args:
      lhs, rhs, rhs_dilation, precision, preferred_element_type: see
        `conv_general_dilated`.
      strides: by how much the spatial dims grow.
      padding: "SAME" or "VALID", as of the convolution that would make the result
        smaller, or (low, high) for each dim, which pad lhs. With
        `use_consistent_padding` numbers mean the other convolution's too.
      dimension_numbers: ("NHWC", "HWIO", "NHWC") by default, for two spatial dims.
      transpose_kernel: reverse the kernel and swap its features, which makes this the
        gradient of the convolution with that kernel.
      use_consistent_padding: what numbers in `padding` are; False by default.

    Returns:
      An array like `lhs`, with the output features of `rhs`.

    Raises:
      ValueError: for operands of different ranks, more than three spatial dims without
        dimension numbers, and features that do not fit.
      TypeError: for operands of different dtypes, or paddings that do not fit.
      RuntimeError: if `padding` is an unknown string.

    >>> import curta
    >>> x, w = curta.numpy.ones((1, 3, 1)), curta.numpy.ones((2, 1, 1))
    >>> curta.lax.conv_transpose(x, w, (2,), "SAME").shape
    (1, 6, 1)
    """
    lhs_shape, rhs_shape = _shapes("conv_transpose", lhs, rhs)
    rank = len(lhs_shape)
    if rank != len(rhs_shape) or rank < 2:
        raise ValueError(
            "conv_transpose lhs and rhs must have the same number of dimensions, 2 or"
            f" more, but got {lhs_shape} and {rhs_shape}."
        )
    if dimension_numbers is None:
        if rank not in _TRANSPOSE_LAYOUTS:
            raise ValueError("No 4+ dimensional dimension_number defaults.")
        dimension_numbers = _TRANSPOSE_LAYOUTS[rank]
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    strides = integers("conv_transpose strides", strides, None)
    if rhs_dilation is None:
        rhs_dilation = (1,) * (rank - 2)
    named = isinstance(padding, str) and padding in ("SAME", "VALID")
    if use_consistent_padding or named:
        window = taken(rhs_shape, numbers.rhs_spec[2:])
        reach = map(dilated, window, rhs_dilation)
        each = [padding] * len(strides) if isinstance(padding, str) else padding
        padding = list(map(transposed_padding, reach, strides, each))
        check_padding_count(padding, rank - 2)
    if transpose_kernel:
        rhs = rev(rhs, numbers.rhs_spec[2:])
        order = list(range(rank))
        out, into = numbers.rhs_spec[:2]
        order[out], order[into] = into, out
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs, rhs, (1,) * (rank - 2), padding, strides, rhs_dilation, numbers,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The windows that a convolution with a kernel of `filter_shape` sees.

    Args:
      lhs: an array of n + 2 dims: a batch, features, and n spatial dims.
      filter_shape: the n sizes of windows.
      window_strides, padding, lhs_dilation, rhs_dilation: as for
        `conv_general_dilated`.
      dimension_numbers, precision, preferred_element_type: as for
        `conv_general_dilated`.

    Returns:
      An array with the windows along its feature dim: feature after feature, each with
      the positions of the window in order.

    Raises:
      TypeError: for a window of another rank or with negative sizes.
      ValueError, RuntimeError: where `conv_general_dilated` does.

    >>> import curta
    >>> x = curta.numpy.arange(4.).reshape(1, 1, 4)
    >>> curta.lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    lhs = stage(lhs)
    filter_shape = canonicalize_shape(tuple(filter_shape))
    check_nonnegative("conv_general_dilated_patches filter_shape", filter_shape)
    numbers = conv_dimension_numbers(
        lhs.shape, (1, 1, *filter_shape), dimension_numbers
    )
    size, channels = math.prod(filter_shape), lhs.shape[numbers.lhs_spec[1]]
    # A kernel that picks one position of one feature for each output feature.
    kernel = stage(np.eye(size).astype(lhs.dtype))
    kernel = broadcast_in_dim(kernel, (channels, size, size), (1, 2))
    kernel = reshape(kernel, (channels * size, 1, *filter_shape))
    kernel = transpose(kernel, _inverse(numbers.rhs_spec))
    return conv_general_dilated(
        lhs,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        channels,
        precision=None if precision is None else (precision, Precision.DEFAULT),
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """A convolution with a kernel of its own at each position of the output.

    Args:
      lhs: an array of n + 2 dims: a batch, features, and n spatial dims.
      rhs: the kernels: output features, the elements of a window as
        `conv_general_dilated_patches` gives them, and the n spatial dims of the output.
      window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers: as for
        `conv_general_dilated`.
      filter_shape: the n sizes of windows.
      precision: a `Precision`, its name, or a pair of them; no `DotAlgorithm`.

    Returns:
      An array of a batch, output features, and n spatial dims.

    Raises:
      TypeError: for kernels of another shape than the output has.
      ValueError: for another precision.
      RuntimeError: if `padding` is an unknown string.

    >>> import curta
    >>> x, w = curta.numpy.ones((1, 1, 4)), curta.numpy.ones((2, 2, 3))
    >>> curta.lax.conv_general_dilated_local(x, w, (1,), "VALID", (2,)).shape
    (1, 2, 3)
    """
    exact = canonicalize_precision(precision)
    if exact is not None and not isinstance(exact, tuple):
        raise ValueError(
            f"Unsupported precision for conv_general_dilated_local: {precision}"
        )
    lhs = stage(lhs)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        None if exact is None else exact[0],
    )
    _, rhs_spec, out_spec = conv_dimension_numbers(
        lhs.shape, (1, 1, *filter_shape), dimension_numbers
    )
    pairs = sorted(zip(out_spec[2:], rhs_spec[2:], strict=True))
    batch = tuple(o for o, _ in pairs), tuple(r for _, r in pairs)
    numbers = (((out_spec[1],), (rhs_spec[1],)), batch)
    out = dot_general(patches, rhs, numbers, precision)
    order = list(range(len(pairs)))
    for position, dim in sorted([(out_spec[0], -2), (out_spec[1], -1)]):
        order.insert(position, len(out_spec) + dim)
    return transpose(out, order)


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda i: order[i])
