"""`curta.numpy.linalg` against NumPy, and its derivatives against differences."""

import functools

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.config import enable_x64
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
DTYPES = ["float32", "complex64"]


def random(*shape, dtype="float32"):
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def positive(*shape, dtype="float32"):
    x = random(*shape, dtype=dtype)
    return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)


def assert_close(got, wanted, tolerance=1e-3):
    np.testing.assert_allclose(np.asarray(got), wanted, tolerance, tolerance)


SQUARE = {
    "cholesky": lambda n, x: n.linalg.cholesky(x),
    "det": lambda n, x: n.linalg.det(x),
    "inv": lambda n, x: n.linalg.inv(x),
    "pinv": lambda n, x: n.linalg.pinv(x),
    "eigvalsh": lambda n, x: n.linalg.eigvalsh(x),
    "svdvals": lambda n, x: n.linalg.svd(x, compute_uv=False),
    "cond": lambda n, x: n.linalg.cond(x),
    "cond of order 1": lambda n, x: n.linalg.cond(x, 1),
    "cond of order -2": lambda n, x: n.linalg.cond(x, -2),
    "slogdet": lambda n, x: n.linalg.slogdet(x)[1],
    "sign": lambda n, x: n.linalg.slogdet(x)[0],
    "third power": lambda n, x: n.linalg.matrix_power(x, 3),
    "power -2": lambda n, x: n.linalg.matrix_power(x, -2),
    "solve": lambda n, x: n.linalg.solve(x, x + n.eye(x.shape[-1])),
    "rank": lambda n, x: n.linalg.matrix_rank(x),
    "nuclear norm": lambda n, x: n.linalg.norm(x, "nuc", axis=(-2, -1)),
    "norm of order 2": lambda n, x: n.linalg.norm(x, 2, axis=(-2, -1)),
    "norm of order -2": lambda n, x: n.linalg.norm(x, -2, (-2, -1), True),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (4, 4), (2, 5, 5)], ids=str)
@pytest.mark.parametrize("name", SQUARE)
def test_functions_of_square_matrices_are_numpys(name, shape, dtype):
    x = positive(*shape, dtype=dtype)
    wanted = SQUARE[name](np, x)
    assert_close(SQUARE[name](jnp, x), wanted)
    if shape == (2, 5, 5):
        assert_close(curta.jit(lambda x: SQUARE[name](jnp, x))(x), wanted)
        batched = curta.vmap(lambda x: SQUARE[name](jnp, x))(x)
        assert_close(batched, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)], ids=str)
