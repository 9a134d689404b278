"""Calls of jaxprs, bound as ops: transformed and compiled as their jaxprs are."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.control.core_call import ClosedCoreCall, CoreCall

X = np.linspace(0.1, 1, 4, dtype=np.float32)


def body(x, y):
    return jnp.sin(x) * y


@pytest.mark.parametrize("cls", [CoreCall, ClosedCoreCall])
def test_calls_do_as_their_jaxprs(cls):
    call = cls(curta.make_jaxpr(body)(X[0], X[0]))

    def called(x, y):
        return call(x, y)[0]

    np.testing.assert_allclose(called(X[1], X[2]), body(X[1], X[2]), rtol=1e-6)
    for transform in (
        curta.jit,
        curta.grad,
        lambda f: curta.grad(f, 1),
        lambda f: curta.jit(curta.grad(f)),
        lambda f: lambda x, y: curta.jvp(f, (x, y), (y, x))[1],
    ):
        got, wanted = (transform(f)(X[1], X[2]) for f in (called, body))
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    for dims in (0, 0), (0, None):
        args = X, X if dims[1] == 0 else X[0]
        got, wanted = (curta.vmap(f, dims)(*args) for f in (called, body))
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
