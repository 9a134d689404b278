"""Partial evaluation by hand."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.extend import linear_util
from curta.extend.core import jaxpr_as_fun
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


def test_jaxprs_are_taken_closed_or_without_constants():
    closed = curta.make_jaxpr(lambda x, y: (x + 1, y * np.arange(3.0)))(1.0, 2.0)
    inner = curta.make_jaxpr(lambda x, y: (x + 1, y * 2))(1.0, 2.0).jaxpr
    for jaxpr in closed, inner:
        alive, used = pe.dce_jaxpr(jaxpr, [True, False])
        assert type(alive) is type(jaxpr) and used == [True, False]
        assert not pe.convert_constvars_jaxpr(jaxpr).constvars
        one = jaxpr.replace(outvars=jaxpr.outvars[:1])
        assert len(one.eqns) == len(jaxpr.eqns) and len(one.outvars) == 1
    assert pe.close_jaxpr(closed) is closed
    assert jaxpr_as_fun(inner)(1.0, 2.0) == [2, 4]
    known, *_ = pe.partial_eval_jaxpr_nounits(inner, [False, True], False)
    assert len(known.in_avals) == 1
    moved = pe.move_binders_to_back(inner, [True, False])
    assert len(pe.prune_closed_jaxpr_outputs(moved, [False, True]).out_avals) == 1
    with pytest.raises(ValueError, match="1 constants, whose values"):
        jaxpr_as_fun(closed.jaxpr)