def test_decompositions_multiply_to_the_matrix(shape, dtype):
    x = random(*shape, dtype=dtype)
    q, r = jnp.linalg.qr(x)
    assert_close(q @ r, x)
    assert_close(jnp.linalg.qr(x, "r"), r)
    q, r = jnp.linalg.qr(x, "complete")
    assert_close(q @ r, x)
    for got, wanted in zip(jnp.linalg.qr(x, "raw"), np.linalg.qr(x, "raw")):
        assert_close(got, wanted)
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    assert_close((u * s[..., None, :]) @ vh, x)
    assert_close(jnp.linalg.pinv(x), np.linalg.pinv(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvectors_are_eigenvectors(dtype):
    x = random(2, 4, 4, dtype=dtype)
    w, v = jnp.linalg.eig(x)
    assert_close(x @ v, v * w[..., None, :])
    assert_close(np.sort_complex(jnp.linalg.eigvals(x)), np.sort_complex(w))
    h = positive(4, 4, dtype=dtype)
    w, v = jnp.linalg.eigh(h)
    assert_close(h @ v, v * w)
    u, s, vh = jnp.linalg.svd(-h, hermitian=True)
    assert_close((u * s) @ vh, -h)
    assert_close(jnp.linalg.cholesky(h, upper=True), np.linalg.cholesky(h).conj().T)


def test_least_squares_and_tensor_equations():
    a, b = random(5, 3), random(5, 2)
    for given in (b, b[:, 0]):
        for got, wanted in zip(
            jnp.linalg.lstsq(a, given), np.linalg.lstsq(a, given, rcond=None)
        ):
            assert_close(np.ravel(got), np.ravel(wanted))
    assert jnp.linalg.lstsq(a.T, b[:3], numpy_resid=True)[1].size == 0
    x = random(6, 2, 3)
    assert_close(jnp.linalg.tensorinv(x, 1), np.linalg.tensorinv(x, 1))
    assert_close(
        jnp.linalg.tensorsolve(x, np.ones(6)), np.linalg.tensorsolve(x, np.ones(6))
    )


def test_qr_gives_the_same_determinant():
    x = random(3, 4, 4)
    for got, wanted in zip(jnp.linalg.slogdet(x, method="qr"), np.linalg.slogdet(x)):
        assert_close(got, wanted)


def test_leading_dims_broadcast_in_solve():
    a, b = random(2, 1, 3, 3), random(4, 3, 2)
    assert_close(jnp.linalg.solve(a, b), np.linalg.solve(a, b))
    wanted = np.linalg.solve(a, b[0, :, :1])[..., 0]
    assert_close(jnp.linalg.solve(a, b[0, :, 0]), wanted)


def test_empty_matrices():
    empty = np.zeros((2, 0, 0), np.float32)
    assert_close(jnp.linalg.det(empty), np.ones(2))
    assert jnp.linalg.inv(empty).shape == (2, 0, 0)
    assert jnp.linalg.solve(empty, np.zeros((0, 3), np.float32)).shape == (2, 0, 3)


def test_singular_matrices_give_no_error():
    singular = np.ones((4, 4), np.float32)
    assert jnp.linalg.det(singular) == 0
    sign, logarithm = jnp.linalg.slogdet(singular)
    assert sign == 0 and logarithm == -np.inf
    assert not np.isfinite(jnp.linalg.inv(singular)).any()
    assert np.isnan(jnp.linalg.cholesky(-singular)).any()
    assert jnp.linalg.cond(np.zeros((2, 2), np.float32), 1) == np.inf


def test_the_sign_of_a_determinant_with_nan_is_that_of_the_rest():
    x = np.array([[-1.0, 1, 0], [1, np.nan, 2], [3, 4, 5]], np.float32)
    for a in x, np.full((4, 4), np.nan, np.float32):
        with np.errstate(invalid="ignore"):
            want = np.linalg.slogdet(a)
        sign, logarithm = jnp.linalg.slogdet(a)
        assert np.isnan(logarithm) and np.isnan(want[1])
        # Which of the rows with NaN is a pivot is the device's library's choice.
        if curta.default_backend() == "cpu":
            assert sign == want[0]
    assert np.isnan(jnp.linalg.slogdet(x[:2, :2])[0])
    assert np.isnan(jnp.linalg.slogdet(x, method="qr")[0])


DIFFERENTIABLE = {
    "cholesky": jnp.linalg.cholesky,
    "det": jnp.linalg.det,
    "inv": jnp.linalg.inv,
    "slogdet": lambda x: jnp.linalg.slogdet(x)[1],
    "slogdet by qr": lambda x: jnp.linalg.slogdet(x, method="qr")[1],
    "solve": lambda x: jnp.linalg.solve(x, x + 1),
    "eigvalsh": jnp.linalg.eigvalsh,
    "eigh": lambda x: abs(jnp.linalg.eigh(x).eigenvectors),
    "eigvals": lambda x: jnp.linalg.eigvals(x).real,
    "qr": jnp.linalg.qr,
    "svd": lambda x: [abs(y) for y in jnp.linalg.svd(x, full_matrices=False)],
    "pinv": lambda x: jnp.linalg.pinv(x[..., :2]),
    "nuclear norm": lambda x: jnp.linalg.norm(x, "nuc"),
    "power -3": lambda x: jnp.linalg.matrix_power(x, -3),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name):
    with enable_x64(True):
        x = positive(4, 4, dtype="float64") / 4 + np.diag([1.0, 2.0, 3.5, 5.0])
        order = 1 if name == "eigvals" else 2  # the second needs eigenvectors
        check_grads(DIFFERENTIABLE[name], (x,), order, atol=1e-3, rtol=1e-3)


def test_the_derivative_of_the_determinant_of_singular_matrices():
    x = np.diag([1.0, 2.0, 3.0, 0.0]).astype(np.float32)
    assert_close(curta.grad(jnp.linalg.det)(x), np.diag([0.0, 0, 0, 6]))
    x = np.diag([1.0, 2.0, 0.0, 0.0]).astype(np.float32)
    assert_close(curta.grad(jnp.linalg.det)(x), np.zeros((4, 4)))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: jnp.linalg.inv(np.ones((2, 3))), ValueError, "Argument to inv"),
        (lambda: jnp.linalg.det(np.ones((2, 3))), ValueError, "Argument to _det"),
        (lambda: jnp.linalg.slogdet(np.ones(3)), ValueError, "Argument to slogdet"),
        (lambda: jnp.linalg.solve(np.ones(3), np.ones(3)), ValueError, "left hand"),
        (
            lambda: jnp.linalg.solve(np.eye(3), np.ones((2, 3))),
            ValueError,
            "must have shapes",
        ),
        (lambda: jnp.linalg.qr(np.eye(3), "odd"), ValueError, "Unsupported QR"),
        (lambda: jnp.linalg.eigh(np.eye(3), "X"), ValueError, "UPLO must be"),
        (lambda: jnp.linalg.cond(np.ones((2, 0))), ValueError, "must not be empty"),
        (lambda: jnp.linalg.cond(np.ones((2, 3)), 1), ValueError, "must be square"),
        (lambda: jnp.linalg.tensorinv(np.eye(3), 0), ValueError, "ind must be"),
        (lambda: jnp.linalg.lstsq(np.eye(3), np.ones(2)), ValueError, "Leading dim"),
        (lambda: jnp.linalg.cholesky(np.ones((2, 3))), TypeError, "add got"),
        (
            lambda: jnp.linalg.pinv(np.eye(2), rtol=1, rcond=1),
            ValueError,
            "only one of rtol and rcond",
        ),
    ],
)
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    "shapes", [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,))]
)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_solve_is_a_custom_linear_solve(shapes, dtype):
    rng = np.random.RandomState(0)
    with enable_x64(True):
        a, b = (rng.randn(*s) + 1j * rng.randn(*s) for s in shapes)
        a, b = (x.astype(dtype) if dtype[0] == "c" else x.real for x in (a, b))
        a = a + 3 * np.eye(3)
        text = str(curta.make_jaxpr(jnp.linalg.solve)(a, b))
        assert "custom_linear_solve" in text and "stop_gradient" in text
        columns = b[:, None] if b.ndim == 1 else b
        want = np.linalg.solve(a, columns)
        got = jnp.linalg.solve(a, b)
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-10)
        check_grads(jnp.linalg.solve, (a, b), 2)
        rows = curta.vmap(jnp.linalg.solve, (None, 0))(a, np.stack([b, 2 * b]))
        np.testing.assert_allclose(rows[1], 2 * got, rtol=1e-10)


