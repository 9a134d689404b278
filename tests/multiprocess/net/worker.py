"""A process of the net: run programs, and report each outcome.

    curta run -n 2 -m tests.multiprocess.net.worker NAMES FOLDER FIRST
    CURTA_SIMULATE_HOSTS=2 python -m tests.multiprocess.net.worker NAMES FOLDER FIRST

NAMES is a file with a name in each line; all from number FIRST on are run. Process i
writes a line of JSON to FOLDER/i for each step: before a program starts in a layout,
and its outcome. Processes synchronize after each by their table of keys, which does not
depend on collectives. An exception that all processes raise does not end them.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.multiprocess.net.layouts import OnMesh
from tests.multiprocess.net.programs import Arrays, program_of

import curta
from curta.config import config
from curta.hosts.engine import of_process
from curta.hosts.failures import HostsError
from curta.hosts.launched import launched

ALONE = "one host"
WRONG_ALONE = "wrong on one host, too"
AGAIN = ("second", "third", "fourth")  # calls behind the first, which compiles
_DEVICES = 2  # of each host
_BROKEN = 7  # the exit status of a process that has lost step with others


class Log:
    """The lines that the process writes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def say(self, **line: Any) -> None:
        """Write a line at once: the process may be ended after it."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class Worker:
    """Runs programs in all layouts."""

    def __init__(self, log: Log, hosts: int) -> None:
        self._log = log
        self._hosts = hosts
        self._engine = of_process()

    def run(self, number: int, name: str) -> None:
        """One program: on this host alone, then over all in each layout."""
        program = program_of(name)
        with program.settings():
            case = OnMesh(program, self._hosts)
            wanted, error = self._step(number, ALONE, lambda: _alone(case))
            if error is not None:
                return
            for layout in case.layouts:
                run = case.jitted(layout)
                self._step(number, layout, lambda run=run: _over_all(case, run, wanted))

    def _step(
        self, number: int, layout: str, step: Callable[[], tuple[Any, dict[str, Any]]]
    ) -> tuple[Any, str | None]:
        """The result of a step, or its error."""
        here = {"number": number, "layout": layout}
        self._log.say(**here, state="begin")
        result, error, kind, times = None, None, "", {}
        try:
            result, times = step()
        except AssertionError as wrong:
            error = (
                f"{wrong.args[1] if len(wrong.args) > 1 else 'wrong'}: {wrong.args[0]}"
            )
        except Exception as raised:
            place = traceback.extract_tb(raised.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}:{place.lineno}"
            kind = type(raised).__name__
            error = f"raised: {kind}: {raised} ({where})"
        self._log.say(**here, state=error or "right", **times)
        self._meet(kind, f"{number}/{layout}")
        return result, error

    def _meet(self, raised: str, what: str) -> None:
        """Wait for others; end the process if some raised, or an engine is broken."""
        store, count = self._engine.store, self._engine.count
        if store is None:
            return
        store.put(f"net/{what}/{self._engine.index}", raised.encode())
        keys = [f"net/{what}/{i}" for i in range(count)]
        theirs = [store.get(k, config.curta_hosts_timeout).decode() for k in keys]
        if any(theirs) and (not all(theirs) or HostsError.__name__ in theirs):
            sys.stdout.flush()
            os._exit(_BROKEN)


def _alone(case: OnMesh) -> tuple[Arrays, dict[str, float]]:
    times: dict[str, float] = {}
    if case.program.quick:
        return case.evaluated(), times
    run = curta.jit(case.function)
    for which in ("first", *AGAIN):
        wanted, times[which] = timed(lambda: case.on_one_host(run))
    return wanted, times


def _over_all(case: OnMesh, run: Any, wanted: Arrays) -> tuple[None, dict[str, Any]]:
    """Call a program several times; AssertionError for results not as on one host."""
    times: dict[str, float] = {}
    results = []
    for which in ("first", *AGAIN[: 0 if case.program.quick else None]):
        arrays = case.arrays()
        outs, times[which] = timed(
            lambda args=arrays: curta.block_until_ready(run(*args))
        )
        results.append(outs)
    notes: dict[str, Any] = {**times, "parts": case.digests(results[0])}
    # Behind all calls: a process that stopped here would leave others in the next.
    for outs in results[:2]:
        found = case.found(outs, wanted)
        try:
            case.program.check(case.cropped(found), case.cropped(wanted))
        except AssertionError as wrong:
            if case.program.quick and not _right_alone(case, wanted):
                raise AssertionError(str(wrong), WRONG_ALONE) from wrong
            raise
    return None, notes


def _right_alone(case: OnMesh, wanted: Arrays) -> bool:
    """Whether the compiled program gives the results of its `eval` rules here."""
    got = case.on_one_host(curta.jit(case.function))
    try:
        case.program.check(case.cropped(got), case.cropped(wanted))
    except AssertionError:
        return False
    return True


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a function, and its processor time."""
    begin = time.process_time()
    result = function()
    return result, round(time.process_time() - begin, 5)


def main() -> None:
    names, folder, first = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    simulated = max(1, config.curta_simulate_hosts)
    config.update("jax_num_cpu_devices", _DEVICES * simulated)
    config.update("curta_advice", "ignore")
    if launched(os.environ) is not None:
        curta.distributed.initialize()
    log = Log(folder / str(of_process().index))
    worker = Worker(log, max(simulated, of_process().count))
    for number, name in enumerate(names.read_text().splitlines()):
        if number >= first:
            worker.run(number, name)
    log.say(state="end")


if __name__ == "__main__":
    main()
