"""Names for types, enumerations and interpreters, used as a program uses them."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import image, lax
from curta.control import primitives
from curta.extend import core as extend_core
from curta.interpreters import ad
from curta.scipy import optimize


def test_enumerations_choose_what_functions_do():
    x = jnp.arange(8.0)
    for kind in lax.FftType:
        length = 14 if kind is lax.FftType.IRFFT else 8
        operand = x.astype("complex64") if kind is not lax.FftType.RFFT else x
        numpys = getattr(np.fft, kind.name.lower())
        found = lax.fft(operand, kind, (length,))
        np.testing.assert_allclose(found, numpys(operand, length), atol=1e-4)
    clip = lax.GatherScatterMode.CLIP
    assert lax.GatherScatterMode.from_any("clip") is clip
    assert x.at[20].get(mode=clip) == 7
    for how in image.ResizeMethod:
        assert image.resize(x, (4,), how).shape == (4,)
    assert image.ResizeMethod.from_string("bilinear") is image.ResizeMethod.LINEAR


def test_linear_algebra_takes_algorithms():
    a = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    eigh = lax.linalg.EighImplementation
    _, values = lax.linalg.eigh(a, implementation=eigh.QR)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=1e-5)
    for absent in eigh.JACOBI, eigh.QDWH:
        with pytest.raises(NotImplementedError, match="implementation is "):
            lax.linalg.eigh(a, implementation=absent)
    lapack = lax.linalg.EigImplementation.LAPACK
    (values, *_) = lax.linalg.eig(a, implementation=lapack)
    np.testing.assert_allclose(np.sort(values.real), np.linalg.eigvalsh(a), rtol=1e-5)
    svds = lax.linalg.SvdAlgorithm
    for svd in svds.DEFAULT, svds.QR, svds.DIVIDE_AND_CONQUER:
        s = lax.linalg.svd(a, compute_uv=False, algorithm=svd)
        np.testing.assert_allclose(s, np.linalg.svd(a)[1], rtol=1e-5)
    for absent in svds.JACOBI, svds.POLAR:
        with pytest.raises(NotImplementedError, match="Jacobi"):
            lax.linalg.svd(a, compute_uv=False, algorithm=absent)


def test_types_of_dimension_numbers_describe_what_functions_take():
    numbers: lax.DotDimensionNumbers = (((1,), (0,)), ((), ()))
    precision: lax.PrecisionLike = "highest"
    a = jnp.ones((2, 3))
    assert lax.dot_general(a, a.T, numbers, precision)[0, 0] == 3
    dims = lax.conv_dimension_numbers((1, 1, 4), (1, 1, 2), ("NCH", "OIH", "NCH"))
    assert isinstance(dims, lax.ConvDimensionNumbers)
    assert dims == lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    given: lax.ConvGeneralDilatedDimensionNumbers = dims
    out = lax.conv_general_dilated(
        jnp.ones((1, 1, 4)), jnp.ones((1, 1, 2)), (1,), "VALID", dimension_numbers=given
    )
    assert out.tolist() == [[[2, 2, 2]]]


def test_results_of_minimisation_are_a_pytree():
    def distance(x):
        return ((x - 1) ** 2).sum()

    found = optimize.minimize(distance, jnp.zeros(2), method="BFGS")
    assert isinstance(found, optimize.OptimizeResults)
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-4)
    assert found.success and curta.tree.leaves(found)


def test_jaxprs_are_functions_again():
    closed = curta.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
    (out,) = extend_core.jaxpr_as_fun(closed)(0.5)
    np.testing.assert_allclose(out, 2 * np.sin(0.5), rtol=1e-6)
    (again,) = curta.core.eval_jaxpr(closed.jaxpr, closed.consts, 0.5)
    assert again == out
    assert all(isinstance(e, extend_core.JaxprEqn) for e in closed.jaxpr.eqns)
    assert closed.jaxpr.effects == extend_core.no_effects
    looped = curta.make_jaxpr(lambda x: lax.fori_loop(0, x, lambda i, c: c + i, 0))(3)
    assert len(list(extend_core.subjaxprs(looped.jaxpr))) == 2
    tangent = extend_core.primal_dtype_to_tangent_dtype
    assert tangent(np.dtype("int32")) == curta.float0
    assert tangent(np.dtype("float32")) == np.float32


def test_tangents_add_and_start_at_zero():
    assert ad.add_jaxvals(1.0, 2.0) == ad.add_tangents(1.0, 2.0) == 3
    aval = curta.core.ShapedArray((2,), np.dtype("float32"))
    assert ad.zeros_like_aval(aval).tolist() == [0, 0]
    zero = ad.Zero(aval)
    assert ad.add_tangents(zero, 5.0) == 5


def test_tracers_are_what_functions_see():
    seen = []
    curta.jit(lambda x: seen.append(isinstance(x, curta.core.Tracer)) or x)(1.0)
    curta.grad(lambda x: seen.append(isinstance(x, curta.core.Tracer)) or x)(1.0)
    assert seen == [True, True]
    assert not isinstance(jnp.ones(2), curta.core.Tracer)


@pytest.mark.parametrize("error", ["JAXIndexError", "JAXTypeError"])
def test_bases_of_errors(error):
    base = {"JAXIndexError": IndexError, "JAXTypeError": TypeError}[error]
    assert issubclass(getattr(curta.errors, error), base)


def test_programs_ask_for_a_version_of_the_interface():
    assert curta.__version_info__ >= (0, 4, 36)
    assert all(type(part) is int for part in curta.__version_info__)


# Names of JAX's that do not follow from the op's.
OTHER_NAMES = {
    "add_jaxvals_p": "add_any",
    "custom_vmap_p": "custom_vmap_call",
    "linear_solve_p": "custom_linear_solve",
    "remat_p": "remat2",
    "scatter_add_p": "scatter-add",
    "scatter_max_p": "scatter-max",
    "scatter_min_p": "scatter-min",
    "scatter_mul_p": "scatter-mul",
    "scatter_sub_p": "scatter-sub",
}


def test_names_of_primitives_are_those_of_their_ops():
    names = {name: getattr(primitives, name).name for name in primitives.__all__}
    others = {n: op for n, op in names.items() if n != f"{op}_p"}
    assert others == OTHER_NAMES
