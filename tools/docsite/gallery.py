"""Pages of the gallery, made from the programs in examples/ and their output.

`tools/gallery.py` runs the programs. It writes figures and `gallery.json` (printed
output) to examples/out, and processor times to docs/gallery/times.json. The text of a
page is the program's docstring; the cards of the overview come from
docs/gallery/index.md.
"""

import ast
import json
import re
from typing import Any

from tools.docsite.pages import DOCS, ROOT, Page, SiteError

EXAMPLES = ROOT / "examples"
OUT = EXAMPLES / "out"
INDEX = "gallery/index.md"
DARK = ".dark."
TIMES = DOCS / "gallery/times.json"
BARS = (("first", "Curta, first run"), ("later", "Curta, later"), ("jax", "JAX"))
ROW = re.compile(r"^- \[([^\]]*)\]\((\w+)\.md\): (.*)$", re.MULTILINE)


def runs() -> dict[str, Any]:
    path = OUT / "gallery.json"
    if not path.exists():
        raise SiteError("examples/out is empty: run tools/gallery.py first")
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
    kinds = (".png", ".webp")
    files = [p for p in OUT.iterdir() if p.suffix in kinds]
    return {f"gallery/{p.name}": p.read_bytes() for p in files}


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

{times(stem)}

{result(run)}

## The program

{program(source)}
"""


def program(source: str) -> str:
    """The program without its docstring, in steps: each function under its name."""
    lines, steps = source.splitlines(), [("Imports and constants", [])]
    body = ast.parse(source).body
    for before, node in zip(body, body[1:]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            steps.append((f"`{node.name}`", []))
        steps[-1][1].extend(lines[before.end_lineno : node.end_lineno])
    return "\n\n".join(
        f"### {name}\n\n```python\n{chr(10).join(code).strip(chr(10))}\n```"
        for name, code in steps
    )


def result(run: dict[str, Any] | None) -> str:
    """The printed output of a program."""
    if run is None:
        return "This program has not run yet: `make gallery` runs it."
    return f"## Output\n\n```text\n{run['output'].strip()}\n```"


def times(stem: str) -> str:
    """The processor time of the whole process, imports and compilation included."""
    table = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    if stem not in table:
        return ""
    row, machine = table[stem], table["_machine"]
    longest = max(row.values())
    bars = "".join(bar(*b, row[b[0]], longest) for b in BARS)
    return (
        f'## Time\n\n<div class="bars">{bars}</div>\n\n'
        "Processor time of the whole program, including imports and compilation, on"
        f" {machine['processors']} cores with Python {machine['python']} and JAX"
        f" {machine['jax']} ({machine['date']}). Later runs of Curta load their kernels"
        " from the cache on disk."
    )


def bar(key: str, label: str, seconds: float, longest: float) -> str:
    kind = "jax" if key == "jax" else "curta"
    return (
        f'<div class="bar {kind}"><b>{label}</b>'
        f'<i style="width:{100 * seconds / longest:.0f}%"></i>'
        f"<span>{seconds:.1f} s</span></div>"
    )
