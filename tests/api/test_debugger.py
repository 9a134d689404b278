"""debug.breakpoint at a terminal that is a string."""

import io
import re

import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.api.debugger import register_debugger
from curta.debug import breakpoint as stop

elsewhere = "global"


class Terminal:
    """Commands to give, and what was shown."""

    def __init__(self, *commands):
        self.options = {
            "stdin": io.StringIO("".join(c + "\n" for c in commands)),
            "stdout": io.StringIO(),
        }

    @property
    def answers(self):
        """The output after each prompt."""
        text = self.options["stdout"].getvalue().replace("Entering jdb:\n", "")
        return [part.rstrip("\n") for part in text.split("(jdb) ")[1:]]


@pytest.mark.parametrize("jit", [False, True])
def test_values(jit):
    terminal = Terminal("p x", "y * 2", "p [x, three]", "pp y", "p oops", "", "c")

    def f(x):
        three = 3
        y = x + three
        stop(**terminal.options)
        return y

    run = curta.jit(f) if jit else f
    assert run(jnp.float32(2)) == 5.0
    x, doubled, pair, y, error, *_ = terminal.answers
    assert (x, doubled) == (
        "Array(2., dtype=float32)",
        "Array(10., dtype=float32)",
    )
    assert pair == "[Array(2., dtype=float32), 3]"
    assert y == "Array(5., dtype=float32)"
    assert error == "*** NameError: name 'oops' is not defined"


def test_frames():
    terminal = Terminal("l", "u", "p x", "u", "d", "d", "bt", "p elsewhere", "c")

    def inner(z):
        stop(**terminal.options, num_frames=2)
        return z

    @curta.jit
    def outer(x):
        return inner(x + 1)

    outer(1.0)
    here, up, x, top, down, bottom, trace, other, _ = terminal.answers
    assert re.match(rf"> {re.escape(__file__)}\(\d+\)\n", here)
    assert "->          stop(**terminal.options, num_frames=2)\n" in here + "\n"
    assert "->          return inner(x + 1)" in up
    assert x == "Array(1., dtype=float32)"
    assert top.startswith("At topmost frame.")
    assert "->          stop(" in down
    assert bottom.startswith("At bottommost frame.")
    assert trace.startswith("Traceback:\n  File ") and trace.count("File") == 2
    assert trace.splitlines()[-1].strip() == "stop(**terminal.options, num_frames=2)"
    assert other == "'global'"


def test_inner_frames_can_be_shown():
    terminal = Terminal("bt", "c")
    curta.jit(lambda x: stop(**terminal.options, filter_frames=False))(1.0)
    assert "api/jit.py" in terminal.answers[0]


def test_mapped_and_looped():
    terminal = Terminal(*["p x", "c"] * 2)
    curta.vmap(lambda x: (stop(**terminal.options, ordered=True), x)[1])(jnp.arange(2))
    values = ["Array(0, dtype=int32)", "", "Array(1, dtype=int32)", ""]
    assert terminal.answers == values
    terminal = Terminal(*["p i", "c"] * 3)

    def body(i, x):
        stop(**terminal.options)
        return x

    lax.fori_loop(0, 3, body, 0)
    assert [a[6] for a in terminal.answers[::2]] == ["0", "1", "2"]


def test_odd_variables():
    terminal = Terminal("p odd", "p x", "c")

    @curta.jit
    def f(x):
        odd = {(lambda: 0): x, (lambda: 1): x}  # keys without an order
        stop(**terminal.options)
        return len(odd)

    f(1.0)
    assert terminal.answers[:2] == [
        "<cant_flatten>",
        "Array(1., dtype=float32)",
    ]


def test_tokens():
    terminal = Terminal("c")

    @curta.jit
    def f(x):
        return stop(**terminal.options, token=x * 2)

    assert f(2.0) == 4.0
    assert terminal.answers == [""]
    curta.jit(lambda x: (stop(**terminal.options, token=x), x)[1])(
        1.0
    )  # not used: no stop
    with pytest.raises(ValueError, match="`ordered` and `token` are mutually excl"):
        stop(**terminal.options, token=1.0, ordered=True)


def test_quitting():
    for commands in ["q"], []:
        with pytest.raises(SystemExit):
            stop(**Terminal(*commands).options)


def test_other_debuggers():
    seen = []
    with pytest.raises(ValueError, match='"cli" already registered'):
        register_debugger("cli", print, 0)
    register_debugger("test", lambda frames, thread, **o: seen.append((frames, o)), -9)
    curta.jit(lambda x: stop(backend="test", mark=1))(2.0)
    ((frames, options),) = seen
    assert float(frames[0].variables["x"]) == 2.0 and options == {"mark": 1}
    terminal = Terminal("c")
    stop(**terminal.options, backend="unknown")
    assert terminal.answers == [""]
