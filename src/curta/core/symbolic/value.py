"""`DimAsValue`: the size of a symbolic dim, as a scalar to compute with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.op import Op
from curta.errors import UnexpectedTracerError


@dataclasses.dataclass(frozen=True)
class DimAsValue(Op):
    """A dim as a weakly typed integer: a number once the dim is known."""

    name: ClassVar[str] = "dim_as_value"
    dim: Any

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((), dtypes.python_scalar_dtype(0, int), True)

    def eval(self, *args: Any) -> Any:
        if is_symbolic_dim(self.dim):
            raise UnexpectedTracerError(
                f"the symbolic dimension '{self.dim}' has no value outside of a"
                " function that is being exported\n"
            )
        return np.asarray(self.dim, self.aval().dtype)

    def lower(self, b: Any, index: Any) -> Any:
        return b.index_value(self.dim, self.aval().dtype)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(3), []
