"""Linear algebra, as in `jax.numpy.linalg`."""

from curta.numpy.linalg.decompositions import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    matrix_rank,
    qr,
    svd,
    svdvals,
)
from curta.numpy.linalg.determinants import det, slogdet
from curta.numpy.linalg.norms import matrix_norm, multi_dot, norm, vector_norm
from curta.numpy.linalg.powers import matrix_power
from curta.numpy.linalg.products import (
    cross,
    diagonal,
    matmul,
    matrix_transpose,
    outer,
    tensordot,
    trace,
    vecdot,
)
from curta.numpy.linalg.solving import (
    cond,
    inv,
    lstsq,
    pinv,
    solve,
    tensorinv,
    tensorsolve,
)
from curta.on_demand import without_parts as _without_parts

__dir__ = _without_parts(__name__)
