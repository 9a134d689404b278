"""Tracebacks without the frames of this package."""

from __future__ import annotations

import functools
import os
import traceback

import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import traceback_filtering
from curta.core.tracebacks import UnfilteredStackTrace

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(params=["quiet_remove_frames", "remove_frames", "tracebackhide"])
def mode(request):
    with traceback_filtering(request.param):
        yield request.param


def raised(fun, *args):
    with pytest.raises(Exception) as info:
        fun(*args)
    return info.value


def lines(error, mode="quiet_remove_frames"):
    """The functions of this package's traceback, from the test's own call on."""
    frames = [f for f, _ in traceback.walk_tb(error.__traceback__)]
    if mode == "tracebackhide":
        frames = [f for f in frames if "__tracebackhide__" not in f.f_locals]
    names = [f.f_code.co_name for f in frames]
    return names[names.index("raised") + 1 :]


@curta.jit
def innermost(x):
    raise ValueError("no")


def nested(transform):
    def between(x):
        return 1 + transform(innermost)(x)

    @curta.jit
    def outermost(x):
        return 2 + between(x)

    return outermost


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        curta.grad,
        curta.value_and_grad,
        curta.vmap,
        curta.checkpoint,
        curta.make_jaxpr,
        curta.jacfwd,
        curta.jacrev,
        curta.hessian,
        curta.custom_jvp,
        curta.custom_vjp,
        lambda f: lambda x: curta.vjp(f, x),
        lambda f: lambda x: curta.jvp(f, (x,), (x,)),
        lambda f: lambda x: curta.linearize(f, x),
        lambda f: lambda x: curta.eval_shape(f, x),
        lambda f: lambda x: lax.fori_loop(0, 3, lambda i, y: f(y), x),
        lambda f: lambda x: lax.while_loop(lambda y: False, f, x),
        lambda f: lambda x: lax.cond(True, f, f, x),
        lambda f: lambda x: lax.switch(0, [f, f], x),
        lambda f: lambda x: lax.scan(lambda c, y: f(c), x, None, 3),
        lambda f: lambda x: lax.map(f, x[None]),
    ],
)
def test_only_the_lines_of_the_user_are_left(transform, mode):
    error = raised(nested(transform), jnp.ones(3) if transform is curta.vmap else 1.0)
    found = [name for name in lines(error, mode) if name != "<lambda>"]
    assert found in (["outermost", "between", "innermost"], ["outermost", "between"])
    assert ("For simplicity" in str(getattr(error, "__notes__", ""))) == (
        mode == "quiet_remove_frames"
    )
    unfiltered = isinstance(error.__cause__, UnfilteredStackTrace)
    assert unfiltered == (mode == "remove_frames")


def test_the_whole_traceback_is_the_cause():
    with traceback_filtering("remove_frames"):
        error = raised(nested(curta.grad), 1.0)
    files = [f.filename for f in traceback.extract_tb(error.__cause__.__traceback__)]
    assert any("jit.py" in f for f in files)
    text = "".join(traceback.format_exception(error))
    assert text.rstrip().endswith("ValueError: no")


def test_in_ipython_they_end_at_the_users_line_too(monkeypatch):
    """It shows the last frame, hidden or not."""
    monkeypatch.setattr("builtins.get_ipython", None, raising=False)
    with traceback_filtering("auto"):
        error = raised(curta.jit(lambda x: jnp.ones(3) + x), jnp.ones(4))
    assert lines(error) == ["<lambda>"]


def test_off_shows_everything():
    with traceback_filtering("off"):
        error = raised(nested(curta.grad), 1.0)
    assert "process" in lines(error) or "stage" in lines(error)
    assert not hasattr(error, "__notes__")


def test_errors_of_calls_end_at_the_call(mode):
    f = curta.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones(3)
    f(x)
    assert lines(raised(f, x), mode) == []
    assert lines(raised(curta.jit(lambda x: x), "text"), mode) == []


def test_the_cause_and_the_note_come_once():
    error = ValueError("again")

    @curta.jit
    def f(x):
        raise error

    with traceback_filtering("quiet_remove_frames"):
        for _ in range(3):
            raised(f, 1.0)
    assert len(error.__notes__) == 1


def test_wrapped_functions_are_what_they_were():
    assert lax.scan.__module__ == "curta.lax.control_flow.scanning"
    assert "carry" in lax.scan.__doc__
    g = curta.grad(functools.partial(pow, 2.0))
    assert g(1.0) > 0
