"""Products with matrices in the dtypes that libraries of sparse operations have.

Operands are the buffers of a matrix, and a vector (spmv) or matrix (spmm). The ops are
for programs that bind them by name; of other dtypes they raise TypeError.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from curta.core.primitive import primitive_of
from curta.experimental.sparse.coo import coordinate_product
from curta.experimental.sparse.csr import CsrMatvec
from curta.experimental.sparse.matrices import check_product

SUPPORTED_DATA_DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


def _check_dtypes(name: str, data: Any, x: Any) -> None:
    if data.dtype not in SUPPORTED_DATA_DTYPES or data.dtype != x.dtype:
        raise TypeError(
            f"{name} takes operands of one dtype out of float32, float64, complex64 and"
            f" complex128, got {data.dtype.name} and {x.dtype.name}: convert them."
        )


class CsrSpmv(CsrMatvec):
    """(data, indices, indptr) and a vector to their product."""

    name: ClassVar[str] = "csr_spmv"

    def compose(self, *args: Any) -> Any:
        _check_dtypes(self.name, args[0], args[3])
        return super().compose(*args)


class CsrSpmm(CsrSpmv):
    """(data, indices, indptr) and a matrix to their product."""

    name: ClassVar[str] = "csr_spmm"
    rank: ClassVar[int] = 2


class CooSpmv(CsrSpmv):
    """(data, row, col) and a vector to their product."""

    name: ClassVar[str] = "coo_spmv"

    def compose(self, *args: Any) -> Any:
        data, row, col, x = args
        _check_dtypes(self.name, data, x)
        check_product(self.shape, x, self.transpose_, self.rank)
        return coordinate_product(data, row, col, x, self.shape, self.transpose_)


class CooSpmm(CooSpmv):
    """(data, row, col) and a matrix to their product."""

    name: ClassVar[str] = "coo_spmm"
    rank: ClassVar[int] = 2


coo_spmv_p = primitive_of(CooSpmv)
coo_spmm_p = primitive_of(CooSpmm)
csr_spmv_p = primitive_of(CsrSpmv)
csr_spmm_p = primitive_of(CsrSpmm)
