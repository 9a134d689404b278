"""Derivatives of loops and branches in weakly typed inputs: their dtypes."""

import pytest

import curta
from curta import lax, numpy as jnp

XS = jnp.arange(3.0)

PROGRAMS = {
    "scan over the carry": lambda a: lax.scan(lambda c, _: (c * a, c), a, None, 3)[0],
    "scan over a constant": lambda a: lax.scan(lambda c, _: (c * a, c), 1.0, None, 3)[
        0
    ],
    "fori": lambda a: lax.fori_loop(0, 3, lambda i, c: c * a, a),
    "cond": lambda a: lax.cond(a > 1, lambda x: x * x, lambda x: x, a),
    "switch": lambda a: lax.switch(1, [lambda x: x, lambda x: x * x, jnp.sin], a),
    "cond in a scan": lambda a: lax.scan(
        lambda c, i: (lax.cond(i > 1, lambda x: x * a, lambda x: x, c), None),
        a,
        jnp.arange(3),
    )[0],
    "linear solve": lambda a: lax.custom_linear_solve(
        lambda x: a * x, 8.0, lambda matvec, b: b / a, symmetric=True
    ),
}
DERIVATIVES = {
    "grad": curta.grad,
    "grad of grad": lambda f: curta.grad(curta.grad(f)),
    "jit": lambda f: curta.jit(curta.grad(f)),
    "jvp": lambda f: lambda x: curta.jvp(f, (x,), (x,))[1],
    "jvp of grad": lambda f: lambda x: curta.jvp(curta.grad(f), (x,), (x,))[1],
    "jacrev": curta.jacrev,
    "jacfwd": curta.jacfwd,
    "hessian": curta.hessian,
    "checkpoint": lambda f: curta.grad(curta.checkpoint(f)),
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_derivatives_are_typed_as_their_inputs(program, derivative):
    differentiated = DERIVATIVES[derivative](PROGRAMS[program])
    for x, weak in (2.0, True), (jnp.float32(2), False), (jnp.bfloat16(2), False):
        found = curta.typeof(differentiated(x))
        assert (found.dtype, found.weak_type) == (jnp.result_type(x), weak)


@pytest.mark.parametrize("derivative", ["grad", "jit", "jvp", "jacrev", "jacfwd"])
def test_first_derivatives_of_while_loops_are_typed_as_their_inputs(derivative):
    def f(a):
        return lax.while_loop(
            lambda s: s[1] < 3, lambda s: (s[0] * a, s[1] + 1), (a, 0)
        )[0]

    for x, weak in (2.0, True), (jnp.float16(2), False):
        found = curta.typeof(DERIVATIVES[derivative](f)(x))
        assert (found.dtype, found.weak_type) == (jnp.result_type(x), weak)


def test_jacobians_are_typed_as_the_input_in_reverse_and_the_output_forwards():
    def strong(a):
        return jnp.float32(1) * a

    assert curta.typeof(curta.jacrev(strong)(2.0)).weak_type
    assert not curta.typeof(curta.jacfwd(strong)(2.0)).weak_type


def test_strong_operands_make_weak_carries_strong():
    def f(a):
        return lax.scan(lambda c, x: (c + a * x, c * a), a, XS)

    (carry, ys), (carry_dot, ys_dot) = curta.jvp(f, (2.0,), (1.0,))
    for x in carry, ys, carry_dot, ys_dot:
        assert curta.typeof(x).dtype == jnp.float32
    assert not curta.typeof(carry).weak_type and not curta.typeof(carry_dot).weak_type
