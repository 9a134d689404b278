"""How arrays are stored: `Layout` and `Format`.

>>> import curta, curta.numpy as jnp
>>> from curta.experimental.layout import Format, Layout
>>> sharding = jnp.ones(1).sharding
>>> x = curta.device_put(jnp.ones((2, 3)), Format(Layout((1, 0)), sharding))
>>> x.format.layout
Layout(major_to_minor=(1, 0), tiling=(), sub_byte_element_size_in_bits=0)
>>> f = curta.jit(jnp.transpose, in_shardings=x.format, out_shardings=x.format)
>>> f.lower(x).compile().output_formats == x.format
True
"""

from __future__ import annotations

from typing import Any

from curta import tree_util
from curta._base.on_demand import Listing, listed
from curta.api.arguments import as_result
from curta.api.jit_shardings import check_layout_fits
from curta.core.array_layout import Format as Format, Layout as Layout
from curta.core.trace import typeof
from curta.primitives.placing import LayoutConstraint
from curta.runtime.array import ArrayImpl
from curta.runtime.relayout import laid_out

__all__ = ["Format", "Layout", "with_layout_constraint"]
__dir__: Listing = listed(__all__)


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The arrays of a pytree, stored in the order of a layout.

    In a program it is a wish: results that are computed of `x` alone follow it, values
    that are not results are stored as the compiler likes.

    Args:
      x: a pytree of arrays.
      layouts: a `Layout`, or a tree of them that is a prefix of `x`.

    Returns:
      A tree like `x`.

    Raises:
      ValueError: for other things than layouts, and for layouts of other dims than the
        arrays have.

    >>> import curta.numpy as jnp
    >>> with_layout_constraint(jnp.ones((2, 3)), Layout((1, 0))).format.layout.order
    (1, 0)
    """
    leaves, tree = tree_util.tree_flatten(x)
    given = tree_util.broadcast_prefix(layouts, x)
    if not all(isinstance(layout, Layout) for layout in given):
        raise ValueError(
            "layouts passed to `with_layout_constraint` must be of type `Layout`. Got"
            f" {[*map(type, given)]}"
        )
    pairs = zip(map(as_result, leaves), given, strict=True)
    return tree_util.tree_unflatten(tree, [_constrained(*pair) for pair in pairs])


def _constrained(x: Any, layout: Layout) -> Any:
    check_layout_fits("with_layout_constraint arguments", layout, typeof(x))
    return laid_out(x, layout) if type(x) is ArrayImpl else LayoutConstraint(layout)(x)
