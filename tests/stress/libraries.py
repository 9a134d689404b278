"""Runs the test suites of libraries written for JAX over Curta, and over JAX.

    python -m tests.stress.libraries                     # all, in parts: hours
    python -m tests.stress.libraries --library flax --part 5 --seed 1
    python -m tests.stress.libraries --library flax --doubtful
    python -m tests.stress.libraries --suite equinox=CLONE/tests

A suite comes with the installed library, with its source distribution, or from its
repository at the tag of the release, which is cloned; `--suite` names a folder in its
place. Of large suites a part of the tests runs, the same ones each time: those whose
CRC-32 the part divides (`library_list`, `--part`). Each test file runs in a process of
its own: once over JAX, which is the control and is kept, then over Curta
(`curta.as_jax`). The control has an environment of its own, without Curta. The tests
that pass over JAX are counted; the table says how many others there are, and why.
`--doubtful` runs Curta first, then over JAX the tests that do not pass there: less
time, and tests that pass over Curta are taken to pass over JAX.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.stress.library_list import LIBRARIES, Library
from tests.stress.library_report import (
    PASSED,
    SKIPPED,
    Compared,
    outcomes,
    report,
)
from tests.stress.library_suites import suite, test_files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRATCH = ROOT / ".venv-libraries" / "suites"
CONTROL = ROOT / ".venv-libraries-jax" / "bin" / "python"
# All tests passed, some failed, or there were none; else pytest came to no end.
RAN_THROUGH = tuple(f"exit status {status}" for status in (0, 1, 5))


def run_files(
    files: Sequence[Path],
    where: Path,
    out: Path,
    over_curta: bool,
    options: argparse.Namespace,
    only: Sequence[str] = (),
) -> None:
    """Run the tests of `files` from `where`; their outcomes go to the file `out`.

    With `only`, those tests alone.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    paths = [str(HERE / "library_plugin")]  # not ROOT: its `tests` would hide theirs
    if over_curta:
        paths += [str(HERE / "library_site"), str(ROOT / "src")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
        "CURTA_ADVICE": "ignore",  # some take all warnings for errors
        "CURTA_OUTCOMES": str(out),
        "CURTA_PART": str(options.part),
        "CURTA_SEED": str(options.seed),
        "CURTA_ONLY": json.dumps([*only]),
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
    }
    plugins = ("-p", "library_outcomes", "-p", "no:cacheprovider")
    each = f"--timeout={options.seconds}"
    more = "--continue-on-collection-errors"
    python = sys.executable if over_curta else str(options.control)
    command = [python, "-m", "pytest", "-q", *plugins, each, more]
    command += map(str, files)
    out.with_suffix(".log").unlink(missing_ok=True)
    with out.with_suffix(".log").open("w") as log:
        try:
            done = subprocess.run(
                command,
                cwd=where,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=options.file_seconds,
                check=False,
            )
            log.write(f"exit status {done.returncode}\n")
        except subprocess.TimeoutExpired:
            log.write("out of time\n")
    out.touch()


def ended(out: Path) -> str:
    """How pytest ended, by the last line of a run's log."""
    return out.with_suffix(".log").read_text().rsplit("\n", 2)[-2]


def compare(library: Library, folder: Path, options: argparse.Namespace) -> Compared:
    """Compare the outcomes over JAX and over Curta, file by file."""
    compared = Compared(
        library.name,
        version(library.distribution),
        options.part,
        timed=not options.doubtful,
    )
    for control, measured in _runs(library, folder, options):
        found = outcomes(measured)
        passing = {t: o for t, o in found.items() if o.outcome == PASSED}
        assumed = passing if options.doubtful else {}
        compared.add(outcomes(control) | assumed, found, options.seconds)
        last = measured if options.doubtful else control
        if ended(last) not in RAN_THROUGH:
            compared.not_counted["files that did not finish"] += 1
        print(".", end="", flush=True)
    return compared


