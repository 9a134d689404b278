"""Fits by Levenberg-Marquardt that end at their greatest number of steps.

    python -m tests.stress.fits --jax .venv-libraries-jax/bin/python
    python -m tests.stress.fits --fits 140 --seed 1     # without a control

1,260 fits of six models to noisy data, in float32 and float64, by Optimistix over Curta
and over JAX. A solver whose sums depend on their context compares losses that differ in
the last bit only, and never accepts a step. Prints the combinations in which fits take
all steps; the exit status is 1 if there are more of them here than with JAX.

In float32 a tolerance of 1e-7 is below the resolution of residuals. Parameters may then
alternate between two neighbors whose losses are equal: every step is accepted, and none
is the last one. That is so here and with JAX, for other data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

MAX_STEPS = 256  # of fits_models.py

Steps = dict[str, list[int]]


def steps_of(command: list[str], options: argparse.Namespace) -> Steps:
    """The steps of all fits, by a command that runs the models."""
    command = [*command, "-m", "tests.stress.fits_models"]
    command += [f"--fits={options.fits}", f"--seed={options.seed}"]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def unfinished(steps: list[int]) -> int:
    """How many fits took all steps."""
    return sum(n >= MAX_STEPS for n in steps)


def compare(ours: Steps, theirs: Steps) -> int:
    """Print the combinations in which fits take all steps; return the exit status."""
    only_ours = only_theirs = 0
    for key, own in ours.items():
        other = theirs[key]
        if unfinished(own) or unfinished(other):
            print(f"{key:42} {unfinished(own):4} {unfinished(other):4}")
        pairs = [
            (a >= MAX_STEPS, b >= MAX_STEPS) for a, b in zip(own, other, strict=True)
        ]
        only_ours += sum(a and not b for a, b in pairs)
        only_theirs += sum(b and not a for a, b in pairs)
    counts = [sum(map(unfinished, x.values())) for x in (ours, theirs)]
    total = sum(map(len, ours.values()))
    print(f"{counts[0]} of {total} fits take all steps here, {counts[1]} with JAX")
    print(f"only here: {only_ours}; only with JAX: {only_theirs}")
    return int(counts[0] > counts[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=14, help="of each combination")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jax", help="a Python with JAX and Optimistix, as control")
    options = parser.parse_args()
    ours = steps_of([sys.executable, "-m", "curta", "run"], options)
    if options.jax:
        return compare(ours, steps_of([options.jax], options))
    for key, own in ours.items():
        if unfinished(own):
            print(f"{key:42} {unfinished(own):4}")
    print(f"{sum(map(unfinished, ours.values()))} fits take all steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
