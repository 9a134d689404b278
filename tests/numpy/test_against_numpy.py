"""Functions of one line against NumPy, over dtypes and shapes."""

import numpy as np
import pytest

import curta
from curta import numpy as jnp

REAL = ["float32", "float16", "int32", "int8", "uint8", "bool"]
SHAPES = [(), (3,), (2, 3), (0, 3), (2, 1, 3)]


def sample(shape, dtype, seed=0, low=-4, high=5):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "u":
        return rng.integers(0, high, shape).astype(dtype)
    if dtype.kind == "i":
        return rng.integers(low, high, shape).astype(dtype)
    values = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(low, high, shape)
    return values.astype(dtype)


def assert_same(ours, theirs, rtol=1e-5, atol=1e-5):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    if ours.dtype == np.float16:
        rtol = atol = 2e-2
    np.testing.assert_allclose(
        ours.astype(theirs.dtype), theirs, rtol=rtol, atol=atol, equal_nan=True
    )


UNARY = [
    *("negative", "absolute", "sign", "square", "exp", "log", "log1p", "expm1", "sqrt"),
    *("sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "arcsinh", "exp2", "cbrt"),
    *("floor", "ceil", "trunc", "rint", "reciprocal", "deg2rad", "rad2deg", "sinc"),
    *("isnan", "isinf", "isfinite", "logical_not", "log2", "log10"),
]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_unary(name, dtype):
    for shape in SHAPES:
        x = sample(shape, dtype)
        with np.errstate(all="ignore"):
            x = np.where(x == 0, 1, x).astype(dtype) if name == "reciprocal" else x
            wide = x.astype("float64") if dtype == "float32" else x
            if name == "reciprocal":
                wide = wide.astype("float64")
            theirs = getattr(np, name)(wide)
        ours = getattr(jnp, name)(x)
        assert isinstance(ours, curta.Array)
        assert_same(ours, theirs, 2e-5, 1e-6)


BINARY = [
    *("add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal"),
    *("less", "less_equal", "greater", "greater_equal", "logical_and", "logical_xor"),
    *("arctan2", "hypot", "copysign", "fmax", "fmin", "heaviside", "nextafter"),
    *("logaddexp", "logaddexp2"),
]


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    for shapes in ((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (3,)), ((0, 3), (3,)):
        x, y = (sample(s, "float32", i) for i, s in enumerate(shapes))
        ours = getattr(jnp, name)(x, y)
        assert_same(ours, getattr(np, name)(x, y))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "divmod"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_division(name, dtype):
    x, y = sample((4, 5), dtype, 1, -9, 10), sample((4, 5), dtype, 2, 1, 5)
    y = np.where(y == 0, 2, y).astype(dtype)
    y = y if dtype == "uint8" else y * np.where(np.arange(5) % 2, -1, 1).astype(dtype)
    ours, theirs = getattr(jnp, name)(x, y), getattr(np, name)(x, y)
    for a, b in zip(ours, theirs) if name == "divmod" else [(ours, theirs)]:
        assert a.dtype == dtype
        assert_same(a, b)


@pytest.mark.parametrize("x", REAL)
@pytest.mark.parametrize("y", REAL)
def test_promotion_of_binary(x, y):
    ours = jnp.add(jnp.ones(2, x), jnp.ones((2, 2), y))
    assert ours.dtype == jnp.promote_types(x, y)
    assert ours.shape == (2, 2)


@pytest.mark.parametrize("base", ["float32", "int32"])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5])
def test_power_with_known_exponent(base, exponent):
    x = sample((3,), base)
    assert_same(jnp.power(x, exponent), x**exponent)
    assert_same(x**exponent, curta.jit(jnp.power)(x, exponent))


def test_power_of_traced_integers_wraps():
    x = jnp.array([2, 3, -2])
    assert_same(jnp.power(x, jnp.array([3, 0, 5])), [8, 1, -32])


@pytest.mark.parametrize("decimals", [0, 1, 2, -1])
def test_round(decimals):
    x = sample((20,), "float32", high=100)
    assert_same(jnp.round(x, decimals), np.round(x, decimals), atol=1e-4)


