"""Convolutions: layouts, strides, padding, dilations, groups; gradients; errors."""

import functools
import itertools

import numpy as np
import pytest
from tests.compiler.programs import native

import curta
import curta.numpy as jnp
from curta import lax
from curta.test_util import check_grads

RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def by_loops(lhs, rhs, strides, padding, lhs_dilation, rhs_dilation, groups=1, parts=1):
    """The definition, for (N, C, ...) and (O, I, ...)."""
    rank = lhs.ndim - 2
    wide = [1 + d * (n - 1) for n, d in zip(lhs.shape[2:], lhs_dilation)]
    reach = [1 + d * (k - 1) for k, d in zip(rhs.shape[2:], rhs_dilation)]
    sizes = [
        (n + lo + hi - r) // s + 1
        for n, (lo, hi), r, s in zip(wide, padding, reach, strides)
    ]
    batch, features = lhs.shape[0] // parts, rhs.shape[0]
    out = np.zeros((batch, features, *sizes), lhs.dtype)
    inputs, per_group = rhs.shape[1], features // (groups * parts)
    for n, o in itertools.product(range(batch), range(features)):
        group = o // per_group
        example = n + group * batch if parts > 1 else n
        first = group * inputs if groups > 1 else 0
        for at in np.ndindex(*sizes):
            for tap in np.ndindex(*rhs.shape[2:]):
                place = [
                    at[d] * strides[d] + tap[d] * rhs_dilation[d] - padding[d][0]
                    for d in range(rank)
                ]
                if any(p % d for p, d in zip(place, lhs_dilation)):
                    continue
                place = [p // d for p, d in zip(place, lhs_dilation)]
                if all(0 <= p < n for p, n in zip(place, lhs.shape[2:])):
                    seen = lhs[(example, slice(first, first + inputs), *place)]
                    out[(n, o, *at)] += seen @ rhs[(o, slice(None), *tap)]
    return out


ONES = (1, 1, 1)
CASES = [
    # lhs, rhs, strides, padding, lhs dilation, rhs dilation, groups, parts
    ((2, 3, 7), (4, 3, 3), (1,), ((0, 0),), (1,), (1,), 1, 1),
    ((2, 3, 7), (4, 3, 2), (2,), ((2, -1),), (2,), (3,), 1, 1),
    ((2, 3, 5, 6), (4, 3, 3, 2), (1, 2), ((1, 1), (0, 1)), (1, 1), (1, 1), 1, 1),
    ((2, 4, 5, 6), (6, 2, 3, 3), (2, 1), ((1, 1), (1, 1)), (1, 1), (1, 2), 2, 1),
    ((2, 4, 6, 6), (4, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 4, 1),
    ((4, 3, 5, 4), (6, 3, 2, 2), (1, 1), ((0, 1), (1, 0)), (2, 1), (1, 1), 1, 2),
    ((1, 2, 3, 4, 3), (3, 2, 2, 2, 2), ONES, ((1, 0),) * 3, ONES, ONES, 1, 1),
    ((3, 4), (5, 4), (), (), (), (), 1, 1),
    ((1, 2, 5), (3, 2, 2), (1,), ((1, 2),), (3,), (1,), 1, 1),
    ((2, 3, 4, 3), (4, 3, 3, 2), (1, 1), ((2, 1), (-1, 2)), (2, 3), (1, 2), 1, 1),
    ((2, 4, 5), (4, 2, 3), (1,), ((4, 3),), (4,), (3,), 2, 1),
    ((2, 17, 5, 6), (1, 17, 3, 3), (1, 2), ((1, 1), (0, 2)), (1, 1), (1, 1), 1, 1),
    ((2, 17, 9, 18), (33, 17, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 1),
]  # fmt: skip


def named(case):
    return "-".join(map(str, case[:2])).replace(" ", "")


@pytest.mark.parametrize("case", CASES, ids=named)
def test_agrees_with_loops(case):
    lhs, rhs = normal(*case[0]), normal(*case[1])
    strides, padding, lhs_dilation, rhs_dilation, groups, parts = case[2:]

    def convolved(lhs, rhs):
        return lax.conv_general_dilated(
            lhs, rhs, strides, padding, lhs_dilation, rhs_dilation,
            feature_group_count=groups, batch_group_count=parts,
        )  # fmt: skip

    wanted = by_loops(lhs, rhs, *case[2:])
    np.testing.assert_allclose(convolved(lhs, rhs), wanted, 1e-4, 1e-4)
    np.testing.assert_allclose(curta.jit(convolved)(lhs, rhs), wanted, 1e-4, 1e-4)
    for axes in (0, None), (None, 1), (1, 0):
        several = [
            x if a is None else np.stack([x, 2 * x], a)
            for x, a in zip((lhs, rhs), axes, strict=True)
        ]
        out = curta.vmap(convolved, axes)(*several)
        scale = 4 if None not in axes else 2
        np.testing.assert_allclose(out[1], scale * wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("case", CASES[:-2], ids=named)
def test_gradients(case):
    lhs, rhs = (normal(*shape, dtype=np.float64) for shape in case[:2])
    strides, padding, lhs_dilation, rhs_dilation, groups, parts = case[2:]

    def convolved(lhs, rhs):
        return lax.conv_general_dilated(
            lhs, rhs, strides, padding, lhs_dilation, rhs_dilation,
            feature_group_count=groups, batch_group_count=parts,
        )  # fmt: skip

    with curta.enable_x64(True):
        check_grads(convolved, (lhs, rhs), 2)
        compiled = curta.jit(
            curta.grad(lambda *xs: jnp.sum(convolved(*xs) ** 2), (0, 1))
        )(lhs, rhs)
        plain = curta.grad(lambda *xs: jnp.sum(convolved(*xs) ** 2), (0, 1))(lhs, rhs)
        for x, y in zip(compiled, plain, strict=True):
            np.testing.assert_allclose(x, y, 1e-9)


@pytest.mark.parametrize(
    "layout",
    [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NHWC"), ("CWNH", "IOWH", "WCHN")],
)
def test_layouts(layout):
    lhs, rhs = normal(2, 5, 5, 6), normal(4, 5, 3, 2)
    plain = lax.conv(lhs, rhs, (2, 1), "SAME")
    names = ("NCHW", "OIHW", "NCHW")

    def turned(x, names, spec):
        return x.transpose([names.index(c) for c in spec])

    def convolved(lhs, rhs):
        # Strides belong to the spatial dims in the order of the kernel's.
        strides = (2, 1) if layout[1].index("H") < layout[1].index("W") else (1, 2)
        return lax.conv_general_dilated(
            lhs, rhs, strides, "SAME", dimension_numbers=layout
        )

    arrays = turned(lhs, names[0], layout[0]), turned(rhs, names[1], layout[1])
    wanted = turned(np.asarray(plain), names[2], layout[2])
    np.testing.assert_allclose(convolved(*arrays), wanted, 1e-5, 1e-5)
    np.testing.assert_allclose(curta.jit(convolved)(*arrays), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int8", "complex64"])
def test_dtypes(dtype):
    lhs = RNG.integers(-3, 4, (2, 3, 6)).astype(dtype)
    rhs = RNG.integers(-3, 4, (4, 3, 3)).astype(dtype)
    if dtype == "complex64":
        lhs, rhs = lhs * (1 + 2j), rhs * (2 - 1j)
        lhs, rhs = lhs.astype(dtype), rhs.astype(dtype)
    wide = np.complex64 if dtype == "complex64" else np.float32
    wanted = by_loops(
        lhs.astype(wide), rhs.astype(wide), (1,), ((1, 1),), (1,), (1,)
    ).astype(dtype)
    out = lax.conv(lhs, rhs, (1,), "SAME")
    assert out.dtype == lhs.dtype
    np.testing.assert_array_equal(out, wanted)
    compiled = curta.jit(lambda x, y: lax.conv(x, y, (1,), "SAME"))(lhs, rhs)
    np.testing.assert_array_equal(compiled, wanted)


def test_preferred_element_type():
    x = np.full((1, 4, 8), 100, np.int8)
    out = lax.conv(x, x[:, :, :1], (1,), "VALID", preferred_element_type=np.int32)
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, np.full((1, 1, 8), 40000))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_transposed_convolution_is_the_gradient(padding, stride):
    rhs = normal(3, 4, 5)
    out = normal(2, 6, 5)

    def forward(x):
        layout = ("NHC", "HIO", "NHC")
        return lax.conv_general_dilated(
            x, rhs, (stride,), padding, dimension_numbers=layout
        )

    size = 6 * stride if padding == "SAME" else 6 * stride + max(3 - stride, 0)
    zeros = jnp.zeros((2, size, 4))
    assert forward(zeros).shape == out.shape
    (wanted,) = curta.vjp(forward, zeros)[1](out)
    found = lax.conv_transpose(out, rhs, (stride,), padding, transpose_kernel=True)
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("size", [(2, 5), (5, 2), (2, 2)])
def test_no_windows_no_elements(size):
    x, w = normal(1, 2, *size), normal(3, 2, 5, 5)
    for run in lax.conv, curta.jit(lax.conv, static_argnums=(2, 3)):
        found = run(x, w, (1, 1), "VALID")
        assert found.shape == (1, 3, max(size[0] - 4, 0), max(size[1] - 4, 0))
    of_w = curta.jit(curta.grad(lambda w: lax.conv(x, w, (1, 1), "VALID").sum()))(w)
    assert of_w.shape == w.shape and not of_w.any()


def test_patches_and_unshared_kernels():
    x = normal(2, 3, 5, 4)
    patches = lax.conv_general_dilated_patches(x, (2, 3), (1, 1), "VALID")
    assert patches.shape == (2, 18, 4, 2)
    np.testing.assert_array_equal(patches[1, :, 2, 1], x[1, :, 2:4, 1:4].reshape(-1))
    kernel = normal(6, 3, 2, 3)
    shared = np.broadcast_to(kernel.reshape(6, 18)[..., None, None], (6, 18, 4, 2))
    found = lax.conv_general_dilated_local(x, shared, (1, 1), "VALID", (2, 3))
    wanted = lax.conv(x, kernel, (1, 1), "VALID")
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-5)


def test_large_convolution_and_its_gradients():
    layout = ("NHWC", "HWIO", "NHWC")
    x, w = normal(2, 19, 21, 24), normal(3, 3, 24, 40)

    def convolved(x, w, strides=(1, 1)):
        return lax.conv_general_dilated(x, w, strides, "SAME", dimension_numbers=layout)

    for strides in (1, 1), (2, 2):
        plain = convolved(x, w, strides)
        patches = lax.conv_general_dilated_patches(
            x, (3, 3), strides, "SAME", dimension_numbers=layout
        )
        flat = np.asarray(w).transpose(2, 0, 1, 3).reshape(-1, 40)
        np.testing.assert_allclose(plain, patches @ flat, 1e-3, 1e-3)
        _, pull = curta.vjp(lambda x, w: convolved(x, w, strides), x, w)  # noqa: B023
        g = normal(*plain.shape)
        dx, dw = pull(g)
        again = np.tensordot(patches, g, ((0, 1, 2), (0, 1, 2)))
        again = again.reshape(24, 3, 3, 40).transpose(1, 2, 0, 3)
        np.testing.assert_allclose(dw, again, 1e-3, 1e-2)
        np.testing.assert_allclose(np.vdot(dx, x), np.vdot(plain, g), 1e-3)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (((1, 2, 4), (3, 3, 2), (1,), "SAME"), ValueError, "lhs feature dimension"),
        (((1, 2, 4), (3, 2), (1,), "SAME"), TypeError, "lhs and rhs ndim to be equal"),
        (((1, 2, 4), (3, 2, 2), (1, 1), "VALID"), ValueError, "window_strides must"),
        (((1, 2, 4), (3, 2, 2), (1,), "FOO"), RuntimeError, "Unrecognized padding"),
        (((1, 2, 4), (3, 2, 2), (1,), 3), ValueError, "padding argument to conv_gen"),
        (((1, 2, 4), (3, 2, 2), (1,), ((0, 0),) * 2), TypeError, "Wrong number of exp"),
        (((1, 2, 4), (3, 2, 2), (1,), ((-5, 0),)), ValueError, "Negative padding is"),
        (((1, 2, 4), (3, 2, 2), (1,), "SAME", (2,)), ValueError, "String padding is"),
        (
            ((1, 2, 4), (3, 2, 2), (1,), ((0, 0),), (1,), (0,)),
            TypeError,
            "All dilations must be positive",
        ),
    ],
)
def test_errors(arguments, error, words):
    lhs, rhs, *rest = arguments
    with pytest.raises(error, match=words):
        lax.conv_general_dilated(normal(*lhs), normal(*rhs), *rest)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (3, "must be tuple/list or None"),
        (("NCW", "OIW"), "must be length 3"),
        ((1, 2, 3), "elements must be strings"),
        (("NCWH", "OIW", "NCW"), "must have len equal to the ndim"),
        (("NNW", "OIW", "NCW"), "exactly once"),
        (("NCW", "OIH", "NCW"), "the same set of spatial characters"),
    ],
)
def test_errors_of_dimension_numbers(numbers, words):
    with pytest.raises(TypeError, match=words):
        lax.conv_dimension_numbers((1, 2, 4), (3, 2, 2), numbers)


