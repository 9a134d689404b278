"""Sparse arrays against the dense ones that they stand for."""

import functools
import itertools

import numpy as np
import pytest
import scipy.sparse

import curta
import curta.numpy as jnp
from curta import lax, random
from curta.experimental import sparse
from curta.experimental.sparse import BCOO, BCSR, COO, CSC, CSR
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
ONES, TWO, THREE = jnp.ones(2), jnp.arange(2), jnp.arange(3)


def dense(*shape, dtype=np.float32):
    x = RNG.normal(size=shape) * (RNG.uniform(size=shape) < 0.4)
    return x.astype(dtype)


def close(got, want):
    got = got.todense() if isinstance(got, sparse.JAXSparse) else got
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


LAYOUTS = [
    (shape, n_batch, n_dense)
    for shape in [(5,), (3, 4), (2, 3, 4), (2, 3, 2, 2)]
    for n_batch, n_dense in itertools.product(range(3), range(3))
    if n_batch + n_dense <= len(shape)
]


@pytest.mark.parametrize("shape, n_batch, n_dense", LAYOUTS)
def test_layouts(shape, n_batch, n_dense):
    x = dense(*shape)
    m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    assert (m.n_batch, m.n_dense, m.ndim) == (n_batch, n_dense, len(shape))
    close(m, x)
    traced = curta.jit(
        lambda x: BCOO.fromdense(x, nse=m.nse + 2, n_batch=n_batch, n_dense=n_dense)
    )
    close(traced(x), x)
    close(curta.jit(lambda m: m.todense())(m), x)
    close(m.update_layout(n_batch=0, n_dense=0), x)
    close(m.sort_indices(), x)
    close(m.sum_duplicates(nse=m.nse + 3), x)


def test_derivatives_of_conversions():
    x = dense(3, 4, dtype=np.float64)
    with curta.enable_x64(True):
        m = BCOO.fromdense(x)
        check_grads(lambda d: m.replaced(d).todense(), (m.data,), 1)
        check_grads(lambda y: sparse.bcoo_extract(m, y).data, (dense(3, 4) + 1.0,), 1)


def test_duplicates_padding_and_eliminated_zeros():
    m = BCOO(([1.0, 2.0, 0.0, 4.0], [[0], [0], [1], [9]]), shape=(3,))
    np.testing.assert_array_equal(m.todense(), [3, 0, 0])
    once = m.sum_duplicates()
    assert once.nse == 1 and once.unique_indices
    np.testing.assert_array_equal(once.data, [3])
    kept = m.sum_duplicates(remove_zeros=False)
    np.testing.assert_array_equal(kept.indices, [[0], [1]])
    got = sparse.bcoo_extract(m, jnp.array([5.0, 6.0, 7.0]))
    np.testing.assert_array_equal(got.data, [5, 0, 6, 0])


@pytest.mark.parametrize("shape, n_batch, n_dense", LAYOUTS)
def test_sums(shape, n_batch, n_dense):
    x = dense(*shape)
    m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    for axes in [(0,), (len(shape) - 1,), tuple(range(len(shape)))]:
        close(sparse.bcoo_reduce_sum(m, axes=axes), x.sum(axes))
        close(m.sum(axes), x.sum(axes))


DOTS = [
    ((5,), (5,), (((0,), (0,)), ((), ()))),
    ((3, 5), (5, 4), (((1,), (0,)), ((), ()))),
    ((3, 5), (3, 4), (((0,), (0,)), ((), ()))),
    ((2, 3, 5), (2, 5, 4), (((2,), (1,)), ((0,), (0,)))),
    ((2, 3, 5), (5, 3, 4), (((1, 2), (1, 0)), ((), ()))),
    ((2, 3, 5), (4, 3, 2), (((1,), (1,)), ((0,), (2,)))),
    ((2, 3), (4, 2), (((), ()), ((0,), (1,)))),
]


