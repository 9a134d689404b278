"""Operations on arrays in batched coordinates against those on dense ones."""

import warnings

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, random
from curta.experimental import sparse
from curta.experimental.sparse import BCOO, BCSR
from curta.experimental.sparse.transform import (
    SparsifyEnv,
    SparsifyValue,
    arrays_to_spvalues,
    sparsify_raw,
    spvalues_to_arrays,
)

RNG = np.random.default_rng(2)

LAYOUTS = [
    (shape, n_batch, n_dense)
    for shape in [(4,), (3, 4), (2, 3, 4)]
    for n_batch in range(len(shape) + 1)
    for n_dense in range(len(shape) + 1 - n_batch)
]
layouts = pytest.mark.parametrize("shape, n_batch, n_dense", LAYOUTS)


@pytest.fixture(autouse=True)
def strictly():
    """Operations have to say how they promote and broadcast."""
    with curta.numpy_rank_promotion("raise"), curta.numpy_dtype_promotion("strict"):
        yield


def array(*shape):
    x = RNG.normal(size=shape) * (RNG.uniform(size=shape) < 0.5)
    return jnp.asarray(x.astype(np.float32))


def close(got, want):
    np.testing.assert_allclose(sparse.todense(got), want, rtol=1e-5, atol=1e-5)


def same(sparse_fun, dense_fun, *mats):
    """In and out of jit; the derivatives by the data of the first one too."""
    want = dense_fun(*(m.todense() for m in mats))
    got, compiled = sparse_fun(*mats), curta.jit(sparse_fun)(*mats)
    close(got, want)
    close(compiled, want)
    assert curta.tree.structure(got) == curta.tree.structure(compiled)
    weights = jnp.asarray(RNG.normal(size=want.shape).astype(np.float32))

    def by_data(fun, data):
        return (sparse.todense(fun(mats[0].replaced(data), *mats[1:])) * weights).sum()

    def dense_of(m, *rest):
        return dense_fun(m.todense(), *(x.todense() for x in rest))

    close(
        curta.grad(lambda data: by_data(sparse_fun, data))(mats[0].data),
        curta.grad(lambda data: by_data(dense_of, data))(mats[0].data),
    )
    return got


@layouts
def test_layout(shape, n_batch, n_dense):
    x = array(*shape)
    m = sparse.bcoo_fromdense(x, n_batch=n_batch, n_dense=n_dense)
    np.testing.assert_array_equal(sparse.bcoo_todense(m), x)
    n_sparse = m.n_sparse
    turned = m.replaced(
        jnp.flip(m.data, n_batch), jnp.flip(m.indices, n_batch), indices_sorted=False
    )
    got = same(sparse.bcoo_sort_indices, lambda x: x, turned)
    assert got.indices_sorted
    if n_sparse:
        np.testing.assert_array_equal(got.indices, m.indices)
    twice = m.made(
        (
            jnp.concatenate([m.data, m.data], n_batch),
            jnp.concatenate([m.indices, m.indices], n_batch),
        ),
        shape=shape,
    )
    nse = m.nse + 1
    got = same(lambda m: sparse.bcoo_sum_duplicates(m, nse=nse), lambda x: x, twice)
    assert got.nse == nse and got.unique_indices
    assert sparse.bcoo_sum_duplicates(twice).nse <= max(m.nse, 1)
    axes = [
        *range(n_batch)[::-1],
        *range(n_batch, n_batch + n_sparse)[::-1],
        *range(n_batch + n_sparse, m.ndim)[::-1],
    ]
    got = same(
        lambda m: sparse.bcoo_transpose(m, permutation=axes),
        lambda x: x.transpose(axes),
        m,
    )
    assert got.n_batch == n_batch and got.n_dense == n_dense
    starts, stops, steps = [1] * m.ndim, list(shape), [2] * m.ndim
    got = same(
        lambda m: sparse.bcoo_slice(
            m, start_indices=starts, limit_indices=stops, strides=steps
        ),
        lambda x: lax.slice(x, starts, stops, steps),
        m,
    )
    assert (got.n_batch, got.n_dense) == (n_batch, n_dense)
    sizes = [2] * m.ndim
    same(
        lambda m: sparse.bcoo_dynamic_slice(m, [-1, 5, 0][: m.ndim], sizes),
        lambda x: lax.dynamic_slice(x, [-1, 5, 0][: m.ndim], sizes),
        m,
    )


