"""The jaxpr checker accepts what tracing makes and names what is wrong."""

import sys

import numpy as np
import pytest
from tests.conformance.operations import all_ops

import curta
import curta.numpy as jnp
from curta import grad, jit, lax, make_jaxpr, nn, vmap
from curta.core.avals import ShapedArray
from curta.core.check import check_changed, check_jaxpr
from curta.core.jaxpr import Jaxpr, Literal, Var
from curta.errors import JaxprTypeError

X = np.ones((3, 4), np.float32)
FLOAT = ShapedArray((), np.dtype("float32"))


def loss(x):
    hidden = nn.relu(x @ X.T[:, :3]) + lax.cumsum(x[:, :3])
    return jnp.where(hidden > 1, jit(jnp.sin)(hidden), hidden[0]).max(1).sum()


PROGRAMS = {
    "forward": (loss, X),
    "grad": (grad(loss), X),
    "vmap": (vmap(grad(loss)), np.stack([X, X])),
    "jit": (jit(grad(loss)), X),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y.sum(), c), 0.0, x), X),
    "remat": (grad(curta.checkpoint(loss)), X),
    "sort": (grad(lambda x: jnp.sort(x, axis=0)[0].sum()), X),
    "update": (grad(lambda x: x.at[np.array([0, 0])].set(1.0).sum()), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_traced_jaxprs_are_well_formed(name):
    fun, x = PROGRAMS[name]
    check_jaxpr(make_jaxpr(fun)(x).jaxpr)


def two_eqns():
    return make_jaxpr(lambda x: jnp.sin(jnp.cos(x)))(1.0).jaxpr


def test_variables_are_bound_before_they_are_read():
    jaxpr = two_eqns()
    with pytest.raises(JaxprTypeError, match="Variable '.' not defined") as caught:
        check_jaxpr(jaxpr.replace(eqns=jaxpr.eqns[::-1]))
    text = str(caught.value)
    assert "in equation:" in text and "sin" in text
    assert "from source: " in text and "test_check.py" in text
    assert "while checking jaxpr:\n\n{ lambda ; a:f32[]. let" in text


def test_what_is_known_is_asked_for_its_place_alone():
    jaxpr, known = two_eqns(), set()
    check_changed(jaxpr, known)
    assert known == {jaxpr, *jaxpr.eqns}
    with pytest.raises(JaxprTypeError, match="Variable '.' not defined"):
        check_changed(jaxpr.replace(eqns=jaxpr.eqns[::-1]), known)
    with pytest.raises(JaxprTypeError, match="Variable '.' already bound"):
        check_changed(jaxpr.replace(eqns=[*jaxpr.eqns, jaxpr.eqns[0]]), known)


def test_outputs_are_bound():
    with pytest.raises(JaxprTypeError, match="not defined"):
        check_jaxpr(two_eqns().replace(outvars=[Var(FLOAT)]))


def test_variables_are_bound_once():
    jaxpr = two_eqns()
    with pytest.raises(JaxprTypeError, match="Variable '.' already bound"):
        check_jaxpr(jaxpr.replace(eqns=[*jaxpr.eqns, jaxpr.eqns[0]]))


def test_types_are_those_that_the_op_infers():
    jaxpr = two_eqns()
    wrong = jaxpr.eqns[1].replace(outvars=(Var(FLOAT.update(shape=(2,))),))
    with pytest.raises(
        JaxprTypeError,
        match=r"inconsistently typed as f32\[\] for let-binder of type f32\[2\]",
    ):
        check_jaxpr(jaxpr.replace(eqns=[jaxpr.eqns[0], wrong]))


def test_operands_are_those_that_the_op_takes():
    jaxpr = make_jaxpr(lambda x: lax.reduce_sum(x, (0, 1)))(X).jaxpr
    vector = Var(FLOAT.update(shape=(3,)))
    (eqn,) = jaxpr.eqns
    wrong = Jaxpr((), [vector], eqn.outvars, [eqn.replace(invars=(vector,))])
    with pytest.raises(JaxprTypeError, match="out-of-bounds indices"):
        check_jaxpr(wrong)


def test_literals_fit_their_types():
    wrong = Literal(np.int32(1), FLOAT)
    with pytest.raises(JaxprTypeError, match="Literal value 1 does not match its type"):
        check_jaxpr(two_eqns().replace(outvars=[wrong]))


def test_results_are_as_many_as_variables():
    jaxpr = two_eqns()
    wrong = jaxpr.eqns[1].replace(outvars=(Var(FLOAT), Var(FLOAT)))
    with pytest.raises(JaxprTypeError, match="gives 1 results, but 2 variables"):
        check_jaxpr(jaxpr.replace(eqns=[jaxpr.eqns[0], wrong]))


def test_calls_pass_what_the_callee_takes():
    jaxpr = make_jaxpr(jit(lambda x, y: x + y))(1.0, 2.0).jaxpr
    (call,) = jaxpr.eqns
    with pytest.raises(JaxprTypeError, match="with 1 operands cannot call jaxpr"):
        check_jaxpr(jaxpr.replace(eqns=[call.replace(invars=call.invars[:1])]))
    vector = Var(FLOAT.update(shape=(3,)))
    wrong = call.replace(invars=(vector, call.invars[1]))
    invars = [vector, jaxpr.invars[1]]
    with pytest.raises(JaxprTypeError, match=r"passes operand of type f32\[3\]"):
        check_jaxpr(jaxpr.replace(invars=invars, eqns=[wrong]))


def test_nested_jaxprs_are_checked():
    jaxpr = make_jaxpr(lambda x: jit(lambda y: jnp.sin(jnp.cos(y)))(x))(1.0).jaxpr
    (call,) = jaxpr.eqns
    inner = call.op.jaxpr.jaxpr
    broken = type(call.op.jaxpr)(inner.replace(eqns=inner.eqns[::-1]))
    wrong = call.replace(op=call.op.with_jaxpr(broken))
    with pytest.raises(JaxprTypeError, match="not defined"):
        check_jaxpr(jaxpr.replace(eqns=[wrong]))


def holds_jaxprs(cls):
    """Whether a field is said to be one, or several."""
    for base in cls.__mro__:
        names = vars(sys.modules[base.__module__])
        for text in vars(base).get("__annotations__", {}).values():
            try:
                kind = eval(text, dict(names))
            except (NameError, TypeError):
                kind = text
            if "Jaxpr" in str(kind):
                return True
    return False


def test_ops_with_jaxprs_among_their_parameters_say_so():
    holding = [cls for cls in all_ops() if holds_jaxprs(cls)]
    assert {"Cond", "Scan", "While", "JitCall"} <= {cls.__name__ for cls in holding}
    assert [cls for cls in holding if not cls.holds_jaxprs] == []


def test_an_op_that_does_not_say_so_is_refused(monkeypatch):
    closed = make_jaxpr(jit(jnp.sin))(1.0)
    (eqn,) = closed.eqns
    monkeypatch.setattr(type(eqn.op), "holds_jaxprs", False)
    with pytest.raises(JaxprTypeError, match="holds_jaxprs"):
        check_jaxpr(closed.jaxpr)
