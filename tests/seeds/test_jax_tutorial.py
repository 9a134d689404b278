"""The examples of "JAX tutorial".

Moved names are used at their new place: `config` is at the top level, and `arr.device`
is an attribute.
"""

import functools
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

import curta as jax
import curta.numpy as jnp
from curta import random


def mse_loss(x, y):
    return jnp.mean((x - y) ** 2)


X = np.array([1, 2, 3], np.float32)
Y = np.zeros(3, np.float32)


def test_array_attributes():
    """JAX tutorial, "jax.numpy": shape, size, dtype and device."""
    for make in (jnp.array, jnp.asarray):
        arr = make([1, 2, 3], dtype=jnp.float32)
        assert arr.shape == (3,)
        assert arr.size == 3
        assert arr.dtype == np.float32
        assert str(arr.devices()) == "{CpuDevice(id=0)}"
        assert arr.device in arr.devices()


def test_immutable():
    """JAX tutorial, "jax.numpy": no item assignment, but `at[].set`."""
    arr = jnp.array([1, 2, 3], dtype=jnp.float32)
    with pytest.raises(TypeError, match=r"x\.at\[idx\]\.set\(y\)"):
        arr[0] = 0
    assert str(arr.at[0].set(0)) == "[0. 2. 3.]"


def test_gradient():
    """JAX tutorial, "jax.grad": by the first argument, by both, with the value."""
    x, y = jnp.asarray(X), jnp.asarray(Y)
    np.testing.assert_allclose(jax.grad(mse_loss)(x, y), 2 * X / 3, rtol=1e-6)
    x_grad, y_grad = jax.grad(mse_loss, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(x_grad, 2 * X / 3, rtol=1e-6)
    np.testing.assert_allclose(y_grad, -2 * X / 3, rtol=1e-6)
    loss, x_grad = jax.value_and_grad(mse_loss)(x, y)
    np.testing.assert_allclose(loss, 14 / 3, rtol=1e-6)
    np.testing.assert_allclose(x_grad, 2 * X / 3, rtol=1e-6)


def test_gradient_with_aux():
    """JAX tutorial, "jax.grad": scalar outputs only, or `has_aux`."""

    def loss_aux(x, y):
        return mse_loss(x, y), x - y

    x, y = jnp.asarray(X), jnp.asarray(Y)
    with pytest.raises(TypeError, match="Gradient only defined for scalar-output"):
        jax.grad(loss_aux)(x, y)
    x_grad, aux = jax.grad(loss_aux, has_aux=True)(x, y)
    np.testing.assert_allclose(x_grad, 2 * X / 3, rtol=1e-6)
    np.testing.assert_array_equal(aux, X - Y)


def test_selu():
    """JAX tutorial, "jax.jit": selu of a million integers, plain and compiled."""

    def selu(x, alpha=1.67, lambda_=1.05):
        return lambda_ * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)

    x = jnp.arange(1000000)
    selu_jit = jax.jit(selu)
    expected = np.float32(1.05) * np.arange(1000000, dtype=np.float32)
    np.testing.assert_allclose(selu(x), expected, rtol=1e-6)
    np.testing.assert_allclose(selu_jit(x), expected, rtol=1e-6)
    np.testing.assert_allclose(selu_jit(x), expected, rtol=1e-6)


def f(x):
    return x if x > 0 else 0


def g(x, n):
    y = 0
    for i in range(n):
        y = y + x[i]
    return y


def test_branch_fails_under_jit():
    """JAX tutorial, "jax.jit": a branch on a traced value."""
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(f)(10)


def test_branch_works_under_grad():
    """JAX tutorial, "jax.jit": `grad` sees the value (which must not be an int)."""
    assert str(jax.grad(f)(10.0)) == "1.0"


def test_cond():
    """JAX tutorial, "jax.jit": `cond`, whose branches must agree in type."""

    def choose(predicate):
        return jax.lax.cond(predicate, lambda x: x, lambda x: 0, 10)

    assert str(choose(True)) == "10"
    assert str(choose(False)) == "0"
    with pytest.raises(TypeError, match="branches must have equal output types"):
        jax.lax.cond(True, lambda x: x, lambda x: 0, jnp.array([1.0]))


