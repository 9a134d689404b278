"""`curta.numpy.linalg`, `.fft`, products of arrays and polynomials."""

import numpy as np
from tests.functions.rows import (
    COMPLEX,
    FLOAT,
    LINEAR,
    NUMBER,
    SINGLE,
    Fixed,
    call,
    rows,
    within,
)

NO_ARRAY = {"vmap": "takes no array", "grad": "takes no array"}
ANY = (*NUMBER[:4], *COMPLEX, "int32", "int64")


def axes_of(shape):
    return range(-len(shape), len(shape))


def unary(source, shape):
    yield call(source(shape))


def squares(shape):
    return (*shape[:-1], shape[-1])[:-2] + (shape[-1], shape[-1])


def regular(source, shape):
    """Matrices far from singular, with well separated eigenvalues."""
    n = shape[-1]
    return (source(squares(shape)) / 4 + np.diag(np.arange(2.0, n + 2))).astype(
        source.dtype
    )


def symmetric(source, shape):
    x = regular(source, shape)
    return ((x + np.swapaxes(x, -1, -2).conj()) / 2).astype(source.dtype)


def square(source, shape):
    yield call(regular(source, shape))


def hermitian(source, shape):
    yield call(symmetric(source, shape))


def products(source, shape):
    """Every pair of ranks that `matmul` takes."""
    n = shape[-1]
    yield call(source(shape), source((n, 2)))
    yield call(source(shape), source((n,)))
    yield call(source((n,)), source((n, 3)))
    yield call(source((2, 1, 2, n)), source((3, n, 2)))
    yield call(source((0, n)), source((n, 2)))


def dots(source, shape):
    n = shape[-1]
    yield call(source(shape), source((n, 2)))
    yield call(source(shape), source((n,)))
    yield call(source((n,)), source((2, n, 3)))
    yield call(source(shape), source(()))
    yield call(source(()), source(shape))


def inner(source, shape):
    yield call(source(shape), source((2, shape[-1])))
    yield call(source(shape), source(shape[-1:]))
    yield call(source(shape), source(()))


def same_sizes(source, shape):
    yield call(source(shape), source(shape))


def outers(source, shape):
    yield call(source(shape), source((2,)))
    yield call(source(shape), source((2, 2)))


def vectors(source, shape):
    yield call(source(shape[-1:]), source((2,)))


def vector_products(source, shape):
    yield call(source(shape), source(shape))
    yield call(source(shape), source(shape[-1:]))
    for axis in axes_of(shape):
        yield call(source(shape), source(shape), axis=axis)


def matrix_vector(source, shape):
    yield call(source(shape), source(shape[-1:]))
    yield call(source(shape), source((3, *[1] * (len(shape) - 2), shape[-1])))


def vector_matrix(source, shape):
    yield call(source(shape[-2:-1]), source(shape))


def contractions(source, shape):
    yield call(source(shape), source((*shape[::-1], 2)), axes=len(shape) and 1)
    yield call(source(shape), source(shape), axes=len(shape))
    yield call(source(shape), source((2,)), axes=0)
    yield call(source((2, 3, 4)), source((4, 3, 2)), axes=((0, 1), (2, 1)))
    yield call(source((2, 3)), source((4, 3)), axes=(-1, -1))


def crosses(source, shape):
    yield call(source((2, 3)), source((3,)))
    yield call(source((3, 2)), source((3, 2)), axis=0)


def flat_crosses(source, shape):
    yield from crosses(source, shape)
    yield call(source((2, 3)), source((3, 2)), axisb=0, axisc=0)


def sums(source, shape):
    yield call("ij,jk->ik", source((2, 3)), source((3, 4)))
    yield call("...i,...i->...", source(shape), source(shape))
    yield call("...i->...", source(shape))
    yield call("ii->i", source((3, 3)))
    yield call("iij,j->j", source((3, 3, 2)), source((2,)))
    yield call("i,j,k->kji", source((2,)), source((3,)), source((1,)))
    yield call("ab,bc,cd->ad", source((2, 3)), source((3, 0)), source((0, 2)))
    yield call(source((2, 3)), [0, 1], source((3,)), [1], [0])


def chains(source, shape):
    yield call([source((2, 3)), source((3, 4)), source((4, 2))])
    yield call([source((3,)), source((3, 4)), source((4,))])


def kroneckers(source, shape):
    yield call(source(shape), source((2,)))
    yield call(source((2, 1)), source(shape))


def powers(source, shape):
    for n in 2, 0, 1, 5, -1, -3:
        yield call(regular(source, shape), n)


def systems(source, shape):
    n = shape[-1]
    yield call(regular(source, shape), source((*shape[:-2], n, 2)))
    yield call(regular(source, shape), source((n,)))


def solved(a, b):
    return (
        np.linalg.solve(a, b[..., None])[..., 0]
        if b.ndim == 1
        else np.linalg.solve(a, b)
    )


