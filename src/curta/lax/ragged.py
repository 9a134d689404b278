"""Products of matrices in groups, and with scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from curta import dtypes
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, DTypeLike
from curta.core.shapes import operand_shape
from curta.core.trace import typeof
from curta.lax.dot import canonicalize_precision
from curta.primitives.dot import dot_dims
from curta.primitives.indexing.numbers import require_kind
from curta.primitives.ragged_dot import RaggedDotDimensionNumbers, RaggedDotGeneral
from curta.primitives.scaled_dot import ScaledDot

_PLAIN = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


@takes_out_sharding
def ragged_dot(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Array | None = None,
    out_sharding: Any = None,
) -> Array:
    """The product of rows of `lhs` with the matrix of their group.

    Args:
      lhs: of shape (m, k): groups of rows, one after the other.
      rhs: of shape (g, k, n): a matrix for each group.
      group_sizes: of shape (g,): how many rows each group has. Rows left are zero in
        the result.
      precision, preferred_element_type: as for `dot`.
      group_offset: not supported.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array of shape (m, n).

    Raises:
      TypeError: if shapes do not match or sizes are not integers.
      ValueError: if the precision is unknown.
      NotImplementedError: if `group_offset` is given.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> matrices = jnp.array([1., 10.]).reshape(2, 1, 1)
    >>> sizes = jnp.array([1, 2])
    >>> curta.lax.ragged_dot(jnp.ones((4, 1)), matrices, sizes).ravel()
    Array([ 1., 10., 10.,  0.], dtype=float32)
    """
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        _PLAIN,
        precision,
        preferred_element_type,
        group_offset,
    )


@takes_out_sharding
def ragged_dot_general(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Array | None = None,
    out_sharding: Any = None,
) -> Array:
    """`dot_general` of groups along a dim of `lhs`, whose sizes are data.

    Where that dim is free, `rhs` has a dim for the groups, and each group is multiplied
    with its own part. Where it is contracted, the result has a new first dim: a product
    for each group. Where it is a batch dim, groups make no difference.

    Args:
      lhs, rhs: arrays.
      group_sizes: integers, of shape (g,), or with the dims of `lhs` in front that come
        before the ragged one: batch dims, then those of its kind.
      ragged_dot_dimension_numbers: a `RaggedDotDimensionNumbers`.
      precision, preferred_element_type: as for `dot`.
      group_offset: not supported.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array with the dims that `dot_general` gives.

    Raises:
      TypeError: if numbers or shapes do not match, or sizes are not integers.
      ValueError: if the precision is unknown.
      NotImplementedError: if `group_offset` is given.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> sums = (((0,), (0,)), ((), ()))
    >>> numbers = curta.lax.RaggedDotDimensionNumbers(sums, (0,), ())
    >>> x = jnp.arange(3.).reshape(3, 1)
    >>> curta.lax.ragged_dot_general(x, jnp.ones((3, 1)), jnp.array([1, 2]), numbers)
    Array([[[0.]],
    <BLANKLINE>
           [[3.]]], dtype=float32)
    """
    require_kind(
        "ragged_dot_general", RaggedDotDimensionNumbers, ragged_dot_dimension_numbers
    )
    if group_offset is not None:
        raise NotImplementedError(
            "Unimplemented group_offset support. Slice rhs and group_sizes instead."
        )
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_user_dtype(
            preferred_element_type, "ragged_dot_general"
        )
    return RaggedDotGeneral(
        ragged_dot_dimension_numbers,
        canonicalize_precision(precision),
        preferred_element_type,
    )(lhs, rhs, group_sizes)


def scaled_dot(
    lhs: Array,
    rhs: Array,
    *,
    lhs_scale: Array | None = None,
    rhs_scale: Array | None = None,
    dimension_numbers: tuple[
        tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
    ]
    | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """The product of `lhs * lhs_scale` and `rhs * rhs_scale`, in bfloat16.

    Args:
      lhs, rhs: arrays of floats.
      lhs_scale, rhs_scale: of the shapes of their operands but for the contracting
        dims, along which an element stands for 2 or more; 1 by default.
      dimension_numbers: as for `dot_general`. By default the last dim of `lhs` is
        contracted with the last but one of `rhs`, and the dims before are batch dims.
      preferred_element_type: the dtype of the result, bfloat16 by default.

    Returns:
      An array with the dims that `dot_general` gives.

    Raises:
      TypeError: if shapes and numbers do not fit or a dtype is invalid.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> x, scale = jnp.ones((1, 4), "bfloat16"), jnp.array([[2, 3]], "bfloat16")
    >>> curta.lax.scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type="float32")
    Array([[10.]], dtype=float32)
    """
    rank = len(operand_shape("scaled_dot", lhs))
    if dimension_numbers is None:
        if rank < 2:
            raise TypeError("scaled_dot does not support 0-rank and 1-rank operands.")
        batch = tuple(range(rank - 2))
        dimension_numbers = (((rank - 1,), (rank - 2,)), (batch, batch))
    numbers = dot_dims("scaled_dot", dimension_numbers)
    if preferred_element_type is None:
        preferred_element_type = ml_dtypes.bfloat16
    wanted = dtypes.check_user_dtype(preferred_element_type, "scaled_dot")
    scales = [
        _no_scale(x, dims) if scale is None else scale
        for x, scale, dims in zip((lhs, rhs), (lhs_scale, rhs_scale), numbers[0])
    ]
    return ScaledDot(numbers, wanted)(lhs, rhs, *scales)


def _no_scale(x: Any, contract: Sequence[int]) -> Any:
    shape = [1 if d in contract else n for d, n in enumerate(typeof(x).shape)]
    return np.ones(shape, ml_dtypes.float8_e8m0fnu)
