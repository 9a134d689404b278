"""Products of matrices and of arrays of more dims."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.api.out_sharding import sum_of_terms, takes_out_sharding
from curta.config import config
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.core.trace import operand_type
from curta.primitives.dot import DotDims, DotGeneral, dot_dims
from curta.primitives.elementwise import convert_element_type
from curta.primitives.precision import (
    PRECISIONS,
    DotAlgorithm,
    DotAlgorithmPreset,
    Precision,
)


@takes_out_sharding(sums=True)
def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The product of vectors and matrices, or of any dims if they are numbered.

    Args:
      lhs, rhs: arrays; without numbers vectors or matrices.
      dimension_numbers: ((lhs contracting dims, rhs contracting dims), (lhs batch dims,
        rhs batch dims)); by default the last dim of lhs and the first of rhs are
        contracted.
      precision: a `Precision`, its name, a pair of them, or a `DotAlgorithm`; it does
        not change what this processor computes.
      preferred_element_type: the dtype of sums and result; by default that to which the
        operands promote.
      out_sharding: how the result is split over explicit axes of the mesh.

    Returns:
      An array with the batch dims, then the other dims of lhs, then those of rhs.

    Raises:
      ValueError: without numbers for anything but vectors and matrices whose sizes
        agree, and for an unknown precision.
      TypeError: if numbers or shapes do not match, or an argument is not an array or a
          dtype is invalid.

    >>> import curta
    >>> x = curta.numpy.ones((2, 3))
    >>> curta.lax.dot(x, curta.numpy.arange(3.))
    Array([3., 3.], dtype=float32)
    """
    if dimension_numbers is None:
        dimension_numbers = _simple_numbers(np.shape(lhs), np.shape(rhs))
    numbers = dot_dims("dot_general", dimension_numbers)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_user_dtype(preferred_element_type, "dot")
    precision = canonicalize_precision(precision)
    wanted = preferred_element_type
    operands = [
        operand_type(DotGeneral.name, i, x).dtype for i, x in enumerate((lhs, rhs))
    ]
    # Sums in the operands' dtype, converted at the end where that is lossy.
    later = wanted is not None and any(_loses_parts(d, wanted) for d in operands)
    op = DotGeneral(numbers, precision, None if later else wanted)
    if out_sharding is None:
        out = op(lhs, rhs)
    else:
        out = sum_of_terms(op, (lhs, rhs), numbers[0], out_sharding)
    return convert_element_type(out, wanted) if later else out


def _loses_parts(operand: Any, wanted: Any) -> bool:
    """Return True if a number of `operand` may have a part that `wanted` has not."""
    if dtypes.issubdtype(operand, np.complexfloating):
        return not dtypes.issubdtype(wanted, np.complexfloating)
    inexact = dtypes.issubdtype(operand, np.floating)
    return inexact and not dtypes.issubdtype(wanted, np.inexact)


@takes_out_sharding(sums=True)
def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """`dot` over numbered dims.

    Args:
      lhs, rhs, precision, preferred_element_type, out_sharding: as for `dot`.
      dimension_numbers: ((lhs contracting dims, rhs contracting dims), (lhs batch dims,
        rhs batch dims)).

    Returns:
      An array with the batch dims, then the other dims of lhs, then those of rhs.

    Raises:
      TypeError: if numbers or shapes do not match, or an argument is not an array or a
          dtype is invalid.
      ValueError: if the precision is unknown.

    >>> import curta
    >>> x = curta.numpy.ones((4, 2, 3))
    >>> curta.lax.dot_general(x, x, (((2,), (2,)), ((0,), (0,)))).shape
    (4, 2, 2)
    """
    return dot(
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def batch_matmul(lhs: Array, rhs: Array, precision: Any = None) -> Array:
    """The matrix products over the last two dims; the dims before are batch dims.

    Args:
      lhs: matrices (..., m, k).
      rhs: matrices (..., k, n), with the same batch dims.
      precision: as for `dot`.

    Returns:
      Matrices (..., m, n).

    Raises:
      ValueError: for operands of less than two dims, or of different ranks.
      TypeError: if sizes do not match.

    >>> import curta
    >>> x = curta.numpy.ones((4, 2, 3))
    >>> curta.lax.batch_matmul(x, curta.numpy.ones((4, 3, 5))).shape
    (4, 2, 5)
    """
    operands = enumerate((lhs, rhs))
    ranks = [operand_type("batch_matmul", i, x).ndim for i, x in operands]
    if min(ranks) < 2:
        raise ValueError(
            f"Arguments to batch_matmul must be at least 2D, got {ranks[0]}, {ranks[1]}"
        )
    if ranks[0] != ranks[1]:
        raise ValueError(
            f"Arguments to batch_matmul must have same ndim, got {ranks[0]}, {ranks[1]}"
        )
    batch = tuple(range(ranks[0] - 2))
    numbers = (((ranks[0] - 1,), (ranks[0] - 2,)), (batch, batch))
    return dot(lhs, rhs, dimension_numbers=numbers, precision=precision)


def canonicalize_precision(precision: Any) -> Any:
    """A precision for each operand, an algorithm, or None where nothing is asked.

    Raises ValueError for anything else.
    """
    if precision is None:
        precision = config.jax_default_matmul_precision
        if precision is None:
            return None
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        return DotAlgorithmPreset[precision]
    if isinstance(precision, (tuple, list)) and len(precision) == 2:
        left, right = (_precision(p, precision) for p in precision)
        return left, right
    result = _precision(precision, precision)
    return result, result


def _precision(name: Any, given: Any) -> Precision:
    if isinstance(name, Precision):
        return name
    if not isinstance(name, str) or name not in PRECISIONS:
        raise ValueError(
            "Precision argument must be one of:\n- None,\n"
            f"- a string in {list(PRECISIONS)},\n"
            "- a lax.Precision value,\n"
            "- a tuple of two lax.Precision values or strings,\n"
            "- a lax.DotAlgorithmPreset or the name of one of these presets, or\n"
            "- a lax.DotAlgorithm value;\n"
            f"but got {given}."
        )
    return PRECISIONS[name]


def _simple_numbers(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> DotDims:
    if not (1 <= len(lhs) <= 2 and 1 <= len(rhs) <= 2 and lhs[-1] == rhs[0]):
        raise ValueError(
            "jax.lax.dot: dimension_numbers must be specified when not performing"
            " simple un-batched matrix-matrix, matrix-vector, or vector-vector"
            f" products; got lhs_shape={lhs} rhs_shape={rhs}"
        )
    return ((len(lhs) - 1,), (0,)), ((), ())
