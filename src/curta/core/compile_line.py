"""A line that shows that a function is being traced or compiled, while it takes long.

In a terminal it is the last line of stderr, in a notebook a line of the cell's output;
it disappears when the work is done. Nothing is shown where stderr is neither, or with
the setting `curta_show_compiling` off. One thread writes the line. It sleeps until a
second has passed and is started by the first compilation.
"""

from __future__ import annotations

import contextvars
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

from curta._base.once import Lock
from curta.config import config

_AFTER = 1.0  # seconds
_EACH = 0.2  # seconds between two states of the line
_GAP = 0.3  # seconds between tracing and compiling that belong to one call
_ERASE = "\x1b[2K"


class Line(Protocol):
    """Where the line is shown."""

    def show(self, text: str) -> None:
        """Replace the line."""

    def clear(self) -> None:
        """Remove the line."""


class TerminalLine:
    """The last line of a terminal."""

    def show(self, text: str) -> None:
        """Replace the line."""
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{_ERASE}{text[:width]}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        sys.stderr.write(f"\r{_ERASE}")
        sys.stderr.flush()


class NotebookLine:
    """A line in the output of the cell that runs."""

    def __init__(self, display: Callable[..., Any]):
        self._display = display
        self._handle: Any = None
        # The cell that output belongs to is found by the context of its thread.
        self._context = contextvars.copy_context()

    def show(self, text: str) -> None:
        """Replace the line."""
        self._context.run(self._put, text)

    def clear(self) -> None:
        """Remove the line."""
        if self._handle is not None:
            self._context.run(self._put, "")

    def _put(self, text: str) -> None:
        shown = f"<small>{escape(text)}</small>" if text else ""
        data = {"text/plain": text, "text/html": shown}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def find_line() -> Line | None:
    """Where to show the line; None for nowhere."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and hasattr(shell, "kernel"):
        return NotebookLine(ipython.display.display)
    if os.environ.get("TERM") == "dumb" or sys.stderr is None:
        return None
    try:
        return TerminalLine() if sys.stderr.isatty() else None
    except ValueError:  # it is closed
        return None


class CompileWork:
    """The tracing or compiling of one call: what it is about, and since when."""

    def __init__(self, line: Line, name: str, began: float):
        self.line, self.name, self.began = line, name, began
        self.stack: list[str] = []
        self.shown = False
        self.ended = began

    def text(self) -> str:
        """The line: the outermost function that is worked on."""
        verb = "Tracing" if self.stack[0].startswith("tracing") else "Compiling"
        return f"{verb} {self.name} ({time.monotonic() - self.began:.0f} s)"


def _function(what: str) -> str:
    """The function in `tracing f for jit` and `compilation of jit(f)`."""
    name = what.partition(" ")[2].removeprefix("of ").removesuffix(" for jit")
    return name.removeprefix("jit(").removesuffix(")")


class Watcher:
    """Shows the line of the work that takes long.

    >>> watcher = Watcher(lambda: None)
    >>> watcher.begin("tracing f for jit") is None
    True
    """

    def __init__(self, find: Callable[[], Line | None] = find_line):
        self._find = find
        self._lock = Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._work: CompileWork | None = None
        self._owner = 0  # the thread whose work is shown

    def begin(self, what: str) -> CompileWork | None:
        """Work begins; the result is for `end`. None where nothing is to be shown."""
        thread, now = threading.get_ident(), time.monotonic()
        work = self._work
        if work is not None and work.stack and self._owner == thread:
            work.stack.append(what)
            return work
        if not config.curta_show_compiling or (work is not None and work.stack):
            return None
        name = _function(what)
        if (
            work is None
            or (self._owner, work.name) != (thread, name)
            or now - work.ended > _GAP
        ):
            line = self._find()
            if line is None:
                return None
            work = CompileWork(line, name, now)
        with self._lock:
            self._owner, self._work = thread, work
            work.stack.append(what)
            self._start()
        self._wake.set()
        return work

    def end(self, work: CompileWork) -> None:
        """The innermost work of this thread is done."""
        with self._lock:
            work.stack.pop()
            if work.stack:
                return
            work.ended = time.monotonic()
            self._wake.clear()
            if work.shown:
                work.line.clear()
                work.shown = False

    def _start(self) -> None:
        """Start the thread, which a forked process has not."""
        if self._thread is None or self._process != os.getpid():
            self._process = os.getpid()
            self._thread = threading.Thread(
                target=self._watch, name="curta-compiling", daemon=True
            )
            self._thread.start()

    def _watch(self) -> None:
        while True:
            self._wake.wait()
            work = self._work
            wait = _EACH if work is None else work.began + _AFTER - time.monotonic()
            time.sleep(max(_EACH, wait))
            with self._lock:
                work = self._work
                late = work is not None and work.stack
                if work is None or not late:
                    continue
                if time.monotonic() - work.began >= _AFTER:
                    work.shown = True
                    work.line.show(work.text())


watcher: Watcher = Watcher()
