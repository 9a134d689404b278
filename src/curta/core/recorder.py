"""Recording when what ran, as a trace that Perfetto and TensorBoard show.

The file is in the format of Chrome's trace viewer: a list of events with a name, a
start and a duration in microseconds, and a thread. Nothing is recorded until `start`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from curta._base.on_demand import late
from curta._base.once import Lock

if TYPE_CHECKING:
    from pathlib import Path

gzip: Any = late("gzip")
json: Any = late("json")
pathlib: Any = late("pathlib")
socket: Any = late("socket")


class Recorder:
    """The events since it was made, of `kernels` too if they are asked for."""

    def __init__(self, folder: str | os.PathLike[str], kernels: bool = False):
        self.folder: Any = pathlib.Path(folder)
        self.kernels = kernels
        self.programs: dict[Any, Any] = {}  # those that run kernel by kernel
        self.events: list[dict[str, Any]] = []
        self.began: float = time.perf_counter()
        self._names: dict[int, str] = {}

    def add(
        self,
        name: str,
        kind: str,
        start: float,
        spent: float | None = None,
        **details: Any,
    ) -> None:
        """An event from `start` on, a `time.perf_counter()`, that ends now.

        Or it ends so many seconds after the start as were `spent`.
        """
        if spent is None:
            spent = time.perf_counter() - start
        thread = threading.current_thread()
        number = thread.ident or 0
        self._names[number] = thread.name
        self.events.append(
            {
                "ph": "X",
                "name": name,
                "cat": kind,
                "pid": os.getpid(),
                "tid": number,
                "ts": (start - self.began) * 1e6,
                "dur": spent * 1e6,
                "args": {k: str(v) for k, v in details.items()},
            }
        )

    def call(
        self, name: str, run: Callable[[Sequence[Any]], Any], args: Sequence[Any]
    ) -> Any:
        """`run(args)`, which is waited for, as an event."""
        start = time.perf_counter()
        outs = run(args)
        for x in outs:
            if hasattr(x, "block_until_ready"):
                x.block_until_ready()
        self.add(f"jit({name})", "program", start)
        return outs

    def write(self) -> Path:
        """The path of the file written, `plugins/profile/TIME/HOST.trace.json.gz`."""
        names = [
            {"ph": "M", "name": "thread_name", "pid": os.getpid(), "tid": n,
             "args": {"name": name}}
            for n, name in self._names.items()
        ]  # fmt: skip
        folder = session_folder(self.folder)
        path = folder / f"{host_name()}.trace.json.gz"
        with gzip.open(path, "wt") as file:
            trace = {"displayTimeUnit": "ns", "traceEvents": [*names, *self.events]}
            json.dump(trace, file)
        return path

    @property
    def threads(self) -> dict[int, str]:
        """The names of the threads of events, by number."""
        return dict(self._names)


def session_folder(folder: str | os.PathLike[str], session: str | None = None) -> Path:
    """`folder/plugins/profile/SESSION`, made if it is missing."""
    when = session or time.strftime("%Y_%m_%d_%H_%M_%S")
    result: Path = pathlib.Path(folder) / "plugins" / "profile" / when
    result.mkdir(parents=True, exist_ok=True)
    return result


def host_name() -> str:
    """The name of this machine, as files of traces are called."""
    name: str = socket.gethostname()
    return name


class _State:
    recorder: Recorder | None = None


_state = _State()
_lock = Lock()


def current() -> Recorder | None:
    """What records now, if anything does."""
    return _state.recorder


def start(folder: str | os.PathLike[str], kernels: bool = False) -> None:
    """Record from now on; RuntimeError if something does already."""
    with _lock:
        if _state.recorder is not None:
            raise RuntimeError(
                "Profile has already been started. Only one profile may be run at a"
                " time. Call stop_trace first."
            )
        _state.recorder = Recorder(folder, kernels)


def stop() -> Path:
    """Record no longer, and write the file; RuntimeError if nothing records."""
    return take().write()


def take() -> Recorder:
    """Record no longer; what was recorded. RuntimeError if nothing records."""
    with _lock:
        recorder, _state.recorder = _state.recorder, None
    if recorder is None:
        raise RuntimeError("No profile started. Call start_trace first.")
    return recorder


@contextlib.contextmanager
def span(name: str, kind: str, **details: Any) -> Iterator[None]:
    """Record the block as an event, if anything records."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        recorder = _state.recorder
        if recorder is not None:
            recorder.add(name, kind, begun, **details)
