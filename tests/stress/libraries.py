"""Runs the test suites of libraries written for JAX over Curta, and over JAX.

    python -m tests.stress.libraries                     # all that PyPI has
    python -m tests.stress.libraries --library flax --part 5 --seed 1
    python -m tests.stress.libraries --library flax --doubtful
    python -m tests.stress.libraries --suite equinox=CLONE/tests

A suite comes with the installed library, or with its source distribution; those that
ship none are named, and run if `--suite` says where they are. Each test file runs in a
process of its own: once over JAX, which is the control and is kept, then over Curta
(`curta.as_jax`). The control has an environment of its own, without Curta. The tests
that pass over JAX count. `--doubtful` turns this around, for less time: over Curta
first, then over JAX what does not pass there.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.stress.library_list import LIBRARIES, Library

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRATCH = ROOT / ".venv-libraries" / "suites"
CONTROL = ROOT / ".venv-libraries-jax" / "bin" / "python"
PASSED = "passed"
# All tests passed, some failed, or there were none; else pytest came to no end.
RAN_THROUGH = tuple(f"exit status {status}" for status in (0, 1, 5))


@dataclass
class Outcome:
    """The outcome of a test."""

    outcome: str
    message: str
    seconds: float


def suite(library: Library, scratch: Path, given: dict[str, Path]) -> Path | None:
    """The folder of a library's tests; None if there are none to be had."""
    if library.name in given:
        return given[library.name]
    if library.of_ours:
        return HERE / "suites" / library.of_ours
    if not (library.of_source or library.repository):
        spec = find_spec(library.package)
        return None if spec is None or spec.origin is None else Path(spec.origin).parent
    folder = scratch / "sources" / f"{library.name}-{version(library.distribution)}"
    if not folder.exists():
        (_clone if library.repository else _take_source)(library, folder)
    found = folder / (library.tests if library.repository else library.of_source)
    return found if found.exists() else None


def _clone(library: Library, folder: Path) -> None:
    """Clone the library's repository at the tag of the installed release."""
    tag = library.tag.format(version=version(library.distribution))
    address = f"https://github.com/{library.repository}"
    options = (
        "--quiet",
        "--depth=1",
        f"--branch={tag}",
        "--config=advice.detachedHead=0",
    )
    subprocess.run(["git", "clone", *options, address, str(folder)], check=True)


