"""Parts of programs whose ops run in their order."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.control.program_order import ProgramOrder
from curta.experimental.overlap import program_order
from curta.lax import scan

X = np.linspace(0.1, 2.0, 5, dtype=np.float32)


def product(x, y):
    a = jnp.sin(x)
    b = jnp.cos(y)
    return a * b, {"b": b}


def the_op(fun, *args, **kwargs):
    (eqn,) = curta.make_jaxpr(fun)(*args, **kwargs).eqns
    assert isinstance(eqn.op, ProgramOrder)
    return eqn.op


def eqns(fun, *args):
    """The names of the ops that are compiled, with the numbers of their operands."""
    body = the_op(fun, *args).stands_for.jaxpr
    return [(eqn.op.name, len(eqn.invars)) for eqn in body.eqns]


class TestValues:
    @pytest.mark.parametrize("enforce", [True, False])
    def test_they_are_those_of_the_function(self, enforce):
        f = program_order(enforce=enforce)(product)
        want = product(X, 2.0)
        for call in f, curta.jit(f), curta.vmap(f, (0, None)):
            got = call(X, 2.0)
            np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
            np.testing.assert_allclose(got[1]["b"], want[1]["b"], rtol=1e-6)
        np.testing.assert_allclose(f(X, y=2.0)[0], want[0], rtol=1e-6)

    @pytest.mark.parametrize("enforce", [True, False])
    def test_derivatives(self, enforce):
        f = program_order(enforce=enforce)(product)

        def total(f):
            return lambda x, y: (f(x, y)[0] ** 2).sum()

        want = curta.grad(total(product), (0, 1))(X, 2.0)
        for grad in (
            curta.grad(total(f), (0, 1)),
            curta.jit(curta.grad(total(f), (0, 1))),
        ):
            for got, w in zip(grad(X, 2.0), want, strict=True):
                np.testing.assert_allclose(got, w, rtol=1e-5)
        got = curta.jvp(total(f), (X, 2.0), (X, 1.0))
        np.testing.assert_allclose(
            got, curta.jvp(total(product), (X, 2.0), (X, 1.0)), rtol=1e-5
        )

    def test_in_a_loop_with_a_captured_value_and_a_reference(self):
        def program(x, k):
            ref = curta.new_ref(jnp.zeros(()))

            def body(carry, x):
                def part(c):
                    ref[...] += x
                    return jnp.sin(c) * k + x

                return program_order(part, enforce=True)(carry), None

            return scan(body, 0.5, x)[0], ref[...]

        want, c = 0.5, 0.0
        for x in X:
            c += x
            want = np.sin(want) * 3.0 + x
        np.testing.assert_allclose(curta.jit(program)(X, 3.0), [want, c], rtol=1e-5)


class TestOrder:
    def test_each_op_waits_for_the_one_before(self):
        f = program_order(product, enforce=True)
        assert eqns(f, 1.0, 2.0) == [
            ("sin", 1),
            ("optimization_barrier", 2),  # the sine, and the operand of the cosine
            ("cos", 1),
            ("optimization_barrier", 2),
            ("mul", 2),
        ]
        free = eqns(program_order(product, enforce=False), 1.0, 2.0)
        assert free == [("sin", 1), ("cos", 1), ("mul", 2)]

    def test_all_operands_and_all_results(self):
        f = program_order(product, enforce=True, strict_in_out=(True, False))
        assert eqns(f, 1.0, 2.0)[0] == ("optimization_barrier", 2)
        g = program_order(product, enforce=True, strict_in_out=(False, True))
        assert eqns(g, 1.0, 2.0)[-1] == ("optimization_barrier", 2)
        assert len(eqns(f, 1.0, 2.0)) == len(eqns(g, 1.0, 2.0)) == 6

    def test_a_part_does_not_wait_for_what_it_excludes(self):
        def outer(part):
            return program_order(lambda x, w: (jnp.sin(x), part(x, w)), enforce=True)

        def part(x, w):
            return x * w["a"] + w["b"]

        w = {"a": 1.0, "b": 2.0}
        one = program_order(part, enforce=False)
        assert (
            sum(n == "optimization_barrier" for n, _ in eqns(outer(one), 1.0, w)) == 4
        )
        one = program_order(part, enforce=False, exclude_argnames="w")
        assert (
            sum(n == "optimization_barrier" for n, _ in eqns(outer(one), 1.0, w)) == 2
        )
        assert the_op(one, 1.0, w).exclude_mask == (False, True, True)
        assert the_op(one, 1.0, w=w).exclude_mask == (False, True, True)
        dots = curta.make_jaxpr(lambda x, w: curta.jvp(one, (x, w), (x, w)))(1.0, w)
        assert dots.eqns[0].op.exclude_mask == (False, True, True) * 2
        out, pulled = curta.vjp(one, 1.0, w)
        assert out == 3.0 and pulled(1.0) == (1.0, {"a": 1.0, "b": 1.0})

    def test_what_has_no_operands_comes_after_what_is_before(self):
        f = program_order(
            lambda x: (jnp.sin(x), curta.lax.iota("int32", 3)), enforce=True
        )
        assert eqns(f, 1.0) == [("sin", 1), ("iota", 0), ("optimization_barrier", 2)]

    def test_programs_for_others_have_the_barriers(self):
        f = curta.jit(program_order(product, enforce=True))
        text = f.lower(1.0, 2.0).as_text()
        assert text.count("stablehlo.optimization_barrier") == 2
        f = curta.jit(program_order(product, enforce=False))
        assert "call @program_order" in f.lower(1.0, 2.0).as_text()


class TestMistakes:
    def test_options(self):
        with pytest.raises(ValueError, match="exclude_argnames cannot be used"):
            program_order(product, enforce=True, exclude_argnames="x")
        with pytest.raises(ValueError, match="strict_in_out=True cannot be used"):
            program_order(product, enforce=False, strict_in_out=True)
        with pytest.raises(ValueError, match="unpack"):
            program_order(product, enforce=True, strict_in_out=(True,) * 3)
        with pytest.raises(TypeError, match="callable"):
            program_order(3, enforce=False)

    def test_names_of_arguments(self):
        f = program_order(product, enforce=False, exclude_argnames="z")
        with pytest.raises(ValueError, match="does not take these args"):
            f(1.0, 2.0)