def test_branch_works_on_static_argument():
    """JAX tutorial, "jax.jit": the same function with its argument static."""
    assert str(jax.jit(f, static_argnums=(0,))(10)) == "10"


def test_traced_loop_count():
    """JAX tutorial, "jax.jit": a loop count must be static."""
    x = jnp.array([1.0, 2.0, 3.0])
    with pytest.raises(jax.errors.TracerIntegerConversionError):
        jax.jit(g)(x, 3)
    assert str(jax.jit(g, static_argnums=(1,))(x, 3)) == "6.0"


def test_loop_over_shape():
    """JAX tutorial, "jax.jit": a shape is static."""

    def g2(x):
        y = 0.0
        for i in range(x.shape[0]):
            y = y + x[i]
        return y

    assert str(jax.jit(g2)(jnp.array([1.0, 2.0, 3.0]))) == "6.0"


class TestVmap:
    """JAX tutorial: "vmap"."""

    @staticmethod
    def func(x, y):
        return x @ y

    x = np.array([1.0, 2.0, 3.0], np.float32)
    y = np.array([1.0, 0.0, 2.0], np.float32)

    def test_unbatched(self):
        """JAX tutorial, "vmap": the function of one example."""
        assert float(self.func(jnp.array(self.x), jnp.array(self.y))) == 7.0

    @pytest.mark.parametrize(
        "axes, transpose_x, transpose_y",
        [
            ({}, False, False),
            ({"in_axes": 1, "out_axes": 0}, True, True),
            ({"in_axes": (0, 1)}, False, True),
        ],
    )
    def test_axes(self, axes, transpose_x, transpose_y):
        """JAX tutorial, "vmap": batch axes of arguments."""
        xs = jnp.stack([self.x, 2 * self.x], axis=0)
        ys = jnp.stack([self.y, self.y], axis=0)
        xs = jnp.transpose(xs) if transpose_x else xs
        ys = jnp.transpose(ys) if transpose_y else ys
        assert str(jax.vmap(self.func, **axes)(xs, ys)) == "[ 7. 14.]"

    def test_out_axis(self):
        """JAX tutorial, "vmap": the batch axis of the result."""
        xs = jnp.stack([self.x, 2 * self.x], axis=0)
        doubled = jax.vmap(lambda x: 2 * x, in_axes=1, out_axes=1)(jnp.transpose(xs))
        np.testing.assert_array_equal(doubled, 2 * np.transpose(xs))

    def test_out_axis_of_scalars(self):
        """JAX tutorial, "vmap": a scalar result has only axis 0 to be stacked on."""
        xs = jnp.ones((3, 2))
        with pytest.raises(ValueError, match="axis 1 is out of bounds"):
            jax.vmap(self.func, in_axes=1, out_axes=1)(xs, xs)

    def test_broadcast(self):
        """JAX tutorial, "vmap": an argument that is not batched."""
        xs = jnp.stack([self.x, 2 * self.x], axis=0)
        out = jax.vmap(self.func, in_axes=(0, None))(xs, self.y)
        assert str(out) == "[ 7. 14.]"

    def test_arbitrary_order(self):
        """JAX tutorial, "vmap": `jit`, `vmap` and `grad` in any order."""
        xs = jnp.array([1.0, 2.0])
        for df in (
            jax.jit(jax.vmap(jax.grad(jnp.square))),
            jax.vmap(jax.jit(jax.grad(jnp.square))),
            jax.vmap(jax.grad(jax.jit(jnp.square))),
        ):
            assert str(df(xs)) == "[2. 4.]"


