"""The site shows what examples printed where its pages shorten their outputs."""

import importlib.util
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from tests.test_docstrings import MODULES

PATH = Path(__file__).parents[1] / "tools/docsite/run_page.py"
PAGE = """\
# A page

    >>> print("one", 2)
    one ...

```pycon
>>> for word in ("a", "", "b"):
...     print(word)
a
<BLANKLINE>
b
>>> "exactly"
'exactly'
>>> 1 / 0
Traceback (most recent call last):
    ...
ZeroDivisionError: division by zero

```
"""


def run_page():
    spec = importlib.util.spec_from_file_location("run_page", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shortened_outputs_are_shown_as_printed():
    outputs, failed = run_page().run(PAGE, "page.md")
    shown = run_page().with_outputs(PAGE, outputs)
    assert failed == 0
    wanted = PAGE.replace("one ...", "one 2").replace("<BLANKLINE>", "")
    assert shown == wanted


def test_outputs_that_differ_are_failures():
    _, failed = run_page().run(PAGE.replace("one ...", "two ..."), "page.md")
    assert failed == 1


def test_every_page_is_in_the_navigation():
    docs = Path(__file__).parents[1] / "docs"
    listed = [
        path
        for section in tomllib.loads((docs / "site.toml").read_text())["nav"]
        for path in section["pages"]
    ]
    written = {p.relative_to(docs).as_posix() for p in docs.rglob("*.md")}
    assert written - {*listed} == {"index.md"}
    assert len(listed) == len({*listed})


def test_the_reference_has_every_public_namespace():
    docs = Path(__file__).parents[1] / "docs"
    groups = tomllib.loads((docs / "site.toml").read_text())["reference"]
    patterns = [name for group in groups for name in group["namespaces"]]
    assert [m for m in MODULES if not any(fnmatch(m, p) for p in patterns)] == []


def test_times_in_the_readme_are_those_of_the_performance_page():
    root = Path(__file__).parents[1]

    def rows(text):
        """Rows of a case, two times and a ratio."""
        cells = ([c.strip() for c in row.split("|")] for row in text.split("\n"))
        is_ratio = re.compile(r"\d+\.\d\d").fullmatch
        return {c[1]: c[2:5] for c in cells if len(c) > 5 and is_ratio(c[4])}

    measured = rows((root / "docs/design/performance.md").read_text())
    shown = rows((root / "README.md").read_text())
    assert len(shown) > 10
    assert {case: measured.get(case) for case in shown} == shown
