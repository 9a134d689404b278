"""One process of several ends in some way while the others wait for it."""

import os
import signal
import sys
import time

import numpy as np

import curta
from curta._settings.tuning import Tuning
from curta.config import config, tuning
from curta.hosts.engine import current
from curta.hosts.group import HostGroup
from curta.primitives.host_collectives import HostReduce


def end(how: str, total) -> None:
    """Run process 1."""
    if how in ("raise", "asleep"):
        raise ValueError("process 1 gives up")
    if how == "exit":
        sys.exit(3)
    if how == "raise-exit":
        raise SystemExit(3)
    if how == "return":
        sys.exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "time-out":
        time.sleep(60)
    if how == "caught":
        try:
            sys.exit(3)
        except SystemExit:
            total()


def main(how: str, where: str = "Python") -> None:
    curta.distributed.initialize()
    engine = current()
    group = HostGroup(("x",), (engine.count,), tuple(range(engine.count)), ("x",))

    fold = curta.jit(HostReduce(group, "sum"))
    limits = Tuning(overlapped_bytes=1 if where == "begun" else 1 << 60)

    def total() -> float:
        if where != "Python":
            with tuning(limits):
                return float(fold(np.ones(3, np.float32))[0])
        return engine.all_reduce(group, "sum", np.ones(3))[0]

    assert total() == engine.count
    if how == "time-out":
        config.update("curta_hosts_timeout", 3.0)
        config.update("curta_hosts_patience", 0.5)
    if engine.index == 1:
        end(how, total)
    if how == "asleep":  # in nothing that an engine could wake
        time.sleep(60)
    if how == "all-exit":
        sys.exit()
    if how != "caught" or engine.index != 1:
        total()
    sys.stdout.write(f"process {engine.index} done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
