"""Building blocks for `batch` rules of a `HiPrim`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from curta import tree_util
from curta.api.vmap import vmap
from curta.core.tangents import Zero
from curta.primitives.structure import batch_dim_at


def unmap_avals(axis_data: Any, avals: Any, dims: Any) -> Any:
    """The types of batches of values of these types.

    Args:
      axis_data: the mapped axis, as `batch` is given it.
      avals: a pytree of types.
      dims: a dim (or `MappingSpec`) for each, or None where values are not mapped.

    Returns:
      A pytree like `avals`.

    Raises:
      ValueError: for dims of another structure than the types.

    >>> import curta
    >>> from curta.experimental import hijax
    >>> from curta.transforms.vmap import BatchAxis
    >>> hijax.unmap_avals(BatchAxis(3), (curta.typeof(1.0),) * 2, (0, None))
    (ShapedArray(float32[3], weak_type=True), ShapedArray(float32[], weak_type=True))
    """

    def unmap(aval: Any, dim: Any) -> Any:
        return aval if dim is None else aval.inc_rank(axis_data.size, dim)

    return _map(unmap, avals, dims)


def bdims_at_front(axis_data: Any, args: Any, dims: Any) -> Any:
    """Batches with the examples along their first dim, repeated if they have none.

    Args:
      axis_data: the mapped axis, as `batch` is given it.
      args: a pytree of arrays.
      dims: the dim of each along which examples lie; None for none.

    Returns:
      A pytree like `args`.

    Raises:
      ValueError: for dims of another structure than the arrays.

    >>> import curta.numpy as jnp
    >>> from curta.experimental import hijax
    >>> from curta.transforms.vmap import BatchAxis
    >>> x, y = hijax.bdims_at_front(BatchAxis(3), (jnp.ones((2, 3)), 1.0), (1, None))
    >>> x.shape, y.shape
    ((3, 2), (3,))
    """
    return _map(lambda x, d: batch_dim_at(x, d, axis_data.size, 0), args, dims)


def vmap_rule(
    axis_data: Any,
    f: Callable[..., Any],
    in_axes: Any,
    out_axes: Any,
    *,
    sum_match: bool = False,
) -> Callable[..., Any]:
    """`f` mapped along an axis, as `batch` rules need it.

    Symbolic zeros among arguments and results have the types of examples inside `f`,
    and of batches outside.

    Args:
      axis_data: the mapped axis, as `batch` is given it.
      f: a function of pytrees of values.
      in_axes, out_axes: as those of `vmap`.
      sum_match: as in `vmap`.

    Returns:
      The function of batches.

    Raises:
      ValueError: as `vmap`.

    >>> import curta.numpy as jnp
    >>> from curta.experimental import hijax
    >>> from curta.transforms.vmap import BatchAxis
    >>> hijax.vmap_rule(BatchAxis(2), jnp.sum, (0,), 0)(jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    mapped = vmap(
        f,
        in_axes=in_axes,
        out_axes=out_axes,
        axis_size=axis_data.size,
        axis_name=axis_data.name,
        spmd_axis_name=axis_data.spmd_name or axis_data.explicit_mesh_axis,
        sum_match=sum_match,
    )

    def example(dim: Any, x: Any) -> Any:
        if dim is None or type(x) is not Zero:
            return x
        return Zero(x.aval.dec_rank(axis_data.size, dim))

    def whole(dim: Any, x: Any) -> Any:
        if dim is None or type(x) is not Zero:
            return x
        return Zero(x.aval.inc_rank(axis_data.size, dim))

    def batched(*args: Any) -> Any:
        return _of_prefix(whole, out_axes, mapped(*_of_prefix(example, in_axes, args)))

    return batched


def _map(change: Callable[[Any, Any], Any], values: Any, dims: Any) -> Any:
    """`change` of each leaf and its dim."""
    leaves, tree = tree_util.tree_flatten(values)
    pairs = zip(leaves, tree.flatten_up_to(dims), strict=True)
    return tree_util.tree_unflatten(tree, [change(x, d) for x, d in pairs])


def _of_prefix(change: Callable[[Any, Any], Any], axes: Any, values: Any) -> Any:
    """`change` of the axis and each leaf below it, zeros among them."""

    def is_none(x: Any) -> bool:
        return x is None

    def below(axis: Any, part: Any) -> Any:
        return tree_util.tree_map(
            lambda x: change(axis, x), part, is_leaf=lambda x: type(x) is Zero
        )

    return tree_util.tree_map(below, axes, values, is_leaf=is_none)
