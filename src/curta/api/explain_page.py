"""An explanation as a page of HTML: one file, which needs no network.

Rows are sorted by the buttons in the head of the table, unfold as `details` do, and are
searched by the field above; all of it works by the keyboard, and in dark mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from curta.api.explain_costs import KernelCost, ProgramCost
from curta.api.explain_text import (
    AROUND,
    counted,
    facts,
    headline,
    share_of_limit,
    title,
)
from curta.api.readable import sized, timed

_STYLE = """
:root { color-scheme: light dark; --line: #8884;
  --bad: light-dark(#b00020, #ff8a80) }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
  padding: 0 1rem; background: light-dark(#fff, #16181c);
  color: light-dark(#222, #ddd) }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin-top: 2rem }
.table { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top }
h1, p, li { overflow-wrap: anywhere }
td:last-child { min-width: 16rem }
td.n, th.n { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums }
th button { all: unset; cursor: pointer; font-weight: 600 }
th button:focus-visible, summary:focus-visible { outline: 2px solid currentColor }
th[aria-sort=ascending] button::after { content: " \\2191" / "" }
th[aria-sort=descending] button::after { content: " \\2193" / "" }
.python, .python summary { color: var(--bad); font-weight: 600 }
pre { overflow-x: auto; font-size: 13px; background: #8881; padding: .6rem }
.bar { height: .3rem; background: #4a7bd0 }
input { font: inherit; padding: .2rem .5rem }
"""

_SCRIPT = """
const table = document.querySelector('table');
const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
heads.forEach((head, i) => head.querySelector('button').onclick = () => {
  const down = head.getAttribute('aria-sort') !== 'descending';
  heads.forEach(h => h.setAttribute('aria-sort', 'none'));
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const key = row => row.cells[i].dataset.v ?? row.cells[i].textContent;
  const compare = (a, b) => isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
  [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)))
    .forEach(row => body.append(row));
});
document.querySelector('input').oninput = event => {
  const wanted = event.target.value.toLowerCase();
  let shown = 0;
  for (const row of body.rows) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
    shown += !row.hidden;
  }
  document.querySelector('output').textContent = `${shown} of ${body.rows.length}`;
};
"""

_HEADS = ("kernel", "time", "share", "bytes", "flops", "what is computed")


def page(cost: ProgramCost) -> str:
    """The whole page."""
    return "\n".join(_page(cost))


def framed(cost: ProgramCost) -> str:
    """The page in a frame, for notebooks."""
    return (
        f'<iframe title="{escape(headline(cost))}" style="width: 100%; height: 40rem;'
        f' border: 0" srcdoc="{escape(page(cost))}"></iframe>'
    )


def _page(cost: ProgramCost) -> Iterator[str]:
    name = escape(cost.name)
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{name} explained</title><style>{_STYLE}</style></head><body><main>"
    yield f"<h1>{escape(headline(cost))}</h1>"
    yield from (f"<p>{escape(fact)}</p>" for fact in facts(cost))
    yield from _listed("Hints", cost.hints)
    yield "<h2>Kernels</h2>"
    yield '<p><label>Search <input type="search"></label> <output></output></p>'
    yield '<div class="table"><table><thead><tr>'
    for head in _HEADS:
        order = "descending" if head == "time" else "none"
        css = ' class="n"' if head in _HEADS[1:5] else ""
        button = f'<button type="button">{head}</button>'
        yield f'<th scope="col"{css} aria-sort="{order}">{button}</th>'
    yield "</tr></thead><tbody>"
    total = cost.seconds or 1.0
    for kernel in sorted(cost.kernels, key=lambda k: -k.seconds):
        yield from _row(kernel, kernel.seconds / total)
    if (around := cost.around_kernels) is not None:
        yield f'<tr><td data-v="{len(cost.kernels)}"></td>'
        yield _cell(around, timed(around)) + _cell(
            around / total, _share(around / total)
        )
        yield _cell(0, "") + _cell(0, "") + f"<td>{escape(AROUND)}</td></tr>"
    yield "</tbody></table></div>"
    yield from _listed("Collectives", cost.collectives)
    yield "<h2>Program</h2><details><summary>The jaxpr, with your lines</summary>"
    yield f"<pre>{escape(cost.jaxpr)}</pre></details>"
    yield f"</main><script>{_SCRIPT}</script></body></html>"


def _listed(name: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        points = "".join(f"<li>{escape(item)}</li>" for item in items)
        yield f"<h2>{name}</h2><ul>{points}</ul>"


def _row(kernel: KernelCost, share: float) -> Iterator[str]:
    css = ' class="python"' if _has_python(kernel) else ""
    yield f'<tr{css}><td data-v="{kernel.index}">{kernel.index}</td>'
    for value, shown in (
        (kernel.seconds, timed(kernel.seconds)),
        (share, _share(share)),
        (kernel.bytes, sized(kernel.bytes)),
        (kernel.flops, counted(kernel.flops)),
    ):
        yield _cell(value, shown)
    yield f"<td><details><summary>{escape(title(kernel))}</summary>"
    yield from _details(kernel)
    yield "</details></td></tr>"


def _cell(value: float, shown: str) -> str:
    return f'<td class="n" data-v="{value!r}">{shown}</td>'


def _share(share: float) -> str:
    return f'{share:.1%}<div class="bar" style="width: {share:.0%}"></div>'


def _has_python(kernel: KernelCost) -> bool:
    inner = (k for program in kernel.inner for k in program)
    return bool(kernel.reason) or any(map(_has_python, inner))


def _details(kernel: KernelCost) -> Iterator[str]:
    facts = [share_of_limit(kernel), *(f"apart: {x}" for x in kernel.apart)]
    if kernel.reason:
        facts.insert(0, f"in Python: {kernel.reason}")
    yield from (f"<p>{escape(fact)}</p>" for fact in facts if fact)
    if kernel.lines:
        yield f"<pre>{escape(chr(10).join(kernel.lines))}</pre>"
    yield "<details><summary>loops</summary>"
    yield f"<pre>{escape(kernel.code)}</pre></details>"
    for number, program in enumerate(kernel.inner):
        yield f"<p>program {number}, run by it:</p><ul>"
        for inner in program:
            css = ' class="python"' if _has_python(inner) else ""
            yield f"<li{css}><details><summary>{escape(title(inner))}</summary>"
            yield from _details(inner)
            yield "</details></li>"
        yield "</ul>"
