"""Types of a program's own that `vmap` maps over.

Such a type has two functions: `to_elt` makes one example of a batch, and `from_elt`
makes a batch of an example. A specification of its own type among `in_axes` and
`out_axes` says where its values are mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta import tree_util
from curta.api.arguments import as_result
from curta.core.hi_types import MappingSpec, is_high_value
from curta.core.source_info import Transforming
from curta.core.trace import current_trace, running, typeof, use_trace
from curta.primitives.structure import batch_dim_at
from curta.transforms.vmap import BatchAxis, BatchTrace


class _SizeHandlers(NamedTuple):
    spec_type: type
    to_elt: Callable[..., Any]
    from_elt: Callable[..., Any]
    make_iota: Callable[..., Any] | None


_handlers: dict[type, _SizeHandlers] = {}


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[..., Any] | None,
) -> None:
    """Let `vmap` map over values of `data_type`, as values of `spec_type` say.

    Args:
      data_type: the type of the values.
      spec_type: the type that stands for them in `in_axes` and `out_axes`.
      to_elt: `to_elt(each, index, x, spec)` gives one example of `x`; it makes examples
        of arrays within by `each(array, dim)`. `index()` is the number of the example.
      from_elt: `from_elt(whole, size, example, spec)` gives the batch, and makes those
        of the arrays within by `whole(size, array, dim)`.
      axis_size_type: the type of axis sizes: only int is supported.
      make_iota: makes the numbers of the examples from the size; None counts them.

    Returns:
      None.

    Raises:
      NotImplementedError: if `axis_size_type` has another value.

    >>> import curta, curta.numpy as jnp
    >>> from curta.interpreters import batching
    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> class Along:
    ...     pass
    >>> batching.register_vmappable(
    ...     Pair, Along, int,
    ...     lambda each, index, pair, _: Pair(each(pair.x, 0), each(pair.y, 0)),
    ...     lambda whole, n, pair, _: Pair(whole(n, pair.x, 0), whole(n, pair.y, 0)),
    ...     None)
    >>> dots = curta.vmap(lambda p: p.x @ p.y, in_axes=Along(), axis_size=2)
    >>> dots(Pair(jnp.eye(2), jnp.ones((2, 2))))
    Array([1., 1.], dtype=float32)
    >>> batching.unregister_vmappable(Pair)
    """
    if axis_size_type is not int:
        raise NotImplementedError(
            f"sizes of axes are of type int, got axis_size_type={axis_size_type}"
        )
    _handlers[data_type] = _SizeHandlers(spec_type, to_elt, from_elt, make_iota)


def unregister_vmappable(data_type: type) -> None:
    """Undo `register_vmappable`; KeyError if it was not registered.

    >>> from curta.interpreters import batching
    >>> class Named:
    ...     pass
    >>> batching.register_vmappable(
    ...     Named, int, int, lambda *args: None, lambda *args: None, None
    ... )
    >>> batching.is_vmappable(Named())
    True
    >>> batching.unregister_vmappable(Named)
    >>> batching.is_vmappable(Named())
    False
    """
    del _handlers[data_type]


def is_vmappable(x: Any) -> bool:
    """Return True if `x` is of a registered type.

    >>> from curta.interpreters import batching
    >>> batching.is_vmappable([1.0])
    False
    """
    return type(x) in _handlers


def is_spec(x: Any) -> bool:
    """Return True if `x` says how values of a registered type are mapped."""
    if isinstance(x, MappingSpec):
        return True
    return any(type(x) is h.spec_type for h in _handlers.values())


def holds_vmappables(tree: Any) -> bool:
    """Return True if there are values of registered types in a tree."""
    if not _handlers:
        return False
    return any(map(is_vmappable, tree_util.tree_leaves(tree, is_leaf=is_vmappable)))


def specs(axes: Any, tree: Any) -> list[Any]:
    """One axis or specification for each leaf, from a prefix of the tree."""
    given, prefix = tree_util.tree_flatten(
        axes, is_leaf=lambda x: x is None or is_spec(x)
    )
    parts = prefix.flatten_up_to(tree)
    result = []
    for axis, part in zip(given, parts, strict=True):
        count = len(tree_util.tree_leaves(part, is_leaf=is_vmappable))
        result += [axis] * count
    return result


def put_axis(x: Any, dim: Any, wanted: Any, size: int, sum_match: bool) -> Any:
    """A result of `vmap`, mapped along `dim`, with the axis where it is wanted."""
    if is_high_value(x):
        if dim != wanted:
            raise ValueError(
                f"at vmap out_axes, got axis spec {wanted} for a value of type"
                f" {typeof(x).str_short()} that is mapped along {dim}: values of types"
                " of a program's own stay mapped as they are"
            )
        return x
    if wanted is None:
        if dim is not None and sum_match:
            return x.sum(dim)
        if dim is not None:
            raise ValueError(
                "at vmap out_axes, got axis spec None but output was batched on axis"
                f" {dim}"
            )
        return x
    rank = typeof(x).ndim + (dim is None)
    if not -rank <= wanted < rank:
        raise ValueError(
            f"axis {wanted} is out of bounds for array of dimension {rank}"
        )
    return as_result(batch_dim_at(x, dim, size, wanted % rank))


def batch_vmappables(
    fun: Callable[..., Any],
    axis: BatchAxis,
    args: Any,
    kwargs: Any,
    in_specs: Sequence[Any],
    out_axes: Any,
    sum_match: bool = False,
) -> Any:
    """`vmap` of arguments with leaves of registered types."""
    parent = current_trace()
    trace = BatchTrace(parent, axis)
    leaves, tree = tree_util.tree_flatten((args, kwargs), is_leaf=is_vmappable)

    def each(x: Any, spec: Any) -> Any:
        if is_vmappable(x):
            handlers = _handlers[type(x)]
            return handlers.to_elt(each, lambda: number(handlers), x, spec)
        if spec is None:
            return x
        return trace.box(as_result(x), spec % typeof(x).ndim)

    def number(handlers: _SizeHandlers) -> Any:
        count = handlers.make_iota or (lambda size: as_result(np.arange(size)))
        return trace.box(count(axis.size), 0)

    def whole(size: int, x: Any, spec: Any) -> Any:
        if is_vmappable(x):
            return _handlers[type(x)].from_elt(whole, size, x, spec)
        value, dim = trace.unbox(x)
        with use_trace(parent):
            return put_axis(as_result(value), dim, spec, size, sum_match)

    with Transforming("vmap"):
        examples = [each(x, s) for x, s in zip(leaves, in_specs, strict=True)]
        with running(trace):
            args, kwargs = tree_util.tree_unflatten(tree, examples)
            result = fun(*args, **kwargs)
            outs, out_tree = tree_util.tree_flatten(result, is_leaf=is_vmappable)
            wanted = specs(out_axes, result)
            outs = [whole(axis.size, x, s) for x, s in zip(outs, wanted, strict=True)]
    return tree_util.tree_unflatten(out_tree, outs)