@layouts
def test_sizes_of_one(shape, n_batch, n_dense):
    x = array(*shape)
    m = sparse.bcoo_fromdense(x, n_batch=n_batch, n_dense=n_dense)
    wide = same(lambda m: m[:, None], lambda x: x[:, None], m)
    assert wide.n_batch == n_batch + (n_batch > 0)
    same(
        lambda m: sparse.bcoo_squeeze(m, dimensions=(1,)),
        lambda x: x.squeeze(1),
        wide,
    )
    same(
        lambda m: sparse.bcoo_reshape(m, new_sizes=(1, *shape, 1)),
        lambda x: x.reshape(1, *shape, 1),
        m,
    )
    got = same(lambda m: m[None], lambda x: x[None], m)
    assert got.n_batch == n_batch + 1
    for axis in range(m.ndim):
        same(
            lambda m, axis=axis: sparse.bcoo_reduce_sum(m, axes=(axis,)),
            lambda x, axis=axis: x.sum(axis),
            m,
        )


@layouts
def test_products_by_element(shape, n_batch, n_dense):
    m = sparse.bcoo_fromdense(array(*shape), n_batch=n_batch, n_dense=n_dense)
    v = array(*shape)
    for part in v, v[:1], jnp.float32(2.0):
        got = sparse.bcoo_multiply_dense(m, part)
        close(m.replaced(got), m.todense() * part)
        same(lambda m, part=part: m * part, lambda x, part=part: x * part, m)
    k = sparse.bcoo_fromdense(v, n_batch=0, n_dense=n_dense)
    got = same(sparse.bcoo_multiply_sparse, lambda x, y: x * y, m, k)
    one = sparse.bcoo_fromdense(v[:1], n_dense=n_dense)
    got = same(sparse.bcoo_multiply_sparse, lambda x, y: x * y, m, one)
    assert got.shape == shape
    with pytest.raises(NotImplementedError, match="output shape matches"):
        sparse.bcoo_multiply_dense(m, array(2, 9, *shape))


@pytest.mark.parametrize("n_batch, n_dense", [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1)])
def test_indexing(n_batch, n_dense):
    m = BCOO.fromdense(array(3, 4, 5), n_batch=n_batch, n_dense=n_dense)
    where = jnp.array([2, 0])
    same(lambda m: m[where], lambda x: x[where], m)
    same(lambda m: m[:, where], lambda x: x[:, where], m)
    same(lambda m: m[:, where, 1], lambda x: x[:, where, 1], m)
    numbers = lax.GatherDimensionNumbers((1, 2), (0,), (0,))
    got = sparse.bcoo_gather(m, where[:, None], numbers, (1, 4, 5), mode="clip")
    close(got, m.todense()[where])
    with pytest.raises(NotImplementedError, match="not yet supported"):
        sparse.bcoo_gather(m, where[:, None], numbers, (1, 4, 5), mode="fill")
    close(jnp.stack([row.todense() for row in m]), m.todense())


def test_convolution():
    x, y = array(1, 1, 7), array(1, 1, 3)
    m, k = (BCOO.fromdense(v, n_batch=2) for v in (x, y))
    want = lax.conv_general_dilated(x, y, (1,), "SAME")
    for pair in (m, k), (m, y), (x, k):
        got = sparse.bcoo_conv_general_dilated(
            *pair, window_strides=(1,), padding="SAME"
        )
        close(got, want)
    convolve = sparse.sparsify(jnp.convolve)
    close(convolve(BCOO.fromdense(x[0, 0]), y[0, 0]), jnp.convolve(x[0, 0], y[0, 0]))


@pytest.mark.parametrize("n_batch", range(4))
@pytest.mark.parametrize("n_dense", range(4))
def test_update_layout(n_batch, n_dense):
    x = array(2, 3, 4)
    m = BCOO.fromdense(x, n_batch=1, n_dense=1)
    if n_batch + n_dense > 3:
        with pytest.raises(ValueError, match="cannot be larger"):
            sparse.bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense)
        return
    layout = {"n_batch": n_batch, "n_dense": n_dense}
    if n_batch > 1 or n_dense > 1:
        with pytest.raises(sparse.SparseEfficiencyError, match="inefficient storage"):
            sparse.bcoo_update_layout(m, **layout)
        with pytest.warns(sparse.SparseEfficiencyWarning, match="inefficient storage"):
            sparse.bcoo_update_layout(m, on_inefficient="warn", **layout)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = sparse.bcoo_update_layout(m, on_inefficient=None, **layout)
    assert (got.n_batch, got.n_dense) == (n_batch, n_dense)
    close(got, x)
    assert issubclass(sparse.CuSparseEfficiencyWarning, sparse.SparseEfficiencyWarning)


