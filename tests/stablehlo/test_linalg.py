"""Programs of decompositions, run by NumPy, against the ops' `eval`."""

import numpy as np
import pytest
from tests.conformance.checks import assert_close, evaluate as run_eval
from tests.conformance.invariants import without_choices
from tests.conformance.samples import cases

import curta
import curta.numpy as jnp
from curta import export, lax
from curta.compiler.stablehlo import rules
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.linalg.programs import PROGRAMS, program
from curta.compiler.stablehlo.lowering import ModuleState
from curta.config import enable_x64
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate
from curta.primitives.linalg import (
    LU,
    QR,
    SVD,
    CholeskyUpdate,
    Eigh,
    Geqrf,
    Hessenberg,
    Tridiagonal,
    TridiagonalSolve,
)

assert rules.FAMILIES  # the table of rules is full


def check(op, *args, scale=1.0):
    """The outputs of the program and of `eval`, up to signs of vectors."""
    avals = [ShapedArray(x.shape, x.dtype) for x in args]
    with enable_x64(True), np.errstate(all="ignore"):
        closed = program(op, avals)
        found = evaluate(closed.jaxpr, closed.consts, args)
    pairs = [without_choices(op, x) for x in (found, run_eval(op, args))]
    for n, (got, want) in enumerate(zip(*pairs, strict=True)):
        assert_close(got, want, f"{op}, output {n}", scale)


def random(*shape, dtype="float64"):
    numbers = np.random.default_rng(sum(shape))
    found = numbers.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * numbers.normal(size=shape)
    return found.astype(dtype)


def named(op):
    """The op with its parameters, the same in every process."""
    return f"{op.name} {op.params()}"


@pytest.mark.parametrize("cls", PROGRAMS, ids=lambda c: c.__name__)
def test_program_agrees_with_eval_on_samples(cls):
    with enable_x64(True):
        found = cases(cls)
    for case in found:
        check(case.op, *case.args)


SHAPES = [(0, 0), (1, 1), (0, 3), (3, 0), (1, 4), (4, 1), (5, 5), (0, 3, 3)]
BATCHES = {"float64": (2, 2, 3, 4), "complex64": (2, 5, 3), "float16": (2, 2, 2)}
OPS = [LU(), Geqrf(), QR(), QR(False, False), QR(True, False)]
OPS += [SVD(), SVD(False), SVD(True, False)]


@pytest.mark.parametrize("op", OPS, ids=named)
def test_rectangular(op):
    for shape in SHAPES:
        check(op, random(*shape), scale=50)
    for dtype, shape in BATCHES.items():
        check(op, random(*shape, dtype=dtype), scale=50)


SQUARE = [Eigh(), Eigh(False, True, (0, 1)), Hessenberg()]
SQUARE += [Tridiagonal(), Tridiagonal(False)]


@pytest.mark.parametrize("op", SQUARE, ids=named)
def test_square(op):
    for shape in [(1, 1), (2, 2), (5, 5), (2, 1, 3, 3)]:
        check(op, random(*shape), scale=50)
    for dtype in ("complex128", "float32", "float16"):
        check(op, random(2, 4, 4, dtype=dtype), scale=50)


@pytest.mark.parametrize(("dtype", "factor"), [("float64", 1.0), ("float32", 1e30)])
def test_matrices_without_full_rank(dtype, factor):
    x = random(6, 2)
    a = (x @ x.T * factor).astype(dtype)
    scale = 1e3 * max(1.0, factor)
    for op in (Eigh(), SVD()):
        check(op, a, scale=scale)
        check(op, np.zeros((3, 3), dtype))
    check(SVD(), np.zeros((4, 2), dtype))
    check(LU(), np.zeros((3, 2), dtype))
    check(QR(), np.zeros((3, 2), dtype))


@pytest.mark.parametrize("op", [Eigh(), SVD(), SVD(True, False), LU(), QR()], ids=named)
def test_a_matrix_with_nan_leaves_others_alone(op):
    a = random(3, 4, 4)
    a = a + np.swapaxes(a, 1, 2)
    a[1, 2, 1] = np.nan
    avals = [ShapedArray(a.shape, a.dtype)]
    with enable_x64(True), np.errstate(all="ignore"):
        closed = program(op, avals)
        outs = evaluate(closed.jaxpr, closed.consts, [a])
    for x in outs:
        assert np.isfinite(x[[0, 2]]).all()
        assert not np.isfinite(x[1]).all() or x.dtype.kind == "i"


def test_tridiagonal_equations_and_updates():
    for dtype in ("float64", "complex64"):
        for n in (0, 1, 2, 6):
            line = [random(2, n, dtype=dtype) for _ in range(3)]
            right = random(2, n, 3, dtype=dtype)
            for op in (TridiagonalSolve(), TridiagonalSolve(True)):
                check(op, *line, right, scale=1e3)
    for n in (0, 1, 5):
        r = np.triu(random(n, n)) + 3 * np.eye(n)
        check(CholeskyUpdate(), r, random(n), scale=10)


def text(fun, *args):
    module = ModuleState("jit_f")
    module.define(curta.make_jaxpr(fun)(*args), "main", public=True)
    return module_text(module.module)


def test_programs_do_not_grow_with_the_matrix():
    for fun in (jnp.linalg.svd, jnp.linalg.eig, jnp.linalg.qr, lax.linalg.lu):
        small, large = (text(fun, jnp.ones((n, n))) for n in (10, 100))
        assert len(small.splitlines()) == len(large.splitlines())


def test_decompositions_of_a_kind_share_a_function():
    found = text(lambda x, y: (lax.linalg.lu(x), lax.linalg.lu(y)), *[jnp.eye(3)] * 2)
    assert found.count("func.func private @lu(") == 1
    assert found.count("call @lu(") == 2


def test_cholesky_and_triangular_solve_are_operations():
    a, b = jnp.eye(3), jnp.ones((3, 2))
    assert "stablehlo.cholesky %" in text(lax.linalg.cholesky, a)
    found = text(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), a, b)
    assert (
        "<{left_side = true, lower = false,"
        " transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}>"
    ) in found


def test_batches_of_symbolic_sizes():
    for fun in (jnp.linalg.eigh, jnp.linalg.eig, lax.linalg.lu):
        export_of(fun, "b, 3, 3")
        with pytest.raises(NotImplementedError, match="sizes that are known"):
            export_of(fun, "b, b")


def export_of(fun, shape):
    aval = curta.ShapeDtypeStruct(export.symbolic_shape(shape), np.float32)
    return export.export(curta.jit(fun), platforms=["cuda"])(aval).mlir_module()


def test_what_compilers_know_by_name_is_called():
    x = jnp.ones((3, 5, 4))
    text = curta.jit(jnp.linalg.qr).lower(x).as_text()
    assert text.count("custom_call @Qr") == 1
    assert text.count("custom_call @ProductOfElementaryHouseholderReflectors") == 1
    assert "while" not in text
    lowered = curta.jit(lax.linalg.lu).trace(x)
    for platform, called in (("tpu", True), ("cuda", False)):
        text = lowered.lower(lowering_platforms=(platform,)).as_text()
        assert ("custom_call @LuDecomposition" in text) is called


def test_batches_of_unknown_size_are_programs():
    batch = export.symbolic_shape("b, 3, 2")
    exported = export.export(curta.jit(jnp.linalg.qr))(
        curta.ShapeDtypeStruct(batch, np.float32)
    )
    assert "custom_call @Qr" not in exported.mlir_module()
