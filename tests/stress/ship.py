"""Every op as a C library, called from C, for each machine that can run here.

    python -m tests.stress.ship [--target host aarch64-linux-gnu] [--only Sin,Sort]

The samples of the conformance tests are built, compiled into a harness by each C
compiler that is installed, with warnings as errors, and run: on this machine with
sanitizers, on others under qemu-user. Results are compared with `eval`. Eight threads
then run one library at a time. `make test-ship` installs Debian's packages first; each
target that cannot be run is named at the end. Ops that are refused when they are built
are listed, and do not fail the run.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.aot.harness import (
    SANITIZERS,
    called,
    check_cases,
    compiled,
    lapack_flags,
    program_of,
)
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases

import curta
from curta import aot
from curta.config import enable_x64
from curta.core.shape_struct import ShapeDtypeStruct

GROUP = 8  # ops in one library


@dataclass(frozen=True)
class Toolchain:
    """How C is compiled and run for a target; `run` comes before the program."""

    target: str
    compiler: str
    flags: tuple[str, ...] = ()
    run: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        return [x for x in (self.compiler, *self.run[:1]) if not shutil.which(x)]


STATIC = ("-static",)
TOOLCHAINS = [
    Toolchain("host", "gcc", SANITIZERS),
    Toolchain("host", "clang", SANITIZERS),
    Toolchain("x86_64-linux-gnu", "gcc", SANITIZERS),
    Toolchain("x86_64-linux-gnu:x86-64-v3", "gcc"),
    Toolchain("aarch64-linux-gnu", "aarch64-linux-gnu-gcc", STATIC, ("qemu-aarch64",)),
    Toolchain("riscv64-linux-gnu", "riscv64-linux-gnu-gcc", STATIC, ("qemu-riscv64",)),
    Toolchain(
        "armv7-linux-gnueabihf", "arm-linux-gnueabihf-gcc", STATIC, ("qemu-arm",)
    ),
    Toolchain("x86_64-windows-gnu", "x86_64-w64-mingw32-gcc", STATIC, ("wine",)),
]


def groups(only: Sequence[str]) -> Iterator[dict[str, list[Case]]]:
    ops = [c for c in sampled_ops() if not only or c.__name__ in only]
    for i in range(0, len(ops), GROUP):
        yield {c.__name__: cases(c) for c in ops[i : i + GROUP]}


@dataclass
class Outcome:
    """The result for some ops: how many are right, and messages for the others."""

    right: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        self.right += other.right
        self.refused += other.refused
        self.wrong += other.wrong


def check(chain: Toolchain, found: dict[str, list[Case]], folder: Path) -> Outcome:
    """Build, run and compare some ops; alone, where they fail together."""
    outcome, functions = Outcome(), {}
    for name, several in found.items():
        specs = [ShapeDtypeStruct.of_aval(a) for c in several for a in c.avals]
        program = program_of(several)
        program.__name__ = name  # which errors begin with
        functions[name] = (program, *specs)
    while functions:
        try:
            library = aot.build(
                functions, directory=folder, name="ops", target=chain.target
            )
            break
        except aot.BuildError as error:  # which names the function first
            name = next(n for n in functions if str(error).startswith(n))
            outcome.refused.append(f"{name}: {str(error).splitlines()[1].strip()}")
            del functions[name]
    if not functions:
        return outcome
    routines = [x for x in library.needs if x.endswith("_")]
    is_one = len(functions) == 1
    if routines and chain.target != "host" and is_one:
        outcome.refused.append(f"{next(iter(functions))}: no LAPACK for this machine")
        return outcome
    flags = [*chain.flags, *lapack_flags(library, folder, chain.target == "host")]
    own = [f for f in library.flags if f not in ("-llapack", "-lblas")]
    given = {f"ops_{n}": [a for c in found[n] for a in c.args] for n in functions}
    try:
        harness = compiled(library, folder, [chain.compiler], flags, own)
        if chain.run and not shutil.which(chain.run[0]):
            return outcome
        outs = called(library, folder, [*chain.run, str(harness)], given)
    except subprocess.CalledProcessError as error:
        if is_one:
            outcome.wrong.append(f"{next(iter(functions))}: {error}")
        for name in [] if is_one else functions:
            outcome.add(check(chain, {name: found[name]}, folder))
        return outcome
    for name in functions:
        try:
            check_cases({f"ops_{name}": found[name]}, outs)
            outcome.right += 1
        except AssertionError as error:
            outcome.wrong.append(f"{name}: {str(error).strip()[:400]}")
    return outcome


THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "threads.h"
enum { N = 200 * 300 };
static float x[N], wanted[300 * 300];
static int once(float *out) {
    threads_in in = { x, 0.5f };
    threads_out to = { out };
    void *space = malloc(THREADS_WORKSPACE + 1);
    int code = threads_run(&in, &to, space, THREADS_WORKSPACE);
    free(space);
    return code;
}
static void *many(void *ignored) {
    float *out = malloc(sizeof wanted);
    int bad = 0;
    for (int i = 0; i < 20; i++)
        if (once(out) || memcmp(out, wanted, sizeof wanted)) bad++;
    free(out);
    (void)ignored;
    return bad ? (void *)x : NULL;
}
int main(void) {
    for (int i = 0; i < N; i++) x[i] = (float)(i * 7919 % 1013) - 500.0f;
    if (once(wanted)) return 1;
    pthread_t threads[8];
    int bad = 0;
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, many, NULL);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        bad += result != NULL;
    }
    return bad;
}
"""


