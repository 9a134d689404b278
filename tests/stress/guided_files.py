"""Changed files as in tests/stress/files.py; those that reach new code are kept.

    pip install atheris
    python -m tests.stress.guided_files --minutes 10 [--seed 1] [--folder kept]

Not part of `make`'s environments: atheris has wheels for few versions of Python. It
instruments the modules that read files, and libFuzzer chooses what to change next;
the changes are those of tests/stress/files.py. A finding ends the run and leaves its
file.
"""

from __future__ import annotations

import argparse
import random
import secrets
import struct
import sys
import tempfile
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("not run: pip install atheris (it has no wheel for every Python)")

# What reads files and checks what is in them; ops are not, of which there are many.
READERS = ("curta.export", "curta.core.check", "curta.core.symbolic", "curta.tree")

with atheris.instrument_imports(include=list(READERS)):
    from tests.stress import files


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """A file with some bytes or some nodes of its JSON changed."""
    rng = random.Random(seed)
    if rng.random() < 0.8:
        try:
            return files.change_json(rng, data)[:most]
        except (ValueError, LookupError, TypeError, RecursionError, struct.error):
            pass  # it has no JSON any more
    return files.change_bytes(rng, data)[:most]


def load(data: bytes) -> None:
    """Load a file and call what it holds; any exception but the expected is found."""
    files.watching(True)
    try:
        files.load_and_call(data)
    finally:
        files.watching(False)


def main() -> None:
    """Load files for the time that was given; the exit status is libFuzzer's."""
    parser = argparse.ArgumentParser(prog="tests.stress.guided_files")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", default="", help="files from which to go on")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="curta-files-"))
    folder.mkdir(exist_ok=True)
    seed = secrets.randbits(31) if options.seed is None else options.seed
    print(f"seed {seed}, files in {folder}", flush=True)
    files.prepare()
    for name, blob in files.blobs().items():
        (folder / name).write_bytes(blob)
    limits = ["-timeout=120", "-rss_limit_mb=0", f"-artifact_prefix={folder}/found-"]
    seconds = int(60 * options.minutes)
    flags = [f"-seed={seed}", f"-max_total_time={seconds}", "-max_len=65536", *limits]
    arguments = [sys.argv[0], *flags, "-print_final_stats=1", str(folder)]
    atheris.Setup(arguments, load, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
