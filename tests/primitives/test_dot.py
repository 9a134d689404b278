"""`dot_general`: dtypes of its output, and its batch dims against einsum."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import curta
from curta import lax

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# numbers, the same as einsum's subscripts
PRODUCTS = {
    "ij,jk->ik": (((1,), (0,)), ((), ())),
    "ij,ij->": (((0, 1), (0, 1)), ((), ())),
    "ij,ji->": (((0, 1), (1, 0)), ((), ())),
    "bij,bjk->bik": (((2,), (1,)), ((0,), (0,))),
    "bij,bkj->bik": (((2,), (2,)), ((0,), (0,))),
    "ibj,jkb->bik": (((2,), (0,)), ((1,), (2,))),
    "iabj,jkba->abik": (((3,), (0,)), ((1, 2), (3, 2))),
    "iabj,jkba->baik": (((3,), (0,)), ((2, 1), (2, 3))),
    "ijk,kj->i": (((1, 2), (1, 0)), ((), ())),
    "i,j->ij": (((), ()), ((), ())),
    ",ij->ij": (((), ()), ((), ())),
}
SIZES = {"a": 2, "b": 3, "i": 4, "j": 5, "k": 2}


def operands(subscripts):
    rng = np.random.default_rng(0)
    left, right = subscripts.split("->")[0].split(",")
    return [
        rng.integers(-4, 5, [SIZES[i] for i in s]).astype(np.float32)
        for s in (left, right)
    ]


@pytest.mark.parametrize("subscripts", PRODUCTS)
def test_products(subscripts):
    x, y = operands(subscripts)

    def dot(x, y):
        return lax.dot_general(x, y, PRODUCTS[subscripts])

    expected = np.einsum(subscripts, x, y)
    np.testing.assert_array_equal(dot(x, y), expected)
    np.testing.assert_array_equal(curta.jit(dot)(x, y), expected)


@pytest.mark.parametrize("subscripts", PRODUCTS)
def test_gradients(subscripts):
    x, y = operands(subscripts)
    inputs, output = subscripts.split("->")
    left, right = inputs.split(",")
    ct = np.random.default_rng(1).integers(-4, 5, np.einsum(subscripts, x, y).shape)
    ct = ct.astype(np.float32)
    _, pull = curta.vjp(lambda x, y: lax.dot_general(x, y, PRODUCTS[subscripts]), x, y)
    dx, dy = pull(ct)
    np.testing.assert_array_equal(dx, np.einsum(f"{output},{right}->{left}", ct, y))
    np.testing.assert_array_equal(dy, np.einsum(f"{output},{left}->{right}", ct, x))


@pytest.mark.parametrize("subscripts", PRODUCTS)
def test_batches(subscripts):
    x, y = operands(subscripts)
    dims = [[None, *range(v.ndim + 1)] for v in (x, y)]
    for left, right in itertools.product(*dims):
        if left is None and right is None:
            continue
        xs = x if left is None else np.stack([x, 2 * x, x + 1], left)
        ys = y if right is None else np.stack([y, y - 1, 3 * y], right)
        found = curta.vmap(
            lambda x, y: lax.dot_general(x, y, PRODUCTS[subscripts]), (left, right)
        )(xs, ys)
        for n, one in enumerate(found):
            u = x if left is None else xs.take(n, left)
            v = y if right is None else ys.take(n, right)
            np.testing.assert_array_equal(one, np.einsum(subscripts, u, v))


@pytest.mark.parametrize(
    ("left", "right", "wanted", "expected"),
    [
        ("float32", "float32", None, "float32"),
        ("float32", BFLOAT16, None, "float32"),
        (BFLOAT16, "float16", None, BFLOAT16),
        ("int8", "int8", None, "int8"),
        ("int8", "int8", "int32", "int32"),
        ("int8", "float32", None, "float32"),
        ("uint8", "int8", None, "int8"),
        ("bool", "int32", None, "int32"),
        ("float32", "complex64", None, "complex64"),
        (BFLOAT16, BFLOAT16, "float32", "float32"),
        ("float32", "float32", BFLOAT16, BFLOAT16),
    ],
)
def test_dtypes(left, right, wanted, expected):
    x, y = np.ones((2, 3), left), np.ones((3, 2), right)
    found = lax.dot(x, y, preferred_element_type=wanted)
    assert found.dtype == np.dtype(expected)
    np.testing.assert_array_equal(np.asarray(found).astype(complex), 3)


def test_sums_of_half_precision_are_made_in_float32():
    x = np.ones(5000, BFLOAT16)
    assert float(lax.dot(x, x)) == float(np.float32(5000).astype(BFLOAT16))


def test_precision_is_kept_in_derivatives():
    def f(x):
        return lax.dot(x, x, precision="highest").sum()

    text = str(curta.make_jaxpr(curta.grad(f))(np.ones((2, 2), np.float32)))
    assert text.count("precision=(Precision.HIGHEST, Precision.HIGHEST)") == 3
    with curta.default_matmul_precision("high"):
        text = str(curta.make_jaxpr(lambda x: lax.dot(x, x))(np.ones(2, np.float32)))
    assert "precision=(Precision.HIGH, Precision.HIGH)" in text


@pytest.mark.parametrize(
    "precision",
    [
        "F32_F32_F32",
        lax.DotAlgorithmPreset.BF16_BF16_F32_X3,
        lax.DotAlgorithm(np.float32, np.float32, np.float32),
        ("high", "highest"),
        lax.Precision.HIGH,
    ],
)
def test_precisions_that_this_machine_exceeds(precision):
    x = np.float32([[1, 2], [3, 4]])
    np.testing.assert_array_equal(lax.dot(x, x, precision=precision), x @ x)
    text = str(curta.make_jaxpr(lambda x: lax.dot(x, x, precision=precision))(x))
    assert "precision=" in text


@pytest.mark.parametrize("product", ["i,j->ij", "bi,bj->bij", "ik,kj->ij"])
def test_one_product_keeps_the_sign_of_its_zero(product: str) -> None:
    x, y = np.float32([[-0.0, 1.0]]), np.float32([[1.0, 0.0]])
    if product == "i,j->ij":
        x, y = x[0], y[0]
    elif product == "ik,kj->ij":
        x = x.T
    for multiply in (
        curta.numpy.einsum,
        curta.jit(curta.numpy.einsum, static_argnums=0),
    ):
        found = np.asarray(multiply(product, x, y)).reshape(2, 2)
        np.testing.assert_array_equal(found, [[0, 0], [1, 0]])
        np.testing.assert_array_equal(np.signbit(found), [[True, True], [False, False]])
