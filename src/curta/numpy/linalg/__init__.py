"""Linear algebra: norms, products, powers."""

from curta.numpy.linalg.norms import (
    matrix_norm,
    matrix_power,
    multi_dot,
    norm,
    vector_norm,
)
from curta.numpy.linalg.products import cross, diagonal, outer, trace
from curta.numpy.linear_algebra import matmul, tensordot, vecdot
from curta.numpy.shapes import matrix_transpose
