"""Whether all links of the built site lead somewhere: `python tools/check_links.py`.

Links to pages, pictures and places in pages are followed in site/; those to other
sites are not, for which a network would be needed, and are counted.
"""

import posixpath
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[1] / "site"
REFERENCES = ("href", "src")


class Page(HTMLParser):
    """The links of a page, and the places in it that links may name."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.places = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [given[name] or "" for name in REFERENCES if name in given]
        self.places |= {given.get("id") or "", given.get("name") or ""}


def broken(pages: dict[str, Page], files: set[str]) -> Iterator[str]:
    """Yield each broken link with its page."""
    for path, page in pages.items():
        if path == "404.html":  # shown at any address: its links are absolute
            continue
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                target = posixpath.dirname(path) + "/" + unquote(parts.path)
                target = posixpath.normpath(target.lstrip("/"))
            if target not in files:
                target = posixpath.normpath(f"{target}/index.html")
            if target not in files:
                yield f"{path}: there is no {link}"
            elif target in pages and not _has(pages[target], parts.fragment):
                yield f"{path}: {link} names no place there"


def _has(page: Page, place: str) -> bool:
    return place in page.places or unquote(place) in page.places or place[:2] == "__"


def main() -> int:
    files = {p.relative_to(SITE).as_posix() for p in SITE.rglob("*") if p.is_file()}
    names = sorted(name for name in files if name.endswith(".html"))
    pages = {name: Page((SITE / name).read_text()) for name in names}
    if not pages:
        print("no site: make docs builds it")
        return 1
    wrong = list(broken(pages, files))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    links = [link for page in pages.values() for link in page.links]
    outside = sum(bool(urlsplit(link).netloc) for link in links)
    followed = len(links) - outside
    print(f"{len(pages)} pages, {followed} links followed, {len(wrong)} broken")
    print(f"not followed: {outside} links to other sites")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
