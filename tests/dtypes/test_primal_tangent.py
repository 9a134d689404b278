"""Element types whose tangents have another type."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import grad, jit, lax, random
from curta.experimental import primal_tangent_dtype

QUANTISED = primal_tangent_dtype("int8", "float32")
W = np.linspace(0, 4, 5, dtype=np.float32)


def test_the_type():
    assert repr(QUANTISED) == "PrimalTangentDType{i8/f32}"
    assert QUANTISED == primal_tangent_dtype(jnp.int8, jnp.float32)
    assert primal_tangent_dtype("int8", "bfloat16") != QUANTISED
    assert repr(primal_tangent_dtype("int8", "float32", "q8")) == "q8"
    x = jnp.asarray(W).astype(QUANTISED)
    assert x.dtype == QUANTISED and str(curta.typeof(x)) == f"{QUANTISED}[5]"
    assert "[0 1 2 3 4]" in repr(x)
    for call in (lambda x: x[1:3].astype("int32"), jit(curta.vmap(jnp.int32))):
        found = call(x)
        assert found.dtype == np.int32 and found[0] in (0, 1)
    with pytest.raises(TypeError, match="NumPy has no dtype for PrimalTangent"):
        np.asarray(x)
    with pytest.raises(TypeError):
        x + x


@pytest.mark.parametrize("call", [lambda f: f, jit])
def test_derivatives(call):
    x = jnp.asarray(W).astype(QUANTISED)

    def f(x):
        return x.astype("float32") ** 2

    out, tangent = call(lambda x, t: curta.jvp(f, (x,), (t,)))(x, jnp.ones(5))
    np.testing.assert_array_equal(out, W**2)
    np.testing.assert_array_equal(tangent, 2 * W)
    _, pull = curta.vjp(f, x)
    (cotangent,) = pull(jnp.ones(5))
    assert cotangent.dtype == np.float32
    np.testing.assert_array_equal(cotangent, 2 * W)
    whole = call(grad(lambda w: f(w.astype(QUANTISED)).sum()))(W)
    np.testing.assert_array_equal(whole, 2 * W)


@pytest.mark.parametrize("call", [lambda f: f, jit])
@pytest.mark.parametrize("taken", [True, False])
def test_quantised_weights_within_a_branch(call, taken):
    """The cast to the type, the product there, each with a rule of its own."""

    @curta.custom_vjp
    def product(w, x):
        return w.astype("float32") * x

    def forward(w, x):
        return product(w, x), (w, x)

    def backward(residuals, ct):
        w, x = residuals
        return ct * x, ct * w.astype("float32")

    product.defvjp(forward, backward)

    def loss(w, x, taken):
        w = w.astype(QUANTISED)
        return lax.cond(taken, lambda: product(w, x).sum(), lambda: jnp.float32(0))

    found = call(grad(loss))(W, 3 * W, taken)
    np.testing.assert_array_equal(found, 3 * W if taken else 0 * W)


@pytest.mark.parametrize("call", [lambda f: f, jit])
def test_keys_left_over_by_one_branch(call):
    """A branch that kept a key for the backward pass, and one that did not."""

    def loss(w, key):
        def noisy():
            return w * random.normal(key) * jnp.sin(w)

        inner = curta.checkpoint(lambda: lax.cond(w > 0, noisy, lambda: w))
        return lax.cond(w < 9, inner, lambda: 2 * w)

    key = random.key(0)
    expected = random.normal(key) * (np.sin(1.0) + np.cos(1.0))
    np.testing.assert_allclose(call(grad(loss))(1.0, key), expected, rtol=1e-6)
    assert call(grad(loss))(10.0, key) == 2