def _runs(
    library: Library, folder: Path, options: argparse.Namespace
) -> Iterator[tuple[Path, Path]]:
    """Run the files of a library; where the outcomes over JAX and Curta are."""
    files = [f for f in test_files(library, folder) if options.file in str(f)]
    for group in [files] if options.together else [[f] for f in files]:
        of_one = re.sub(r"\W+", "_", str(group[0].relative_to(folder)))
        name = f"all_{options.file}" if options.together else of_one
        part = f"{name}.{options.part}.{options.seed}.jsonl"
        kinds = ("doubtful", "curta") if options.doubtful else ("jax", "curta")
        control, measured = (options.scratch / k / library.name / part for k in kinds)
        run = _run_doubtful if options.doubtful else _run_control_first
        if not options.report:
            run(group, folder.parent, control, measured, options)
        if control.exists() and measured.exists():
            yield control, measured


def _run_control_first(
    files: Sequence[Path],
    where: Path,
    control: Path,
    measured: Path,
    options: argparse.Namespace,
) -> None:
    if options.again or not control.exists():
        run_files(files, where, control, over_curta=False, options=options)
    measured.parent.mkdir(parents=True, exist_ok=True)
    measured.write_text("")
    if any(known.outcome == PASSED for known in outcomes(control).values()):
        run_files(files, where, measured, over_curta=True, options=options)


def _run_doubtful(
    files: Sequence[Path],
    where: Path,
    control: Path,
    measured: Path,
    options: argparse.Namespace,
) -> None:
    """Over Curta, then over JAX the tests that neither passed nor were skipped."""
    run_files(files, where, measured, over_curta=True, options=options)
    found = outcomes(measured)
    doubtful = [t for t, o in found.items() if o.outcome not in (PASSED, SKIPPED)]
    control.parent.mkdir(parents=True, exist_ok=True)
    control.unlink(missing_ok=True)
    if ended(measured) not in RAN_THROUGH:
        run_files(files, where, control, over_curta=False, options=options)
    elif doubtful:
        run_files(files, where, control, False, options, only=doubtful)
    control.touch()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append", help="only this; repeatable")
    parser.add_argument("--file", default="", help="files whose path contains this")
    parser.add_argument(
        "--part", type=int, help="every n-th test alone; by default, as in library_list"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the choice by --part")
    parser.add_argument(
        "--doubtful",
        action="store_true",
        help="over Curta first, then over JAX what does not pass",
    )
    parser.add_argument(
        "--together", action="store_true", help="all files in one process: less time"
    )
    parser.add_argument("--seconds", type=int, default=120, help="for one test")
    parser.add_argument("--file-seconds", type=int, default=1800, help="for a file")
    parser.add_argument("--again", action="store_true", help="run the control anew")
    parser.add_argument("--report", action="store_true", help="of the last runs alone")
    parser.add_argument("--scratch", type=Path, default=SCRATCH)
    parser.add_argument(
        "--control",
        type=Path,
        default=CONTROL,
        help="the Python with JAX and the libraries, and without Curta",
    )
    parser.add_argument(
        "--suite", action="append", default=[], metavar="LIBRARY=FOLDER"
    )
    return parser.parse_args()


def main() -> None:
    options = arguments()
    given = dict(each.split("=", 1) for each in options.suite)
    folders = {name: Path(path).resolve() for name, path in given.items()}
    done, not_run = [], {}
    for library in LIBRARIES:
        if options.library and library.name not in options.library:
            continue
        try:
            folder = suite(library, options.scratch, folders)
        except (PackageNotFoundError, subprocess.CalledProcessError, OSError) as error:
            not_run[library.name] = f"its tests cannot be had: {error}"
            continue
        part = options.part or library.part
        of_library = argparse.Namespace(**vars(options) | {"part": part})
        done.append(compare(library, folder, of_library))
        print(f"\n{' | '.join(done[-1].row())}", flush=True)
    report(done, not_run, options.scratch / "table.md")


if __name__ == "__main__":
    main()
