"""Slices of different sizes, and messages, from example to example of a named axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta import tree_util
from curta.control.ragged_exchange import RaggedAllToAll
from curta.core.avals import ShapedArray
from curta.core.trace import current_trace, operand_type
from curta.lax.named_axes import (
    AxisName,
    Groups,
    axis_size,
    checked_groups,
    names_of,
)
from curta.primitives.exchange import Pairs, Precv, Psend

Perm = Sequence[tuple[int, int]]


def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: AxisName,
    axis_index_groups: Groups = None,
) -> Any:
    """`all_to_all` of slices of different sizes along dim 0.

    Args:
      operand: (N, ...), the array whose slices are sent.
      output: (M, ...), which receives them; other rows stay as they are.
      input_offsets, send_sizes: (K,) where slices begin in `operand`, and their sizes;
        slice k goes to example `k // (K / axis size)`.
      output_offsets: (K,) where the slices sent begin at their receivers.
      recv_sizes: (K,) the sizes of the slices received.
      axis_name: the axis.
      axis_index_groups: lists of the indices that exchange with each other; all by
        default.

    Returns:
      `output` with the slices received.

    Raises:
      RuntimeError: outside of a map.
      ValueError: if numbers are not vectors of integers.

    >>> import curta
    >>> from curta import lax, numpy as jnp
    >>> x, out = jnp.array([[1, 2, 3], [4, 5, 6]]), jnp.zeros((2, 3), int)
    >>> begin, sizes = jnp.array([[0, 1], [0, 2]]), jnp.array([[1, 2], [2, 1]])
    >>> offsets, received = jnp.array([[0, 0], [1, 2]]), jnp.array([[1, 2], [2, 1]])
    >>> send = lambda *args: lax.ragged_all_to_all(*args, axis_name="i")
    >>> print(curta.vmap(send, axis_name="i")(x, out, begin, sizes, offsets, received))
    [[1 4 5]
     [2 3 6]]
    """
    args = operand, output, input_offsets, send_sizes, output_offsets, recv_sizes
    for i, x in enumerate(args):
        operand_type("ragged_all_to_all", i, x)
    if current_trace().is_evaluating():
        raise RuntimeError(
            "ragged_all_to_all must be used within a mapped context like vmap or"
            " shard_map."
        )
    names = names_of(axis_name)
    return RaggedAllToAll(names, checked_groups(names, axis_index_groups))(*args)


def psend(x: Any, axis_name: AxisName, perm: Perm) -> Any:
    """Send values to other devices of a `shard_map` or `pmap`.

    Each is received by a `precv` with the same pairs of devices in `perm`, in the order
    in which they are sent, within one function or loop body.

    Args:
      x: a tree of arrays.
      axis_name: the axis.
      perm: pairs of source and destination.

    Returns:
      A token for each leaf, which comes after it is sent.

    Raises:
      ValueError: if pairs are repeated or name unknown devices.
      JaxRuntimeError: when the program is compiled, if a message has no receiver, or
        messages form a cycle.

    >>> import curta
    >>> from curta import lax
    >>> def body(x):
    ...     return lax.precv(lax.psend(x, "i", []), x, "i", [])
    >>> curta.pmap(body, axis_name="i")(curta.numpy.ones((1, 2)))
    Array([[0., 0.]], dtype=float32)
    """
    names, pairs = _checked(axis_name, perm, "psend")
    return tree_util.tree_map(Psend(names, pairs), x)


def precv(token: Any, out_shape: Any, axis_name: AxisName, perm: Perm) -> Any:
    """Receive what other devices of a `shard_map` or `pmap` send; see `psend`.

    Args:
      token: what this comes after, from `psend` or `create_token`.
      out_shape: something with the `shape` and `dtype` of what is received.
      axis_name: the axis.
      perm: pairs of source and destination; devices that are not destination get zeros.

    Returns:
      The array received.

    Raises:
      ValueError: for pairs that are not unique or no devices, and if other shapes or
        dtypes are sent.
      JaxRuntimeError: as for `psend`.

    >>> import curta
    >>> from curta import lax
    >>> def body(x):
    ...     return lax.precv(lax.psend(x, "i", []), x, "i", [])
    >>> curta.pmap(body, axis_name="i")(curta.numpy.ones((1, 2)))
    Array([[0., 0.]], dtype=float32)
    """
    names, pairs = _checked(axis_name, perm, "precv")
    aval = ShapedArray(tuple(out_shape.shape), out_shape.dtype)
    return Precv(names, aval, pairs)(token)


def _checked(axis_name: AxisName, perm: Perm, user: str) -> tuple[Any, Pairs]:
    names = names_of(axis_name)
    size = axis_size(names)
    if len(names) > 1:
        raise NotImplementedError(f"{user} is for a single named axis; got {names}")
    pairs = tuple((int(s), int(t)) for s, t in perm)
    for side in zip(*pairs, strict=True):
        if len({*side}) != len(side) or not all(0 <= i < size for i in side):
            raise ValueError(
                f"{user} sources and destinations must be unique, and below the axis"
                f" size {size}, got {perm}."
            )
    return names, pairs
