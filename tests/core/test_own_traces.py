"""Traces that programs define, in JAX's words, as Haiku's `to_dot` does."""

import curta
import curta.numpy as jnp
from curta import lax
from curta.extend.core import (
    TraceTag,
    jaxpr_as_fun,
    set_current_trace,
    take_current_trace,
)
from curta.extend.core.primitives import jit_p


class ListingTracer(curta.core.Tracer):
    def __init__(self, trace, val):
        super().__init__(trace, curta.typeof(val))
        self.val = val


class ListingTrace(curta.core.Trace):
    """Lists the operations that a function consists of."""

    def __init__(self, parent_trace, tag, names):
        super().__init__()
        self.parent_trace, self.tag, self.names = parent_trace, tag, names

    def to_val(self, x):
        mine = isinstance(x, ListingTracer) and x._trace.tag is self.tag
        return x.val if mine else x

    def process_primitive(self, primitive, tracers, params):
        if primitive is jit_p:
            return jaxpr_as_fun(params["jaxpr"])(*tracers)
        self.names.append(primitive.name)
        vals = [self.to_val(x) for x in tracers]
        avals = [curta.typeof(x) for x in vals]
        out = primitive.bind_with_trace(self.parent_trace, vals, avals, params)
        return curta.tree.map(lambda x: ListingTracer(self, x), out)


def listing(fun, *args):
    names = []
    with take_current_trace() as parent:
        trace = ListingTrace(parent, TraceTag(), names)
        with set_current_trace(trace):
            out = fun(*[ListingTracer(trace, x) for x in args])
    return names, curta.tree.map(trace.to_val, out)


def test_operations_are_listed_and_done():
    def f(x):
        return curta.jit(jnp.sin)(x) * 2, lax.top_k(x, 2)[0]

    x = jnp.arange(3.0)
    names, (doubled, largest) = listing(f, x)
    assert names == ["sin", "mul", "top_k"]
    assert jnp.allclose(doubled, 2 * jnp.sin(x)) and largest.tolist() == [2, 1]


def test_within_other_transformations():
    seen = []

    def f(x):
        names, out = listing(lambda x: jnp.cos(x) + 1, x)
        seen.append(names)
        return out

    x = jnp.array([0.5])
    assert jnp.allclose(curta.jit(f)(x), jnp.cos(x) + 1)
    assert jnp.allclose(curta.grad(lambda x: f(x).sum())(x), -jnp.sin(x))
    assert curta.eval_shape(f, x).shape == (1,)
    assert seen == [["cos", "add"]] * 3


def test_rules_of_derivatives_are_dropped():
    @curta.custom_jvp
    def f(x):
        return x**2

    f.defjvp(lambda primals, tangents: (f(*primals), 7 * tangents[0]))

    @curta.custom_vjp
    def g(x):
        return x**3

    g.defvjp(lambda x: (g(x), None), lambda _, ct: (ct,))
    names, out = listing(lambda x: f(x) + g(x), jnp.array(2.0))
    assert names == ["integer_pow", "integer_pow", "add"] and out == 12
