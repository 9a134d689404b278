"""Primitives that programs define, through every transformation."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.extend.core import Primitive
from curta.interpreters import ad, batching


@pytest.fixture
def multiply_add():
    """x * y + z, by the tutorial of JAX's documentation."""
    primitive = Primitive("multiply_add")
    primitive.def_impl(lambda x, y, z: np.add(np.multiply(x, y), z))
    primitive.def_abstract_eval(lambda x, y, z: x)

    def apply(x, y, z):
        return primitive.bind(x, y, z)

    def jvp(primals, tangents):
        x, y, z = primals
        tx, ty, tz = map(ad.instantiate_zeros, tangents)
        zero = jnp.zeros_like(x)
        return apply(x, y, z), apply(tx, y, apply(x, ty, apply(zero, zero, tz)))

    def transpose(ct, x, y, z):
        if ad.is_undefined_primal(x):
            found = lax.mul(ct, y), None
        else:
            found = None, lax.mul(x, ct) if ad.is_undefined_primal(y) else None
        return *found, ct if ad.is_undefined_primal(z) else None

    def batch(args, dims):
        assert dims[0] == dims[1] == dims[2]
        return apply(*args), dims[0]

    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    return apply


def test_transformations(multiply_add):
    def square_add(x, y):
        return multiply_add(x, x, y)

    assert square_add(2.0, 10.0) == 14
    assert curta.jit(square_add)(2.0, 10.0) == 14
    assert curta.jvp(square_add, (2.0, 10.0), (1.0, 1.0)) == (14, 5)
    assert curta.grad(square_add)(2.0, 10.0) == 4
    assert curta.jit(curta.grad(square_add))(2.0, 10.0) == 4
    x, y = jnp.array([2.0, 3.0]), jnp.array([10.0, 20.0])
    assert curta.vmap(square_add)(x, y).tolist() == [14, 29]
    text = str(curta.make_jaxpr(square_add)(2.0, 10.0))
    assert "multiply_add a a b" in text


def test_parameters_and_several_results():
    split = Primitive("split_at")
    split.multiple_results = True
    split.def_impl(lambda x, *, at: [x[:at], x[at:]])

    @split.def_abstract_eval
    def avals(x, *, at):
        return [x.update(shape=(at,)), x.update(shape=(x.shape[0] - at,))]

    def fun(x):
        first, rest = split.bind(x, at=1)
        return rest * first

    x = jnp.array([2.0, 3.0, 4.0])
    assert fun(x).tolist() == curta.jit(fun)(x).tolist() == [6, 8]
    (eqn, _) = curta.make_jaxpr(fun)(x).eqns
    assert eqn.primitive is split
    assert eqn.params == {"at": 1}


def test_missing_rules_are_named():
    bare = Primitive("bare")
    with pytest.raises(NotImplementedError, match="'bare'"):
        bare.bind(1.0)
    bare.def_abstract_eval(lambda x: x)
    bare.def_impl(lambda x: x)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'bare'"):
        curta.grad(bare.bind)(1.0)
    with pytest.raises(TypeError, match="def_impl is for primitives made from a name"):
        curta.make_jaxpr(lax.sin)(1.0).eqns[0].primitive.def_impl(abs)
