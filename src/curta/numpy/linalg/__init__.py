"""Linear algebra, as in `jax.numpy.linalg`."""

from curta._base.on_demand import without_parts as _without_parts
from curta.numpy.linalg.decompositions import (
    cholesky as cholesky,
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    matrix_rank as matrix_rank,
    qr as qr,
    svd as svd,
    svdvals as svdvals,
)
from curta.numpy.linalg.determinants import det as det, slogdet as slogdet
from curta.numpy.linalg.norms import (
    matrix_norm as matrix_norm,
    multi_dot as multi_dot,
    norm as norm,
    vector_norm as vector_norm,
)
from curta.numpy.linalg.powers import matrix_power as matrix_power
from curta.numpy.linalg.products import (
    cross as cross,
    diagonal as diagonal,
    matmul as matmul,
    matrix_transpose as matrix_transpose,
    outer as outer,
    tensordot as tensordot,
    trace as trace,
    vecdot as vecdot,
)
from curta.numpy.linalg.solving import (
    cond as cond,
    inv as inv,
    lstsq as lstsq,
    pinv as pinv,
    solve as solve,
    tensorinv as tensorinv,
    tensorsolve as tensorsolve,
)

__dir__ = _without_parts(__name__)
