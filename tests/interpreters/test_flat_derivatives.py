"""Derivatives and batches by leaves: `ad.jvp`, `ad.linearize`, `batch_subtrace`."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.custom_derivatives import remat_opt_p
from curta.extend.linear_util import wrap_init
from curta.interpreters import ad, batching, partial_eval as pe
from curta.interpreters.flat_trees import FlatTree, flatten
from curta.transforms.vmap import BatchAxis


def test_flat_trees():
    tree = flatten({"a": 1, "b": (2, 3)})
    assert flatten(tree) is tree and [*tree] == [1, 2, 3] and tree[1] == 2
    assert tree.map2([4, 5, 6], lambda x, y: x * y).unflatten() == {
        "a": 4,
        "b": (10, 18),
    }
    first, second = tree.map(lambda x: (x, -x)).unzip2()
    assert first == tree and hash(first) == hash(tree) and second != tree
    assert repr(flatten((1, 2))).startswith("Pytree(vals=[1, 2], tree=")
    with pytest.raises(ValueError, match="expected 3 leaves, got 2"):
        tree.update([1, 2])


class TestJvp:
    def test_values_and_tangents(self):
        def f(x, y):
            return {"a": jnp.sin(x["w"]) * y, "b": y}

        out, dot = ad.jvp(f, ({"w": 1.0}, 2.0), ({"w": 3.0}, 0.5))
        assert isinstance(out, FlatTree) and out.tree == dot.tree
        expected = curta.jvp(f, ({"w": 1.0}, 2.0), ({"w": 3.0}, 0.5))
        assert (out.unflatten(), dot.unflatten()) == expected

    def test_zeros(self):
        def f(x, n):
            return x * n, 3.0

        zero = ad.Zero(curta.typeof(2).to_tangent_aval())
        args, dots = flatten((1.0, 2)), (1.0, zero)
        for given in False, [True, False]:
            out, dot = ad.jvp(f, args, dots, instantiate=given)
            assert out[1] == 3.0 and dot[0] == 2.0 and type(dot[1]) is ad.Zero
        assert ad.jvp(f, args, dots)[1][1] == 0.0
        with pytest.raises(ValueError, match="expected 2 leaves, got 1"):
            ad.jvp(f, args, flatten((1.0,)))

    def test_what_is_passed_on(self):
        out, dot, aux = ad.jvp(lambda x: (x * x, {"n": "text"}), (3.0,), (1.0,), True)
        assert (*out, *dot, aux) == (9.0, 6.0, {"n": "text"})

    def test_it_is_traced(self):
        def f(x):
            return ad.jvp(lambda x: x**3, (x,), (1.0,))[1].unflatten()

        assert curta.jit(f)(2.0) == 12.0 and curta.grad(f)(2.0) == 12.0
        assert curta.vmap(f)(jnp.array([1.0, 2.0])).tolist() == [3.0, 12.0]


class TestLinearize:
    @pytest.mark.parametrize("is_vjp", [False, True])
    def test_the_map_of_tangents(self, is_vjp):
        out, zeros, jaxpr, consts, structured = ad.linearize(
            lambda x, y: (jnp.sin(x) * y, 3.0), flatten((1.0, 2.0)), is_vjp=is_vjp
        )
        assert [*out] == [jnp.sin(1.0) * 2, 3.0] and zeros == [False, True]
        (dot,) = curta.core.eval_jaxpr(jaxpr, consts, 1.0, 10.0)
        np.testing.assert_allclose(dot, np.cos(1.0) * 2 + np.sin(1.0) * 10, rtol=1e-6)
        assert structured == []

    def test_tangents_that_are_zero(self):
        def f(x, y, n):
            return x * y * n, x

        args = flatten((3.0, 2.0, 1))
        out, zeros, jaxpr, consts, _ = ad.linearize(f, args, in_nzs=[False, True, True])
        assert zeros == [False, True] and len(jaxpr.invars) == 3
        assert curta.core.eval_jaxpr(jaxpr, consts, 7.0, 1.0, None) == [3.0]
        with pytest.raises(ValueError, match="expected 3 flags in_nzs, got 1"):
            ad.linearize(f, args, in_nzs=[True])

    def test_what_is_passed_on(self):
        *_, aux = ad.linearize(lambda x: (x * x, (x, "text")), (3.0,), has_aux=True)
        assert aux == (3.0, "text")
        with pytest.raises(TypeError, match="two-element"):
            ad.linearize(lambda x: x, (3.0,), has_aux=True)


def test_a_batched_function_says_where_its_results_are_batched():
    def f(x, y):
        return [curta.lax.psum(x, "i") * y, x + y, y]

    for dims in ([0, None], lambda: [0, None]):
        axis = BatchAxis(3, "i")
        batched, out_dims = batching.batch_subtrace(wrap_init(f), None, axis, dims)
        total, moved, same = batched.call_wrapped(jnp.arange(3.0), 2.0)
        assert (total, moved.tolist(), same) == (6.0, [2.0, 3.0, 4.0], 2.0)
        assert out_dims() == (None, 0, None)
    batched, _ = batching.batch_subtrace(wrap_init(f), None, BatchAxis(3), [0])
    with pytest.raises(ValueError, match="expected 2 batch dims, got 1"):
        batched.call_wrapped(jnp.arange(3.0), 2.0)


def test_types_of_a_lowered_jaxpr():
    closed = curta.make_jaxpr(lambda x, y: (x + y, y))(1.0, jnp.ones(2))
    low_types = flatten(([[a] for a in closed.in_avals], {}))
    low, outs = pe.lower_jaxpr(closed, low_types)
    assert low is closed and outs.unflatten() == tuple([a] for a in low.out_avals)
    with pytest.raises(TypeError, match="not of those that the jaxpr takes"):
        pe.lower_jaxpr(closed, ([[curta.typeof(1)]], {}))


def test_the_primitive_of_optimized_forward_passes():
    @curta.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), jnp.cos(x)), lambda c, g: (c * g,), False, True)
    eqns = curta.make_jaxpr(curta.grad(f))(1.0).eqns
    (eqn,) = (e for e in eqns if e.primitive is remat_opt_p)
    out, residual = remat_opt_p.bind(0.0, **eqn.params)
    assert (out, residual) == (0.0, 1.0) and remat_opt_p.multiple_results