def test_einsum_takes_products_as_it_is_told():
    calls = []

    def dot_general(x, y, numbers, precision=None, preferred_element_type=None):
        calls.append((numbers, precision, preferred_element_type))
        return curta.lax.dot_general(x, y, numbers, precision, preferred_element_type)

    x, y = jnp.arange(6.0).reshape(2, 3), jnp.ones((3, 2))
    found = jnp.einsum("ij,jk,kl->il", x, y, x, _dot_general=dot_general)
    np.testing.assert_allclose(found, np.asarray(x) @ np.asarray(y) @ np.asarray(x))
    assert len(calls) == 2 and all(c[2] == np.float32 for c in calls)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 4, 2), (2, 2, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_derivative_of_qr(shape, dtype, mode):
    rng = np.random.default_rng(0)
    a, t = (rng.standard_normal((2, *shape)) @ np.eye(shape[-1])).astype(dtype)
    if dtype == np.complex128:
        a, t = a + 1j * a[..., ::-1], t - 2j * t[..., ::-1]
    with curta.enable_x64():
        f = functools.partial(jnp.linalg.qr, mode=mode)
        _, tangents = curta.jvp(f, (a,), (t,))
        for found, up, down in zip(tangents, f(a + 1e-6 * t), f(a - 1e-6 * t)):
            np.testing.assert_allclose(found, (up - down) / 2e-6, atol=1e-6)
        outs, pull = curta.vjp(f, a)
        cts = [np.cos(np.arange(x.size)).reshape(x.shape).astype(dtype) for x in outs]
        (back,) = pull(type(outs)(*cts))
        forward = sum(np.sum(c * x) for c, x in zip(cts, tangents, strict=True))
        np.testing.assert_allclose(np.real(np.sum(back * t)), np.real(forward))


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("size", [2, 3, 17])
def test_singular_values_of_what_is_not_finite_are_nan(bad, size):
    a = np.eye(size, dtype=np.float32)[None].repeat(2, 0)
    a[1, 0, size - 1] = bad
    for fun in (jnp.linalg.svd, curta.jit(jnp.linalg.svd)):
        for x in fun(a):
            assert np.isfinite(x[0]).all() and np.isnan(x[1]).all()
    assert np.isnan(curta.jit(jnp.linalg.pinv)(a[1])).all()
