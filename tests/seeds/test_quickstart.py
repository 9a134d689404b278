"""The examples of "Quickstart: How to think in JAX".

All but the plot of "JAX vs. NumPy" and the timings, which depend on the machine.
"""

from functools import partial

import numpy as np
import pytest

import curta as jax
import curta.numpy as jnp
from curta import grad, jacfwd, jacobian, jacrev, jit, make_jaxpr, random, vmap


@pytest.fixture(scope="module")
def document_numbers():
    """NumPy's numbers, drawn in the order in which the document draws them."""
    generator = np.random.RandomState(1701)
    return {
        "X": generator.rand(10000, 10),
        "negatives": generator.randn(10),
        "first": (generator.randn(3, 4), generator.randn(4)),
        "second": (generator.randn(3, 4), generator.randn(4)),
    }


class TestNumpy:
    """Quickstart: "JAX vs. NumPy"."""

    def test_familiar_program(self):
        """Quickstart, "JAX vs. NumPy": arrays that a plotting library can read."""
        x_jnp = jnp.linspace(0, 10, 1000)
        y_jnp = 2 * jnp.sin(x_jnp) * jnp.cos(x_jnp)
        expected = np.sin(2 * np.linspace(0, 10, 1000))
        np.testing.assert_allclose(np.asarray(y_jnp), expected, atol=3e-6)

    def test_different_types(self):
        """Quickstart, "JAX vs. NumPy": the arrays are of another Python type."""
        x_jnp = jnp.linspace(0, 10, 1000)
        assert type(x_jnp) is not np.ndarray
        assert type(x_jnp).__name__ == "ArrayImpl"

    def test_immutable(self):
        """Quickstart, "JAX vs. NumPy": the error of an assignment."""
        x = jnp.arange(10)
        message = (
            "Arrays are immutable and do not support in-place item assignment. "
            "Instead of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method"
        )
        with pytest.raises(TypeError) as error:
            x[0] = 10
        assert str(error.value).startswith(message)

    def test_indexed_update(self):
        """Quickstart, "JAX vs. NumPy": an updated copy."""
        x = jnp.arange(10)
        y = x.at[0].set(10)
        assert str(x) == "[0 1 2 3 4 5 6 7 8 9]"
        assert str(y) == "[10  1  2  3  4  5  6  7  8  9]"


class TestArrays:
    """Quickstart: "JAX arrays (jax.Array)"."""

    def test_isinstance(self):
        """Quickstart, "Array creation"."""
        assert isinstance(jnp.arange(5), jax.Array)

    def test_devices(self):
        """Quickstart, "Array devices and sharding": a set of one device."""
        assert str(jnp.arange(5).devices()) == "{CpuDevice(id=0)}"

    def test_sharding(self):
        """Quickstart, "Array devices and sharding": on a single device."""
        assert str(jnp.arange(5).sharding) == (
            "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)"
        )


def norm(X):
    X = X - X.mean(0)
    return X / X.std(0)


def get_negatives(x):
    return x[x < 0]


class TestJit:
    """Quickstart: "Just-in-time compilation with jax.jit"."""

    def test_same_results(self, document_numbers):
        """Quickstart, "Just-in-time compilation": plain and compiled agree."""
        norm_compiled = jit(norm)
        X = jnp.array(document_numbers["X"])
        assert np.allclose(norm(X), norm_compiled(X), atol=1e-6)
        norm_compiled(X).block_until_ready()

    def test_boolean_mask(self, document_numbers):
        """Quickstart, "Just-in-time compilation": a size that depends on values."""
        x = jnp.array(document_numbers["negatives"])
        assert repr(get_negatives(x)) == (
            "Array([-0.10570311, -0.59403396, -0.8680282 , -0.23489487], dtype=float32)"
        )

    def test_boolean_mask_under_jit(self, document_numbers):
        """Quickstart, "Just-in-time compilation": and its error under `jit`."""
        x = jnp.array(document_numbers["negatives"])
        with pytest.raises(
            jax.errors.NonConcreteBooleanIndexError,
            match=r"Array boolean indices must be concrete; got bool\[10\]",
        ):
            jit(get_negatives)(x)


class TestTracing:
    """Quickstart: "JIT mechanics: tracing and static variables"."""

    def test_printing_tracers(self, capsys, document_numbers):
        """Quickstart, "JIT mechanics": prints once, and tracers, not values."""

        @jit
        def f(x, y):
            print("Running f():")
            print(f"  x = {x}")
            print(f"  y = {y}")
            result = jnp.dot(x + 1, y + 1)
            print(f"  result = {result}")
            return result

        result = f(*document_numbers["first"])
        assert capsys.readouterr().out == (
            "Running f():\n"
            "  x = JitTracer<float32[3,4]>\n"
            "  y = JitTracer<float32[4]>\n"
            "  result = JitTracer<float32[3]>\n"
        )
        np.testing.assert_allclose(result, [0.25773212, 5.3623195, 5.403243], rtol=2e-6)
        result = f(*document_numbers["second"])
        assert capsys.readouterr().out == ""
        np.testing.assert_allclose(result, [1.4344584, 4.3004413, 7.9897013], rtol=2e-6)

    def test_jaxpr(self, document_numbers):
        """Quickstart, "JIT mechanics": the recorded sequence of operations."""

        def f(x, y):
            return jnp.dot(x + 1, y + 1)

        assert str(make_jaxpr(f)(*document_numbers["first"])) == (
            "{ lambda ; a:f32[3,4] b:f32[4]. let\n"
            "    c:f32[3,4] = add a 1.0:f32[]\n"
            "    d:f32[4] = add b 1.0:f32[]\n"
            "    e:f32[3] = dot_general[\n"
            "      dimension_numbers=(([1], [0]), ([], []))\n"
            "      preferred_element_type=float32\n"
            "    ] c d\n"
            "  in (e,) }"
        )

    def test_branch_on_traced_value(self):
        """Quickstart, "JIT mechanics": the error names function and argument."""

        @jit
        def f(x, neg):
            return -x if neg else x

        with pytest.raises(jax.errors.TracerBoolConversionError) as error:
            f(1, True)
        first, second, *_ = str(error.value).splitlines()
        assert first == (
            "Attempted boolean conversion of traced array with shape bool[]."
        )
        assert second.startswith("The error occurred while tracing the function f at ")
        assert second.endswith(
            "for jit. This concrete value was not available in Python because it "
            "depends on the value of the argument neg."
        )

    def test_static_argument(self):
        """Quickstart, "JIT mechanics": compiled for each static value."""

        @partial(jit, static_argnums=(1,))
        def f(x, neg):
            return -x if neg else x

        assert repr(f(1, True)) == "Array(-1, dtype=int32, weak_type=True)"
        assert repr(f(1, False)) == "Array(1, dtype=int32, weak_type=True)"


