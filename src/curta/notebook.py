"""IPython extension `%load_ext curta.notebook`: displays of pytrees, timing advice."""

from __future__ import annotations

import re
from typing import Any

from curta import debug
from curta._base.advisor import advise
from curta._base.uncaught import watch_ipython
from curta.debug.trees import holds_arrays
from curta.runtime.queue import submitted

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_TIMED = re.compile(r"^\s*%%?time(it)?\b", re.MULTILINE)
_WAITS = ("block_until_ready", "device_get", "asarray", "effects_barrier")
_TREES = (dict, list, tuple)


class _Timing:
    """Says once that a cell has timed calls that it does not wait for."""

    def __init__(self) -> None:
        self._before = 0

    def begin(self, info: Any) -> None:
        """A cell is about to run."""
        self._before = submitted()

    def end(self, result: Any) -> None:
        """A cell has run."""
        cell = result.info.raw_cell or ""
        queued = submitted() > self._before
        if queued and _TIMED.search(cell) and not any(w in cell for w in _WAITS):
            advise(
                "timing",
                None,
                "The cell times calls that are computed after they return, and does not"
                " wait for their results: end what is timed with"
                " .block_until_ready(), as in %timeit f(x).block_until_ready().",
            )


_timing = _Timing()


def load_ipython_extension(shell: Any) -> None:
    """Show dicts, lists and tuples of arrays by `debug.show`; advise on timing.

    Tracebacks end at the user's line, as they do without it in a shell that ran before
    the package was imported.

    Args:
      shell: IPython's shell, which calls this for `%load_ext curta.notebook`.
    """
    formatter = shell.display_formatter.formatters["text/html"]
    for kind in _TREES:
        formatter.for_type(kind, _tree_html)
    shell.events.register("pre_run_cell", _timing.begin)
    shell.events.register("post_run_cell", _timing.end)
    watch_ipython(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Undo `load_ipython_extension`.

    Args:
      shell: IPython's shell, which calls this for `%unload_ext curta.notebook`.
    """
    formatter = shell.display_formatter.formatters["text/html"]
    for kind in _TREES:
        formatter.pop(kind, None)
    shell.events.unregister("pre_run_cell", _timing.begin)
    shell.events.unregister("post_run_cell", _timing.end)


def _tree_html(tree: Any) -> str | None:
    """The pytree as HTML; None, which leaves it to the text, if it holds no arrays."""
    return debug.show(tree)._repr_html_() if holds_arrays(tree) else None