def _take_source(library: Library, folder: Path) -> None:
    """Put the tests of a source distribution, and their settings, into `folder`."""
    folder.mkdir(parents=True)
    pinned = f"{library.distribution}=={version(library.distribution)}"
    options = ("--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder))
    command = [sys.executable, "-m", "pip", "download", *options, pinned]
    subprocess.run(command, check=True)
    (packed,) = folder.glob("*.tar.gz")
    settings = ("conftest.py", "pyproject.toml", "setup.cfg", "pytest.ini")
    with tarfile.open(packed) as archive:
        for member in archive.getmembers():
            _, _, path = member.name.partition("/")
            if path in settings or path.startswith(f"{library.of_source}/"):
                member.name = path
                archive.extract(member, folder, filter="data")
    packed.unlink()


def test_files(library: Library, folder: Path) -> list[Path]:
    """The test files below `folder`, without those that the library leaves out."""
    found = {*folder.rglob("*_test.py"), *folder.rglob("test_*.py")}
    out = library.left_out
    return sorted(f for f in found if not any(part in str(f) for part in out))


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


def outcomes(out: Path) -> dict[str, Outcome]:
    """The outcomes by test that a run has left."""
    found: dict[str, Outcome] = {}
    for line in out.read_text().splitlines():
        said = json.loads(line)
        was = found.get(said["test"])
        if was is None or was.outcome == PASSED:  # a failing teardown comes later
            known = (said["outcome"], said["message"], said["seconds"])
            found[said["test"]] = Outcome(*known)
    return found


@dataclass
class Compared:
    """The tests of a library that pass over JAX, and what they do over Curta."""

    name: str
    version: str
    timed: bool = True
    passed: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    control_seconds: float = 0.0

    def add(
        self, control: dict[str, Outcome], measured: dict[str, Outcome], limit: float
    ) -> None:
        """Count the tests that pass over JAX within `limit` seconds."""
        whole = next((m for m in measured.values() if m.outcome == "not collected"), "")
        never = f"not run: {whole.message}" if whole else "not run"
        for test, known in control.items():
            if known.outcome != PASSED or known.seconds > limit:
                continue
            got = measured.get(test, Outcome("not run", never, 0.0))
            self.control_seconds += known.seconds
            self.seconds += got.seconds
            if got.outcome == PASSED:
                self.passed += 1
            else:
                self.failures[test] = got.message

    def row(self) -> str:
        of = self.passed + len(self.failures)
        share = 100 * self.passed / of if of else 0.0
        control = f"{self.control_seconds:8.0f} s" if self.timed else "not timed"
        return (
            f"{self.name:16} {self.version:12} {self.passed:6} {of:6} {share:7.1f} %"
            f" {self.seconds:8.0f} s {control}"
        )


def compare(
    library: Library, folder: Path, options: argparse.Namespace
) -> Iterator[tuple[dict[str, Outcome], dict[str, Outcome]]]:
    """The outcomes over JAX and over Curta, file by file."""
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
            found = outcomes(measured)
            passing = {t: o for t, o in found.items() if o.outcome == PASSED}
            assumed = passing if options.doubtful else {}
            yield outcomes(control) | assumed, found
            print(".", end="", flush=True)


def _run_control_first(
    files: Sequence[Path],
    where: Path,
    control: Path,
    measured: Path,
    options: argparse.Namespace,
) -> None:
    if options.again or not control.exists():
        run_files(files, where, control, over_curta=False, options=options)
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
    doubtful = [t for t, o in found.items() if o.outcome not in (PASSED, "skipped")]
    ended = measured.with_suffix(".log").read_text().rsplit("\n", 2)[-2]
    control.parent.mkdir(parents=True, exist_ok=True)
    control.unlink(missing_ok=True)
    if ended not in RAN_THROUGH:
        run_files(files, where, control, over_curta=False, options=options)
    elif doubtful:
        run_files(files, where, control, False, options, only=doubtful)
    control.touch()


def summary(message: str) -> str:
    """A message without what differs between tests that fail for one reason."""
    short = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "#", message)
    return short[:140]


def report(done: list[Compared]) -> None:
    """Print the table, then the failing tests by message."""
    counts = f"{'passed':>6} {'of':>6} {'share':>9} {'Curta':>10} JAX"
    print(f"\n{'library':16} {'version':12} {counts}")
    for each in done:
        print(each.row())
    reasons = collections.defaultdict(list)
    for each in done:
        for test, message in each.failures.items():
            reasons[summary(message)].append(f"{each.name}: {test}")
    for reason, tests in sorted(reasons.items(), key=lambda r: -len(r[1])):
        print(f"\n{len(tests)} × {reason}")
        for test in tests[:12]:
            print(f"    {test}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append", help="only this; repeatable")
    parser.add_argument("--file", default="", help="files whose path contains this")
    parser.add_argument("--part", type=int, default=1, help="every n-th test alone")
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
    done, without = [], []
    for library in LIBRARIES:
        if options.library and library.name not in options.library:
            continue
        folder = suite(library, options.scratch, folders)
        if folder is None:
            without.append(library.name)
            continue
        compared = Compared(
            library.name,
            version(library.distribution),
            timed=not options.doubtful,
        )
        for control, measured in compare(library, folder, options):
            compared.add(control, measured, options.seconds)
        print(f"\n{compared.row()}", flush=True)
        done.append(compared)
    report(done)
    for name in without:
        print(
            f"\nNOT RUN: {name}: no tests on PyPI, neither in its wheel nor in its"
            f" source distribution; give a clone's with --suite {name}=FOLDER"
        )


if __name__ == "__main__":
    main()
