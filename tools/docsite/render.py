"""Markdown to HTML: links between pages, code, figures for light and dark."""

import posixpath
import re
from html import unescape
from pathlib import PurePosixPath
from typing import NamedTuple

import markdown as python_markdown

from tools.docsite.pages import Page, relative

EXTENSIONS = (
    *("tables", "attr_list", "md_in_html", "admonition", "def_list", "toc"),
    *("pymdownx.highlight", "pymdownx.superfences"),
)
SETTINGS = {
    "toc": {"permalink": "#", "permalink_title": "Link to this section"},
    "pymdownx.highlight": {"guess_lang": False, "use_pygments": True},
}
LINK = re.compile(r'\b(href|src)="([^"]*)"')
IMAGE = re.compile(r'<img\b[^>]*\bsrc="([^"]+)\.png"[^>]*>')
NAMES = re.compile(
    r"(<a\b.*?</a>|<h\d.*?</h\d>|<pre.*?</pre>)|<code>((?:curta|lax|jnp|nn|random)"
    r"(?:\.\w+)*)(\([^<]*\))?</code>",
    re.DOTALL,
)
SHORT = {"jnp": "curta.numpy", "lax": "curta.lax", "nn": "curta.nn"}
SHORT["random"] = "curta.random"
PROMPTS = re.compile(r"^( *)```(?:python)?\n *>>>", re.MULTILINE)
DARK = ".dark"


class Rendered(NamedTuple):
    """A page as HTML: its body, and its headings (level, anchor, text)."""

    body: str
    headings: list[tuple[int, str, str]]


class Renderer:
    """Turns pages into HTML. `broken` collects links that lead nowhere."""

    def __init__(self, pages: dict[str, Page], files: set[str], names: dict[str, str]):
        self.pages, self.files, self.names = pages, files, names
        self.broken: list[str] = []
        self._markdown = python_markdown.Markdown(
            extensions=list(EXTENSIONS), extension_configs=SETTINGS
        )

    def render(self, page: Page) -> Rendered:
        self._markdown.reset()
        text = PROMPTS.sub(r"\1```pycon\n\1>>>", page.text)
        body = self._markdown.convert(text) + page.tail
        body = NAMES.sub(lambda m: self._named(m, page), body)
        body = IMAGE.sub(lambda m: self._both(m, page), body)
        body = LINK.sub(lambda m: self._linked(m, page), body)
        body = body.replace("<table>", '<div class="table"><table>')
        body = body.replace("</table>", "</table></div>")
        headings = list(_headings(self._markdown.toc_tokens))
        return Rendered(body, headings)

    def target(self, link: str, page: Page) -> str:
        """Return the link for a path written relative to the page's source."""
        path, mark, anchor = link.partition("#")
        folder = posixpath.dirname(page.path)
        there = posixpath.normpath(posixpath.join(folder, path)) if path else page.path
        if there in self.pages:
            url = relative(self.pages[there].url, page.url) if path else ""
        elif there in self.files:
            url = relative(there, page.url)
        else:
            self.broken.append(f"{page.path}: no page or file {link}")
            return link
        return url + mark + anchor

    def _linked(self, match: re.Match[str], page: Page) -> str:
        link = match[2]
        if re.match(r"[a-z]+:|#|$", link):
            return match[0]
        return f'{match[1]}="{self.target(link, page)}"'

    def _named(self, match: re.Match[str], page: Page) -> str:
        """Link the name of a public object in prose to its page."""
        if match[2] is None:
            return match[0]
        first, dot, rest = match[2].partition(".")
        name = SHORT.get(first, first) + dot + rest
        path = self.names.get(name)
        if path is None or not dot or name == page.name:
            return match[0]
        link = posixpath.relpath(path, posixpath.dirname(page.path) or ".")
        return f'<a class="name" href="{link}">{match[0]}</a>'

    def _both(self, match: re.Match[str], page: Page) -> str:
        """Show the dark version of a figure on dark pages, where there is one."""
        folder = PurePosixPath(page.path).parent
        dark = posixpath.normpath(str(folder / f"{match[1]}{DARK}.png"))
        light = match[0].replace("<img", '<img loading="lazy"')
        if dark not in self.files:
            return light
        other = light.replace(f"{match[1]}.png", f"{match[1]}{DARK}.png")
        return (
            f'<span class="light-only">{light}</span>'
            f'<span class="dark-only">{other}</span>'
        )


def _headings(tokens: list[dict]) -> list[tuple[int, str, str]]:
    for token in tokens:
        if token["level"] > 1:
            yield token["level"], token["id"], re.sub(r"<[^>]+>", "", token["name"])
        yield from _headings(token["children"])


def text_of(html: str) -> str:
    """The words of a page, for the search index."""
    html = re.sub(r"<pre>.*?</pre>|<h1.*?</h1>", " ", html, flags=re.DOTALL)
    html = re.sub(r'<details class="source">.*', " ", html, flags=re.DOTALL)
    html = re.sub(r'<a class="headerlink".*?</a>', " ", html)
    html = re.sub(r"</?(p|li|h\d|td|th|tr|div|ul|table)\b", r" \g<0>", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())
