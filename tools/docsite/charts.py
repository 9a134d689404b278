"""Charts of measured times: a fence `chart` names rows of the table of performance."""

import re
from html import escape

from tools.docsite.measured import Times, rows
from tools.docsite.pages import Page, SiteError

FENCE = re.compile(r"^```chart\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def draw(page: Page) -> None:
    """Replace the fences of a page by bars."""
    known = rows()

    def chart(fence: re.Match[str]) -> str:
        names = [name for name in fence[1].splitlines() if name.strip()]
        missing = [name for name in names if name not in known]
        if missing:
            raise SiteError(f"{page.path}: not in the table of performance: {missing}")
        bars = "".join(pair(name, known[name]) for name in names)
        return f'<div class="chart">{bars}</div>'

    page.text = FENCE.sub(chart, page.text)


def pair(case: str, times: Times) -> str:
    ratio = float(times.ratio)
    longest = max(ratio, 1.0)
    bars = bar("Curta", ratio / longest, times.curta)
    bars += bar("JAX", 1 / longest, times.jax)
    return f'<p class="case">{escape(case)}</p><div class="bars">{bars}</div>'


def bar(name: str, share: float, time: str) -> str:
    width = f"{100 * share:.1f}%"
    return (
        f'<div class="bar {name.lower()}"><b>{name}</b>'
        f'<i style="width:{width}"></i><span>{escape(time)}</span></div>'
    )
