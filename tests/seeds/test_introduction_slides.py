"""The examples of the slides of April 16, 2024 ("What is JAX?").

Where the slides show what older releases printed, the test says what holds today.
"""

import numpy as np
import pytest

import curta as jax
import curta.numpy as jnp
from curta import grad, jit, lax, random


def cond_func(x):
    if x < 0.0:
        return x**2.0
    else:
        return x**3.0


class TestNumpyApi:
    """Slides of April 16, 2024: "The NumPy API"."""

    def test_array(self):
        """Slides of April 16, 2024, "The NumPy API": an array from tuples."""
        assert str(jnp.array([(1, 2, 3), (4, 5, 6)])) == "[[1 2 3]\n [4 5 6]]"

    def test_arange(self):
        """Slides of April 16, 2024, "The NumPy API": a range."""
        assert str(jnp.arange(5)) == "[0 1 2 3 4]"

    def test_zeros(self):
        """Slides of April 16, 2024, "The NumPy API": zeros."""
        assert str(jnp.zeros(2)) == "[0. 0.]"

    def test_linspace(self):
        """Slides of April 16, 2024, "The NumPy API": nine points from 0 to 2."""
        expected = "[0.   0.25 0.5  0.75 1.   1.25 1.5  1.75 2.  ]"
        assert str(jnp.linspace(0, 2, 9)) == expected


class TestNotNumpy:
    """Slides of April 16, 2024: "But JAX NumPy is not NumPy…"."""

    def test_types(self):
        """Slides of April 16, 2024, "Different types"."""
        assert type(jnp.zeros((2, 3))) is not np.ndarray
        assert isinstance(jnp.zeros((2, 3)), jax.Array)

    def test_default_dtype(self):
        """Slides of April 16, 2024, "Different default data types"."""
        assert repr(jnp.zeros((2, 3)).dtype) == "dtype('float32')"

    def test_immutable(self):
        """Slides of April 16, 2024, "Immutable arrays": assignment is refused."""
        a = jnp.arange(5)
        with pytest.raises(TypeError, match="Arrays are immutable"):
            a[0] = 9
        assert str(a) == "[0 1 2 3 4]"

    def test_at_set(self):
        """Slides of April 16, 2024, "Immutable arrays": `at[].set` makes a copy."""
        a = jnp.arange(5)
        b = a.at[0].set(9)
        assert str(b) == "[9 1 2 3 4]"
        assert str(a) == "[0 1 2 3 4]"

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_strict_input(self, kind):
        """Slides of April 16, 2024, "Strict input control"."""
        message = "sum requires ndarray or scalar arguments, got <class "
        with pytest.raises(TypeError, match=f"{message}'{kind.__name__}'>"):
            jnp.sum(kind([1.0, 2.0]))

    def test_out_of_bounds(self):
        """Slides of April 16, 2024, "Out of bounds indexing": the nearest element."""
        assert str(jnp.arange(5)[10]) == "4"


class TestRandom:
    """Slides of April 16, 2024: "PRNG"."""

    def test_key(self):
        """Slides of April 16, 2024, "PRNG": a key prints its two words."""
        assert str(random.PRNGKey(18)) == "[ 0 18]"

    def test_split_as_printed(self):
        """Slides of April 16, 2024, "PRNG": the words, by the older derivation."""
        with jax.threefry_partitionable(False):
            new_key1, new_key2 = random.split(random.PRNGKey(18))
        assert str(new_key1) == "[4197003906 1654466292]"
        assert str(new_key2) == "[1685972163 1654824463]"

    def test_split_today(self):
        """Slides of April 16, 2024, "PRNG": the words, by the default derivation."""
        new_key1, new_key2 = random.split(random.PRNGKey(18))
        assert str(new_key1) == "[4027907007 1756876250]"
        assert str(new_key2) == "[3953557796 1421509433]"

    def test_normal(self):
        """Slides of April 16, 2024, "PRNG": an array from the subkey."""
        key = random.PRNGKey(18)
        key, subkey = random.split(key)
        x = random.normal(subkey, (3, 2))
        assert x.shape == (3, 2) and x.dtype == jnp.float32
        np.testing.assert_array_equal(x, random.normal(subkey, (3, 2)))
        assert not np.array_equal(x, random.normal(key, (3, 2)))

    def test_block_until_ready(self):
        """Slides of April 16, 2024, "Benchmarking": waiting gives the array back."""
        x = jnp.ones(3)
        assert str(x.block_until_ready()) == "[1. 1. 1.]"


