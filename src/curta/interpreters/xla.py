"""Classes of a program's own whose instances are arrays.

`curta.core.pytype_aval_mappings[cls] = curta.core.pytype_aval_mappings[numpy.ndarray]`
lets instances of a class, which have a shape and a dtype, enter functions. They become
arrays by `numpy.asarray`, so the class needs a method `__array__`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.on_demand import Listing, listed
from curta.core.primitive import Primitive
from curta.core.trace import pytype_aval_mappings

__all__ = ["apply_primitive", "canonicalize_dtype_handlers"]
__dir__: Listing = listed(__all__)


def apply_primitive(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Apply an operation to arrays.

    Args:
      primitive: the operation.
      args: its operands.
      params: its parameters, by name.

    Returns:
      The result, or a list of results.

    Raises:
      TypeError: for operands that the operation does not take.

    >>> import curta
    >>> apply_primitive(curta.lax.sin_p, 0.0, accuracy=None)
    Array(0., dtype=float32, weak_type=True)
    """
    return primitive.bind(*args, **params)


def _as_array(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(dtypes.canonicalize_dtype(x.dtype), copy=False)


class _Handlers:
    """By class, the function that makes an array of an instance: always the same."""

    def __getitem__(self, kind: type) -> Callable[[Any], Any]:
        if kind not in pytype_aval_mappings:
            raise KeyError(kind)
        return _as_array

    def __setitem__(self, kind: type, handler: Callable[[Any], Any]) -> None:
        if handler is not _as_array:
            raise NotImplementedError(
                f"Instances of {kind} become arrays by numpy.asarray: give the class a"
                " method __array__ rather than a handler."
            )


canonicalize_dtype_handlers: _Handlers = _Handlers()
