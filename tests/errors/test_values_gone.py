"""Values that are no longer there: leaked tracers, donated and deleted arrays."""

import gc

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import errors, lax

LEAKERS = {
    "jit": lambda f: curta.jit(f)(1.0),
    "grad": lambda f: curta.grad(f)(1.0),
    "jvp": lambda f: curta.jvp(f, (1.0,), (1.0,)),
    "vmap": lambda f: curta.vmap(f)(jnp.arange(3.0)),
    "scan": lambda f: lax.scan(lambda c, x: (f(c), x), 0.0, jnp.arange(3.0)),
    "cond": lambda f: curta.jit(lambda p: lax.cond(p, f, lambda x: x, 1.0))(True),
    "while": lambda f: lax.while_loop(lambda c: c < 3.0, lambda c: f(c) + 1, 0.0),
    "checkpoint": lambda f: curta.checkpoint(f)(1.0),
    "eval_shape": lambda f: curta.eval_shape(f, 1.0),
}
USES = {
    "eagerly": lambda x: x * 2,
    "in jit": lambda x: curta.jit(lambda y: x + y)(1.0),
    "in grad": lambda x: curta.grad(lambda y: x * y)(1.0),
    "in vmap": lambda x: curta.vmap(lambda y: x * y)(jnp.ones(2)),
    "as an argument": lambda x: curta.jit(lambda y: y)(x),
}


def leaked(leaker):
    kept = []

    def f(x):
        kept.append(x)
        return x * x

    LEAKERS[leaker](f)
    return kept[0]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("leaker", LEAKERS)
def test_leaked_tracers_cannot_be_used(leaker, use):
    with pytest.raises(errors.UnexpectedTracerError) as raised:
        USES[use](leaked(leaker))
    assert str(raised.value).startswith("Encountered an unexpected tracer.")
    assert "return the value from the transformed function" in str(raised.value)
    assert "known" not in str(raised.value)  # of what is not known nothing is said


def test_the_error_names_function_and_line():
    with pytest.raises(errors.UnexpectedTracerError) as raised:
        leaked("jit") + 1
    message = str(raised.value)
    assert "traced for jit" in message
    assert "test_values_gone.py" in message


@pytest.fixture(scope="module")
def small_heap():
    """Objects of earlier tests are not searched for references."""
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("leaker", sorted(set(LEAKERS) - {"eval_shape"}))
def test_the_leak_checker_finds_the_holder(leaker, small_heap):
    with curta.checking_leaks():
        with pytest.raises(Exception, match="Leaked trace") as raised:
            leaked(leaker)
    assert "is referred to by <list" in str(raised.value)


def test_the_leak_checker_lets_honest_functions_pass():
    def f(x):
        y, _ = lax.scan(lambda c, a: (c + jnp.sin(a), a), 0.0, x)
        return lax.cond(y > 0, jnp.cos, jnp.sin, y)

    x = jnp.arange(3.0)
    with curta.checking_leaks():
        curta.jit(f)(x)
        curta.grad(f)(x)
        curta.grad(curta.jit(f))(x)
        curta.grad(curta.checkpoint(f))(x)
        curta.vmap(curta.grad(f))(x[None])
        curta.hessian(f)(x)


def test_donated_arrays_are_gone():
    x = jnp.ones(3)
    curta.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and x.shape == (3,)
    for use in (lambda: x + 1, lambda: np.asarray(x), lambda: curta.jit(jnp.sin)(x)):
        with pytest.raises(RuntimeError, match="has been deleted"):
            use()


def test_donated_arrays_are_gone_for_functions_compiled_before():
    step = curta.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones(3)
    step(x)
    with pytest.raises(ValueError, match="has been deleted"):  # as in JAX 0.10
        step(x)


def test_deleted_arrays_are_gone():
    x = jnp.ones(3)
    x.delete()
    for use in (lambda: x[0], lambda: float(x.sum()), lambda: x.tolist()):
        with pytest.raises(RuntimeError, match="has been deleted"):
            use()
