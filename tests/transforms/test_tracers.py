"""How the values of transformed functions print, and what passes through them."""

import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.errors import UnexpectedTracerError


def printed(run):
    found = []

    def fun(x):
        found.append(repr(x))
        return x

    run(fun)
    return found[0]


def test_mapped_values():
    assert printed(lambda f: curta.vmap(f, 1)(jnp.ones((2, 3)))) == (
        "VmapTracer(aval=float32[2], batched=float32[2,3])"
    )


def test_differentiated_values():
    assert printed(lambda f: curta.jvp(f, (1.0,), (2.0,))) == (
        "JVPTracer(primal=1.0, tangent=2.0)"
    )
    assert printed(lambda f: curta.grad(f)(1.0)) == (
        "GradTracer(primal=1.0, typeof(tangent)=f32[])"
    )


def test_nested():
    assert printed(lambda f: curta.vmap(curta.grad(f))(jnp.ones(3))) == (
        "GradTracer(primal=VmapTracer(aval=float32[], batched=float32[3]),"
        " typeof(tangent)=f32[])"
    )
    assert printed(lambda f: curta.jit(curta.grad(f))(1.0)) == (
        "GradTracer(primal=JitTracer(~float32[]), typeof(tangent)=f32[])"
    )


def test_what_is_not_mapped_passes_vmap_as_it_is():
    _, same = curta.vmap(lambda x, y: (x, y * 2.0), (0, None), (0, None))(
        jnp.arange(2.0), 4.0
    )
    assert same == 8.0 and type(same) is float


@pytest.mark.parametrize(
    "transform",
    [
        curta.jit,
        curta.make_jaxpr,
        curta.grad,
        curta.jacfwd,
        lambda f: lambda x: curta.vmap(f)(jnp.ones(3)),
        lambda f: lambda x: curta.linearize(f, x),
    ],
)
def test_tracers_are_dead_after_an_error_too(transform):
    leaked = []

    def fails(x):
        leaked.append(x)
        raise KeyError("no")

    with pytest.raises(KeyError):
        transform(fails)(1.0)
    for use in (
        lambda x: x + 1,
        lambda x: curta.jit(lambda: x * 2)(),
        lambda x: curta.grad(lambda y: x * y)(1.0),
        lambda x: curta.vmap(lambda y: x * y)(jnp.ones(2)),
        lambda x: lax.scan(lambda c, y: (x * y, c), 1.0, jnp.ones(2)),
    ):
        with pytest.raises(UnexpectedTracerError, match="unexpected tracer"):
            use(leaked[0])
