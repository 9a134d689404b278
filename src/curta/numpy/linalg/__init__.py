"""Linear algebra: norms, products, powers."""

from curta.numpy.linalg.norms import (
    matrix_norm,
    matrix_power,
    multi_dot,
    norm,
    vector_norm,
)
from curta.numpy.linear_algebra import (
    cross,
    diagonal,
    matmul,
    outer,
    tensordot,
    trace,
    vecdot,
)
from curta.numpy.shapes import matrix_transpose
