"""The base of the two-dimensional formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta.experimental.sparse.base import JAXSparse
from curta.experimental.sparse.bcoo import BCOO


class FormattedMatrix(JAXSparse):
    """A matrix in a format of the stored elements and two more buffers."""

    _fields: tuple[str, str, str]
    _compressed = 0
    """The dim along which `indptr`, if there is one, compresses."""

    def __init__(self, args: tuple[Any, ...], *, shape: Sequence[int]) -> None:
        kind = type(self).__name__
        if len(args) != len(self._fields):
            raise ValueError(
                f"{kind} is made of ({', '.join(self._fields)}), got {len(args)} of"
                " them"
            )
        for name, x in zip(self._fields, args):
            setattr(self, name, jnp.asarray(x))
        super().__init__(args, shape=shape)
        if len(self.shape) != 2:
            raise ValueError(f"{kind} must have ndim=2; got {shape=}")
        self._check()

    @property
    def nse(self) -> int:
        return self.data.shape[0]

    def _buffers(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def tree_flatten(self) -> tuple[Any, Any]:
        """The children and the metadata, for `register_pytree_node_class`."""
        return self._buffers(), (self.shape,)

    @classmethod
    def tree_unflatten(cls, known: Any, children: Any) -> Any:
        self = object.__new__(cls)
        for name, x in zip(cls._fields, children, strict=True):
            setattr(self, name, x)
        (self.shape,) = known
        return self

    def coordinates(self) -> tuple[Any, Any]:
        """The rows and columns of the stored elements."""
        raise NotImplementedError

    def to_bcoo(self) -> BCOO:
        """The matrix in batched coordinates."""
        indices = jnp.stack(self.coordinates(), axis=-1)
        return BCOO((self.data, indices), shape=self.shape)

    def product(self, data: Any, x: Any) -> Any:
        """The product with a vector or a matrix, with other data."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise TypeError or ValueError for buffers that do not make the matrix."""
        for name, x in zip(self._fields, self._buffers(), strict=True):
            if name != "data" and not jnp.issubdtype(x.dtype, np.integer):
                raise TypeError(
                    "Indexer must have integer or boolean type, got indexer with type"
                    f" {x.dtype}: {name} of {type(self).__name__} are integers."
                )
            size = self.data.size
            if name == "indptr":
                size = self.shape[self._compressed] + 1
            if x.shape != (size,):
                raise ValueError(
                    f"{type(self).__name__} of shape {self.shape} takes {name} of shape"
                    f" ({size},), got {x.shape}"
                )

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("matmul between two sparse objects.")
        other = jnp.asarray(other)
        if other.ndim not in (1, 2):
            raise NotImplementedError(f"matmul with object of shape {other.shape}")
        dtype = jnp.promote_types(self.dtype, other.dtype)
        return self.product(self.data.astype(dtype), other.astype(dtype))

    @classmethod
    def _from_bcoo(cls, mat: BCOO) -> Any:
        raise NotImplementedError

    @classmethod
    def _empty(
        cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = np.int32
    ) -> Any:
        """A matrix that stores nothing."""
        return cls._from_bcoo(BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype))

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = np.int32
    ) -> Any:
        """Ones on diagonal k."""
        return cls._from_bcoo(BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype))


def check_product(shape: Sequence[int], x: Any, transpose: bool, rank: int) -> None:
    """Raise TypeError unless a matrix of this shape can be multiplied with `x`."""
    if x.ndim != rank:
        raise TypeError(f"expected an array of {rank} dims, got shape {x.shape}")
    if x.shape[0] != shape[0 if transpose else 1]:
        raise TypeError(f"shapes {tuple(shape)} and {x.shape} do not fit")
