"""Figures in prose: `{{ratio: CASE}}` names a row of the table of performance.

The table in docs/design/performance.md is the only place with measured times, and the
table in docs/coverage.md the only one with counts of names. The front page, the charts
and the page on benchmarks read them here; a test compares the README with them.
"""

import functools
import re
from typing import NamedTuple

from tools.docsite.pages import DOCS, Page, SiteError

PLACE = re.compile(r"\{\{ *([\w ]+?) *(?:: *(.+?))? *\}\}")
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| (\d+\.\d+) \|", re.MULTILINE)
RELEASE = re.compile(r"^\| JAX ([\d.]+) \| (\d+) \| (\d+) \|", re.MULTILINE)


class Times(NamedTuple):
    """A row of the table: times of Curta and of JAX as text, and their ratio."""

    curta: str
    jax: str
    ratio: str


@functools.cache
def rows() -> dict[str, Times]:
    """The measured rows by case."""
    text = (DOCS / "design/performance.md").read_text()
    return {m[1]: Times(*m.groups()[1:]) for m in ROW.finditer(text)}


@functools.cache
def facts() -> dict[str, str]:
    """Single figures: the JAX that was measured, the JAX that is covered, its names."""
    measured = re.search(
        r"\bjax ([\d.]+),", (DOCS / "design/performance.md").read_text()
    )
    releases = RELEASE.findall((DOCS / "coverage.md").read_text())
    if measured is None or not releases:
        raise SiteError("no version in the tables of performance or coverage")
    version, names, present = releases[-1]
    return {
        "jax measured": measured[1],
        "jax covered": version,
        "names": f"{int(names):,}",
        "names present": f"{int(present):,}",
    }


def figure(name: str, case: str | None) -> str:
    if case is None and name in facts():
        return facts()[name]
    if case in rows() and name in Times._fields:
        return getattr(rows()[case], name)
    raise SiteError(f"not in the tables of performance and coverage: {name}: {case}")


def fill(page: Page) -> None:
    """Replace the placeholders of a page by the figures that they name."""
    page.text = PLACE.sub(lambda m: figure(m[1], m[2]), page.text)
