"""Charts of measured times: a fence `chart` names rows of the table of performance."""

import re
from html import escape

from tools.docsite.pages import DOCS, Page, SiteError

FENCE = re.compile(r"^```chart\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| (\d+\.\d+) \|", re.MULTILINE)


def rows() -> dict[str, tuple[str, str, float]]:
    """The measured rows by case: times of Curta and of JAX, and their ratio."""
    text = (DOCS / "design/performance.md").read_text()
    return {m[1]: (m[2], m[3], float(m[4])) for m in ROW.finditer(text)}


def draw(page: Page) -> None:
    """Replace the fences of a page by bars."""
    known = rows()

    def chart(fence: re.Match[str]) -> str:
        names = [name for name in fence[1].splitlines() if name.strip()]
        missing = [name for name in names if name not in known]
        if missing:
            raise SiteError(f"{page.path}: not in the table of performance: {missing}")
        bars = "".join(pair(name, *known[name]) for name in names)
        return f'<div class="chart">{bars}</div>'

    page.text = FENCE.sub(chart, page.text)


def pair(case: str, ours: str, theirs: str, ratio: float) -> str:
    longest = max(ratio, 1.0)
    bars = bar("Curta", ratio / longest, ours) + bar("JAX", 1 / longest, theirs)
    return f'<p class="case">{escape(case)}</p><div class="bars">{bars}</div>'


def bar(name: str, share: float, time: str) -> str:
    width = f"{100 * share:.1f}%"
    return (
        f'<div class="bar {name.lower()}"><b>{name}</b>'
        f'<i style="width:{width}"></i><span>{escape(time)}</span></div>'
    )
