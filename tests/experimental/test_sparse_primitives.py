"""The primitives of sparse arrays: what they print, their rules, and their names."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.experimental import sparse
from curta.experimental.sparse import (
    BCOO,
    BCSR,
    COO,
    CSR,
    _lowerings,
    bcoo as bcoo_module,
    bcsr as bcsr_module,
)
from curta.experimental.sparse.coo import COOInfo, _coo_todense
from curta.experimental.sparse.util import SparseInfo
from curta.test_util import check_grads

RNG = np.random.default_rng(1)
NUMBERS = (((1,), (0,)), ((), ()))


@pytest.fixture(autouse=True)
def strictly():
    """Operations have to say how they promote and broadcast."""
    with curta.numpy_rank_promotion("raise"), curta.numpy_dtype_promotion("strict"):
        yield


def dense(*shape, dtype=np.float32):
    x = RNG.normal(size=shape) * (RNG.uniform(size=shape) < 0.5)
    return jnp.asarray(x.astype(dtype))


X, V = dense(4, 5), dense(5)
B, S = BCOO.fromdense(X), BCSR.fromdense(X)
C, R = COO.fromdense(X), CSR.fromdense(X)
INFO = SparseInfo((4, 5), True, True)
COO_INFO = COOInfo((4, 5), True, False)
PRODUCT = {"dimension_numbers": NUMBERS, "preferred_element_type": None}

# Each with operands, parameters, and what it is as a function of dense arrays.
PRIMITIVES = [
    (sparse.bcoo_todense_p, B._buffers(), {"spinfo": INFO}, X),
    (sparse.bcoo_extract_p, (B.indices, X), {"assume_unique": True}, B.data),
    (
        sparse.bcoo_fromdense_p,
        (X,),
        {"nse": B.nse, "n_batch": 0, "n_dense": 0, "index_dtype": np.int32},
        B._buffers(),
    ),
    (
        sparse.bcoo_transpose_p,
        B._buffers(),
        {"permutation": (1, 0), "spinfo": INFO},
        (B.data, B.indices[:, ::-1]),
    ),
    (sparse.bcoo_sort_indices_p, B._buffers(), {"spinfo": INFO}, B._buffers()),
    (
        sparse.bcoo_sum_duplicates_p,
        B._buffers(),
        {"spinfo": INFO, "nse": B.nse},
        B._buffers(),
    ),
    (
        sparse.bcoo_dot_general_p,
        (*B._buffers(), V),
        {"lhs_spinfo": INFO, **PRODUCT},
        X @ V,
    ),
    (
        sparse.bcoo_dot_general_sampled_p,
        (X, X.T, jnp.array([[0, 1], [3, 3]])),
        {"dimension_numbers": NUMBERS},
        (X @ X.T)[jnp.array([0, 3]), jnp.array([1, 3])],
    ),
    (sparse.bcsr_todense_p, S._buffers(), {"spinfo": INFO}, X),
    (sparse.bcsr_extract_p, (S.indices, S.indptr, X), {}, S.data),
    (
        sparse.bcsr_fromdense_p,
        (X,),
        {"nse": S.nse, "n_batch": 0, "n_dense": 0, "index_dtype": np.int32},
        S._buffers(),
    ),
    (
        sparse.bcsr_dot_general_p,
        (*S._buffers(), V),
        {"lhs_spinfo": INFO, **PRODUCT},
        X @ V,
    ),
    (sparse.coo_todense_p, C._buffers(), {"spinfo": COO_INFO}, X),
    (
        sparse.coo_fromdense_p,
        (X,),
        {"nse": C.nse, "index_dtype": np.int32},
        C._buffers(),
    ),
    (
        sparse.coo_matvec_p,
        (*C._buffers(), V),
        {"spinfo": COO_INFO, "transpose": False},
        X @ V,
    ),
    (
        sparse.coo_matmat_p,
        (*C._buffers(), X),
        {"spinfo": COO_INFO, "transpose": True},
        X.T @ X,
    ),
    (sparse.csr_todense_p, R._buffers(), {"shape": (4, 5)}, X),
    (
        sparse.csr_fromdense_p,
        (X,),
        {"nse": R.nse, "index_dtype": np.int32},
        R._buffers(),
    ),
    (
        sparse.csr_matvec_p,
        (*R._buffers(), V),
        {"shape": (4, 5), "transpose": False},
        X @ V,
    ),
    (
        sparse.csr_matmat_p,
        (*R._buffers(), X),
        {"shape": (4, 5), "transpose": True},
        X.T @ X,
    ),
    (
        sparse.todense_p,
        B._buffers(),
        {"tree": curta.tree.structure(B)},
        X,
    ),
]


@pytest.mark.parametrize(
    "primitive, args, params, want", PRIMITIVES, ids=lambda x: str(x)[:30]
)
def test_primitives(primitive, args, params, want):
    def bind(*args):
        return primitive.bind(*args, **params)

    close = np.testing.assert_allclose
    for fun in (bind, curta.jit(bind)):
        for got, expected in zip(
            curta.tree.leaves(fun(*args)), curta.tree.leaves(want), strict=True
        ):
            close(got, expected, rtol=1e-5, atol=1e-5)
    (eqn,) = curta.make_jaxpr(bind)(*args).eqns
    assert eqn.primitive is primitive and set(params) <= set(eqn.params)
    # Over a batch, of which one operand after the other is part.
    for i in range(len(args)):
        dims = [0 if i == j else None for j in range(len(args))]
        batch = [jnp.stack([x, x]) if d == 0 else x for x, d in zip(args, dims)]
        found = curta.vmap(bind, dims)(*batch)
        for got, expected in zip(curta.tree.leaves(found), curta.tree.leaves(want)):
            close(got, np.stack([expected, expected]), rtol=1e-5, atol=1e-5)
    # By each operand that has derivatives.
    for i, x in enumerate(args):
        if jnp.issubdtype(x.dtype, np.floating):

            def first(x, i=i):
                return curta.tree.leaves(bind(*args[:i], x, *args[i + 1 :]))[0]

            if "fromdense" not in primitive.name:  # which elements are zero is fixed
                check_grads(first, (x,), 1)
            tangent = jnp.ones_like(x)
            _, moved = curta.jvp(first, (x,), (tangent,))
            _, pull = curta.vjp(first, x)
            (back,) = pull(jnp.ones_like(moved))
            close((back * tangent).sum(), moved.sum(), rtol=1e-4)


def test_product_of_sparse_arrays():
    args = (*B._buffers(), *B.T._buffers())
    params = {"lhs_spinfo": INFO, "rhs_spinfo": B.T._info, **PRODUCT}
    data, indices = sparse.bcoo_spdot_general_p.bind(*args, **params)
    got = BCOO((data, indices), shape=(4, 4)).todense()
    np.testing.assert_allclose(got, X @ X.T, rtol=1e-5, atol=1e-5)
    jaxpr = curta.make_jaxpr(lambda m: m @ m.T)(B)
    assert [str(e.primitive) for e in jaxpr.eqns] == [
        "bcoo_transpose",
        "bcoo_spdot_general",
    ]


def test_batched_and_differentiated_ops_stay_sparse():
    def names(fun, *args):
        return [e.primitive.name for e in curta.make_jaxpr(fun)(*args).eqns]

    batch = BCOO.fromdense(dense(3, 4, 5), n_batch=1)
    assert "bcoo_todense" in names(curta.vmap(lambda m: m.todense()), batch)
    assert "bcoo_dot_general" in names(curta.vmap(lambda m: m @ V), batch)
    assert "bcoo_sort_indices" in names(curta.vmap(lambda m: m.sort_indices()), batch)
    gradient = curta.grad(lambda d: (B.replaced(d) @ V).sum())
    assert "bcoo_dot_general_sampled" in names(gradient, B.data)
    gradient = curta.grad(lambda d: B.replaced(d).todense().sum())
    assert "bcoo_extract" in names(gradient, B.data)
    extract = curta.grad(lambda x: sparse.bcoo_extract(B, x).data.sum())
    assert "bcoo_todense" in names(extract, X)


def test_functions_of_buffers():
    data, indices = bcoo_module._bcoo_fromdense(X, nse=B.nse)
    got = bcoo_module._bcoo_todense(data, indices, spinfo=SparseInfo((4, 5)))
    np.testing.assert_array_equal(got, X)
    columns, indptr = bcsr_module._bcoo_to_bcsr(indices, shape=(4, 5))
    back = bcsr_module._bcsr_to_bcoo(columns, indptr, shape=(4, 5))
    np.testing.assert_array_equal(back, indices)
    np.testing.assert_array_equal(_coo_todense(*C._buffers(), spinfo=COO_INFO), X)


@pytest.mark.parametrize("transpose", [False, True])
def test_products_of_library_dtypes(transpose):
    matrix = X.T if transpose else X
    for buffers, spmv, spmm in (
        (C._buffers(), _lowerings.coo_spmv_p, _lowerings.coo_spmm_p),
        (R._buffers(), _lowerings.csr_spmv_p, _lowerings.csr_spmm_p),
    ):
        params = {"shape": (4, 5), "transpose": transpose}
        x = dense(matrix.shape[1], 3)
        for op, y in (spmv, x[:, 0]), (spmm, x):
            got = op.bind(*buffers, y, **params)
            np.testing.assert_allclose(got, matrix @ y, rtol=1e-5, atol=1e-5)
        with pytest.raises(TypeError, match="operands of one dtype out of float32"):
            spmv.bind(buffers[0].astype(int), *buffers[1:], x[:, 0], **params)


def test_indices_too_narrow_for_a_shape():
    wide = BCOO((jnp.ones(1), jnp.zeros((1, 2), np.int32)), shape=(10**5, 10**5))
    with pytest.raises(ValueError, match="store wider indices"):
        wide.reshape(10**10)
    twice = BCOO((jnp.ones(2), jnp.full((2, 2), 10**5 - 1, np.int32)), shape=wide.shape)
    np.testing.assert_array_equal(twice.sum_duplicates().data, [2])


def test_mapping_over_batch_dims():
    x = dense(2, 3, 4, 5)
    m = BCOO.fromdense(x, n_batch=2)
    for dim in 0, 1:
        got = curta.vmap(lambda m: m, in_axes=dim)(m)
        assert got.shape == np.moveaxis(x, dim, 0).shape and got.n_batch == 2
        np.testing.assert_array_equal(got.todense(), np.moveaxis(x, dim, 0))
    square = BCOO.fromdense(dense(3, 3, 4), n_batch=2)
    for dim in 0, 1:
        got = curta.vmap(lambda m: m.todense(), in_axes=dim)(square)
        np.testing.assert_array_equal(got, np.moveaxis(square.todense(), dim, 0))
    for mat, dim in (B, 0), (m, 2):
        with pytest.raises(ValueError, match=f"Cannot map in_axis={dim}"):
            curta.vmap(lambda m: m.todense(), in_axes=dim)(mat)
    s = BCSR.fromdense(x, n_batch=2)
    got = curta.vmap(lambda s: s @ V, in_axes=1)(s)
    np.testing.assert_allclose(got, np.moveaxis(x @ V, 1, 0), rtol=1e-4, atol=1e-5)
    made = curta.vmap(lambda x: sparse.empty(x.shape, x.dtype, sparse_format="bcsr"))(
        x[0]
    )
    assert made.shape == (3, 4, 5) and made.n_batch == 1


def test_lax_dot_general_is_the_meaning():
    x, y = dense(3, 4, 5), dense(3, 5, 2)
    numbers = (((2,), (1,)), ((0,), (0,)))
    want = lax.dot_general(x, y, numbers)
    for n_batch, n_dense in (0, 0), (1, 0), (2, 0), (0, 1), (1, 1):
        m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
        got = curta.jit(sparse.bcoo_dot_general, static_argnames="dimension_numbers")(
            m, y, dimension_numbers=numbers
        )
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        vs = dense(3, 5, 2)
        got = curta.vmap(lambda v, m=m: (m @ v[..., None])[..., 0], 2, 2)(vs)
        np.testing.assert_allclose(got, x @ vs, rtol=1e-4, atol=1e-5)
