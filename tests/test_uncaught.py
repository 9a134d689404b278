"""Uncaught errors: shown without the frames of this package."""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import os
import subprocess
import sys
import threading
import traceback

import pytest

import curta
import curta.numpy as jnp
from curta._base import uncaught
from curta.config import traceback_filtering
from curta.core.tracebacks import UnfilteredStackTrace

MISTAKES = {
    "operator": lambda: jnp.ones(3) + jnp.ones(4),
    "function": lambda: jnp.reshape(jnp.ones(3), 4),
    "index": lambda: jnp.ones(3)["a"],
    "conversion": lambda: int(jnp.ones(3)),
    "setting": lambda: curta.config.update("jax_no_such", 3),
    "key": lambda: curta.random.normal(3),
    "transformation": lambda: curta.grad(lambda x: x)(jnp.ones(3)),
    "compiled": lambda: curta.jit(lambda x: x @ jnp.ones(4))(jnp.ones(3)),
    "mapped": lambda: curta.vmap(lambda x: x + jnp.ones(4))(jnp.ones((2, 3))),
    "tree": lambda: curta.tree.map(lambda x: x + jnp.ones(4), [jnp.ones(3)]),
}


def prepared(function, mode="auto"):
    with traceback_filtering(mode), pytest.raises(Exception) as info:
        function()
    with traceback_filtering(mode):
        return uncaught.prepare(info.value)


def files(error):
    return {f.filename for f in traceback.extract_tb(error.__traceback__)}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_last_frame_is_the_users(name):
    error = prepared(MISTAKES[name])
    assert files(error) == {__file__}
    assert "frames of Curta" in error.__notes__[-1]


@pytest.mark.parametrize("mode", ["off", "tracebackhide"])
def test_other_settings_leave_all_frames(mode):
    assert len(files(prepared(MISTAKES["operator"], mode))) > 1


def test_the_whole_traceback_is_the_cause_if_asked_for():
    for name in ("operator", "compiled"):
        error = prepared(MISTAKES[name], "remove_frames")
        assert files(error) == {__file__}
        assert isinstance(error.__cause__, UnfilteredStackTrace)
        assert len(files(error.__cause__)) > 1
        assert not isinstance(error.__cause__.__cause__, UnfilteredStackTrace)


def test_errors_that_caused_it_are_shortened_too():
    def twice():
        try:
            MISTAKES["operator"]()
        except TypeError as first:
            raise ValueError("again") from first

    error = prepared(twice)
    assert files(error) == files(error.__cause__) == {__file__}
    assert len(error.__notes__) == 1 and not hasattr(error.__cause__, "__notes__")


def test_they_point_at_what_was_being_run():
    """The frame has gone on to its handler, which is not where the error came from."""

    def twice():
        try:
            return jnp.ones(3) + jnp.ones(4)
        except TypeError as first:
            raise ValueError("again") from first

    shown = traceback.extract_tb(prepared(twice).__cause__.__traceback__)[-1]
    line = linecache.getline(__file__, shown.lineno)
    assert line[shown.colno : shown.end_colno] == "jnp.ones(3) + jnp.ones(4)"


def test_errors_of_others_are_left_alone():
    error = prepared(lambda: 1 / 0)
    assert files(error) == {__file__} and not hasattr(error, "__notes__")


def test_code_that_is_generated_is_the_users():
    def from_text():
        exec("def f():\n    raise ValueError('mine')\nf()")

    def from_context():
        @contextlib.contextmanager
        def context():
            yield
            raise ValueError("mine")

        with context():
            pass

    for function, frames in (from_text, 4), (from_context, 4):
        error = prepared(function)
        assert len(traceback.extract_tb(error.__traceback__)) == frames
        assert not hasattr(error, "__notes__")


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    number: int


def test_errors_that_cannot_be_changed_are_shown():
    def with_odd_notes():
        error = ValueError("mine")
        error.__notes__ = None
        raise error

    def frozen():
        try:
            jnp.ones(3) + jnp.ones(4)
        except TypeError as first:
            raise Frozen(3) from first

    shown = []
    hook = uncaught._hook_of_program(lambda *given: shown.append(given))
    for function in with_odd_notes, frozen:
        with traceback_filtering("auto"), pytest.raises(Exception) as info:
            function()
        hook(info.type, info.value, info.tb)
        assert shown[-1][1] is info.value
    hook(ValueError, None, None)
    assert shown[-1] == (ValueError, None, None)