# name, further positional arguments, keywords
SHAPING = [
    ("reshape", ((3, -1),), {}),
    ("reshape", (-1,), {"order": "F"}),
    ("ravel", (), {"order": "F"}),
    ("transpose", ((1, 0),), {}),
    ("swapaxes", (0, 1), {}),
    ("moveaxis", (0, -1), {}),
    ("rollaxis", (1,), {}),
    ("expand_dims", ((0, -1),), {}),
    ("flip", (), {}),
    ("flip", (), {"axis": 1}),
    ("fliplr", (), {}),
    ("flipud", (), {}),
    ("rot90", (3,), {}),
    ("roll", (2,), {}),
    ("roll", ((1, -1), (0, 1)), {}),
    ("tile", ((2, 1, 2),), {}),
    ("repeat", (2,), {"axis": 1}),
    ("repeat", ([1, 2, 0],), {"axis": 0}),
    ("resize", ((4, 4),), {}),
    ("broadcast_to", ((2, 3, 4),), {}),
    ("atleast_3d", (), {}),
    ("diff", (), {"n": 2}),
    ("diff", (), {"prepend": 0.0, "axis": 0}),
    ("ediff1d", (), {}),
    ("gradient", (), {"axis": 1}),
    ("trapezoid", (), {"axis": 0}),
    ("unwrap", (), {"axis": 1}),
    ("cumsum", (), {}),
    ("cumsum", (), {"axis": 1}),
    ("cumprod", (), {"axis": 0}),
    ("nancumsum", (), {}),
    ("sort", (), {"axis": 0}),
    ("sort", (), {"axis": None}),
    ("argsort", (), {"axis": 1}),
    ("partition", (1,), {}),
    ("argmax", (), {"axis": 0, "keepdims": True}),
    ("argmin", (), {}),
    ("tril", (), {"k": 1}),
    ("triu", (), {"k": -1}),
    ("trace", (), {"offset": 1}),
    ("diagonal", (), {"offset": -1}),
    ("diag", (), {}),
    ("diag", (), {"k": 1}),
    ("diagflat", (), {}),
    ("clip", (-1, 1.5), {}),
    ("nan_to_num", (), {}),
    ("median", (), {"axis": 0}),
    ("percentile", (30.0,), {"axis": 1}),
    ("quantile", ([0.2, 0.7],), {"axis": 0, "keepdims": True}),
    ("quantile", (0.3,), {"method": "nearest"}),
    ("cov", (), {}),
    ("corrcoef", (), {"rowvar": False}),
    ("ptp", (), {"axis": 0}),
    ("average", (), {"axis": 1}),
    ("count_nonzero", (), {"axis": 0}),
    ("unique", (), {}),
    ("flatnonzero", (), {}),
    ("argwhere", (), {}),
    ("histogram", (5,), {}),
    ("pad", (2,), {}),
    ("pad", (((1, 2), (0, 3)),), {"constant_values": 7}),
    ("pad", (2,), {"mode": "edge"}),
    ("pad", (5,), {"mode": "wrap"}),
    ("pad", (5,), {"mode": "reflect"}),
    ("pad", (4,), {"mode": "symmetric", "reflect_type": "odd"}),
    ("pad", (2,), {"mode": "linear_ramp", "end_values": 3}),
    ("pad", (2,), {"mode": "mean"}),
    ("pad", (2,), {"mode": "maximum", "stat_length": 2}),
    ("delete", (1,), {"axis": 0}),
    ("delete", ([0, 3],), {"axis": 1}),
    ("delete", (slice(0, 4, 2),), {"axis": 1}),
    ("insert", (1, 9.0), {"axis": 1}),
    ("insert", ([0, 2], [[7.0], [8.0], [9.0]]), {"axis": 1}),
    ("split", (2, 1), {}),
    ("split", ([1, 3], 1), {}),
    ("array_split", (3, 1), {}),
    ("take", ([0, 2, -1],), {"axis": 1}),
    ("take", ([5, 20],), {"mode": "wrap"}),
    ("outer", ([1.0, 2.0],), {}),
    ("kron", ([[1.0, 2.0]],), {}),
    ("searchsorted", (0.5,), {}),
]