class TestRng:
    """JAX tutorial: "RNG"."""

    def test_key(self):
        """JAX tutorial, "RNG": a key is a two-element array."""
        assert str(random.PRNGKey(42)) == "[ 0 42]"

    def test_same_key_same_value(self):
        """JAX tutorial, "RNG": the value, by the older bits and by the default."""
        key = random.PRNGKey(42)
        with jax.threefry_partitionable(False):
            np.testing.assert_allclose(random.normal(key), -0.18471177, rtol=2e-6)
        np.testing.assert_allclose(random.normal(key), -0.028304616, rtol=2e-6)
        assert float(random.normal(key)) == float(random.normal(key))

    def test_split(self):
        """JAX tutorial, "RNG": a new key gives a new value."""
        key, subkey = random.split(random.PRNGKey(42))
        np.testing.assert_allclose(random.normal(subkey), 0.60576403, rtol=2e-6)
        with jax.threefry_partitionable(False):
            key, subkey = random.split(random.PRNGKey(42))
            np.testing.assert_allclose(random.normal(subkey), 1.3694694, rtol=2e-6)

    def test_many_subkeys(self):
        """JAX tutorial, "RNG": several keys at once."""
        subkeys = random.split(random.PRNGKey(42), num=10)
        assert subkeys.shape == (10, 2)
        assert len({tuple(k.tolist()) for k in subkeys}) == 10


class TestPytree:
    """JAX tutorial: "Pytree"."""

    def test_leaves(self):
        """JAX tutorial, "Pytree": how many leaves each example has."""
        array = jnp.array([1, 2, 3])
        thing = object()
        examples = [
            ([1, "a", thing], [1, "a", thing]),
            ((1, (2, 3), ()), [1, 2, 3]),
            ([1, {"k1": 2, "k2": (3, 4)}, 5], [1, 2, 3, 4, 5]),
            ({"a": 2, "b": (2, 3)}, [2, 2, 3]),
        ]
        for tree, leaves in examples:
            assert jax.tree_leaves(tree) == leaves
            assert jax.tree.leaves(tree) == leaves
        (leaf,) = jax.tree_leaves(array)
        assert leaf is array

    def test_map(self):
        """JAX tutorial, "Pytree": a function over one tree and over two."""
        tree = [[1, 2, 3], [1, 2], [1, 2, 3, 4]]
        doubled = [[2, 4, 6], [2, 4], [2, 4, 6, 8]]
        assert jax.tree_map(lambda x: x * 2, tree) == doubled
        assert jax.tree_multimap(lambda x, y: x + y, tree, tree) == doubled
        assert jax.tree.map(lambda x, y: x + y, tree, tree) == doubled

    def test_structures_must_agree(self):
        """JAX tutorial, "Pytree": the trees' structure must be the same."""
        with pytest.raises(ValueError):
            jax.tree_util.tree_map(lambda x, y: x + y, [1, 2], [1, 2, 3])

    def test_custom_container(self):
        """JAX tutorial, "Pytree": registering a class of one's own."""

        class Pair:
            def __init__(self, left, right):
                self.left, self.right = left, right

        jax.tree_util.register_pytree_node(
            Pair, lambda p: ((p.left, p.right), None), lambda _, c: Pair(*c)
        )
        pair = jax.tree_util.tree_map(lambda x: x + 1, Pair(1, [2]))
        assert (pair.left, pair.right) == (2, [3])

    def test_none_and_shapes(self):
        """JAX tutorial, "Pytree": None is empty, and a shape is a node."""
        assert jax.tree_leaves([None, None, None]) == []
        assert jax.tree_leaves(jnp.ones((2, 3)).shape) == [2, 3]


def test_devices():
    """JAX tutorial, "pmap": how many devices there are."""
    assert len(jax.devices()) == jax.local_device_count() >= 1


class Params(NamedTuple):
    weight: jax.Array
    bias: jax.Array


def test_pmap():
    """JAX tutorial, "pmap": a batch over all devices."""
    count = jax.local_device_count()
    xs = jnp.stack([jnp.array([1.0, 2.0, 3.0])] * count)
    ys = jnp.stack([jnp.array([1.0, 0.0, 2.0])] * count)
    assert jax.pmap(lambda x, y: x @ y)(xs, ys).tolist() == [7.0] * count


def normalized_convolution(x, w):
    output = []
    for i in range(1, len(x) - 1):
        output.append(jnp.dot(x[i - 1 : i + 2], w))
    output = jnp.array(output)
    return output / jax.lax.psum(output, axis_name="p")


