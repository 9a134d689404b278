"""Products of numbers with few bits, whose blocks have a scale in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta._base.lazy_dataclass import dataclass
from curta._base.user_warnings import warn
from curta.api.custom_derivatives import custom_jvp
from curta.core.array import Array, DTypeLike


@dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """How an operand is rounded: the dtypes of its numbers and its blocks' scales."""

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(
    mode: str, global_scale: Array | None = None
) -> BlockScaleConfig:
    """The format of `scaled_dot_general` called "nvfp4" or "mxfp8".

    >>> from curta import nn
    >>> nn.get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode == "nvfp4":
        one = jnp.ones((1,), np.float32)
        scale = one if global_scale is None else global_scale
        types = np.dtype(ml_dtypes.float4_e2m1fn), np.dtype(ml_dtypes.float8_e4m3fn)
        return BlockScaleConfig(mode, 16, *types, scale, False)
    if mode == "mxfp8":
        types = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e8m0fnu)
        return BlockScaleConfig(mode, 32, *types, None, False)
    raise ValueError(f"Unsupported mode: {mode}")


def scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Array:
    """`lax.dot_general` of operands that are rounded to few bits first.

    Args:
      lhs, rhs: arrays.
      dimension_numbers: as for `lax.dot_general`; with `configs` one dim is contracted.
      preferred_element_type: the dtype of the result; float32 by default.
      configs: the formats of the operands. Formats for gradients are ignored:
        derivatives are those of the product without rounding. Without `configs` nothing
        is rounded.
      implementation: deprecated, and has no effect.

    Returns:
      An array with the dims that `dot_general` gives.

    Raises:
      TypeError: if shapes or dimension numbers do not fit, `preferred_element_type` is
        not a dtype, or a config is not supported.
      ValueError: if the contracted dim is not a multiple of the block size.

    >>> from curta import nn, numpy as jnp
    >>> x = jnp.ones((2, 32))
    >>> config = nn.get_scaled_dot_general_config("mxfp8")
    >>> numbers = (((1,), (1,)), ((), ()))
    >>> nn.scaled_dot_general(x, x, numbers, configs=[config, config])
    Array([[32., 32.],
           [32., 32.]], dtype=float32)
    """
    if implementation is not None:
        warn(
            "Backend selector, now ignored. The system chooses the backend"
            " automatically.",
            DeprecationWarning,
        )
    if configs is not None:
        if not all(isinstance(config, BlockScaleConfig) for config in configs[:2]):
            raise TypeError(
                "scaled_dot_general takes configs as a sequence of BlockScaleConfig for"
                f" lhs and rhs, got {configs}: get_scaled_dot_general_config makes one."
            )
        (left, right), _ = dimension_numbers
        lhs = _rounded_along(lhs, left, configs[0])
        rhs = _rounded_along(rhs, right, configs[1])
    return lax.dot_general(
        lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
    )


def _rounded_along(x: Any, contracting: Sequence[int], config: BlockScaleConfig) -> Any:
    """`x` as it is after rounding blocks along its contracting dim."""
    if len(contracting) != 1 or x.shape[contracting[0]] % config.block_size:
        raise ValueError(
            "scaled_dot_general needs one contracting dimension, a multiple of the"
            f" block size {config.block_size}; got shape {x.shape} and dimensions"
            f" {tuple(contracting)}. Pad it with zeros."
        )
    moved = jnp.moveaxis(x, contracting[0], -1)
    return jnp.moveaxis(_straight_through(moved, config), -1, contracting[0])


def _straight_through(x: Any, config: BlockScaleConfig) -> Any:
    """The rounded `x`, with the derivative of `x` itself."""

    @custom_jvp
    def rounded(x: Any) -> Any:
        blocks = x.reshape(*x.shape[:-1], -1, config.block_size).astype(np.float32)
        whole = 1.0 if config.global_scale is None else config.global_scale
        largest = float(dtypes.finfo(config.data_type).max)
        limits = dtypes.finfo(config.scale_type)
        scale = jnp.max(jnp.abs(blocks), axis=-1, keepdims=True) / largest / whole
        scale = jnp.clip(scale, float(limits.tiny), float(limits.max))
        if config.mode == "mxfp8":  # a power of two, not less
            scale = jnp.exp2(jnp.ceil(jnp.log2(scale)))
        scale = scale.astype(config.scale_type).astype(np.float32) * whole
        scaled = jnp.clip(blocks / scale, -largest, largest)
        values = scaled.astype(config.data_type).astype(np.float32) * scale
        return values.reshape(x.shape).astype(x.dtype)

    rounded.defjvps(lambda t, out, x: t)
    return rounded(x)


def scaled_matmul(
    lhs: Array,
    rhs: Array,
    lhs_scales: Array,
    rhs_scales: Array,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:
    """lhs rhsᵀ for operands that are given as small numbers and scales of blocks.

    Args:
      lhs: (batch, m, k).
      rhs: (batch, n, k).
      lhs_scales, rhs_scales: (batch, m, k / block) and (batch, n, k / block).
      preferred_element_type: the dtype of the result; float32 by default.

    Returns:
      An array (batch, m, n).

    Raises:
      ValueError: for operands of other ranks, and shapes that do not fit.
      TypeError: if blocks do not divide k or a dtype is invalid.

    >>> from curta import nn, numpy as jnp
    >>> x, scales = jnp.ones((1, 2, 32)), jnp.full((1, 2, 1), 0.5)
    >>> nn.scaled_matmul(x, x, scales, scales)[0, 0]
    Array([8., 8.], dtype=float32)
    """
    if not all(np.ndim(x) == 3 for x in (lhs, rhs, lhs_scales, rhs_scales)):
        raise ValueError("scaled_matmul requires all inputs to be 3-dimensional arrays")
    if lhs.shape[0] != rhs.shape[0] or lhs.shape[2] != rhs.shape[2]:
        raise ValueError(
            "scaled_matmul requires inputs a and b to have matching batch (B) and"
            f" contract (K) dimensions, but got shapes {lhs.shape} and {rhs.shape}"
        )
    a, b = lhs_scales.shape, rhs_scales.shape
    if a[0] != b[0] or a[2] != b[2]:
        raise ValueError(
            "scaled_matmul requires scales to have matching batch (B) and contract (K)"
            f" dimensions, but got shapes {a} and {b}"
        )
    if a[1] != lhs.shape[1] or b[1] != rhs.shape[1]:
        raise ValueError(
            "scaled_matmul requires scales to match non-contract dimensions of inputs,"
            f" but got shapes a: {lhs.shape}, b: {rhs.shape}, a_scales: {a}, b_scales:"
            f" {b}"
        )
    dtype = dtypes.check_user_dtype(preferred_element_type, "scaled_matmul")
    wide = [
        x.astype(np.float32)
        * jnp.repeat(scales.astype(np.float32), x.shape[2] // scales.shape[2], axis=2)
        for x, scales in ((lhs, lhs_scales), (rhs, rhs_scales))
    ]
    return jnp.einsum("bmk,bnk->bmn", *wide).astype(dtype)