class TestJit:
    """Slides of April 16, 2024: "JIT compilation"."""

    def test_three_ways(self):
        """Slides of April 16, 2024, "JIT syntax": plain, called and decorated."""
        key = random.PRNGKey(8)
        key, subkey1, subkey2 = random.split(key, 3)
        a = random.normal(subkey1, (500, 500))
        b = random.normal(subkey2, (500, 500))

        def sum_squared_error(a, b):
            return jnp.sum((a - b) ** 2)

        @jit
        def decorated(a, b):
            return jnp.sum((a - b) ** 2)

        expected = np.sum((np.float64(a) - np.float64(b)) ** 2)
        sum_squared_error_jit = jit(sum_squared_error)
        for sse in (
            sum_squared_error(a, b),
            sum_squared_error_jit(a, b),
            jit(sum_squared_error)(a, b),
            decorated(a, b),
        ):
            assert sse.shape == ()
            np.testing.assert_allclose(sse, expected, rtol=1e-5)

    def test_branch_on_traced_value(self):
        """Slides of April 16, 2024, "Static vs traced variables": the error."""
        with pytest.raises(
            jax.errors.TracerBoolConversionError,
            match=r"Attempted boolean conversion of traced array with shape bool\[\]",
        ):
            jit(cond_func)(1.0)

    @pytest.mark.parametrize(
        "static", [{"static_argnums": (0,)}, {"static_argnames": "x"}]
    )
    def test_static_arguments(self, static):
        """Slides of April 16, 2024, "Static vs traced variables": the remedies."""
        compiled = jit(cond_func, **static)
        assert str(compiled(2.0)) == "8.0"
        assert str(compiled(-2.0)) == "4.0"

    def test_cond(self):
        """Slides of April 16, 2024, "Control flow primitives": a branch by `cond`."""

        def branches(predicate, x):
            return lax.cond(predicate, lambda x: x**2.0, lambda x: x**3.0, x)

        negative = branches(False, jnp.array([2.0]))
        assert repr(negative) == "Array([8.], dtype=float32)"
        positive = branches(True, jnp.array([-2.0]))
        assert repr(positive) == "Array([4.], dtype=float32)"

    def test_other_control_flow(self):
        """Slides of April 16, 2024, "Control flow primitives": the others it names."""
        assert int(lax.while_loop(lambda i: i < 5, lambda i: i + 2, 0)) == 6
        assert int(lax.fori_loop(0, 4, lambda i, x: x + i, 0)) == 6
        total, sums = lax.scan(lambda c, x: (c + x, c + x), 0, jnp.arange(4))
        assert (int(total), str(sums)) == (6, "[0 1 3 6]")
        x = jnp.array([-1.0, 2.0])
        assert str(lax.select(x > 0, x, 10 * x)) == "[-10.   2.]"
        assert str(jnp.where(x > 0, x, 10 * x)) == "[-10.   2.]"
        assert str(jnp.select([x > 0, x < 0], [x, 10 * x])) == "[-10.   2.]"
        doubled_or_not = [lambda x: x, lambda x: 2 * x]
        assert str(lax.switch(1, doubled_or_not, x)) == "[-2.  4.]"
        assert str(jnp.piecewise(x, [x < 0], [0.0, 1.0])) == "[0. 1.]"

    def test_traced_shape(self):
        """Slides of April 16, 2024, "Static vs traced operations": the error."""

        @jit
        def f(x):
            return x.reshape(jnp.array(x.shape).prod())

        with pytest.raises(TypeError) as raised:
            f(jnp.ones((2, 3)))
        said = str(raised.value)
        assert said.startswith(
            "Shapes must be 1D sequences of concrete values of integer type, got"
            " [JitTracer(int32[])].\nIf using `jit`, try using `static_argnums` or"
            " applying `jit` to smaller subfunctions.\nThe error occurred while tracing"
        )
        assert "operation a:i32[] = reduce_prod[axes=(0,)" in said

    def test_static_shape(self):
        """Slides of April 16, 2024, "Static vs traced operations": the remedy."""

        @jit
        def f(x):
            return x.reshape(np.prod(x.shape))

        assert str(f(jnp.ones((2, 3)))) == "[1. 1. 1. 1. 1. 1.]"