def vector_norms(source, shape):
    for order in None, 2, 1, 3, 0, np.inf, -np.inf, -1, 0.5:
        args = {} if order is None else {"ord": order}
        for axis in axes_of(shape):
            yield call(source(shape), axis=axis, **args)
        yield call(source(shape), axis=-1, keepdims=True, **args)
    yield call(source(shape))


def tensor_norms(source, shape):
    yield call(source(shape))
    yield call(source(shape), keepdims=True)
    yield call(source(shape), axis=tuple(range(len(shape))))


def matrix_norms(source, shape):
    for order in "fro", 1, -1, np.inf, -np.inf, 2, -2, "nuc":
        yield call(source(shape), ord=order)
        yield call(source(shape), ord=order, keepdims=True)


def norms_of_matrices(source, shape):
    for given in matrix_norms(source, shape):
        yield call(*given.args, axis=(-1, -2), **given.kwargs)


def diagonals(source, shape):
    for k in -1, 0, 1:
        yield call(source(shape), offset=k)


def conditions(source, shape):
    for p in None, 2, 1, -1, np.inf, "fro", -2:
        yield call(regular(source, shape), p)


def tensors(source, shape):
    yield call(
        (source((2, 3, 6)) + np.eye(6).reshape(2, 3, 6) * 6).astype(source.dtype), 2
    )
    yield call(
        (source((4, 2, 2)) + np.eye(4).reshape(4, 2, 2) * 6).astype(source.dtype), 1
    )


def tensor_systems(source, shape):
    a = (source((2, 3, 6)) + np.eye(6).reshape(2, 3, 6) * 6).astype(source.dtype)
    yield call(a, source((2, 3)))


def least_squares(source, shape):
    yield call(source((4, 2)), source((4,)))
    yield call(source((4, 2)), source((4, 3)))


def solutions(package):
    """Of what `lstsq` gives, all but the residuals, that NumPy drops at times."""
    return lambda a, b: [package.numpy.linalg.lstsq(a, b)[i] for i in (0, 2, 3)]


def rebuilt_by(name, rebuild, *options):
    """Decompositions are unique up to signs: the product of the factors is checked."""

    def of(package):
        np_ = package.numpy
        return lambda x, *args: rebuild(np_, getattr(np_.linalg, name)(x, *args), x)

    return of


def adjoint(np_, x):
    return np_.conj(np_.swapaxes(x, -1, -2))


def of_svd(np_, parts, x):
    u, s, vh = parts
    k = s.shape[-1]
    return [(u[..., :k] * s[..., None, :]) @ vh[..., :k, :], s]


def of_qr(np_, parts, x):
    q, r = parts
    return [q @ r, np_.abs(np_.tril(r, -1)), adjoint(np_, q) @ q]


def of_eigh(np_, parts, x):
    w, v = parts
    return [(v * w[..., None, :]) @ adjoint(np_, v), w]


def of_eig(np_, parts, x):
    w, v = parts
    return [x @ v - v * w[..., None, :], np_.sort_complex(w)]


def of_values(np_, w, x):
    return np_.sort_complex(w)


def full_or_not(source, shape):
    yield call(source(shape))
    yield call(source(shape), False)


def qr_modes(source, shape):
    yield call(source(shape))
    yield call(source(shape), "complete")


def determinants(source, shape):
    yield call(regular(source, shape))