@pytest.mark.parametrize("left, right, numbers", DOTS)
def test_products(left, right, numbers):
    x, y = dense(*left), dense(*right)
    want = lax.dot_general(x, y, numbers)
    for n_batch, n_dense in itertools.product(range(3), range(3)):
        if n_batch + n_dense > len(left):
            continue
        m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
        got = sparse.bcoo_dot_general(m, y, dimension_numbers=numbers)
        close(got, want)
    m, k = BCOO.fromdense(x), BCOO.fromdense(y)
    close(sparse.bcoo_dot_general(x, k, dimension_numbers=numbers), want)
    close(sparse.bcoo_dot_general(m, k, dimension_numbers=numbers), want)
    with curta.enable_x64(True):
        m = BCOO.fromdense(x.astype(np.float64))

        def product(data, y):
            return sparse.bcoo_dot_general(
                m.replaced(data), y, dimension_numbers=numbers
            )

        check_grads(curta.jit(product), (m.data, y.astype(np.float64)), 1)


def test_sampled_products():
    a, b = dense(4, 6), dense(6, 5)
    pattern = BCOO.fromdense(dense(4, 5))
    got = sparse.bcoo_dot_general_sampled(
        a, b, pattern.indices, dimension_numbers=(((1,), (0,)), ((), ()))
    )
    want = (a @ b)[tuple(pattern.indices.T)]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_batch, n_dense", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_element_by_element(n_batch, n_dense):
    x, y = dense(3, 4, 2), dense(3, 4, 2)
    m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    k = BCOO.fromdense(y, n_batch=n_batch, n_dense=n_dense)
    close(m * k, x * y)
    close(m * y, x * y)
    close(y[0] * m, x * y[0])
    close(2.5 * m, 2.5 * x)
    close(m / 2.0, x / 2)
    close(m + k, x + y)
    close(m - k, x - y)
    close(m + y, x + y)
    close(-m, -x)
    close(abs(m), abs(x))
    close(m**2, x**2)
    close(
        sparse.sparsify(lambda m: jnp.sin(m) * 2 + jnp.tanh(m))(m),
        np.sin(x) * 2 + np.tanh(x),
    )