class TestPurity:
    """Slides of April 16, 2024: "Functionally pure functions"."""

    def test_jaxpr(self):
        """Slides of April 16, 2024, "Jaxprs": literals now print their types."""

        def f(x, y):
            return 2 * x**2 + y

        x = jnp.array([1.0, 4.0, 3.0])
        y = jnp.array([8.0, 1.0, 2.0])
        assert str(jax.make_jaxpr(f)(x, y)) == (
            "{ lambda ; a:f32[3] b:f32[3]. let\n"
            "    c:f32[3] = integer_pow[y=2] a\n"
            "    d:f32[3] = mul 2.0:f32[] c\n"
            "    e:f32[3] = add d b\n"
            "  in (e,) }"
        )

    def test_outside_value_is_frozen(self):
        """Slides of April 16, 2024, "Outputs only based on inputs"."""
        a = jnp.ones(3)

        def f(x):
            return a + x

        assert str(jit(f)(jnp.ones(3))) == "[2. 2. 2.]"
        a = jnp.zeros(3)
        assert str(jit(f)(jnp.ones(3))) == "[2. 2. 2.]"
        a = jnp.zeros(4)
        assert str(jit(f)(jnp.ones(4))) == "[1. 1. 1. 1.]"

    def test_side_effect_while_tracing_only(self, capsys):
        """Slides of April 16, 2024, "No side effects"."""

        def f(a, b):
            print("Calculating sum")
            return a + b

        print(jit(f)(jnp.arange(3), jnp.arange(3)))
        assert capsys.readouterr().out == "Calculating sum\n[0 2 4]\n"
        print(jit(f)(jnp.arange(3), jnp.arange(3)))
        assert capsys.readouterr().out == "[0 2 4]\n"


class TestDerivatives:
    """Slides of April 16, 2024: "Other transformations"."""

    @staticmethod
    def f(x):
        return x**3 + 2 * x**2 - 3 * x + 8

    def test_grad(self):
        """Slides of April 16, 2024, "Automatic differentiation"."""
        assert str(grad(self.f)(1.0)) == "4.0"

    def test_composed(self):
        """Slides of April 16, 2024, "Composing transformations"."""
        assert str(jit(grad(self.f))(1.0)) == "4.0"
        assert str(grad(jit(self.f))(1.0)) == "4.0"

    def test_forward_and_reverse(self):
        """Slides of April 16, 2024, "Forward and reverse modes"."""
        value, tangent = jax.jvp(self.f, (1.0,), (1.0,))
        assert (float(value), float(tangent)) == (8.0, 4.0)
        value, pullback = jax.vjp(self.f, 1.0)
        assert (float(value), float(pullback(1.0)[0])) == (8.0, 4.0)

    def test_higher_order(self):
        """Slides of April 16, 2024, "Higher-order differentiation": one variable."""
        d2fdx = grad(grad(self.f))
        d3fdx = grad(d2fdx)
        assert str(d2fdx(1.0)) == "10.0"
        assert str(d3fdx(1.0)) == "6.0"

    def test_jacobians(self):
        """Slides of April 16, 2024, "Higher-order differentiation": several."""

        def f(x):
            return jnp.stack([x[0] * x[1], x[0] ** 2])

        x = jnp.array([2.0, 3.0])
        for jacobian in (jax.jacfwd, jax.jacrev):
            assert str(jacobian(f)(x)) == "[[3. 2.]\n [4. 0.]]"
        assert str(jax.jacfwd(jax.jacrev(f))(x)[1]) == "[[2. 0.]\n [0. 0.]]"
