"""Partial evaluation by hand."""

import pytest

import curta
import curta.numpy as jnp
from curta.extend import linear_util
from curta.interpreters import partial_eval as pe


def wrapped(f):
    return linear_util.wrap_init(f)


def test_what_is_known_is_computed():
    def f(x, y):
        return jnp.sin(x), x * y, y

    scalar = curta.typeof(jnp.float32(1))
    known = pe.PartialVal.known(jnp.float32(2))
    unknown = pe.PartialVal.unknown(scalar)
    jaxpr, out, residuals = pe.trace_to_jaxpr_nounits(wrapped(f), [known, unknown])
    assert [p.is_known() for p in out] == [True, False, False]
    assert out[0].get_known() == jnp.sin(2.0) and out[1].get_known() is None
    assert [p.get_aval() for p in out] == [scalar] * 3
    found = curta.core.eval_jaxpr(jaxpr, (), *residuals, jnp.float32(5))
    assert found == [10, 5]
    jaxpr, out, residuals = pe.trace_to_jaxpr_nounits(
        wrapped(f), [known, unknown], True
    )
    assert len(jaxpr.outvars) == 3 and not any(p.is_known() for p in out)


def test_known_values_may_be_traced():
    def program(x):
        unknown = pe.PartialVal.unknown(curta.typeof(x))
        pvals = [pe.PartialVal.known(x), unknown]
        _, (out,), _ = pe.trace_to_jaxpr_nounits(wrapped(lambda x, y: [x * 3]), pvals)
        return out.get_known()

    assert curta.jit(program)(2.0) == 6
    assert curta.grad(program)(2.0) == 3


def test_programs_and_dead_code():
    jaxpr, avals, consts = pe.trace_to_jaxpr_dynamic(
        wrapped(lambda x, y: (x + 1, y * 2)), [curta.typeof(1.0)] * 2
    )
    assert len(avals) == 2 and consts == []
    alive, used = pe.dce_jaxpr(jaxpr, [False, True])
    assert used == [False, True] and len(alive.eqns) == 1
    assert pe.dce_jaxpr(jaxpr, [False, True], instantiate=True)[1] == [True, True]
    with pytest.raises(TypeError):
        pe.PartialVal(1, 2)
