"""Pages of the gallery, made of programs in examples/ and of what their runs left.

`make gallery` runs the programs and leaves figures and `gallery.json` (times, and what
they print) in examples/out. The text of a page is the program's docstring; the cards of
the overview come from docs/gallery/index.md.
"""

import ast
import json
import re
from typing import Any

from tools.docsite.pages import ROOT, Page, SiteError

EXAMPLES = ROOT / "examples"
OUT = EXAMPLES / "out"
INDEX = "gallery/index.md"
DARK = ".dark."
ROW = re.compile(r"^- \[([^\]]*)\]\((\w+)\.md\): (.*)$", re.MULTILINE)


def runs() -> dict[str, Any]:
    path = OUT / "gallery.json"
    if not path.exists():
        raise SiteError("no figures in examples/out: run `make gallery` first")
    found = json.loads(path.read_text())
    for run in found.values():  # dark figures are shown in place of light ones
        run["pictures"] = [name for name in run["pictures"] if DARK not in name]
    return found


def pages() -> list[Page]:
    known = runs()
    return [
        Page(
            f"gallery/{path.stem}.md",
            page(path.read_text(), path.stem, known.get(path.stem)),
            "Gallery",
            source=f"examples/{path.name}",
            above=[("Gallery", INDEX)],
        )
        for path in sorted(EXAMPLES.glob("*.py"))
    ]


def pictures() -> dict[str, bytes]:
    return {f"gallery/{p.name}": p.read_bytes() for p in OUT.glob("*.png")}


def with_cards(index: Page) -> None:
    """Replace the list of the overview by a grid of cards with figures."""
    known = runs()

    def card(row: re.Match[str]) -> str:
        names = known.get(row[2], {}).get("pictures", ())
        shown = f"![{row[1]}]({names[0]})" if names else ""
        return (
            f'<div class="card" markdown="1">\n\n{shown}\n\n**[{row[1]}]({row[2]}.md)**'
            f"\n\n{row[3]}\n\n</div>"
        )

    text = ROW.sub(card, index.text)
    first, last = text.index('<div class="card"'), text.rindex("</div>") + 6
    grid = f'<div class="cards pictures" markdown="1">\n\n{text[first:last]}\n\n</div>'
    index.text = text[:first] + grid + text[last:]


def page(source: str, stem: str, run: dict[str, Any] | None) -> str:
    """The page of a program; without figures and times if it was not run."""
    title, _, text = (ast.get_docstring(ast.parse(source)) or stem).partition("\n")
    heading = title.partition(":")[0].rstrip(".")
    names = run["pictures"] if run else ()
    shown = "\n\n".join(f"![{heading}]({name})" for name in names)
    return f"""# {heading}

{title}

{shown}

{text.strip(chr(10))}

{result(run)}

## The program

```python
{source.strip()}
```
"""


def result(run: dict[str, Any] | None) -> str:
    """How long a program took, and what it printed."""
    if run is None:
        return "This program has not run yet: `make gallery` runs it."
    printed = run["output"].strip()
    return f"## Result\n\n{times(run)}\n\nOutput:\n\n```text\n{printed}\n```"


def times(run: dict[str, Any]) -> str:
    """The time of the whole process, imports and compilation included, as bars."""
    text = (
        f"The program took {run['seconds']:.1f} s on {run['processors']} processors,"
        f" imports and compilation included ({run['busy']:.1f} s of processor time)."
    )
    if run["jax_seconds"] is None:
        return text
    bars = bar("Curta", run["seconds"], run) + bar("JAX", run["jax_seconds"], run)
    return f'{text}\n\n<div class="bars">{bars}</div>'


def bar(name: str, seconds: float, run: dict[str, Any]) -> str:
    share = 100 * seconds / max(run["seconds"], run["jax_seconds"])
    return (
        f'<div class="bar {name.lower()}"><b>{name}</b>'
        f'<i style="width:{share:.0f}%"></i><span>{seconds:.1f} s</span></div>'
    )