@pytest.mark.parametrize(
    ("name", "args", "kwargs"), SHAPING, ids=lambda x: str(x) if x != {} else ""
)
def test_function_of_matrix(name, args, kwargs):
    x = sample((3, 4), "float32", 3)
    if name == "searchsorted":
        x = np.sort(x.ravel())
    lists = [np.asarray(a) if isinstance(a, list) else a for a in args]
    ours = getattr(jnp, name)(x, *lists, **kwargs)
    theirs = getattr(np, name)(x, *args, **kwargs)
    if isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            assert_same(a, b)
    else:
        assert_same(ours, theirs)


JOINING = ["concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"]


@pytest.mark.parametrize("name", JOINING)
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_joining(name, shape):
    parts = [sample(shape, "float32", i) for i in range(3)]
    assert_same(getattr(jnp, name)(parts), getattr(np, name)(parts))
    whole = np.stack(parts)
    assert_same(getattr(jnp, name)(whole), getattr(np, name)(list(whole)))


PRODUCTS = [
    ("dot", (3,), (3,)),
    ("dot", (2, 3), (3,)),
    ("dot", (2, 3), (4, 3, 5)),
    ("matmul", (3,), (3,)),
    ("matmul", (2, 3), (3,)),
    ("matmul", (3,), (4, 3, 5)),
    ("matmul", (4, 2, 3), (3, 5)),
    ("matmul", (4, 1, 2, 3), (6, 3, 5)),
    ("matmul", (1, 2, 3), (1, 3, 2)),
    ("matmul", (4, 2, 3), (1, 3, 2)),
    ("matmul", (0, 2, 3), (3, 2)),
    ("inner", (2, 3), (4, 3)),
    ("outer", (2,), (3,)),
    ("vdot", (2, 3), (2, 3)),
    ("vecdot", (2, 3), (3,)),
    ("tensordot", (2, 3, 4), (3, 4, 5)),
    ("kron", (2,), (3, 2)),
    ("cross", (4, 3), (4, 3)),
]


@pytest.mark.parametrize(("name", "a", "b"), PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_products(name, a, b, dtype):
    x, y = sample(a, dtype, 1), sample(b, dtype, 2)
    ours = getattr(jnp, name)(x, y)
    assert ours.dtype == dtype
    assert_same(ours, getattr(np, name)(x, y), 1e-4, 1e-4)


def test_matvec_and_vecmat():
    m, v, w = (sample(s, "complex64", i) for i, s in enumerate(((2, 3), (4, 3), (2,))))
    assert_same(jnp.matvec(m, v), np.einsum("ij,bj->bi", m, v), 1e-4)
    assert_same(jnp.vecmat(w, m), w.conj() @ m, 1e-4)


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("...i,...i->...", (4, 3), (4, 3)),
    ("ij,j->", (2, 3), (3,)),
    ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("ij->ji", (2, 3)),
    ("i,j,k->kji", (2,), (3,), (4,)),
    ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5)),
    ("ij,kj->ik", (2, 1), (3, 4)),
]


@pytest.mark.parametrize("case", EINSUMS, ids=lambda c: c[0])
@pytest.mark.parametrize("optimize", ["auto", False])
def test_einsum(case, optimize):
    text, *shapes = case
    arrays = [sample(s, "float32", i) for i, s in enumerate(shapes)]
    ours = jnp.einsum(text, *arrays, optimize=optimize)
    assert_same(ours, np.einsum(text, *arrays), 1e-4, 1e-4)


SETS = ["union1d", "intersect1d", "setdiff1d", "setxor1d", "isin"]


@pytest.mark.parametrize("name", SETS)
def test_sets(name):
    x, y = np.array([3, 1, 3, 2, 7]), np.array([2, 5, 3, 2])
    assert_same(getattr(jnp, name)(x, y), getattr(np, name)(x, y))


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
def test_sets_of_static_size(name):
    x, y = np.array([3, 1, 3, 2, 7]), np.array([2, 5, 3, 2])
    theirs = getattr(np, name)(x, y)
    sized = curta.jit(lambda x, y: getattr(jnp, name)(x, y, size=8, fill_value=-1))
    ours = np.asarray(sized(x, y))
    assert ours.tolist() == [*theirs.tolist(), *[-1] * (8 - len(theirs))]