HARD = {"rank": (2, 4), "least": 1, "tolerance": 40}
VECTORS = {"grad": "eigenvectors have derivatives only on demand, in `lax.linalg.eig`"}
LINALG = [
    *rows("det inv slogdet", square, LINEAR, **HARD),
    *rows("matrix_rank", square, LINEAR, **HARD),
    *rows("cond", conditions, LINEAR, **HARD),
    *rows("cholesky", hermitian, LINEAR, **HARD),
    *rows("eigvalsh", hermitian, LINEAR, **HARD),
    *rows(
        "eigh",
        hermitian,
        LINEAR,
        of=rebuilt_by("eigh", of_eigh),
        reference=lambda x: of_eigh(np, np.linalg.eigh(x), x),
        **HARD,
    ),
    *rows(
        "eig",
        square,
        LINEAR,
        of=rebuilt_by("eig", of_eig),
        reference=lambda x: of_eig(np, np.linalg.eig(x + 0j), x),
        without=VECTORS,
        **HARD,
    ),
    *rows(
        "eigvals",
        square,
        LINEAR,
        of=rebuilt_by("eigvals", of_values),
        reference=lambda x: np.sort_complex(np.linalg.eigvals(x)),
        without=VECTORS,
        **HARD,
    ),
    *rows(
        "svd",
        full_or_not,
        LINEAR,
        of=rebuilt_by("svd", of_svd),
        reference=lambda x, full=True: of_svd(np, np.linalg.svd(x, full), x),
        without={"grad": "of reduced factors only"},
        **HARD,
    ),
    *rows(
        "svd reduced",
        lambda s, shape: [call(s(shape), False)],
        LINEAR,
        of=rebuilt_by("svd", of_svd),
        reference=lambda x, full: of_svd(np, np.linalg.svd(x, full), x),
        **HARD,
    ),
    *rows("svdvals", unary, LINEAR, **HARD),
    *rows(
        "qr",
        qr_modes,
        LINEAR,
        of=rebuilt_by("qr", of_qr),
        reference=lambda x, mode="reduced": of_qr(np, np.linalg.qr(x, mode), x),
        without={"grad": "of tall matrices only"},
        **HARD,
    ),
    *rows(
        "qr tall",
        square,
        LINEAR,
        of=rebuilt_by("qr", of_qr),
        reference=lambda x: of_qr(np, np.linalg.qr(x), x),
        **HARD,
    ),
    *rows("pinv", unary, LINEAR, **HARD),
    *rows("solve", systems, LINEAR, reference=solved, **HARD),
    *rows(
        "lstsq",
        least_squares,
        SINGLE,
        of=solutions,
        tolerance=40,
        rank=(2, 2),
        reference=lambda a, b: [np.linalg.lstsq(a, b)[i] for i in (0, 2, 3)],
    ),
    *rows("matrix_power", powers, LINEAR, rank=(2, 3), least=1, tolerance=400),
    *rows("tensorinv", tensors, SINGLE, tolerance=40, rank=(3, 3)),
    *rows("tensorsolve", tensor_systems, SINGLE, tolerance=40, rank=(3, 3)),
    *rows("vector_norm", vector_norms, LINEAR, rank=(1, 3), least=1, tolerance=8),
    *rows("norm", vector_norms, LINEAR, rank=(1, 3), least=1, tolerance=8),
    *rows("vector_norm", tensor_norms, FLOAT, rank=(1, 3), tolerance=4),
    *rows("norm", tensor_norms, FLOAT, rank=(1, 2), tolerance=4),
    *rows("matrix_norm", matrix_norms, LINEAR, **HARD),
    *rows("norm", norms_of_matrices, LINEAR, **HARD),
    *rows("diagonal trace", diagonals, ANY, rank=(2, 4), tolerance=4),
    *rows("matmul", products, ANY, rank=(2, 4), least=1, tolerance=16),
    *rows("tensordot", contractions, ANY, rank=(1, 3), tolerance=16),
    *rows("outer", vectors, ANY, rank=(1, 2)),
    *rows("vecdot", vector_products, ANY, rank=(1, 3), tolerance=16),
    *rows("cross", crosses, ANY, rank=(1, 1), tolerance=4),
    *rows("multi_dot", chains, ANY, rank=(1, 1), tolerance=30),
]
PRODUCTS = [
    *rows("dot", dots, ANY, rank=(1, 3), tolerance=16),
    *rows("matmul", products, ANY, rank=(2, 4), least=1, tolerance=16),
    *rows("inner", inner, ANY, rank=(1, 3), tolerance=16),
    *rows("outer", outers, ANY),
    *rows("vdot", same_sizes, ANY, tolerance=16),
    *rows("vecdot", vector_products, ANY, rank=(1, 3), tolerance=16),
    *rows("matvec", matrix_vector, ANY, rank=(2, 3), tolerance=16),
    *rows("vecmat", vector_matrix, ANY, rank=(2, 3), tolerance=16),
    *rows("tensordot", contractions, ANY, rank=(1, 3), tolerance=16),
    *rows("cross", flat_crosses, ANY, rank=(1, 1), tolerance=4),
    *rows("einsum", sums, ANY, rank=(1, 3), least=1, tolerance=30),
    *rows("kron", kroneckers, ANY, rank=(0, 3), tolerance=2),
]


def signals(source, shape):
    yield call(source((5,)), source((3,)))
    for mode in "full", "same", "valid":
        yield call(source((5,)), source((3,)), mode)


def covariances(source, shape):
    yield call(source(shape))
    yield call(source(shape), source(shape), rowvar=False)


def weighted(source, shape):
    yield from covariances(source, shape)
    yield call(source((2, 4)), bias=True)
    yield call(source((2, 4)), ddof=0, fweights=Fixed(np.array([1, 2, 1, 3])))
    yield call(source((2, 4)), aweights=source.real((4,), low=0.5, high=2))


def pairs_of_coefficients(source, shape):
    yield call(source((4,)), source((2,)))
    yield call(source((2,)), source((3,)))


def undone(np_, u, v):
    """The quotient, and the product that a division undoes; remainders are padded."""
    quotient, remainder = np_.polydiv(u, v)
    return [quotient, np_.polyadd(np_.polymul(quotient, v), remainder)]


