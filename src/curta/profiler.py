"""Profiles of time and memory.

A trace holds the calls of compiled functions, tracing, compiling by its phases and
passes, what compiled programs do in Python, what the program annotates, and, if asked
for, the kernels within compiled programs. Eager operations are not in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from curta._base.on_demand import Listing, late, listed
from curta.api.environment import live_arrays
from curta.api.jit_cache import forget_fast_calls
from curta.core import recorder
from curta.core.profile_data import (
    ProfileData as ProfileData,
    ProfileEvent as ProfileEvent,
    ProfileLine as ProfileLine,
    ProfilePlane as ProfilePlane,
    xspace_of,
)
from curta.core.protobuf import bytes_field, number_field, varint

gzip: late = late("gzip")

Path = str | os.PathLike[str]

__all__ = [
    "ProfileData",
    "ProfileEvent",
    "ProfileLine",
    "ProfileOptions",
    "ProfilePlane",
    "ProfileSession",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "export_profile_data",
    "register_subprocess",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]
__dir__: Listing = listed(__all__)


_KERNELS = 2  # the level of the device's tracer from which on kernels are recorded


@dataclasses.dataclass
class ProfileOptions:
    """Options of a trace.

    With a `device_tracer_level` of 2 or more, the kernels of compiled programs: those
    that give no memory away and run on this CPU are compiled once more, with the clock
    read between their kernels. The other levels change nothing.

    >>> from curta import profiler
    >>> profiler.ProfileOptions().host_tracer_level
    2
    """

    host_tracer_level: int = 2
    device_tracer_level: int = 1
    python_tracer_level: int = 1


# ---- traces


def start_trace(
    log_dir: Path,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Record what runs until `stop_trace`.

    Calls of compiled functions are waited for, so that their times are those of the
    work. While a trace is recorded, calls take a longer way.

    Args:
      log_dir: the folder for `plugins/profile/TIME/HOST.trace.json.gz`, which
        TensorBoard, ui.perfetto.dev and chrome://tracing show.
      create_perfetto_link, create_perfetto_trace: the file is one for Perfetto in any
        case; no server is started to show it.
      profiler_options: whether kernels are recorded; they are not by default.

    Returns:
      Nothing.

    Raises:
      RuntimeError: if a trace is being recorded.

    >>> import tempfile
    >>> from curta import numpy as jnp, profiler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     profiler.start_trace(folder)
    ...     x = jnp.sin(1.0)
    ...     profiler.stop_trace()
    """
    level = 0 if profiler_options is None else profiler_options.device_tracer_level
    recorder.start(log_dir, kernels=level >= _KERNELS)
    forget_fast_calls()


def stop_trace() -> None:
    """End the trace and write it; RuntimeError if there is none.

    >>> from curta import profiler
    >>> profiler.stop_trace()
    Traceback (most recent call last):
        ...
    RuntimeError: No profile started. Call start_trace first.
    """
    recorder.stop()