@pytest.mark.parametrize("name", ["intersect1d", "setdiff1d", "setxor1d"])
def test_sets_that_are_said_to_have_nothing_twice(name):
    fun, theirs = getattr(jnp, name), getattr(np, name)
    distinct = np.array([3, 1, 7, 5]), np.array([5, 2, 3, 9, 1])
    double = np.array([3, 1, 3, 5, 5]), np.array([5, 2, 3, 2])
    empty = np.array([], int), np.array([5, 2])
    for x, y in (distinct, double, empty, empty[::-1]):
        expected = theirs(x, y, assume_unique=True)
        assert_same(fun(x, y, assume_unique=True), expected)
        sized = fun(x, y, assume_unique=True, size=9, fill_value=-1)
        assert sized.tolist() == [*expected.tolist(), *[-1] * (9 - len(expected))]


def test_places_of_common_elements_that_are_distinct():
    x, y = np.array([3, 1, 7, 5]), np.array([5, 2, 3, 9, 1])
    settings = {"assume_unique": True, "return_indices": True}
    found = jnp.intersect1d(x, y, **settings)
    for ours, theirs in zip(found, np.intersect1d(x, y, **settings), strict=True):
        assert_same(ours, theirs)
    sized = jnp.intersect1d(x, y, size=4, **settings)
    assert [p.tolist() for p in sized] == [[1, 3, 5, 1], [1, 0, 3, 4], [4, 2, 0, 5]]
    empty = jnp.intersect1d(x[:0], y, size=2, return_indices=True)
    assert [p.tolist() for p in empty] == [[0, 0], [0, 0], [5, 5]]


def test_unique_of_static_size():
    x = jnp.array([3, 1, 1, 0, 3, 2])
    settings = {"return_index": True, "return_inverse": True, "return_counts": True}
    sized = curta.jit(lambda x: jnp.unique(x, size=5, fill_value=-1, **settings))
    values, first, inverse, counts = sized(x)
    assert values.tolist() == [0, 1, 2, 3, -1]
    assert first.tolist()[:4] == [3, 1, 5, 0]
    assert inverse.tolist() == [3, 1, 1, 0, 3, 2]
    assert counts.tolist() == [1, 2, 1, 2, 0]


def test_unique_rows():
    x = np.array([[1, 2], [0, 5], [1, 2]])
    assert_same(jnp.unique(x, axis=0), np.unique(x, axis=0))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("method", ["scan", "compare_all"])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8])
def test_searchsorted(side, method, size):
    a = np.sort(sample((size,), "int32", 1))
    v = np.arange(-6, 7)
    ours = jnp.searchsorted(a, v, side=side, method=method)
    assert_same(ours, np.searchsorted(a, v, side=side))


def test_searchsorted_puts_nan_last():
    a = np.array([1.0, 2.0, np.nan], "float32")
    v = np.array([0.0, 2.0, np.nan], "float32")
    for side in "left", "right":
        assert_same(jnp.searchsorted(a, v, side=side), np.searchsorted(a, v, side=side))


def test_interp():
    x, xp, fp = np.linspace(-1, 4, 11), np.array([0.0, 1.0, 3.0]), np.array([1.0, 5, 2])
    assert_same(jnp.interp(x, xp, fp), np.interp(x, xp, fp))
    ours = jnp.interp(x, xp, fp, left=-7.0, right=9.0)
    assert_same(ours, np.interp(x, xp, fp, left=-7.0, right=9.0))
    assert_same(
        jnp.interp(x, xp, fp, period=4.0), np.interp(x, xp, fp, period=4.0), atol=1e-4
    )


def test_piecewise_takes_the_last_condition_that_holds():
    x = np.linspace(-2, 2, 5)
    conditions = [x < 0, x >= 0, x > 1]
    functions = [lambda x: -x, lambda x: x * 10, 7.0]
    ours = jnp.piecewise(x, conditions, functions)
    assert_same(ours, np.piecewise(x, conditions, functions))