def evaluations(source, shape):
    yield call(source((4,)), source(shape))


def coefficients(source, shape):
    yield call(source((5,)))
    yield call(source((5,)), 2)


def fits(source, shape):
    x = np.linspace(-1, 1, 6).astype(source.dtype)
    yield call(x, source((6,)), 2)
    yield call(x, source((6, 2)), 1)


def zeros_known(source, shape):
    yield call(np.array([1.0, -6.0, 11.0, -6.0]).astype(source.dtype))
    yield call(np.array([2.0, 1.0, 3.0, 0.0]).astype(source.dtype), strip_zeros=False)


def sorted_zeros(package):
    return lambda p, **kwargs: package.numpy.sort_complex(
        package.numpy.roots(p, **kwargs)
    )


SERIES = [
    *rows("convolve correlate", signals, ANY, rank=(1, 1), tolerance=8),
    *rows("cov", weighted, LINEAR, rank=(2, 2), least=2, tolerance=16),
    *rows("corrcoef", covariances, SINGLE, rank=(2, 2), least=2, tolerance=16),
    *rows(
        "polyadd polysub polymul", pairs_of_coefficients, ANY, rank=(1, 1), tolerance=4
    ),
    *rows(
        "polydiv",
        pairs_of_coefficients,
        SINGLE,
        rank=(1, 1),
        tolerance=30,
        domain=(1, 3),
        of=lambda p: lambda u, v: undone(p.numpy, u, v),
        reference=lambda u, v: undone(np, u, v),
    ),
    *rows("polyval", evaluations, NUMBER[:3] + COMPLEX, tolerance=60),
    *rows("polyder polyint", coefficients, SINGLE, rank=(1, 1), tolerance=2),
    *rows("poly", lambda s, shape: [call(s((3,)))], LINEAR, rank=(1, 1), tolerance=8),
    *rows("polyfit", fits, SINGLE, rank=(1, 1), tolerance=40),
    *rows(
        "roots",
        zeros_known,
        SINGLE,
        rank=(1, 1),
        tolerance=400,
        of=sorted_zeros,
        reference=lambda p, **_: np.sort_complex(np.roots(p)),
        without={
            "jit": "zeros in front are taken off",
            "vmap": "as for jit",
            "grad": "as for jit",
        },
    ),
]


def transforms(source, shape):
    """Every axis; shorter and longer than the array; every norm."""
    for axis in axes_of(shape):
        yield call(source(shape), axis=axis)
        yield call(source(shape), 2, axis)
        yield call(source(shape), shape[axis] + 1, axis)
    for norm in "ortho", "forward", "backward":
        yield call(source(shape), norm=norm)


def several_axes(source, shape):
    yield call(source(shape))
    yield call(source(shape), axes=(0, 1))
    yield call(source(shape), axes=(-1, -2), norm="ortho")
    yield call(source(shape), (3, 2), (-2, -1))


def all_axes(source, shape):
    yield from several_axes(source, shape)
    for axis in axes_of(shape):
        yield call(source(shape), axes=(axis,))


def shifts(source, shape):
    yield call(source(shape))
    for axis in axes_of(shape):
        yield call(source(shape), axis)
    yield call(source(shape), tuple(range(len(shape))))


def frequencies(source, shape):
    yield from [call(1), call(5), call(6, d=0.5)]


REAL_IN = {"rank": (1, 3), "least": 2, "tolerance": 8}
FFT = [
    *rows("fft ifft", transforms, LINEAR, rank=(1, 3), least=1, tolerance=8),
    *rows("rfft ihfft", transforms, SINGLE, rank=(1, 3), least=1, tolerance=8),
    *rows("irfft hfft", transforms, LINEAR, **REAL_IN),
    *rows("fft2 ifft2", several_axes, LINEAR, rank=(2, 3), least=1, tolerance=8),
    *rows("rfft2", several_axes, SINGLE, rank=(2, 3), least=1, tolerance=8),
    *rows("irfft2", several_axes, LINEAR, rank=(2, 3), least=2, tolerance=8),
    *rows("fftn ifftn", all_axes, LINEAR, rank=(2, 3), least=1, tolerance=8),
    *rows("rfftn", all_axes, SINGLE, rank=(2, 3), least=1, tolerance=8),
    *rows("irfftn", all_axes, LINEAR, rank=(2, 3), least=2, tolerance=8),
    *rows("fftshift ifftshift", shifts, NUMBER, rank=(1, 3)),
    *rows("fftfreq rfftfreq", frequencies, SINGLE, rank=(0, 0), without=NO_ARRAY),
]
TABLE = [
    *within("numpy.linalg", LINALG),
    *within("numpy", PRODUCTS),
    *within("numpy", SERIES),
    *within("numpy.fft", FFT),
]
