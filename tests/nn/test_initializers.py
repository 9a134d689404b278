"""Initializers draw what JAX draws, with the variance they promise."""

import numpy as np
import pytest

from curta import nn, random

INIT = nn.initializers
KEY = random.key(0)
DRAWS = {
    "uniform": [0.00947667, 0.0097858, 0.00332291, 0.00468668],
    "normal": [0.0162264, 0.0202526, -0.00433594, -0.000786173],
    "truncated_normal": [0.0145596, 0.0171475, -0.00412675, -0.000750334],
    "glorot_uniform": [1.09656, 1.17228, -0.4108, -0.0767463],
    "glorot_normal": [1.17041, 1.37844, -0.331738, -0.0603173],
    "lecun_uniform": [1.09656, 1.17228, -0.4108, -0.0767463],
    "lecun_normal": [1.17041, 1.37844, -0.331738, -0.0603173],
    "he_uniform": [1.55076, 1.65785, -0.580959, -0.108536],
    "he_normal": [1.6552, 1.94941, -0.469149, -0.0853016],
    "orthogonal": [0.966103, 0.258157, -0.258157, 0.966103],
}
CORRELATED = [3.29476, 4.62781]
ORTHOGONAL = [0.960837, -0.25675, 0.104271, 0.186048, 0.318811, -0.929379]


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_jaxs(name):
    drawn = getattr(INIT, name)()(KEY, (2, 2))
    np.testing.assert_allclose(np.ravel(drawn), DRAWS[name], 1e-4, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("distribution", ["normal", "uniform", "truncated_normal"])
@pytest.mark.parametrize(
    "mode, count",
    [("fan_in", 90), ("fan_out", 360), ("fan_avg", 225), ("fan_geo_avg", 180)],
)
def test_variance_is_scale_over_the_count(mode, count, distribution, dtype):
    init = INIT.variance_scaling(2.0, mode, distribution)
    drawn = np.asarray(init(KEY, (3, 3, 10, 40), dtype))
    assert drawn.dtype == dtype
    assert np.mean(abs(drawn) ** 2) == pytest.approx(2 / count, rel=0.1)


def test_axes_of_the_batch_do_not_count():
    init = INIT.variance_scaling(1.0, "fan_in", "normal", 1, 2, batch_axis=0)
    assert np.var(init(KEY, (40, 5, 50))) == pytest.approx(1 / 5, rel=0.1)


def test_constants():
    assert np.asarray(INIT.zeros(KEY, (2,), "int32")).tolist() == [0, 0]
    assert np.asarray(INIT.ones(KEY, (2,))).tolist() == [1, 1]
    assert np.asarray(INIT.constant(np.arange(1, 3))(KEY, (2, 2))).tolist() == [
        [1, 2],
        [1, 2],
    ]


@pytest.mark.parametrize("shape, axis", [((6, 3), -1), ((3, 6), -1), ((3, 2, 3), 0)])
def test_orthogonal(shape, axis):
    q = np.asarray(INIT.orthogonal(2.0, axis)(KEY, shape))
    assert q.shape == shape
    q = np.moveaxis(q, axis, -1).reshape(-1, shape[axis])
    gram = q @ q.T if q.shape[0] < q.shape[1] else q.T @ q
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)


@pytest.mark.parametrize("spatial", [(3,), (3, 4), (3, 4, 5)])
def test_delta_orthogonal_is_zero_but_at_the_centre(spatial):
    kernel = np.asarray(INIT.delta_orthogonal()(KEY, (*spatial, 2, 3)))
    centre = tuple((k - 1) // 2 for k in spatial)
    q = kernel[centre]
    np.testing.assert_allclose(q @ q.T, np.eye(2), atol=1e-5)
    assert np.count_nonzero(kernel) == np.count_nonzero(q)


def test_normal_vectors_and_orthogonal_matrices_of_random():
    cov = np.array([[2, 1], [1, 2]], np.float32)
    drawn = random.multivariate_normal(KEY, np.ones(2, np.float32), cov)
    np.testing.assert_allclose(drawn, CORRELATED, 1e-4)
    drawn = np.ravel(random.orthogonal(KEY, 2, m=3))
    np.testing.assert_allclose(drawn, ORTHOGONAL, 1e-4)
    for method in ("cholesky", "eigh", "svd"):
        mean = np.zeros(2, np.float32)
        many = random.multivariate_normal(KEY, mean, cov, (5000,), method=method)
        np.testing.assert_allclose(np.cov(np.asarray(many).T), cov, atol=0.15)
    unitary = np.asarray(random.orthogonal(KEY, 3, (2,), "complex64"))
    product = unitary @ unitary.conj().swapaxes(-1, -2)
    np.testing.assert_allclose(product, [np.eye(3)] * 2, atol=1e-5)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: INIT.he_normal()(KEY, (3,)), "Can't compute input and output sizes"),
        (lambda: INIT.variance_scaling(1, "x", "normal")(KEY, (2, 2)), "invalid mode"),
        (
            lambda: INIT.variance_scaling(1, "fan_in", "x")(KEY, (2, 2)),
            "invalid distribution",
        ),
        (lambda: INIT.orthogonal()(KEY, (3,)), "at least a 2D shape"),
        (lambda: INIT.delta_orthogonal()(KEY, (3, 3)), "requires a 3D, 4D or 5D"),
        (lambda: INIT.delta_orthogonal()(KEY, (3, 3, 2)), "`fan_in` must be less"),
        (
            lambda: random.multivariate_normal(KEY, np.ones(2), np.eye(3)),
            "cov.shape ==",
        ),
        (
            lambda: random.multivariate_normal(KEY, np.ones(2), np.eye(2), method="x"),
            "method must be one of",
        ),
    ],
)
def test_mistakes(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    ("name", "variance", "bound"),
    [
        ("kaiming_normal", 2 / 300, None),
        ("kaiming_uniform", 2 / 300, (6 / 300) ** 0.5),
        ("xavier_normal", 2 / 500, None),
        ("xavier_uniform", 2 / 500, (6 / 500) ** 0.5),
    ],
)
def test_kaiming_and_xavier_have_their_variances(name, variance, bound):
    draw = getattr(INIT, name)()
    assert isinstance(draw, INIT.Initializer)
    x = np.asarray(draw(random.key(0), (300, 200)))
    np.testing.assert_allclose(x.var(), variance, rtol=0.03)
    np.testing.assert_allclose(x.mean(), 0, atol=4 * (variance / x.size) ** 0.5)
    if bound is not None:
        assert 0.99 * bound < np.abs(x).max() <= bound
