"""`curta.scipy.linalg`."""

import numpy as np
import scipy.linalg as sla
from tests.functions.numpy_algebra import (
    HARD,
    SINGLE,
    adjoint,
    hermitian,
    regular,
    square,
    squares,
    symmetric,
    systems,
)
from tests.functions.rows import LINEAR, call, rows, within

NO_ARRAY = {"vmap": "takes no array", "grad": "takes no array"}
NONE = {"grad": "none in JAX"}
ONE = {"rank": (1, 1)}
MATRIX = {"rank": (2, 2), "least": 1, "tolerance": 40}


def balanced(function):
    """Takes the Hermitian part first, since finite differences leave the matrix so."""
    return lambda a, *args, **kwargs: function(
        (a + a.swapaxes(-1, -2).conj()) / 2, *args, **kwargs
    )


def each(function):
    """A function of one matrix, over a batch of them."""

    def reference(x, *args, **kwargs):
        if x.ndim == 2:
            return function(x, *args, **kwargs)
        outs = [reference(y, *args, **kwargs) for y in x]
        if isinstance(outs[0], (tuple, list)):
            return [np.stack(parts) for parts in zip(*outs, strict=True)]
        return np.stack(outs)

    return reference


def vector(source, shape):
    yield call(source(shape))


def vectors(source, shape):
    yield call(source(shape), source((2,)))


def toeplitzes(source, shape):
    yield call(source((3,)))
    yield call(source((3,)), source((4,)))


def constant(names, *calls, **settings):
    settings = {"rank": (0, 0), "without": NO_ARRAY, "tolerance": 30} | settings
    return rows(names, lambda source, shape: list(calls), SINGLE, **settings)


def blocks(source, shape):
    yield call(source((2, 3)), source((1, 2)), source((2,)))


def leslies(source, shape):
    yield call(source((4,)), source((3,)))


def companions(source, shape):
    yield call(source((4,), low=1, high=3))


def positive(source, shape):
    yield call(symmetric(source, shape))
    yield call(symmetric(source, shape), lower=True)


def small(source, shape):
    yield call((source(squares(shape)) / 3).astype(source.dtype))


def directions(source, shape):
    yield call(source((3, 3)) / 3, source((3, 3)))


def by_factors(name, rebuild):
    """The product of the factors, which are unique up to signs only."""

    def of(package):
        function = getattr(package.scipy.linalg, name)
        run = lambda x, *args: rebuild(package.numpy, function(x, *args), x)  # noqa: E731
        return balanced(run) if name == "cho_factor" else run

    def reference(x, *args, **kwargs):
        return rebuild(np, getattr(sla, name)(x, *args, **kwargs), x)

    return {"of": of, "reference": each(reference)}


def of_lu(np_, parts, x):
    p, lower, upper = parts
    return [p @ lower @ upper, lower, upper]


def of_qr(np_, parts, x):
    q, r = parts
    return [q @ r, np_.tril(r, -1), adjoint(np_, q) @ q]


def of_svd(np_, parts, x):
    u, s, vh = parts
    k = s.shape[-1]
    return [(u[..., :k] * s[..., None, :]) @ vh[..., :k, :], s]


def of_eigh(np_, parts, x):
    w, v = parts
    return [(v * w[..., None, :]) @ adjoint(np_, v), w]


def of_schur(np_, parts, x):
    t, z = parts
    return [z @ t @ adjoint(np_, z), adjoint(np_, z) @ z, np_.tril(t, -2)]


def of_hessenberg(np_, h, x):
    return [np_.tril(h, -2), np_.trace(h, axis1=-2, axis2=-1)]


def of_cholesky(np_, parts, x):
    c, lower = parts
    c = np_.tril(c) if lower else np_.triu(c)
    return c @ adjoint(np_, c) if lower else adjoint(np_, c) @ c


def solved_by(factor, solve):
    def of(package):
        sla_ = package.scipy.linalg
        run = lambda a, b: getattr(sla_, solve)(getattr(sla_, factor)(a), b)  # noqa: E731
        return balanced(run) if factor == "cho_factor" else run

    return of


def several(solve):
    """A solver of one system, over a batch of them."""

    def reference(a, b, **kwargs):
        if a.ndim == 2:
            return solve(a, b, **kwargs)
        parts = [b] * len(a) if b.ndim == 1 else b
        return np.stack([reference(x, y, **kwargs) for x, y in zip(a, parts)])

    return reference


def triangles(source, shape):
    n = shape[-1]
    for options in {}, {"lower": True}, {"trans": 1}, {"unit_diagonal": True}:
        yield call(regular(source, shape), source((*shape[:-2], n, 2)), **options)


def definite(source, shape):
    yield call(symmetric(source, shape), source((*shape[:-2], shape[-1], 2)))


def sylvesters(source, shape):
    n = 3
    yield call(regular(source, (n, n)), regular(source, (2, 2)), source((n, 2)))


def tridiagonals(source, shape):
    yield call(source((4,)), source((3,)), eigvals_only=True)


def lu_compact(np_, parts, x):
    lu, _ = parts
    return [np_.tril(lu, -1), np_.triu(lu)]


def multiplied(source, shape):
    yield call(regular(source, (3, 3)), source((3, 3)))


def of_multiplied(package):
    def function(a, c):
        cq, r = package.scipy.linalg.qr_multiply(a, c)
        return cq @ r

    return function


def polar_product(np_, parts, x):
    u, p = parts
    return [u, p]


