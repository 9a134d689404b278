"""Progress bars: of tqdm, of rich, or plain text; and what moves them."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from curta._base.on_demand import late

tqdm: Any = late("tqdm")
tqdm_auto: Any = late("tqdm.auto")
rich: Any = late("rich.progress")
_WIDTH = 30  # characters of a bar of plain text
_OFTEN = 0.1  # seconds between lines of it


def make_bar(description: str, total: int | None) -> Any:
    """A bar by what is installed."""
    if importlib.util.find_spec("tqdm"):
        # In notebooks its widgets, if they are installed, which it warns about else.
        kind = tqdm_auto if importlib.util.find_spec("ipywidgets") else tqdm
        return kind.tqdm(desc=description, total=total, unit="it", miniters=1)
    if importlib.util.find_spec("rich"):
        return RichBar(description, total)
    return TextBar(description, total)


class RichBar:
    """A bar of rich."""

    def __init__(self, description: str, total: int | None):
        self._progress = rich.Progress(
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
            rich.TimeRemainingColumn(),
        )
        self._progress.start()
        self._task = self._progress.add_task(description, total=total)

    def update(self, count: int) -> None:
        """Advance the bar by a number of iterations."""
        self._progress.update(self._task, advance=count)

    def close(self) -> None:
        """The loop has ended."""
        self._progress.stop()


class TextBar:
    """A line on stderr, written over and over."""

    def __init__(self, description: str, total: int | None):
        self._description, self._total = description, total
        self._done = 0
        self._begun = time.monotonic()
        self._shown = float("-inf")

    def update(self, count: int) -> None:
        """Advance the bar by a number of iterations."""
        self._done += count
        if time.monotonic() - self._shown >= _OFTEN:
            self._show()

    def close(self) -> None:
        """The loop has ended."""
        self._show()
        sys.stderr.write("\n")

    def _show(self) -> None:
        self._shown = time.monotonic()
        text = f"{self._done}"
        if self._total:
            full = _WIDTH * self._done // self._total
            text = f"[{'#' * full:<{_WIDTH}}] {self._done}/{self._total}"
        seconds = self._shown - self._begun
        sys.stderr.write(f"\r{self._description} {text} {seconds:.1f} s")
        sys.stderr.flush()


class _BarRun:
    """A loop under way: its bar, and what it shows."""

    def __init__(self, bar: Any):
        self.bar = bar
        self.shown = 0


class Meter:
    """Moves the bars of the runs of one loop, one in each thread.

    A loop that is computed again for a gradient says numbers that it said before, which
    change nothing.
    """

    def __init__(self, make: Callable[[str, int | None], Any], description: str):
        self._make, self._description = make, description
        self._runs: dict[int | None, _BarRun] = {}

    def begin(self, total: Any) -> None:
        """Show a bar instead of one whose loop has failed."""
        thread = threading.get_ident()
        self._close(thread)
        count = None if int(total) < 0 else int(total)
        self._runs[thread] = _BarRun(self._make(self._description, count))

    def show(self, count: Any) -> None:
        """Advance the bar of this loop to a number of iterations."""
        run = self._runs.get(self._key())
        if run is not None and int(count) > run.shown:
            more = int(count) - run.shown
            run.shown += more
            run.bar.update(more)

    def end(self, count: Any) -> None:
        """All iterations are done."""
        self.show(count)
        self._close(self._key())

    def _key(self) -> int | None:
        """The run of this thread. One that began outside of a program may go on in it,
        in the queue's thread, and is the only one then."""
        thread = threading.get_ident()
        return thread if thread in self._runs else next(iter(self._runs), None)

    def _close(self, key: int | None) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            run.bar.close()
