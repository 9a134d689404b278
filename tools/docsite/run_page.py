"""Runs the examples of a page: `python run_page.py PAGE OUTPUTS`.

OUTPUTS is a file of JSON for what each example printed. The status is 1, with a report,
if that is not what the page shows.
"""

import doctest
import json
import sys
from pathlib import Path
from typing import Any

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
LONGEST = 25  # lines of an output in place of a shortened one


class Recorder(doctest.DocTestRunner):
    """Record what each example prints."""

    def __init__(self) -> None:
        super().__init__(optionflags=OPTIONS)
        self.outputs: list[str] = []

    def report_success(self, out: Any, test: Any, example: Any, got: str) -> None:
        self.outputs.append(got)


def run(text: str, path: str) -> tuple[list[str], int]:
    """Return what the examples of a page print, and how many fail."""
    parser, runner = doctest.DocTestParser(), Recorder()
    test = parser.get_doctest(text, {"__name__": "__main__"}, path, path, 0)
    return runner.outputs, runner.run(test).failed


def with_outputs(text: str, outputs: list[str]) -> str:
    """The page with what was printed where it says `...` or <BLANKLINE>.

    Tracebacks, and outputs that are long, stay as the page has them.
    """
    examples = doctest.DocTestParser().get_examples(text)
    lines = text.split("\n")
    for example, output in reversed([*zip(examples, outputs, strict=True)]):
        shortened = "..." in example.want or "<BLANKLINE>" in example.want
        printed = output.rstrip("\n").split("\n")
        if not shortened or example.exc_msg is not None or len(printed) > LONGEST:
            continue
        start = example.lineno + example.source.count("\n")
        end = start + example.want.count("\n")
        lines[start:end] = [" " * example.indent + line for line in printed]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])
    from tools import figures

    figures.draw_both()
    page, file = sys.argv[1:]
    printed, failed = run(Path(page).read_text(), page)
    Path(file).write_text(json.dumps(printed))
    sys.exit(bool(failed))
