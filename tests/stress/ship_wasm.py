"""Every op as WebAssembly, called from JavaScript in Node.

    python -m tests.stress.ship_wasm [--only Sin,Sort] [--part 0 4]

The samples of the conformance tests are built in libraries of several ops. Results are
compared with `eval`; ops that need LAPACK or Python are listed as refused.
`--part I N` takes every Nth library from the Ith on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.aot.harness import check_cases, program_of
from tests.aot.node import NODE, called_in_node
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases

from curta import aot
from curta.config import enable_x64
from curta.core.shape_struct import ShapeDtypeStruct

GROUP = 8  # ops in one library


def check(found: dict[str, list[Case]], folder: Path) -> list[str]:
    """Build, run and compare some ops; return what is wrong or refused."""
    functions, wrong = {}, []
    for name, several in found.items():
        specs = [ShapeDtypeStruct.of_aval(a) for c in several for a in c.avals]
        program = program_of(several)
        program.__name__ = name  # which errors begin with
        functions[name] = (program, *specs)
    while functions:
        try:
            library = aot.build(
                functions, directory=folder, name="ops", target="wasm32"
            )
            break
        except aot.BuildError as error:
            name = next(n for n in functions if str(error).startswith(n))
            wrong.append(f"{name}: refused: {' '.join(str(error).split())[:200]}")
            del functions[name]
    if not functions:
        return wrong
    given = {f"ops_{n}": [a for c in found[n] for a in c.args] for n in functions}
    outs = called_in_node(library, folder, given)
    for name in functions:
        try:
            check_cases({f"ops_{name}": found[name]}, outs)
        except AssertionError as error:
            wrong.append(f"{name}: {str(error).strip()[:400]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names of ops, with commas")
    parser.add_argument("--part", nargs=2, type=int, default=(0, 1))
    options = parser.parse_args()
    if NODE is None:
        print("wasm32: NOT TESTED, Node is not installed")
        return 0
    only = [name for name in options.only.split(",") if name]
    ops = [c for c in sampled_ops() if not only or c.__name__ in only]
    groups = [ops[i : i + GROUP] for i in range(0, len(ops), GROUP)]
    first, step = options.part
    start, wrong, count = time.perf_counter(), [], 0
    for group in groups[first::step]:
        found = {c.__name__: cases(c) for c in group}
        count += len(found)
        with tempfile.TemporaryDirectory() as folder, enable_x64(True):
            try:
                bad = check(found, Path(folder))
            except Exception:
                bad = [f"{', '.join(found)}: {traceback.format_exc()[-1500:]}"]
        wrong += [line for line in bad if ": refused: " not in line]
        print("".join(f"  {line}\n" for line in bad), end="", flush=True)
    seconds = time.perf_counter() - start
    print(f"wasm32 in Node: {count} ops, {len(wrong)} wrong, {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