def sum_logistic(x):
    return jnp.sum(1.0 / (1.0 + jnp.exp(-x)))


class TestGrad:
    """Quickstart: "Taking derivatives with jax.grad"."""

    x_small = np.arange(3.0, dtype=np.float32)

    def test_gradient(self):
        """Quickstart, "Taking derivatives": of a sum of logistic functions."""
        result = grad(sum_logistic)(jnp.arange(3.0))
        np.testing.assert_allclose(result, [0.25, 0.19661197, 0.10499357], rtol=2e-6)

    def test_finite_differences(self):
        """Quickstart, "Taking derivatives": the check of the document."""

        def first_finite_differences(f, x, eps=1e-3):
            return jnp.array(
                [(f(x + eps * v) - f(x - eps * v)) / (2 * eps) for v in jnp.eye(len(x))]
            )

        result = first_finite_differences(sum_logistic, jnp.arange(3.0))
        # In float32 the difference quotient itself is known to 1e-4 only.
        np.testing.assert_allclose(
            result, [0.24998187, 0.1965761, 0.10502338], atol=3e-4
        )

    def test_third_derivative_through_jit(self):
        """Quickstart, "Taking derivatives": grad and jit, mixed."""
        result = grad(jit(grad(jit(grad(sum_logistic)))))(1.0)
        np.testing.assert_allclose(result, -0.0353256, rtol=1e-5)

    def test_jacobian(self):
        """Quickstart, "Taking derivatives": of a vector-valued function."""
        expected = np.diag([1.0, 2.7182817, 7.389056])
        result = jacobian(jnp.exp)(jnp.arange(3.0))
        np.testing.assert_allclose(result, expected, rtol=2e-7)

    def test_hessian(self):
        """Quickstart, "Taking derivatives": forward over reverse, compiled."""

        def hessian(fun):
            return jit(jacfwd(jacrev(fun)))

        result = hessian(sum_logistic)(jnp.arange(3.0))
        expected = np.diag([0.0, -0.09085776, -0.07996249])
        np.testing.assert_allclose(result, expected, rtol=2e-6)


class TestVmap:
    """Quickstart: "Auto-vectorization with jax.vmap()"."""

    def test_three_ways_of_batching(self):
        """Quickstart, "Auto-vectorization": by a loop, by hand and by `vmap`."""
        key1, key2 = random.split(random.key(1701))
        mat = random.normal(key1, (150, 100))
        batched_x = random.normal(key2, (10, 100))

        def apply_matrix(x):
            return jnp.dot(mat, x)

        def naively_batched_apply_matrix(v_batched):
            return jnp.stack([apply_matrix(v) for v in v_batched])

        @jit
        def batched_apply_matrix(batched_x):
            return jnp.dot(batched_x, mat.T)

        @jit
        def vmap_batched_apply_matrix(batched_x):
            return vmap(apply_matrix)(batched_x)

        naive = naively_batched_apply_matrix(batched_x)
        assert naive.shape == (10, 150)
        for batched in (batched_apply_matrix, vmap_batched_apply_matrix):
            np.testing.assert_allclose(naive, batched(batched_x), atol=1e-4, rtol=1e-4)


class TestRandom:
    """Quickstart: "Pseudorandom numbers"."""

    def test_key(self):
        """Quickstart, "Pseudorandom numbers": how a key prints."""
        expected = "Array((), dtype=key<fry>) overlaying:\n[ 0 43]"
        assert str(random.key(43)) == expected

    def test_key_is_not_modified(self):
        """Quickstart, "Pseudorandom numbers": the same key, the same sample."""
        key = random.key(43)
        first, second = random.normal(key), random.normal(key)
        assert str(first) == str(second)
        np.testing.assert_allclose(first, 0.07520543, rtol=2e-6)

    def test_draws(self):
        """Quickstart, "Pseudorandom numbers": a new subkey for each draw."""
        key = random.key(43)
        draws = []
        for i in range(3):
            new_key, subkey = random.split(key)
            val = random.normal(subkey)
            draws.append(float(f"{val}"))
            key = new_key
            assert f"draw {i}: {val}" == f"draw {i}: {float(val)}"
        expected = [-1.9133632183074951, -1.4749839305877686, -0.36703771352767944]
        np.testing.assert_allclose(draws, expected, rtol=2e-6)
