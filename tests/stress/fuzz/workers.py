"""Processes with a number of threads each, in which programs are run.

A program that crashes its process is a finding like any other. This module imports
nothing of Curta, so that a process can be given its environment first.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from typing import Any

SECONDS = 120  # after which a program is said to hang


class Crash(Exception):
    """A process died, or did not answer."""


def _set_environment(values: dict[str, str]) -> None:
    os.environ.update(values)


class Worker:
    """One process with environment variables of its own, restarted when it dies."""

    def __init__(self, seconds: float = SECONDS, **environment: str):
        self.environment, self.seconds = environment, seconds
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, fun: Callable[..., Any], *args: Any) -> Any:
        """What the function returns there; `Crash` if the process dies or hangs."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                1,
                multiprocessing.get_context("spawn"),
                _set_environment,
                (self.environment,),
            )
        try:
            return self._pool.submit(fun, *args).result(self.seconds)
        except BrokenProcessPool:
            self.stop()
            raise Crash(f"the process died ({self.environment})") from None
        except TimeoutError:
            self.stop()
            raise Crash(f"no answer in {self.seconds} s ({self.environment})") from None

    def stop(self) -> None:
        """End the process."""
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.kill()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