def test_compressed_rows():
    x = array(3, 4)
    m = BCSR.fromdense(x)
    wide = sparse.bcsr_broadcast_in_dim(m, shape=(2, 3, 4), broadcast_dimensions=(1, 2))
    assert isinstance(wide, BCSR) and wide.n_batch == 1
    close(wide, jnp.broadcast_to(x[None], (2, 3, 4)))
    close(m[None], x[None])
    joined = sparse.bcsr_concatenate([m, m], dimension=0)
    close(joined, jnp.concatenate([x, x]))
    got = sparse.sparsify(jnp.sin)(m)
    assert isinstance(got, BCSR) and got.indptr is not None
    close(got, jnp.sin(x))
    close(sparse.sparsify(lambda m: m.T * 2)(m), x.T * 2)
    v = array(2, 3)
    close(v @ m, v @ x)


def _twice(m):
    return 2 * m


@pytest.mark.parametrize("use_tracer", [False, True])
def test_sparsified_control_flow(use_tracer):
    x, v = array(4, 4), array(4)
    m = BCOO.fromdense(x)

    def sparsify(f):
        return sparse.sparsify(f, use_tracer=use_tracer)

    close(sparsify(lambda m: lax.fori_loop(0, 3, lambda i, m: m * 2, m))(m), 8 * x)
    power = sparsify(lambda m, v: lax.fori_loop(0, 3, lambda i, v: m @ v, v))
    close(power(m, v), x @ (x @ (x @ v)))
    doubled = sparsify(lambda m: lax.while_loop(lambda m: m.sum() < 9, _twice, m))
    close(doubled(BCOO.fromdense(jnp.eye(4))), 4 * jnp.eye(4))
    chosen = sparsify(lambda m: lax.cond(m.sum() > 1e6, lambda m: m, lambda m: -m, m))
    close(chosen(m), -x)
    with pytest.raises(TypeError, match="sparsified true_fun output must have same"):
        sparsify(lambda m, v: lax.cond(True, lambda: m[0], lambda: v))(m, v)
    grown = sparsify(lambda m: lax.fori_loop(0, 2, lambda i, a: a * 1.0 + m, m))
    with pytest.raises(TypeError, match="must have same type structure"):
        grown(m)
    close(sparsify(curta.jit(lambda m: m.T @ v))(m), x.T @ v)
    kinds = []
    sparsify(lambda m: kinds.append(type(m)) or m)(m)
    assert (kinds == [sparse.SparseTracer]) is use_tracer


@pytest.mark.parametrize("kind", [BCOO, BCSR])
@pytest.mark.parametrize("axis", range(3))
def test_stacks(kind, axis):
    x, y = array(3, 4), array(3, 4)
    stack = sparse.sparsify(lambda *xs: jnp.stack(xs, axis))
    got = stack(kind.fromdense(x), kind.fromdense(y))
    assert isinstance(got, kind if axis == 0 else BCOO)
    close(got, jnp.stack([x, y], axis))
    close(stack(kind.fromdense(x), y), jnp.stack([x, y], axis))
    close(sparse.sparsify(jnp.vstack)([kind.fromdense(x), y]), jnp.vstack([x, y]))


def test_buffers_are_shared():
    m = BCOO.fromdense(array(4, 4))
    env = SparsifyEnv([m.data, m.indices, 3 * m.data])
    x = env.sparse(m.shape, data_ref=0, indices_ref=1, unique_indices=True)
    y = env.sparse(m.shape, data_ref=2, indices_ref=1, unique_indices=True)
    assert x == SparsifyValue((4, 4), 0, 1, unique_indices=True)
    for f, want in (
        (lambda a, b: a + b, 4 * m.todense()),
        (lambda a, b: a - b, -2 * m.todense()),
        (lambda a, b: a * b, 3 * m.todense() ** 2),
    ):
        (out,), _ = sparsify_raw(f)(env, x, y)
        assert out.indices_ref == 1 and not out.is_dense()
        close(spvalues_to_arrays(env, out), want)
    env = SparsifyEnv()
    dense, stored = arrays_to_spvalues(env, [m.todense(), m])
    assert dense.is_dense() and stored.is_bcoo() and not stored.is_bcsr()


