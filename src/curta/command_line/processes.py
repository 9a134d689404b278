"""Programs as several processes: `curta run -n 4 train.py`.

The program calls `curta.distributed.initialize()`, without arguments. With mpi4py and a
launcher of MPI programs, of a wheel next to this Python or on the path, the processes
exchange arrays by MPI; else over TCP, for which nothing is needed. The status is that
of the first process that fails.

    curta run -n 4 train.py --steps 100
    curta run -n 4 --prefix -m package.train

On several machines over TCP, with the same CURTA_HOSTS_TOKEN on each:

    curta run -n 2 --of 4 --coordinator first.host:4321 train.py
    curta run -n 2 --of 4 --from 2 --coordinator first.host:4321 train.py
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any

from curta.command_line.usage import UsageError
from curta.hosts.launched import COORDINATOR, COUNT, INDEX
from curta.hosts.mpi import is_there as mpi_is_there
from curta.hosts.ports import free_port
from curta.hosts.wire import TOKEN

_GRACE = 15.0  # seconds for the others to end when a process has failed


def add_options(parser: argparse.ArgumentParser) -> None:
    """Take what says how many processes run a program, and how they meet."""
    add = parser.add_argument
    add("-n", type=int, metavar="N", help="processes on this machine (2 with --of)")
    add("--engine", choices=("auto", "mpi", "tcp"), default="auto")
    add("--prefix", action="store_true", help="begin lines with the process's number")
    add("--coordinator", metavar="HOST:PORT", help="where process 0 is reached, by TCP")
    add("--of", type=int, metavar="N", help="processes on all machines")
    add("--from", dest="first", type=int, default=0, metavar="I", help="the first here")


def are_asked_for(options: argparse.Namespace) -> bool:
    """Whether the options are of a program that runs as several processes."""
    given = options.n, options.of, options.coordinator
    return any(x is not None for x in given)


def run(options: argparse.Namespace) -> int:
    """Run the program; the exit status."""
    options.n = 2 if options.n is None else options.n
    _check_counts(options.n, options.first, options.of)
    _check_coordinator(options)
    flags = ["-m"] if options.module else []
    command = [sys.executable, "-m", "curta", "run", *flags, *options.program]
    launcher = None if options.coordinator else _launcher()
    by_mpi = launcher is not None and mpi_is_there()
    if options.engine == "mpi" and not by_mpi:
        raise UsageError(
            "mpi4py or a launcher (mpiexec) is missing: pip install 'curta[mpi]'"
        )
    if options.engine == "tcp" or not by_mpi or launcher is None:
        return _Local(options, command).run()
    return _status(_by_mpi(launcher, options, command))


def _check_counts(here: int, first: int, of: int | None) -> None:
    if here < 1:
        raise UsageError(f"-n must be at least 1, not {here}")
    if first < 0:
        raise UsageError(f"--from must be at least 0, not {first}")
    if of is not None and first + here > of:
        raise UsageError(f"processes {first} to {first + here - 1} are not among {of}")


def _check_coordinator(options: argparse.Namespace) -> None:
    address = options.coordinator
    if address is None and options.of is not None and options.n < options.of:
        raise UsageError(
            f"of {options.of} processes {options.n} are to run here: --coordinator"
            " HOST:PORT says where process 0 is reached from the other machines"
        )
    if address is not None and not re.fullmatch(r".+:\d+", address):
        raise UsageError(
            f"--coordinator is HOST:PORT, as first.host:4321, not {address!r}"
        )


def _status(status: int) -> int:
    """The status of a shell for that of a process that may have had a signal."""
    return 128 - status if status < 0 else status


# ---- by MPI


def _launcher() -> str | None:
    """The program that starts MPI programs: first that of a wheel."""
    for name in ("mpiexec", "mpirun"):
        beside = os.path.join(os.path.dirname(sys.executable), name)
        if os.access(beside, os.X_OK):
            return beside
    return shutil.which("mpiexec") or shutil.which("mpirun")


def _by_mpi(launcher: str, options: Any, command: list[str]) -> int:
    asked = subprocess.run(
        [launcher, "--version"], capture_output=True, text=True, check=False
    )
    version = asked.stdout + asked.stderr
    environment = dict(os.environ)
    flags: list[str] = []
    if "Open MPI" in version or "OpenRTE" in version or "PRRTE" in version:
        flags = ["--oversubscribe"]
        flags += ["--output", "tag"] if options.prefix else []
        if os.geteuid() == 0:
            environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
            environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    elif options.prefix:
        flags = ["-prepend-rank"]
    full = [launcher, "-n", str(options.n), *flags, *command]
    return subprocess.run(full, env=environment, check=False).returncode


# ---- over TCP


class _Local:
    """Processes on this machine, which find each other over TCP."""

    def __init__(self, options: Any, command: list[str]) -> None:
        self._first, self._count = options.first, options.n
        self._prefix = options.prefix
        self._command = command
        self._threads: list[threading.Thread] = []
        self._environment = {
            **os.environ,
            COORDINATOR: options.coordinator or f"127.0.0.1:{free_port()}",
            COUNT: str(options.of or options.n),
        }
        if not options.coordinator:
            self._environment.setdefault(TOKEN, secrets.token_hex(16))
        share = len(os.sched_getaffinity(0)) // options.n
        self._environment.setdefault("CURTA_NUM_THREADS", str(max(1, share)))

    def run(self) -> int:
        """Run all; the status of the first that fails."""
        running = [self._start(self._first + i) for i in range(self._count)]

        def stop(*_: object) -> None:
            for process in running:
                process.terminate()

        signal.signal(signal.SIGTERM, stop)
        try:
            return self._wait(running)
        except KeyboardInterrupt:  # the processes have had it too
            self._end(running)
            return 130
        finally:
            for process in running:
                process.kill()
            for thread in self._threads:
                thread.join(_GRACE)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        piped = subprocess.PIPE if self._prefix else None
        process = subprocess.Popen(
            self._command,
            env={**self._environment, INDEX: str(index)},
            stdout=piped,
            stderr=piped,
        )
        for source, sink in (
            (process.stdout, sys.stdout),
            (process.stderr, sys.stderr),
        ):
            if source is not None:
                thread = threading.Thread(
                    target=_relay, args=(source, sink, f"[{index}] "), daemon=True
                )
                thread.start()
                self._threads.append(thread)
        return process

    def _wait(self, running: list[subprocess.Popen[bytes]]) -> int:
        """Wait until all have ended, for a short time only once one has failed."""
        while True:
            ended = [p.poll() for p in running]
            failed = [status for status in ended if status]
            if failed:
                # The others end by an uncaught error, with status 1, perhaps as early.
                own = [status for status in self._end(running) if status]
                return _status(next((s for s in own if s != 1), 1))
            if None not in ended:
                return 0
            time.sleep(0.02)

    def _end(self, running: list[subprocess.Popen[bytes]]) -> list[int | None]:
        """Let processes end by themselves after one has failed; then terminate them.

        The statuses of those that ended by themselves.
        """
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and any(p.poll() is None for p in running):
            time.sleep(0.02)
        own = [process.poll() for process in running]
        for process in running:
            process.kill()
            process.wait()
        return own


def _relay(source: IO[bytes], sink: Any, prefix: str) -> None:
    """Copy lines, each with a prefix."""
    for line in source:
        sink.write(prefix + line.decode(errors="replace"))
        sink.flush()
