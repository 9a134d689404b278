"""Slices of different sizes handed from example to example along a named axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.core.trace import typeof
from curta.lax.parallel import AxisName, Groups, all_gather, axis_index, axis_size
from curta.lax.selection import clamp, select
from curta.lax.shape import broadcast_in_dim


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
      operand: (N, ...), of which slices are sent.
      output: (M, ...), which receives them; other rows stay as they are.
      input_offsets, send_sizes: (K,) where slices begin in `operand`, and their sizes;
        slice k goes to example `k // (K / axis size)`.
      output_offsets: (K,) where the slices sent begin at their receivers.
      recv_sizes: (K,) the sizes of the slices received.

    Returns: `output` with the slices received.
    """
    if axis_index_groups is not None:
        raise NotImplementedError("ragged_all_to_all within groups is not available")
    numbers = {
        "input_offsets": input_offsets,
        "send_sizes": send_sizes,
        "output_offsets": output_offsets,
        "recv_sizes": recv_sizes,
    }
    for name, x in numbers.items():
        aval = typeof(x)
        if aval.dtype.kind not in "iu":
            raise ValueError(f"ragged_all_to_all {name} must be integer type.")
        if aval.ndim != 1 or aval.size < 1:
            raise ValueError(
                f"ragged_all_to_all {name} must be rank 1 with positive dimension size,"
                f" but got shape {aval.shape}"
            )
    senders = axis_size(axis_name)
    each = typeof(input_offsets).size // senders
    rows, begins, sizes, places = (
        all_gather(x, axis_name)
        for x in (operand, input_offsets, send_sizes, output_offsets)
    )
    me = axis_index(axis_name)
    row = np.arange(typeof(output).shape[0], dtype=np.int32)
    last = typeof(operand).shape[0] - 1
    for sender in range(senders):
        for k in range(each):
            begin, size, place = (
                x[sender, me * each + k] for x in (begins, sizes, places)
            )
            received = rows[sender][clamp(0, begin + row - place, last)]
            taken = (row >= place) & (row < place + size)
            everywhere = broadcast_in_dim(taken, typeof(output).shape, (0,))
            output = select(everywhere, received, output)
    return output
