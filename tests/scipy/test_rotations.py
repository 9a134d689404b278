"""Rotations and their interpolation against SciPy."""

import numpy as np
import pytest
from scipy.spatial import transform

import curta
from curta.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
QUATS = [RNG.normal(size=4), RNG.normal(size=(6, 4))]


@pytest.fixture(autouse=True)
def double():
    with curta.enable_x64(True):
        yield


@pytest.mark.parametrize("quat", QUATS, ids=["one", "many"])
def test_forms(quat):
    got, want = Rotation.from_quat(quat), transform.Rotation.from_quat(quat)
    for form in "as_quat", "as_matrix", "as_rotvec", "as_mrp", "magnitude":
        np.testing.assert_allclose(
            getattr(got, form)(), getattr(want, form)(), atol=1e-12, err_msg=form
        )
    np.testing.assert_allclose(got.as_rotvec(True), want.as_rotvec(True), atol=1e-9)
    for options in ({"canonical": True}, {"scalar_first": True}):
        mine, theirs = got.as_quat(**options), want.as_quat(**options)
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    again = [
        Rotation.from_matrix(got.as_matrix()),
        Rotation.from_rotvec(got.as_rotvec()),
        Rotation.from_rotvec(got.as_rotvec(degrees=True), degrees=True),
        Rotation.from_mrp(got.as_mrp()),
        Rotation.from_euler("ZYX", got.as_euler("ZYX")),
    ]
    for rotation in again:
        np.testing.assert_allclose(rotation.as_matrix(), got.as_matrix(), atol=1e-12)


@pytest.mark.parametrize("seq", ["x", "ZX", "xyz", "XYZ", "zxz", "ZXZ", "yzx", "YXY"])
def test_euler_angles(seq):
    angles = RNG.uniform(-1.5, 1.5, (7, len(seq)))
    got = Rotation.from_euler(seq, angles)
    want = transform.Rotation.from_euler(seq, angles)
    np.testing.assert_allclose(got.as_matrix(), want.as_matrix(), atol=1e-12)
    if len(seq) == 3:
        for degrees in False, True:
            mine, theirs = got.as_euler(seq, degrees), want.as_euler(seq, degrees)
            np.testing.assert_allclose(mine, theirs, atol=1e-9)


@pytest.mark.parametrize("seq", ["xyz", "XYZ", "zxz", "ZXZ"])
def test_gimbal_lock(seq):
    middle = 0.0 if seq[0] == seq[2] else np.pi / 2
    locked = Rotation.from_euler(seq, np.array([0.3, middle, 0.5]))
    again = Rotation.from_euler(seq, locked.as_euler(seq))
    np.testing.assert_allclose(again.as_matrix(), locked.as_matrix(), atol=1e-6)


def test_products():
    p, q = RNG.normal(size=(5, 4)), RNG.normal(size=(5, 4))
    got = Rotation.from_quat(p) * Rotation.from_quat(q).inv()
    want = transform.Rotation.from_quat(p) * transform.Rotation.from_quat(q).inv()
    np.testing.assert_allclose(got.as_matrix(), want.as_matrix(), atol=1e-12)
    vectors = RNG.normal(size=(5, 3))
    for inverse in False, True:
        mine, theirs = got.apply(vectors, inverse), want.apply(vectors, inverse)
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    mean, theirs = got.mean(np.arange(1.0, 6)), want.mean(np.arange(1.0, 6))
    np.testing.assert_allclose(mean.as_matrix(), theirs.as_matrix(), atol=1e-9)
    assert len(Rotation.concatenate([got, got])) == 10
    np.testing.assert_array_equal(Rotation.identity().as_matrix(), np.eye(3))


def test_slerp():
    times, quats = np.array([0.0, 1, 3]), RNG.normal(size=(3, 4))
    at = np.array([0.0, 0.3, 1, 2.5, 3])
    got = Slerp.init(times, Rotation.from_quat(quats))
    want = transform.Slerp(times, transform.Rotation.from_quat(quats))
    np.testing.assert_allclose(got(at).as_matrix(), want(at).as_matrix(), atol=1e-12)
    assert got(0.5).single


def test_derivative_at_the_identity():
    slope = curta.jacobian(lambda v: Rotation.from_rotvec(v).as_quat())(np.zeros(3))
    np.testing.assert_allclose(slope, [[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5], [0] * 3])


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: Rotation.from_euler("abc", 1.0),
            ValueError,
            "Expected axes from `seq`",
        ),
        (lambda: Rotation.from_euler("xx", 1.0), ValueError, "axes to be different"),
        (
            lambda: Rotation.from_euler("xyzx", 1.0),
            ValueError,
            "non-empty string of upto",
        ),
        (lambda: Rotation.identity()[0], TypeError, "is not subscriptable"),
        (lambda: len(Rotation.identity()), TypeError, "has no len"),
        (lambda: Rotation.identity().as_euler("xy"), ValueError, "Expected 3 axes"),
        (lambda: Rotation.random(None), NotImplementedError, "Rotation.from_quat"),
        (
            lambda: Slerp.init([0], Rotation.identity()),
            ValueError,
            "at least 2 rotations",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()
