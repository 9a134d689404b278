"""One program over one library, in a process of its own: what it took, as JSON.

python -m benchmarks.programs.run curta linen.mlp --seconds 2
"""

import argparse
import importlib
import json
import resource
import statistics
import time

from benchmarks.harness import CLOCKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("curta", "jax"))
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=2.0, help="of steps; 0: one")
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    options = parser.parse_args()
    if options.library == "curta":
        importlib.import_module("curta.as_jax")
    jax = importlib.import_module("jax")
    module, _, name = options.program.partition(".")
    make = getattr(importlib.import_module(f"benchmarks.programs.{module}"), name)
    clock = CLOCKS[options.clock]

    start = clock()
    program = make()
    state = jax.block_until_ready(program.step(program.state))
    told = {"first": clock() - start}
    for _ in range(2):
        state = jax.block_until_ready(program.step(state))
    answer = [x.tolist() for x in jax.tree.leaves(program.answer(state))]
    samples: list[float] = []
    end = time.perf_counter() + options.seconds
    while options.seconds and (len(samples) < 5 or time.perf_counter() < end):
        start = clock()
        state = jax.block_until_ready(program.step(state))
        samples.append(clock() - start)
    told["step"] = statistics.median(samples) if samples else 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**told, "peak": peak, "answer": answer, "rtol": program.rtol}))


if __name__ == "__main__":
    main()
