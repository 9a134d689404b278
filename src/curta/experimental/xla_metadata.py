"""Notes for XLA on parts of a program, which stand in its StableHLO.

Our own compiler for CPUs does nothing of what a note would ask of XLA.
"""

from __future__ import annotations

from typing import Any

from curta import tree_util
from curta.api.arguments import as_result
from curta.core.source_info import Annotating
from curta.on_demand import Listing, listed
from curta.primitives.elementwise.convert import XlaMetadataValue

__all__ = ["set_xla_metadata"]
__dir__: Listing = listed(__all__)


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Attach notes to the ops that make the arrays of a pytree.

    Returns `x`; without it, what attaches them to the ops in a `with` block or to
    those of the function that it decorates. There None takes a note back. They are
    frontend attributes of the operations that make the values, in loops those of the
    whole loop.

    >>> import curta
    >>> from curta.experimental.xla_metadata import set_xla_metadata
    >>> curta.make_jaxpr(lambda x: set_xla_metadata(2.0 * x, key="a"))(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = mul 2.0:f32[] a
        c:f32[] = xla_metadata_value[xla_metadata_kvs=(('key', 'a'),)] b
      in (c,) }
    >>> @curta.jit
    ... def f(x):
    ...     with set_xla_metadata(key="a"):
    ...         return curta.numpy.sin(x)
    >>> [line] = [s for s in f.lower(0.0).as_text().splitlines() if "sine" in s]
    >>> line.strip()
    '%0 = stablehlo.sine %arg0 {mhlo.frontend_attributes = {key = "a"}} : tensor<f32>'
    """
    if x is None:
        return Annotating(tuple(sorted(kwargs.items())))
    op = XlaMetadataValue(tuple(sorted(kwargs.items())))
    return tree_util.tree_map(lambda leaf: op(as_result(leaf)), x)
