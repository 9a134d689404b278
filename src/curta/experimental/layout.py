"""How arrays are stored: `Layout` and `Format`.

>>> import curta, curta.numpy as jnp
>>> from curta.experimental.layout import Format, Layout
>>> x = curta.device_put(jnp.ones((2, 3)), Format(sharding=jnp.ones(1).sharding))
>>> x.format.layout
Layout(major_to_minor=(0, 1), tiling=(), sub_byte_element_size_in_bits=0)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.core.array_layout import Format as Format, Layout as Layout
from curta.on_demand import Listing, listed

__all__ = ["Format", "Layout", "with_layout_constraint"]
__dir__: Listing = listed(__all__)


def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """`x`, for which a program asks that the compiler store it so.

    Args:
      x: an array.
      layout: changes no result; Curta stores arrays in row-major order.

    Raises:
      ValueError: if `layout` has another number of dims than `x`.

    >>> import curta.numpy as jnp
    >>> with_layout_constraint(jnp.ones(2), Layout((0,)))
    Array([1., 1.], dtype=float32)
    """
    layout.check_compatible_aval(np.shape(x))
    return x
