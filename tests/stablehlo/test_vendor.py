"""Decompositions by a vendor's handlers: their calls, and what is made of the results.

The handlers need a GPU (tests/accelerators/on_gpu.py). Here LAPACK replaces them, with
their conventions: outputs and their order, pivots from 1, packed vectors.
"""

import numpy as np
import pytest
from scipy.linalg import lapack
from tests.conformance.checks import assert_close, evaluate
from tests.conformance.invariants import without_choices

from curta.compiler.stablehlo import vendor
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.entry import MainAttributes, lower_program
from curta.config import enable_x64
from curta.control.ffi_call import FfiCall
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate as eval_jaxpr
from curta.core.stage import stage
from curta.lax.linalg import SvdAlgorithm
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.condensed import Tridiagonal
from curta.primitives.linalg.eigen import Eig, Eigh
from curta.primitives.linalg.lu import LU
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.svd import SVD
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import Ormqr

ALL = frozenset().union(*[r.targets for r in vendor.ROUTINES.values()])
DTYPES = ["float32", "float64", "complex64", "complex128"]
RNG = np.random.default_rng(7)


def random(*shape, dtype="float64"):
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def hermitian(*shape, dtype):
    x = random(*shape, dtype=dtype)
    return x + x.conj().swapaxes(-1, -2)


def lapack_of(name, *args):
    return lapack.get_lapack_funcs((name,), args)[0]


# ------------------------------------------------- LAPACK in place of the handlers


def potrf(op, x):
    c, info = lapack_of("potrf", x)(x, lower=dict(op.attributes)["lower"], clean=0)
    return c, info


def getrf(op, x):
    packed, pivots, info = lapack_of("getrf", x)(x)
    return packed, pivots + 1, info


def permutation(op, pivots):
    order = np.arange(op.result_avals[0].shape[-1])
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    return (order,)


def geqrf(op, x):
    return lapack_of("geqrf", x)(x)[:2]


def orgqr(op, x, taus):
    name = "ungqr" if np.iscomplexobj(x) else "orgqr"
    return lapack_of(name, x)(x, taus)[:1]


def ormqr(op, x, taus, c):
    settings, complex_ = dict(op.attributes), np.iscomplexobj(x)
    name, there = ("unmqr", "C") if complex_ else ("ormqr", "T")
    side = "L" if settings["left"] else "R"
    trans = there if settings["transpose"] else "N"
    return lapack_of(name, x)(side, trans, x, taus, c, 64 * max(c.shape))[:1]


def sytrd(op, x):
    name = "hetrd" if np.iscomplexobj(x) else "sytrd"
    return lapack_of(name, x)(x, lower=dict(op.attributes)["lower"])


def gtsv2(op, dl, d, du, b):
    n = len(d)
    full = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[: n - 1], 1)
    return (np.linalg.solve(full, b),)


def syevd(op, x):
    settings = dict(op.attributes)
    assert settings["algorithm"] == np.uint8(0)
    w, v = np.linalg.eigh(x, "L" if settings["lower"] else "U")
    return v, w, 0


def geev(op, x):
    settings = dict(op.attributes)
    assert not settings["left"]
    *w, vl, vr, info = lapack_of("geev", x)(
        x, compute_vl=0, compute_vr=settings["right"]
    )
    w = w[0] if len(w) == 1 else w[0] + 1j * w[1]
    if not settings["right"]:
        vr = np.zeros_like(x)
    return x, w, np.zeros_like(x), vr, info


def gesvd(op, x):
    settings = dict(op.attributes)
    assert x.shape[0] >= x.shape[1] and not settings["transposed"]
    if not settings["compute_uv"]:
        s = np.linalg.svd(x, compute_uv=False)
        return x, s, x.dtype.type(0), x.dtype.type(0), 0
    u, s, vh = np.linalg.svd(x, settings["full_matrices"])
    return x, s, u, vh, 0


def gesvdj(op, x):
    whole = dict(op.attributes)["full_matrices"]
    assert max(x.shape) > 32 or whole
    u, s, vh = np.linalg.svd(x, whole)
    return x, s, u, vh.conj().T, 0


HANDLERS = {
    **{f"cusolver_{f.__name__}_ffi": f for f in (potrf, getrf, geqrf, orgqr, ormqr)},
    **{f"cusolver_{f.__name__}_ffi": f for f in (sytrd, syevd, geev, gesvd, gesvdj)},
    "cusparse_gtsv2_ffi": gtsv2,
    "cu_lu_pivots_to_permutation": permutation,
}


