"""Vector quantization."""

from __future__ import annotations

from typing import Any

import curta.numpy as jnp
from curta._base.on_demand import Listing, own
from curta.core.array import ArrayLike
from curta.numpy.arguments import check_arraylike
from curta.numpy.promotion import promote_dtypes_inexact

__dir__: Listing = own(__name__)


def vq(
    obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True
) -> tuple[Any, Any]:
    """The nearest code of each observation, and its Euclidean distance.

    Args:
      obs: array of shape (n, features), or (n,).
      code_book: array of shape (codes, features), or (codes,).
      check_finite: accepted for SciPy's sake, and without effect. Default True.

    Returns:
      The indices of the codes, int32, and the distances, both of shape (n,).

    Raises:
      TypeError: if an argument is not an array; for other numbers of features.
      ValueError: for other ranks, and without codes.

    >>> from curta import numpy as jnp
    >>> from curta.scipy.cluster.vq import vq
    >>> print(*vq(jnp.array([1.0, 7.5]), jnp.array([0.0, 8.0])))
    [0 1] [1.  0.5]
    """
    check_arraylike("scipy.cluster.vq.vq", obs, code_book)
    obs, code_book = promote_dtypes_inexact(obs, code_book)
    if obs.ndim != code_book.ndim:
        raise ValueError("Observation and code_book should have the same rank")
    if obs.ndim == 1:
        obs, code_book = obs[:, None], code_book[:, None]
    if obs.ndim != 2:
        raise ValueError("ndim different than 1 or 2 are not supported")
    distances = jnp.linalg.norm(obs[:, None] - code_book[None], axis=-1)
    return jnp.argmin(distances, axis=-1), jnp.min(distances, axis=-1)
