"""Notes for XLA on parts of a program: recorded in jaxprs, and without effect here.

Curta compiles by itself; what a note would ask of XLA is not done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from curta import tree_util
from curta.api.arguments import as_result
from curta.on_demand import Listing, listed
from curta.primitives.elementwise.convert import XlaMetadataValue

__all__ = ["set_xla_metadata"]
__dir__: Listing = listed(__all__)


class _Notes:
    """For the ops within a `with` block, or a function."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return f


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Attach notes to the ops that make the arrays of a pytree.

    Returns `x`; without it, what attaches them to the ops in a `with` block or to
    those of the function that it decorates.

    >>> import curta
    >>> from curta.experimental.xla_metadata import set_xla_metadata
    >>> curta.make_jaxpr(lambda x: set_xla_metadata(2.0 * x, key="a"))(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = mul 2.0:f32[] a
        c:f32[] = xla_metadata_value[xla_metadata_kvs=(('key', 'a'),)] b
      in (c,) }
    >>> with set_xla_metadata(key="a"):
    ...     print(curta.numpy.sin(0.0))
    0.0
    """
    if x is None:
        return _Notes()
    op = XlaMetadataValue(tuple(sorted(kwargs.items())))
    return tree_util.tree_map(lambda leaf: op(as_result(leaf)), x)
