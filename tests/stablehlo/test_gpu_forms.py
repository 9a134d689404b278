"""Forms of ops for GPUs that differ from those for CPUs, by NumPy against `eval`."""

import itertools

import numpy as np
import pytest

import curta
from curta import lax
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.entry import MainAttributes, lower_program
from curta.compiler.stablehlo.integer_convolutions import as_products
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate
from curta.core.stage import stage
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.fft import Fft, FftType

RNG = np.random.default_rng(5)
NCHW = (0, 1, 2, 3)
NHWC, HWIO = (0, 3, 1, 2), (3, 2, 0, 1)
CONVOLUTIONS = [
    # strides, padding, dilations of both, groups of features and of the batch
    ((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1, 1),
    ((2, 1), ((1, 2), (0, 3)), (1, 1), (1, 2), 1, 1),
    ((1, 3), ((-1, 2), (4, -2)), (2, 3), (2, 1), 1, 1),
    ((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 3, 1),
    ((2, 2), ((1, 1), (1, 1)), (1, 2), (1, 1), 1, 2),
]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("specs", [(NCHW, NCHW, NCHW), (NHWC, HWIO, NHWC)])
@pytest.mark.parametrize("row", range(len(CONVOLUTIONS)))
def test_convolutions_of_integers_are_products(row, specs, dtype):
    strides, padding, lhs_dilation, rhs_dilation, features, batch = CONVOLUTIONS[row]
    op = ConvGeneralDilated(
        *(strides, padding, lhs_dilation, rhs_dilation),
        dimension_numbers=lax.ConvDimensionNumbers(*specs),
        feature_group_count=features,
        batch_group_count=batch,
    )
    shapes = (4, 6, 9, 8), (6, 6 // features, 3, 2)
    lhs, rhs = (
        RNG.integers(0 if dtype[0] == "u" else -128, 127, size=s)
        .astype(dtype)
        .transpose(np.argsort(spec))
        for s, spec in zip(shapes, specs[:2], strict=True)
    )
    avals = [ShapedArray(x.shape, x.dtype) for x in (lhs, rhs)]
    closed = stage(lambda *xs: [as_products(op, *xs, np.dtype(dtype))], avals)
    (got,) = evaluate(closed.jaxpr, closed.consts, [lhs, rhs])
    with np.errstate(over="ignore"):
        want = op.eval(lhs, rhs)
    np.testing.assert_array_equal(got, want)


def text(op, *avals, platform):
    closed = stage(lambda *xs: [op(*xs)], avals)
    entry = MainAttributes("f", platforms=(platform,))
    return module_text(lower_program(closed, entry).module)


def test_only_gpus_have_no_convolutions_of_integers():
    op = ConvGeneralDilated(
        *((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
        dimension_numbers=lax.ConvDimensionNumbers(NCHW, NCHW, NCHW),
    )
    for dtype, platform in itertools.product(("int32", "float32"), ("cuda", "cpu")):
        avals = [ShapedArray((2, 3, 5, 5), np.dtype(dtype))] * 2
        said = text(op, *avals, platform=platform)
        is_product = (dtype, platform) == ("int32", "cuda")
        assert ("stablehlo.convolution" in said) is not is_product


@pytest.mark.parametrize("lengths", [(1,), (3, 1), (4, 3, 1), (2, 3, 2, 1)])
def test_real_transforms_of_one_element_are_complex_ones(lengths):
    real = ShapedArray(lengths, np.dtype("float32"))
    halved = ShapedArray(lengths, np.dtype("complex64"))
    forward = text(Fft(FftType.RFFT, lengths), real, platform="cuda")
    back = text(Fft(FftType.IRFFT, lengths), halved, platform="cuda")
    for said in forward, back:
        assert "RFFT" not in said  # nor IRFFT


def test_the_whole_goes_through_the_cpu_too():
    x = RNG.normal(size=(3, 1)) + 1j * RNG.normal(size=(3, 1))
    got = curta.numpy.fft.irfftn(x.astype(np.complex64), s=(3, 1))
    np.testing.assert_allclose(got, np.fft.irfftn(x, s=(3, 1)), rtol=1e-5)
