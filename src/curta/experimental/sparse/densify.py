"""`todense`: any array with all its elements."""

from __future__ import annotations

from typing import Any, ClassVar

import curta.numpy as jnp
from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta.core.primitive import Primitive, primitive_of
from curta.core.trace import operand_type
from curta.experimental.sparse.base import JAXSparse
from curta.experimental.sparse.operations import SparseOp


@dataclass(frozen=True)
class Todense(SparseOp):
    """The buffers of an array of the given tree to the array with all its elements."""

    name: ClassVar[str] = "todense"
    tree: Any

    def compose(self, *args: Any) -> Any:
        mat = tree_util.tree_unflatten(self.tree, args)
        return mat.todense() if isinstance(mat, JAXSparse) else jnp.asarray(mat)


todense_p: Primitive = primitive_of(Todense)


def todense(arr: Any) -> Any:
    """A sparse array with all its elements; anything else as it is.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> sparse.todense(sparse.BCOO.fromdense(jnp.array([0.0, 3.0])))
    Array([0., 3.], dtype=float32)
    """
    buffers, tree = tree_util.tree_flatten(arr)
    if not isinstance(arr, JAXSparse) and not any(x is arr for x in buffers):
        for position, x in enumerate(buffers):
            operand_type("todense", position, x)
        return arr
    return Todense(tree)(*buffers)
