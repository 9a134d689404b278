"""`curta.lax.linalg`."""

import numpy as np
from tests.functions.numpy_algebra import (
    HARD,
    SINGLE,
    VECTORS,
    adjoint,
    hermitian,
    regular,
    square,
    symmetric,
)
from tests.functions.rows import LINEAR, call, rows, within
from tests.functions.scipy_linalg import MATRIX, NONE, of_eigh, of_qr, of_schur, of_svd


def factors(name, rebuild, **options):
    """As `by_factors`, of `lax.linalg`, against products that are known."""

    def of(package):
        function = getattr(package.lax.linalg, name)
        return lambda x: rebuild(package.numpy, function(x, **options), x)

    return of


def lax_lu(np_, parts, x):
    lu, _, permutation = parts
    n = x.shape[-1]
    product = (np_.tril(lu, -1) + np_.eye(n, dtype=lu.dtype)) @ np_.triu(lu)
    return product - np_.take_along_axis(x, permutation[..., None], -2)


def lax_eig(np_, parts, x):
    w, left, right = parts
    return [
        x @ right - right * w[..., None, :],
        adjoint(np_, left) @ x - w[..., None] * adjoint(np_, left),
        np_.sort_complex(w),
    ]


def eig_reference(x):
    return [np.zeros(x.shape), np.zeros(x.shape), np.sort_complex(np.linalg.eigvals(x))]


def lax_eigh(np_, parts, x):
    v, w = parts
    return of_eigh(np_, (w, v), x)


def lax_schur(np_, parts, x):
    return of_schur(np_, parts, x)[:2]


def identity_like(x):
    return np.broadcast_to(np.eye(x.shape[-1]), x.shape)


def lax_tridiagonal(np_, parts, x):
    _, d, e, _ = parts
    return [d.sum(-1), (d**2).sum(-1) + 2 * (np_.abs(e) ** 2).sum(-1)]


def tridiagonal_reference(x):
    return [np.trace(x, axis1=-2, axis2=-1).real, (np.abs(x) ** 2).sum((-1, -2))]


def lax_qdwh(np_, parts, x):
    u, h, *_ = parts
    return [u @ h, u]


def qdwh_reference(x):
    u, s, vh = np.linalg.svd(x)
    return [x, u @ vh]


def reflections(package):
    linalg = package.lax.linalg

    def function(x):
        a, taus = linalg.hessenberg(x)
        q = linalg.householder_product(a[..., 1:, :-1], taus)
        return adjoint(package.numpy, q) @ q

    return function


def reflected(package):
    linalg = package.lax.linalg

    def function(x, c):
        a, taus = linalg.hessenberg(x)
        q = linalg.householder_product(a[..., 1:, :-1], taus)
        return linalg.ormqr(a[..., 1:, :-1], taus, c) - q @ c

    return function


def three_diagonals(source, shape):
    n = 4
    parts = [source((n,)) for _ in range(3)]
    parts[0][0] = parts[2][-1] = 0
    parts[1] += 6
    yield call(*parts, source((n, 2)))


def of_three_diagonals(low, middle, up, b):
    a = np.diag(middle) + np.diag(low[1:], -1) + np.diag(up[:-1], 1)
    return np.linalg.solve(a, b)


def left_systems(source, shape):
    n = shape[-1]
    yield call(
        regular(source, shape), source((*shape[:-2], n, 2)), left_side=True, lower=True
    )
    yield call(regular(source, shape), source((*shape[:-2], 2, n)))
    yield call(
        regular(source, shape),
        source((*shape[:-2], n, 2)),
        left_side=True,
        transpose_a=True,
        unit_diagonal=True,
    )


def triangular(
    a, b, left_side=False, lower=False, transpose_a=False, unit_diagonal=False
):
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = a * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1])
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    t = lambda x: np.swapaxes(x, -1, -2)  # noqa: E731
    return np.linalg.solve(a, b) if left_side else t(np.linalg.solve(t(a), t(b)))


