"""The inspection methods of the array API standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.runtime.devices import devices

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = (
    _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
)


class ArrayNamespaceInfo:
    """Methods that describe which parts of the array API standard `curta.numpy` has.

    >>> from curta import numpy as jnp
    >>> info = jnp.__array_namespace_info__()
    >>> info.dtypes(kind="real floating")
    {'float32': dtype('float32')}
    >>> info.default_dtypes()["integral"]
    dtype('int32')
    """

    def capabilities(self) -> dict[str, Any]:
        """Which of the standard's optional parts there are: none, as sizes are static.

        >>> ArrayNamespaceInfo().capabilities()["boolean indexing"]
        False
        """
        return {
            "boolean indexing": False,
            "data-dependent shapes": False,
            "max dimensions": 64,
        }

    def default_device(self) -> None:
        """None: an array is on the default device until it is placed on another."""
        return None

    def devices(self) -> list[Any]:
        """The devices that arrays can be on; None stands for the default."""
        return [None, *devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of arrays for which none is asked, the same on every device."""
        return {
            "real floating": dtypes.default_float_dtype(),
            "complex floating": dtypes.canonicalize_dtype(np.complex128),
            "integral": dtypes.default_int_dtype(),
            "indexing": dtypes.default_int_dtype(),
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes of some kinds, or all of them, by name.

        Without 64-bit types while `jax_enable_x64` is off. Raises KeyError for a kind
        that the standard does not know.
        """
        asked = ("bool", "numeric") if kind is None else kind
        asked = asked if isinstance(asked, tuple) else (asked,)
        named = [np.dtype(name) for k in asked for name in _KINDS[k]]
        return {d.name: d for d in named if dtypes.canonicalize_dtype(d) == d}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """The answers to the array API standard's questions about this namespace.

    >>> from curta import numpy as jnp
    >>> sorted(jnp.__array_namespace_info__().dtypes(kind="complex floating"))
    ['complex64']
    """
    return ArrayNamespaceInfo()
