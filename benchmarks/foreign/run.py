"""Runs one program over one library; `__main__.py` starts a process for each.

It reads commands from its standard input, a list in JSON on each line, and answers on
its standard output: ["load", suite, folder, program, preset, results],
["time", calls], ["peak"].
"""

import argparse
import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.foreign.suites import SUITES, Loaded

FIRST_SECONDS = 240  # the longest a first call may take


class Program:
    """The program that was loaded."""

    def __init__(self, library: str):
        self.library = library
        self.loaded: Loaded | None = None
        self.arguments: list[Any] = []
        self.base = 0  # bytes of the process before the first call

    def load(self, suite: str, folder: str, name: str, preset: str, kept: str) -> Any:
        """Return the seconds of the first call."""
        self.loaded = SUITES[suite].load(Path(folder), name, preset, self.library)
        arguments = self.loaded.fresh()
        self.base = memory("VmRSS")
        start = time.perf_counter()
        value = self.loaded.wait(self.loaded.call(*arguments))
        first = time.perf_counter() - start
        results = self.loaded.results(value, arguments)
        np.savez(kept, *(np.asarray(x) for x in results))
        if self.library != "numpy":
            self.arguments = self.loaded.wait(self.loaded.fresh())
            self.loaded.wait(self.loaded.call(*self.arguments))
        return (first,)

    def time(self, calls: int) -> Any:
        """Return wall and processor seconds per call."""
        assert self.loaded
        call, wait, arguments = self.loaded.call, self.loaded.wait, self.arguments
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(calls):
            wait(call(*arguments))
        wall = time.perf_counter() - wall
        return wall / calls, (time.process_time() - processor) / calls

    def peak(self) -> Any:
        """Return the bytes of a call at its peak, beyond those of its arguments."""
        assert self.loaded
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # begin a new peak
        self.loaded.wait(self.loaded.call(*self.arguments))
        return (memory("VmHWM") - self.base,)


def memory(kind: str) -> int:
    """Bytes of this process, as Linux counts them: at its peak or at present."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(x for x in status.read_text().splitlines() if x.startswith(kind))
    return int(line.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("curta", "jax", "numpy"))
    library = parser.parse_args().library
    if library == "curta":
        importlib.import_module("curta.as_jax")
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # programs print
    program = Program("numpy" if library == "numpy" else "jax")
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        signal.alarm(FIRST_SECONDS)
        try:
            answer = ["ok", *getattr(program, command)(*arguments)]
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            answer = ["error", f"{type(error).__name__}: {first[:120]}"]
        signal.alarm(0)
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
