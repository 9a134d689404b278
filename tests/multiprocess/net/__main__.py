"""Run the net, and print a table of what came of it.

    python -m tests.multiprocess.net [--engines mpi tcp simulated] [--ranks 2 3 4]
        [--kinds written op random] [--random 300] [--seed 0] [--only TEXT]
    python -m tests.multiprocess.net --kinds fuzz --random 5000 --ranks 2 --engines tcp

All programs run in each layout (replicated, split, free) of their results. Those that
are not right are printed, and for simulated hosts, where they differ from real ones, in
bits over TCP.
Programs of the kind `fuzz` run once, in one layout, against their `eval` rules.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import time

from tests.multiprocess.net.jobs import ENGINES, LITTLE, Job, Outcome
from tests.multiprocess.net.programs import names

Key = tuple[str, str]


def main() -> int:
    """The exit status is whether something was not right."""
    options = _options().parse_args()
    done: list[Job] = []
    differ = 0
    for ranks in options.ranks:
        of_ranks = [_run(engine, ranks, options) for engine in options.engines]
        differ += _compare(of_ranks)
        done += of_ranks
    print("\nengine     ranks  programs  in layouts  right  refused alone  worst time")
    for job in done:
        right = sum(o.is_right for o in job.outcomes)
        worst = max((o.ratio for o in job.outcomes), default=0.0)
        print(
            f"{job.engine:10} {job.ranks:5} {len(job.names):9} {len(job.outcomes):11}"
            f" {right:6} {job.refused:14} {worst:11.1f}"
        )
    print(f"\nslowest, by the processor time of one host (at least {LITTLE:g} s)")
    for job in done:
        for o in heapq.nlargest(5, job.outcomes, key=lambda o: o.ratio):
            what = f"{o.name[:60]}, {o.layout}"
            seconds = f"{1e3 * o.seconds:.0f} ms"
            print(f"{job.engine:10} {job.ranks:5} {o.ratio:6.1f} {seconds:>8}  {what}")
    return int(differ or any(not o.is_right for job in done for o in job.outcomes))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--engines", nargs="+", choices=ENGINES, default=["mpi", "tcp", "simulated"])
    add("--ranks", nargs="+", type=int, default=[2, 3, 4])
    add("--kinds", nargs="+", default=["written", "op", "random"])
    add("--random", type=int, default=300, help="how many random programs")
    add("--seed", type=int, default=0, help="of the random programs")
    add("--every", type=int, default=1, help="run one program of so many")
    add("--first", type=int, default=0, help="the first program to run")
    add("--only", default="", help="programs with this text in their names")
    add("--seconds", type=float, default=120, help="the limit of a program")
    return parser


def _run(engine: str, ranks: int, options: argparse.Namespace) -> Job:
    variant = ranks + 3 * (engine == "mpi")  # TCP and simulated hosts are compared
    all_ = names(options.kinds, options.random, options.seed, variant)
    chosen = [n for n in all_ if options.only in n][options.first :: options.every]
    job = Job(engine, ranks, chosen, options.seconds, _say)
    begin = time.monotonic()
    print(f"{engine}, {ranks} ranks: {len(chosen)} programs", flush=True)
    job.run()
    print(f"  in {time.monotonic() - begin:.0f} s", flush=True)
    return job


def _say(outcome: Outcome) -> None:
    if not outcome.is_right:
        print(f"  {outcome.name}, {outcome.layout}: {outcome.state}", flush=True)


def _compare(jobs: list[Job]) -> int:
    """Print where simulated hosts differ from real ones; how often they do.

    Over TCP the bits are compared: both fold in the order of the hosts.
    """
    by_engine = {job.engine: {_key(o): o for o in job.outcomes} for job in jobs}
    simulated = by_engine.pop("simulated", {})
    compared = differ = 0
    for engine, outcomes in by_engine.items():
        for key in outcomes.keys() & simulated.keys():
            real, posed = outcomes[key], simulated[key]
            compared += 1
            if posed.is_right != real.is_right:
                print(f"  {key}: {engine} {real.state}; simulated {posed.state}")
            elif engine == "tcp" and real.is_right and posed.parts != real.parts:
                print(f"  {key}: other bits over TCP and on simulated hosts")
            else:
                continue
            differ += 1
    if simulated:
        print(f"  simulated and real hosts: {differ} of {compared} results differ")
    return differ


def _key(outcome: Outcome) -> Key:
    return outcome.name, outcome.layout


if __name__ == "__main__":
    sys.exit(main())
