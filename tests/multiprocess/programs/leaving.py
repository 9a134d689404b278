"""A program raises an exception between the begin and the end of a collective."""

import numpy as np
from tests.multiprocess.programs.saying import say

import curta
from curta._settings.tuning import Tuning
from curta.config import tuning
from curta.hosts.engine import current
from curta.hosts.group import HostGroup
from curta.primitives.host_collectives import HostReduce


def stop(x):
    raise ValueError("stop")


def main() -> None:
    curta.distributed.initialize()
    engine = current()
    group = HostGroup(("x",), (engine.count,), tuple(range(engine.count)), ("x",))
    total = HostReduce(group, "sum")

    @curta.jit
    def left(x):
        sums = total(x)
        y = curta.pure_callback(stop, curta.ShapeDtypeStruct(x.shape, x.dtype), x)
        return sums, y

    x = np.full(1 << 20, engine.index + 1, np.float32)

    def run():
        for _ in range(3):
            try:
                left(x)
            except curta.errors.JaxRuntimeError as error:
                raised = "stop" if "stop" in str(error) else str(error)
        return raised, curta.jit(total)(x)[-1]

    with tuning(Tuning(overlapped_bytes=1)):
        raised, last = engine.in_thread_order(group.members(engine.index), run)
    say(f"process {engine.index}: {raised}, then {last}")


if __name__ == "__main__":
    main()
