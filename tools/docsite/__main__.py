"""Build the documentation site: `python -m tools.docsite [--fast]`.

1. Run the examples of the written pages, unless `--fast` is given.
2. Make the pages of the reference and the gallery.
3. Render all pages to HTML.
4. Write the search index, and check that it has every public name.

Each step prints its time. A broken link, a missing name or an example whose output
differs ends the build with status 1.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tools.docsite import (
    cells,
    charts,
    feed,
    gallery,
    hero,
    measured,
    notebooks,
    reference,
    search,
)
from tools.docsite.pages import DOCS, SITE, Page, SiteError, config, guides
from tools.docsite.render import Rendered, Renderer
from tools.docsite.templates import Templates

ASSETS = ("style.css", "site.js", "search.js", "logo.svg")
T = TypeVar("T")


def timed(step: str, work: Callable[[], T]) -> T:
    start = time.perf_counter()
    print(f"{step} ...", end=" ", flush=True)
    result = work()
    print(f"{time.perf_counter() - start:.0f} s", flush=True)
    return result


def write(path: str, content: str | bytes) -> None:
    target = SITE / path
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    target.write_bytes(data)


def collect(fast: bool) -> tuple[dict[str, Page], dict[str, bytes]]:
    """Return all pages by path, in the order of the navigation, and their figures."""
    written = guides()
    figures = gallery.pictures()
    count = sum(">>> " in page.text for page in written)
    if not fast:
        run = timed(f"examples of {count} pages", lambda: cells.run_all(written))
        figures |= run
    made = [*gallery.pages(), feed.page()]
    made += timed("reference", reference.pages)
    pages = {page.path: page for page in [*written, *made]}
    gallery.with_cards(pages[gallery.INDEX])
    for page in written:
        charts.draw(page)
        measured.fill(page)
    return pages, figures


def in_order(pages: dict[str, Page]) -> list[str]:
    """The paths that "previous" and "next" lead through."""
    listed = [p for section in config()["nav"] for p in section["pages"]]
    missing = [p for p in listed if p not in pages]
    if missing:
        raise SiteError(f"in the navigation, but not there: {missing}")
    return ["index.md", *listed]


def build(fast: bool) -> list[str]:
    """Build the site; return the links that lead nowhere."""
    if SITE.exists():
        shutil.rmtree(SITE)
    pages, figures = collect(fast)
    downloads = {
        page.url + name: make(page.text)
        for page in pages.values()
        if notebooks.has_code(page.text)
        for name, make in (
            (f"{page.slug}.py", notebooks.script),
            (f"{page.slug}.ipynb", notebooks.notebook),
        )
    }
    files = {*figures, *downloads}
    renderer = Renderer(pages, files, reference.by_full_name())
    templates = Templates(pages, in_order(pages), files)

    def render() -> dict[str, Rendered]:
        return {path: renderer.render(page) for path, page in pages.items()}

    rendered = timed(f"{len(pages)} pages", render)
    for path, content in (figures | downloads).items():
        write(path, content)
    for path, page in pages.items():
        write(page.url + "index.html", templates.page(page, rendered[path]))
    write("404.html", templates.missing())
    write_assets(pages, rendered, templates)
    return renderer.broken


def write_assets(
    pages: dict[str, Page], rendered: dict[str, Rendered], templates: Templates
) -> None:
    entries: list[dict[str, Any]] = [
        search.entry(page, rendered[path]) for path, page in pages.items()
    ]
    entries += search.primitives(pages)
    search.check(entries)
    write("assets/search-index.js", search.script(entries))
    write("assets/live.js", hero.script())
    for name in ASSETS:
        write(f"assets/{name}", (DOCS / "theme" / name).read_bytes())
    settings = config()
    write("feed.xml", feed.rss(settings["name"], settings["description"]))
    urls = "\n".join(page.url or "/" for page in pages.values())
    write("sitemap.txt", urls + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="do not run examples")
    start = time.perf_counter()
    try:
        broken = build(parser.parse_args().fast)
    except SiteError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print(*broken, sep="\n", end="\n" if broken else "", file=sys.stderr)
    print(f"site: {SITE / 'index.html'}, {time.perf_counter() - start:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
