"""Data cached with a jaxpr is freed with it, including its arrays."""

import gc
import weakref

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.core.memo import kept_with_jaxpr


@kept_with_jaxpr
def counted(x, *args):
    counted.calls += 1
    return object()


counted.calls = 0


def test_results_are_remembered():
    closed = curta.make_jaxpr(lambda x: x + 1)(1.0)
    scan = curta.make_jaxpr(lambda x: lax.scan(lambda c, _: (c, c), x, None, 3))(1.0)
    op = scan.eqns[0].op
    for x in closed, closed.jaxpr, op, (closed, closed.jaxpr):
        assert counted(x, 1) is counted(x, 1)
        assert counted(x, 1) is not counted(x, 2)
    with pytest.raises(TypeError, match="Sin holds no jaxpr"):
        counted(curta.make_jaxpr(jnp.sin)(1.0).eqns[0].op)


def of_grad_of_jit(c):
    curta.grad(curta.jit(lambda x: (x * c).sum()))(1.0)


def of_vmap_of_jit(c):
    curta.vmap(curta.jit(lambda x: (x * c).sum()))(jnp.ones(2))


def of_scan(c):
    curta.grad(lambda x: lax.scan(lambda a, _: (a * x * c[0], None), x, None, 2)[0])(
        1.0
    )


def of_checkpoint(c):
    curta.grad(curta.checkpoint(lambda x: jnp.sin(x * c).sum()))(1.0)


def of_custom_vjp(c):
    fun = curta.custom_vjp(lambda x: x * c)
    fun.defvjp(lambda x: (x * c, None), lambda _, ct: ((ct * c).sum(),))
    curta.grad(curta.jit(lambda x: fun(x).sum()))(1.0)


def of_custom_jvp(c):
    fun = curta.custom_jvp(lambda x: x * c)
    fun.defjvp(lambda xs, ts: (fun(*xs), ts[0] * c))
    curta.grad(lambda x: fun(x).sum())(1.0)


def of_callback(c):
    result = curta.ShapeDtypeStruct((), np.float32)
    curta.pure_callback(lambda x: x + c[0], result, 1.0)


@pytest.mark.parametrize(
    "run",
    [
        of_grad_of_jit,
        of_vmap_of_jit,
        of_scan,
        of_checkpoint,
        of_custom_vjp,
        of_custom_jvp,
        of_callback,
    ],
)
def test_constants_are_let_go_of(run):
    constant = np.arange(3, dtype=np.float32)
    array = jnp.asarray(constant)
    there = weakref.ref(array)
    run(array)
    del array
    gc.collect()
    assert there() is None
