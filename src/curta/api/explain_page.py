"""An explanation as a page of HTML: one file, which needs no network.

The first view is the user's source with the time of each line, warmer where more time
is spent. Below are hints and a table of kernels. Its rows are sorted by the buttons in
the head, unfold as `details` do, and are searched by the field above; all of it works
by the keyboard, and in dark mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from curta.api.explain_costs import KernelCost, ProgramCost
from curta.api.explain_lines import SourceLines, UserLine
from curta.api.explain_text import (
    AROUND,
    counted,
    headline,
    limits,
    memory,
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
.limit { font-size: 13px; opacity: .8 }
.lines { margin: .2rem 0; padding: .2rem .4rem }
.source { font: 13px/1.55 ui-monospace, SFMono-Regular, Menlo, monospace;
  overflow-x: auto; border: 1px solid var(--line); border-radius: 4px }
.source div { display: flex; width: max-content; min-width: 100%;
  background: color-mix(in srgb, light-dark(#ff7a2f, #e0561a) var(--heat),
    transparent) }
.source span { flex: 0 0 4.6rem; text-align: right; padding-right: .6rem;
  font-variant-numeric: tabular-nums }
.source span + span { flex-basis: 2.6rem; opacity: .55 }
.source code { font: inherit; white-space: pre; padding-right: 1rem }
@media (max-width: 40rem) {
  body { margin: 1rem auto } td, th { padding: .3rem .3rem }
  .wide { display: none } td:last-child { min-width: 9rem }
  .source span { flex-basis: 4rem; padding-right: .3rem }
  .source span + span { flex-basis: 1.8rem }
}
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
    yield f"<p>{escape(limits(cost))}</p>"
    yield from _heat_map(cost)
    yield from _listed("Hints", cost.hints)
    yield "<h2>Kernels</h2>"
    yield '<p><label>Search <input type="search"></label> <output></output></p>'
    yield '<div class="table"><table><thead><tr>'
    for head in _HEADS:
        order = "descending" if head == "time" else "none"
        wide = " wide" if head in _HEADS[3:5] else ""
        css = f' class="n{wide}"' if head in _HEADS[1:5] else ""
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
        yield _cell(0, "", " wide") * 2 + f"<td>{escape(AROUND)}</td></tr>"
    yield "</tbody></table></div>"
    yield from _listed("Collectives", cost.collectives)
    yield f"<p>{escape(memory(cost))}</p>"
    yield "<h2>Program</h2><details><summary>The jaxpr, with your lines</summary>"
    yield f"<pre>{escape(cost.jaxpr)}</pre></details>"
    yield f"</main><script>{_SCRIPT}</script></body></html>"


def _heat_map(cost: ProgramCost) -> Iterator[str]:
    """The user's functions with the time of each line."""
    seconds = cost.by_line
    most = max(seconds.values(), default=0.0) or 1.0
    for source in cost.sources:
        name = escape(str(UserLine(source.file, source.first)))
        yield f'<h2>{name}</h2><div class="source" tabindex="0" aria-label="{name}">'
        yield from (
            _source_line(source, i, seconds, most) for i in _shown(source, seconds)
        )
        yield "</div>"


def _source_line(
    source: SourceLines, i: int, seconds: Mapping[UserLine, float], most: float
) -> str:
    time = seconds.get(UserLine(source.file, source.first + i), 0.0)
    heat = f"{85 * time / most:.0f}%"
    return (
        f'<div style="--heat: {heat}"><span>{timed(time) if time else ""}</span>'
        f"<span>{source.first + i}</span><code>{escape(source.lines[i])}</code></div>"
    )


_WHOLE = 120  # lines of a function that are all shown
_AROUND_LINE = 4  # lines around one that takes time, in longer ones


def _shown(source: SourceLines, seconds: Mapping[UserLine, float]) -> list[int]:
    """The lines to show: all of a short function, those around the times of a long."""
    count = len(source.lines)
    if count <= _WHOLE:
        return [*range(count)]
    near = {
        place.line - source.first + step
        for place in seconds
        if place.file == source.file
        for step in range(-_AROUND_LINE, _AROUND_LINE + 1)
    }
    return sorted(i for i in near if 0 <= i < count)


def _always_shown(kernel: KernelCost) -> Iterator[str]:
    """The limit and the lines of a kernel, or why it runs in Python."""
    if kernel.reason:
        yield f'<p class="limit python">in Python: {escape(kernel.reason)}</p>'
    if limit := share_of_limit(kernel):
        yield f'<div class="limit">{escape(limit)}</div>'
    if kernel.lines:
        lines = escape(chr(10).join(kernel.lines[:_LINES]))
        more = len(kernel.lines) - _LINES
        rest = f"\nand {more} more" if more > 0 else ""
        yield f'<pre class="lines">{lines}{rest}</pre>'


_LINES = 5


def _listed(name: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        points = "".join(f"<li>{escape(item)}</li>" for item in items)
        yield f"<h2>{name}</h2><ul>{points}</ul>"


def _row(kernel: KernelCost, share: float) -> Iterator[str]:
    css = ' class="python"' if _has_python(kernel) else ""
    yield f'<tr{css}><td data-v="{kernel.index}">{kernel.index}</td>'
    yield _cell(kernel.seconds, timed(kernel.seconds))
    yield _cell(share, _share(share))
    yield _cell(kernel.bytes, sized(kernel.bytes), " wide")
    yield _cell(kernel.flops, counted(kernel.flops), " wide")
    yield f"<td><details><summary>{escape(title(kernel))}</summary>"
    yield from _details(kernel)
    yield "</details>"
    yield from _always_shown(kernel)
    yield "</td></tr>"


def _cell(value: float, shown: str, css: str = "") -> str:
    return f'<td class="n{css}" data-v="{value!r}">{shown}</td>'


def _share(share: float) -> str:
    return f'{share:.1%}<div class="bar" style="width: {share:.0%}"></div>'


def _has_python(kernel: KernelCost) -> bool:
    inner = (k for program in kernel.inner for k in program)
    return bool(kernel.reason) or any(map(_has_python, inner))


def _details(kernel: KernelCost) -> Iterator[str]:
    yield from (f"<p>{escape(f'apart: {x}')}</p>" for x in kernel.apart)
    yield "<details><summary>loops</summary>"
    yield f"<pre>{escape(kernel.code)}</pre></details>"
    for number, program in enumerate(kernel.inner):
        yield f"<p>program {number}, run by it:</p><ul>"
        for inner in program:
            css = ' class="python"' if _has_python(inner) else ""
            head = f"{timed(inner.seconds)} {title(inner)}"
            yield f"<li{css}><details><summary>{escape(head)}</summary>"
            yield from _details(inner)
            yield "</details>"
            yield from _always_shown(inner)
            yield "</li>"
        yield "</ul>"