def complex_forms(source, shape):
    t, z = sla.schur(np.array([[1.0, 2, 0], [-1, 1, 3], [0.5, 0, 2]]))
    yield call(t.astype(source.dtype), z.astype(source.dtype))


def complex_schur(np_, t, z):
    return [z @ t @ adjoint(np_, z), np_.tril(t, -1)]


SLOW = {"grad": "of a small matrix, and of first order: see tests/transforms"}
LINALG = [
    *rows(
        "cholesky",
        positive,
        LINEAR,
        reference=each(sla.cholesky),
        of=lambda p: balanced(p.scipy.linalg.cholesky),
        **HARD,
    ),
    *rows("det inv", square, LINEAR, **HARD),
    *rows("expm", small, LINEAR, reference=each(sla.expm), without=SLOW, **HARD),
    *rows("expm_frechet", directions, SINGLE, without=SLOW, **MATRIX),
    *rows(
        "funm",
        small,
        LINEAR,
        reference=lambda x, *_: sla.expm(x),
        rank=(2, 2),
        least=1,
        tolerance=60,
        of=lambda p: lambda x: p.scipy.linalg.funm(x, p.numpy.exp),
        without=NONE | {"vmap": "of one matrix"},
    ),
    *rows("sqrtm", square, SINGLE, tolerance=60, rank=(2, 2), least=1, without=NONE),
    *rows("lu", square, LINEAR, **by_factors("lu", of_lu), **HARD),
    *rows("qr", square, LINEAR, **by_factors("qr", of_qr), **HARD),
    *rows(
        "svd",
        square,
        LINEAR,
        **by_factors("svd", of_svd),
        without={"grad": "of reduced factors only; see `numpy.linalg.svd`"},
        **HARD,
    ),
    *rows("eigh", hermitian, LINEAR, **by_factors("eigh", of_eigh), **HARD),
    *rows(
        "schur", square, SINGLE, **by_factors("schur", of_schur), without=NONE, **HARD
    ),
    *rows(
        "hessenberg",
        square,
        LINEAR,
        **by_factors("hessenberg", of_hessenberg),
        without=NONE,
        **HARD,
    ),
    *rows(
        "polar",
        square,
        SINGLE,
        **by_factors("polar", polar_product),
        without=NONE,
        **HARD,
    ),
    *rows(
        "cho_factor", hermitian, LINEAR, **by_factors("cho_factor", of_cholesky), **HARD
    ),
    *rows("lu_factor", square, LINEAR, **by_factors("lu_factor", lu_compact), **HARD),
    *rows("solve", systems, LINEAR, reference=several(sla.solve), **HARD),
    *rows(
        "solve:definite",
        lambda s, shape: [call(*g.args, assume_a="pos") for g in definite(s, shape)],
        LINEAR,
        of=lambda p: balanced(p.scipy.linalg.solve),
        reference=several(sla.solve),
        **MATRIX,
    ),
    *rows(
        "solve_triangular",
        triangles,
        LINEAR,
        reference=several(sla.solve_triangular),
        **HARD,
    ),
    *rows(
        "cho_solve",
        definite,
        LINEAR,
        of=solved_by("cho_factor", "cho_solve"),
        reference=several(sla.solve),
        **HARD,
    ),
    *rows(
        "lu_solve",
        systems,
        LINEAR,
        of=solved_by("lu_factor", "lu_solve"),
        reference=several(sla.solve),
        **HARD,
    ),
    *rows(
        "solve_sylvester", sylvesters, SINGLE, tolerance=60, rank=(2, 2), without=NONE
    ),
    *rows(
        "eigh_tridiagonal",
        tridiagonals,
        SINGLE,
        tolerance=60,
        rank=(1, 1),
        without=NONE,
    ),
    *rows(
        "qr_multiply",
        multiplied,
        SINGLE,
        tolerance=60,
        rank=(2, 2),
        of=of_multiplied,
        reference=lambda a, c: (lambda cq, r: cq @ r)(*sla.qr_multiply(a, c)),
        without=NONE,
    ),
    *rows(
        "rsf2csf",
        complex_forms,
        SINGLE,
        tolerance=60,
        rank=(2, 2),
        without=NONE,
        of=lambda p: lambda t, z: complex_schur(p.numpy, *p.scipy.linalg.rsf2csf(t, z)),
        reference=lambda t, z: complex_schur(np, *sla.rsf2csf(t, z)),
    ),
    *rows("block_diag", blocks, LINEAR, **ONE),
    *rows("circulant", vector, LINEAR, rank=(1, 1), least=1),
    *rows("fiedler", vector, SINGLE, rank=(1, 1), least=1),
    *rows("companion", companions, LINEAR, tolerance=2, **ONE),
    *rows("fiedler_companion", companions, SINGLE, tolerance=2, **ONE),
    *rows("leslie", leslies, SINGLE, **ONE),
    *rows("toeplitz hankel", toeplitzes, LINEAR, **ONE),
    *rows(
        "convolution_matrix",
        lambda s, shape: [call(s((3,)), 4), call(s((3,)), 2, "same")],
        SINGLE,
        **ONE,
    ),
    *constant("dft", call(4), call(3, "sqrtn"), call(3, scale="n")),
    *constant("hadamard", call(1), call(4)),
    *constant("helmert", call(4), call(3, full=True)),
    *constant("hilbert", call(4), call(1)),
    *constant("invhilbert", call(3)),
    *constant("pascal", call(4), call(3, "lower"), call(3, kind="upper")),
    *constant("invpascal", call(3), call(4, "lower")),
]


TABLE = within("scipy.linalg", LINALG)
