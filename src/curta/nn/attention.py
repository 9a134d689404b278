"""Scaled dot product attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

import curta.numpy as jnp
from curta import dtypes, lax
from curta.core.array import Array, ArrayLike
from curta.nn.normalisation import logsumexp, softmax


@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: Literal[False] = ...,
) -> Array: ...
@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: bool = ...,
) -> Array | tuple[Array, Array]: ...
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Array | tuple[Array, Array]:
    """softmax(query keyᵀ scale + bias) value, for each head.

    Source: A. Vaswani et al., Attention is all you need (2017).

    Args:
      query: array (batch, t, heads, h), or without the batch.
      key, value: arrays (batch, s, groups, h), of query's dtype; `groups` divides the
        heads, and each serves as many of them.
      bias: added to the scores; broadcasts to (batch, heads, t, s).
      mask: boolean, of such a shape: where it is false, a key does not count.
      scale: 1 / √h by default.
      is_causal: a query sees no later keys.
      query_seq_lengths, key_value_seq_lengths: int32 arrays (batch,): how many of the
        queries and keys count; results of other queries are 0.
      local_window_size: how far before and after itself a query sees.
      implementation: None or "xla".
      return_residual: return also the logarithms of the softmaxes' denominators,
        (batch, t, heads).

    Returns:
      An array of query's shape and dtype, or a pair with the residual.

    Raises:
      ValueError: if shapes and dtypes do not fit, and unknown implementations.
      TypeError: if an argument is not an array; for a bias that does not broadcast.
      NotImplementedError: for "cudnn", which is for GPUs.

    >>> from curta import nn, numpy as jnp
    >>> x = jnp.ones((4, 2, 8))  # 4 positions, 2 heads
    >>> nn.dot_product_attention(x, x, x, is_causal=True).shape
    (4, 2, 8)
    """
    if implementation == "cudnn":
        raise NotImplementedError(
            "implementation='cudnn' needs a GPU. Use None or 'xla' here."
        )
    if implementation not in (None, "xla"):
        raise ValueError(f"Unsupported implementation option: {implementation}")
    shape = jnp.asarray(query).shape
    queries, keys, values = (_four_dims(x) for x in (query, key, value))
    biases, masks = (None if x is None else _four_dims(x) for x in (bias, mask))
    lengths = [
        None if x is None else jnp.asarray(x)
        for x in (query_seq_lengths, key_value_seq_lengths)
    ]
    _check_operands(queries, keys, values, biases, masks, lengths)
    window = _window(local_window_size)
    logits = _logits(queries, keys, biases, scale)
    seen = _seen(logits.shape, masks, is_causal, lengths, window)
    if seen is not None:
        # Finite, so that a query that sees nothing has no NaN.
        least = -0.7 * float(dtypes.finfo(logits.dtype).max)
        logits = jnp.where(seen, logits, least)
    out = _weighted(softmax(logits, axis=-1).astype(keys.dtype), values)
    if lengths[0] is not None:
        inside = jnp.arange(out.shape[1])[None] < lengths[0][:, None]
        out = out * inside[:, :, None, None].astype(out.dtype)
    out = out.reshape(shape)
    if not return_residual:
        return out
    residual = logsumexp(logits, axis=-1).astype(keys.dtype).transpose(0, 2, 1)
    return out, lax.stop_gradient(residual).reshape(shape[:-1])


def _window(size: Any) -> tuple[int, int] | None:
    """How many keys before and after a query it sees, None if all."""
    if size is None or isinstance(size, int):
        return None if size is None else (size, size)
    if isinstance(size, Sequence) and not isinstance(size, str) and len(size) == 2:
        return size[0], size[1]
    kind = ValueError if isinstance(size, Sequence) else TypeError
    raise kind(f"local_window_size must be an int or a pair of ints, but got {size!r}")


def _four_dims(x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    return jnp.expand_dims(x, tuple(range(4 - x.ndim))) if x.ndim < 4 else x


def _check_operands(
    query: Any, key: Any, value: Any, bias: Any, mask: Any, lengths: Sequence[Any]
) -> None:
    batch, s, groups, h = key.shape
    _check("value", value, (batch, s, groups, h), key.dtype)
    _check("query", query, (batch, -1, -1, h), key.dtype)
    _check("mask", mask, (-1,) * 4, np.dtype(bool))
    _check("bias", bias, (-1,) * 4, None)
    for name, x in zip(("query_seq_lengths", "key_value_seq_lengths"), lengths):
        _check(name, x, (batch,), np.dtype(np.int32))
    full = (batch, query.shape[2], query.shape[1], s)
    if mask is not None and any(n not in (1, m) for n, m in zip(mask.shape, full)):
        raise ValueError(
            f"mask shape should broadcast to {full}, (batch, heads, queries, keys): but"
            f" got {mask.shape}"
        )
    if query.shape[-2] % groups:
        raise ValueError(
            "The number of query heads must be a multiple of key/value heads, but got"
            f" {query.shape[-2]} vs {groups}"
        )


def _check(name: str, x: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """`x` has the shape, where that is not -1, and the dtype, if one is given."""
    if x is None:
        return
    if x.ndim != len(shape):
        raise ValueError(f"{name} ndim should be {len(shape)}, but got {x.ndim}")
    if dtype is not None and x.dtype != dtype:
        raise ValueError(f"{name} dtype should be {dtype}, but got {x.dtype}")
    if any(want not in (-1, size) for want, size in zip(shape, x.shape)):
        raise ValueError(f"{name} shape should be {list(shape)}: but got {x.shape}")


def _logits(query: Any, key: Any, bias: Any, scale: float | None) -> Any:
    """The scaled scores with their bias, in float32 at least."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    logits = _scores(query, key)
    logits = logits * jnp.asarray(factor, logits.dtype)
    return logits if bias is None else (logits + bias).astype(logits.dtype)


def _scores(query: Any, key: Any) -> Any:
    """The products of queries and keys, (batch, heads, t, s)."""
    batch, t, heads, h = query.shape
    groups, s = key.shape[2], key.shape[1]
    query = query.reshape(batch, t, groups, heads // groups, h)
    wide = jnp.promote_types(query.dtype, np.float32)
    scores = jnp.einsum("btgnh,bsgh->bgnts", query, key, preferred_element_type=wide)
    return scores.reshape(batch, heads, t, s)


def _weighted(weights: Any, value: Any) -> Any:
    """The weighted sums of values, (batch, t, heads, h)."""
    batch, heads, t, s = weights.shape
    groups, h = value.shape[2:]
    weights = weights.reshape(batch, groups, heads // groups, t, s)
    out = jnp.einsum("bgnts,bsgh->btgnh", weights, value)
    return out.reshape(batch, t, heads, h)


def _seen(
    shape: tuple[int, ...],
    mask: Any,
    is_causal: bool,
    lengths: Sequence[Any],
    window: tuple[int, int] | None,
) -> Any:
    """Which keys count for which queries; None if all do."""
    t, s = shape[-2:]
    query, key = np.arange(t)[:, None], np.arange(s)
    masks = [] if mask is None else [mask]
    if is_causal:
        masks.append((key <= query)[None, None])
    if window is not None:
        near = (query - window[0] <= key) & (key <= query + window[1])
        masks.append(near[None, None])
    for positions, length in zip((query, key[None]), lengths):
        if length is not None:
            masks.append(
                jnp.asarray(positions)[None, None] < length[:, None, None, None]
            )
    if not masks:
        return None
    seen = masks[0]
    for more in masks[1:]:
        seen = jnp.logical_and(seen, more)
    return jnp.broadcast_to(seen, shape)
