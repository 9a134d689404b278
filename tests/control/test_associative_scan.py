"""associative_scan, and map in batches."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import grad, jit, lax, vmap


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
def test_associative_scan_of_sums(size, axis, reverse, compiled):
    x = np.random.default_rng(0).integers(-9, 9, (size, 3) if axis == 0 else (3, size))

    def prefixes(x):
        return lax.associative_scan(jnp.add, x, reverse, axis)

    turned = np.flip(x, axis) if reverse else x
    want = np.cumsum(turned, axis)
    found = (jit(prefixes) if compiled else prefixes)(jnp.asarray(x))
    np.testing.assert_array_equal(found, np.flip(want, axis) if reverse else want)


def test_associative_scan_of_trees_matrices_and_flags():
    def linear(f, g):
        return f[0] * g[0], f[1] * g[0] + g[1]

    a, b = np.float32([1, 2, 0.5, 3, 1.5]), np.float32([1, -1, 2, 0, 1])
    value, want = 0.0, []
    for slope, offset in zip(a, b, strict=True):
        value = slope * value + offset
        want.append(value)
    _, found = lax.associative_scan(linear, (jnp.array(a), jnp.array(b)))
    np.testing.assert_allclose(found, want, rtol=1e-6)
    mats = np.arange(20.0, dtype=np.float32).reshape(5, 2, 2) / 10
    found = lax.associative_scan(jnp.matmul, jnp.array(mats))
    want = [np.linalg.multi_dot([np.eye(2), *mats[: i + 1]]) for i in range(5)]
    np.testing.assert_allclose(found, want, rtol=1e-4)
    flags = jnp.array([False, True, False])
    np.testing.assert_array_equal(
        lax.associative_scan(jnp.logical_or, flags), [False, True, True]
    )


def test_associative_scan_is_transformed():
    def total(x):
        return lax.associative_scan(jnp.multiply, x).sum()

    x = jnp.arange(1.0, 6.0)
    np.testing.assert_allclose(jit(grad(total))(x), [153, 76, 50, 36, 24])
    np.testing.assert_allclose(vmap(total)(jnp.stack([x, x])), [153, 153])


@pytest.mark.parametrize("batch_size", [0, 1, 2, 3, 4, 7, 9])
def test_map_in_batches(batch_size):
    shapes = []

    def square(x):
        shapes.append(x["a"].shape)
        return {"b": x["a"] ** 2}

    x = np.arange(14.0, dtype=np.float32).reshape(7, 2)
    found = lax.map(square, {"a": jnp.array(x)}, batch_size=batch_size)
    np.testing.assert_array_equal(found["b"], x**2)
    assert set(shapes) == {(2,)}


def test_associative_scan_errors():
    x = jnp.ones((3, 2))
    with pytest.raises(TypeError, match="fn argument should be callable, got 3"):
        lax.associative_scan(3, x)
    with pytest.raises(ValueError, match="must have the same first dimension"):
        lax.associative_scan(jnp.add, (x, x[:2]))
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        lax.associative_scan(jnp.add, x, axis=2)
    with pytest.raises(ValueError, match="without arrays"):
        lax.associative_scan(jnp.add, ())


def test_associative_scan_prints_slices_and_pads():
    jaxpr = curta.make_jaxpr(lambda x: lax.associative_scan(jnp.add, x))(jnp.ones(3))
    names = [e.primitive.name for e in jaxpr.eqns]
    want = "slice slice add slice add slice concatenate pad pad add"
    assert names == want.split()