def rank_one(source, shape):
    r = np.linalg.cholesky(symmetric(source, (3, 3)).astype("f8")).T
    yield call(r.astype(source.dtype), source((3,)))


def updated_factor(r, w):
    return np.linalg.cholesky(r.T @ r + np.outer(w, w)).T


def pivots(source, shape):
    yield call(np.array([2, 1, 2], "int32"), 4)


def permutation(pivots, n):
    order = np.arange(n)
    for i, j in enumerate(pivots):
        order[[i, j]] = order[[j, i]]
    return order


def symmetric_products(source, shape):
    yield call(
        source((3, 2)),
        symmetric(source, (3, 3)),
        alpha=2.0,
        beta=0.5,
        symmetrize_output=True,
    )


LAX = [
    *rows("cholesky", hermitian, LINEAR, reference=np.linalg.cholesky, **HARD),
    *rows(
        "lu", square, LINEAR, of=factors("lu", lax_lu), reference=np.zeros_like, **HARD
    ),
    *rows(
        "qr",
        square,
        LINEAR,
        of=factors("qr", of_qr, full_matrices=False),
        reference=lambda x: [x, np.zeros(x.shape), identity_like(x)],
        **HARD,
    ),
    *rows(
        "svd",
        square,
        LINEAR,
        of=factors(
            "svd", lambda n, p, x: of_svd(n, (p[0], p[1], p[2]), x), full_matrices=False
        ),
        reference=lambda x: of_svd(np, np.linalg.svd(x), x),
        **HARD,
    ),
    *rows(
        "eigh",
        hermitian,
        LINEAR,
        of=factors("eigh", lax_eigh),
        reference=lambda x: of_eigh(np, np.linalg.eigh(x), x),
        **HARD,
    ),
    *rows(
        "eig",
        square,
        LINEAR,
        of=factors("eig", lax_eig),
        reference=eig_reference,
        without=VECTORS,
        **HARD,
    ),
    *rows(
        "schur",
        square,
        SINGLE,
        of=factors("schur", lax_schur),
        reference=lambda x: [x, identity_like(x)],
        without=NONE,
        **HARD,
    ),
    *rows(
        "tridiagonal",
        hermitian,
        LINEAR,
        of=factors("tridiagonal", lax_tridiagonal),
        reference=tridiagonal_reference,
        without=NONE,
        rank=(2, 3),
        least=2,
        tolerance=400,
    ),
    *rows(
        "qdwh",
        square,
        SINGLE,
        of=factors("qdwh", lax_qdwh),
        reference=qdwh_reference,
        without=NONE,
        **MATRIX,
    ),
    *rows(
        "hessenberg householder_product",
        square,
        LINEAR,
        of=reflections,
        reference=lambda x: identity_like(x[..., 1:, 1:]),
        without=NONE,
        rank=(2, 3),
        least=2,
        tolerance=40,
    ),
    *rows(
        "ormqr",
        lambda s, shape: [call(regular(s, (3, 3)), s((2, 3)))],
        LINEAR,
        of=reflected,
        reference=lambda x, c: np.zeros(c.shape),
        without=NONE,
        rank=(2, 2),
        tolerance=40,
    ),
    *rows("triangular_solve", left_systems, LINEAR, reference=triangular, **HARD),
    *rows(
        "tridiagonal_solve",
        three_diagonals,
        SINGLE,
        reference=of_three_diagonals,
        rank=(1, 1),
        tolerance=30,
    ),
    *rows(
        "cholesky_update",
        rank_one,
        SINGLE,
        reference=updated_factor,
        rank=(1, 1),
        tolerance=60,
        without=NONE,
    ),
    *rows(
        "lu_pivots_to_permutation",
        pivots,
        ("float32",),
        reference=permutation,
        rank=(1, 1),
    ),
    *rows(
        "symmetric_product",
        symmetric_products,
        SINGLE,
        rank=(1, 1),
        tolerance=30,
        reference=lambda a, c, alpha, beta, **_: alpha * a @ a.T + beta * c,
    ),
]

TABLE = within("lax.linalg", LAX)