def called(op, *args):
    """The outputs of a handler for a batch, with the given shapes and dtypes."""
    batch = args[0].shape[: op.batch_rank]
    flat = [x.reshape(-1, *x.shape[op.batch_rank :]) for x in args]
    rows = [HANDLERS[op.target_name](op, *each) for each in zip(*flat, strict=True)]
    outs = []
    for parts, aval in zip(zip(*rows, strict=True), op.result_avals, strict=True):
        whole = np.stack([np.asarray(p) for p in parts])
        scalar = not aval.shape and bool(batch)  # no basis, not even of the batch
        out = whole[0] if scalar else whole.reshape((*batch, *whole.shape[1:]))
        assert out.shape == aval.shape, (op, aval)
        outs.append(out.astype(aval.dtype))
    return outs


@pytest.fixture(autouse=True)
def handlers(monkeypatch):
    monkeypatch.setattr(FfiCall, "eval", called)
    with enable_x64(True):
        yield


def check(op, *args, scale=1.0):
    """The routine's results equal those of the op, up to signs and similar choices."""
    routine = vendor.ROUTINES[type(op)]
    assert routine.fits(op)
    avals = [ShapedArray(x.shape, x.dtype) for x in args]
    closed = stage(lambda *xs: list(routine.function(op, *xs)), avals)
    outs = [*map(np.asarray, eval_jaxpr(closed.jaxpr, closed.consts, args))]
    want = evaluate(op, args)
    for got, w in zip(outs, want, strict=True):
        assert got.shape == w.shape and got.dtype == w.dtype
    pairs = [without_choices(op, x) for x in (outs, want)]
    for n, (got, w) in enumerate(zip(*pairs, strict=True)):
        assert_close(got, w, f"{op}, output {n}", scale)


@pytest.mark.parametrize("dtype", DTYPES)
class TestValues:
    def test_cholesky(self, dtype):
        x = random(3, 5, 5, dtype=dtype)
        good = x @ x.conj().swapaxes(-1, -2) + 5 * np.eye(5, dtype=dtype)
        good[1] = -good[1]  # NaN as a whole
        check(Cholesky(), good, scale=10)

    @pytest.mark.parametrize("shape", [(5, 5), (6, 4), (4, 6), (2, 3, 5, 5)])
    def test_lu(self, dtype, shape):
        check(LU(), random(*shape, dtype=dtype), scale=10)

    @pytest.mark.parametrize("shape", [(5, 5), (6, 4), (4, 6), (2, 6, 4)])
    def test_reflections(self, dtype, shape):
        x = random(*shape, dtype=dtype)
        check(Geqrf(), x, scale=10)
        if shape[-2] >= shape[-1]:
            packed, taus = evaluate(Geqrf(), [x])
            check(HouseholderProduct(), packed, taus, scale=10)

    @pytest.mark.parametrize("left", [True, False])
    @pytest.mark.parametrize("transposed", [True, False])
    def test_products_with_reflections(self, dtype, left, transposed):
        packed, taus = evaluate(Geqrf(), [random(6, 4, dtype=dtype)])
        c = random(6, 3, dtype=dtype) if left else random(3, 6, dtype=dtype)
        check(Ormqr(left, transposed), packed, taus, c, scale=10)

    @pytest.mark.parametrize("lower", [True, False])
    def test_tridiagonal(self, dtype, lower):
        check(Tridiagonal(lower), hermitian(2, 5, 5, dtype=dtype), scale=10)

    def test_tridiagonal_systems(self, dtype):
        dl, d, du = (random(2, 6, dtype=dtype) for _ in range(3))
        dl[:, 0] = du[:, -1] = 0
        d = d + 4
        check(TridiagonalSolve(), dl, d, du, random(2, 6, 3, dtype=dtype), scale=10)

    @pytest.mark.parametrize("lower", [True, False])
    @pytest.mark.parametrize("subset", [None, (1, 3)])
    def test_eigenvalues_of_hermitian_matrices(self, dtype, lower, subset):
        x = hermitian(3, 5, 5, dtype=dtype)
        x[1, 2, 2] = np.nan
        check(Eigh(lower, subset_by_index=subset), x, scale=20)

    @pytest.mark.parametrize("vectors", [True, False])
    def test_eigenvalues(self, dtype, vectors):
        x = random(4, 7, 7, dtype=dtype)
        x[2, 0, 0] = np.inf
        turned = np.zeros((7, 7))
        turned[:2, :2], turned[5:, 5:] = [[1, -2], [2, 1]], [[3, -1], [4, 3]]
        turned[2, 2], turned[3, 3], turned[4, 4] = 5, 6, 7
        x[3] = turned  # pairs first and last
        check(Eig(False, vectors), x, scale=100)

    @pytest.mark.parametrize("shape", [(2, 5, 3), (2, 3, 5), (40, 20), (20, 40)])
    @pytest.mark.parametrize("full", [True, False])
    @pytest.mark.parametrize("vectors", [True, False])
    @pytest.mark.parametrize("algorithm", [None, SvdAlgorithm.QR])
    def test_singular_values(self, dtype, shape, full, vectors, algorithm):
        x = random(*shape, dtype=dtype)
        x[(0,) * len(shape)] = 3
        check(SVD(full, vectors, algorithm=algorithm), x, scale=50)

    def test_large_and_partial_singular_values(self, dtype, monkeypatch):
        monkeypatch.setattr(vendor, "_JACOBI", 4)
        for shape in (2, 6, 4), (2, 4, 6):
            x = random(*shape, dtype=dtype)
            x[1, 0, 0] = np.nan
            for op in (SVD(True), SVD(False), SVD(False, False)):
                check(op, x, scale=50)
            check(SVD(False, True, (1, 3)), x, scale=50)


