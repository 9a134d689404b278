"""The line that shows, in terminals and notebooks, that a function compiles."""

import io
import sys
import time
import types

import pytest

from curta.config import show_compiling
from curta.core import compile_line
from curta.core.compile_line import NotebookLine, TerminalLine, Watcher, find_line


class Noted:
    """A line that notes what it shows."""

    def __init__(self):
        self.shown = []

    def show(self, text):
        self.shown.append(text)

    def clear(self):
        self.shown.append(None)


@pytest.fixture
def quick(monkeypatch):
    """Work is long after 20 ms."""
    monkeypatch.setattr(compile_line, "_AFTER", 0.02)
    monkeypatch.setattr(compile_line, "_EACH", 0.005)


def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_long_work_is_shown_and_the_line_disappears(quick):
    line = Noted()
    watcher = Watcher(lambda: line)
    outer = watcher.begin("tracing step for jit")
    inner = watcher.begin("tracing layer for jit")
    until(lambda: line.shown)
    watcher.end(inner)
    watcher.end(outer)
    assert line.shown[0].startswith("Tracing step (") and line.shown[-1] is None
    line.shown.clear()
    again = watcher.begin("compilation of jit(step)")  # of the same call: no new wait
    until(lambda: line.shown)
    watcher.end(again)
    assert line.shown[0].startswith("Compiling step (") and line.shown[-1] is None


def test_short_work_shows_nothing(monkeypatch):
    line = Noted()
    watcher = Watcher(lambda: line)
    watcher.end(watcher.begin("tracing f for jit"))
    time.sleep(0.01)
    assert not line.shown


def test_nothing_without_a_terminal_or_with_the_setting_off(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert find_line() is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(find_line(), TerminalLine)
    monkeypatch.setenv("TERM", "dumb")
    assert find_line() is None
    monkeypatch.setattr(sys, "stderr", None)
    assert find_line() is None
    with show_compiling(False):
        assert Watcher(Noted).begin("tracing f for jit") is None


def test_a_terminal_gets_one_line_that_is_erased(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    line = TerminalLine()
    line.show("Compiling f (1 s)" + "x" * 500)
    line.clear()
    text = sys.stderr.getvalue()
    assert "\n" not in text and text.endswith("\r\x1b[2K") and len(text) < 300


def test_a_notebook_gets_a_line_of_the_cell(monkeypatch):
    shown = []
    handle = types.SimpleNamespace(update=lambda data, raw: shown.append(data))

    def display(data, raw, display_id):
        shown.append(data)
        return handle

    shell = types.SimpleNamespace(kernel=None)
    ipython = types.SimpleNamespace(
        get_ipython=lambda: shell, display=types.SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    line = find_line()
    assert isinstance(line, NotebookLine)
    line.clear()
    line.show("Compiling <lambda> (1 s)")
    line.clear()
    assert [d["text/plain"] for d in shown] == ["Compiling <lambda> (1 s)", ""]
    assert shown[0]["text/html"] == "<small>Compiling &lt;lambda&gt; (1 s)</small>"
