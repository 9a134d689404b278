"""Run pyright on the examples, the code of the pages, and the public interface.

    python tools/check_types.py              # all of it; needs pyright
    python tools/check_types.py --pages      # the examples and pages alone

The cells of a page become a file with the same line numbers, so errors name page and
line. Cells that show an error are skipped. The interface is complete if `pyright
--verifytypes` knows the types of its names.
"""

from __future__ import annotations

import argparse
import doctest
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
KNOWN = 98.0  # per cent of the public names whose types are known
# A cell ends with a value to show; its page may use one name for several things.
RELAXED = "# pyright: reportUnusedExpression=false, reportRedeclaration=false\n"


def pages() -> Iterator[Path]:
    """The pages that have cells."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if ">>> " in path.read_text():
            yield path


def program(page: str) -> str:
    """The cells of a page, each at its line but the first, which relaxes rules."""
    lines: list[str] = []
    for cell in doctest.DocTestParser().get_examples(page):
        if cell.exc_msg is None:
            lines += [""] * (cell.lineno - len(lines))
            lines += cell.source.splitlines()
    return RELAXED + "\n".join(lines[1:]) + "\n"


def pyright(*arguments: str) -> Any:
    """Return the JSON output of pyright."""
    command = [sys.executable, "-m", "pyright", "--outputjson", *arguments]
    # `--verifytypes` looks at no environment of `--pythonpath`, but at this variable.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=environment
    )
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise SystemExit(f"pyright did not run:\n{done.stdout}{done.stderr}") from None


def check_programs() -> int:
    """The number of errors in examples and pages, which are shown."""
    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for page in pages():
            path = Path(folder) / (page.stem + f"_{len(names)}.py")
            path.write_text(program(page.read_text()))
            names[str(path.resolve())] = str(page.relative_to(ROOT))
        settings = {
            "include": [os.path.relpath(ROOT / "examples", folder), "."],
            "extraPaths": [
                str(ROOT / part) for part in ("src", "examples", "examples/hosts")
            ],
            "pythonVersion": "3.11",
        }
        config = Path(folder) / "pyrightconfig.json"
        config.write_text(json.dumps(settings))
        found = pyright("--pythonpath", sys.executable, "-p", str(config))
    for error in found["generalDiagnostics"]:
        name, line = error["file"], error["range"]["start"]["line"] + 1
        print(f"{names.get(name, name)}:{line}: {error['message']}")
    summary = found["summary"]
    count = int(summary["errorCount"]) + int(summary["warningCount"])
    examples = summary["filesAnalyzed"] - len(names)
    print(f"checked {examples} examples, cells of {len(names)} pages: {count} errors")
    return count


def check_interface(show: bool) -> bool:
    """Whether the types of enough public names are known."""
    found = pyright("--ignoreexternal", "--verifytypes", "curta")["typeCompleteness"]
    if show:
        for symbol in found["symbols"]:
            if symbol["isExported"] and not symbol["isTypeKnown"]:
                text = "; ".join(d["message"] for d in symbol["diagnostics"])
                print(symbol["name"], text.replace("\n", " "))
    counts = found["exportedSymbolCounts"]
    share = 100 * counts["withKnownType"] / sum(counts.values())
    print(f"types are known of {share:.1f} % of {sum(counts.values())} public names")
    return share >= KNOWN


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", action="store_true", help="only examples and pages")
    parser.add_argument("--unknown", action="store_true", help="list what is unknown")
    options = parser.parse_args()
    errors = check_programs()
    complete = options.pages or check_interface(options.unknown)
    return int(bool(errors) or not complete)


if __name__ == "__main__":
    sys.exit(main())
