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
from curta._base.on_demand import Listing, listed
from curta.api.vmappable import (
    is_vmappable as is_vmappable,
    register_vmappable as register_vmappable,
    unregister_vmappable as unregister_vmappable,
)
from curta.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from curta.core.primitive import Primitive
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.core.user_op import axis_batch_rules, batch_rules
from curta.extend.linear_util import Store, transformation_with_aux2
from curta.primitives.structure import batch_dim_at, move_dim
from curta.transforms.jaxprs import batch_jaxpr
from curta.transforms.vmap import batch

__all__ = [
    "axis_primitive_batchers",
    "batch_jaxpr_axes",
    "batch_subtrace",
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
    "zero_if_mapped",
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


class _ZeroIfMapped:
    def __repr__(self) -> str:
        return "zero_if_mapped"


zero_if_mapped: _ZeroIfMapped = _ZeroIfMapped()
"""The batch dim of an output of `batch_jaxpr_axes` that is 0 only if it has one."""


def batch_jaxpr_axes(
    closed_jaxpr: ClosedJaxpr,
    axis_data: Any,
    in_axes: Sequence[int | None],
    out_axes_dest: Sequence[Any],
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr over batches, with its batch dims where they are asked for.

    Args:
      closed_jaxpr: the jaxpr of one example.
      axis_data: the axis, as batching rules get it, with its `size` and `name`.
      in_axes: the batch dim of each input, or None.
      out_axes_dest: the batch dim of each output: a number, None for one that must
        have none, or `zero_if_mapped`.

    Returns:
      The jaxpr, and for each output whether it has a batch dim.

    Raises:
      ValueError: an output has a batch dim where None was asked for.

    >>> import curta
    >>> from curta.interpreters import batching
    >>> from curta.transforms.vmap import BatchAxis
    >>> closed = curta.make_jaxpr(lambda x: (2 * x, 1.0))(1.0)
    >>> dims = [0, batching.zero_if_mapped]
    >>> batched, mapped = batching.batch_jaxpr_axes(closed, BatchAxis(3), [0], dims)
    >>> [aval.shape for aval in batched.out_avals], mapped
    ([(3,), ()], [True, False])
    """
    forced = tuple(isinstance(d, int) for d in out_axes_dest)
    batched, dims = batch_jaxpr(closed_jaxpr, axis_data, tuple(in_axes), forced)
    for i, (have, want) in enumerate(zip(dims, out_axes_dest, strict=True)):
        if have is not None and want is None:
            raise ValueError(f"output {i} has a batch dim, though its axis is None")
    wanted = [0 if d is zero_if_mapped else d for d in out_axes_dest]

    def moved(*args: Any) -> list[Any]:
        outs = jaxpr_as_fun(batched)(*args)
        rows = zip(outs, dims, wanted, strict=True)
        return [x if d is None else move_dim(x, d, w) for x, d, w in rows]

    if any(d not in (None, w) for d, w in zip(dims, wanted, strict=True)):
        batched = stage(moved, batched.in_avals, batched.jaxpr.debug_info)
    return batched, [d is not None for d in dims]


@transformation_with_aux2
def batch_subtrace(
    f: Callable[..., Any],
    store: Store,
    tag: Any,
    axis_data: Any,
    in_dims: Sequence[int | None] | Callable[[], Sequence[int | None]],
    *in_vals: Any,
) -> list[Any]:
    """Map a flat function over batches, and say where its results are batched.

    `batch_subtrace(fun, tag, axis_data, in_dims)` takes a function from `wrap_init`.

    Args:
      f: the function, of arrays to a list of arrays.
      store: where the batch dims of the results go.
      tag: ignored; JAX marks the tracers of one transformation with it.
      axis_data: the axis, as batching rules get it, with its `size` and `name`.
      in_dims: the batch dim of each argument, or None; or a function that gives them.
      *in_vals: the arguments.

    Returns:
      The function over batches, and a thunk of the batch dims of its results.

    Raises:
      ValueError: when it is called, if `in_dims` has another length than the arguments.

    >>> import curta.numpy as jnp
    >>> from curta.extend.linear_util import wrap_init
    >>> from curta.interpreters import batching
    >>> from curta.transforms.vmap import BatchAxis
    >>> f = wrap_init(lambda x, y: [x * y, y])
    >>> batched, dims = batching.batch_subtrace(f, None, BatchAxis(3), [0, None])
    >>> batched.call_wrapped(jnp.arange(3), 2), dims()
    ([Array([0, 2, 4], dtype=int32), 2], (0, None))
    """
    dims = in_dims() if callable(in_dims) else in_dims
    if len(dims) != len(in_vals):
        raise ValueError(f"expected {len(in_vals)} batch dims, got {len(dims)}")
    outs, out_dims = batch(f, axis_data, in_vals, dims)
    store.store(tuple(out_dims))
    return outs


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