def test_collective_over_devices():
    """JAX tutorial, "pmap": a sum over the mapped axis, by its name."""
    count = jax.local_device_count()
    xs, ws = jnp.ones((count, 5)), jnp.ones((count, 3))
    result = jax.pmap(normalized_convolution, axis_name="p")(xs, ws)
    np.testing.assert_allclose(result, np.full((count, 3), 1 / count), rtol=1e-6)


def test_collective_over_a_batch():
    """JAX tutorial, "pmap": the same function over an axis of `vmap`."""
    xs, ws = jnp.arange(15.0).reshape(3, 5), jnp.ones((3, 3))
    result = jax.vmap(normalized_convolution, axis_name="p")(xs, ws)
    sums = np.stack([np.convolve(x, np.ones(3), "valid") for x in np.asarray(xs)])
    np.testing.assert_allclose(result, sums / sums.sum(0), rtol=1e-6)


def test_pmap_within_vmap():
    """JAX tutorial, "pmap": nesting the two, in any order."""
    x = jnp.arange(6.0).reshape(2, 1, 3)
    inside = jax.vmap(jax.pmap(jnp.sin, axis_name="i"), axis_name="j")
    outside = jax.pmap(jax.vmap(jnp.sin, axis_name="i"), axis_name="j")
    np.testing.assert_allclose(inside(x), np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(outside(x.reshape(1, 2, 3))[0], inside(x)[:, 0])


def test_linear_regression():
    """JAX tutorial, "pmap": its example, on as many devices as there are."""

    def init(rng):
        weights_key, bias_key = jax.random.split(rng)
        return Params(
            jax.random.normal(weights_key, ()), jax.random.normal(bias_key, ())
        )

    def loss_fn(params, xs, ys):
        pred = params.weight * xs + params.bias
        return jnp.mean((pred - ys) ** 2)

    @functools.partial(jax.pmap, axis_name="num_devices")
    def update(params, xs, ys):
        loss, grads = jax.value_and_grad(loss_fn)(params, xs, ys)
        grads = jax.lax.pmean(grads, axis_name="num_devices")
        loss = jax.lax.pmean(loss, axis_name="num_devices")
        new_params = jax.tree_multimap(lambda p, g: p - g * 0.05, params, grads)
        return new_params, loss

    rng = np.random.default_rng(0)
    xs = rng.normal(size=(128, 1))
    ys = xs * 2 - 1 + 0.5 * rng.normal(size=(128, 1))
    count = jax.local_device_count()
    x_split, y_split = xs.reshape(count, -1, 1), ys.reshape(count, -1, 1)

    params = init(jax.random.PRNGKey(123))
    replicated = jax.tree_map(lambda x: jnp.array([x] * count), params)
    for _ in range(200):
        replicated, loss = update(replicated, x_split, y_split)
    params = jax.device_get(jax.tree_map(lambda x: x[0], replicated))
    slope, intercept = np.polyfit(xs[:, 0], ys[:, 0], 1)
    np.testing.assert_allclose(params.weight, slope, rtol=1e-4)
    np.testing.assert_allclose(params.bias, intercept, rtol=1e-4)
    assert float(loss[0]) < 0.3


def test_synchronisation():
    """JAX tutorial, "misc": waiting for a result."""
    a = jnp.ones((2, 2))
    assert str(jnp.dot(a, a).block_until_ready()) == "[[2. 2.]\n [2. 2.]]"


def test_debugging_nans():
    """JAX tutorial, "misc": a NaN raises an error where it arises."""
    jax.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\)"):
            jnp.log(jnp.array(-1.0))
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\)"):
            jax.jit(jnp.log)(-1.0)
    finally:
        jax.config.update("jax_debug_nans", False)


def test_float64_by_config():
    """JAX tutorial, "misc": float64 switched on in the program."""
    assert jnp.ones(2).dtype == jnp.float32
    jax.config.update("jax_enable_x64", True)
    try:
        assert jnp.ones(2).dtype == jnp.float64
    finally:
        jax.config.update("jax_enable_x64", False)


def test_float64_by_environment():
    """JAX tutorial, "misc": float64 switched on from outside."""
    program = "import curta.numpy as jnp; print(jnp.ones(2).dtype)"
    environment = os.environ | {"JAX_ENABLE_X64": "True"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "float64\n"
