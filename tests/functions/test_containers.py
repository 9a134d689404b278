"""Containers of several results: tuples, lists, named tuples, as in JAX 0.10.2."""

import pytest

import curta.numpy as jnp
from curta import lax
from curta.scipy import linalg, signal, sparse, stats

A = jnp.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
NAMES = {
    **{"jnp": jnp, "lax": lax, "linalg": linalg, "signal": signal, "stats": stats},
    **{"sparse": sparse.linalg, "a": A, "v": jnp.arange(1.0, 4.0), "i": jnp.arange(3)},
    **{"w": jnp.arange(8.0) ** 2, "key": jnp.zeros(4, jnp.uint32)},
    "sums": lambda x, y: (x[0] + y[0], x[1] + y[1]),
}

#: Calls by what they give, in which * is one result.
CALLS = {
    "[*, *, *]": """
        lax.linalg.lu(a)
        lax.linalg.eig(a)
        jnp.split(v, 3)
        jnp.hsplit(a, 3)
        jnp.vsplit(a, 3)
        jnp.dsplit(a[None], 3)
    """,
    "(*, *)": """
        jnp.meshgrid(v, v)
        jnp.meshgrid(v, v, sparse=True)
        jnp.broadcast_arrays(v, a)
        lax.linalg.qr(a)
        lax.linalg.eigh(a)
        linalg.lu(a, permute_l=True)
        linalg.lu_factor(a)
        linalg.cho_factor(a)
        linalg.qr(a)
        linalg.qr(a, mode="r", pivoting=True)
        linalg.eigh(a)
        linalg.rsf2csf(a, a)
        linalg.hessenberg(a, calc_q=True)
        linalg.polar(a)
        linalg.expm_frechet(a, a)
        linalg.funm(a, jnp.exp, disp=False)
        lax.sort((v, v), num_keys=1)
        lax.sort([v, v], num_keys=1)
        lax.sort_key_val(v, v)
        lax.reduce((v, v), (0.0, 0.0), lambda x, y: (x[0], y[1]), (0,))
        lax.reduce_window((v, v), (0.0, 0.0), sums, (2,), (1,), "VALID")
        lax.rng_bit_generator(key, (2,))
        lax.broadcast_shapes((2, 1), (1, 3))
        jnp.ix_(i, i)
        jnp.unique(v, return_index=True)
        jnp.histogram(v)
        jnp.divmod(v, v)
        jnp.modf(v)
        jnp.frexp(v)
        jnp.tril_indices(3)
        jnp.triu_indices_from(a)
        jnp.diag_indices(3)
        jnp.diag_indices_from(a)
        jnp.mask_indices(3, jnp.triu)
        jnp.unravel_index(i, (2, 2))
        jnp.indices((2, 2), sparse=True)
        jnp.average(v, returned=True)
        jnp.linspace(0, 1, 3, retstep=True)
        jnp.polydiv(v, v[:2])
        jnp.polyfit(w, w, 1, cov=True)
        jnp.shape(a)
        signal.istft(a + 0j, nperseg=4)
        signal.welch(w, nperseg=4)
        signal.csd(w, w, nperseg=4)
        sparse.gmres(a, v)
    """,
    "(*, *, *)": """
        lax.linalg.qr(a, pivoting=True)
        lax.linalg.svd(a)
        linalg.lu(a)
        linalg.qr(a, pivoting=True)
        linalg.svd(a)
        jnp.unstack(a)
        jnp.intersect1d(v, v, return_indices=True)
        jnp.histogram2d(v, v)
        signal.stft(w, nperseg=4)
    """,
    "[*, *]": """
        lax.linalg.eig(a, compute_left_eigenvectors=False)
        lax.linalg.schur(a)
        lax.linalg.hessenberg(a)
        linalg.schur(a)
        linalg.schur(a, output="complex")
        lax.top_k(v, 2)
        lax.approx_max_k(v, 2)
        lax.approx_min_k(v, 2)
        lax.split(v, (1, 2))
        lax.associative_scan(lambda x, y: [x[0] + y[0], x[1]], [v, v])
        lax.reduce([v, v], [0.0, 0.0], lambda x, y: [x[0], y[1]], (0,))
        jnp.array_split(v, 2)
        jnp.gradient(a)
        jnp.atleast_1d(v, v)
        jnp.atleast_2d(v, v)
        jnp.atleast_3d(v, v)
        jnp.ogrid[0:2, 0:2]
    """,
    "*": """
        lax.linalg.svd(a, compute_uv=False)
        jnp.linalg.qr(a, mode="r")
        jnp.linalg.svd(a, compute_uv=False)
        linalg.svd(a, compute_uv=False)
        linalg.eigh(a, eigvals_only=True)
        linalg.hessenberg(a)
        linalg.expm_frechet(a, a, compute_expm=False)
        linalg.funm(a, jnp.exp)
        jnp.gradient(v)
        jnp.atleast_1d(v)
        jnp.apply_over_axes(jnp.sum, a, (0,))
    """,
    "[*]": """
        lax.linalg.schur(a, compute_schur_vectors=False)
    """,
    "[*, *, *, *]": """
        lax.linalg.tridiagonal(a)
    """,
    "(*, *, *, *)": """
        lax.linalg.qdwh(a)
        jnp.linalg.lstsq(a, v)
        jnp.linalg.lstsq(a, v, numpy_resid=True)
        jnp.unique(v, return_index=True, return_inverse=True, return_counts=True)
    """,
    "QRResult(Q=*, R=*)": """
        jnp.linalg.qr(a)
        jnp.linalg.qr(a, mode="raw")
    """,
    "SVDResult(U=*, S=*, Vh=*)": """
        jnp.linalg.svd(a)
        jnp.linalg.svd(a, hermitian=True)
    """,
    "EigResult(eigenvalues=*, eigenvectors=*)": """
        jnp.linalg.eig(a)
    """,
    "EighResult(eigenvalues=*, eigenvectors=*)": """
        jnp.linalg.eigh(a)
    """,
    "SlogdetResult(sign=*, logabsdet=*)": """
        jnp.linalg.slogdet(a)
        jnp.linalg.slogdet(a, method="qr")
    """,
    "(*,)": """
        linalg.qr(a, mode="r")
        lax.sort((v,))
        jnp.nonzero(v)
        jnp.where(v > 1)
        jnp.broadcast_shapes((1,), (2,))
    """,
    "((*,), [*])": """
        lax.scan(lambda c, x: (c, [x]), (v[0],), v)
    """,
    "[*, (*,)]": """
        lax.optimization_barrier([v, (v,)])
        lax.cond(True, lambda: [v, (v,)], lambda: [v, (v,)])
        lax.map(lambda x: [x, (x,)], v)
    """,
    "[*, {x: *}]": """
        lax.fori_loop(0, 2, lambda i, c: [c[0], {"x": c[1]["x"]}], [v, {"x": v}])
    """,
    "(*, [*, *, *])": """
        jnp.histogramdd(a)
    """,
    "(*, *, *, *, *)": """
        jnp.polyfit(v, v, 1, full=True)
    """,
    "ModeResult(mode=*, count=*)": """
        stats.mode(v)
    """,
    "(*, None)": """
        sparse.cg(a, v)
        sparse.bicgstab(a, v)
    """,
}
CASES = [
    (call.strip(), form)
    for form, calls in CALLS.items()
    for call in calls.strip().splitlines()
]


def form_of(x):
    """The containers of a result, as they are written in the table."""
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k}: {form_of(y)}" for k, y in x.items()) + "}"
    if not isinstance(x, (list, tuple)):
        return "None" if x is None else "*"
    parts = list(map(form_of, x))
    if names := getattr(x, "_fields", None):
        named = ", ".join(f"{n}={p}" for n, p in zip(names, parts, strict=True))
        return f"{type(x).__name__}({named})"
    inside = ", ".join(parts)
    if isinstance(x, list):
        return f"[{inside}]"
    return f"({inside},)" if len(parts) == 1 else f"({inside})"


@pytest.mark.parametrize(("call", "form"), CASES, ids=[call for call, _ in CASES])
def test_containers(call, form):
    assert form_of(eval(call, dict(NAMES))) == form
