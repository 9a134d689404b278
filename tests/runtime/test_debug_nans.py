"""debug_nans and debug_infs: which op, and on which line of the user's."""

import inspect

import pytest

import curta
import curta.numpy as jnp
import curta.scipy.linalg
from curta import lax

X = jnp.array([1.0, 0.0, 2.0])


def logs(x):
    return jnp.sum(jnp.log(x - 1))  # log


def roots(x):
    y = jnp.sqrt(x * x)  # mul
    return jnp.sum(y)


def scanned(x):
    def body(carry, a):
        return carry / a, carry * 0  # div

    return lax.scan(body, jnp.float32(0), x)


def scan_of_roots(x):
    def body(carry, a):
        return jnp.sqrt(carry * a), a  # mul

    return lax.scan(body, jnp.float32(1), x)[0]


def looped(x):
    def body(carry):
        return carry[0] + 1, jnp.sin(carry[1] / x[1])  # sin

    return lax.while_loop(lambda c: c[0] < 3, body, (0, jnp.float32(1)))


def branched(x):
    return lax.cond(
        x[0] > 0,
        lambda x: jnp.log(-x),  # log
        lambda x: x,
        x,
    )


def large(x):
    return jnp.log(x[0] - jnp.arange(100_000.0))  # log


PROGRAMS = {
    "op": (logs, logs),
    "gradient": (roots, curta.grad(roots)),
    "gradient of jit": (roots, curta.grad(curta.jit(roots))),
    "scan": (scanned, scanned),
    "gradient of a scan": (scan_of_roots, curta.grad(scan_of_roots)),
    "while": (looped, looped),
    "branch": (branched, branched),
    "mapped": (logs, curta.vmap(lambda x: logs(x[None]))),
    "large": (large, large),
}


def culprit(f):
    """The op and the line that the source of `f` marks."""
    lines, start = inspect.getsourcelines(f)
    (i,) = [i for i, line in enumerate(lines) if "  # " in line]
    return lines[i].split("# ")[1].strip(), start + i


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("jit", [False, True])
def test_the_op_and_its_line(name, jit):
    marked, f = PROGRAMS[name]
    op, line = culprit(marked)
    run = curta.jit(f) if jit else f
    run(X)
    with curta.debug_nans(True), pytest.raises(FloatingPointError) as info:
        run(X)
    message = f"invalid value (nan) encountered in {op} at {__file__}:{line}"
    assert str(info.value).startswith(message)


def test_infinities():
    f = curta.jit(lambda x: 1 / x)
    with curta.debug_infs(True):
        for run in f, lambda x: jnp.divide(1, x):
            with pytest.raises(FloatingPointError, match=r"\(inf\) encountered in div"):
                run(0.0)
        assert f(2.0) == 0.5


def test_what_is_there_already():
    with curta.debug_nans(True):
        for f, x in (lambda x: x * 3, jnp.nan), (lambda x: (jnp.nan, x), 1.0):
            with pytest.raises(FloatingPointError, match="invalid value") as info:
                curta.jit(f)(x)
            text = str(info.value)
            assert "in mul" in text or "is an input or a literal" in text
        assert jnp.sinc(0.0) == 1.0  # what is masked is not looked at


@pytest.mark.parametrize(
    "function",
    [
        jnp.var,
        jnp.nanvar,
        jnp.median,
        lambda x: jnp.percentile(x, 50),
        lambda x: jnp.where(x > 0, x, jnp.nan),
        lambda x: jnp.nanmedian(x, axis=0),
        lambda x: curta.scipy.linalg.expm(jnp.diag(x)),
    ],
)
def test_what_functions_select_from(function):
    x = jnp.array([1.0, 2.0, 4.0])
    expected = function(x)
    with curta.debug_nans(True):
        assert jnp.array_equal(function(x), expected)


def test_a_scalar_that_overflows_when_it_is_converted():
    with curta.debug_infs(True), pytest.raises(FloatingPointError, match="convert"):
        jnp.float32(1e30).astype(jnp.float16)


def test_sharded_computations():
    f = curta.pmap(lambda x: 0.0 / x)
    with curta.debug_nans(True):
        f(jnp.ones(1))
        with pytest.raises(FloatingPointError) as info:
            f(jnp.zeros(1))
    message = "Invalid value (nan) encountered in sharded computation: div at "
    assert str(info.value).startswith(message + __file__)
