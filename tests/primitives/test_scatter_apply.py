"""`lax.scatter_apply`."""

import numpy as np
import pytest

import curta
from curta import lax

ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
X = np.arange(6.0, dtype=np.float32).reshape(3, 2)


def applied(x, places, **options):
    return lax.scatter_apply(
        x, places, lambda y: y * 2 + 1, ROWS, update_shape=(len(places), 2), **options
    )


@pytest.mark.parametrize("places", [[0, 2], [1, 1, 1], [2, 9]])
def test_applies_once_for_each_index(places):
    wanted = X.copy()
    for i in places:
        if i < 3:
            wanted[i] = wanted[i] * 2 + 1
    indices = np.array(places, np.int32)[:, None]
    np.testing.assert_array_equal(applied(X, indices), wanted)
    np.testing.assert_array_equal(curta.jit(applied)(X, indices), wanted)


def test_clipped_indices():
    out = applied(X, np.array([[9]]), mode="clip")
    np.testing.assert_array_equal(out, [X[0], X[1], X[2] * 2 + 1])


def test_batches():
    several = np.stack([X, X + 1])
    indices = np.array([[[0], [1]], [[2], [2]]], np.int32)
    for axes in (0, 0), (0, None), (None, 0):
        xs = [a if d == 0 else a[0] for a, d in zip((several, indices), axes)]
        out = curta.vmap(applied, axes)(*xs)
        for i in range(2):
            one = [a[i] if d == 0 else a for a, d in zip(xs, axes)]
            np.testing.assert_array_equal(out[i], applied(*one))


def test_jaxpr_and_derivative():
    indices = np.array([[0]])
    (eqn,) = curta.make_jaxpr(lambda x: applied(x, indices))(X).eqns[-1:]
    assert eqn.primitive.name == "scatter" and "update_jaxpr" in str(eqn)
    with pytest.raises(NotImplementedError, match="scatter_apply JVP not implemented"):
        curta.grad(lambda x: applied(x, indices).sum())(X)