def test_padding_within_sparsify():
    x = array(3, 4)
    config = ((1, 2, 1), (0, -1, 0))
    for n_batch, n_dense in (0, 0), (1, 0), (0, 1):
        m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
        got = sparse.sparsify(lambda m: lax.pad(m, 0.0, config))(m)
        close(got, lax.pad(x, 0.0, config))
    with pytest.raises(NotImplementedError, match="values that are not zero"):
        sparse.sparsify(lambda m: lax.pad(m, 1.0, config))(m)


def test_random_arrays_of_batches():
    for key in random.key(0), random.PRNGKey(0):
        m = sparse.random_bcoo(key, (2, 3, 4), nse=0.5, n_batch=1)
        assert m.nse == 6 and m.n_batch == 1


class TestShardings:
    """Where a result is dense, `out_sharding` splits it; elsewhere it is refused."""

    X = np.arange(12, dtype=np.float32).reshape(4, 3)
    NUMBERS = (((1,), (0,)), ((), ()))

    @pytest.fixture(autouse=True)
    def two_devices(self, strictly):
        before = curta.config.jax_num_cpu_devices
        curta.config.update("jax_num_cpu_devices", 2)
        with curta.set_mesh(curta.make_mesh((2,), ("x",))):
            yield
        curta.config.update("jax_num_cpu_devices", before)

    @pytest.mark.parametrize("kind", [BCOO, BCSR])
    def test_dense_results_are_split(self, kind):
        product = sparse.bcoo_dot_general if kind is BCOO else sparse.bcsr_dot_general
        mat, place = kind.fromdense(self.X), curta.P("x")
        for lhs, rhs in ((mat, self.X.T), (self.X, kind.fromdense(self.X.T))):
            out = product(lhs, rhs, dimension_numbers=self.NUMBERS, out_sharding=place)
            assert curta.typeof(out).sharding.spec == curta.P("x", None)
            np.testing.assert_array_equal(out, self.X @ self.X.T)

    def test_sparse_results_are_not(self):
        mat, place = BCOO.fromdense(self.X), curta.P("x")
        for call in [
            lambda: sparse.bcoo_dot_general(
                mat, mat.T, dimension_numbers=self.NUMBERS, out_sharding=place
            ),
            lambda: sparse.bcoo_reshape(mat, new_sizes=(12,), sharding=place),
            lambda: sparse.bcoo_broadcast_in_dim(
                mat, shape=(4, 3), broadcast_dimensions=(0, 1), sharding=place
            ),
            lambda: sparse.bcsr_broadcast_in_dim(
                BCSR.fromdense(self.X),
                shape=(4, 3),
                broadcast_dimensions=(0, 1),
                sharding=place,
            ),
            lambda: sparse.bcoo_conv_general_dilated(
                BCOO.fromdense(self.X[:1, None]),
                self.X[:1, None],
                window_strides=(1,),
                padding="SAME",
                out_sharding=place,
            ),
        ]:
            with pytest.raises(NotImplementedError, match="a sparse result cannot be"):
                call()


DENSE = jnp.eye(2)
OF_ANOTHER_FORMAT = {
    "coo_matvec": lambda: sparse.coo_matvec(DENSE, jnp.ones(2)),
    "coo_matmat": lambda: sparse.coo_matmat(DENSE, DENSE),
    "csr_matvec": lambda: sparse.csr_matvec(DENSE, jnp.ones(2)),
    "csr_matmat": lambda: sparse.csr_matmat(DENSE, DENSE),
    "bcoo_update_layout": lambda: sparse.bcoo_update_layout(DENSE, n_batch=1),
    "bcoo_reshape": lambda: sparse.bcoo_reshape(DENSE, new_sizes=(4,)),
    "bcoo_broadcast_in_dim": lambda: sparse.bcoo_broadcast_in_dim(
        DENSE, shape=(2, 2), broadcast_dimensions=(0, 1)
    ),
    "bcoo_conv_general_dilated": lambda: sparse.bcoo_conv_general_dilated(
        DENSE[None], DENSE[None], window_strides=(1,), padding="SAME"
    ),
}


@pytest.mark.parametrize("name", OF_ANOTHER_FORMAT)
def test_dense_arrays_where_sparse_ones_belong(name):
    kind = name.split("_")[0].upper()
    with pytest.raises(TypeError, match=f"{name}: input should be {kind} array"):
        OF_ANOTHER_FORMAT[name]()


def test_dimension_numbers_of_gather():
    x = BCOO.fromdense(DENSE)
    with pytest.raises(TypeError, match="must be a lax.GatherDimensionNumbers, got 3"):
        sparse.bcoo_gather(x, jnp.array([[0]]), 3, (1, 2))