@pytest.mark.parametrize("n_batch, n_dense", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_moving_elements(n_batch, n_dense):
    x, y = dense(3, 4, 2), dense(3, 4, 2)
    m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    k = BCOO.fromdense(y, n_batch=n_batch, n_dense=n_dense)
    if not n_batch and not n_dense:
        close(m.reshape(6, 4), x.reshape(6, 4))
    else:
        close(m.reshape(1, 3, 2, 2, 1, 2), x.reshape(1, 3, 2, 2, 1, 2))
        with pytest.raises(ValueError, match=r"cannot mix (batch|sparse) and"):
            m.reshape(2, 3, 1, 4)
    close(sparse.bcoo_rev(m, dimensions=(0, 1, 2)), x[::-1, ::-1, ::-1])
    for axis in 0, 1, 2:
        close(
            sparse.bcoo_concatenate([m, k], dimension=axis),
            np.concatenate([x, y], axis),
        )
    close(m[1:, ::2], x[1:, ::2])
    close(m[2], x[2])
    close(m[:, None], x[:, None])
    part = sparse.bcoo_dynamic_slice(m, [jnp.array(1), 2, 0], [2, 2, 1])
    close(part, x[1:3, 2:4, :1])
    wide = sparse.bcoo_broadcast_in_dim(
        m, shape=(3, 5, 4, 2), broadcast_dimensions=(0, 2, 3)
    )
    close(wide, np.broadcast_to(x[:, None], (3, 5, 4, 2)))
    if not n_batch and not n_dense:
        close(m.transpose((2, 0, 1)), x.transpose(2, 0, 1))
        close(m.T, x.T)


@pytest.mark.parametrize("kind", [COO, CSR, CSC, BCSR, BCOO])
def test_matrices(kind):
    x, v, b = dense(4, 5), dense(5), dense(5, 3)
    m = kind.fromdense(x)
    close(m, x)
    close(m @ v, x @ v)
    close(m @ b, x @ b)
    close(curta.jit(lambda m, v: m @ v)(m, v), x @ v)
    again = curta.tree.map(lambda leaf: leaf, m)
    close(again, x)
    padded = kind.fromdense(x, nse=m.nse + 3)
    close(padded, x)
    close(padded @ b, x @ b)
    if kind is not BCSR:
        close(m.T, x.T)
        close(m.T @ x[:, 0], x.T @ x[:, 0])
    assert repr(m) == f"{kind.__name__}(float32[4, 5], nse={m.nse})"


def test_functions_of_matrices():
    x, v, b = dense(4, 5), dense(5), dense(4, 3)
    coo, csr = sparse.coo_fromdense(x), sparse.csr_fromdense(x)
    close(sparse.coo_matvec(coo, v), x @ v)
    close(sparse.csr_matvec(csr, v), x @ v)
    close(sparse.coo_matmat(coo, b, transpose=True), x.T @ b)
    close(sparse.csr_matmat(csr, b, transpose=True), x.T @ b)
    close(sparse.coo_todense(coo), x)
    close(sparse.csr_todense(csr, transpose=True), x.T)
    for name in "bcoo", "coo", "csr", "csc":
        close(sparse.eye(3, 4, 1, sparse_format=name), np.eye(3, 4, 1))
        close(sparse.eye(4, 3, -1, sparse_format=name), np.eye(4, 3, -1))
        close(sparse.empty((2, 3), sparse_format=name), np.zeros((2, 3)))


def test_bcsr():
    x, y = dense(2, 4, 5, 3), dense(2, 4, 5, 3)
    m = sparse.bcsr_fromdense(x, n_batch=1, n_dense=1)
    assert (m.n_batch, m.n_sparse, m.n_dense) == (1, 2, 1)
    close(sparse.bcsr_todense(m), x)
    close(m.to_bcoo(), x)
    data = sparse.bcsr_extract(m.indices, m.indptr, y)
    close(
        BCSR((data, m.indices, m.indptr), shape=m.shape),
        np.where(m.to_bcoo().replaced(jnp.ones_like(m.data)).todense() != 0, y, 0),
    )
    one = BCSR.fromdense(x[0, :, :, 0])
    numbers = (((1,), (0,)), ((), ()))
    close(
        sparse.bcsr_dot_general(one, y[0, 0], dimension_numbers=numbers),
        x[0, :, :, 0] @ y[0, 0],
    )
    close(
        sparse.bcsr_concatenate([one, one], dimension=0),
        np.concatenate([x[0, :, :, 0]] * 2),
    )
    close(sparse.bcsr_sum_duplicates(one), x[0, :, :, 0])


def test_scipy_matrices():
    x = dense(4, 5)
    close(BCOO.from_scipy_sparse(scipy.sparse.csr_matrix(x)), x)
    close(BCSR.from_scipy_sparse(scipy.sparse.coo_matrix(x)), x)


def test_transformations():
    x = dense(3, 4, 5)
    m = BCOO.fromdense(x, n_batch=1)
    rows = curta.vmap(lambda m: m.todense().sum())(m)
    np.testing.assert_allclose(rows, x.sum((1, 2)), rtol=1e-4)
    v = dense(5)
    close(curta.vmap(lambda m: m @ v)(m), x @ v)

    def loss(m, v):
        return jnp.sum((m @ v) ** 2)

    flat = BCOO.fromdense(x[0])
    got, slope = sparse.grad(loss, (0, 1))(flat, v)
    want = curta.grad(lambda x, v: jnp.sum((x @ v) ** 2), (0, 1))(x[0], v)
    np.testing.assert_allclose(
        got.todense(), want[0] * (x[0] != 0), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(slope, want[1], rtol=1e-4, atol=1e-5)
    value, again = sparse.value_and_grad(loss)(flat, v)
    np.testing.assert_allclose(value, loss(x[0], v), rtol=1e-4)
    np.testing.assert_allclose(again.data, got.data)
    for transform in sparse.jacfwd, sparse.jacrev:
        jac = transform(lambda m: m @ v)(flat)
        assert jac.shape == (3, 3, 4) or jac.shape[0] == 4 or jac.ndim == 3
    loop = curta.jit(lambda m: lax.fori_loop(0, 3, lambda i, m: 2 * m, m))
    close(loop(flat), 8 * x[0])


def test_random():
    m = sparse.random_bcoo(random.key(0), (4, 6, 5), nse=0.5, n_batch=1)
    assert m.nse == 15 and m.n_batch == 1
    assert all(len(set(map(tuple, i))) == 15 for i in np.asarray(m.indices).tolist())
    drawn = random.uniform(random.split(random.key(0), 5)[0], m.data.shape)
    np.testing.assert_array_equal(m.data, drawn)
    ordered = sparse.random_bcoo(random.key(1), (20,), nse=7, sorted_indices=True)
    assert np.all(np.diff(ordered.indices[:, 0]) > 0)


X = BCOO.fromdense(np.eye(3, dtype=np.float32))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: BCOO((jnp.ones(2), jnp.ones((3, 1), int)), shape=(3,)),
            ValueError,
            "Invalid data.shape",
        ),
        (
            lambda: BCOO((jnp.ones(3), jnp.ones((3, 1))), shape=(3,)),
            ValueError,
            "needs integer indices",
        ),
        (
            lambda: sparse.sparsify(jnp.cos)(X),
            NotImplementedError,
            "sparse rule for cos",
        ),
        (lambda: X.transpose((0, 0)), TypeError, "isn't a permutation"),
        (lambda: X.update_layout(n_batch=1), ValueError, "inefficient storage"),
        (
            lambda: curta.jit(BCOO.fromdense)(jnp.eye(2)),
            curta.errors.ConcretizationTypeError,
            "nse argument",
        ),
        (lambda: sparse.eye(3, sparse_format="x"), ValueError, "not recognized"),
        (
            lambda: sparse.bcoo_extract(jnp.eye(2), jnp.eye(2)),
            TypeError,
            "should be a BCOO",
        ),
        (lambda: X @ jnp.ones(4), TypeError, ""),
        (
            lambda: sparse.bcoo_broadcast_in_dim(
                BCOO.fromdense(jnp.ones((3, 2)), n_dense=1),
                shape=(2, 3),
                broadcast_dimensions=(1, 0),
            ),
            ValueError,
            "Cannot mix sparse and dense dimensions",
        ),
        (
            lambda: sparse.bcoo_broadcast_in_dim(
                BCOO.fromdense(jnp.ones(3)), shape=(), broadcast_dimensions=(1,)
            ),
            ValueError,
            "cannot broadcast shape",
        ),
        (
            lambda: sparse.random_bcoo(random.key(0), (4, 4), nse=-1),
            ValueError,
            "got nse=-1, expected to be between 0 and 16",
        ),
        (
            lambda: sparse.random_bcoo(random.key(0), (4, 4), n_batch=2, n_dense=1),
            ValueError,
            "Invalid n_batch=2, n_dense=1",
        ),
        (
            lambda: sparse.random_bcoo(random.key(0), (99, 99), indices_dtype=np.int8),
            ValueError,
            "does not have enough range",
        ),
        (lambda: COO.fromdense(1.0), ValueError, "COO must have ndim=2"),
        (
            lambda: BCSR.fromdense(jnp.eye(2), index_dtype=jnp.array(1)),
            ValueError,
            "Passing an array as a dtype argument",
        ),
        (
            lambda: BCOO.fromdense(jnp.eye(2), n_dense="x"),
            TypeError,
            "'str' object cannot be interpreted as an integer",
        ),
        (lambda: CSR.fromdense(1.0), ValueError, "CSR must have ndim=2"),
        *(
            (call, NotImplementedError, rf"CSR'>\.{name}: this format has none")
            for name, call in {
                "sum": lambda: CSR.fromdense(jnp.eye(2)).sum(),
                "__neg__": lambda: -CSR.fromdense(jnp.eye(2)),
                "__mul__": lambda: CSR.fromdense(jnp.eye(2)) * 2,
                "__rmatmul__": lambda: np.ones((2, 2)) @ CSR.fromdense(jnp.eye(2)),
                "__getitem__": lambda: CSR.fromdense(jnp.eye(2))[0],
            }.items()
        ),
        *(
            (functools.partial(kind, args, shape=shape), ValueError, message)
            for kind, args, shape, message in (
                (
                    CSR,
                    (ONES, TWO),
                    (2, 2),
                    "CSR is made of .data, indices, indptr., got",
                ),
                (CSR, (ONES, 0, THREE), (2, 2), "takes indices of shape .2,., got"),
                (COO, (ONES, THREE, TWO), (2, 2), "takes row of shape .2,., got .3,."),
                (BCSR, (ONES, TWO, TWO), (2, 2), "indptr shape must match the matrix"),
                (BCSR, (ONES, ONES, THREE), (2, 2), "BCSR needs integer indices"),
                (BCSR, (1.0, TWO, THREE), (2, 2), "Invalid data.shape=.. for nse=2"),
                (BCSR, (ONES, TWO, THREE), (2,), "has at least 2 dims, got shape="),
                (BCOO, (ONES, jnp.zeros((2, 2), int)), (2,), "has at least 2 dims"),
            )
        ),
        (
            lambda: BCOO((ONES, jnp.zeros((2, 1), int)), shape="a"),
            TypeError,
            "Shapes must be 1D sequences of concrete values of integer type",
        ),
        (lambda: BCOO.fromdense(ONES) + [1.0], TypeError, "^add requires ndarray"),
        (lambda: None @ BCOO.fromdense(ONES), TypeError, "^matmul requires ndarray"),
        (lambda: sparse.grad(None), TypeError, "Expected a callable value, got None"),
        (
            lambda: sparse.jacrev(jnp.sum, argnums=(0, 1))(BCOO.fromdense(ONES)),
            TypeError,
            r"argnums=\(0, 1\) requires at least 2 positional arguments",
        ),
        (
            lambda: sparse.bcoo_rev(BCOO.fromdense(ONES), (-1,)),
            TypeError,
            "rev dimensions must have every element be nonnegative",
        ),
        (
            lambda: sparse.bcoo_squeeze(BCOO.fromdense(ONES), dimensions=(1,)),
            ValueError,
            "axis 1 is out of bounds for array of dimension 1",
        ),
        (
            lambda: sparse.bcoo_reduce_sum(BCOO.fromdense(ONES), axes=(5,)),
            ValueError,
            "axis 5 is out of bounds for array of dimension 1",
        ),
        (
            lambda: sparse.bcoo_reshape(BCOO.fromdense(ONES), new_sizes=(3,)),
            ValueError,
            "bcoo_reshape: new shape cannot mix sparse and dense dimensions",
        ),
        (
            lambda: COO((ONES, ONES, TWO), shape=(2, 2)),
            TypeError,
            "Indexer must have integer or boolean type, got indexer with type float32",
        ),
        (
            lambda: sparse.todense((BCOO.fromdense(ONES), "a")),
            TypeError,
            "Error interpreting argument to todense as an array",
        ),
        (lambda: sparse.jacrev(), TypeError, "^jacrev.. missing 1 required"),
        (lambda: BCOO.fromdense(ONES, n_batch=2), ValueError, "Invalid n_batch=2"),
        (lambda: sparse.empty("a"), TypeError, "Shapes must be 1D sequences"),
        (
            lambda: curta.jit(lambda x: x.sum_duplicates())(BCOO.fromdense(ONES)),
            ValueError,
            "bcoo_sum_duplicates: nse must be specified when using the function within",
        ),
        (
            lambda: sparse.linalg.spsolve(ONES, TWO, THREE, ONES, tol="a"),
            ValueError,
            "could not convert string to float: 'a'",
        ),
        (
            lambda: sparse.grad(jnp.sum, nope=1),
            TypeError,
            "unexpected keyword argument",
        ),
        (
            lambda: curta.jit(sparse.eye)(3),
            curta.errors.ConcretizationTypeError,
            "argument of sparse.eye",
        ),
        (
            lambda: sparse.bcsr_extract(TWO, THREE, ONES),
            ValueError,
            "bcsr_extract takes a dense array of at least as many dims",
        ),
        (
            lambda: sparse.csr_matvec(CSR.fromdense(jnp.eye(2)), (1.0, 2.0)),
            TypeError,
            "Error interpreting argument to csr_matvec as an array",
        ),
        (
            lambda: sparse.empty((-1, 2), sparse_format="csr"),
            ValueError,
            r"sparse.empty takes sizes that are not negative, got the shape \(-1, 2\)",
        ),
        (
            lambda: sparse.eye(2, -1),
            ValueError,
            r"sparse.eye .*got the shape \(2, -1\)",
        ),
        (
            lambda: sparse.random_bcoo(random.key(0), (-2, 2)),
            ValueError,
            "sparse.random_bcoo takes sizes that are not negative",
        ),
        (
            lambda: sparse.bcoo_conv_general_dilated(BCOO.fromdense(ONES), ONES),
            TypeError,
            "missing 2 required keyword-only arguments: 'window_strides' and",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_todense_hands_on_what_is_not_sparse():
    tree = {"a": BCOO.fromdense(jnp.eye(2)), "b": 1}
    assert sparse.todense(tree) is tree
    assert sparse.todense(None) is None
    assert sparse.todense(2.0) == 2.0