def check_threads(folder: Path) -> list[str]:
    """Eight threads in one library, each with a workspace of its own."""

    def work(x, by):
        return curta.numpy.sort(curta.numpy.cumsum(x * by, axis=1), axis=0) @ x.T

    library = aot.build(
        work, np.ones((300, 200), np.float32), 0.5, directory=folder, name="threads"
    )
    source, program = folder / "threads.c", folder / "threads"
    source.write_text(THREADS)
    command = ["gcc", "-std=c11", "-O1", "-pthread", str(source), *library.flags]
    subprocess.run([*command, "-fsanitize=thread", "-o", str(program)], check=True)
    ended = subprocess.run([str(program)], check=False)
    return [] if ended.returncode == 0 else [f"threads: status {ended.returncode}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", nargs="*", help="only these targets")
    parser.add_argument("--only", default="", help="names of ops, with commas")
    parser.add_argument("--compiler", help="only this one")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    failed, notes = 0, []
    for chain in TOOLCHAINS:
        asked = options.target is None or chain.target in options.target
        if not asked or options.compiler not in (None, chain.compiler):
            continue
        title = f"{chain.target} by {chain.compiler}"
        if not shutil.which(chain.compiler):
            notes.append(f"{title}: NOT TESTED, {chain.compiler} is not installed")
            continue
        if chain.missing:
            notes.append(f"{title}: linked, NOT RUN, without {chain.missing[0]}")
        start, outcome = time.perf_counter(), Outcome()
        for found in groups(only):
            with tempfile.TemporaryDirectory() as folder, enable_x64(True):
                try:
                    outcome.add(check(chain, found, Path(folder)))
                except Exception:
                    outcome.wrong.append(f"{[*found]}: {traceback.format_exc()}")
        seconds = time.perf_counter() - start
        refused, wrong = outcome.refused, outcome.wrong
        print(f"{title}: {outcome.right} ops right, {len(refused)} refused when built,")
        print(f"  {len(wrong)} wrong, {seconds:.0f} s")
        print("".join(f"  {x}\n" for x in [*refused, *wrong]), end="", flush=True)
        failed += len(wrong)
    if shutil.which("gcc") and options.target in (None, ["host"]):
        with tempfile.TemporaryDirectory() as folder:
            wrong = check_threads(Path(folder))
        print("eight threads:", wrong or "right")
        failed += len(wrong)
    print("\n".join(notes))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