# ------------------------------------------------------------------------- the text


def text(op, *avals, targets=ALL):
    def apply(*xs):
        out = op(*xs)
        return list(out) if op.multiple_results else [out]

    closed = stage(apply, avals)
    entry = MainAttributes("f", platforms=("cuda",), targets=targets)
    return module_text(lower_program(closed, entry).module)


MATRICES = ShapedArray((2, 6, 4), np.dtype("float32"))


def test_how_a_handler_is_called():
    found = [x for x in text(LU(), MATRICES).splitlines() if "custom_call" in x]
    # As JAX writes them, but for the note of the batch.
    assert [x.strip().partition(" = ")[2] for x in found] == [
        "stablehlo.custom_call @cusolver_getrf_ffi(%arg0)"
        ' {backend_config = "", mhlo.backend_config = {},'
        " operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>],"
        " output_operand_aliases = [#stablehlo.output_operand_alias<"
        "output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>],"
        " result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 0]> :"
        " tensor<2xindex>, dense<0> : tensor<1xindex>],"
        " sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i, n],"
        " [i]) {i=2, j=6, k=4, l=6, m=4, n=4}, custom>}"
        " : (tensor<2x6x4xf32>) -> (tensor<2x6x4xf32>, tensor<2x4xi32>, tensor<2xi32>)",
        "stablehlo.custom_call @cu_lu_pivots_to_permutation(%2)"
        ' {backend_config = "", mhlo.backend_config = {},'
        " operand_layouts = [dense<[1, 0]> : tensor<2xindex>],"
        " result_layouts = [dense<[1, 0]> : tensor<2xindex>],"
        " sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, k])"
        " {i=2, j=4, k=6}, custom>} : (tensor<2x4xi32>) -> tensor<2x6xi32>",
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_computed_in_single_precision(dtype):
    square = ShapedArray((4, 4), np.dtype(dtype))
    said = text(Cholesky(), square)
    assert "@cusolver_potrf_ffi" in said and "(tensor<4x4xf32>) ->" in said


def test_qr_takes_both_handlers():
    said = text(QR(), MATRICES)
    assert "@cusolver_geqrf_ffi" in said and "@cusolver_orgqr_ffi" in said
    # What is not registered, XLA expands.
    some = ALL - {"cusolver_orgqr_ffi"}
    said = text(QR(), MATRICES, targets=some)
    assert "@cusolver_geqrf_ffi" in said
    assert "@ProductOfElementaryHouseholderReflectors" in said


@pytest.mark.parametrize(
    "op", [Eig(True, True), QR(pivoting=True), TridiagonalSolve(True)]
)
def test_what_no_handler_does_is_a_program(op):
    square = ShapedArray((4, 4), np.dtype("float32"))
    row = ShapedArray((4,), np.dtype("float32"))
    avals = [row, row, row, square] if isinstance(op, TridiagonalSolve) else [square]
    assert "cusolver" not in text(op, *avals)
    assert "cusparse" not in text(op, *avals)


def test_without_handlers_nothing_is_called():
    for op in LU(), Eigh(), SVD(), Cholesky():
        square = ShapedArray((4, 4), np.dtype("float32"))
        assert "custom_call" not in text(op, square, targets=frozenset())


def test_empty_matrices_are_not_called():
    empty = ShapedArray((0, 4, 4), np.dtype("float32"))
    assert "custom_call" not in text(LU(), empty)
