"""How the values of transformed functions print, and what passes through them."""

import curta
import curta.numpy as jnp


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
