"""Vectorization of primitives that programs define.

>>> from curta.extend.core import Primitive
>>> from curta.interpreters import batching
>>> double = Primitive("double")
>>> _ = double.def_impl(lambda x: 2 * x)
>>> _ = double.def_abstract_eval(lambda x: x)
>>> batching.defvectorized(double)
>>> import curta, curta.numpy as jnp
>>> curta.vmap(double.bind)(jnp.arange(3))
Array([0, 2, 4], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta import lax
from curta.api.vmappable import (
    is_vmappable as is_vmappable,
    register_vmappable as register_vmappable,
    unregister_vmappable as unregister_vmappable,
)
from curta.core.primitive import Primitive
from curta.core.trace import typeof
from curta.core.user_op import axis_batch_rules, batch_rules
from curta.on_demand import Listing, listed
from curta.primitives.structure import batch_dim_at

__all__ = [
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "fancy_primitive_batchers",
    "is_vmappable",
    "not_mapped",
    "primitive_batchers",
    "register_vmappable",
    "unregister_vmappable",
]
__dir__: Listing = listed(__all__)

# `rule(args, dims, **params)` gives the output and its batch dim (sequences of them for
# several results); a dim is `not_mapped` where there is none.
primitive_batchers = batch_rules

# `rule(axis, args, dims, **params)`, with the `size` and `name` of the axis that is
# mapped over: for primitives that communicate along the axes that their parameter
# `axis_name` (or `axes`) names.
fancy_primitive_batchers = axis_batch_rules


class _AxisRules:
    """Takes rules `rule(size, name, main_type, args, dims, **params)`."""

    def __setitem__(self, primitive: Primitive, rule: Callable[..., Any]) -> None:
        def with_axis(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
            return rule(axis.size, axis.name, None, args, dims, **params)

        fancy_primitive_batchers[primitive] = with_axis


axis_primitive_batchers: _AxisRules = _AxisRules()

not_mapped = None


def defvectorized(primitive: Primitive) -> None:
    """Let a primitive of one operand be applied to a whole batch at once.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import batching
    >>> cube = Primitive("cube")
    >>> _ = cube.def_impl(lambda x: x**3)
    >>> batching.defvectorized(cube)
    >>> curta.vmap(cube.bind)(curta.numpy.arange(3))
    Array([0, 1, 8], dtype=int32)
    """

    def rule(
        args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, Any]:
        return primitive.bind(*args, **params), dims[0]

    primitive_batchers[primitive] = rule


def broadcast(x: Any, size: int, axis: int) -> Any:
    """`x` repeated `size` times along a new axis.

    Args:
      x: an array.
      size: how often.
      axis: where the new axis is in the result.

    Returns:
      An array of the dtype of `x`, with one more dim.

    Raises:
      TypeError: if an argument is not an array or a size is negative.

    >>> from curta import numpy as jnp
    >>> from curta.interpreters import batching
    >>> batching.broadcast(jnp.ones(3), 2, 0).shape
    (2, 3)
    """
    shape = list(typeof(x).shape)
    shape.insert(axis, size)
    dims = tuple(i for i in range(len(shape)) if i != axis)
    return lax.broadcast_in_dim(x, shape, dims)


def bdim_at_front(x: Any, bdim: int | None, size: int) -> Any:
    """`x` with its batch dim first; a new one if it has none.

    Args:
      x: an array.
      bdim: its batch dim, or None.
      size: of the new dim, if there was none.

    Returns:
      The array with the batch dim as its dim 0.

    Raises:
      TypeError: if a dim is out of range.

    >>> from curta import numpy as jnp
    >>> from curta.interpreters import batching
    >>> batching.bdim_at_front(jnp.ones((3, 2)), 1, 2).shape
    (2, 3)
    >>> batching.bdim_at_front(jnp.ones(3), None, 2).shape
    (2, 3)
    """
    return batch_dim_at(x, bdim, size, 0)


def defbroadcasting(primitive: Primitive) -> None:
    """Let a primitive of operands of one shape be applied to whole batches.

    Operands without a batch dim get one, of size 1 if they have dims at all.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import batching
    >>> times = Primitive("times")
    >>> _ = times.def_impl(lambda x, y: x * y)
    >>> batching.defbroadcasting(times)
    >>> curta.vmap(times.bind, (0, None))(curta.numpy.arange(3), 2)
    Array([0, 2, 4], dtype=int32)
    """

    def rule(
        args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[Any, Any]:
        size = next(typeof(x).shape[d] for x, d in zip(args, dims) if d is not None)
        rank = max(
            typeof(x).ndim - (d is not None) for x, d in zip(args, dims, strict=True)
        )
        front = []
        for x, d in zip(args, dims, strict=True):
            x = bdim_at_front(x, d, size)
            missing = rank + 1 - typeof(x).ndim
            front.append(lax.expand_dims(x, range(1, 1 + missing)))
        return primitive.bind(*front, **params), 0

    primitive_batchers[primitive] = rule


def defreducer(primitive: Primitive) -> None:
    """Batch a primitive of one operand with a parameter `axes` that it reduces.

    >>> import curta
    >>> from curta.extend.core import Primitive
    >>> from curta.interpreters import batching
    >>> total = Primitive("total")
    >>> _ = total.def_impl(lambda x, axes: x.sum(axes))
    >>> batching.defreducer(total)
    >>> curta.vmap(lambda x: total.bind(x, axes=(0,)))(curta.numpy.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """

    def rule(
        args: Sequence[Any], dims: Sequence[int | None], *, axes: Any, **params: Any
    ) -> tuple[Any, Any]:
        (x,), (dim,) = args, dims
        assert dim is not None
        moved = tuple(axis + (axis >= dim) for axis in axes)
        out = primitive.bind(x, axes=moved, **params)
        return out, dim - sum(axis < dim for axis in moved)

    primitive_batchers[primitive] = rule