def test_group_errors():
    def groups(**counts):
        x, w = normal(3, 4, 5), normal(4, 4, 2)
        return lax.conv_general_dilated(x, w, (1,), "SAME", **counts)

    for counts, words in [
        ({"feature_group_count": 0}, "feature_group_count must be a positive"),
        ({"feature_group_count": 3}, "feature_group_count must divide"),
        ({"batch_group_count": 2}, "batch_group_count must divide"),
        ({"batch_group_count": 3}, "rhs output feature dimension size must be"),
    ]:
        with pytest.raises(ValueError, match=words):
            groups(**counts)
    with pytest.raises(TypeError, match="requires arguments to have the same dtypes"):
        lax.conv(normal(1, 2, 3), np.ones((1, 2, 3), np.int32), (1,), "SAME")
    with pytest.raises(TypeError, match="must not be narrower"):
        x = normal(1, 2, 3)
        lax.conv(x, x, (1,), "SAME", preferred_element_type=np.float16)


@pytest.mark.parametrize(
    "dtype", ["int32", "int8", "uint16", "uint32", "int64", "complex64", "complex128"]
)
@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("features", [2, 16])
def test_other_dtypes_are_native_at_any_size(dtype, groups, features):
    """The largest numbers wrap around as they do in NumPy."""
    by_feature, by_batch = groups
    rng = np.random.default_rng(0)
    x, k = (
        rng.normal(size=(4, 6, 9, 10)),
        rng.normal(size=(features, 6 // by_feature, 3, 2)),
    )
    if np.dtype(dtype).kind == "c":
        x, k = (v + 1j * rng.normal(size=v.shape) for v in (x, k))
    else:
        x, k = (1000 * v for v in (x, k))
    with curta.enable_x64(True):
        x, k = x.astype(dtype), k.astype(dtype)
        fun = functools.partial(
            lax.conv_general_dilated,
            window_strides=(1, 2),
            padding=((1, 2), (0, 3)),
            lhs_dilation=(2, 1),
            rhs_dilation=(1, 2),
            feature_group_count=by_feature,
            batch_group_count=by_batch,
        )
        found = native(fun, x, k)
        (eqn,) = curta.make_jaxpr(fun)(x, k).eqns
        expected = eqn.op.eval(x, k)
    assert found.dtype == expected.dtype == dtype
    if found.dtype.kind == "c":
        bound = 1e-4 if dtype == "complex64" else 1e-12
        np.testing.assert_allclose(found, expected, rtol=bound, atol=bound)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint32", "int64", "uint64"])
def test_products_of_integers_wrap_around(dtype):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    with curta.enable_x64(True):
        for m, k, n in ((33, 50, 70), (3, 4, 5), (1, 20, 40)):
            a = rng.integers(limits.min, limits.max, (m, k), dtype)
            b = rng.integers(limits.min, limits.max, (k, n), dtype)
            for x, y in ((a, b), (a, np.asfortranarray(b)), (a.T.copy().T, b)):
                found = curta.jit(lambda x, y: lax.dot(x, y))(x, y)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, x @ y)
            wide = lax.dot(a, b, preferred_element_type=np.int64)
            expected = a.astype(np.int64) @ b.astype(np.int64)
            np.testing.assert_array_equal(wide, expected)


@pytest.mark.parametrize("features", [1, 3, 16])
def test_padding_is_zeros_to_an_infinite_kernel(features):
    lhs, rhs = np.ones((1, 4, 1)), np.full((3, 1, features), np.inf)
    args = np.float32(lhs), np.float32(rhs), (1,), [(1, 0)], None, None
    convolve = functools.partial(
        lax.conv_general_dilated, dimension_numbers=("NHC", "HIO", "NHC")
    )
    for run in (convolve, lambda *args: curta.jit(lambda: convolve(*args))()):
        found = np.asarray(run(*args))[0]
        assert np.isnan(found[0]).all()
        assert np.isposinf(found[1:]).all()
