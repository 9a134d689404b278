"""`check_grads` compares in the precision of what it checks."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.test_util import check_grads, check_vjp


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_tolerances_are_those_of_the_dtype(dtype):
    x = jnp.linspace(-2, 2, 12).reshape(3, 4).astype(dtype)
    check_grads(lambda x: jnp.concatenate([x, x], axis=1), (x,), 2, eps=1.0)


def test_integers_take_no_part():
    x, n = np.float32(0.5), np.arange(3)
    check_grads(lambda x, n: x * n, (x, n), 1)


def test_wrong_pullbacks_are_found():
    @curta.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * jnp.cos(x) * 1.1,))
    with pytest.raises(AssertionError, match="cotangent projection"):
        check_vjp(f, lambda *args: curta.vjp(f, *args), (jnp.float32(0.5),))
