"""Tier E: tests, examples and the demo on a device that is there, a GPU first of all.

    python -m tests.accelerators.on_gpu                    # the GPU
    python -m tests.accelerators.on_gpu --platform tpu
    python -m tests.accelerators.on_gpu --part arrays --part demo --workers 12

Each part runs in processes of its own whose default device is one of the platform: a
file in each, or as many tests at a time as there are workers. At the end stands what
ran and what did not. Without a device nothing runs: the exit status
is 3 then, and 1 if something fails.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence

from tests.accelerators.running import ROOT, run_pytest

NOT_RUN = 3

#: What pytest is given, by part. The suite's own tests that look at the CPU's compiler
#: are left out; so are those of `eval`, which no device runs.
PARTS: dict[str, tuple[str, ...]] = {
    "arrays": (
        "tests/accelerators/on_devices/test_arrays.py",
        "tests/accelerators/on_devices/test_shared_memory.py",
        "tests/numpy/test_operators.py",
        "tests/numpy/test_indexing.py",
        "tests/numpy/test_reductions.py",
        "tests/numpy/test_ufuncs.py",
        "tests/numpy/test_fft.py",
        "tests/numpy/test_linalg.py",
        "tests/numpy/test_fitting.py",
        "tests/numpy/test_sized_slices.py",
        "tests/numpy/test_number_theory.py",
        "tests/random/test_generators.py",
        "tests/random/test_gamma_loops.py",
        "tests/random/test_random.py",
    ),
    "ops": ("tests/accelerators/on_devices/test_conformance.py",),
    "functions": ("tests/functions/test_functions.py",),
    "transformations": (
        "tests/transforms/test_composition.py",
        "tests/transforms/test_second_derivatives.py",
        "tests/control/test_solves.py",
    ),
    "sharding": ("tests/accelerators/on_devices/test_several.py",),
    "documents": ("README.md",),
}


def environment(platform: str) -> dict[str, str]:
    """Variables of a process whose default device is one of the platform."""
    return {
        **os.environ,
        "JAX_PLATFORMS": f"{platform},cpu",
        "CURTA_ON_DEVICES": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        # GPUs and TPUs compute products of float32 from fewer digits by default; what
        # is said of ops themselves, cuBLAS is told by a variable of its own.
        "JAX_DEFAULT_MATMUL_PRECISION": "highest",
        "NVIDIA_TF32_OVERRIDE": "0",
        # By default XLA leaves out roundings to small floats between ops.
        "XLA_FLAGS": "--xla_allow_excess_precision=false",
    }


def missing(platform: str) -> str:
    """Why there is no device of the platform; empty if there is one."""
    program = "import curta; print([d.device_kind for d in curta.devices()])"
    # The platform alone: with the CPU beside it, one that is missing is passed over.
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(platform) | {"JAX_PLATFORMS": platform},
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        print(f"devices of {platform}: {done.stdout.strip()}")
        return ""
    return (done.stderr.strip().splitlines() or ["?"])[-1]


def run_tests(paths: Sequence[str], platform: str, workers: int) -> tuple[bool, str]:
    """Whether tests pass, and how many do."""
    options = ["-rf", "--tb=short"]
    together = [[path] for path in paths]
    if workers:
        options += ["-n", str(workers)]
        together = [[*paths]]
    outcomes = [run_pytest(t, environment(platform), options) for t in together]
    counts = sum((o.counts for o in outcomes), Counter())
    said = ", ".join(f"{n} {outcome}" for outcome, n in counts.items())
    return all(o.is_good for o in outcomes), said or "nothing ran"


def run_demo(platform: str) -> tuple[bool, str]:
    """Whether the digits are learnt, and how fast."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "examples/digits.py", "--out", out]
        done = subprocess.run(
            command,
            env=environment(platform),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
    right = re.search(r"held-out images: ([\d.]+) %", done.stdout)
    speed = re.search(r"steps per second: ([\d,]+)", done.stdout)
    if done.returncode or not (right and speed):
        print(done.stdout)
        return False, "it stops"
    said = f"{right[1]} % of the images, {speed[1]} steps per second"
    return float(right[1]) >= 97, said


def main() -> int:
    """The exit status."""
    names = [*PARTS, "demo"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--platform", default="cuda", help="cuda, rocm, tpu, ...")
    parser.add_argument("--part", action="append", choices=names, help="these alone")
    parser.add_argument("--workers", type=int, default=0, help="tests at a time")
    args = parser.parse_args()
    if why := missing(args.platform):
        print(f"tier E NOT RUN: no device of platform {args.platform}: {why}")
        return NOT_RUN
    lines, good = [], True
    for name in args.part or names:
        start = time.monotonic()
        if name == "demo":
            passed, said = run_demo(args.platform)
        else:
            passed, said = run_tests(PARTS[name], args.platform, args.workers)
        good = good and passed
        spent = time.monotonic() - start
        lines.append(f"  {name}: {'' if passed else 'FAILS: '}{said} ({spent:.0f} s)")
        print(lines[-1], flush=True)
    left = [n for n in names if n not in (args.part or names)]
    print(f"tier E on {args.platform}:", *lines, sep="\n")
    print(f"  not run: {', '.join(left) or 'nothing'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
