"""Which dims of a convolution are what, and the shapes that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from curta.core.dim import max_dim
from curta.primitives.windowed.sliding import Dims, Padding, dilated


class ConvDimensionNumbers(NamedTuple):
    """The positions of the dims of a convolution's arrays.

    lhs_spec, out_spec: of the batch, the features, then the spatial dims.
    rhs_spec: of the output features, the input features, then the spatial dims.

    >>> from curta import lax
    >>> lax.conv_dimension_numbers((1, 3, 8), (4, 3, 2), ("NCH", "OIH", "NCH"))
    ConvDimensionNumbers(lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2), out_spec=(0, 1, 2))
    """

    lhs_spec: Dims
    rhs_spec: Dims
    out_spec: Dims


def taken(shape: Sequence[int], spec: Sequence[int]) -> Dims:
    """The sizes of the dims that a spec names, in its order."""
    return tuple(shape[d] for d in spec)


def check_padding_count(padding: Sequence[Any], count: int) -> None:
    """Raise TypeError unless there is padding for each of `count` spatial dims."""
    if len(padding) != count:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {count}, got"
            f" {len(padding)}."
        )


def conv_shape(
    lhs: Sequence[int],
    rhs: Sequence[int],
    strides: Sequence[int],
    padding: Any,
    batch_groups: int = 1,
) -> Dims:
    """The shape of a convolution of shapes (N, C, ...) and (O, I, ...).

    Raises TypeError or ValueError for padding that does not fit.
    """
    check_padding_count(padding, len(lhs) - 2)
    padded = [d + low + high for d, (low, high) in zip(lhs[2:], padding, strict=True)]
    if any(d < 0 for d in padded):
        raise ValueError(
            "Negative padding is larger than the size of the corresponding dimension:"
            f" got padding={padding} for lhs_shape[2:]={tuple(lhs[2:])}"
        )
    spatial = [
        max_dim((d - k) // s + 1, 0)
        for d, k, s in zip(padded, rhs[2:], strides, strict=True)
    ]
    return (lhs[0] // batch_groups, rhs[0], *spatial)


def lhs_cotangent_padding(
    sizes: Dims, window: Dims, strides: Dims, out: Dims, padding: Padding,
    lhs_dilation: Dims, rhs_dilation: Dims,
) -> Padding:  # fmt: skip
    """The padding of the convolution that gives the cotangent of the lhs."""
    result = []
    for d, (low, _) in enumerate(padding):
        reach = dilated(window[d], rhs_dilation[d])
        extent = dilated(sizes[d], lhs_dilation[d])
        before = reach - low - 1
        after = extent + reach - 1 - dilated(out[d], strides[d]) - before
        result.append((before, after))
    return tuple(result)


def rhs_cotangent_padding(
    sizes: Dims, window: Dims, strides: Dims, out: Dims, padding: Padding,
    lhs_dilation: Dims, rhs_dilation: Dims,
) -> Padding:  # fmt: skip
    """The padding of the convolution that gives the cotangent of the rhs."""
    result = []
    for d, (low, _) in enumerate(padding):
        reach = dilated(window[d], rhs_dilation[d])
        extent = dilated(sizes[d], lhs_dilation[d])
        result.append((low, dilated(out[d], strides[d]) - extent + reach - low - 1))
    return tuple(result)