def test_consoles_show_errors_by_the_hook():
    program = """if True:
        import code, curta
        class Console(code.InteractiveInterpreter):
            def write(self, text): print("<", text, ">")
        Console().runcode(compile("1 / 0", "<in>", "exec"))
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert "ZeroDivisionError" in done.stderr and not done.stdout


def test_part_of_a_traceback_is_shown_as_it_is():
    shown = []
    hook = uncaught._hook_of_program(lambda *given: shown.append(given))
    with pytest.raises(TypeError) as info:
        MISTAKES["operator"]()
    error = info.value
    hook(TypeError, error, error.__traceback__.tb_next)
    assert shown[-1][2] is error.__traceback__.tb_next
    with traceback_filtering("auto"):
        hook(TypeError, error, error.__traceback__)
    assert shown[-1][2] is error.__traceback__ and files(error) == {__file__}


def test_errors_of_threads(monkeypatch):
    shown = []
    hook = uncaught._hook_of_threads(shown.append)
    monkeypatch.setattr(threading, "excepthook", hook)
    before = curta.config.jax_traceback_filtering
    curta.config.update("jax_traceback_filtering", "auto")  # in the thread too
    try:
        thread = threading.Thread(target=MISTAKES["operator"])
        thread.start()
        thread.join()
    finally:
        curta.config.update("jax_traceback_filtering", before)
    assert shown[0].thread is thread and shown[0].exc_type is TypeError
    last = traceback.extract_tb(shown[0].exc_traceback)[-1]
    assert last.filename == __file__


class Shell:
    """The parts of IPython's shell that are used."""

    custom_exceptions: tuple[type, ...] = ()

    def __init__(self):
        self.shown = []

    def set_custom_exc(self, kinds, handler):
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, error, tb_offset):
        self.shown.append({f.filename for f in traceback.extract_tb(error[2])})


def test_errors_in_ipython():
    shell = Shell()
    uncaught.watch_ipython(shell)
    assert shell.custom_exceptions == (Exception,)
    for mode, own in (("off", True), ("auto", False)):
        with pytest.raises(TypeError) as info:
            MISTAKES["operator"]()
        with traceback_filtering(mode):
            shell.handler(shell, TypeError, info.value, info.tb)
        assert (shell.shown[-1] != {__file__}) == own
    shell.custom_exceptions, shell.handler = (ValueError,), None
    uncaught.watch_ipython(shell)  # which has a way of its own
    assert shell.handler is None
    uncaught.watch_ipython(None)


def test_a_bad_variable_is_one_line():
    """Importing the package and the command line alike."""
    for arguments in (["-m", "curta", "doctor"], ["-c", "import curta"]):
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "CURTA_NUM_THREADS": "many"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 1 and not done.stdout
        assert done.stderr == (
            "curta.errors.EnvironmentValueError: the environment variable"
            " CURTA_NUM_THREADS: expected a whole number, got 'many'\n"
        )


@pytest.mark.parametrize(
    "mistake, name",
    [
        (lambda x: jnp.hypot(x, jnp.ones(4)), "curta.numpy.hypot"),
        (lambda x: x // jnp.ones(4), "curta.numpy.floor_divide"),
        (lambda x: curta.jit(lambda x: jnp.where(x, x, jnp.ones(4)))(x), "numpy.where"),
        (lambda x: jnp.linalg.cholesky(x * jnp.ones((2, 3))), "numpy.linalg.cholesky"),
        (lambda x: curta.lax.switch(0, []), None),  # the message has the name
        (lambda x: x + jnp.ones(4), None),
    ],
)
def test_the_public_function_is_named_if_the_message_does_not(mistake, name):
    notes = prepared(lambda: mistake(jnp.ones(3))).__notes__
    raised = [n for n in notes if n.startswith("It was raised in")]
    assert [n.endswith(f"{name}.") for n in raised] == ([] if name is None else [True])


def test_an_error_for_want_of_memory_says_what_is_alive(monkeypatch):
    arrays = [*(jnp.ones((64, 4)) for _ in range(3)), jnp.ones(2)]
    monkeypatch.setattr("curta.api.environment.live_arrays", lambda: arrays)
    error = uncaught.prepare(curta.errors.OutOfMemoryError(1 << 50))
    (note,) = [n for n in error.__notes__ if "alive" in n]
    largest = "3 of float32[64,4] (3.0 KiB), 1 of float32[2] (8 bytes)"
    assert f"Arrays that are alive (4) take 3.0 KiB: {largest}." in note
    assert "donate_argnums" in note
