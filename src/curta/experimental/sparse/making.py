"""Sparse arrays of any format: `empty`, `eye`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from curta.core.shapes import canonicalize_shape
from curta.experimental.sparse.bcoo import BCOO
from curta.experimental.sparse.bcsr import BCSR
from curta.experimental.sparse.coo import COO
from curta.experimental.sparse.coordinates import require_sizes
from curta.experimental.sparse.csr import CSC, CSR
from curta.numpy.arguments import concrete

_FORMATS = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str, *without: str) -> Any:
    known = [key for key in _FORMATS if key not in without]
    if name not in known:
        raise ValueError(
            f"sparse_format={name!r} not recognized; must be one of {known}"
        )
    return _FORMATS[name]


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """An array that stores nothing.

    Args:
      shape: its shape.
      dtype: its dtype, by default the default float.
      index_dtype: of the indices; int32 by default.
      sparse_format: "bcoo" (the default), "bcsr", "coo", "csr" or "csc".
      **kwds: those of the format.

    Returns:
      An array of this format.

    Raises:
      ValueError: if the format differs, or a size is negative.
      TypeError: if a dtype or a shape is invalid.

    >>> from curta.experimental import sparse
    >>> sparse.empty((2, 3)).nse
    0
    """
    kind = _format(sparse_format)
    shape = canonicalize_shape(shape)
    require_sizes("empty", shape)
    return kind._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """Ones on diagonal k of a matrix (N, M).

    Args:
      N, M: the sizes; M is N by default.
      k: the diagonal, above the main one if positive; 0 by default.
      dtype: its dtype, by default the default float.
      index_dtype: of the indices; int32 by default.
      sparse_format: "bcoo" (the default), "coo", "csr" or "csc".
      **kwds: those of the format.

    Returns:
      A matrix of this format.

    Raises:
      ValueError: if the format differs, or a size is negative.
      TypeError: if a dtype is invalid or sizes are not integers.

    >>> from curta.experimental import sparse
    >>> sparse.eye(2).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    kind = _format(sparse_format, "bcsr")
    rows, columns, k = (
        concrete(n, "argument of sparse.eye()", operator.index)
        for n in (N, N if M is None else M, k)
    )
    require_sizes("eye", (rows, columns))
    return kind._eye(rows, columns, k, dtype=dtype, index_dtype=index_dtype, **kwds)