def test_linspace_and_its_kin():
    for num in 0, 1, 2, 5:
        for endpoint in True, False:
            settings = {"num": num, "endpoint": endpoint}
            assert_same(jnp.linspace(1, 3, **settings), np.linspace(1, 3, **settings))
            assert_same(jnp.logspace(0, 2, **settings), np.logspace(0, 2, **settings))
    ends = np.zeros((2,)), np.ones((2,))
    assert_same(jnp.linspace(*ends, 4, axis=1), np.linspace(*ends, 4, axis=1))
    assert_same(jnp.geomspace(1, 16, 5), np.geomspace(1, 16, 5), 1e-4)
    ends = np.array([1.0, 2.0, -4.0]), np.array([[10.0, 20.0, -8.0], [3.0, 4.0, -5.0]])
    for name in "linspace", "geomspace":  # ends of different ranks
        wanted = getattr(np, name)(*ends, 3)
        assert_same(getattr(jnp, name)(*ends, 3), wanted, 1e-4)
    assert jnp.linspace(0, 5, 3, dtype=int).tolist() == [0, 2, 5]


@pytest.mark.parametrize(
    "args", [(5,), (2, 5), (5, 2), (5, 1, -2), (0.5, 3), (0, 1, 0.25)]
)
def test_arange(args):
    assert_same(jnp.arange(*args), np.arange(*args))


def test_grids():
    x, y = np.arange(3), np.arange(2)
    for sparse in True, False:
        for indexing in "xy", "ij":
            settings = {"sparse": sparse, "indexing": indexing}
            for a, b in zip(
                jnp.meshgrid(x, y, **settings), np.meshgrid(x, y, **settings)
            ):
                assert_same(a, b)
    assert_same(jnp.mgrid[0:2, 0:3], np.mgrid[0:2, 0:3])
    assert_same(jnp.r_[1:4, 0, 5], np.r_[1:4, 0, 5])
    assert_same(jnp.c_[x, x], np.c_[x, x])
    for a, b in zip(jnp.tril_indices(3, 1, 4), np.tril_indices(3, 1, 4)):
        assert_same(a, b)


def test_vectorize_against_a_loop():
    mv = jnp.vectorize(lambda m, v: m @ v, signature="(n,m),(m)->(n)")
    a, b = sample((4, 1, 2, 3), "float32"), sample((5, 3), "float32", 1)
    assert_same(mv(a, b), np.einsum("aijk,bk->abj", a, b), 1e-4)
    with pytest.raises(ValueError, match="inconsistent size for core dimension 'm'"):
        mv(a, np.ones(4))
    with pytest.raises(ValueError, match="not a valid gufunc signature"):
        jnp.vectorize(lambda x: x, signature="(n")(np.ones(2))


@pytest.mark.parametrize("ord", [None, 1, 2, 0, 3, np.inf, -np.inf])
def test_vector_norms(ord):
    x = sample((2, 5), "float32")
    ours = jnp.linalg.norm(x, ord=ord, axis=1, keepdims=True)
    assert_same(ours, np.linalg.norm(x, ord=ord, axis=1, keepdims=True))


@pytest.mark.parametrize("ord", [None, "fro", 1, -1, np.inf, -np.inf])
def test_matrix_norms(ord):
    x = sample((2, 3, 5), "float32")
    ours = jnp.linalg.norm(x, ord=ord, axis=(2, 0))
    assert_same(ours, np.linalg.norm(x, ord=ord, axis=(2, 0)))


def test_linalg_works_on_the_last_two_dims():
    x = sample((2, 3, 3), "float32")
    assert_same(jnp.linalg.trace(x), np.linalg.trace(x))
    assert_same(jnp.linalg.diagonal(x, offset=1), np.linalg.diagonal(x, offset=1))
    assert_same(jnp.linalg.cross(x, x[::-1]), np.linalg.cross(x, x[::-1]), 1e-4)
    assert_same(jnp.linalg.matrix_power(x, 5), np.linalg.matrix_power(x, 5), 1e-3)
    chain = [x[0], x[1], x[0, 0]]
    assert_same(jnp.linalg.multi_dot(chain), np.linalg.multi_dot(chain), 1e-4)
    with pytest.raises(ValueError, match="Input arrays must be one-dimensional"):
        jnp.linalg.outer(x, x)
    for order in (2, -2, "nuc"):
        found = jnp.linalg.norm(x, ord=order, axis=(1, 2))
        assert_same(found, np.linalg.norm(x, ord=order, axis=(1, 2)), 1e-4)
