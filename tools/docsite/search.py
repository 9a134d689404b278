"""The search index: a JavaScript file, so that it loads from a disk as well."""

import json
from collections.abc import Iterable
from typing import Any

from tools.docsite.pages import Page, SiteError, shortened
from tools.docsite.reference import members, namespaces
from tools.docsite.render import Rendered, text_of

LONGEST = {"guide": 6000, "list": 600, "function": 400}


def entry(page: Page, rendered: Rendered) -> dict[str, Any]:
    """The index entry of a page: t title, u url, h headings, b body, k kind."""
    body = shortened(text_of(rendered.body), LONGEST[page.kind])
    headings = [[text, anchor] for _, anchor, text in rendered.headings]
    if page.kind == "function":
        headings = []
    return {
        "t": page.title,
        "u": page.url,
        "s": page.section,
        "k": page.kind[0],
        "h": headings,
        "b": body,
    }


def primitives(pages: dict[str, Page]) -> Iterable[dict[str, Any]]:
    for namespace in namespaces():
        for name in members(namespace):
            if name.is_primitive:
                path, _, anchor = name.path.partition("#")
                url = f"{pages[path].url}#{anchor}"
                body = "Primitive, as it appears in jaxprs."
                row = {"t": name.full, "u": url, "s": "Reference", "k": "f"}
                yield row | {"h": [], "b": body}


def check(entries: list[dict[str, Any]]) -> None:
    """Raise SiteError if a public name, or a namespace, has no entry of its own."""
    titles = {e["t"] for e in entries}
    wanted = {n.full for space in namespaces() for n in members(space)}
    missing = sorted((wanted | {*namespaces()}) - titles)
    if missing:
        raise SiteError(f"public names that search does not find: {missing}")


def script(entries: list[dict[str, Any]]) -> str:
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
    return f"window.searchIndex={text};\n"
