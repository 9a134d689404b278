"""Pages, the navigation between them, and the configuration in docs/site.toml."""

import posixpath
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / "site"
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
SUMMARY_LENGTH = 160


class SiteError(Exception):
    """The site cannot be built: an example differs, or a link leads nowhere."""


def config() -> dict[str, Any]:
    return tomllib.loads((DOCS / "site.toml").read_text())


@dataclass
class Page:
    """A page: its path below docs/, its Markdown, and its place in the site.

    `kind` is "guide", "function" (a page of the reference) or "list" (a namespace).
    `above` are the links of the path to it, (title, path) each.
    """

    path: str
    text: str
    section: str = ""
    kind: str = "guide"
    name: str = ""  # the full name of a public object
    source: str = ""  # the file behind a page, for "edit this page"
    above: list[tuple[str, str]] = field(default_factory=list)
    tail: str = ""  # HTML at the end

    @property
    def title(self) -> str:
        found = TITLE.search(self.text)
        return re.sub(r"[`*]", "", found[1]) if found else self.path

    @property
    def url(self) -> str:
        """The directory of the page: `tutorials/jit/` for tutorials/jit.md."""
        stem = self.path.removesuffix(".md")
        if stem == "index":
            return ""
        return stem.removesuffix("/index") + "/"

    @property
    def slug(self) -> str:
        """The name of files made from the page: `jit` for tutorials/jit.md."""
        return (self.url.rstrip("/") or "curta").rpartition("/")[2]

    @property
    def summary(self) -> str:
        """The first paragraph, without markup, for descriptions and cards."""
        body = TITLE.sub("", self.text, count=1)
        for block in re.split(r"\n\s*\n", body):
            block = block.strip()
            if block and block[0] not in "#`|!<>:" and not block.startswith("    "):
                return shortened(plain(block), SUMMARY_LENGTH)
        return self.title


def plain(markdown: str) -> str:
    """Return Markdown without links, code marks and emphasis, on one line."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"<[^>]+>", "", text)
    return " ".join(re.sub(r"[`*]|^\s*[-#>|]+", "", text).split())


def shortened(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return text[: length - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def relative(url: str, base: str) -> str:
    """Return the link from the page `base` to `url`; both are below the site's root."""
    if base == "":
        return url or "."
    link = posixpath.relpath(url or ".", base)
    return link + "/" if url.endswith("/") or not url else link


def guides() -> list[Page]:
    """Read the written pages, in the order of the navigation, the front page first."""
    found = [read("index.md", "")]
    for section in config()["nav"]:
        for path in section["pages"]:
            if (DOCS / path).exists():
                found.append(read(path, section["title"]))
    unlisted = {p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md")}
    unlisted -= {page.path for page in found}
    if unlisted:
        raise SiteError(f"not in the navigation of docs/site.toml: {sorted(unlisted)}")
    return found


def read(path: str, section: str) -> Page:
    text = (DOCS / path).read_text()
    return Page(path, text, section, source=f"docs/{path}")
