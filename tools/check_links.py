"""Whether all links of the built site lead somewhere: `python tools/check_links.py`.

Links to pages, pictures and places in pages are followed in site/; those to other
sites are not, for which a network would be needed, and are counted.
"""

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


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    """What is wrong: the page, the link."""
    for path, page in pages.items():
        if path.name == "404.html":  # shown at any address: its links are absolute
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            target = path if not parts.path else target
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(SITE)}: there is no {link}"
            elif target in pages and not _has(pages[target], parts.fragment):
                yield f"{path.relative_to(SITE)}: {link} names no place there"


def _has(page: Page, place: str) -> bool:
    return place in page.places or unquote(place) in page.places or place[:2] == "__"


def main() -> int:
    pages = {p: Page(p.read_text()) for p in sorted(SITE.rglob("*.html"))}
    if not pages:
        print("no site: make docs builds it")
        return 1
    wrong = list(broken(pages))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    links = [link for page in pages.values() for link in page.links]
    outside = sum(bool(urlsplit(link).netloc) for link in links)
    followed = len(links) - outside
    print(f"{len(pages)} pages, {followed} links followed, {len(wrong)} broken")
    print(f"not followed: {outside} links to other sites")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