@contextlib.contextmanager
def trace(
    log_dir: Path,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """Record what runs in the block; see `start_trace`.

    Args:
      log_dir, create_perfetto_link, create_perfetto_trace, profiler_options: as for
        `start_trace`.

    Returns:
      A context manager, which writes the trace at its end.

    Raises:
      RuntimeError: when the block is entered, if a trace is being recorded.

    >>> import curta, glob, tempfile
    >>> f = curta.jit(lambda x: x + 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with curta.profiler.trace(folder):
    ...         _ = f(1.0)
    ...     len(glob.glob(f"{folder}/plugins/profile/*/*.trace.json.gz"))
    1
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(contextlib.ContextDecorator):
    """Names a block, or a function, in the trace.

    >>> import curta
    >>> with curta.profiler.TraceAnnotation("loading", file="a.npy"):
    ...     pass
    """

    def __init__(self, name: str, **details: Any):
        self.name = name
        self.details = details
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> TraceAnnotation:
        block = recorder.span(self.name, "annotation", **self.details)
        block.__enter__()
        self._entered.append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(*error)

    @staticmethod
    def is_enabled() -> bool:
        """Return True while a trace is being recorded."""
        return recorder.current() is not None


class StepTraceAnnotation(TraceAnnotation):
    """Names a step of training, `step_num`, in the trace.

    >>> from curta import numpy as jnp, profiler
    >>> for step in range(2):
    ...     with profiler.StepTraceAnnotation("train", step_num=step):
    ...         loss = jnp.sin(float(step))
    """


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """The function, with its calls in the trace.

    Args:
      func: any function.
      name: what the calls are called; the function's name by default.
      **decorator_kwargs: what else the trace is to say of each call.

    Returns:
      A function of the same arguments and results.

    Raises:
      TypeError: when the result is called, if `func` is not callable.

    >>> import curta
    >>> @curta.profiler.annotate_function
    ... def load():
    ...     return 1
    >>> load()
    1
    """
    shown: Any = name or getattr(func, "__qualname__", func.__class__.__name__)

    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(shown, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def start_server(port: int) -> NoReturn:
    """Not there: traces are files.

    >>> from curta import profiler
    >>> profiler.start_server(9999)
    Traceback (most recent call last):
        ...
    NotImplementedError: Curta has no profiler server (port 9999): record a ...
    """
    raise NotImplementedError(
        f"Curta has no profiler server (port {port}): record a trace with"
        " profiler.trace(folder), and open the file in ui.perfetto.dev."
    )


def stop_server() -> NoReturn:
    """Not there, as `start_server`.

    >>> from curta import profiler
    >>> profiler.stop_server()
    Traceback (most recent call last):
        ...
    ValueError: No active profiler server: Curta has none.
    """
    raise ValueError("No active profiler server: Curta has none.")


def register_subprocess(pid: int, port: int) -> NoReturn:
    """Not there, as `start_server`: each process records a trace of its own.

    >>> from curta import profiler
    >>> profiler.register_subprocess(1, 9999)
    Traceback (most recent call last):
        ...
    NotImplementedError: Curta has no profiler server to collect the trace ...
    """
    raise NotImplementedError(
        f"Curta has no profiler server to collect the trace of process {pid} at port"
        f" {port}: record one in that process with profiler.trace(folder)."
    )


# ---- sessions


class ProfileSession:
    """A trace that is kept in memory when it ends, as `ProfileData`.

    Args:
      log_dir: the folder to which it is exported when it ends. None (default) is none.
      create_perfetto_link, create_perfetto_trace: as for `start_trace`.
      profiler_options: as for `start_trace`.

    Raises:
      RuntimeError: when it is started, if a trace is being recorded.

    >>> import curta
    >>> with curta.profiler.ProfileSession() as session:
    ...     x = curta.jit(lambda x: x + 1)(1.0)
    >>> session.profile_data.find_plane_with_name("/host:CPU").name
    '/host:CPU'
    """

    def __init__(
        self,
        log_dir: Path | None = None,
        create_perfetto_link: bool = False,
        create_perfetto_trace: bool = False,
        profiler_options: ProfileOptions | None = None,
    ):
        self.log_dir = log_dir
        self.create_perfetto_link = create_perfetto_link
        self.create_perfetto_trace = create_perfetto_trace
        self.profiler_options = profiler_options
        self._is_running = False
        self._data: ProfileData | None = None

    @property
    def is_running(self) -> bool:
        """Whether it is being recorded."""
        return self._is_running

    @property
    def profile_data(self) -> ProfileData | None:
        """The trace, once it has ended."""
        return self._data

    def start(self) -> ProfileSession:
        """Start to record; RuntimeError if a trace is being recorded."""
        start_trace(self.log_dir or "", profiler_options=self.profiler_options)
        self._is_running, self._data = True, None
        return self

    def stop(self) -> ProfileData | None:
        """End the trace, and export it if there is a `log_dir`.

        RuntimeError if it is not being recorded.
        """
        if not self._is_running:
            raise RuntimeError("No profile started")
        self._is_running = False
        taken = recorder.take()
        self._data = ProfileData(xspace_of(taken.events, taken.threads))
        if self.log_dir is not None:
            self.export_profile_data(self.log_dir)
        return self._data

    def export_profile_data(
        self,
        log_dir: Path,
        create_perfetto_link: bool = False,
        create_perfetto_trace: bool = False,
        session_id: str | None = None,
    ) -> None:
        """Write the trace to a folder; see the function `export_profile_data`."""
        export_profile_data(
            self, log_dir, create_perfetto_link, create_perfetto_trace, session_id
        )

    def __enter__(self) -> ProfileSession:
        return self.start()

    def __exit__(self, *error: Any) -> None:
        self.stop()


def export_profile_data(
    profile_data: ProfileData | ProfileSession,
    log_dir: Path,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    session_id: str | None = None,
) -> None:
    """Write a trace to a folder, for XProf and `ProfileData.from_file`.

    Args:
      profile_data: the trace, or a session that has ended.
      log_dir: the folder for `plugins/profile/SESSION/HOST.xplane.pb`.
      create_perfetto_link, create_perfetto_trace: must be False (default): traces for
        Perfetto are written by `start_trace`.
      session_id: the name of the session. None (default) is the time.

    Returns:
      Nothing.

    Raises:
      RuntimeError: the session has not ended.
      TypeError: `profile_data` has another type.
      NotImplementedError: a trace for Perfetto is asked for.

    >>> import curta, glob, tempfile
    >>> session = curta.profiler.ProfileSession().start()
    >>> data = session.stop()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     curta.profiler.export_profile_data(data, folder)
    ...     [file] = glob.glob(f"{folder}/plugins/profile/*/*.xplane.pb")
    ...     read = curta.profiler.ProfileData.from_file(file)
    >>> [plane.name for plane in read.planes]
    ['/host:CPU']
    """
    if create_perfetto_link or create_perfetto_trace:
        raise NotImplementedError(
            "export_profile_data writes no trace for Perfetto: record one with"
            " profiler.trace(folder)."
        )
    if isinstance(profile_data, ProfileSession):
        if profile_data.is_running:
            raise RuntimeError(
                "Cannot export a ProfileSession while it is running. Call stop() first."
            )
        if profile_data.profile_data is None:
            raise RuntimeError(
                "No profile data to export. Ensure the session has completed."
            )
        profile_data = profile_data.profile_data
    if not isinstance(profile_data, ProfileData):
        raise TypeError(
            f"Expected ProfileData or ProfileSession, got {type(profile_data).__name__}"
        )
    folder = recorder.session_folder(log_dir, session_id)
    path = os.path.join(folder, f"{recorder.host_name()}.xplane.pb")
    with open(path, "wb") as file:
        file.write(profile_data.serialized())


# ---- memory


def device_memory_profile(backend: str | None = None) -> bytes:
    """The arrays that are alive, as a compressed profile for `pprof`.

    There is an entry for each type, with the number of arrays and their bytes. The
    format: https://github.com/google/pprof/blob/main/proto/profile.proto.

    >>> import curta
    >>> profile = curta.profiler.device_memory_profile()
    """
    arrays = live_arrays(backend)
    counts = Counter(x.aval.str_short() for x in arrays)
    sizes: Counter[str] = Counter()
    for x in arrays:
        sizes[x.aval.str_short()] += x.nbytes
    names = ["", "allocations", "count", "space", "bytes", *counts]
    profile = _sample_type(1, 2) + _sample_type(3, 4)
    for number, kind in enumerate(counts, 1):
        values = varint(counts[kind]) + varint(sizes[kind])
        sample = bytes_field(1, varint(number)) + bytes_field(2, values)
        line = number_field(1, number)
        profile += bytes_field(2, sample)
        profile += bytes_field(4, number_field(1, number) + bytes_field(4, line))
        profile += bytes_field(5, number_field(1, number) + number_field(2, number + 4))
    profile += b"".join(bytes_field(6, name.encode()) for name in names)
    return gzip.compress(profile)


def save_device_memory_profile(filename: Path, backend: str | None = None) -> None:
    """Write `device_memory_profile` to a file, for `pprof FILE`.

    >>> import os, tempfile
    >>> from curta import profiler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     profiler.save_device_memory_profile(folder + "/memory")
    ...     print(os.listdir(folder))
    ['memory']
    """
    with open(filename, "wb") as file:
        file.write(device_memory_profile(backend))


def _sample_type(kind: int, unit: int) -> bytes:
    return bytes_field(1, number_field(1, kind) + number_field(2, unit))
